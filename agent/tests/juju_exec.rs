//! Tests of `juju-exec`, called by a process on the machine, and of the queue of the unit agent that receives its
//! request.

mod support;

use agent::clock::kernel_boot_id;
use agent::folder::UnitFolder;
use agent::requested_commands::RequestedCommands;
use agent::socket_dir::{SOCKET, socket_dir};
use agent::tool_socket::{ContextState, listen};
use hook_client::shim::{OUTCOME, SHIM_PID};
use host::process::Process;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{Hook, Operation};
use state::terms::refusal::RefusalReason;
use state::terms::refusal::write::WriteRefusal;
use state::unit::local::Local;
use state::unit::outcome::RunExit;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::process::Command;
use tokio::sync::watch;

/// A machine with the unit web/0, and the queue behind its socket. No hook runs.
fn machine() -> (tempfile::TempDir, RequestedCommands, watch::Sender<ContextState>) {
    let machine = tempfile::tempdir().unwrap();
    let folder = UnitFolder::new(machine.path().join("agents/unit-web-0"));
    fs::create_dir_all(folder.run(5)).unwrap();
    let (state, seen) = watch::channel(ContextState::Closed);
    let calls = listen(&socket_dir(&folder).unwrap().join(SOCKET), seen).unwrap();
    (machine, RequestedCommands::new(calls.requested_commands, folder), state)
}

fn juju_exec(machine: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pintle-agent"));
    command.arg("juju-exec").arg("--data").arg(machine).arg("--").args(words).env_clear().kill_on_drop(true);
    command
}

fn local() -> Arc<Local> {
    Arc::new(Local::new(Uuid(2), UnitName::new("web", 0)))
}

#[tokio::test]
async fn commands_are_queued_without_a_running_hook_and_their_exit_code_and_output_are_returned() {
    let (machine, commands, _state) = machine();
    // a context that has ended: a child that outlived its hook
    let mut exec = juju_exec(machine.path(), &["-u", "web/0", "echo", "a b", "-x"]);
    let exec = exec.env("JUJU_CONTEXT_ID", "web/0-install-00").env("JUJU_UNIT_NAME", "web/0");
    let exec = tokio::spawn(exec.output());
    commands.receive(local).await;
    let request = commands.oldest().expect("it waits");
    assert_eq!(commands.script(&request).as_deref(), Some("echo 'a b' -x"));
    let run_folder = machine.path().join("agents/unit-web-0/hooks/000005");
    fs::write(run_folder.join("stdout"), "a b -x\n").unwrap();
    fs::write(run_folder.join("stderr"), "bad").unwrap();
    commands.answer(&request, &RunExit::Code(3), 5, None);
    assert_eq!(commands.oldest(), None, "it is answered once");
    let output = exec.await.unwrap().unwrap();
    assert_eq!(
        (output.status.code(), &output.stdout[..], &output.stderr[..]),
        (Some(3), &b"a b -x\n"[..], &b"bad"[..])
    );
}

#[tokio::test]
async fn what_cannot_run_is_refused_by_name() {
    let (machine, commands, _state) = machine();
    for (words, code, expected) in [
        (&["-u", "db/0", "true"][..], 1, "ERROR unit \"db/0\" not found on this machine\n"),
        (&["web/0"], 2, "ERROR missing commands\n"),
        (&["-r", "db:1", "true"], 1, "ERROR invalid relation id\n"),
        (&["--remote-unit", "db/0", "true"], 1, "ERROR remote unit: db/0, provided without a relation\n"),
    ] {
        let mut exec = juju_exec(machine.path(), words);
        let output = tokio::select! {
            output = exec.output() => output.unwrap(),
            () = async { loop { commands.receive(local).await } } => unreachable!("it waits for ever"),
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(code), expected), "{words:?}");
        assert_eq!(commands.oldest(), None);
    }
}

#[tokio::test]
async fn a_process_that_has_ended_is_forgotten() {
    let (machine, commands, _state) = machine();
    let mut exec = juju_exec(machine.path(), &["true"]).spawn().unwrap();
    commands.receive(local).await;
    assert!(commands.oldest().is_some());
    exec.kill().await.unwrap();
    while commands.oldest().is_some() {
        tokio::task::yield_now().await;
    }
}

/// Run 7 of web/0, which its agent has started with this context id.
fn start_run(machine: &Path, context_id: &str) -> PathBuf {
    let run_folder = machine.join("agents/unit-web-0/hooks/000007");
    let (operation, boot) = (Operation::Hook(Hook::Install), kernel_boot_id());
    support::write_run_file(&run_folder, &operation, &boot, context_id, &support::context());
    Process::current().write(&run_folder.join(SHIM_PID)).unwrap();
    run_folder
}

/// 1. A hook runs, and its agent is being restarted.
/// 2. The hook calls juju-exec: nothing answers at the socket of the agent.
/// 3. The new agent would queue the commands behind the hook, which waits for them.
#[tokio::test]
async fn a_process_within_a_running_hook_is_refused_although_no_agent_runs() {
    let machine = tempfile::tempdir().unwrap();
    let run_folder = start_run(machine.path(), "web/0-install-00");
    for variable in ["JUJU_CONTEXT_ID", "PINTLE_CONTEXT_ID"] {
        let mut exec = juju_exec(machine.path(), &["web/0", "true"]);
        let refused = exec.env(variable, "web/0-install-00").output().await.unwrap();
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && text.contains("web/0-install-00"), "{refused:?}");
    }
    let no_context = ["--no-context", "echo", "ran"];
    let mut exec = juju_exec(machine.path(), &no_context);
    let another = exec.env("JUJU_CONTEXT_ID", "web/0-install-01").output().await.unwrap();
    assert_eq!(&*String::from_utf8_lossy(&another.stdout), "ran\n", "the context of another run");
    fs::write(run_folder.join(OUTCOME), "exit 0").unwrap();
    let mut exec = juju_exec(machine.path(), &no_context);
    let child = exec.env("JUJU_CONTEXT_ID", "web/0-install-00").output().await.unwrap();
    assert_eq!(&*String::from_utf8_lossy(&child.stdout), "ran\n", "a child that outlived its hook");
}

#[tokio::test]
async fn commands_whose_changes_the_controller_refuses_have_failed() {
    let (machine, commands, _state) = machine();
    fs::write(machine.path().join("agents/unit-web-0/hooks/000005/stdout"), "out\n").unwrap();
    let refusal =
        RefusalReason::from(WriteRefusal::NotLeader { unit: UnitName::new("web", 0), leader: None });
    for (refused, code) in [(Some((3, refusal.clone())), 1), (Some((2, refusal.clone())), 0), (None, 0)] {
        let exec = tokio::spawn(juju_exec(machine.path(), &["web/0", "true"]).output());
        commands.receive(local).await;
        let request = commands.oldest().expect("it waits");
        commands.answer(&request, &RunExit::Code(0), 5, Some(3));
        commands.confirm(Some(3), None);
        assert!(!exec.is_finished(), "the controller has not answered");
        commands.confirm(None, refused.as_ref());
        let output = exec.await.unwrap().unwrap();
        let error = format!("ERROR {}\n", api::text::refusal::message(&refusal));
        let expected = if code == 0 { String::new() } else { error };
        let found = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        assert_eq!(found, (Some(code), expected));
        assert_eq!(&output.stdout[..], b"out\n");
    }
}
