//! The presence of agents that are attached to one of two controllers, over one etcd.

use crate::support::*;
use api::error::ErrorCode;
use api::{
    Attach, Claim, GetStatus, Handle, InModel, RemoveUnit, Report, ReportPresence, ReportUnitHealth, Watch,
    WatchUnit,
};
use controller::environment::uuid_v4;
use controller::presence::{LATE_AFTER_MS, LOST_AFTER_MS, PresenceSnapshot};
use controller::store::Store as _;
use controller::store::etcd::{Etcd, Options};
use controller::{Controller, Environment};
use state::documents::draft::Draft;
use state::documents::prelude::TokenHolder;
use state::lifecycle::archive;
use state::status::presence::PresenceReader;
use state::terms::activity::Activity;
use state::terms::force::Force;
use state::terms::health::{ProcessEnd, UnitAgentExit, UnitHealth};
use state::terms::hook_name::HookName;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use std::sync::Arc;
use test_support::etcd_cluster::EtcdCluster;

mod ended_leases;

type System = Fixture<Etcd, FakeEnvironment>;

/// Two controllers, each with clocks of its own, and the unit web/0.
struct Scene {
    cluster: Arc<EtcdCluster>,
    options: Options,
    first: System,
    second: System,
    unit: Uuid,
    machine: Uuid,
}

impl Scene {
    async fn new() -> Scene {
        let cluster = EtcdCluster::shared();
        let random = || Uuid(host::random::random_u128());
        let prefix = format!("/presence/{}", random());
        let options =
            Options { prefix, ..Options::new(cluster.addresses(), uuid_v4(1), uuid_v4(77), random()) };
        let first = Fixture::new(controller(&options).await).await;
        first.deploy("web", 1).await;
        let second = joined(&options, &first).await;
        let unit = first.unit("web/0").await;
        let machine = first.machine_of_unit(unit).await;
        Scene { cluster, options, first, second, unit, machine }
    }

    fn unit_agent(&self, of: &System) -> controller::AuthenticatedCaller<Etcd, FakeEnvironment> {
        of.controller.caller(TokenHolder::Unit { model: of.model, unit: self.unit })
    }

    fn machine_agent(&self, of: &System) -> controller::AuthenticatedCaller<Etcd, FakeEnvironment> {
        of.controller.caller(TokenHolder::Machine { model: of.model, machine: self.machine })
    }

    /// A request of the idle unit agent, which its session at the first controller lets it send to any.
    async fn claims_at(&self, of: &System) {
        self.unit_agent(of).handle(Claim { epoch: 1, release: false, view: None }).await.expect("accepted");
    }

    async fn reports_exit_at(&self, of: &System) {
        let exit = UnitAgentExit {
            end: ProcessEnd::Code(101),
            fault: None,
            last_error: None,
            since_ms: 5,
            at_ms: 5,
            count: 1,
        };
        let health = UnitHealth { exit: Some(exit), ..UnitHealth::default() };
        let units = [(self.unit, health)].into();
        self.machine_agent(of).handle(ReportUnitHealth { units }).await.expect("accepted");
    }

    /// Both controllers state what they know, and both have received it when this returns: a reader that has seen a commit
    /// has seen the statements before it.
    async fn settle(&self) {
        for of in [&self.first, &self.second] {
            self.catch_up(&[of]).await;
            of.controller.state_presence().await.expect("etcd runs");
        }
        self.catch_up(&[&self.first, &self.second]).await;
    }

    async fn catch_up(&self, all: &[&System]) {
        let name = format!("barrier-{}", host::random::random_u128());
        let committed = self.first.controller.run(move |draft| {
            archive::register(draft, &name, None, 10);
            Ok(())
        });
        committed.await.expect("committed");
        for of in all {
            of.controller.read(|_| ()).await;
        }
    }

