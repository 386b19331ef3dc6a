//! What the commands of this host remember about a model: the revision of their last write to it, and from where the
//! charms of its applications were deployed.
//!
//! `status` waits until the agents have applied the last write before it prints (spec/clients.md 2.3), and `refresh`
//! without `--path` uses the place of the charm, which is a path of this host. Each command is a process of its own, so
//! that each note is a small file in the data folder. A note that cannot be read or written is not an error: the
//! command then does without it.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the notes, with a folder per model. The first note creates it.
pub struct ModelNotes(pub PathBuf);

impl ModelNotes {
    /// Stores the revision that the controller returned for a write to `model`.
    pub fn store_last_write(&self, model: &str, revision: u64) {
        self.store(self.last_write_file(model), &revision.to_string());
    }

    /// The revision of the last write to `model`, unless all agents are known to have applied it.
    pub fn last_write(&self, model: &str) -> Option<u64> {
        fs::read_to_string(self.last_write_file(model)).ok()?.parse().ok()
    }

    /// Deletes `revision` because all agents have applied it. A newer revision, of another command, is kept.
    pub fn delete_last_write(&self, model: &str, revision: u64) {
        if self.last_write(model) == Some(revision) {
            drop(fs::remove_file(self.last_write_file(model)));
        }
    }

    /// Stores from where the charm of an application was deployed or refreshed.
    pub fn store_charm_place(&self, model: &str, application: &str, place: &Path) {
        if let Ok(place) = std::path::absolute(place) {
            self.store(self.charm_place_file(model, application), &place.to_string_lossy());
        }
    }

    /// From where the charm of an application was deployed or refreshed the last time.
    pub fn charm_place(&self, model: &str, application: &str) -> Option<PathBuf> {
        fs::read_to_string(self.charm_place_file(model, application)).ok().map(PathBuf::from)
    }

    /// Deletes the place of the charm of an application that is being removed.
    pub fn delete_charm_place(&self, model: &str, application: &str) {
        drop(fs::remove_file(self.charm_place_file(model, application)));
    }

    /// Deletes the notes of a model that was destroyed.
    pub fn delete_model(&self, model: &str) {
        drop(fs::remove_dir_all(self.0.join(model)));
    }

    fn last_write_file(&self, model: &str) -> PathBuf {
        self.0.join(model).join("last-write")
    }

    fn charm_place_file(&self, model: &str, application: &str) -> PathBuf {
        self.0.join(model).join("charm-places").join(application)
    }

    fn store(&self, file: PathBuf, text: &str) {
        let folder = file.parent().expect("each note is in a folder");
        let _ = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_write_of_a_model_is_kept_until_agents_have_applied_it() {
        let outer = tempfile::tempdir().expect("a folder");
        let notes = ModelNotes(outer.path().join("notes"));
        assert_eq!(notes.last_write("dev"), None);
        notes.delete_last_write("dev", 3);
        notes.store_last_write("dev", 3);
        notes.store_last_write("other", 4);
        notes.store_last_write("dev", 17);
        notes.delete_last_write("dev", 3);
        assert_eq!((notes.last_write("dev"), notes.last_write("other")), (Some(17), Some(4)));
        notes.delete_last_write("dev", 17);
        assert_eq!((notes.last_write("dev"), notes.last_write("other")), (None, Some(4)));
    }

    #[test]
    fn the_notes_of_a_model_are_kept_until_it_is_destroyed() {
        let outer = tempfile::tempdir().expect("a folder");
        let notes = ModelNotes(outer.path().join("notes"));
        assert_eq!(notes.charm_place("dev", "web"), None);
        notes.store_charm_place("dev", "web", Path::new("/charms/web"));
        notes.store_charm_place("other", "web", Path::new("/charms/old"));
        notes.store_last_write("dev", 3);
        assert_eq!(notes.charm_place("dev", "web"), Some("/charms/web".into()));
        notes.store_charm_place("dev", "db", Path::new("/charms/db"));
        notes.delete_charm_place("dev", "db");
        assert_eq!(notes.charm_place("dev", "db"), None);
        notes.delete_model("dev");
        assert_eq!((notes.charm_place("dev", "web"), notes.last_write("dev")), (None, None));
        assert_eq!(notes.charm_place("other", "web"), Some("/charms/old".into()));
    }
}
