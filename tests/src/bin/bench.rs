//! `cargo bench-system`: what an event costs from one unit's hook to the other's, against the floor of this disk and this
//! kernel, in one run; and what an idle unit agent takes of memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::host::Host;

const ROUNDS: usize = 300;

/// Both sides of a relation; `told` and `seen` are the files their stamps go to.
fn charm(dir: &Path, name: &str, endpoint: &str, body: &str) -> PathBuf {
    let folder = dir.join(name);
    fs::create_dir_all(&folder).expect("it is our folder");
    let metadata = format!("name: {name}\nsummary: bench\ndescription: bench\n{endpoint}\n");
    fs::write(folder.join("metadata.yaml"), metadata).expect("it is our folder");
    fs::write(folder.join("actions.yaml"), "set:\n  description: set\n").expect("it is our folder");
    let dispatch = folder.join("dispatch");
    fs::write(&dispatch, format!("#!/bin/bash\n{body}\n")).expect("it is our folder");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&dispatch, executable).expect("it is our file");
    folder
}

fn main() {
    let dir = std::env::temp_dir().join(format!("pintle-bench-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("there is room for a bench");
    let (set, seen) = (dir.join("set"), dir.join("seen"));
    let speak = format!(
        "case $JUJU_DISPATCH_PATH in actions/set)\n\
         for id in $(relation-ids out); do relation-set -r $id n=$EPOCHREALTIME; done\n\
         echo $EPOCHREALTIME >> {} ;; esac",
        set.display()
    );
    let hear = format!(
        "now=$EPOCHREALTIME; case $JUJU_DISPATCH_PATH in *-relation-changed) echo $now >> {} ;; esac",
        seen.display()
    );
    let speaker = charm(&dir, "speaker", "provides: {out: {interface: bench}}", &speak);
    let hearer = charm(&dir, "hearer", "requires: {in: {interface: bench}}", &hear);
    let host = Host::up(&dir.join("data"));
    for folder in [&speaker, &hearer] {
        host.ok(&["deploy", folder.to_str().expect("text")]);
    }
    host.ok(&["integrate", "speaker", "hearer"]);
    host.until("both are related", |_| (stamps(&seen).len() == 1).then_some(()));
    let (mut latencies, mut floors) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        host.ok(&["run", "speaker/0", "set"]);
        host.until("the other side ran", |_| (stamps(&seen).len() == round + 2).then_some(()));
        let (set, seen) = (stamps(&set)[round], stamps(&seen)[round + 1]);
        latencies.push((seen - set) * 1000.0);
        floors.push(floor(&dir).as_secs_f64() * 1000.0);
    }
    report("relation-set to relation-changed", &mut latencies);
    report("three fdatasyncs and a spawn", &mut floors);
    println!(
        "ratio p50 {:.2}, p99 {:.2}",
        at(&latencies, 50) / at(&floors, 50),
        at(&latencies, 99) / at(&floors, 99)
    );
    for unit in ["speaker/0", "hearer/0"] {
        let pid = host.agent_pid(unit).expect("it runs");
        println!("{unit}: {}", memory(pid));
    }
    drop(host);
    fs::remove_dir_all(&dir).expect("it is our folder");
}

fn stamps(file: &Path) -> Vec<f64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.replace(',', ".").parse().ok()).collect()
}

/// Measures the cost of the same event without any program of Pintle: three serial durable writes and the same shell started.
fn floor(dir: &Path) -> Duration {
    let mut file =
        File::options().append(true).create(true).open(dir.join("floor")).expect("it is our folder");
    let begin = Instant::now();
    for _ in 0..3 {
        file.write_all(&[b'x'; 512]).expect("there is room");
        file.sync_data().expect("the disk syncs");
    }
    let status = Command::new("/bin/bash").args(["-c", ":"]).status().expect("there is a shell");
    assert!(status.success());
    begin.elapsed()
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn report(what: &str, values: &mut [f64]) {
    values.sort_by(f64::total_cmp);
    println!("{what}: p50 {:.2} ms, p99 {:.2} ms over {}", at(values, 50), at(values, 99), values.len());
}

/// Returns the resident and the proportional memory of a process.
fn memory(pid: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = |text: &str, name: &str| {
        let found = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    format!("{}, {}", line(&status, "VmRSS:"), line(&rollup, "Pss:"))
}
