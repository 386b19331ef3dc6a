//! The machine agent's loop, by tokio's own clock.

use agent::config::{AgentConfig, AgentKind};
use agent::deployer::Deployer;
use agent::machine_agent::{MachineAgentEnd, MachineAgent};
use agent::ports::{Clock, Deployments};
use agent::service::ServiceManager;
use agent::unit_supervisor::UnitSupervisor;
use api::HEARTBEAT_MS;
use api::error::{ApiError, ErrorCode};
use api::{
    Assigned, Enrol, Fate, Handle, MachineView, MachineWatchEvent, RemoveDeadUnit, ReportMachineDead,
    ReportPresence, ReportUninstalled, SetUnitToken, Stream, UnitFate, Watch, WatchMachine,
};
use host::file::write_atomic_unsynced;
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::terms::position::Position;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// A controller that shows one thing or nothing, and takes no sign of life.
#[derive(Clone, Default)]
struct Quiet {
    here: Arc<AtomicU32>,
    watches: Arc<AtomicU32>,
    shows: Option<MachineView>,
    /// It says that the machine was removed.
    removed: bool,
    /// What it does with tokens.
    tokens: Tokens,
    set: Arc<Mutex<Vec<(Uuid, String)>>>,
    dead: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Default)]
enum Tokens {
    /// None arrives: no agent is to be started.
    #[default]
    Lost,
    /// They are taken, and each watch ends when it has shown its view three times.
    Taken,
    Unanswered,
}

impl Quiet {
    fn known(&self) -> Result<(), ApiError> {
        match self.removed {
            true => Err(ApiError::new(ErrorCode::Removed, "the machine was removed")),
            false => Ok(()),
        }
    }
}

struct Shows {
    views: Vec<MachineView>,
    ends: bool,
}

impl Stream for Shows {
    type Item = MachineWatchEvent;

    async fn next(&mut self) -> Result<MachineWatchEvent, ApiError> {
        match self.views.pop() {
            Some(view) => Ok(MachineWatchEvent::View(view)),
            None if self.ends => Err(ApiError::new(ErrorCode::Unreachable, "it was restored")),
            None => std::future::pending().await,
        }
    }
}

impl Watch<WatchMachine> for Quiet {
    type Stream = Shows;

    async fn watch(&self, _: WatchMachine) -> Result<Shows, ApiError> {
        self.known()?;
        self.watches.fetch_add(1, Ordering::Relaxed);
        let (ends, times) = match self.tokens {
            Tokens::Taken => (true, 3),
            Tokens::Lost | Tokens::Unanswered => (false, 1),
        };
        let views = self.shows.iter().flat_map(|view| vec![view.clone(); times]).collect();
        Ok(Shows { views, ends })
    }
}

impl Handle<ReportPresence> for Quiet {
    async fn handle(&self, _: ReportPresence) -> Result<(), ApiError> {
        self.here.fetch_add(1, Ordering::Relaxed);
        Err(ApiError::new(ErrorCode::Unreachable, "it was lost on the way"))
    }
}

impl Handle<UnitFate> for Quiet {
    async fn handle(&self, _: UnitFate) -> Result<Fate, ApiError> {
        Ok(Fate::Unknown)
    }
}

impl Handle<SetUnitToken> for Quiet {
    async fn handle(&self, SetUnitToken { unit, token }: SetUnitToken) -> Result<(), ApiError> {
        match self.tokens {
            Tokens::Lost => Err(ApiError::new(ErrorCode::Unreachable, "no agent is to be started here")),
            Tokens::Taken => {
                self.set.lock().expect("one thread").push((unit, token));
                Ok(())
            }
            Tokens::Unanswered => std::future::pending().await,
        }
    }
}

impl Handle<RemoveDeadUnit> for Quiet {
    async fn handle(&self, _: RemoveDeadUnit) -> Result<(), ApiError> {
        unreachable!("nothing is deployed")
    }
}

impl Handle<Enrol> for Quiet {
    async fn handle(&self, _: Enrol) -> Result<(), ApiError> {
        unreachable!("it has a token")
    }
}

