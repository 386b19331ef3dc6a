//! A rotation of the key of secrets: the janitor seals all contents again, and a crash at any point loses none.

use crate::support::*;
use api::error::ErrorCode;
use api::{AddSecret, Handle, InModel, RevealSecret, SealSecret};
use controller::Controller;
use controller::janitor::Janitor;
use controller::secret_keys::SecretKeys;
use state::documents::draft::read_all;
use state::documents::prelude::{Kind, SecretContentDoc};
use state::terms::operation::{Hook, Operation};
use state::terms::refusal::secret::SecretRefusal;
use state::terms::secret::{SecretContent, SecretOwnerKind};
use state::unit::secrets::SecretWrite;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use test_support::memory_store::MemoryStore;

/// More than one sweep seals again.
const SECRETS: usize = 60;

fn content(number: usize) -> SecretContent {
    SecretContent(BTreeMap::from([("value".to_owned(), format!("{number:04}"))]))
}

/// Another process of the controller, which reads the key file again.
fn restart(fixture: &mut Fixture<MemoryStore, FakeEnvironment>, path: &Path) {
    let keys = SecretKeys::open(path.to_owned()).expect("the file is whole");
    let mut environment = fixture.controller.environment.clone();
    environment.secret_keys = Arc::new(keys);
    let store = fixture.controller.store.clone();
    fixture.controller = Controller::new(store, environment, fixture.controller.id);
    fixture.admin = fixture.controller.caller(fixture.admin.principal.clone()).in_model("dev");
}

async fn sealed(fixture: &Fixture<MemoryStore, FakeEnvironment>) -> Vec<String> {
    let model = fixture.model;
    let all = fixture
        .controller
        .read(move |reader| read_all::<SecretContentDoc>(reader, &model.prefix(Kind::SecretContent)));
    all.await.into_iter().map(|(_, content)| content.sealed).collect()
}

async fn require_all_open(fixture: &Fixture<MemoryStore, FakeEnvironment>) {
    for number in 0..SECRETS {
        let reveal = RevealSecret { secret: format!("secret-{number}"), revision: None };
        assert_eq!(fixture.admin.handle(reveal).await, Ok(content(number)));
    }
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_rotation_loses_no_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret-keys.yaml");
    SecretKeys::open(path.clone()).expect("there is none").rotate().expect("the first key is written");
    let mut fixture = Fixture::in_memory().await;
    restart(&mut fixture, &path);
    for number in 0..SECRETS {
        let (name, description) = (format!("secret-{number}"), String::new());
        fixture
            .admin
            .handle(AddSecret { name, description, content: content(number) })
            .await
            .expect("it is added");
    }
    let before = sealed(&fixture).await;
    // the command adds a key; what a crash before the file was replaced leaves behind is ignored
    let left = folder.path().join(format!(".secret-keys.yaml.{:032x}", 7));
    std::fs::write(left, "keys: [{id:").expect("it is ours");
    SecretKeys::open(path.clone()).expect("the file is whole").rotate().expect("it is written");
    require_all_open(&fixture).await;
    restart(&mut fixture, &path);
    require_all_open(&fixture).await;
    Janitor::default().sweep(&fixture.controller).await.expect("the sweep succeeds");
    let newest = |sealed: &[String]| {
        sealed.iter().filter(|sealed| fixture.controller.environment.secret_keys.is_newest(sealed)).count()
    };
    let half = sealed(&fixture).await;
    assert!((1..SECRETS).contains(&newest(&half)), "one sweep seals a part of them again");
    assert!(before.iter().all(|sealed| !fixture.controller.environment.secret_keys.is_newest(sealed)));
    restart(&mut fixture, &path);
    require_all_open(&fixture).await;
    let mut janitor = Janitor::default();
    while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
    let keys = &fixture.controller.environment.secret_keys;
    assert!(sealed(&fixture).await.iter().all(|sealed| keys.is_newest(sealed)));
    require_all_open(&fixture).await;
}

/// The hook tools refuse such keys: users see them with `show-secret`.
#[tokio::test]
async fn a_unit_seals_no_content_with_an_invalid_key() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let agent = fixture.attach_agent("web/0").await;
    let seal = |key: &str, value: &str| SealSecret {
        epoch: agent.epoch,
        secret: None,
        owner: SecretOwnerKind::Unit,
        content: SecretContent(BTreeMap::from([(key.to_owned(), value.to_owned())])),
    };
    agent.api.handle(seal("password", "no base64")).await.expect("as secret-add key#base64=value stores it");
    for key in ["bad key\n\u{1b}[31m", "", &"K".repeat(300_000)] {
        let refused = agent.api.handle(seal(key, "YQ==")).await.expect_err(key);
        assert_eq!(refused.code, ErrorCode::Invalid);
        assert!(refused.message.len() < 500, "the refusal repeats only the beginning of the key");
    }
}

/// 1. The key is rotated, and a secret is added. 2. A person puts an older key file back, or deletes it. 3. The controller
/// is restarted before the next secret is added.
#[tokio::test]
async fn a_key_file_that_lacks_a_key_is_completed_by_the_next_sweep() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret-keys.yaml");
    SecretKeys::open(path.clone()).expect("there is none").rotate().expect("the first key is written");
    let older = std::fs::read(&path).expect("it was written");
    SecretKeys::open(path.clone()).expect("the file is whole").rotate().expect("it is written");
    let mut fixture = Fixture::in_memory().await;
    restart(&mut fixture, &path);
    let (name, description) = ("secret-0".to_owned(), String::new());
    fixture.admin.handle(AddSecret { name, description, content: content(0) }).await.expect("it is added");
    for put_back in [Some(older), None] {
        match put_back {
            Some(older) => std::fs::write(&path, older).expect("it is ours"),
            None => std::fs::remove_file(&path).expect("it exists"),
        }
        Janitor::default().sweep(&fixture.controller).await.expect("the sweep succeeds");
        restart(&mut fixture, &path);
        let reveal = RevealSecret { secret: "secret-0".to_owned(), revision: None };
        assert_eq!(fixture.admin.handle(reveal).await, Ok(content(0)));
    }
}

/// 1. A unit commits a content that the controller has not sealed, or has sealed for another secret. 2. Stored, it would be
/// the first content that the next start opens, as a sign of a lost key.
#[tokio::test]
async fn a_content_that_the_controller_cannot_open_is_refused_and_the_hook_runs_again() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut agent = fixture.attach_agent("web/0").await;
    let seal = |secret| SealSecret {
        epoch: agent.epoch,
        secret,
        owner: SecretOwnerKind::Unit,
        content: SecretContent(BTreeMap::from([("password".to_owned(), "YQ==".to_owned())])),
    };
    let own = agent.api.handle(seal(None)).await.expect("it is sealed");
    let other = agent.api.handle(seal(None)).await.expect("it is sealed");
    for (text, refusal) in [
        ("1.deadbeef.AAAA".to_owned(), Some(SecretRefusal::Sealed { id: own.secret })),
        (other.sealed, Some(SecretRefusal::Sealed { id: own.secret })),
        (own.sealed, None),
    ] {
        let mut record = agent.record(Operation::Hook(Hook::Install));
        let created = Some(SecretOwnerKind::Unit);
        let write = SecretWrite { created, sealed: Some(text), ..SecretWrite::default() };
        record.writes.secrets.insert(own.secret, write);
        let stored = usize::from(refusal.is_none());
        assert_eq!(agent.commit(record).await.answer.refusal, refusal.map(Into::into));
        assert_eq!(sealed(&fixture).await.len(), stored);
    }
}
