//! Whether a host has enough available memory for a warm parent of a Python charm (docs/explanation/warm-dispatch.md).
//!
//! The agent reads the file before it starts a warm parent, and repeatedly while there is one.

/// The share of the host's memory that must be available, in percent. A warm parent only saves time: a host that has less is
/// about to swap or to kill processes, and needs the memory for the workload.
const AVAILABLE_PERCENT_MIN: u64 = 10;

/// Whether there is memory for a warm parent, from the text of `/proc/meminfo`. A kernel that does not show it restricts
/// nothing.
///
/// ```
/// use state::unit::parent_memory::has_memory_for_parent;
/// assert!(has_memory_for_parent("MemTotal: 1000 kB\nMemAvailable: 100 kB\n"));
/// assert!(!has_memory_for_parent("MemTotal: 1000 kB\nMemAvailable: 99 kB\n"));
/// ```
pub fn has_memory_for_parent(meminfo: &str) -> bool {
    let kib = |name: &str| -> Option<u64> {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim_end().parse().ok()
    };
    match (kib("MemTotal"), kib("MemAvailable")) {
        (Some(total), Some(available)) => {
            u128::from(available) * 100 >= u128::from(total) * u128::from(AVAILABLE_PERCENT_MIN)
        }
        (None, _) | (_, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_memory_must_be_available() {
        let table = [
            ("MemTotal:        8000000 kB\nMemFree:          10000 kB\nMemAvailable:    800000 kB\n", true),
            ("MemTotal:        8000000 kB\nMemFree:         900000 kB\nMemAvailable:    799999 kB\n", false),
            ("MemTotal:        8000000 kB\nMemFree:          10000 kB\n", true),
            ("MemAvailable:          0 kB\n", true),
            ("MemTotal: 18446744073709551615 kB\nMemAvailable: 18446744073709551615 kB\n", true),
            ("", true),
        ];
        for (meminfo, expected) in table {
            assert_eq!(has_memory_for_parent(meminfo), expected, "{meminfo}");
        }
    }
}
