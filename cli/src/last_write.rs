//! The revision of the caller's last write to each model.
//!
//! `status` waits until the agents have applied this revision before it prints (spec/clients.md 2.3). Each command is
//! a process of its own, so the revision is stored in one small file per model in the data folder. A file that cannot
//! be read or written is not an error: `status` then prints at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

/// Storage of the last writes.
pub enum LastWrites {
    /// One file per model in this folder.
    Folder(PathBuf),
    /// For tests.
    Memory(Mutex<BTreeMap<String, u64>>),
}

impl LastWrites {
    /// A storage in memory, for tests.
    pub fn memory() -> LastWrites {
        LastWrites::Memory(Mutex::default())
    }

    /// Stores the revision that the controller returned for a write to `model`.
    pub fn remember(&self, model: &str, revision: u64) {
        match self {
            LastWrites::Folder(folder) => {
                let _ = fs::create_dir_all(folder)
                    .and_then(|()| fs::write(folder.join(model), revision.to_string()));
            }
            LastWrites::Memory(all) => {
                all.lock().expect("no holder panics").insert(model.to_owned(), revision);
            }
        }
    }

    /// The revision of the last write to `model`, unless all agents are known to have applied it.
    pub fn get(&self, model: &str) -> Option<u64> {
        match self {
            LastWrites::Folder(folder) => fs::read_to_string(folder.join(model)).ok()?.parse().ok(),
            LastWrites::Memory(all) => all.lock().expect("no holder panics").get(model).copied(),
        }
    }

    /// Deletes `revision` because all agents have applied it. A newer revision, of another command, is kept.
    pub fn forget(&self, model: &str, revision: u64) {
        if self.get(model) != Some(revision) {
            return;
        }
        match self {
            LastWrites::Folder(folder) => drop(fs::remove_file(folder.join(model))),
            LastWrites::Memory(all) => {
                all.lock().expect("no holder panics").remove(model);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_write_of_a_model_is_kept_until_it_is_forgotten() {
        let outer = tempfile::tempdir().expect("a folder");
        for writes in [LastWrites::memory(), LastWrites::Folder(outer.path().join("writes"))] {
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
}
