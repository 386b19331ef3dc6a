//! The files that a hook names in the arguments of its tools, as the agent reads and writes them for the tool.
//!
//! Paths are relative to the working directory of the tool, and messages are those of Juju's tools, which charms match.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// The size limit of a file that a tool reads: the same as that of its stdin.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The absolute path of a file that a tool names, as Juju's tools show it in messages: relative to the working
/// directory of the client, without `.` and `..`.
pub(super) fn absolute(cwd: &Path, path: &str) -> PathBuf {
    let path = expand(path);
    if path.is_absolute() {
        return path;
    }
    let mut clean = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(clean.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}

/// Expands `~/` to the home of the agent's user, which is the charm's user.
fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        (Some(_), None) | (None, _) => PathBuf::from(path),
    }
}

/// The text of Go's os package for an error, which charms match.
fn go_error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Opens a regular file. Anything else is refused, because a pipe would block the agent.
fn open_regular_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// Replaces the content of a file that a tool names. A new file has the mode that the tool, whose process is `pid`, would
/// give it.
///
/// # Errors
/// The message of the tool.
pub(super) fn write_file(path: &Path, bytes: &[u8], pid: Option<i32>) -> Result<(), String> {
    let is_new = !path.exists();
    open_regular_file(OpenOptions::new().write(true).create(true).truncate(true), path)
        .and_then(|mut file| {
            // the umask of the agent is stricter than that of hooks
            if let Some(umask) = pid.filter(|_| is_new).and_then(umask_of) {
                file.set_permissions(Permissions::from_mode(0o666 & !umask))?;
            }
            file.write_all(bytes)
        })
        .map_err(|error| open_error(path, &error))
}

/// The umask of a process. None if it has ended.
fn umask_of(pid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(umask.trim(), 8).ok()
}

/// The message of Go's os package for a file that cannot be opened.
fn open_error(path: &Path, error: &io::Error) -> String {
    format!("open {}: {}", path.display(), go_error_text(error))
}

/// The content of a file that a tool names.
///
/// # Errors
/// The message of the tool.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let mut bytes = Vec::new();
        open_regular_file(OpenOptions::new().read(true), path)?
            .take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(io::Error::other("file too large")),
            false => Ok(bytes),
        }
    };
    read().map_err(|error: io::Error| open_error(path, &error))
}
