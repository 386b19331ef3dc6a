//! The log file of a daemon, bounded in size: a full file becomes `NAME.1`, and a new one begins.
//!
//! The program that starts a daemon opens the file as the daemon's stdout and stderr ([`open`]). The daemon calls
//! [`rotate_stderr`] before each line, so a daemon that runs for months stays within the bound, and so does one that
//! fails at each start. If stderr is not a file, for example under systemd, the service manager bounds the
//! log.

use crate::file::{append_regular, ignore_not_found, is_of_one_name};
use nix::unistd::{dup2_stderr, dup2_stdout};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The size in bytes at which a log file is rotated. A line has about 250 bytes and a hook writes one, so a file holds
/// some 4,000 hooks. With the rotated file a daemon has at most 2 MiB of log: 4 GB for 2,000 unit agents on one host.
pub const LOG_FILE_BYTES_MAX: u64 = 1 << 20;
/// The size in bytes at which a log file that cannot be rotated is emptied: while the disk has no space or the
/// process no descriptor for a new file, the lines that state the reason are kept.
pub const UNROTATED_BYTES_MAX: u64 = 4 * LOG_FILE_BYTES_MAX;

/// The log of this process. The kernel resolves it to the open file, also after a rename.
const STDERR: &str = "/proc/self/fd/2";
const STDOUT: &str = "/proc/self/fd/1";
/// What the kernel adds to the path of an open file that was deleted.
const DELETED: &str = " (deleted)";

/// Opens a log file for appending; only its owner can read it. A full file is rotated first, or emptied if it cannot be
/// rotated and has [`UNROTATED_BYTES_MAX`] bytes. A link, or anything else that is no regular file of one name, is removed:
/// the hooks of a unit may write to the folder of its log, and what is behind a link need not be theirs.
///
/// # Errors
/// If the file cannot be opened, or what is there cannot be removed.
pub fn open(path: &Path) -> io::Result<File> {
    let found = ignore_not_found(fs::symlink_metadata(path))?;
    if found.as_ref().is_some_and(|found| !is_of_one_name(found)) {
        ignore_not_found(fs::remove_file(path))?;
    } else if let Some(found) = found.filter(is_full)
        && let Ok(next) = next_file(path, &found)
    {
        return Ok(next);
    }
    let log = append_regular(path)?;
    if is_beyond_bound(&log.metadata()?) {
        log.set_len(0)?;
    }
    Ok(log)
}

/// Rotates the log to which stderr is written if it is full, and stdout with it if it is the same file. A log that was
/// deleted is created again, in a folder that still exists.
///
/// The name of the log is the one that it has at the first call. If the file cannot be rotated, it stays as it is until
/// it has [`UNROTATED_BYTES_MAX`] bytes, and is then emptied: a bound holds in any case. Errors are not reported,
/// because there is nowhere to report them.
pub fn rotate_stderr() {
    /// The path of the log; `None` before the first call. An empty path names no file.
    static PATH: Mutex<Option<PathBuf>> = Mutex::new(None);
    let Ok(mut path) = PATH.lock() else { return };
    let path = path.get_or_insert_with(log_path);
    let Ok(current) = fs::metadata(STDERR) else { return };
    let next = match (is_deleted(&current), is_full(&current)) {
        (true, _) => append_regular(path),
        (false, true) => next_file(path, &current),
        (false, false) => return,
    };
    let shares_stdout = fs::metadata(STDOUT).is_ok_and(|stdout| is_same(&stdout, &current));
    match next {
        Ok(next) => {
            dup2_stderr(&next).ok();
            if shares_stdout {
                dup2_stdout(&next).ok();
            }
        }
        Err(_) if is_beyond_bound(&current) => {
            nix::unistd::ftruncate(io::stderr(), 0).ok();
        }
        Err(_) => {}
    }
}

/// The path of the file behind stderr, which another writer may already have rotated. Empty if there is no file.
fn log_path() -> PathBuf {
    let path = fs::read_link(STDERR).unwrap_or_default();
    let is_deleted = fs::metadata(STDERR).is_ok_and(|current| is_deleted(&current));
    let name = path.to_str().filter(|_| is_deleted).and_then(|name| name.strip_suffix(DELETED));
    let path = name.map_or_else(|| path.clone(), PathBuf::from);
    if path.extension().is_some_and(|extension| extension == "1") { path.with_extension("") } else { path }
}

