//! The log file of a daemon, bounded in size: a full file becomes `NAME.1`, and a new one begins.
//!
//! The program that starts a daemon opens the file as the daemon's stdout and stderr ([`open`]). The daemon calls
//! [`rotate_stderr`] before each line, so a daemon that runs for months stays within the bound, and so does one that
//! fails at each start. A daemon whose stderr is no file, for example below systemd, leaves the bound to its service
//! manager.

use crate::file::ignore_not_found;
use nix::unistd::{dup2_stderr, dup2_stdout};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The size in bytes at which a log file is rotated. A line has about 250 bytes and a hook writes one, so a file holds
/// some 4,000 hooks. With the rotated file a daemon has at most 2 MiB of log: 4 GB for 2,000 unit agents on one host.
pub const LOG_BYTES_MAX: u64 = 1 << 20;

/// The log of this process. The kernel resolves it to the open file, also after a rename.
const STDERR: &str = "/proc/self/fd/2";
const STDOUT: &str = "/proc/self/fd/1";

/// Opens a log file for appending; only its owner can read it. A full file is rotated first.
///
/// # Errors
/// If the file cannot be opened, or a full one cannot be renamed.
pub fn open(path: &Path) -> io::Result<File> {
    if ignore_not_found(fs::metadata(path))?.is_some_and(|found| is_full(&found)) {
        fs::rename(path, rotated(path))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Rotates the log to which stderr is written if it is full, and stdout with it if it is the same file.
///
/// If the file can no longer be found, or not be renamed, it is emptied: the bound holds in any case. Errors are not
/// reported, because there is nowhere to report them.
pub fn rotate_stderr() {
    static ROTATING: Mutex<()> = Mutex::new(());
    let Ok(_order) = ROTATING.lock() else { return };
    let Ok(current) = fs::metadata(STDERR) else { return };
    if !is_full(&current) {
        return;
    }
    let shares_stdout = fs::metadata(STDOUT).is_ok_and(|stdout| is_same(&stdout, &current));
    match next_file(Path::new(STDERR), &current) {
        Ok(next) => {
            dup2_stderr(&next).ok();
            if shares_stdout {
                dup2_stdout(&next).ok();
            }
        }
        Err(_) => {
            OpenOptions::new().write(true).truncate(true).open(STDERR).ok();
        }
    }
}

/// Renames the file behind a link and returns a new one with its name.
fn next_file(link: &Path, current: &Metadata) -> io::Result<File> {
    let path = fs::read_link(link)?;
    if !is_same(&fs::symlink_metadata(&path)?, current) {
        return Err(io::Error::other("the name belongs to another file"));
    }
    open(&path)
}

fn is_full(log: &Metadata) -> bool {
    log.is_file() && log.len() >= LOG_BYTES_MAX
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// `NAME.1` in the same folder.
fn rotated(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".1");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn full() -> Vec<u8> {
        vec![b'x'; usize::try_from(LOG_BYTES_MAX).expect("it is small")]
    }

    #[test]
    fn a_full_log_is_rotated_when_it_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.log");
        for round in 0..3 {
            let mut log = open(&path).expect("opened");
            assert_eq!(log.metadata().expect("open").len(), 0, "round {round}");
            log.write_all(&full()[1..]).expect("written");
            assert!(open(&path).is_ok_and(|same| same.metadata().is_ok_and(|found| found.len() > 0)));
            log.write_all(b"\n").expect("written");
        }
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 2, "one rotated file is kept");
    }

    /// Run by the test below in a process of its own, whose stdout and stderr are a log.
    #[test]
    fn writes_lines_to_its_stderr() {
        let Ok(lines) = std::env::var("LINES_OF_LOG") else { return };
        for line in 0..lines.parse::<u32>().expect("a number") {
            rotate_stderr();
            // not eprintln, which the test harness captures
            writeln!(io::stderr(), "{line} {}", "y".repeat(1_000)).expect("written");
        }
    }

    fn write_log(log: &File, lines: u32) {
        let written = Command::new(std::env::current_exe().expect("a test"))
            .args(["--exact", "--nocapture", "log_file::tests::writes_lines_to_its_stderr"])
            .env("LINES_OF_LOG", lines.to_string())
            .stdout(Stdio::from(log.try_clone().expect("cloned")))
            .stderr(Stdio::from(log.try_clone().expect("cloned")))
            .status();
        assert!(written.is_ok_and(|status| status.success()));
    }

    #[test]
    fn a_running_daemon_rotates_its_log_and_keeps_the_newest_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.log");
        write_log(&open(&path).expect("opened"), 2_500);
        let text = |path: &Path| fs::read_to_string(path).expect("there");
        let (newest, before) = (text(&path), text(&rotated(&path)));
        for part in [&newest, &before] {
            assert!(part.len() as u64 <= LOG_BYTES_MAX + 2_000, "{}", part.len());
        }
        assert!(newest.contains("\n2499 y") && newest.contains("test result: ok"), "stdout is the same file");
        let last_before = before.lines().last().and_then(|line| line.split(' ').next());
        let first = newest.split(' ').next().and_then(|number| number.parse::<u32>().ok()).expect("a line");
        assert_eq!(last_before, Some((first - 1).to_string().as_str()), "no line is lost");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 2);
    }

    #[test]
    fn a_log_whose_name_was_taken_away_is_emptied() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.log");
        let log = open(&path).expect("opened");
        fs::rename(&path, folder.path().join("moved")).expect("moved");
        fs::write(&path, "of another").expect("written");
        write_log(&log, 0);
        fs::remove_file(folder.path().join("moved")).expect("removed");
        write_log(&log, 1_500);
        assert!(log.metadata().expect("open").len() < LOG_BYTES_MAX);
        assert_eq!(fs::read_to_string(&path).expect("there"), "of another");
    }
}
