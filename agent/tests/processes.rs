//! Hooks and their tools after the agent that started them has died: which processes are killed, and which tool
//! calls are answered.

mod support;

use agent::clock::kernel_boot_id;
use agent::config;
use agent::deployer::Deployer;
use agent::folder::UnitFolder;
use agent::hook_process::{CharmRunner, kill_remaining_processes};
use agent::hook_session::CallsFile;
use agent::ports::{CharmHost, HookHost};
use agent::service::Supervision;
use agent::tool_socket::{ContextState, closed_reply, listen};
use api::{AgentConfig, AgentKind};
use commands::{ResourceRequest, SecretAnswer, SecretRequest};
use hook_client::shim::{HOOK_PID, OUTCOME, OUTPUT, SHIM_PID};
use host::file::write_atomic_unsynced;
use host::process::Process;
use state::terms::names::Uuid;
use state::terms::operation::{CharmRef, Hook, Operation};
use state::terms::settings::{Bag, BagChange};
use state::terms::start_reason::StartReason;
use state::unit::environment::MachineFacts;
use state::unit::hook_context::{self, HookContext, ReportContent};
use state::unit::hook_log::HookHandler;
use state::unit::local::Run;
use state::unit::outcome::RunExit;
use state::unit::record::RunReport;
use state::unit::relation_view::BagRequest;
use std::cell::Cell;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{CONTEXT_ID, context, frame, frame_in, printed, read_reply, session, write_run_file};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

/// Writes what an agent of boot `boot` stored about run 1 before it died.
fn started_run(at: &Path, boot: &str) -> Run {
    let operation = Operation::Hook(Hook::Install);
    write_run_file(at, &operation, boot, CONTEXT_ID, &context());
    Run::new(1, operation, StartReason::CharmInstalled)
}

/// A process group whose leader waits for a line of input and then ends, while its child continues.
fn group(context_id: &str) -> (Child, Process) {
    let mut leader = Command::new("/bin/sh");
    leader.args(["-c", "sleep 100 >/dev/null 2>&1 & echo $!; read line"]);
    leader.env("JUJU_CONTEXT_ID", context_id).process_group(0);
    let mut leader = leader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(leader.stdout.take().unwrap()), &mut line)
        .unwrap();
    (leader, Process::find(line.trim().parse().unwrap()).expect("the child lives"))
}

#[tokio::test]
async fn the_children_of_a_hook_are_killed_before_it_is_repeated() {
    let run = tempfile::tempdir().unwrap();
    started_run(run.path(), &kernel_boot_id());
    let (mut leader, child) = group(CONTEXT_ID);
    Process::find(leader.id() as i32).unwrap().write(&run.path().join(HOOK_PID)).unwrap();
    drop(leader.stdin.take());
    leader.wait().unwrap();

    kill_remaining_processes(run.path()).await;

    assert!(!child.is_alive(), "{child} would run beside the repetition");
}

#[tokio::test]
async fn a_hook_without_a_pid_file_is_killed_before_it_is_repeated() {
    let run = tempfile::tempdir().unwrap();
    started_run(run.path(), &kernel_boot_id());
    let mut shim = Command::new("/bin/true").spawn().unwrap();
    Process::find(shim.id() as i32).unwrap().write(&run.path().join(SHIM_PID)).unwrap();
    let (mut hook, child) = group(CONTEXT_ID);
    let (mut other_leader, other) = group("another");
    shim.wait().unwrap();

    kill_remaining_processes(run.path()).await;

    assert!(!child.is_alive(), "{child} would run beside the repetition");
    assert!(hook.wait().unwrap().signal().is_some(), "the hook was killed");
    assert!(other.is_alive(), "a process with another context must not be killed");
    other.signal(nix::sys::signal::Signal::SIGKILL).expect("it can be signalled");
    other_leader.kill().unwrap();
    other_leader.wait().unwrap();
}