/// Returns the file that follows the full file `current`, which has, or had, the name `path`. The names change only
/// once the new file exists.
fn next_file(path: &Path, current: &Metadata) -> io::Result<File> {
    let full = append_regular(path);
    if !full.as_ref().is_ok_and(|full| full.metadata().is_ok_and(|found| is_same(&found, current))) {
        // Another writer of the same log may have rotated it.
        if fs::symlink_metadata(with_suffix(path, ".1")).is_ok_and(|rotated| is_same(&rotated, current)) {
            return append_regular(path);
        }
        return Err(io::Error::other("the name belongs to another file"));
    }
    // Only one of several writers rotates the file; the others then find it under its rotated name.
    let full = full?;
    full.try_lock()?;
    if !is_same(&fs::symlink_metadata(path)?, current) {
        return Err(io::Error::other("another writer has rotated the log"));
    }
    let temporary = with_suffix(path, ".new");
    ignore_not_found(fs::remove_file(&temporary))?;
    let next = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&temporary)?;
    let rotated = fs::rename(path, with_suffix(path, ".1")).and_then(|()| fs::rename(&temporary, path));
    if rotated.is_err() {
        fs::remove_file(&temporary).ok();
    }
    rotated.map(|()| next)
}

fn is_deleted(log: &Metadata) -> bool {
    log.is_file() && log.nlink() == 0
}

fn is_full(log: &Metadata) -> bool {
    log.is_file() && log.len() >= LOG_FILE_BYTES_MAX
}