impl Handle<ReportUninstalled> for Quiet {
    async fn handle(&self, _: ReportUninstalled) -> Result<(), ApiError> {
        self.known()
    }
}

impl Handle<ReportMachineDead> for Quiet {
    async fn handle(&self, _: ReportMachineDead) -> Result<(), ApiError> {
        self.dead.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn config(kind: AgentKind, uuid: Uuid, name: &str) -> AgentConfig {
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
    }
}

/// Tokio's clock, which stands still while anything can be done.
struct Paused(Instant);

impl Clock for Paused {
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
        unreachable!("a machine agent makes no uuids")
    }
}

fn machiner(folder: &Path, controller: &Quiet) -> MachineAgent<Quiet, UnitSupervisor, Paused> {
    let config = config(AgentKind::Machine, Uuid(1), "0");
    let deployer = Deployer::new(folder.to_path_buf(), config, ServiceManager::Children);
    MachineAgent::new(controller.clone(), UnitSupervisor::new(deployer), Paused(Instant::now()))
}

#[tokio::test(start_paused = true)]
async fn a_machine_agent_says_that_it_is_here_at_every_heartbeat_though_it_is_shown_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let quiet = Quiet::default();
    let machiner = machiner(folder.path(), &quiet);
    let minute = Duration::from_millis(12 * HEARTBEAT_MS - 1);
    assert!(tokio::time::timeout(minute, machiner.run()).await.is_err(), "it goes on");
    assert_eq!(quiet.here.load(Ordering::Relaxed), 12);
    assert_eq!(quiet.watches.load(Ordering::Relaxed), 1, "a lost sign of life is no outage");
}

/// 1. web/0 is to be deployed, and the controller does not answer when it is told its token.
#[tokio::test(start_paused = true)]
async fn a_machine_agent_says_that_it_is_here_however_long_it_takes_to_tend_a_unit() {
    let machine = tempfile::tempdir().expect("a folder");
    let units = BTreeMap::from([(Uuid(5), Assigned { name: UnitName::new("web", 0), life: Life::Alive })]);
    let controller = Quiet { shows: Some(view(units)), tokens: Tokens::Unanswered, ..Quiet::default() };
    let agent = machiner(machine.path(), &controller);
    let minute = Duration::from_millis(12 * HEARTBEAT_MS - 1);
    assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "it goes on");
    assert_eq!(controller.here.load(Ordering::Relaxed), 12);
}

/// 1. web/0's token is set, and that is noted. 2. The controller is restored from a copy that does not know the token:
///    the watch ends.
#[tokio::test(start_paused = true)]
async fn a_units_token_is_told_once_in_each_watch() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        config(AgentKind::Machine, Uuid(1), "0"),
        ServiceManager::Children,
    );
    let token = deployer.prepare(unit, &name).expect("it is made").token;
    let folder = deployer.folder(&name);
    deployer.note_token_set(&folder).expect("written");
    // no agent is to be started here
    fs::write(folder.file("finished"), "").expect("written");
    let units = BTreeMap::from([(unit, Assigned { name, life: Life::Alive })]);
    let controller = Quiet { shows: Some(view(units)), tokens: Tokens::Taken, ..Quiet::default() };
    let agent = machiner(machine.path(), &controller);
    let minute = Duration::from_secs(60);
    assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "it goes on");
    let watches = controller.watches.load(Ordering::Relaxed) as usize;
    assert!(watches > 2, "{watches}");
    assert_eq!(*controller.set.lock().expect("one thread"), vec![(unit, token); watches]);
}

