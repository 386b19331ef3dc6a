//! The CPU time and the memory of a process, read from `/proc`. A process that does not exist has used nothing.

use std::fs;

/// Clock ticks per second in `/proc/PID/stat`: the same on all Linux hosts.
const TICKS: f64 = 100.0;

/// Returns the seconds of CPU time that a process has used.
pub fn cpu_seconds(pid: i32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // the name of the program, in parentheses, may contain spaces
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Returns the resident and the proportional memory of a process, in MB of 1,000,000 bytes.
pub fn memory_mb(pid: i32) -> (f64, f64) {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let of = |name: &str| {
        let line = rollup.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok());
        kib.unwrap_or_default() * 1024.0 / 1e6
    };
    (of("Rss:"), of("Pss:"))
}
