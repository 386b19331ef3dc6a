//! The charm that an application and its units run after a refresh.

use crate::support::*;
use api::{Handle, Refresh, ShowUnit};
use state::charm::Charm;
use state::documents::draft::Draft;
use state::lifecycle::archive;
use state::terms::operation::{CharmRef, Operation};
use state::terms::refusal::application::ApplicationRefusal;

async fn register(
    fixture: &Fixture<test_support::memory_store::MemoryStore, FakeEnvironment>,
    sha256: &'static str,
    name: &str,
) {
    let charm = Charm { name: name.to_owned(), ..Charm::default() };
    let register = move |draft: &mut Draft<'_>| {
        archive::register(draft, sha256, Some(charm.clone()), 10);
        Ok(())
    };
    fixture.controller.run(register).await.expect("the request is accepted");
}

fn refresh(sha256: &str) -> Refresh {
    Refresh { application: "web".to_owned(), sha256: sha256.to_owned(), ..Refresh::default() }
}

#[tokio::test]
async fn a_refresh_to_a_charm_of_another_name_is_refused() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    register(&fixture, "other", "other").await;
    register(&fixture, "newer", "web").await;
    let error = fixture.admin.handle(refresh("other")).await.expect_err("another charm");
    let name = str::to_owned;
    let other = ApplicationRefusal::OtherCharm {
        application: name("web"),
        current: name("web"),
        charm: name("other"),
    };
    assert_eq!(error.message, message(other));
    fixture.admin.handle(refresh("newer")).await.expect("the same charm");
}

#[tokio::test]
async fn a_unit_is_shown_with_the_charm_that_it_runs() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    register(&fixture, "newer", "web").await;
    let mut web = fixture.attach_agent("web/0").await;
    let charm = |url: &str| CharmRef {
        url: url.to_owned(),
        revision: 0,
        sha256: "web".to_owned(),
        endpoints: Default::default(),
        resources: String::new(),
    };
    let record = web.record(Operation::InstallCharm(charm("local:web-0")));
    web.commit(record).await;
    fixture.admin.handle(refresh("newer")).await.expect("the request is accepted");
    let charm_url_of_unit = || async {
        fixture
            .admin
            .handle(ShowUnit { unit: "web/0".parse().expect("a unit") })
            .await
            .expect("it exists")
            .charm_url
    };
    assert_eq!(charm_url_of_unit().await, "local:web-0", "it has not taken the new one yet");
    let record = web.record(Operation::InstallCharm(charm("local:web-1")));
    web.commit(record).await;
    assert_eq!(charm_url_of_unit().await, "local:web-1");
}
