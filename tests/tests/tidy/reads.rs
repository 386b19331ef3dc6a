//! Forbids the machine's programs to open a file that may be something else.
//!
//! Hooks can write to the folder of their unit, and root in a container to that of its machine. A pipe in the place of a
//! file stops the only thread of the machine agent, with all units of the machine; a file of 20 GB ends it; and a link
//! makes it write to a file of another. So the product code of the agent, and what of `host` it calls, reads with
//! `host::file::read_regular` or `open_regular`, which have a bound, and appends to a log with `append_regular`.

use super::source::{files, root, tokens};
use std::fs;

/// What opens a file without a look at what it is.
const FORBIDDEN: &[&[&str]] = &[
    &["fs", ":", ":", "read", "("],
    &["fs", ":", ":", "read_to_string"],
    &["fs", ":", ":", "copy"],
    &["File", ":", ":", "open"],
    &["File", ":", ":", "options"],
    &["OpenOptions", ":", ":", "new"],
];

/// Files that may use one of these a number of times, and why.
const EXCEPTIONS: &[(&str, usize, &str)] = &[
    ("agent/src/clock.rs", 1, "/proc"),
    ("agent/src/enrolment.rs", 1, "/etc/os-release"),
    ("agent/src/folder.rs", 1, "the journal: does not wait, and is written by the unit agent only"),
    ("agent/src/hook_process/memory_guard.rs", 1, "/proc"),
    ("agent/src/hook_process/run_files.rs", 1, "creates a new file"),
    (
        "agent/src/hook_session/calls_file.rs",
        2,
        "creates a new file, or appends to one that was read as a regular file",
    ),
    ("agent/src/hook_session/named_files.rs", 3, "looks at what it is; /proc"),
    ("agent/src/recorded_runs/ops_test.rs", 1, "a file of the person who starts it"),
    ("agent/src/recorded_runs/recorded_answers.rs", 1, "a file of the person who starts it"),
    ("agent/src/recorded_runs/scratch.rs", 1, "a run that a person repeats"),
    ("agent/src/storage_pools.rs", 1, "/sys"),
    ("host/src/disk.rs", 1, "a file without a name"),
    ("host/src/file.rs", 4, "the functions that are used instead, a folder, and a new file"),
    ("host/src/lock.rs", 5, "looks at what it is; /proc"),
    ("host/src/log_file.rs", 1, "creates a new file"),
    ("host/src/mounts.rs", 1, "/proc"),
    ("host/src/open_folder.rs", 1, "a folder, and only its place"),
    ("host/src/process.rs", 4, "/proc"),
    ("host/src/random.rs", 1, "a device"),
];

fn uses(text: &str) -> usize {
    let product = text.split("mod tests {").next().unwrap_or_default();
    let tokens = tokens(product);
    let begins = |rest: &[String], words: &[&str]| {
        rest.len() >= words.len() && rest.iter().zip(words).all(|(one, other)| one == other)
    };
    let is_use = |at: &usize| FORBIDDEN.iter().any(|words| begins(&tokens[*at..], words));
    (0..tokens.len()).filter(is_use).count()
}

#[test]
fn the_programs_of_a_machine_look_at_what_they_open() {
    let allowed = |path: &str| EXCEPTIONS.iter().find(|(file, ..)| *file == path).map_or(0, |found| found.1);
    let mut wrong = Vec::new();
    for folder in ["agent/src", "host/src"] {
        for file in files(&root().join(folder)) {
            let path = file.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            let found = uses(&fs::read_to_string(&file).expect("sources are text"));
            if found != allowed(&path) {
                wrong.push(format!("{path}: {found} instead of {}", allowed(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "use host::file::read_regular, or open_regular: {wrong:#?}");
}

#[test]
fn a_forbidden_read_is_found() {
    assert_eq!(uses("let a = std::fs::read(&path); // fs::read(x)\nlet b = File::open(path);"), 2);
    assert_eq!(uses("let a = fs::read_dir(path);\n#[cfg(test)]\nmod tests { fs::read(path) }"), 0);
}
