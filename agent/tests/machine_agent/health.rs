//! Tests of what a machine agent reports about the health of its units.

use super::*;

/// Runs the machine agent until the controller has received a report about the unit for which `passes` returns true.
pub(crate) async fn until_reported(
    machine: &Path,
    controller: &FakeController,
    unit: Uuid,
    passes: impl Fn(&UnitHealth) -> bool,
) -> UnitHealth {
    let agent = machine_agent(machine, controller);
    let reported = async {
        loop {
            let known = controller.health.lock().expect("one thread").get(&unit).cloned();
            if let Some(health) = known.filter(&passes) {
                return health;
            }
            controller.health_changed.notified().await;
        }
    };
    tokio::select! {
        end = agent.run() => panic!("{end:?}"),
        health = tokio::time::timeout(Duration::from_secs(60), reported) => health.expect("it is reported"),
    }
}

pub(crate) fn controller_with(unit: Uuid) -> FakeController {
    let units = BTreeMap::from([(unit, Assigned { name: UnitName::new("web", 0), life: Life::Alive })]);
    // the watch never ends, and the token is accepted
    FakeController { view: Some(view(units)), tokens: Tokens::AcceptedOnce, ..FakeController::default() }
}

/// The program that is started here as a unit agent is this test, which exits with 101 because it has no option --dir.
#[tokio::test]
async fn the_end_of_a_unit_agent_is_reported_with_its_code_its_last_line_and_how_often() {
    let (machine, unit) = (tempfile::tempdir().expect("a folder"), Uuid(6));
    let repeated = |health: &UnitHealth| health.exit.as_ref().is_some_and(|exit| exit.count >= 2);
    let health = until_reported(machine.path(), &controller_with(unit), unit, repeated).await;
    let exit = health.exit.expect("it has ended");
    assert_eq!((exit.end, exit.fault), (ProcessEnd::Code(101), None));
    assert!(exit.since_ms < exit.at_ms, "{exit:?}");
    assert!(exit.last_error.as_ref().is_some_and(|line| line.contains("dir")), "{exit:?}");
}

/// A hook can replace the log of its agent, which the machine agent opens on its only thread.
#[test]
fn a_pipe_in_the_place_of_a_log_does_not_stop_the_machine_agent() {
    let (machine, unit) = (tempfile::tempdir().expect("a folder"), Uuid(6));
    let folder = machine.path().join("agents/unit-web-0");
    fs::create_dir_all(&folder).expect("created");
    nix::unistd::mkfifo(&folder.join("agent.log"), nix::sys::stat::Mode::S_IRWXU).expect("a new pipe");
    let (path, (sender, receiver)) = (machine.path().to_owned(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let controller = controller_with(unit);
        let health = until_reported(&path, &controller, unit, |health| health.exit.is_some());
        sender.send(runtime.block_on(health).exit.map(|exit| exit.end))
    });
    let end = receiver.recv_timeout(Duration::from_secs(60)).expect("it waits for a reader of the pipe");
    assert_eq!(end, Some(ProcessEnd::Code(101)), "the agent was started");
}

#[tokio::test]
async fn a_unit_that_cannot_be_deployed_is_reported_until_it_can() {
    let (machine, unit) = (tempfile::tempdir().expect("a folder"), Uuid(6));
    fs::write(machine.path().join("agents"), "no folder").expect("written");
    let controller = controller_with(unit);
    let failed = until_reported(machine.path(), &controller, unit, |health| health.exit.is_some()).await;
    let exit = failed.exit.expect("it was not started");
    assert_eq!((exit.end, exit.fault), (ProcessEnd::NotStarted, None));
    assert!(exit.last_error.as_ref().is_some_and(|line| line.contains("unit-web-0")), "{exit:?}");
    fs::remove_file(machine.path().join("agents")).expect("removed");
    let ended =
        |health: &UnitHealth| health.exit.as_ref().is_some_and(|exit| exit.end == ProcessEnd::Code(101));
    until_reported(machine.path(), &controller, unit, ended).await;
}

/// The limit applies to the whole process, so the test runs itself again in a process of its own.
#[test]
fn a_limit_of_descriptors_is_reported_as_such() {
    if std::env::var_os("PINTLE_TEST_DESCRIPTORS").is_none() {
        let this = std::env::current_exe().expect("a process knows its program");
        let again = std::process::Command::new(this)
            .args(["a_limit_of_descriptors_is_reported_as_such", "--exact", "--nocapture"])
            .env("PINTLE_TEST_DESCRIPTORS", "1")
            .output()
            .expect("it runs");
        assert!(again.status.success(), "{again:?}");
        return;
    }
    let machine = tempfile::tempdir().expect("a folder");
    let (name, unit) = (UnitName::new("web", 0), Uuid(6));
    let config = agent_config(AgentKind::Machine, Uuid(1), "0");
    let deployer = Deployer::new(machine.path().to_path_buf(), config, Supervision::Children);
    deployer.prepare(unit, &name).expect("it is created");
    let folder = deployer.folder(&name);
    let supervisor = UnitSupervisor::new(deployer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _entered = runtime.enter();
    // the log of the agent and its configuration can still be opened, one after the other; the pipe of a start cannot
    let mut held: Vec<fs::File> = Vec::new();
    let limit = nix::sys::resource::Resource::RLIMIT_NOFILE;
    nix::sys::resource::setrlimit(limit, 64, 64).expect("the limit can be lowered");
    while let Ok(file) = fs::File::open("/dev/null") {
        held.push(file);
    }
    held.truncate(held.len() - 2);
    supervisor.ensure_running(unit, &folder, true).expect_err("no descriptor is left");
    drop(held);
    let exit = supervisor.health(unit, &folder).exit.expect("it is noted");
    assert_eq!((exit.end, exit.fault), (ProcessEnd::NotStarted, Some(Fault::Limit(Limit::Descriptors))));
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_kept_as_long_as_the_reports_of_presence_confirm_the_view() {
    for (confirms, watches) in [(true, 1), (false, 3)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (accepts_heartbeats, is_silent, view) = (true, true, Some(view(BTreeMap::new())));
        let controller =
            FakeController { accepts_heartbeats, is_silent, confirms, view, ..FakeController::default() };
        let agent = machine_agent(folder.path(), &controller);
        let minute = Duration::from_secs(60);
        assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "the agent continues");
        assert_eq!(controller.watches.load(Ordering::Relaxed), watches, "{confirms}: one each 25 s");
    }
}
