//! Measures the cost of idle unit agents, and the time that many unit agents take to start.
//!
//! The figures are read from `/proc`; Pintle is used only through its commands.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::host::Host;
use tests::process_usage::{cpu_seconds, memory_mb};

/// Unit agents that are measured while they are idle.
const IDLE_AGENTS: usize = UNITS_OF_APPLICATION;
/// The time over which they are measured: each claims its lease four times.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// The time after the last hook until the measurement begins: blocking threads have ended, and one claim was sent by
/// each agent.
const SETTLE_TIME: Duration = Duration::from_secs(20);
/// The numbers of unit agents for which the time per agent is compared.
const SIZES: [usize; 3] = [100, 250, 500];
/// Units of one application. The view of a unit contains the status of each other unit, so that a larger application
/// costs more for each unit.
const UNITS_OF_APPLICATION: usize = 50;
/// The longest time until all agents of one size have started.
const DEADLINE: Duration = Duration::from_secs(900);
/// Interval between two requests for the status, which takes a fraction of a second with 500 units.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Prints the memory of an idle unit agent, and the CPU time of the controller and the agents while all units are idle.
pub fn idle(dir: &Path, charm: &Path) {
    let host = Host::up(&dir.join("idle-data"));
    host.ok(&["model-config", "update-status-hook-interval=1000h"]);
    deploy(&host, charm, IDLE_AGENTS);
    std::thread::sleep(SETTLE_TIME);
    let controller = controller(&host);
    let agents = processes(&host, &["unit", "--dir"]);
    let machines = processes(&host, &["machine", "--data"]);
    let of_all = |pids: &[i32]| pids.iter().map(|pid| cpu_seconds(*pid)).sum::<f64>();
    let seconds = || [of_all(&[controller]), of_all(&agents), of_all(&machines)];
    let before = seconds();
    std::thread::sleep(IDLE_TIME);
    let after = seconds();
    let cost = |of: usize| (after[of] - before[of]) / IDLE_TIME.as_secs_f64() * 1000.0;
    println!(
        "{} idle unit agents, {} machine agents: controller {:.2} ms of CPU a second (wanted: 2), unit agents {:.2}, \
         machine agents {:.2}",
        agents.len(),
        machines.len(),
        cost(0),
        cost(1),
        cost(2)
    );
    let mut floor = Command::new("/bin/sleep").arg("600").spawn().expect("there is a sleep");
    std::thread::sleep(POLL_INTERVAL);
    let least = memory_mb(floor.id().cast_signed());
    floor.kill().and_then(|()| floor.wait()).expect("it is our child");
    let (resident, proportional) = agents
        .iter()
        .map(|pid| memory_mb(*pid))
        .fold((0.0, 0.0), |sum, of| (sum.0 + of.0 / agents.len() as f64, sum.1 + of.1 / agents.len() as f64));
    println!(
        "memory of an idle unit agent: {resident:.2} MB resident, {proportional:.2} MB proportional of {} (wanted: 5 \
         and 0.7); /bin/sleep: {:.2} and {:.2}",
        agents.len(),
        least.0,
        least.1
    );
}

/// Prints how long 100, 250 and 500 unit agents take to start, each size in a data folder of its own.
pub fn many(dir: &Path, charm: &Path) {
    let mut first = None;
    for size in SIZES {
        let host = Host::up(&dir.join(format!("many-{size}")));
        let begin = Instant::now();
        deploy(&host, charm, size);
        let each = begin.elapsed().as_secs_f64() * 1000.0 / size as f64;
        let of_first = each / *first.get_or_insert(each);
        let cpu = cpu_seconds(controller(&host)) * 1000.0 / size as f64;
        println!(
            "{size} unit agents came up: {each:.0} ms each, {of_first:.2} of that of {} units; controller {cpu:.0} ms \
             of CPU each",
            SIZES[0]
        );
    }
}

/// Deploys units of a charm, in applications of 50, and waits until all of them are active and idle.
fn deploy(host: &Host, charm: &Path, units: usize) {
    for application in 0..units / UNITS_OF_APPLICATION {
        let (charm, name) = (charm.to_str().expect("text"), format!("idle{application}"));
        host.ok(&["deploy", charm, &name, "-n", &UNITS_OF_APPLICATION.to_string()]);
    }
    let end = Instant::now() + DEADLINE;
    loop {
        let waiting = not_idle(&host.status());
        if waiting.0 == units && waiting.1.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "{} of {units} exist, not idle: {:?}", waiting.0, waiting.1);
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the number of units, and those that are not active and idle.
fn not_idle(status: &Value) -> (usize, Vec<String>) {
    let applications = status["applications"].as_object().into_iter().flatten();
    let units: Vec<_> =
        applications.filter_map(|(_, application)| application["units"].as_object()).flatten().collect();
    let is_idle = |unit: &Value| {
        unit["workload-status"]["current"] == "active" && unit["juju-status"]["current"] == "idle"
    };
    let waiting = units.iter().filter(|(_, unit)| !is_idle(unit)).map(|(name, _)| (*name).clone());
    (units.len(), waiting.collect())
}

/// Returns the pid of the controller.
pub fn controller(host: &Host) -> i32 {
    processes(host, &["pintle-controller"]).pop().expect("it runs")
}

/// Returns the pids of the processes whose command line names the data folder and contains these words, one after the
/// other. The first word may be the end of the program's path.
fn processes(host: &Host, words: &[&str]) -> Vec<i32> {
    let dir = host.dir.to_string_lossy();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_ours = line.contains(&*dir) && line.contains(&format!("{} ", words.join(" ")));
        is_ours.then(|| entry.file_name().to_string_lossy().parse().ok())?
    });
    pids.collect()
}
