//! The charm that an application and its units run after a refresh.

use crate::support::*;
use api::{Handle, KeptRevision, Refresh, ResolveUnit, ShowUnit};
use state::charm::Charm;
use state::documents::draft::Draft;
use state::lifecycle::archive;
use state::terms::activity::Activity;
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::operation::{CharmRef, Hook, Operation};
use state::terms::refusal::application::ApplicationRefusal;
use state::unit::record::Outcome;

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

#[tokio::test]
async fn a_refresh_names_the_units_in_error_and_resolved_the_revision_that_runs() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    register(&fixture, "newer", "web").await;
    let charm = CharmRef {
        url: "local:web-0".to_owned(),
        revision: 0,
        sha256: "web".to_owned(),
        endpoints: Default::default(),
        resources: String::new(),
    };
    let mut agents = [fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await];
    for web in &mut agents {
        let record = web.record(Operation::InstallCharm(charm.clone()));
        web.commit(record).await;
    }
    let [_, second] = &mut agents;
    let mut failed = second.record(Operation::Hook(Hook::Install));
    failed.outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    second.commit(failed).await;
    let refreshed = fixture.admin.handle(refresh("newer")).await.expect("the same charm").answer;
    let unit = UnitName::new("web", 1);
    let kept = KeptRevision { unit: unit.clone(), charm_url: "local:web-0".to_owned() };
    assert_eq!((refreshed.charm.url.as_str(), refreshed.kept), ("local:web-1", vec![kept]));
    let resolve = || ResolveUnit { unit: unit.clone().into(), retry: true };
    let runs = async |fixture: &Fixture<_, _>| {
        let run = fixture.admin.handle(resolve()).await.expect("it is in error").answer.expect("it exists");
        assert_eq!((&run.unit, run.activity), (&unit, Activity::hook(HookName::Install)));
        run.revisions.map(|revisions| (revisions.runs, revisions.follows))
    };
    let follows = Some("local:web-1".to_owned());
    assert_eq!(runs(&fixture).await, Some(("local:web-0".to_owned(), follows)));
    let forced = Refresh { forced: true, ..refresh("newer") };
    let refreshed = fixture.admin.handle(forced).await.expect("the same charm").answer;
    assert_eq!(refreshed.kept, [], "they are included");
    assert_eq!(runs(&fixture).await, Some(("local:web-2".to_owned(), None)), "each refresh is a revision");
}