/// 1. web/0's token is set, and that is noted. 2. Its agent.yaml is damaged, and written anew with another token.
#[test]
fn a_token_that_is_made_anew_is_not_noted() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        config(AgentKind::Machine, Uuid(1), "0"),
        ServiceManager::Children,
    );
    let before = deployer.prepare(unit, &name).expect("it is made").token;
    let folder = deployer.folder(&name);
    deployer.note_token_set(&folder).expect("written");
    assert_eq!(deployer.prepare(unit, &name).expect("it is there").token, before);
    assert!(deployer.is_token_noted(&folder));
    fs::write(folder.file("agent.yaml"), "\0").expect("written");
    assert_ne!(deployer.prepare(unit, &name).expect("it is made anew").token, before);
    assert!(!deployer.is_token_noted(&folder), "its agent would be let in nowhere");
}

/// 1. web/0 is deployed here. 2. The controller is restored from a copy that knows nothing of it. 3. This machine is
///    removed.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_removed_does_not_wait_for_a_unit_that_nobody_knows() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unknown) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        config(AgentKind::Machine, Uuid(1), "0"),
        ServiceManager::Children,
    );
    deployer.prepare(unknown, &name).expect("it is made");
    fs::write(deployer.folder(&name).file("state.yaml"), "what it remembers").expect("written");
    let shown = MachineView { life: Life::Dying, ..view(BTreeMap::new()) };
    let controller = Quiet { shows: Some(shown), ..Quiet::default() };
    let agent = machiner(machine.path(), &controller);
    assert!(tokio::time::timeout(Duration::from_millis(100), agent.run()).await.is_err(), "it goes on");
    assert!(controller.dead.load(Ordering::Relaxed) > 0, "it is Dying for ever");
    let kept = machine.path().join("unknown").join(format!("unit-web-0-{unknown}"));
    assert_eq!(fs::read_to_string(kept.join("state.yaml")).expect("it is kept"), "what it remembers");
}

/// 1. web/0 is deployed here. 2. The controller is restored from a copy that knows nothing of it. 3. Another web/0 is
///    assigned to this machine.
#[tokio::test(start_paused = true)]
async fn a_unit_gets_its_folder_from_an_unknown_one_of_the_same_name_whose_files_are_kept() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unknown, known) = (UnitName::new("web", 0), Uuid(6), Uuid(5));
    let folder = machine.path().join("agents").join(name.tag());
    fs::create_dir_all(&folder).expect("it is the test's");
    let identity = config(AgentKind::Unit, unknown, "web/0").to_yaml();
    write_atomic_unsynced(&folder.join("agent.yaml"), identity.as_bytes()).expect("written");
    fs::write(folder.join("state.yaml"), "what it remembers").expect("written");
    let units = BTreeMap::from([(known, Assigned { name, life: Life::Alive })]);
    let controller = Quiet { shows: Some(view(units)), ..Quiet::default() };
    let agent = machiner(machine.path(), &controller);
    // less than what is left over waits
    assert!(tokio::time::timeout(Duration::from_millis(100), agent.run()).await.is_err(), "it goes on");
    assert_eq!(AgentConfig::read(&folder).expect("it was deployed, in one round").uuid, known);
    let kept = machine.path().join("unknown").join(format!("unit-web-0-{unknown}"));
    assert_eq!(fs::read_to_string(kept.join("state.yaml")).expect("it is kept"), "what it remembers");
}

/// 1. web/0 is assigned here; its folder is made, and the agent dies. 2. The controller is restored from a copy that
///    knows nothing of it. 3. Another web/0 is assigned to this machine.
#[tokio::test(start_paused = true)]
async fn a_folder_in_which_no_agent_has_begun_makes_way_and_is_not_kept() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unknown, known) = (UnitName::new("web", 0), Uuid(6), Uuid(5));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        config(AgentKind::Machine, Uuid(1), "0"),
        ServiceManager::Children,
    );
    deployer.prepare(unknown, &name).expect("it is made");
    let units = BTreeMap::from([(known, Assigned { name: name.clone(), life: Life::Alive })]);
    let controller = Quiet { shows: Some(view(units)), ..Quiet::default() };
    let agent = machiner(machine.path(), &controller);
    assert!(tokio::time::timeout(Duration::from_millis(100), agent.run()).await.is_err(), "it goes on");
    assert_eq!(AgentConfig::read(deployer.folder(&name).root()).expect("it was deployed").uuid, known);
    assert!(!machine.path().join("unknown").exists());
}