    /// Ends the statements of a controller, as its death does after the length of its lease.
    async fn end(&self, of: &System) {
        let own = self.keys().into_iter().find(|key| self.cluster.value(key).contains(&self.handle_of(of)));
        let (lease, seconds) = self.cluster.lease(&own.expect("it has stated something"));
        assert_eq!(seconds, "30");
        assert!(self.cluster.etcdctl(&["lease", "revoke", &lease]));
    }

    fn handle_of(&self, of: &System) -> String {
        of.controller.store.handle().to_owned()
    }

    fn keys(&self) -> Vec<String> {
        self.cluster.keys(&format!("{}/m/agent/", self.options.prefix))
    }
}

fn presence(of: &System) -> PresenceSnapshot {
    let environment = &of.controller.environment;
    of.controller.presence.snapshot(environment.monotonic_ms(), environment.wall_ms())
}

async fn controller(options: &Options) -> Arc<Controller<Etcd, FakeEnvironment>> {
    let handle = Uuid(host::random::random_u128());
    let store = Etcd::open(Options { handle, ..options.clone() }).await.expect("opens");
    Controller::new(store, FakeEnvironment::new(), uuid_v4(1))
}

/// One more controller of the same system.
async fn joined(options: &Options, first: &System) -> System {
    let controller = controller(options).await;
    let admin = controller.caller(first.admin.principal.clone()).in_model("dev");
    Fixture { model: first.model, admin, controller }
}

fn attach(nonce: u128, boot: &str) -> Attach {
    Attach {
        nonce: Uuid(nonce),
        epoch: 0,
        store_generation: None,
        teardown_started: false,
        boot: boot.to_owned(),
    }
}

#[tokio::test]
async fn each_controller_shows_an_agent_that_falls_silent_at_another_one() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    scene.settle().await;
    second.controller.environment.advance(10 * LOST_AFTER_MS);
    for (passed_ms, is_late, is_lost) in [
        (0, false, false),
        (LATE_AFTER_MS, false, false),
        (1, true, false),
        (LOST_AFTER_MS - LATE_AFTER_MS, true, true),
    ] {
        first.controller.environment.advance(passed_ms);
        scene.settle().await;
        for of in [first, second] {
            let presence = presence(of);
            let shown = (presence.is_late(scene.unit), presence.is_lost(scene.unit));
            assert_eq!((shown, presence.has_reported(scene.unit)), ((is_late, is_lost), true), "{passed_ms}");
        }
    }
    let since = |of| presence(of).last_request_ms(scene.unit);
    assert_eq!(since(second), since(first));
    scene.claims_at(first).await;
    scene.settle().await;
    assert!(!presence(second).is_late(scene.unit));
}

#[tokio::test]
async fn an_agent_that_moves_is_no_longer_observed_by_its_earlier_controller() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    scene.settle().await;
    // The first controller states that the agent is late, before it learns that it has moved.
    first.controller.environment.advance(LATE_AFTER_MS + 1);
    scene.claims_at(second).await;
    first.controller.state_presence().await.expect("etcd runs");
    scene.settle().await;
    first.controller.environment.advance(2 * LOST_AFTER_MS);
    scene.settle().await;
    for of in [first, second] {
        assert!(!presence(of).is_late(scene.unit));
    }
    second.controller.environment.advance(LOST_AFTER_MS + 1);
    scene.settle().await;
    for of in [first, second] {
        assert!(presence(of).is_lost(scene.unit));
    }
}

/// The agent has the full time from the end of its controller, and then is lost for all of them, also for one that was started since.
#[tokio::test]
async fn the_agents_of_a_controller_that_has_ended_have_the_full_time_to_report() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    scene.settle().await;
    second.controller.environment.advance(10 * LOST_AFTER_MS);
    scene.end(first).await;
    scene.catch_up(&[second]).await;
    second.controller.state_presence().await.expect("etcd runs");
    second.controller.environment.advance(LATE_AFTER_MS);
    assert!(!presence(second).is_late(scene.unit));
    second.controller.environment.advance(LOST_AFTER_MS - LATE_AFTER_MS);
    assert!(!presence(second).is_lost(scene.unit));
    second.controller.environment.advance(1);
    assert!(presence(second).is_lost(scene.unit));
    second.controller.state_presence().await.expect("etcd runs");
    let third = joined(&scene.options, first).await;
    assert!(presence(&third).is_lost(scene.unit));
    // One that is lost stays lost when the controller ends that has stated it, and is present as soon as it reports.
    scene.end(second).await;
    scene.catch_up(&[&third]).await;
    assert!(presence(&third).is_lost(scene.unit));
    scene.claims_at(&third).await;
    assert!(!presence(&third).is_late(scene.unit));
}

