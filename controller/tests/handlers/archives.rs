//! Charm archives: a unit fetches only its own archive, a lost archive is reported, and an unused one is removed.

use crate::support::*;
use api::error::ErrorCode;
use api::{
    Deploy, EntityChoice, FetchArchive, FindArchive, Force, GetStatus, GetWhy, Handle, Refresh,
    RemoveApplication, UploadArchive,
};
use controller::Environment;
use controller::janitor::{ARCHIVE_GRACE_MS, Janitor};
use state::charm::Charm;
use state::documents::draft::Draft;
use state::documents::prelude::{GLOBAL, Kind};
use state::lifecycle::archive;
use state::terms::cause::Duty;
use state::terms::names::UnitName;
use state::terms::operation::{CharmRef, Operation};
use state::terms::status_message::StatusMessage;
use std::collections::BTreeMap;
use std::sync::Arc;
use test_support::memory_store::MemoryStore;

#[tokio::test]
async fn a_unit_fetches_archives_of_its_own_charm_only() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let own = web
        .api
        .handle(FetchArchive { sha256: "web".to_owned() })
        .await
        .expect_err("registered, but its file was never stored");
    assert_eq!(own.code, ErrorCode::Unavailable);
    let other =
        web.api.handle(FetchArchive { sha256: "db".to_owned() }).await.expect_err("another application's");
    let none = web.api.handle(FetchArchive { sha256: "no".to_owned() }).await.expect_err("it does not exist");
    assert_eq!((other.code, none.code), (ErrorCode::NotFound, ErrorCode::NotFound));
    assert_eq!(other.message.replace("db", "no"), none.message, "indistinguishable");
}

#[tokio::test]
async fn a_lost_archive_is_reported_with_a_hint() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let error = web
        .api
        .handle(FetchArchive { sha256: "web".to_owned() })
        .await
        .expect_err("it was registered, but its file was never stored");
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.hint.is_some(), "{error}");
    assert_eq!(
        web.api
            .handle(FetchArchive { sha256: "../client.yaml".to_owned() })
            .await
            .expect_err("no digest")
            .code,
        ErrorCode::NotFound
    );
}

/// Whether `why` names the archive that the unit lacks, and whether the status shows that a file is missing.
async fn named(fixture: &MemoryFixture, sha256: &str) -> [bool; 2] {
    let unit = UnitName::new("tiny", 0);
    let entity = EntityChoice::Unit(unit.clone());
    let why = fixture.admin.handle(GetWhy { entity }).await.expect("an explanation");
    let missing = Duty::RestoreFile { application: "tiny".to_owned(), sha256: sha256.to_owned() };
    let status = fixture.admin.handle(GetStatus).await.expect("a status");
    let agent = &status.applications["tiny"].units[&unit].agent;
    let is_shown = agent.message == StatusMessage::FileMissing { unit: unit.clone() };
    [why.causes.iter().any(|cause| cause.duty == missing), is_shown]
}

#[tokio::test]
async fn a_lost_archive_is_shown_until_it_is_uploaded_again() {
    let fixture = Fixture::in_memory().await;
    let sha256 = upload(&fixture, "lost").await;
    deploy(&fixture, &sha256).await;
    let agent = fixture.attach_agent("tiny/0").await;
    let fetch = || agent.api.handle(FetchArchive { sha256: sha256.clone() });
    fixture.controller.environment.delete_stored_file(&sha256, 0).await;
    assert_eq!(named(&fixture, &sha256).await, [false; 2], "its agent has not requested it");
    fetch().await.expect_err("it is lost");
    assert_eq!(named(&fixture, &sha256).await, [true; 2]);
    assert_eq!(upload(&fixture, "lost").await, sha256);
    fetch().await.expect("it was uploaded again");
    assert_eq!(named(&fixture, &sha256).await, [false; 2]);
}

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

fn tiny_charm(summary: &str) -> Vec<u8> {
    archive_bytes(&Charm { name: "tiny".to_owned(), summary: summary.to_owned(), ..Charm::default() })
}

async fn upload(fixture: &MemoryFixture, summary: &str) -> String {
    fixture.admin.handle(UploadArchive(tiny_charm(summary))).await.expect("it is stored").sha256
}

async fn deploy(fixture: &MemoryFixture, sha256: &str) {
    let sha256 = sha256.to_owned();
    let deploy = Deploy {
        application: None,
        sha256,
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    fixture.admin.handle(deploy).await.expect("the deployment succeeds");
}

/// Sweeps until the janitor has nothing to do. Repeats that, because archives become unused only after their ended uses
/// were deleted.
async fn sweep(fixture: &MemoryFixture, janitor: &mut Janitor) {
    for _ in 0..3 {
        while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
    }
}

/// Whether the archive is registered, and whether its file is stored.
async fn is_there(fixture: &MemoryFixture, sha256: &str) -> (bool, bool) {
    let key = GLOBAL.archive(sha256).text().to_owned();
    let is_registered = fixture.controller.read(move |reader| reader.get(&key).is_some()).await;
    (is_registered, fixture.controller.environment.stored_files().await.contains_key(sha256))
}

#[tokio::test]
async fn an_archive_without_use_is_removed_after_the_grace_period() {
    let fixture = Fixture::in_memory().await;
    let sha256 = upload(&fixture, "never deployed").await;
    let mut janitor = Janitor::default();
    sweep(&fixture, &mut janitor).await;
    fixture.advance(ARCHIVE_GRACE_MS - 1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &sha256).await, (true, true));
    // A client that receives the answer that the archive is stored is about to deploy it.
    let found = fixture.admin.handle(FindArchive { sha256: sha256.clone() }).await.expect("an answer");
    assert!(found.is_some());
    fixture.advance(ARCHIVE_GRACE_MS - 1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &sha256).await, (true, true));
    // The janitor does not read the uses of archives in every sweep.
    fixture.advance(ARCHIVE_GRACE_MS / 10);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &sha256).await, (false, false));
}

