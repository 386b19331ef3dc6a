//! The order in which `pintle dev` shows the runs of a unit, and the end of the process that reads them.

mod support;

use agent::folder::UnitFolder;
use agent::follow_runs::{RunEvent, UnitRuns};
use agent::journal::Journal;
use hook_client::shim::OUTCOME;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::Operation;
use state::unit::local::Local;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

/// The longest wait for the end of a process. It takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(20);

/// Creates the files of a run that has ended.
fn ended_run(unit: &UnitFolder, number: u64) {
    let folder = unit.root().join(format!("hooks/{number:06}-install"));
    support::write_run_file(&folder, &operation(number), "", "", &support::context());
    fs::write(folder.join(OUTCOME), "exit 0\n").expect("there is room");
}

/// What the run of this number does: an action of the same number.
fn operation(run: u64) -> Operation {
    Operation::Action { id: run, name: "backup".to_owned() }
}

#[derive(Debug, PartialEq)]
enum Shown {
    Start(Operation),
    End(Operation),
}

fn start(run: u64) -> Shown {
    Shown::Start(operation(run))
}

fn end(run: u64) -> Shown {
    Shown::End(operation(run))
}

fn shown(events: Vec<RunEvent>) -> Vec<Shown> {
    let shown = |event| match event {
        RunEvent::Started { operation, .. } => Shown::Start(operation),
        RunEvent::Finished { operation, .. } => Shown::End(operation),
        other => panic!("{other:?}"),
    };
    events.into_iter().map(shown).collect()
}

#[tokio::test]
async fn the_end_of_a_run_is_shown_before_the_start_of_the_next_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = UnitFolder::new(dir.path().to_path_buf());
    let mut runs = UnitRuns::new(folder.clone(), UNIX_EPOCH);
    ended_run(&folder, 1);
    assert_eq!(shown(runs.poll().await), [start(1)]);
    ended_run(&folder, 2);
    assert_eq!(shown(runs.poll().await), [], "the end of run 1 is not stored");
    let local = Local { run: 2, ..Local::new(Uuid(1), UnitName::new("web", 0)) };
    Journal::create(folder.clone(), &local).await.expect("there is room");
    assert_eq!(shown(runs.poll().await), [end(1), start(2), end(2)]);
}

#[tokio::test]
async fn a_state_that_cannot_be_read_does_not_end_the_display() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = UnitFolder::new(dir.path().to_path_buf());
    let mut runs = UnitRuns::new(folder.clone(), UNIX_EPOCH);
    (1..=2).for_each(|number| ended_run(&folder, number));
    let mut events = Vec::new();
    for _ in 0..100 {
        events.extend(shown(runs.poll().await));
    }
    assert_eq!(events, [start(1), start(2)]);
}

/// `pintle dev` may be killed, so that it cannot end the process.
#[tokio::test]
async fn following_ends_when_its_output_has_no_reader() {
    let machines = tempfile::tempdir().expect("a folder");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_pintle-agent"));
    command.arg("follow-runs").arg(machines.path()).args(["--model", &Uuid(1).to_string()]);
    command.args(["--application", "web", "--since", "0"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.kill_on_drop(true).spawn().expect("it runs");
    drop(process.stdout.take());
    let end = tokio::time::timeout(DEADLINE, process.wait()).await.expect("it ends").expect("it is a child");
    assert!(end.success(), "{end}");
}