/// 1. The only controller is stopped, or is killed and started again from its data folder. 2. No agent has reported to the new
///    one: what the earlier process knew is no evidence that they run.
#[tokio::test]
async fn agents_are_to_report_to_the_controller_that_succeeds_another_one() {
    for is_stopped in [true, false] {
        let scene = Scene::new().await;
        let first = &scene.first;
        let statements = |of: &System| of.controller.store.statements().expect("etcd keeps them");
        statements(first).renew("127.0.0.1:1").await.expect("etcd runs");
        first.attach_agent("web/0").await;
        first.controller.state_presence().await.expect("etcd runs");
        if is_stopped {
            statements(first).end().await.expect("etcd runs");
        }
        let recorded = Some(first.controller.store.recorded());
        let next = joined(&Options { recorded, ..scene.options.clone() }, first).await;
        assert!(!presence(&next).has_reported(scene.unit));
        statements(&next).renew("127.0.0.1:1").await.expect("etcd runs");
        assert_eq!(scene.keys(), Vec::<String>::new());
        assert!(!presence(&next).has_reported(scene.unit) && !presence(&next).is_late(scene.unit));
        assert_eq!(statements(&next).others(), []);
        scene.claims_at(&next).await;
        assert!(presence(&next).has_reported(scene.unit));
    }
}

/// Controllers on several hosts may listen on the same text, such as that of all interfaces.
#[tokio::test]
async fn controllers_with_the_same_address_leave_the_statements_of_each_other_alone() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    scene.settle().await;
    let keys = || scene.cluster.revisions(&format!("{}/m/", scene.options.prefix));
    let mut before = None;
    for _ in 0..3 {
        for of in [first, second] {
            let statements = of.controller.store.statements().expect("etcd keeps them");
            statements.renew("0.0.0.0:17070").await.expect("etcd runs");
            let others = statements.others().into_iter().map(|other| other.address);
            if before.is_some() {
                assert_eq!(others.collect::<Vec<_>>(), ["0.0.0.0:17070"]);
            }
        }
        assert_eq!(*before.get_or_insert_with(keys), keys());
    }
    assert!(presence(second).has_reported(scene.unit));
}

/// A controller whose lease has ended because it could not reach etcd states everything again.
#[tokio::test]
async fn a_controller_states_again_what_has_ended_with_its_lease() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    scene.unit_agent(first).handle(attach(1, "first")).await.expect("accepted");
    scene.reports_exit_at(first).await;
    scene.settle().await;
    let before = scene.keys();
    assert!(presence(second).health(scene.unit).is_some());
    scene.end(first).await;
    scene.catch_up(&[first, second]).await;
    assert_eq!((scene.keys(), presence(second).health(scene.unit)), (Vec::new(), None));
    let statements = first.controller.store.statements().expect("etcd keeps them");
    statements.renew("127.0.0.1:1").await.expect("etcd runs");
    first.controller.state_presence().await.expect("etcd runs");
    scene.settle().await;
    assert_eq!(scene.keys(), before);
    for of in [first, second] {
        let presence = presence(of);
        assert_eq!(
            (presence.boot(scene.unit).as_str(), presence.health(scene.unit).is_some()),
            ("first", true)
        );
    }
    let others = second.controller.store.statements().expect("etcd keeps them").others();
    assert_eq!(others.into_iter().map(|other| other.address).collect::<Vec<_>>(), ["127.0.0.1:1"]);
}

