//! Tests of what the machine agent concludes from the folders of its units, and what it measures in them.

use super::*;
use agent::deployer::QUARANTINED_MAX;
use std::os::unix::fs::{PermissionsExt, symlink};

fn deployer(machine: &Path) -> Deployer {
    Deployer::new(
        machine.to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    )
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("set");
}

/// Runs the machine agent for this time of the paused clock.
async fn run_for(machine: &Path, controller: &FakeController, time: Duration) {
    let agent = machine_agent(machine, controller);
    assert!(tokio::time::timeout(time, agent.run()).await.is_err(), "the agent continues");
}

/// Deploys web/0 as this unit, without an agent that would be started.
fn deploy_finished(machine: &Path, unit: Uuid) -> BTreeMap<Uuid, Assigned> {
    let name = UnitName::new("web", 0);
    deployer(machine).prepare(unit, &name).expect("it is created");
    fs::write(deployer(machine).folder(&name).file("finished"), "").expect("written");
    BTreeMap::from([(unit, Assigned { name, life: Life::Alive })])
}

#[tokio::test]
async fn a_unit_is_absent_only_if_every_folder_belongs_to_another_one() {
    let machine = tempfile::tempdir().expect("a folder");
    let (deployer, name) = (deployer(machine.path()), UnitName::new("web", 0));
    let is_absent = |unit| deployer.verify_absent(unit).is_ok();
    assert!(is_absent(Uuid(7)), "there are no folders");
    deployer.prepare(Uuid(6), &name).expect("it is created");
    let folder = deployer.folder(&name);
    assert_eq!([6, 7].map(|unit| is_absent(Uuid(unit))), [false, true]);
    set_mode(&folder.file("agent.yaml"), 0o644);
    assert!(!is_absent(Uuid(7)), "its configuration cannot be used");
    set_mode(&folder.file("agent.yaml"), 0o600);
    deployer.quarantine(&folder, Uuid(6)).await.expect("it is quarantined");
    assert_eq!([6, 7].map(|unit| is_absent(Uuid(unit))), [false, true]);
    let quarantined = machine.path().join("quarantine").join(format!("unit-web-0-{}", Uuid(6)));
    fs::write(quarantined.join("state.yaml"), "its state").expect("written");
    fs::remove_file(quarantined.join("agent.yaml")).expect("removed");
    assert!(!is_absent(Uuid(7)), "it has the state of some unit");
    fs::remove_dir_all(quarantined).expect("removed");
    fs::create_dir_all(folder.root()).expect("created");
    assert!(is_absent(Uuid(6)), "a deployment was interrupted before it wrote anything");
}

/// A link that refers to itself stands for any file that cannot be seen, for example on a damaged disk.
#[test]
fn a_folder_that_cannot_be_seen_is_neither_removed_nor_made_again_and_its_agent_does_not_run() {
    let machine = tempfile::tempdir().expect("a folder");
    let (deployer, name, unit) = (deployer(machine.path()), UnitName::new("web", 0), Uuid(6));
    deployer.prepare(unit, &name).expect("it is created");
    let folder = deployer.folder(&name);
    let state = folder.file("state.yaml");
    fs::write(&state, "outcomes to send").expect("written");

    let recalling = folder.file("recalling");
    symlink("recalling", &recalling).expect("linked");
    may_run(&folder).expect_err("it may be recalled");
    assert!(!deployer.is_finished(&folder), "it may be in use");
    fs::remove_file(&recalling).expect("removed");

    fs::remove_file(folder.file("agent.yaml")).expect("removed");
    symlink("agent.yaml", folder.file("agent.yaml")).expect("linked");
    deployer.prepare(unit, &name).expect_err("it may be the folder of any unit");
    deployer.verify_absent(Uuid(7)).expect_err("it may be the folder of any unit");
    assert!(state.exists());

    fs::create_dir(machine.path().join("quarantine")).expect("made");
    let aside = machine.path().join(format!("quarantine/{}-{unit}", name.tag()));
    fs::remove_dir_all(folder.root()).expect("removed");
    symlink(&aside, &aside).expect("linked");
    deployer.prepare(unit, &name).expect_err("its state may be in quarantine");
    assert!(!folder.root().exists());
}

