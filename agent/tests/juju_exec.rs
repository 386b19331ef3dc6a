//! `juju-exec` as a process on the machine calls it, and the queue of the unit agent that receives its request.

use agent::folder::UnitFolder;
use agent::requested_commands::RequestedCommands;
use agent::socket_dir::{SOCKET, socket_dir};
use agent::tool_socket::{Gate, listen};
use state::terms::names::{UnitName, Uuid};
use state::unit::local::Local;
use state::unit::outcome::Exit;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio::process::Command;
use tokio::sync::watch;

/// A machine with the unit web/0, and the queue behind its socket. No hook runs.
fn machine() -> (tempfile::TempDir, RequestedCommands, watch::Sender<Gate>) {
    let machine = tempfile::tempdir().unwrap();
    let folder = UnitFolder::new(machine.path().join("agents/unit-web-0"));
    fs::create_dir_all(folder.run(5)).unwrap();
    let (gate, seen) = watch::channel(Gate::Closed);
    let calls = listen(&socket_dir(&folder).unwrap().join(SOCKET), seen).unwrap();
    (machine, RequestedCommands::new(calls.requested_commands, folder), gate)
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
    let (machine, commands, _gate) = machine();
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
    commands.answer(&request, &Exit::Code(3), 5);
    assert_eq!(commands.oldest(), None, "it is answered once");
    let output = exec.await.unwrap().unwrap();
    assert_eq!(
        (output.status.code(), &output.stdout[..], &output.stderr[..]),
        (Some(3), &b"a b -x\n"[..], &b"bad"[..])
    );
}

#[tokio::test]
async fn what_cannot_run_is_refused_by_name() {
    let (machine, commands, _gate) = machine();
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
    let (machine, commands, _gate) = machine();
    let mut exec = juju_exec(machine.path(), &["true"]).spawn().unwrap();
    commands.receive(local).await;
    assert!(commands.oldest().is_some());
    exec.kill().await.unwrap();
    while commands.oldest().is_some() {
        tokio::task::yield_now().await;
    }
}