/// The machine agent is attached to another controller than the agent of its unit.
#[tokio::test]
async fn the_end_of_an_agent_is_shown_until_it_has_sent_a_request_to_any_controller() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    let is_shown = || [first, second].map(|of| presence(of).health(scene.unit).is_some());
    first.attach_agent("web/0").await;
    scene.settle().await;
    scene.reports_exit_at(second).await;
    scene.settle().await;
    assert_eq!(is_shown(), [true, true]);
    scene.claims_at(first).await;
    scene.settle().await;
    assert_eq!(is_shown(), [false, false]);
    // The same report again: the process has ended again.
    scene.machine_agent(second).watch(api::WatchMachine).await.expect("accepted");
    scene.settle().await;
    scene.reports_exit_at(second).await;
    scene.settle().await;
    assert_eq!(is_shown(), [true, true]);
    scene.machine_agent(first).watch(api::WatchMachine).await.expect("accepted");
    scene.settle().await;
    assert_eq!(is_shown(), [false, false], "the machine agent has moved, and reports again what it observes");
}

/// Whoever sees the commit of an attach must find its boot, without any wait.
#[tokio::test]
async fn a_controller_that_sees_an_attach_knows_its_boot() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    let boots = |boot: &str| {
        let report = ReportPresence { view: None, boot: boot.to_owned() };
        async { scene.machine_agent(second).handle(report).await.expect("accepted") }
    };
    boots("first").await;
    for (nonce, boot) in [(1, "first"), (2, "second")] {
        scene.unit_agent(first).handle(attach(nonce, boot)).await.expect("accepted");
        second.controller.read(|_| ()).await;
        for of in [first, second] {
            let presence = presence(of);
            assert_eq!(presence.boot(scene.unit), boot);
            assert!(!presence.has_rebooted_since_attach(scene.unit, scene.machine));
        }
    }
    boots("second").await;
    boots("third").await;
    scene.catch_up(&[first, second]).await;
    for of in [first, second] {
        assert!(presence(of).has_rebooted_since_attach(scene.unit, scene.machine));
    }
    // A copy of the folder is refused, and its boot is taken back.
    let copy = Attach { epoch: 1, ..attach(9, "copy") };
    scene.unit_agent(second).handle(copy).await.expect_err("an older epoch");
    scene.catch_up(&[first, second]).await;
    for of in [first, second] {
        assert_eq!(presence(of).boot(scene.unit), "second");
        assert!(presence(of).has_rebooted_since_attach(scene.unit, scene.machine));
    }
}

#[tokio::test]
async fn a_second_agent_is_refused_while_one_has_a_stream_at_another_controller() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    let agent = first.attach_agent("web/0").await;
    let stream = agent.api.watch(WatchUnit { epoch: 1, from: None }).await.expect("accepted");
    scene.settle().await;
    for _ in 0..2 {
        let refused = scene.unit_agent(second).handle(attach(2, "")).await.expect_err("one is connected");
        assert_eq!(refused.code, ErrorCode::Blocked);
    }
    drop(stream);
    scene.settle().await;
    scene.unit_agent(second).handle(attach(2, "")).await.expect("accepted");
    let newest = agent.api.watch(WatchUnit { epoch: 1, from: None }).await.err().expect("it is superseded");
    assert_ne!(newest.code, ErrorCode::Unavailable);
}

