//! The program that `tests/crash_disk.rs` runs under strace: it writes the unit's local state or its charm folder with
//! product code, and reports on standard output what is durable.
//!
//! `folder-operations FOLDER begin | recover | charm N`

use std::path::Path;
use tests::folder_operations;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let folder = Path::new(arguments[0]);
    match arguments[1..] {
        ["begin"] => folder_operations::begin(folder),
        ["recover"] => folder_operations::recover(folder),
        ["charm", revision] => folder_operations::charm(folder, revision.parse().expect("a number")),
        _ => panic!("folder-operations FOLDER begin | recover | charm N"),
    }
}
