//! The caller's last write to each model, so that `status` can let the agents catch up with it before it answers
//! (spec/clients.md 2.3). One small file a model: commands are processes, and this is all that they tell each other.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

pub enum LastWrites {
    /// One file a model. That it cannot be written or read is no reason to fail: `status` then answers at once.
    Folder(PathBuf),
    /// For tests.
    Memory(Mutex<BTreeMap<String, u64>>),
}

impl LastWrites {
    pub fn memory() -> LastWrites {
        LastWrites::Memory(Mutex::default())
    }

    /// The controller answered that the write is in its store at this revision.
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

    /// The revision that nobody is known to have caught up with yet.
    pub fn of(&self, model: &str) -> Option<u64> {
        match self {
            LastWrites::Folder(folder) => fs::read_to_string(folder.join(model)).ok()?.parse().ok(),
            LastWrites::Memory(all) => all.lock().expect("no holder panics").get(model).copied(),
        }
    }

    /// Everybody has caught up with `revision`. A newer write of another command stays.
    pub fn forget(&self, model: &str, revision: u64) {
        if self.of(model) != Some(revision) {
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
            assert_eq!(writes.of("dev"), None);
            writes.forget("dev", 3);
            writes.remember("dev", 3);
            writes.remember("other", 4);
            writes.remember("dev", 17);
            writes.forget("dev", 3);
            assert_eq!((writes.of("dev"), writes.of("other")), (Some(17), Some(4)));
            writes.forget("dev", 17);
            assert_eq!((writes.of("dev"), writes.of("other")), (None, Some(4)));
        }
    }
}
