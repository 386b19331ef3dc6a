//! Tests of the machine agent's loop, on tokio's paused clock.

mod folders;
mod health;
mod identities;
mod removals;
mod storage;

use agent::config;
use agent::deployer::{Deployer, may_run};
use agent::machine_agent::MachineAgent;
use agent::ports::{Clock, Deployments};
use agent::service::Supervision;
use agent::unit_supervisor::UnitSupervisor;
use api::error::{ApiError, ErrorCode};
use api::{
    AgentConfig, AgentKind, Assigned, ConfirmRecall, EXAMINATION_INTERVAL_MS, Enrol, Existence,
    GetUnitExistence, HEARTBEAT_MS, Handle, MachineView, MachineWatchEvent, PRESENCE_INTERVAL_MS,
    PresenceResponse, RemoveDeadUnit, ReportDiskUsage, ReportMachineDead, ReportObstructedRecalls,
    ReportPresence, ReportUninstalled, ReportUnitHealth, SetUnitToken, Stream, Watch, WatchMachine,
};
use host::file::write_atomic_unsynced;
use state::terms::health::{Fault, Limit, ProcessEnd, UnitHealth};
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::terms::position::Position;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A controller that sends one view or none. It loses every heartbeat unless `accepts_heartbeats` is set.
#[derive(Clone, Default)]
struct FakeController {
    heartbeats: Arc<AtomicU32>,
    /// Whether its reply to a heartbeat arrives.
    accepts_heartbeats: bool,
    /// Whether its watch sends no heartbeats.
    is_silent: bool,
    /// Whether its reply to a report of presence confirms the view.
    confirms: bool,
    watches: Arc<AtomicU32>,
    view: Option<MachineView>,
    /// Whether the machine was removed.
    removed: bool,
    /// How it handles tokens.
    tokens: Tokens,
    set: Arc<Mutex<Vec<(Uuid, String)>>>,
    dead: Arc<AtomicU32>,
    disk_usages: Arc<AtomicU32>,
    /// Whether it never answers a report of disk usage.
    holds_disk_usage: bool,
    confirmed: Arc<Mutex<Vec<Uuid>>>,
    obstructed: Arc<Mutex<Vec<BTreeMap<Uuid, String>>>>,
    health: Arc<Mutex<BTreeMap<Uuid, UnitHealth>>>,
    health_changed: Arc<Notify>,
    storage: Arc<Mutex<Vec<api::ReportStorage>>>,
    storage_reported: Arc<Notify>,
    /// How it answers the request to remove a unit; none if the unit is removed.
    removal_error: Option<ApiError>,
    removals_requested: Arc<AtomicU32>,
    /// How it answers whether a unit exists; none: it has no record of it.
    existence: Option<Existence>,
    /// How many of these answers are lost first.
    lost_existences: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Default)]
enum Tokens {
    /// No token is accepted, so no agent is started.
    #[default]
    Unreachable,
    /// Tokens are accepted, and each watch ends after it has sent its view three times.
    Accepted,
    /// Tokens are accepted, and the watch does not end.
    AcceptedOnce,
    Unanswered,
}

impl FakeController {
    fn check_not_removed(&self) -> Result<(), ApiError> {
        match self.removed {
            true => Err(ApiError::new(ErrorCode::Removed, "the machine was removed")),
            false => Ok(()),
        }
    }
}

struct FakeStream {
    views: Vec<MachineView>,
    ends: bool,
    /// When it sends a heartbeat; never if it is silent.
    heartbeat: Option<Instant>,
}

impl Stream for FakeStream {
    type Item = MachineWatchEvent;

    async fn next(&mut self) -> Result<MachineWatchEvent, ApiError> {
        match self.views.pop() {
            Some(view) => Ok(MachineWatchEvent::View(view)),
            None if self.ends => Err(ApiError::new(ErrorCode::Unreachable, "the controller was restored")),
            None => match self.heartbeat {
                Some(heartbeat) => {
                    tokio::time::sleep_until(heartbeat).await;
                    self.heartbeat = Some(heartbeat + Duration::from_millis(HEARTBEAT_MS));
                    Ok(MachineWatchEvent::Heartbeat(Position::default()))
                }
                None => std::future::pending().await,
            },
        }
    }
}

impl Watch<WatchMachine> for FakeController {
    type Stream = FakeStream;

    async fn watch(&self, _: WatchMachine) -> Result<FakeStream, ApiError> {
        self.check_not_removed()?;
        self.watches.fetch_add(1, Ordering::Relaxed);
        let (ends, times) = match self.tokens {
            Tokens::Accepted => (true, 3),
            Tokens::Unreachable | Tokens::Unanswered | Tokens::AcceptedOnce => (false, 1),
        };
        let views = self.view.iter().flat_map(|view| vec![view.clone(); times]).collect();
        let heartbeat = (!self.is_silent).then(|| Instant::now() + Duration::from_millis(HEARTBEAT_MS));
        Ok(FakeStream { views, ends, heartbeat })
    }
}

