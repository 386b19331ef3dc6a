//! The keys of a store in etcd: what is below the prefix, and ranges of keys.
//!
//! ```text
//! PREFIX d/KEY           a document
//! PREFIX m/store         the store: its version, the Pintle that it belongs to, its store generation (`StoreRecord`)
//! PREFIX m/newest        written by every commit: its handle and number; its mod_revision is the newest revision
//! PREFIX m/fence/HANDLE  a precondition of every commit of one handle, see `commit`
//! PREFIX m/leader/APP    the lease of a leader: the uuid of the unit, see `leader_leases`
//! PREFIX m/agent/ID/TOPIC  a statement of a controller about an agent, see `statements`
//! PREFIX m/controller/HANDLE  the address of a controller that serves
//! PREFIX b/m/SHA256      the manifest of a file (`FileManifest`), see `files`
//! PREFIX b/c/SHA256/N    the chunk N of the file
//! ```
//! One watch of the keys from `d/` to `m/` delivers everything but the files, which no controller needs until they are
//! requested. Used by all modules of the engine.

use super::messages::{
    Compare, DeleteRangeRequest, EQUAL, GREATER, LESS, MOD_REVISION, Operand, Operation, PutRequest,
    RangeRequest, RequestOp,
};
use serde::{Deserialize, Serialize};
use state::documents::draft::Revision;
use state::status::shared_presence::Topic;
use state::terms::names::Uuid;

/// The version of the layout and of the documents. A store of another version is not opened.
pub const VERSION: u32 = 1;

/// The content of `m/store`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// The version of the layout.
    pub version: u32,
    /// The uuid of the controller's installation. Another Pintle with the same prefix is refused.
    pub installation: Uuid,
    /// The store generation.
    pub store_generation: Uuid,
    /// The store generation that this one has replaced.
    pub replaced: Option<Uuid>,
    /// What a migration between engines has made of the store; none if it is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
}

/// What `pintle-controller migrate` has made of a store. Another migration to this prefix replaces such a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Migration {
    /// A migration copies documents here, or is about to leave this store: only a data folder that records its store
    /// generation opens it, and its start ends this state.
    Candidate,
    /// A migration has moved the system elsewhere.
    Left,
}

/// The content of `b/m/SHA256`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileManifest {
    /// The size of the file; none while its chunks are being written.
    pub bytes: Option<u64>,
}

/// What a key below the prefix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'k> {
    /// A document, by its key.
    Document(&'k str),
    /// `m/store`.
    Store,
    /// `m/newest`.
    Newest,
    /// The fence of a handle.
    Fence,
    /// The lease of the leader of this application.
    Leader(Uuid),
    /// A statement about an agent.
    Statement(Uuid, Topic),
    /// A controller that serves, by its handle.
    Controller(&'k str),
    /// No key of this version.
    Other,
}

/// The keys below one prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    prefix: String,
}

impl Layout {
    /// The keys below a prefix, which ends with a slash.
    pub fn new(prefix: &str) -> Layout {
        Layout { prefix: format!("{}/", prefix.trim_end_matches('/')) }
    }

    /// The prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of a document.
    pub fn document(&self, key: &str) -> Vec<u8> {
        format!("{}d/{key}", self.prefix).into_bytes()
    }

    /// The key of the store record.
    pub fn store(&self) -> Vec<u8> {
        format!("{}m/store", self.prefix).into_bytes()
    }

    /// The key that every commit writes.
    pub fn newest(&self) -> Vec<u8> {
        format!("{}m/newest", self.prefix).into_bytes()
    }

    /// The key of a fence.
    pub fn fence(&self, handle: &str) -> Vec<u8> {
        format!("{}m/fence/{handle}", self.prefix).into_bytes()
    }

    /// The key of the lease of the leader of an application.
    pub fn leader(&self, application: Uuid) -> Vec<u8> {
        format!("{}m/leader/{application}", self.prefix).into_bytes()
    }

    /// The key of the statement about an agent.
    pub fn statement(&self, agent: Uuid, topic: Topic) -> Vec<u8> {
        format!("{}m/agent/{agent}/{}", self.prefix, topic.name()).into_bytes()
    }