/// Every hook of the unit can write a pid file: with a process of another unit, or with one that cannot be killed.
#[tokio::test]
async fn a_process_that_is_no_shim_is_neither_killed_nor_awaited() {
    let run = tempfile::tempdir().unwrap();
    let mut other = Command::new("sleep").arg("100").spawn().unwrap();
    for pid in [other.id() as i32, 1] {
        let process = Process::find(pid).expect("it runs");
        process.write(&run.path().join(SHIM_PID)).unwrap();
        let killed = kill_remaining_processes(run.path());
        let time = std::time::Duration::from_secs(10);
        tokio::time::timeout(time, killed).await.expect("it is not awaited");
        assert!(process.is_alive(), "{pid}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn a_process_group_that_reuses_the_number_of_a_hook_is_not_killed() {
    let run = tempfile::tempdir().unwrap();
    started_run(run.path(), &kernel_boot_id());
    let (mut leader, child) = group("another");
    let hook = Process { pid: leader.id() as i32, start: 1 };
    hook.write(&run.path().join(HOOK_PID)).unwrap();

    kill_remaining_processes(run.path()).await;

    assert!(child.is_alive());
    child.signal(nix::sys::signal::Signal::SIGKILL).expect("it can be signalled");
    drop(leader.stdin.take());
    leader.wait().unwrap();
}

fn charms_of(unit: &Path) -> CharmRunner {
    let machine_facts = MachineFacts {
        charm_dir: String::new(),
        tools_dir: String::new(),
        socket: String::new(),
        machine: "0".into(),
        api_addresses: Vec::new(),
        availability_zone: String::new(),
        version: String::new(),
        cloud_api_version: String::new(),
        path: String::new(),
        kubernetes: Vec::new(),
    };
    let (_, calls) = mpsc::channel(1);
    CharmRunner::new(
        UnitFolder::new(unit.to_path_buf()),
        machine_facts,
        calls,
        watch::channel(ContextState::Undecided).0,
    )
}

/// The requests of a hook that has ended already: there are none.
struct NoRequests;

impl HookHost for NoRequests {
    fn report(&self, report: &RunReport) {
        panic!("{report:?}")
    }
    fn is_leader(&self) -> bool {
        false
    }
    async fn fetch_bag(&self, request: &BagRequest) -> Result<Option<Bag>, String> {
        panic!("{request:?}")
    }
    async fn write_leader_settings(&self, _: u64, _: u32, change: &BagChange) -> Result<(), String> {
        panic!("{change:?}")
    }
    async fn request_secret(&self, request: &SecretRequest) -> Result<SecretAnswer, String> {
        panic!("{request:?}")
    }
    async fn fetch_resource(&self, request: &ResourceRequest) -> Result<Vec<u8>, String> {
        panic!("{request:?}")
    }
}

#[tokio::test]
async fn an_outcome_is_accepted_only_if_it_is_of_this_boot() {
    for (boot, accepted) in [(kernel_boot_id(), Some(RunExit::Code(0))), ("another".to_owned(), None)] {
        let unit = tempfile::tempdir().unwrap();
        let at = unit.path().join("hooks/000001");
        fs::create_dir(unit.path().join("charm")).unwrap();
        let run = started_run(&at, &boot);
        fs::write(at.join(SHIM_PID), "1 1").unwrap();
        fs::write(at.join(OUTCOME), "exit 0").unwrap();

        let result = charms_of(unit.path()).reattach(&run, &NoRequests).await;
        assert_eq!(result.map(|result| result.exit), accepted, "boot {boot}");
    }
}

/// The next agent does not know what it would have to mask.
#[tokio::test]
async fn the_output_of_an_interrupted_hook_that_has_read_secrets_is_deleted() {
    let unit = tempfile::tempdir().unwrap();
    let at = unit.path().join("hooks/000001-install");
    let run = started_run(&at, &kernel_boot_id());
    let call = r#"{"call":1,"id":"","at_ms":0,"confidential_tool":"secret-get","is_leader":true,"code":0}"#;
    fs::write(at.join("calls.yaml"), format!("- {call}\n")).unwrap();
    fs::write(at.join(OUTPUT), "stdout: hunter2\n").unwrap();
    let result = charms_of(unit.path()).reattach(&run, &NoRequests).await;
    assert!(result.is_none() && !at.join(OUTPUT).exists());
}

/// Scenario 145: the application's charm has the action, and this unit runs a revision that does not. The
/// charm's `dispatch` exits 0 for everything.
#[tokio::test]
async fn an_action_that_the_installed_charm_lacks_is_missing_even_if_dispatch_exists() {
    let unit = tempfile::tempdir().unwrap();
    let declared = serde_json::json!({ "sha256": "", "charm": state::charm::Charm::default() });
    fs::write(unit.path().join("charm.json"), declared.to_string()).unwrap();
    fs::create_dir(unit.path().join("charm")).unwrap();
    fs::write(unit.path().join("charm/metadata.yaml"), "name: web\n").unwrap();
    std::os::unix::fs::symlink("/bin/true", unit.path().join("charm/dispatch")).unwrap();
    let action =
        hook_context::RunningAction { name: "backup".into(), id: "7".into(), params: Default::default() };
    let context = HookContext { trigger: hook_context::HookTrigger::Action(action), ..context() };
    let operation = Operation::Action { id: 7, name: "backup".into() };
    let run = Run { operation, ..started_run(&unit.path().join("hooks/000001"), &kernel_boot_id()) };
    let result = charms_of(unit.path()).run(&run, context, None, &NoRequests).await;
    assert_eq!(result.exit, RunExit::Missing);
}

/// Calls a tool and returns its stderr.
async fn call(socket: &Path, number: u32) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(&frame(number, "is-leader", &[])).await.unwrap();
    read_reply(&mut stream).await.2
}

#[tokio::test]
async fn calls_that_are_queued_when_the_hook_ends_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let (state, opened) = watch::channel(ContextState::Open);
    let mut calls = listen(&socket, opened).unwrap().tool_calls;
    let callers: Vec<_> = (0..5)
        .map(|number| {
            let socket = socket.clone();
            tokio::spawn(async move { call(&socket, number).await })
        })
        .collect();
    // the first call is with the session; the others queue behind it while this task yields
    let first = calls.recv().await.expect("a call");
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    state.send_replace(ContextState::Closed);
    first.answer.send(closed_reply()).unwrap();
    while let Ok(call) = calls.try_recv() {
        call.answer.send(closed_reply()).unwrap();
    }
    for caller in callers {
        let answer = tokio::time::timeout(std::time::Duration::from_secs(20), caller).await;
        let answer = answer.expect("a call must not wait for the next hook").unwrap();
        assert_eq!(answer, "ERROR bad request: this context is closed\n");
    }
}