#[tokio::test(start_paused = true)]
async fn a_recall_is_not_confirmed_while_a_folder_cannot_be_identified() {
    let machine = tempfile::tempdir().expect("a folder");
    deploy_finished(machine.path(), Uuid(7));
    let file = deployer(machine.path()).folder(&UnitName::new("web", 0)).file("agent.yaml");
    set_mode(&file, 0o644);
    let recalls = BTreeSet::from([Uuid(7)]);
    let shown = MachineView { recalls, ..view(BTreeMap::new()) };
    let controller = FakeController { view: Some(shown), ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    let mut running = std::pin::pin!(agent.run());
    let hour = Duration::from_secs(3_600);
    assert!(tokio::time::timeout(hour, &mut running).await.is_err(), "the agent continues");
    assert!(controller.confirmed.lock().expect("one thread").is_empty());
    {
        let reported = controller.obstructed.lock().expect("one thread");
        assert_eq!(reported.len(), 1, "what has not changed is not reported again: {reported:?}");
        assert!(reported[0][&Uuid(7)].contains("agents/unit-web-0"), "{reported:?}");
    }
    fs::remove_dir_all(file.parent().expect("the folder")).expect("removed");
    let noticed = Duration::from_secs(601);
    assert!(tokio::time::timeout(noticed, &mut running).await.is_err(), "the agent continues");
    assert_eq!(*controller.confirmed.lock().expect("one thread"), [Uuid(7)]);
    assert_eq!(controller.obstructed.lock().expect("one thread").last(), Some(&BTreeMap::new()));
}

/// A file in the place of the folder for removed units stands for what prevents a deletion.
#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_recalled_is_reported_and_recalled_when_it_can_be() {
    let machine = tempfile::tempdir().expect("a folder");
    deploy_finished(machine.path(), Uuid(7));
    let folder = deployer(machine.path()).folder(&UnitName::new("web", 0));
    fs::write(machine.path().join("removed"), "").expect("written");
    let shown = MachineView { recalls: BTreeSet::from([Uuid(7)]), ..view(BTreeMap::new()) };
    let existence = Some(Existence::Tombstone);
    let controller = FakeController { view: Some(shown), existence, ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    let mut running = std::pin::pin!(agent.run());
    let hour = Duration::from_secs(3_600);
    assert!(tokio::time::timeout(hour, &mut running).await.is_err(), "the agent continues");
    assert!(folder.file("agent.yaml").exists());
    {
        let reported = controller.obstructed.lock().expect("one thread");
        assert_eq!(reported.len(), 1, "what has not changed is not reported again: {reported:?}");
        assert!(reported[0][&Uuid(7)].contains(&folder.root().display().to_string()), "{reported:?}");
    }
    fs::remove_file(machine.path().join("removed")).expect("it was there");
    let soon = Duration::from_secs(10);
    assert!(tokio::time::timeout(soon, &mut running).await.is_err(), "the agent continues");
    assert!(folder.root().exists(), "the attempts have become rare");
    let noticed = Duration::from_secs(601);
    assert!(tokio::time::timeout(noticed, &mut running).await.is_err(), "the agent continues");
    assert!(!folder.root().exists());
    assert_eq!(*controller.confirmed.lock().expect("one thread"), [Uuid(7)]);
    assert_eq!(controller.obstructed.lock().expect("one thread").last(), Some(&BTreeMap::new()));
}

#[test]
fn a_token_is_replaced_only_if_its_file_is_absent_or_damaged() {
    let machine = tempfile::tempdir().expect("a folder");
    let (deployer, name, unit) = (deployer(machine.path()), UnitName::new("web", 0), Uuid(6));
    let token = deployer.prepare(unit, &name).expect("it is created").token;
    let file = deployer.folder(&name).file("agent.yaml");
    set_mode(&file, 0o644);
    deployer.prepare(unit, &name).expect_err("the file is intact and cannot be used");
    set_mode(&file, 0o600);
    assert_eq!(deployer.prepare(unit, &name).expect("the folder exists").token, token);
    fs::write(&file, [0xff]).expect("written");
    assert_ne!(deployer.prepare(unit, &name).expect("it is created again").token, token);
}

#[test]
fn a_folder_whose_configuration_was_deleted_keeps_everything_else() {
    let machine = tempfile::tempdir().expect("a folder");
    let (deployer, name, unit) = (deployer(machine.path()), UnitName::new("web", 0), Uuid(6));
    let token = deployer.prepare(unit, &name).expect("it is created").token;
    let folder = deployer.folder(&name);
    fs::create_dir_all(folder.charm()).expect("made");
    fs::write(folder.charm().join("data"), "precious").expect("written");
    fs::remove_file(folder.file("agent.yaml")).expect("it exists");
    assert_ne!(deployer.prepare(unit, &name).expect("the folder exists").token, token);
    assert_eq!(fs::read_to_string(folder.charm().join("data")).expect("it is kept"), "precious");
}

/// A slow measurement takes as long as a controller that does not answer its report.
#[tokio::test(start_paused = true)]
async fn heartbeats_do_not_wait_for_the_measurement_of_disk_usage() {
    let machine = tempfile::tempdir().expect("a folder");
    let units = deploy_finished(machine.path(), Uuid(6));
    let tokens = Tokens::AcceptedOnce;
    let controller = FakeController {
        view: Some(view(units)),
        tokens,
        holds_disk_usage: true,
        ..FakeController::default()
    };
    let agent = machine_agent(machine.path(), &controller);
    let mut running = std::pin::pin!(agent.run());
    // the clock stands still while this task is ready, and the measurement has a thread of its own
    while controller.disk_usages.load(Ordering::Relaxed) == 0 {
        tokio::select! {
            biased;
            () = &mut running => panic!("the agent continues"),
            () = tokio::task::yield_now() => {}
        }
    }
    let time = Duration::from_millis(12 * EXAMINATION_INTERVAL_MS - 1);
    assert!(tokio::time::timeout(time, &mut running).await.is_err(), "the agent continues");
    assert_eq!(controller.disk_usages.load(Ordering::Relaxed), 1);
    assert_eq!(controller.heartbeats.load(Ordering::Relaxed), 12);
}

#[tokio::test(start_paused = true)]
async fn a_new_watch_does_not_repeat_the_measurement_of_disk_usage() {
    let machine = tempfile::tempdir().expect("a folder");
    let units = deploy_finished(machine.path(), Uuid(6));
    let controller =
        FakeController { view: Some(view(units)), tokens: Tokens::Accepted, ..FakeController::default() };
    run_for(machine.path(), &controller, Duration::from_secs(60)).await;
    assert!(controller.watches.load(Ordering::Relaxed) > 2);
    assert!(controller.disk_usages.load(Ordering::Relaxed) <= 1);
}

/// A quarantined folder is the only copy of the unit's state: nothing deletes it, and no folder is quarantined beyond
/// the bound.
#[tokio::test]
async fn folders_are_quarantined_up_to_the_bound() {
    let machine = tempfile::tempdir().expect("a folder");
    let (deployer, name) = (deployer(machine.path()), UnitName::new("web", 0));
    for unit in 0..QUARANTINED_MAX {
        let unit = Uuid(unit as u128 + 1);
        deployer.prepare(unit, &name).expect("it is created");
        deployer.quarantine(&deployer.folder(&name), unit).await.expect("there is room");
    }
    deployer.prepare(Uuid(500), &name).expect("it is created");
    let refused =
        deployer.quarantine(&deployer.folder(&name), Uuid(500)).await.expect_err("there is no room");
    assert!(refused.to_string().contains(&format!("{QUARANTINED_MAX} folders")), "{refused}");
    assert!(deployer.folder(&name).file("agent.yaml").exists(), "it stays where it is");
    fs::remove_dir_all(machine.path().join("quarantine").join(format!("unit-web-0-{}", Uuid(1))))
        .expect("deleted");
    deployer.quarantine(&deployer.folder(&name), Uuid(500)).await.expect("there is room again");
}

/// A deleted folder must not reappear after a power failure: its parent folder is synced before the controller may
/// remove the record of the recall.
#[test]
fn the_folders_of_the_units_are_synced_before_a_recall_is_confirmed() {
    const MACHINE: &str = "PINTLE_TEST_SYNCED_MACHINE";
    if let Some(machine) = std::env::var_os(MACHINE) {
        return deployer(Path::new(&machine)).verify_absent(Uuid(7)).expect("no folder belongs to it");
    }
    let machine = tempfile::tempdir().expect("a folder");
    let calls = machine.path().join("calls");
    for name in ["agents", "quarantine"] {
        fs::create_dir(machine.path().join(name)).expect("created");
    }
    let traced = std::process::Command::new("strace")
        .args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&calls)
        .arg(std::env::current_exe().expect("it has a path"))
        .args(["--exact", "folders::the_folders_of_the_units_are_synced_before_a_recall_is_confirmed"])
        .env(MACHINE, machine.path())
        .output();
    assert!(traced.expect("strace is installed").status.success());
    let calls = fs::read_to_string(calls).expect("written");
    for name in ["agents", "quarantine"] {
        let folder = format!("<{}>", machine.path().join(name).display());
        assert!(calls.lines().any(|call| call.contains(&folder) && call.ends_with("= 0")), "{name}: {calls}");
    }
}

/// 1. web/0 is assigned here. Its folder is created, and the machine agent dies.
/// 2. The controller is restored from a backup that has no record of it.
/// 3. Another web/0 is assigned to this machine.
#[tokio::test(start_paused = true)]
async fn a_folder_in_which_no_agent_has_run_is_deleted_and_not_quarantined() {
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unknown, known) = (UnitName::new("web", 0), Uuid(6), Uuid(5));
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    );
    deployer.prepare(unknown, &name).expect("it is created");
    let units = BTreeMap::from([(known, Assigned { name: name.clone(), life: Life::Alive })]);
    let controller = FakeController { view: Some(view(units)), ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), agent.run()).await.is_err(),
        "the agent continues"
    );
    assert_eq!(config::read(deployer.folder(&name).root()).expect("it was deployed").uuid, known);
    assert!(!machine.path().join("quarantine").exists());
}