impl Handle<ReportPresence> for FakeController {
    async fn handle(
        &self,
        ReportPresence { view, .. }: ReportPresence,
    ) -> Result<PresenceResponse, ApiError> {
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
        if self.accepts_heartbeats {
            return Ok(PresenceResponse { current_to: view.filter(|_| self.confirms) });
        }
        Err(ApiError::new(ErrorCode::Unreachable, "the heartbeat was lost"))
    }
}

impl Handle<ReportUnitHealth> for FakeController {
    async fn handle(&self, ReportUnitHealth { units }: ReportUnitHealth) -> Result<(), ApiError> {
        self.health.lock().expect("one thread").extend(units);
        self.health_changed.notify_one();
        Ok(())
    }
}

impl Handle<ReportDiskUsage> for FakeController {
    async fn handle(&self, _: ReportDiskUsage) -> Result<(), ApiError> {
        self.disk_usages.fetch_add(1, Ordering::Relaxed);
        if self.holds_disk_usage {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

impl Handle<ReportObstructedRecalls> for FakeController {
    async fn handle(
        &self,
        ReportObstructedRecalls { recalls }: ReportObstructedRecalls,
    ) -> Result<(), ApiError> {
        self.obstructed.lock().expect("one thread").push(recalls);
        Ok(())
    }
}

impl Handle<GetUnitExistence> for FakeController {
    async fn handle(&self, _: GetUnitExistence) -> Result<Existence, ApiError> {
        if self.lost_existences.load(Ordering::Relaxed) > 0 {
            self.lost_existences.fetch_sub(1, Ordering::Relaxed);
            return Err(ApiError::new(ErrorCode::Unreachable, "no answer"));
        }
        Ok(self.existence.unwrap_or(Existence::Unknown))
    }
}

impl Handle<SetUnitToken> for FakeController {
    async fn handle(&self, SetUnitToken { unit, token }: SetUnitToken) -> Result<(), ApiError> {
        match self.tokens {
            Tokens::Unreachable => Err(ApiError::new(ErrorCode::Unreachable, "the token is not accepted")),
            Tokens::Accepted | Tokens::AcceptedOnce => {
                self.set.lock().expect("one thread").push((unit, token));
                Ok(())
            }
            Tokens::Unanswered => std::future::pending().await,
        }
    }
}

impl Handle<RemoveDeadUnit> for FakeController {
    async fn handle(&self, _: RemoveDeadUnit) -> Result<(), ApiError> {
        self.removals_requested.fetch_add(1, Ordering::Relaxed);
        self.removal_error.clone().map_or(Ok(()), Err)
    }
}

impl Handle<ConfirmRecall> for FakeController {
    async fn handle(&self, ConfirmRecall { unit }: ConfirmRecall) -> Result<(), ApiError> {
        self.confirmed.lock().expect("one thread").push(unit);
        Ok(())
    }
}

impl Handle<Enrol> for FakeController {
    async fn handle(&self, _: Enrol) -> Result<(), ApiError> {
        unreachable!("the machine is enrolled already")
    }
}

impl Handle<ReportUninstalled> for FakeController {
    async fn handle(&self, _: ReportUninstalled) -> Result<(), ApiError> {
        self.check_not_removed()
    }
}

impl Handle<ReportMachineDead> for FakeController {
    async fn handle(&self, _: ReportMachineDead) -> Result<(), ApiError> {
        self.dead.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn agent_config(kind: AgentKind, uuid: Uuid, name: &str) -> AgentConfig {
    AgentConfig {
        kind,
        uuid,
        name: name.to_owned(),
        model: Uuid(2),
        controllers: Vec::new(),
        server_name: String::new(),
        ca: String::new(),
        token: String::new(),
        machine: String::new(),
    }
}

fn view(units: BTreeMap<Uuid, Assigned>) -> MachineView {
    MachineView {
        position: Position::default(),
        model: Uuid(2),
        name: "0".to_owned(),
        address: String::new(),
        life: Life::Alive,
        units,
        recalls: BTreeSet::new(),
        storage: BTreeMap::new(),
        ssh_keys: Vec::new(),
    }
}

/// Tokio's paused clock, which stands still while any task can run.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn boot(&self) -> String {
        "boot".to_owned()
    }
    fn since_boot_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).expect("a test is short")
    }
    fn wall_ms(&self) -> i64 {
        0
    }
    async fn sleep_until(&self, since_boot_ms: u64) {
        tokio::time::sleep_until(self.0 + Duration::from_millis(since_boot_ms)).await;
    }
    fn random_uuid(&self) -> Uuid {
        // no jitter
        Uuid(0)
    }
}

fn machine_agent(
    folder: &Path,
    controller: &FakeController,
) -> MachineAgent<FakeController, UnitSupervisor, PausedClock> {
    let config = agent_config(AgentKind::Machine, Uuid(1), "0");
    let deployer = Deployer::new(folder.to_path_buf(), config, Supervision::Children);
    MachineAgent::new(controller.clone(), UnitSupervisor::new(deployer), PausedClock(Instant::now()))
}

#[tokio::test(start_paused = true)]
async fn a_machine_agent_sends_heartbeats_although_it_receives_no_view() {
    let folder = tempfile::tempdir().expect("a folder");
    let controller = FakeController::default();
    let agent = machine_agent(folder.path(), &controller);
    let minute = Duration::from_millis(12 * EXAMINATION_INTERVAL_MS - 1);
    assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "the agent continues");
    assert_eq!(controller.heartbeats.load(Ordering::Relaxed), 12);
    assert_eq!(controller.watches.load(Ordering::Relaxed), 1, "a lost heartbeat is no outage");
}

