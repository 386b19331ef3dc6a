//! The storage of a machine that could not be provided again after a boot, and the file in which the machine agent stores
//! it for `pintle-agent why`.
//!
//! The agent of a unit is not started while storage of the unit is missing, because its hooks would find it empty. Written
//! by `storage_pools`, read by `inspect`; the machine agent reports the same to the controller.

use host::file::{ignore_not_found, read_regular_text, write_atomic_unsynced};
use state::terms::health::bounded_line;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// In the folder of a machine: the errors by unit, while there are any. The nil uuid stands for each unit.
const FILE: &str = "unrestored-storage.yaml";
/// The largest such file: an error of some 5 KiB, with a path, for each of the 40 instances of a machine.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The key of errors that may concern each unit.
const EACH_UNIT: Uuid = Uuid(0);

/// The storage of a machine that could not be provided again after a boot. The default is that all of it was.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnrestoredStorage {
    /// One text for each instance that could not be provided, by the unit that has it. The nil uuid has what prevents that
    /// instances are read: each unit may have one of those.
    errors: BTreeMap<Uuid, Vec<String>>,
}

impl UnrestoredStorage {
    /// Adds an instance of this unit that could not be provided.
    pub fn add(&mut self, unit: Uuid, error: String) {
        self.errors.entry(unit).or_default().push(error);
    }

    /// Adds what prevents that instances are read.
    pub fn add_unreadable(&mut self, error: String) {
        self.add(EACH_UNIT, error);
    }

    /// Whether everything was restored.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors; none if everything was restored.
    pub fn error_text(&self) -> Option<String> {
        joined(self.errors.values().flatten())
    }

    /// Why storage of this unit is missing, or may be; none if it has what it needs.
    pub fn error_of(&self, unit: Uuid) -> Option<String> {
        let errors = [unit, EACH_UNIT].into_iter().filter_map(|key| self.errors.get(&key));
        joined(errors.flatten()).map(|text| bounded_line(&text))
    }

    /// Stores it in the folder of the machine, or deletes what was stored if everything was restored. If that fails, only
    /// `pintle-agent why` lacks it.
    pub fn store(&self, machine: &Path) {
        let file = machine.join(FILE);
        let stored = match self.is_empty() {
            true => ignore_not_found(fs::remove_file(&file)).map(drop),
            false => {
                let text = charms::yaml::to_string(&self.errors).expect("plain data");
                write_atomic_unsynced(&file, text.as_bytes())
            }
        };
        if let Err(error) = stored {
            tracing::debug!("cannot store {}: {error}", file.display());
        }
    }

    /// What the agent of the machine in this folder has stored.
    pub fn read(machine: &Path) -> UnrestoredStorage {
        let text = read_regular_text(&machine.join(FILE), FILE_BYTES_MAX).unwrap_or_default();
        UnrestoredStorage { errors: charms::yaml::from_str(&text).unwrap_or_default() }
    }
}

fn joined<'a>(errors: impl Iterator<Item = &'a String>) -> Option<String> {
    let errors: Vec<&str> = errors.map(String::as_str).collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_concern_each_unit_is_named_for_each_one_and_stored_until_everything_is_restored() {
        let machine = tempfile::tempdir().expect("a folder");
        let mut unrestored = UnrestoredStorage::default();
        unrestored.add(Uuid(1), "a".to_owned());
        unrestored.add(Uuid(1), "b".to_owned());
        assert_eq!(
            (unrestored.error_of(Uuid(1)).as_deref(), unrestored.error_of(Uuid(2))),
            (Some("a; b"), None)
        );
        unrestored.add_unreadable("c".to_owned());
        for (unit, error) in [(1, "a; b; c"), (2, "c")] {
            assert_eq!(unrestored.error_of(Uuid(unit)).as_deref(), Some(error));
        }
        unrestored.store(machine.path());
        assert_eq!(UnrestoredStorage::read(machine.path()), unrestored);
        UnrestoredStorage::default().store(machine.path());
        assert!(UnrestoredStorage::read(machine.path()).is_empty());
        assert_eq!(fs::read_dir(machine.path()).expect("readable").count(), 0);
    }
}