/// 1. The controller is restored from a wrong copy, which says that web/0 was removed: its recall begins. 2. The right
///    copy is restored, and web/0 is to run here.
#[tokio::test]
async fn a_recall_is_called_off_for_a_unit_that_is_assigned_again() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        config(AgentKind::Machine, Uuid(1), "0"),
        ServiceManager::Children,
    );
    deployer.prepare(unit, &name).expect("it is made");
    let folder = deployer.folder(&name);
    deployer.note_token_set(&folder).expect("written");
    deployer.stop(&folder).await.expect("nothing runs");
    let tended = UnitSupervisor::new(deployer.clone());
    tended.ensure_running(unit, &folder, false).expect("nothing is to be done");
    assert!(!deployer.may_run(&folder), "nobody says that it is to run here");
    // what is started here is no agent, and ends at once
    tended.ensure_running(unit, &folder, true).expect("it may run");
    assert!(deployer.may_run(&folder));
    deployer.stop(&folder).await.expect("it ends");
}

/// 1. web/0 has outcomes to tell; the controller is restored from a wrong copy, and another web/0 is made. 2. The right
///    copy is restored. 3. The wrong one again, and so on.
#[tokio::test]
async fn a_unit_whose_folder_was_set_aside_takes_it_back_however_often() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, first, second) = (UnitName::new("web", 0), Uuid(6), Uuid(5));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        config(AgentKind::Machine, Uuid(1), "0"),
        ServiceManager::Children,
    );
    let folder = deployer.folder(&name);
    let token = deployer.prepare(first, &name).expect("it is deployed").token;
    fs::write(folder.file("state.yaml"), "what it remembers").expect("written");
    for round in 1..=2 {
        deployer.quarantine(&folder, first).await.expect("it makes room");
        deployer.prepare(second, &name).expect("there is room");
        assert!(!folder.file("state.yaml").exists(), "round {round}: nothing of the first");
        deployer.quarantine(&folder, second).await.expect("it makes room");
        assert_eq!(deployer.prepare(first, &name).expect("there is room").token, token, "round {round}");
        let memory = fs::read_to_string(folder.file("state.yaml")).expect("its own folder");
        assert_eq!(memory, "what it remembers", "round {round}");
    }
}

/// 1. A unit's folder was set aside. 2. Its machine agent goes to another controller. 3. The unit is assigned again.
#[tokio::test]
async fn a_folder_that_is_taken_back_finds_the_controller_where_its_machine_does() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let own = config(AgentKind::Machine, Uuid(1), "0");
    let deployer = |own: AgentConfig| Deployer::new(machine.path().to_path_buf(), own, ServiceManager::Children);
    let before = deployer(own.clone());
    let token = before.prepare(unit, &name).expect("it is deployed").token;
    before.quarantine(&before.folder(&name), unit).await.expect("it makes room");
    let after = deployer(AgentConfig { ca: "another".to_owned(), ..own });
    let known = after.prepare(unit, &name).expect("it is taken back");
    assert_eq!((known.ca.as_str(), known.token), ("another", token));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_removed_while_it_was_away_ends_for_good_with_its_units_folders() {
    let machine = tempfile::tempdir().expect("a folder");
    let folder = machine.path().join("agents/unit-web-0");
    fs::create_dir_all(&folder).expect("it is the test's");
    let identity = config(AgentKind::Unit, Uuid(6), "web/0").to_yaml();
    write_atomic_unsynced(&folder.join("agent.yaml"), identity.as_bytes()).expect("written");
    let controller = Quiet { removed: true, ..Quiet::default() };
    let agent = machiner(machine.path(), &controller);
    let hour = Duration::from_secs(3600);
    let MachineAgentEnd::Dead = tokio::time::timeout(hour, agent.run()).await.expect("it does not try for ever");
    tokio::time::timeout(hour, agent.uninstall_units()).await.expect("nobody is left to be told").expect("it can");
    assert!(!folder.exists());
}