#[tokio::test(start_paused = true)]
async fn an_idle_machine_agent_sends_one_request_every_fifteen_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let controller = FakeController { accepts_heartbeats: true, ..FakeController::default() };
    let agent = machine_agent(folder.path(), &controller);
    let minute = Duration::from_millis(4 * PRESENCE_INTERVAL_MS - 1);
    assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "the agent continues");
    assert_eq!(controller.heartbeats.load(Ordering::Relaxed), 4);
}

/// 1. web/0 is assigned.
/// 2. The controller does not answer when it receives the token.
#[tokio::test(start_paused = true)]
async fn a_machine_agent_sends_heartbeats_while_a_deployment_hangs() {
    let machine = tempfile::tempdir().expect("a folder");
    let units = BTreeMap::from([(Uuid(5), Assigned { name: UnitName::new("web", 0), life: Life::Alive })]);
    let controller =
        FakeController { view: Some(view(units)), tokens: Tokens::Unanswered, ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    let minute = Duration::from_millis(12 * EXAMINATION_INTERVAL_MS - 1);
    assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "the agent continues");
    assert_eq!(controller.heartbeats.load(Ordering::Relaxed), 12);
}

/// 1. web/0's token is set, and its folder stores that.
/// 2. The controller is restored from a backup without the token, which ends the watch.
#[tokio::test(start_paused = true)]
async fn a_unit_token_is_sent_once_in_each_watch() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    );
    let token = deployer.prepare(unit, &name).expect("it is created").token;
    let folder = deployer.folder(&name);
    deployer.store_token_accepted(&folder).expect("written");
    // so that no agent is started here
    fs::write(folder.file("finished"), "").expect("written");
    let units = BTreeMap::from([(unit, Assigned { name, life: Life::Alive })]);
    let controller =
        FakeController { view: Some(view(units)), tokens: Tokens::Accepted, ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    let minute = Duration::from_secs(60);
    assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "the agent continues");
    let watches = controller.watches.load(Ordering::Relaxed) as usize;
    assert!(watches > 2, "{watches}");
    assert_eq!(*controller.set.lock().expect("one thread"), vec![(unit, token); watches]);
}

/// 1. web/0's token is set, and its folder stores that.
/// 2. Its agent.yaml is damaged, and is written again with another token.
#[test]
fn a_new_token_is_not_noted_as_set() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    );
    let before = deployer.prepare(unit, &name).expect("it is created").token;
    let folder = deployer.folder(&name);
    deployer.store_token_accepted(&folder).expect("written");
    assert_eq!(deployer.prepare(unit, &name).expect("the folder exists").token, before);
    assert!(deployer.is_token_accepted(&folder));
    fs::write(folder.file("agent.yaml"), "\0").expect("written");
    assert_ne!(deployer.prepare(unit, &name).expect("it is created again").token, before);
    assert!(!deployer.is_token_accepted(&folder), "the controller would refuse its agent");
}

/// 1. web/0 is deployed here.
/// 2. The controller is restored from a backup that has no record of it.
/// 3. This machine is removed.
#[tokio::test(start_paused = true)]
async fn a_dying_machine_does_not_wait_for_an_unknown_unit() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unknown) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    );
    deployer.prepare(unknown, &name).expect("it is created");
    fs::write(deployer.folder(&name).file("state.yaml"), "its state").expect("written");
    let shown = MachineView { life: Life::Dying, ..view(BTreeMap::new()) };
    let controller = FakeController { view: Some(shown), ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), agent.run()).await.is_err(),
        "the agent continues"
    );
    assert!(controller.dead.load(Ordering::Relaxed) > 0, "it was never reported as Dead");
    let quarantined = machine.path().join("quarantine").join(format!("unit-web-0-{unknown}"));
    assert_eq!(fs::read_to_string(quarantined.join("state.yaml")).expect("it is quarantined"), "its state");
}

