//! The program that `tests/crash_disk.rs` runs under strace: it writes the unit's local state or its charm folder with
//! product code, and reports on standard output what is durable.
//!
//! `crash-scenario FOLDER begin | recover | charm N`

use std::path::Path;
use tests::crash_scenarios;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let folder = Path::new(arguments[0]);
    match arguments[1..] {
        ["begin"] => crash_scenarios::begin(folder),
        ["recover"] => crash_scenarios::recover(folder),
        ["charm", revision] => crash_scenarios::charm(folder, revision.parse().expect("a number")),
        _ => panic!("crash-scenario FOLDER begin | recover | charm N"),
    }
}