fn is_beyond_bound(log: &Metadata) -> bool {
    log.is_file() && log.len() >= UNROTATED_BYTES_MAX
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The file in the same folder whose name is longer by `suffix`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn full() -> Vec<u8> {
        vec![b'x'; usize::try_from(LOG_FILE_BYTES_MAX).expect("it is small")]
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

    #[test]
    fn what_is_no_log_is_replaced_and_neither_emptied_nor_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, other] = ["agent.log", "other"].map(|name| folder.path().join(name));
        let bytes = UNROTATED_BYTES_MAX + 1;
        File::create(&other).and_then(|other| other.set_len(bytes)).expect("created");
        let plant: [&dyn Fn(); 3] = [
            &|| std::os::unix::fs::symlink(&other, &path).expect("linked"),
            &|| fs::hard_link(&other, &path).expect("linked"),
            &|| nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a new pipe"),
        ];
        for plant in plant {
            plant();
            let opened = path.clone();
            let log = crate::file::tests::in_time(move || open(&opened)).expect("replaced");
            (&log).write_all(b"line").expect("written");
            assert_eq!(fs::read_to_string(&path).expect("a new log"), "line");
            assert_eq!(other.metadata().expect("there").len(), bytes);
            fs::remove_file(&path).expect("it exists");
        }
    }

    #[test]
    fn a_log_that_was_deleted_is_created_again_where_its_folder_still_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logs/agent.log");
        fs::create_dir(folder.path().join("logs")).expect("created");
        let log = open(&path).expect("opened");
        fs::remove_file(&path).expect("it exists");
        write_log(&log, 3);
        assert!(path.metadata().is_ok_and(|found| found.len() > 0));
        let log = open(&path).expect("opened");
        fs::remove_dir_all(folder.path().join("logs")).expect("it exists");
        write_log(&log, 3);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    }

    /// A hook may replace the log of the agent that runs it.
    #[test]
    fn a_daemon_whose_log_was_replaced_does_not_write_to_what_is_there_now() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, other] = ["agent.log", "other"].map(|name| folder.path().join(name));
        fs::write(&other, "of another").expect("written");
        let log = open(&path).expect("opened");
        // the lines that the log is rotated by are in the file that has the rotated name
        fs::rename(&path, with_suffix(&path, ".1")).expect("moved");
        std::os::unix::fs::symlink(&other, &path).expect("linked");
        write_log(&log, 1_200);
        assert_eq!(other.metadata().expect("there").len(), "of another".len() as u64);
    }

    /// Run by the test below in a process of its own, whose stdout and stderr are a log.
    #[test]
    fn writes_lines_to_its_stderr() {
        let Ok(lines) = std::env::var("LINES_OF_LOG") else { return };
        let can_open = std::env::var_os("CAN_OPEN_NONE").is_none();
        let _open: Vec<File> =
            std::iter::from_fn(|| File::open("/dev/null").ok().filter(|_| !can_open)).collect();
        for line in 0..lines.parse::<u32>().expect("a number") {
            rotate_stderr();
            // not eprintln, which the test harness captures
            writeln!(io::stderr(), "{line} {}", "y".repeat(1_000)).expect("written");
        }
    }

    fn write_log(log: &File, lines: u32) {
        write_log_with(log, lines, true);
    }

    /// Writes lines in a process that may have 64 open files, and has them if it can open none.
    fn write_log_with(log: &File, lines: u32, can_open: bool) {
        let written = Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().expect("a test"))
            .args(["--exact", "--nocapture", "log_file::tests::writes_lines_to_its_stderr"])
            .envs((!can_open).then_some(("CAN_OPEN_NONE", "")))
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
        let (newest, before) = (text(&path), text(&with_suffix(&path, ".1")));
        for part in [&newest, &before] {
            assert!(part.len() as u64 <= LOG_FILE_BYTES_MAX + 2_000, "{}", part.len());
        }
        assert!(newest.contains("\n2499 y") && newest.contains("result: ok"), "stdout is the same file");
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
        write_log(&log, 4_500);
        assert!(log.metadata().expect("open").len() < LOG_FILE_BYTES_MAX);
        assert_eq!(fs::read_to_string(&path).expect("there"), "of another");
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("there").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_log_that_cannot_be_rotated_keeps_its_name_and_its_lines_up_to_a_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.log");
        fs::write(with_suffix(&path, ".1"), "the lines before").expect("written");
        let log = open(&path).expect("opened");
        write_log_with(&log, 2_500, false);
        assert_eq!(names(folder.path()), ["c.log", "c.log.1"]);
        let text = fs::read_to_string(&path).expect("there");
        assert!(text.contains("0 y") && text.contains("\n2499 y"), "no line is lost");
        assert_eq!(fs::read_to_string(with_suffix(&path, ".1")).expect("there"), "the lines before");
        write_log_with(&log, 2_500, false);
        assert!(log.metadata().expect("open").len() <= LOG_FILE_BYTES_MAX, "it was emptied");
        assert_eq!(fs::read_to_string(with_suffix(&path, ".1")).expect("there"), "the lines before");
    }

    #[test]
    fn nothing_is_renamed_or_emptied_while_the_new_file_cannot_be_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.log");
        fs::write(&path, full()).expect("written");
        // A folder at the temporary name cannot be replaced by a file, not even by root.
        fs::create_dir(with_suffix(&path, ".new")).expect("made");
        let log = open(&path).expect("opened");
        assert_eq!(log.metadata().expect("open").len(), LOG_FILE_BYTES_MAX);
        write_log(&log, 100);
        assert_eq!(names(folder.path()), ["c.log", "c.log.new"]);
        assert!(log.metadata().expect("open").len() > LOG_FILE_BYTES_MAX + 100_000);
    }

    #[test]
    fn a_second_writer_goes_on_in_the_new_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.log");
        let (first, second) = (open(&path).expect("opened"), open(&path).expect("opened"));
        std::thread::scope(|scope| {
            scope.spawn(|| write_log(&first, 2_500));
            scope.spawn(|| write_log(&second, 2_500));
        });
        assert_eq!(names(folder.path()), ["c.log", "c.log.1"]);
        for name in names(folder.path()) {
            let bytes = fs::metadata(folder.path().join(&name)).expect("there").len();
            // while one writer rotates and is preempted, the other writes on
            assert!(bytes <= 2 * LOG_FILE_BYTES_MAX, "{name}: {bytes}");
        }
    }
}
