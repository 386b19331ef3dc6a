//! The revision of the caller's last write to each model.
//!
//! `status` waits until the agents have applied this revision before it prints (spec/clients.md 2.3). Each command is
//! a process of its own, so the revision is stored in one small file per model in the data folder. A file that cannot
//! be read or written is not an error: `status` then prints at once.

use std::fs;
use std::path::PathBuf;

/// The folder of the last writes, with one file per model. The first write creates it.
pub struct LastWrites(pub PathBuf);

impl LastWrites {
    /// Stores the revision that the controller returned for a write to `model`.
    pub fn remember(&self, model: &str, revision: u64) {
        let _ =
            fs::create_dir_all(&self.0).and_then(|()| fs::write(self.0.join(model), revision.to_string()));
    }

    /// The revision of the last write to `model`, unless all agents are known to have applied it.
    pub fn get(&self, model: &str) -> Option<u64> {
        fs::read_to_string(self.0.join(model)).ok()?.parse().ok()
    }

    /// Deletes `revision` because all agents have applied it. A newer revision, of another command, is kept.
    pub fn forget(&self, model: &str, revision: u64) {
        if self.get(model) == Some(revision) {
            drop(fs::remove_file(self.0.join(model)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_write_of_a_model_is_kept_until_it_is_forgotten() {
        let outer = tempfile::tempdir().expect("a folder");
        let writes = LastWrites(outer.path().join("writes"));
        assert_eq!(writes.get("dev"), None);
        writes.forget("dev", 3);
        writes.remember("dev", 3);
        writes.remember("other", 4);
        writes.remember("dev", 17);
        writes.forget("dev", 3);
        assert_eq!((writes.get("dev"), writes.get("other")), (Some(17), Some(4)));
        writes.forget("dev", 17);
        assert_eq!((writes.get("dev"), writes.get("other")), (None, Some(4)));
    }
}
