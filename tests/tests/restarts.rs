//! Tests with the real programs that an agent that was killed is restarted at once, and that one whose socket is gone
//! starts again.

use std::fs;
use tests::host::sample;
use tests::scene::{scene, text};

#[test]
fn an_agent_that_is_killed_nine_times_is_restarted_without_delay() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
    for kill in 1..=9 {
        let killed = host.agent_pid("db/0").expect("it runs");
        // both signals that an operator uses
        host.signal(if kill % 2 == 0 { "TERM" } else { "KILL" }, killed);
        host.until(format_args!("the agent is back after kill {kill}"), |host| {
            host.agent_pid("db/0").filter(|pid| *pid != killed)
        });
    }
    let folder = host.unit_folder("db/0").expect("it is deployed");
    let log = fs::read_to_string(folder.join("../../machine.log")).expect("the machine agent has a log");
    let delays: Vec<&str> =
        log.lines().filter_map(|line| line.split_once("delay_ms=")?.1.split_whitespace().next()).collect();
    assert_eq!(
        delays, ["0"; 9],
        "an agent that fails is restarted after 200 ms, and the ninth time after 30 s"
    );
    host.ok(&["run", "db/0", "get-units"]);
}

/// 1. The folder of a tool socket is deleted: by a program that cleans /tmp, or with the session of a user.
/// 2. The next hook calls its tools.
#[test]
fn an_agent_whose_tool_socket_was_deleted_listens_again() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
    let before = host.agent_pid("db/0").expect("it runs");
    let run = host.unit_folder("db/0").expect("it is deployed").join("run");
    fs::remove_dir_all(fs::read_link(&run).unwrap_or_else(|_| run.clone())).expect("it was created");
    host.until("the next agent listens", |host| {
        host.agent_pid("db/0").filter(|pid| *pid != before && run.join("agent.socket").exists())
    });
    host.ok(&["run", "db/0", "get-units"]);
}
