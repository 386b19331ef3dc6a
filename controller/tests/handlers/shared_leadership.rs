//! Leases of leaders in etcd: two controllers grant the leadership of one application.

use crate::support::*;
use api::error::ErrorCode;
use api::{Claim, Handle, InModel, RemoveUnit};
use controller::Controller;
use controller::environment::uuid_v4;
use controller::store::Store as _;
use controller::store::etcd::{Etcd, Options};
use state::documents::prelude::TokenHolder;
use state::lifecycle::leadership::GrantedLease;
use state::terms::force::Force;
use state::terms::names::Uuid;
use std::sync::Arc;
use test_support::etcd_cluster::EtcdCluster;

/// Two controllers over one etcd, with the units web/0 and web/1.
struct Scene {
    cluster: Arc<EtcdCluster>,
    options: Options,
    first: Fixture<Etcd, FakeEnvironment>,
    second: Fixture<Etcd, FakeEnvironment>,
}

impl Scene {
    async fn new() -> Scene {
        let cluster = EtcdCluster::shared();
        let random = || Uuid(host::random::random_u128());
        let prefix = format!("/leadership/{}", random());
        let options =
            Options { prefix, ..Options::new(cluster.addresses(), uuid_v4(1), uuid_v4(77), random()) };
        let first = Fixture::new(controller(&options).await).await;
        first.deploy("web", 2).await;
        let second = controller(&options).await;
        let admin = second.caller(first.admin.principal.clone()).in_model("dev");
        let second = Fixture { model: first.model, admin, controller: second };
        Scene { cluster, options, first, second }
    }

    /// The key of the lease of web.
    fn key(&self) -> Option<String> {
        let keys = self.cluster.keys(&format!("{}/m/leader/", self.options.prefix));
        assert!(keys.len() <= 1, "{keys:?}");
        keys.into_iter().next()
    }

    /// Ends the lease of web, as its expiry does. The controllers have not noticed it when this returns.
    fn expire(&self) {
        let (lease, _) = self.cluster.lease(&self.key().expect("there is a lease"));
        assert!(self.cluster.etcdctl(&["lease", "revoke", &lease]));
    }
}

async fn controller(options: &Options) -> Arc<Controller<Etcd, FakeEnvironment>> {
    let handle = Uuid(host::random::random_u128());
    let store = Etcd::open(Options { handle, ..options.clone() }).await.expect("opens");
    Controller::new(store, FakeEnvironment::new(), uuid_v4(1))
}

/// The epoch of the only session of each unit.
const EPOCH: u64 = 1;

/// Claims the leadership for a unit through a controller, or releases it.
async fn ask(
    of: &Fixture<Etcd, FakeEnvironment>,
    unit: &str,
    release: bool,
) -> Result<Option<GrantedLease>, api::error::ApiError> {
    let unit = of.unit(unit).await;
    let caller = of.controller.caller(TokenHolder::Unit { model: of.model, unit });
    caller.handle(Claim { epoch: EPOCH, release, view: None }).await.map(|answer| answer.lease)
}

/// Claims until the answer is this one: an expiry reaches each controller by its watch.
async fn claims(of: &Fixture<Etcd, FakeEnvironment>, unit: &str) -> GrantedLease {
    loop {
        if let Some(lease) = ask(of, unit, false).await.expect("answered") {
            return lease;
        }
    }
}

#[tokio::test]
async fn one_unit_leads_whichever_controllers_are_asked_until_the_key_is_absent() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    second.attach_agent("web/1").await;
    let granted = ask(first, "web/0", false).await.expect("answered").expect("it was never led");
    for of in [first, second, first] {
        assert_eq!(ask(of, "web/1", false).await, Ok(None));
        assert_eq!(ask(of, "web/0", false).await, Ok(Some(granted)), "renewed by any controller");
    }
    // 1. The lease ends. 2. web/1 takes it. 3. The document names web/0 no longer, and its renewal finds the other lease.
    scene.expire();
    let taken = claims(second, "web/1").await;
    assert!(taken.generation > granted.generation);
    for of in [first, second] {
        assert_eq!(ask(of, "web/0", false).await, Ok(None));
    }
    // The holder itself continues after its lease has ended.
    scene.expire();
    assert_eq!(ask(first, "web/1", false).await, Ok(Some(taken)));
    assert!(scene.key().is_some());
    // The same before its controller has noticed the end: a lease that has ended is not renewed.
    let (application, unit) = (application_of(first, "web/1").await, first.unit("web/1").await);
    let leases = first.controller.store.leader_leases().expect("etcd keeps leases");
    scene.expire();
    assert!(leases.take(application, unit, None).await.expect("answered"));
    assert!(scene.key().is_some());
}

/// 1. web/1 has taken the lease, and its controller dies before the document names it. 2. The document still names web/0,
/// which must not be told that it leads: another controller may be about to commit.
#[tokio::test]
async fn a_unit_whose_lease_another_one_has_taken_does_not_lead() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    let granted = claims(first, "web/0").await;
    let application = application_of(first, "web/0").await;
    scene.expire();
    let leases = second.controller.store.leader_leases().expect("etcd keeps leases");
    let (web_0, web_1) = (first.unit("web/0").await, first.unit("web/1").await);
    assert!(take(&leases, application, web_1).await);
    assert_eq!(ask(first, "web/0", false).await, Ok(None));
    assert!(!leases.take(application, web_0, None).await.expect("answered"));
    scene.expire();
    assert_eq!(claims(first, "web/0").await, granted, "the document has named it all the time");
}