#[tokio::test]
async fn a_running_hook_is_shown_by_each_controller_and_a_heartbeat_writes_nothing() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    let agent = first.attach_agent("web/0").await;
    let executing = Some(Activity::hook(HookName::Install));
    let report = Report { epoch: 1, run: 1, reports: Vec::new(), executing, executing_for_ms: 100 };
    agent.api.handle(report).await.expect("accepted");
    scene.claims_at(first).await;
    scene.settle().await;
    assert!(presence(second).executing(scene.unit).is_some());
    assert_eq!(presence(second).executing(scene.unit), presence(first).executing(scene.unit));
    let status = async |of: &System| {
        let mut status = of.admin.handle(GetStatus).await.expect("answered");
        status.now_ms = 0;
        serde_json::to_value(status).expect("plain data")
    };
    assert_eq!(status(second).await, status(first).await);
    // The first heartbeat of the machine agent at the second controller is news.
    let heartbeat = ReportPresence { view: None, boot: String::new() };
    scene.machine_agent(second).handle(heartbeat.clone()).await.expect("accepted");
    scene.settle().await;
    let before = scene.cluster.revisions(&format!("{}/m/agent/", scene.options.prefix));
    assert!(before.iter().any(|line| line.contains(&scene.unit.to_string())), "{before:?}");
    for _ in 0..3 {
        first.controller.environment.advance(api::PRESENCE_INTERVAL_MS);
        scene.claims_at(first).await;
        scene.machine_agent(second).handle(heartbeat.clone()).await.expect("accepted");
        for of in [first, second] {
            of.controller.state_presence().await.expect("etcd runs");
        }
    }
    let after = scene.cluster.revisions(&format!("{}/m/agent/", scene.options.prefix));
    assert_eq!(after, before);
}

/// 1. A controller applies the record of a run, and dies before it tells the others. 2. The idle agent moves, and reports
/// nothing. 3. The documents have the record.
#[tokio::test]
async fn a_run_whose_record_was_applied_is_shown_as_executing_by_no_controller() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    let mut agent = first.attach_agent("web/0").await;
    let record = agent.record(Operation::Hook(Hook::Install));
    let executing = Some(Activity::hook(HookName::Install));
    let report = Report { epoch: 1, run: record.run, reports: Vec::new(), executing, executing_for_ms: 100 };
    agent.api.handle(report).await.expect("accepted");
    scene.settle().await;
    let is_executing = async |of: &System| {
        let status = of.admin.handle(GetStatus).await.expect("answered");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        unit.activity == Some(Activity::hook(HookName::Install))
    };
    assert_eq!((is_executing(first).await, is_executing(second).await), (true, true));
    agent.commit(record).await;
    scene.claims_at(second).await;
    assert!(presence(second).executing(scene.unit).is_some(), "the first one has not told its end");
    assert_eq!((is_executing(first).await, is_executing(second).await), (false, false));
}

/// Documents have only revisions. A commit is older than the next one, also if another controller has made it.
#[tokio::test]
async fn the_time_of_a_commit_of_another_controller_is_known() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    let following = second.controller.clone();
    let following = tokio::spawn(async move { following.follow_commits().await });
    let register = |name: &'static str| {
        move |draft: &mut Draft<'_>| {
            archive::register(draft, name, None, 10);
            Ok(())
        }
    };
    let revision = first.controller.run(register("one")).await.expect("committed").revision;
    let time = || second.controller.commit_time_ms(revision);
    let known = async {
        while time().is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), known).await.expect("it arrives");
    let seen = time();
    second.controller.environment.advance(3_600_000);
    second.controller.run(register("two")).await.expect("committed");
    assert_eq!(time(), seen);
    following.abort();
}

#[tokio::test]
async fn a_removed_unit_is_forgotten_by_all() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.attach_agent("web/0").await;
    scene.reports_exit_at(second).await;
    scene.settle().await;
    assert!(!scene.keys().is_empty());
    let unit = "web/0".parse().expect("a name");
    let remove = RemoveUnit { unit, force: Force::AtOnce, destroy_storage: false };
    first.admin.handle(remove).await.expect("accepted");
    first.run_janitor().await;
    scene.settle().await;
    let of_unit =
        |keys: Vec<String>| keys.into_iter().filter(|key| key.contains(&scene.unit.to_string())).count();
    for _ in 0..3 {
        scene.settle().await;
        assert_eq!(of_unit(scene.keys()), 0);
        for of in [first, second] {
            assert!(!presence(of).has_reported(scene.unit));
        }
    }
}
