//! The files that users have attached to an application for the resources of its charm.
//!
//! They are part of the document of the application's charm (`CharmDoc`): a resource that is attached is a modification
//! of the charm, after which each unit runs upgrade-charm (spec/uniter.md A.6). A file itself is stored by its digest,
//! like a charm archive.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the file of an OCI image: a description of where the image is.
pub const IMAGE_FILE: &str = "content.yaml";
/// The most digests in [`ResourceFile::previous`]: two files that are attached while a hook runs, which reads the one
/// that was current when it started.
const PREVIOUS_FILES_MAX: usize = 2;

/// The resources of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resources {
    /// Incremented with every change of a file. A file that is replaced and restored is two changes.
    pub version: u64,
    /// The files by resource. A resource without a file is absent.
    pub files: BTreeMap<String, ResourceFile>,
}

/// The file of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceFile {
    /// The digest of the content.
    pub sha256: String,
    /// The size.
    pub bytes: u64,
    /// When it was attached.
    pub attached_ms: i64,
    /// The digests of the files before it, newest last. The view of a unit does not contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<String>,
}

impl Resources {
    /// Whether no file was ever attached.
    pub fn is_empty(&self) -> bool {
        *self == Resources::default()
    }

    /// Whether the content with this digest is the current file of the resource or one of its previous files.
    pub fn assigns(&self, resource: &str, sha256: &str) -> bool {
        self.files.get(resource).is_some_and(|file| file.digests().any(|digest| digest == sha256))
    }

    /// The digests of all files, with those that may still be read.
    pub fn digests(&self) -> impl Iterator<Item = &String> {
        self.files.values().flat_map(ResourceFile::digests)
    }

    /// Replaces the file of a resource. If the content is the same, the stored file and its time remain. Returns whether
    /// the content differs.
    pub(crate) fn replace(&mut self, resource: &str, file: ResourceFile) -> bool {
        let before = self.files.get(resource);
        if before.is_some_and(|before| before.sha256 == file.sha256) {
            return false;
        }
        let mut previous: Vec<String> = before.into_iter().flat_map(ResourceFile::digests).cloned().collect();
        previous.retain(|digest| *digest != file.sha256);
        previous.drain(..previous.len().saturating_sub(PREVIOUS_FILES_MAX));
        self.files.insert(resource.to_owned(), ResourceFile { previous, ..file });
        true
    }

    /// The resources as units see them.
    pub(crate) fn shown(mut self) -> Resources {
        self.files.values_mut().for_each(|file| file.previous.clear());
        self
    }
}

impl ResourceFile {
    /// The digests of this file and of those before it, newest last.
    fn digests(&self) -> impl Iterator<Item = &String> {
        self.previous.iter().chain([&self.sha256])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(sha256: &str) -> ResourceFile {
        ResourceFile { sha256: sha256.to_owned(), ..ResourceFile::default() }
    }

    #[test]
    fn the_last_files_stay_readable_and_older_ones_do_not() {
        let mut resources = Resources::default();
        for digest in ["a", "b", "c", "d"] {
            assert!(resources.replace("r", file(digest)));
        }
        assert!(!resources.replace("r", file("d")), "it is the same file");
        let readable = ["a", "b", "c", "d"].map(|digest| resources.assigns("r", digest));
        assert_eq!(readable, [false, true, true, true]);
        assert!(!resources.assigns("other", "d"));
        assert!(resources.replace("r", file("c")));
        assert_eq!(resources.digests().collect::<Vec<_>>(), ["b", "d", "c"]);
        assert_eq!(resources.shown().digests().collect::<Vec<_>>(), ["c"]);
    }
}