#[test]
fn an_incomplete_line_of_a_dead_agent_does_not_corrupt_the_next_call() {
    let run = tempfile::tempdir().unwrap();
    let path = run.path().join("calls.yaml");
    fs::write(&path, "- whole\n- half of a li").unwrap();
    drop(CallsFile::open(run.path()));
    assert_eq!(fs::read_to_string(path).unwrap(), "- whole\n");
}

#[test]
fn a_copy_of_a_unit_folder_is_not_deployed() {
    let machine = tempfile::tempdir().unwrap();
    let config = |kind, name: &str| AgentConfig {
        kind,
        uuid: Uuid(7),
        name: name.into(),
        token: String::new(),
        machine: "0".into(),
        model: Uuid(1),
        controllers: Vec::new(),
        server_name: String::new(),
        ca: String::new(),
    };
    let deployer =
        Deployer::new(machine.path().to_path_buf(), config(AgentKind::Machine, "0"), Supervision::Children);
    for folder in ["unit-web-0", "unit-web-0.bak", "unit-web-0.old"] {
        let folder = machine.path().join("agents").join(folder);
        fs::create_dir_all(&folder).unwrap();
        write_atomic_unsynced(
            &folder.join(AgentConfig::FILE),
            config::to_yaml(&config(AgentKind::Unit, "web/0")).as_bytes(),
        )
        .unwrap();
    }
    let claims = deployer.claims().expect("listed");
    let claiming: Vec<String> = claims.iter().map(|claim| claim.folder.tag()).collect();
    assert_eq!(claiming, ["unit-web-0"]);
}

#[test]
fn a_call_whose_output_file_failed_has_the_same_answer_in_the_next_session() {
    let run = tempfile::tempdir().unwrap();
    let frame = frame_in(run.path().to_str().unwrap(), 1, "is-leader", &["-o", "no-such-folder/file"]);
    let session = || session(context(), run.path());
    let answer = session().answer(&frame, None).expect("it reads no bag");
    assert_eq!(printed(&answer).0, 1, "the folder does not exist");

    let lines = CallsFile::read(run.path()).expect("complete lines");
    assert_eq!(lines.len(), 1);
    assert!(session().recover(&lines), "the hook has received the same answer");
}

