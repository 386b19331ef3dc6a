//! Measures the time from the start of a hook's program to its first tool call, with and without a warm parent, for a
//! charm on ops, and the memory of the parent.
//!
//! The two models take turns, so that other load affects both alike. The time is from the pid file of the hook, which its
//! shim writes when the program starts, to the entry of the first call in `calls.yaml`. Both have the clock of the kernel,
//! the first one in steps of at most 4 ms.

use super::{at, report};
use agent::hook_process::run_files::read_run_file;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;
use tests::host::{Host, sample};

const ROUNDS: usize = 40;
/// Rounds before the measurement: the first hooks compile the modules of the charm.
const WARM_UP_ROUNDS: usize = 5;
/// A model without and one with warm dispatch.
const MODELS: [(&str, bool); 2] = [("cold", false), ("warm", true)];
/// The ratio that is wanted.
const WANTED: f64 = 0.15;

/// Prints both times, their ratio, and the memory.
pub fn bench(dir: &Path) {
    let host = Host::up(&dir.join("warm"));
    let folder = sample("ops-hello");
    for (model, is_warm) in MODELS {
        host.ok(&["add-model", model]);
        host.ok(&["model-config", &format!("warm-dispatch={is_warm}"), "update-status-hook-interval=0"]);
        host.ok(&["deploy", folder.to_str().expect("text"), model]);
        host.until("it is idle", |host| is_idle(host, model));
    }
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..WARM_UP_ROUNDS + ROUNDS {
        for ((model, is_warm), times) in MODELS.iter().zip(&mut times) {
            host.ok(&["switch", model]);
            host.ok(&["run", &format!("{model}/0"), "greet", &format!("name=guest-{round}")]);
            let (number, _) = host.runs(&format!("{model}/0")).pop().expect("it has run");
            let folder = host.run_folder(&format!("{model}/0"), number).expect("it is kept");
            let is_expected = read_run_file(&folder).is_some_and(|run| run.is_warm() == *is_warm);
            if round >= WARM_UP_ROUNDS && is_expected {
                times.push(first_call_ms(&folder));
            }
        }
    }
    let [cold, warm] = &mut times;
    report("start of a Python hook to its first tool call, without a warm parent", cold);
    report("the same, forked by a warm parent", warm);
    println!("ratio p50 {:.2} (wanted: {WANTED})", at(warm, 50) / at(cold, 50));
    memory(&host);
}

fn is_idle(host: &Host, application: &str) -> Option<()> {
    let unit = host.unit(&format!("{application}/0"))?;
    (unit["workload-status"]["current"] == "active" && unit["juju-status"]["current"] == "idle").then_some(())
}

/// The milliseconds from the start of the program of a run to its first tool call.
fn first_call_ms(run: &Path) -> f64 {
    let started =
        fs::metadata(run.join("hook.pid")).and_then(|file| file.modified()).expect("it has started");
    let started_ms = started.duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1000.0;
    let calls = fs::read_to_string(run.join("calls.yaml")).expect("it has called tools");
    let line = calls.lines().next().and_then(|line| line.strip_prefix("- ")).expect("a line");
    let call: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
    call["at_ms"].as_f64().expect("a time") - started_ms
}

/// Prints the memory of the warm parent.
fn memory(host: &Host) {
    let agent = host.agent_pid("warm/0").expect("it runs");
    let children = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).unwrap_or_default();
    for pid in children.split_whitespace() {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let mib = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            let kib: f64 =
                line.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or_default();
            kib / 1024.0
        };
        println!("a warm parent: resident {:.1} MiB, private {:.1} MiB", mib("Rss:"), mib("Private_Dirty:"));
    }
}