/// 1. web/0 is deployed here.
/// 2. The controller is restored from a backup that has no record of it.
/// 3. Another web/0 is assigned to this machine.
#[tokio::test(start_paused = true)]
async fn a_unit_replaces_an_unknown_one_of_the_same_name_whose_folder_is_quarantined() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unknown, known) = (UnitName::new("web", 0), Uuid(6), Uuid(5));
    let folder = machine.path().join("agents").join(name.tag());
    fs::create_dir_all(&folder).expect("created");
    let identity = config::to_yaml(&agent_config(AgentKind::Unit, unknown, "web/0"));
    write_atomic_unsynced(&folder.join("agent.yaml"), identity.as_bytes()).expect("written");
    fs::write(folder.join("state.yaml"), "its state").expect("written");
    let units = BTreeMap::from([(known, Assigned { name, life: Life::Alive })]);
    let controller = FakeController { view: Some(view(units)), ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    // less than the delay before a failed step is repeated
    assert!(
        tokio::time::timeout(Duration::from_millis(100), agent.run()).await.is_err(),
        "the agent continues"
    );
    assert_eq!(config::read(&folder).expect("it was deployed, in one round").uuid, known);
    let quarantined = machine.path().join("quarantine").join(format!("unit-web-0-{unknown}"));
    assert_eq!(fs::read_to_string(quarantined.join("state.yaml")).expect("it is quarantined"), "its state");
}

/// 1. The controller is restored from a wrong backup, in which web/0 is removed, so its recall is started.
/// 2. The right backup is restored, and web/0 is assigned here again.
#[tokio::test]
async fn a_recall_is_cancelled_if_the_unit_is_assigned_again() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    );
    deployer.prepare(unit, &name).expect("it is created");
    let folder = deployer.folder(&name);
    deployer.store_token_accepted(&folder).expect("written");
    deployer.stop(&folder).await.expect("nothing runs");
    let supervisor = UnitSupervisor::new(deployer.clone());
    supervisor.ensure_running(unit, &folder, false).expect("nothing is to be done");
    assert!(!may_run(&folder).expect("it is seen"), "the controller has not assigned it here");
    // the program that is started here is not an agent, and ends at once
    supervisor.ensure_running(unit, &folder, true).expect("it may run");
    assert!(may_run(&folder).expect("it is seen"));
    deployer.stop(&folder).await.expect("it ends");
}

/// 1. web/0 has outcomes to send. The controller is restored from a wrong backup, and another web/0 is created.
/// 2. The right backup is restored.
/// 3. The wrong backup is restored again, and so on.
#[tokio::test]
async fn a_quarantined_folder_is_restored_each_time_its_unit_is_assigned() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, first, second) = (UnitName::new("web", 0), Uuid(6), Uuid(5));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    );
    let folder = deployer.folder(&name);
    let token = deployer.prepare(first, &name).expect("it is deployed").token;
    fs::write(folder.file("state.yaml"), "its state").expect("written");
    for round in 1..=2 {
        deployer.quarantine(&folder, first).await.expect("it is quarantined");
        deployer.prepare(second, &name).expect("the name is free");
        assert!(!folder.file("state.yaml").exists(), "round {round}: no files of the first");
        deployer.quarantine(&folder, second).await.expect("it is quarantined");
        assert_eq!(deployer.prepare(first, &name).expect("the name is free").token, token, "round {round}");
        let state = fs::read_to_string(folder.file("state.yaml")).expect("the folder is restored");
        assert_eq!(state, "its state", "round {round}");
    }
}

/// 1. A unit's folder is quarantined.
/// 2. The machine agent is moved to another controller.
/// 3. The unit is assigned again.
#[tokio::test]
async fn a_restored_folder_uses_the_controllers_of_its_machine() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let machine_config = agent_config(AgentKind::Machine, Uuid(1), "0");
    let deployer =
        |config: AgentConfig| Deployer::new(machine.path().to_path_buf(), config, Supervision::Children);
    let before = deployer(machine_config.clone());
    let token = before.prepare(unit, &name).expect("it is deployed").token;
    before.quarantine(&before.folder(&name), unit).await.expect("it is quarantined");
    let after = deployer(AgentConfig { ca: "another".to_owned(), ..machine_config });
    let known = after.prepare(unit, &name).expect("it is restored");
    assert_eq!((known.ca.as_str(), known.token), ("another", token));
}