#[test]
fn a_charm_whose_folder_was_deleted_is_not_declared() {
    let unit = tempfile::tempdir().unwrap();
    let declared = serde_json::json!({ "sha256": "", "charm": state::charm::Charm::default() });
    fs::write(unit.path().join("charm.json"), declared.to_string()).unwrap();
    fs::create_dir(unit.path().join("charm")).unwrap();
    let charms = charms_of(unit.path());
    assert!(charms.declared().is_some());
    fs::remove_dir(unit.path().join("charm")).unwrap();
    assert!(charms.declared().is_none(), "the charm must be fetched again");
}

#[tokio::test]
async fn an_archive_with_another_digest_is_refused_before_it_is_unpacked() {
    let unit = tempfile::tempdir().unwrap();
    let charm = CharmRef {
        sha256: host::digest::sha256(b"the archive"),
        url: "local:web-0".into(),
        revision: 0,
        endpoints: Default::default(),
        resources: String::new(),
    };
    let refused = charms_of(unit.path()).install(&charm, b"another archive".to_vec()).await.unwrap_err();
    assert!(refused.contains(&charm.url) && refused.contains(&charm.sha256), "{refused}");
    assert_eq!(fs::read_dir(unit.path()).unwrap().count(), 0, "nothing is left");
}

/// Scenario 153.
#[test]
fn a_non_leader_cannot_set_application_settings_and_its_hook_continues() {
    let run = tempfile::tempdir().unwrap();
    let mut session = session(HookContext { leader: false, ..context() }, run.path());
    let mut set = |number, args: &[&str]| {
        let answer = session.answer(&frame(number, "relation-set", args), None);
        let (code, _, stderr) = printed(&answer.expect("it reads no bag of others"));
        (code, stderr)
    };
    let refused = set(1, &["-r", "db:1", "--app", "a=1"]);
    assert_eq!(refused, (1, "ERROR cannot write relation settings\n".to_owned()));
    assert_eq!(set(2, &["-r", "db:1", "b=2"]), (0, String::new()));
    let (writes, _) = session.close();
    let expected = Bag::from([("b".to_owned(), "2".to_owned())]);
    assert_eq!(writes.bags[&1], hook_context::BagWrites { unit: expected, application: Default::default() });
}

#[test]
fn two_reports_of_one_call_have_different_numbers() {
    let run = tempfile::tempdir().unwrap();
    let mut session = session(context(), run.path());
    let frame = frame(1, "juju-log", &["-l", "loud", "hello"]);
    assert_eq!(printed(&session.answer(&frame, None).expect("it reads no bag")).0, 0);
    let (_, reports) = session.close();
    assert_eq!(reports.iter().map(|report| report.number).collect::<Vec<_>>(), [1, 2], "{reports:?}");
}

#[tokio::test]
async fn only_the_end_of_a_hooks_output_is_reported_with_the_number_of_omitted_lines() {
    let unit = tempfile::tempdir().unwrap();
    let at = unit.path().join("hooks/000001");
    let run = started_run(&at, &kernel_boot_id());
    fs::write(at.join(SHIM_PID), "1 1").unwrap();
    fs::write(at.join(OUTCOME), "exit 0").unwrap();
    let printed: String = (1..=100).map(|n| format!("stderr: line {n}\n")).collect();
    fs::write(at.join(OUTPUT), printed).unwrap();
    let result = charms_of(unit.path()).reattach(&run, &NoRequests).await.expect("it ended");
    assert_eq!(result.handler, Some(HookHandler::Dispatch), "as it was when the run started");
    let line = |report| match report {
        &RunReport { number, what: ReportContent::Output { ref text, .. }, .. } => (number, text.as_str()),
        other => panic!("{other:?}"),
    };
    let lines: Vec<(u32, &str)> = result.reports.iter().map(line).collect();
    let (call, omitted) = lines[0];
    assert!(omitted.starts_with("70 ") && omitted.ends_with("hooks/000001-*/output.log"), "{omitted}");
    assert_eq!(call, 1);
    assert_eq!((lines[1], lines[30], lines.len()), ((2, "line 71"), (31, "line 100"), 31));
}

