//! Tests with the real programs that an agent that was killed is restarted at once.

use std::time::{Duration, Instant};
use tests::host::sample;
use tests::scene::{scene, text};

/// With the back-off of an agent that fails, nine restarts take 0.2 s * (2^8 - 1) + 30 s = 81 s.
const NINE_RESTARTS_MAX: Duration = Duration::from_secs(20);

#[test]
fn an_agent_that_is_killed_nine_times_does_not_wait_to_come_back() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
    let started = Instant::now();
    for kill in 1..=9 {
        let killed = host.agent_pid("db/0").expect("it runs");
        // both signals that an operator uses
        host.signal(if kill % 2 == 0 { "TERM" } else { "KILL" }, killed);
        host.until(format_args!("the agent is back after kill {kill}"), |host| {
            host.agent_pid("db/0").filter(|pid| *pid != killed)
        });
    }
    assert!(started.elapsed() < NINE_RESTARTS_MAX, "{:?}", started.elapsed());
    host.ok(&["run", "db/0", "get-units"]);
}