    /// The range of all statements about an agent.
    pub fn statements_of(&self, agent: Uuid) -> (Vec<u8>, Vec<u8>) {
        let first = format!("{}m/agent/{agent}/", self.prefix).into_bytes();
        let end = end_of_prefix(&first);
        (first, end)
    }

    /// The key of a controller that serves.
    pub fn controller(&self, handle: &str) -> Vec<u8> {
        format!("{}m/controller/{handle}", self.prefix).into_bytes()
    }

    /// The range of all fences.
    pub fn fences(&self) -> (Vec<u8>, Vec<u8>) {
        let first = format!("{}m/fence/", self.prefix).into_bytes();
        let end = end_of_prefix(&first);
        (first, end)
    }

    /// The range of all keys.
    pub fn all(&self) -> (Vec<u8>, Vec<u8>) {
        let first = self.prefix.clone().into_bytes();
        let end = end_of_prefix(&first);
        (first, end)
    }

    /// The range of the keys that the mirror follows: all but those of files.
    pub fn followed(&self) -> (Vec<u8>, Vec<u8>) {
        let [first, last] = ["d/", "m/"].map(|part| format!("{}{part}", self.prefix).into_bytes());
        (first, end_of_prefix(&last))
    }

    /// The key of the manifest of a file.
    pub fn manifest(&self, sha256: &str) -> Vec<u8> {
        format!("{}b/m/{sha256}", self.prefix).into_bytes()
    }

    /// The range of the manifests of all files.
    pub fn manifests(&self) -> (Vec<u8>, Vec<u8>) {
        let first = self.manifest("");
        let end = end_of_prefix(&first);
        (first, end)
    }

    /// The digest of the file with this manifest.
    pub fn digest_of_manifest(&self, key: &[u8]) -> Option<String> {
        let sha256 = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix("b/m/")?;
        Some(sha256.to_owned())
    }

    /// The key of a chunk of a file.
    pub fn chunk(&self, sha256: &str, number: u64) -> Vec<u8> {
        format!("{}b/c/{sha256}/{number:06}", self.prefix).into_bytes()
    }

    /// The range of the chunks of a file.
    pub fn chunks(&self, sha256: &str) -> (Vec<u8>, Vec<u8>) {
        let first = format!("{}b/c/{sha256}/", self.prefix).into_bytes();
        let end = end_of_prefix(&first);
        (first, end)
    }

    /// What a key is.
    pub fn place<'k>(&self, key: &'k [u8]) -> Place<'k> {
        let below = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(&self.prefix));
        match below {
            Some("m/store") => Place::Store,
            Some("m/newest") => Place::Newest,
            Some(below) => {
                if let Some(key) = below.strip_prefix("d/") {
                    return Place::Document(key);
                }
                let Some((kind, rest)) = below.strip_prefix("m/").and_then(|below| below.split_once('/'))
                else {
                    return Place::Other;
                };
                let statement = || {
                    let (agent, topic) = rest.split_once('/')?;
                    Some(Place::Statement(agent.parse().ok()?, Topic::of_name(topic)?))
                };
                match kind {
                    "fence" => Place::Fence,
                    "controller" => Place::Controller(rest),
                    "leader" => rest.parse().map_or(Place::Other, Place::Leader),
                    "agent" => statement().unwrap_or(Place::Other),
                    _ => Place::Other,
                }
            }
            None => Place::Other,
        }
    }
}

/// Returns the key directly after another one.
pub fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Returns the exclusive end of the range of all keys that begin with `prefix`. UTF-8 has no byte 255, so the last byte can
/// always be raised.
pub fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The comparison that a key was last written at this revision; 0 if it is absent.
pub fn written_at(key: Vec<u8>, revision: Revision) -> Compare {
    compare(key, Vec::new(), EQUAL, Operand::ModRevision(signed(revision)))
}

/// The comparison that all keys of a range were last written at this revision or before it; with revision 0, that the
/// range is empty.
pub fn range_written_until(key: Vec<u8>, range_end: Vec<u8>, revision: Revision) -> Compare {
    compare(key, range_end, LESS, Operand::ModRevision(signed(revision.saturating_add(1))))
}