/// Takes the lease as soon as the expiry of the one before has reached this controller.
async fn take(leases: &controller::store::leader_leases::StoreLeases, application: Uuid, unit: Uuid) -> bool {
    while leases.holder(application).is_some() {
        tokio::task::yield_now().await;
    }
    leases.take(application, unit, None).await.expect("answered")
}

async fn application_of(fixture: &Fixture<Etcd, FakeEnvironment>, unit: &str) -> Uuid {
    let (model, unit) = (fixture.model, fixture.unit(unit).await);
    let read = move |reader: &dyn state::documents::draft::Reader| {
        state::documents::draft::read(reader, &model.unit(unit)).map(|doc| doc.application)
    };
    fixture.controller.read(read).await.expect("it exists")
}

#[tokio::test]
async fn a_release_and_the_removal_of_the_leader_end_its_lease_at_once() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    second.attach_agent("web/1").await;
    claims(first, "web/0").await;
    assert_eq!(ask(second, "web/0", true).await, Ok(None), "released through another controller");
    assert_eq!(scene.key(), None);
    claims(second, "web/1").await;
    let unit = "web/1".parse().expect("a name");
    let remove = RemoveUnit { unit, force: Force::AtOnce, destroy_storage: false };
    first.admin.handle(remove).await.expect("accepted");
    first.run_janitor().await;
    assert!(scene.key().is_some(), "its lease has not ended by itself");
    let lease = ask(first, "web/0", false).await.expect("answered");
    assert!(lease.is_some(), "the lease of a unit that is gone is replaced at once");
    assert_eq!(ask(second, "web/0", false).await, Ok(lease));
}

#[tokio::test]
async fn an_older_session_is_refused_also_without_the_lease() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    second.attach_agent("web/1").await;
    claims(first, "web/0").await;
    let unit = first.unit("web/1").await;
    Agent::attach(first.controller.caller(TokenHolder::Unit { model: first.model, unit }), 2).await;
    let refused = ask(second, "web/1", false).await.expect_err("a newer agent has attached");
    assert_ne!(refused.code, ErrorCode::Unavailable);
}

/// 1. A unit leads, and attaches again: after a migration or a restore, or another process of it is the newest. 2. The older
/// session sends one more claim. The unit may have received that it leads, so that nobody else may lead yet.
#[tokio::test]
async fn a_claim_of_an_older_session_does_not_end_the_lease_of_its_unit() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    second.attach_agent("web/1").await;
    claims(first, "web/0").await;
    let unit = first.unit("web/0").await;
    Agent::attach(first.controller.caller(TokenHolder::Unit { model: first.model, unit }), 2).await;
    ask(first, "web/0", false).await.expect_err("a newer agent has attached");
    assert!(scene.key().is_some(), "the lease goes on");
    assert_eq!(ask(second, "web/1", false).await, Ok(None));
    scene.expire();
    ask(first, "web/0", false).await.expect_err("a newer agent has attached");
    assert!(scene.key().is_none(), "nor does it take the lease");
}

/// A start counts as a renewal: another engine, or an etcd that was restored since, may have told a unit that it leads.
#[tokio::test]
async fn a_start_takes_the_leases_of_leaders_that_have_none() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    second.attach_agent("web/1").await;
    let granted = claims(first, "web/0").await;
    let (application, unit) = (application_of(first, "web/0").await, first.unit("web/0").await);
    let leases = second.controller.store.leader_leases().expect("etcd keeps leases");
    leases.take_for_leaders(vec![(application, first.unit("web/1").await)]).await.expect("answered");
    assert_eq!(ask(first, "web/0", false).await, Ok(Some(granted)), "a lease that has not ended stays");
    scene.expire();
    while leases.holder(application).is_some() {
        tokio::task::yield_now().await;
    }
    // While another controller serves, only the leader itself renews its lease: it may be gone.
    let serving = first.controller.store.statements().expect("etcd keeps them");
    serving.renew("192.0.2.1:1").await.expect("etcd runs");
    let others = || second.controller.store.statements().expect("etcd keeps them").others();
    while others().is_empty() {
        tokio::task::yield_now().await;
    }
    leases.take_for_leaders(vec![(application, unit)]).await.expect("answered");
    assert!(scene.key().is_none());
    serving.end().await.expect("etcd runs");
    while !others().is_empty() {
        tokio::task::yield_now().await;
    }
    leases.take_for_leaders(vec![(application, unit)]).await.expect("answered");
    assert_eq!(ask(second, "web/1", false).await, Ok(None));
    assert_eq!(ask(second, "web/0", false).await, Ok(Some(granted)));
}

/// Heartbeats of idle units must not fill etcd.
#[tokio::test]
async fn a_renewal_writes_nothing() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    second.attach_agent("web/1").await;
    claims(first, "web/0").await;
    assert_eq!(ask(second, "web/1", false).await, Ok(None));
    let (_, seconds) = scene.cluster.lease(&scene.key().expect("there is a lease"));
    assert_eq!(seconds, "60");
    let before = scene.cluster.revisions(&format!("{}/", scene.options.prefix));
    for of in [first, second] {
        assert!(ask(of, "web/0", false).await.expect("answered").is_some());
        assert_eq!(ask(of, "web/1", false).await, Ok(None));
    }
    assert_eq!(scene.cluster.revisions(&format!("{}/", scene.options.prefix)), before);
}
