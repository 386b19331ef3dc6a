//! One supervisor for a data folder: a kernel lock on a file that names its holder.

use crate::data_dir::DataDir;
use crate::failure::Failure;
use crate::supervisor::process::Process;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// The supervisor of this folder, if one lives.
pub fn holder(dir: &DataDir) -> Option<Process> {
    Process::named_by(&dir.supervisor_lock())
}

/// Takes the lock for this process, for as long as the file is open. Refused while another process has it.
pub fn hold(dir: &DataDir) -> Result<File, Failure> {
    let path = dir.supervisor_lock();
    let broken = |error: std::io::Error| Failure::new(format!("cannot lock {}: {error}", path.display()));
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let mut file = open.map_err(broken)?;
    if file.try_lock().is_err() {
        let who =
            holder(dir).map_or("another process".to_owned(), |holder| format!("process {}", holder.pid));
        return Err(Failure::new(format!("{} is supervised by {who}", dir.path().display())));
    }
    let own = Process::of(std::process::id() as i32).expect("this process lives");
    file.set_len(0).and_then(|()| writeln!(file, "{own}")).map_err(broken)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_told_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        assert_eq!(holder(&dir), None);
        let held = hold(&dir).expect("free");
        let failure = hold(&dir).expect_err("held");
        let expected = format!("is supervised by process {}", std::process::id());
        assert!(failure.message.ends_with(&expected), "{failure:?}");
        drop(held);
        hold(&dir).expect("free again");
    }
}