pub(super) fn compare(key: Vec<u8>, range_end: Vec<u8>, result: i32, operand: Operand) -> Compare {
    Compare { result, target: MOD_REVISION, key, operand: Some(operand), range_end }
}

/// The comparison that never holds, for a transaction that is sent to learn whether etcd accepts its size.
pub fn never(key: Vec<u8>) -> Compare {
    compare(key, Vec::new(), GREATER, Operand::ModRevision(signed(Revision::MAX)))
}

/// Revisions of etcd are signed. One beyond them belongs to no document.
pub(super) fn signed(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// A read of one key.
pub fn get(key: Vec<u8>) -> RangeRequest {
    RangeRequest { key, ..RangeRequest::default() }
}

/// An operation that reads one key.
pub fn get_operation(key: Vec<u8>) -> RequestOp {
    RequestOp { operation: Some(Operation::Range(get(key))) }
}

/// An operation that reads when one key was written last.
pub fn revision_operation(key: Vec<u8>) -> RequestOp {
    RequestOp { operation: Some(Operation::Range(RangeRequest { keys_only: true, ..get(key) })) }
}

/// An operation that writes.
pub fn put(key: Vec<u8>, value: &str) -> RequestOp {
    put_bytes(key, value.as_bytes().to_vec())
}

/// An operation that writes bytes.
pub fn put_bytes(key: Vec<u8>, value: Vec<u8>) -> RequestOp {
    RequestOp { operation: Some(Operation::Put(PutRequest { key, value, lease: 0 })) }
}

/// An operation that writes a key that ends with a lease.
pub fn put_with_lease(key: Vec<u8>, value: &str, lease: i64) -> RequestOp {
    let value = value.as_bytes().to_vec();
    RequestOp { operation: Some(Operation::Put(PutRequest { key, value, lease })) }
}

/// The lease of what an operation writes.
pub fn lease_of(operation: &RequestOp) -> Option<i64> {
    match &operation.operation {
        Some(Operation::Put(put)) => Some(put.lease).filter(|lease| *lease != 0),
        _ => None,
    }
}

/// An operation that deletes.
pub fn delete(key: Vec<u8>) -> RequestOp {
    delete_range(key, Vec::new())
}

/// An operation that deletes all keys of a range.
pub fn delete_range(key: Vec<u8>, range_end: Vec<u8>) -> RequestOp {
    RequestOp { operation: Some(Operation::DeleteRange(DeleteRangeRequest { key, range_end })) }
}

/// The comparison that a key exists.
pub fn exists(key: Vec<u8>) -> Compare {
    compare(key, Vec::new(), GREATER, Operand::ModRevision(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_place_and_no_key_of_a_longer_prefix_belongs_to_a_shorter_one() {
        let layout = Layout::new("/pintle");
        assert_eq!(layout.place(&layout.document("m/newest")), Place::Document("m/newest"));
        assert_eq!(layout.place(&layout.newest()), Place::Newest);
        assert_eq!(layout.place(&layout.store()), Place::Store);
        assert_eq!(layout.place(&layout.fence("a")), Place::Fence);
        assert_eq!(layout.place(&layout.controller("a")), Place::Controller("a"));
        for topic in Topic::ALL {
            assert_eq!(layout.place(&layout.statement(Uuid(7), topic)), Place::Statement(Uuid(7), topic));
        }
        assert_eq!(layout.place(&layout.leader(Uuid(5))), Place::Leader(Uuid(5)));
        let other = Layout::new("/pintle2/").newest();
        assert_eq!(layout.place(&other), Place::Other);
        let (first, end) = layout.all();
        assert!(!(first..end).contains(&other));
        let (first, end) = layout.followed();
        let is_followed = |key: Vec<u8>| (first.clone()..end.clone()).contains(&key);
        assert!(
            is_followed(layout.document("a"))
                && is_followed(layout.newest())
                && is_followed(layout.fence("a"))
        );
        assert!(!is_followed(layout.manifest("a")) && !is_followed(layout.chunk("a", 0)));
        assert_eq!(layout.digest_of_manifest(&layout.manifest("a")).as_deref(), Some("a"));
    }
}