/// Scenario 146: within ten seconds, also if a process of the group ignores SIGTERM.
#[tokio::test]
async fn the_process_group_of_a_cancelled_action_is_asked_to_end_and_then_killed() {
    for ignores in ["", "trap '' TERM; "] {
        if !ignores.is_empty() {
            // the time for which a process is asked passes at once; a process that ends needs real time
            tokio::time::pause();
        }
        let unit = tempfile::tempdir().unwrap();
        let at = unit.path().join("hooks/000001");
        let operation = Operation::Action { id: 7, name: "backup".into() };
        let run = Run { operation, ..started_run(&at, &kernel_boot_id()) };
        let mut leader = Command::new("/bin/sh");
        let script = format!("{ignores}sleep 100 >/dev/null 2>&1 & echo $!; sleep 100; true");
        leader.args(["-c", &script]).env("JUJU_CONTEXT_ID", CONTEXT_ID).process_group(0);
        let mut leader = leader.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut printed = std::io::BufReader::new(leader.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut printed, &mut line).unwrap();
        let child = Process::find(line.trim().parse().unwrap()).expect("the child lives");
        Process::find(leader.id() as i32).unwrap().write(&at.join(HOOK_PID)).unwrap();
        // the shim reaps the leader
        let reaped = std::thread::spawn(move || leader.wait().unwrap());

        let start = tokio::time::Instant::now();
        charms_of(unit.path()).stop(&run, &Cell::new(false)).await;

        assert!(start.elapsed() <= std::time::Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(!child.is_alive(), "{child} runs beside the next hook");
        assert_eq!(reaped.join().unwrap().signal(), Some(if ignores.is_empty() { 15 } else { 9 }));
    }
}

/// The kernel counts pids and start times anew in each boot.
#[tokio::test]
async fn a_process_that_has_the_recorded_pid_after_another_boot_is_not_killed() {
    let unit = tempfile::tempdir().unwrap();
    let at = unit.path().join("hooks/000001");
    let mut other = Command::new("/bin/sleep");
    let mut other = other.arg("100").process_group(0).current_dir(unit.path()).spawn().unwrap();
    let process = Process::find(other.id() as i32).unwrap();
    for (boot, survives) in [("another boot".to_owned(), true), (kernel_boot_id(), false)] {
        started_run(&at, &boot);
        process.write(&at.join(HOOK_PID)).unwrap();
        kill_remaining_processes(&at).await;
        assert_eq!(other.try_wait().unwrap().is_none(), survives);
    }
}

/// 1. A user cancels an action whose program has not started, because the disk is full.
/// 2. There is free space a minute later, and the program starts.
#[tokio::test(start_paused = true)]
async fn a_program_that_starts_after_its_cancellation_is_ended() {
    let unit = tempfile::tempdir().unwrap();
    let at = unit.path().join("hooks/000001");
    let operation = Operation::Action { id: 7, name: "backup".into() };
    let run = Run { operation, ..started_run(&at, &kernel_boot_id()) };
    let mut program = Command::new("/bin/sleep");
    program.arg("100").env("JUJU_CONTEXT_ID", CONTEXT_ID).process_group(0);
    let mut program = program.spawn().unwrap();
    let process = Process::find(program.id() as i32).unwrap();
    let reaped = std::thread::spawn(move || program.wait().unwrap());
    let (charms, has_run_ended) = (charms_of(unit.path()), Cell::new(false));
    let start = async {
        for _ in 0..60 {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        process.write(&at.join(HOOK_PID)).unwrap();
    };
    tokio::join!(charms.stop(&run, &has_run_ended), start);
    // which signal it is depends on the host: the paused clock does not wait for the process
    assert!(reaped.join().unwrap().signal().is_some());

    fs::remove_file(at.join(HOOK_PID)).unwrap();
    has_run_ended.set(true);
    charms.stop(&run, &has_run_ended).await;
}

/// `pintle down` finds the shims by a constant of `api`, because `hook-client` stands alone.
#[test]
fn the_pid_file_of_a_shim_has_one_name() {
    assert_eq!(api::machine_folder::SHIM_PID, hook_client::shim::SHIM_PID);
}
