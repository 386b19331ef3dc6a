//! Tests the unit's local state and charm folder under power loss: every folder that a crash of the real program could
//! leave (see `tests::crash_disk`), and every folder that a crash during the recovery could leave.

use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use tests::crash_disk::{Image, Op, crashes, trace};
use tests::folder_operations;

const PROGRAM: &str = env!("CARGO_BIN_EXE_folder-operations");

/// The number of recoveries of a traced folder that are traced and crashed as well.
const RECOVERIES: usize = 6;

/// Creates a folder in memory, because the disk of this machine is not under test.
fn folder() -> TempDir {
    let shm = Path::new("/dev/shm");
    let made = if shm.is_dir() { TempDir::new_in(shm) } else { TempDir::new() };
    made.expect("a folder")
}

fn traced(folder: &Path, arguments: &[&str]) -> Vec<Op> {
    let path = folder.to_str().expect("text");
    trace(folder, PROGRAM, &[&[path][..], arguments].concat())
}

/// Returns the newest report of the program, as a number.
fn newest(reported: &[&str]) -> Option<usize> {
    reported.last().map(|text| text.parse().expect("the program counts"))
}

#[test]
fn no_crash_loses_a_state_that_was_reported_durable() {
    let traced_folder = folder();
    let ops = traced(traced_folder.path(), &["begin"]);
    let reported = ops.iter().filter(|op| matches!(op, Op::Reported(_))).count();
    assert_eq!(reported, folder_operations::local_states().len(), "strace traced every operation");
    let mut left: BTreeMap<Image, Option<usize>> = BTreeMap::new();
    crashes(&Image::default(), &ops, |image, reported| {
        let folder = folder();
        image.write(folder.path());
        let found = folder_operations::found(folder.path());
        assert!(found >= newest(reported), "{reported:?} was reported, {found:?} is stored: {image:?}");
        assert_eq!(folder_operations::found(folder.path()), found, "a second start finds the same");
        left.insert(image.clone(), found);
    });
    println!("{} folders", left.len());
    assert!(left.len() > 100, "{} folders", left.len());
    let every = left.len().div_ceil(RECOVERIES);
    for (image, found) in left.iter().step_by(every) {
        let folder_left = folder();
        image.write(folder_left.path());
        let start = Image::of(folder_left.path());
        let ops = traced(folder_left.path(), &["recover"]);
        crashes(&start, &ops, |image, _| {
            let folder = folder();
            image.write(folder.path());
            assert!(
                folder_operations::found(folder.path()) >= *found,
                "a crash in the recovery lost {found:?}: {image:?}"
            );
        });
    }
}

#[test]
fn no_crash_leaves_a_partial_charm_or_deletes_its_own_files() {
    let traced_folder = folder();
    folder_operations::charm(traced_folder.path(), 0);
    folder_operations::write_own(traced_folder.path());
    let start = Image::of(traced_folder.path());
    let ops = traced(traced_folder.path(), &["charm", "1"]);
    let mut left = Vec::new();
    crashes(&start, &ops, |image, reported| {
        let folder = folder();
        image.write(folder.path());
        let found = folder_operations::charm_found(folder.path()).expect("one or the other");
        assert!(reported.is_empty() || found == 1, "the new revision was reported as installed: {image:?}");
        left.push(image.clone());
    });
    println!("{} folders", left.len());
    assert!(left.len() > 100, "{} folders", left.len());
    for image in left.iter().step_by(left.len().div_ceil(RECOVERIES)) {
        let folder_left = folder();
        image.write(folder_left.path());
        let start = Image::of(folder_left.path());
        let ops = traced(folder_left.path(), &["charm", "1"]);
        assert_eq!(
            folder_operations::charm_found(folder_left.path()),
            Some(1),
            "a repeated installation completes"
        );
        crashes(&start, &ops, |image, _| {
            let folder = folder();
            image.write(folder.path());
            folder_operations::charm_found(folder.path()).expect("one or the other");
        });
    }
}