#[tokio::test]
async fn an_archive_is_kept_while_an_application_or_a_unit_uses_it() {
    let fixture = Fixture::in_memory().await;
    let mut janitor = Janitor::default();
    let first = upload(&fixture, "0").await;
    deploy(&fixture, &first).await;
    let mut agent = fixture.attach_agent("tiny/0").await;
    let charm = CharmRef {
        url: "local:tiny-0".to_owned(),
        revision: 0,
        sha256: first.clone(),
        endpoints: Default::default(),
        resources: String::new(),
    };
    let record = agent.record(Operation::InstallCharm(charm));
    agent.commit(record).await;
    // The application keeps its eight previous archives in use.
    for number in 1..=10 {
        let sha256 = upload(&fixture, &number.to_string()).await;
        let refresh = Refresh { application: "tiny".to_owned(), sha256, ..Refresh::default() };
        fixture.admin.handle(refresh).await.expect("the request is accepted");
    }
    for _ in 0..2 {
        sweep(&fixture, &mut janitor).await;
        fixture.advance(ARCHIVE_GRACE_MS);
    }
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &first).await, (true, true), "the unit runs it");
    let second = host::digest::sha256(&tiny_charm("1"));
    assert_eq!(is_there(&fixture, &second).await, (false, false), "nothing uses it");
    let third = host::digest::sha256(&tiny_charm("2"));
    assert_eq!(is_there(&fixture, &third).await, (true, true), "the oldest that the application remembers");

    let remove =
        RemoveApplication { destroy_storage: false, application: "tiny".to_owned(), force: Force::AtOnce };
    fixture.admin.handle(remove).await.expect("the request is accepted");
    for _ in 0..4 {
        sweep(&fixture, &mut janitor).await;
        fixture.advance(ARCHIVE_GRACE_MS);
    }
    assert!(fixture.controller.environment.stored_files().await.is_empty());
    let uses = fixture.controller.read(|reader| reader.scan(&GLOBAL.prefix(Kind::ArchiveUse), "", 100).len());
    assert_eq!(uses.await, 0);
}

#[tokio::test]
async fn an_upload_of_an_archive_that_is_about_to_be_removed_keeps_it() {
    let fixture = Fixture::in_memory().await;
    let mut janitor = Janitor::default();
    let sha256 = upload(&fixture, "again").await;
    sweep(&fixture, &mut janitor).await;
    fixture.advance(2 * ARCHIVE_GRACE_MS);
    let gate = Arc::new(tokio::sync::Notify::new());
    *fixture.controller.environment.upload_gate.lock().expect("no holder panics") = Some(gate.clone());
    let mut second = std::pin::pin!(upload(&fixture, "again"));
    // the file is stored, and its document is not written yet
    tokio::select! { biased; _ = &mut second => panic!("the gate is closed"), () = async {} => {} }
    sweep(&fixture, &mut janitor).await;
    gate.notify_one();
    assert_eq!(second.await, sha256);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &sha256).await, (true, true));
}

#[tokio::test]
async fn a_crash_between_document_and_file_leaves_a_file_that_is_deleted_later() {
    let mut fixture = Fixture::in_memory().await;
    let sha256 = upload(&fixture, "crash").await;
    let digest = sha256.clone();
    let remove = move |draft: &mut Draft<'_>| Ok(archive::remove_unused(draft, &digest));
    assert!(fixture.controller.run(remove).await.expect("committed").answer);
    fixture.restart();
    let mut janitor = Janitor::default();
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &sha256).await, (false, true));
    fixture.advance(ARCHIVE_GRACE_MS - 1);
    let found = fixture.admin.handle(FindArchive { sha256: sha256.clone() }).await.expect("an answer");
    assert!(found.is_none(), "a question about an archive that is not registered keeps nothing");
    fixture.advance(1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &sha256).await, (false, false));
}

#[tokio::test]
async fn unused_archives_are_removed_while_another_one_is_being_read() {
    let fixture = Fixture::in_memory().await;
    let mut janitor = Janitor::default();
    let (read, unused) = (upload(&fixture, "read").await, upload(&fixture, "unused").await);
    sweep(&fixture, &mut janitor).await;
    fixture.advance(ARCHIVE_GRACE_MS);
    let gate = Arc::new(tokio::sync::Notify::new());
    *fixture.controller.environment.read_gate.lock().expect("no holder panics") = Some(gate.clone());
    let mut find = std::pin::pin!(fixture.admin.handle(FindArchive { sha256: read.clone() }));
    while fixture.controller.environment.read_gate.lock().expect("no holder panics").is_some() {
        tokio::select! { biased; _ = &mut find => panic!("the gate is closed"), () = tokio::task::yield_now() => {} }
    }
    sweep(&fixture, &mut janitor).await;
    assert_eq!(is_there(&fixture, &unused).await, (false, false));
    gate.notify_one();
    assert!(find.await.expect("an answer").is_some(), "the client is about to deploy it");
    assert_eq!(is_there(&fixture, &read).await, (true, true));
}
