//! Tests of folders that claim the identity of another unit: every hook of a unit can write the unit's `agent.yaml`.

use super::*;
use agent::folder::UnitFolder;

const VICTIM: Uuid = Uuid(6);

fn deployer(machine: &Path) -> Deployer {
    Deployer::new(
        machine.to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    )
}

/// Deploys a unit whose token the controller has accepted, without an agent that would be started.
fn deploy(machine: &Path, unit: Uuid, name: &UnitName) -> (UnitFolder, String) {
    let deployer = deployer(machine);
    let token = deployer.prepare(unit, name).expect("it is created").token;
    let folder = deployer.folder(name);
    deployer.store_token_accepted(&folder).expect("written");
    fs::write(folder.file("finished"), "").expect("written");
    (folder, token)
}

/// Changes the identity of a folder, as a hook of its unit can. Returns the token in it.
fn claim_identity(folder: &UnitFolder, unit: Uuid) -> String {
    let known = config::read(folder.root()).expect("it is deployed");
    let token = "e".repeat(64);
    let claimed = AgentConfig { uuid: unit, token: token.clone(), ..known };
    write_atomic_unsynced(&folder.file("agent.yaml"), config::to_yaml(&claimed).as_bytes()).expect("written");
    fs::remove_file(folder.file("token-set")).expect("it was there");
    token
}

fn alive(units: &[(Uuid, UnitName)]) -> BTreeMap<Uuid, Assigned> {
    let assigned =
        |(unit, name): &(Uuid, UnitName)| (*unit, Assigned { name: name.clone(), life: Life::Alive });
    units.iter().map(assigned).collect()
}

async fn run_for_a_minute(machine: &Path, controller: &FakeController) {
    let agent = machine_agent(machine, controller);
    assert!(tokio::time::timeout(Duration::from_secs(60), agent.run()).await.is_err(), "the agent continues");
}

/// The order in which folders are listed is arbitrary: of so many thieves, some are listed after the victim.
#[tokio::test(start_paused = true)]
async fn a_folder_that_claims_the_uuid_of_another_unit_gets_its_own_identity_back() {
    let machine = tempfile::tempdir().expect("a folder");
    let thieves = || (0..8).map(|number| (Uuid(100 + u128::from(number)), UnitName::new("thief", number)));
    let victim = UnitName::new("victim", 0);
    let (folder, token) = deploy(machine.path(), VICTIM, &victim);
    for (unit, name) in thieves() {
        claim_identity(&deploy(machine.path(), unit, &name).0, VICTIM);
    }
    let assigned: Vec<_> = thieves().chain([(VICTIM, victim)]).collect();
    let controller = FakeController {
        view: Some(view(alive(&assigned))),
        tokens: Tokens::AcceptedOnce,
        ..FakeController::default()
    };

    run_for_a_minute(machine.path(), &controller).await;

    let set = controller.set.lock().expect("one thread").clone();
    let of_victim: Vec<&String> =
        set.iter().filter(|(unit, _)| *unit == VICTIM).map(|(_, token)| token).collect();
    assert_eq!(of_victim, [&token]);
    assert_eq!(config::read(folder.root()).expect("it is deployed").token, token);
    for (unit, name) in thieves() {
        let healed = config::read(deployer(machine.path()).folder(&name).root()).expect("it is deployed");
        assert_eq!(healed.uuid, unit, "{name}");
        assert!(set.contains(&(unit, healed.token)), "{name}");
    }
}

/// 1. victim/0 was removed, and its folder with it.
/// 2. The machine agent starts while the controller does not send what is assigned to the machine.
#[tokio::test(start_paused = true)]
async fn no_token_is_sent_before_the_name_of_its_unit_is_known() {
    let machine = tempfile::tempdir().expect("a folder");
    let (folder, _) = deploy(machine.path(), Uuid(7), &UnitName::new("thief", 0));
    claim_identity(&folder, VICTIM);
    let controller = FakeController { tokens: Tokens::Accepted, ..FakeController::default() };
    run_for_a_minute(machine.path(), &controller).await;
    assert!(controller.watches.load(Ordering::Relaxed) > 1);
    assert_eq!(*controller.set.lock().expect("one thread"), []);
}

/// Steps fail all the time, because the controller does not answer whether old/0 exists.
#[tokio::test(start_paused = true)]
async fn a_token_that_has_changed_is_sent_in_the_same_watch() {
    let machine = tempfile::tempdir().expect("a folder");
    let name = UnitName::new("web", 0);
    deploy(machine.path(), Uuid(9), &UnitName::new("old", 0));
    let (folder, before) = deploy(machine.path(), Uuid(7), &name);
    let controller = FakeController {
        view: Some(view(alive(&[(Uuid(7), name)]))),
        tokens: Tokens::AcceptedOnce,
        lost_existences: Arc::new(AtomicU32::new(u32::MAX)),
        ..FakeController::default()
    };
    let agent = machine_agent(machine.path(), &controller);
    let mut running = std::pin::pin!(agent.run());
    let minute = Duration::from_secs(60);
    assert!(tokio::time::timeout(minute, &mut running).await.is_err(), "the agent continues");
    let known = config::read(folder.root()).expect("it is deployed");
    let changed = AgentConfig { token: "c".repeat(64), ..known };
    write_atomic_unsynced(&folder.file("agent.yaml"), config::to_yaml(&changed).as_bytes()).expect("written");
    assert!(tokio::time::timeout(minute, &mut running).await.is_err(), "the agent continues");
    assert_eq!(controller.watches.load(Ordering::Relaxed), 1);
    let sent = [before, changed.token].map(|token| (Uuid(7), token));
    assert_eq!(*controller.set.lock().expect("one thread"), sent);
}

/// 1. The agent.yaml of web/1 was replaced by one with the uuid of web/0.
/// 2. The machine is removed.
#[tokio::test(start_paused = true)]
async fn all_folders_of_a_dead_machine_are_deleted_whatever_they_claim() {
    let machine = tempfile::tempdir().expect("a folder");
    let folders = [0, 1].map(|number| {
        let name = UnitName::new("web", number);
        deploy(machine.path(), Uuid(6 + u128::from(number)), &name).0
    });
    claim_identity(&folders[1], Uuid(6));
    let controller = FakeController { removed: true, ..FakeController::default() };
    machine_agent(machine.path(), &controller).uninstall_units().await.expect("they can be deleted");
    assert_eq!(folders.map(|folder| folder.root().exists()), [false, false]);
}
