//! The lines of `pintle dev` about the runs of a unit.

use agent::follow_runs::{RunEvent, text};
use agent::hook_session::ShownCall;
use state::terms::names::UnitName;
use state::terms::operation::{Hook, Operation};
use state::terms::start_reason::StartReason;
use state::unit::outcome::RunExit;
use std::time::Duration;
use test_support::golden::compare;

#[test]
fn the_lines_about_a_run_have_their_text() {
    let call = |command: &str, answer: &str, code| {
        RunEvent::Call(ShownCall { command: command.to_owned(), answer: answer.to_owned(), code })
    };
    let finished = |exit| RunEvent::Finished {
        operation: Operation::Hook(Hook::Install),
        exit,
        duration: Duration::from_millis(1234),
        folder: "/data/hooks/000002".into(),
    };
    let events = [
        RunEvent::Started {
            run: 2,
            operation: Operation::Hook(Hook::Install),
            reason: StartReason::CharmInstalled,
        },
        call("config-get port", "8080", 0),
        call("status-set active 'it works'", "", 0),
        call("relation-get -r 7", "ERROR relation not found", 2),
        RunEvent::Output { lines: vec!["one".to_owned(), "\u{1b}[2Jtwo".to_owned()], omitted: 0 },
        RunEvent::Output { lines: vec!["last".to_owned()], omitted: 19 },
        finished(RunExit::Code(0)),
        finished(RunExit::Code(1)),
        finished(RunExit::Signal(9)),
        finished(RunExit::Interrupted),
    ];
    let unit = UnitName::new("web", 0);
    compare("followed_runs.txt", &events.iter().map(|event| text(&unit, event)).collect::<String>());
}
