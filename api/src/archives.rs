//! Charm archives.

use crate::request::requests;
use crate::request::{Content, Message};
use crate::schema::Types;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::charm::Charm;

requests! { ArchiveRequests {
    FindArchive = post "/v1/archives/info", Reader => Option<ArchiveInfo>;
    UploadArchive = post "/v1/archives", Writer => ArchiveInfo;
} }

/// The archive of this digest; none = the controller does not hold it whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindArchive {
    pub sha256: String,
}

/// Checks and keeps a charm archive. `Invalid` names all problems of the charm, one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadArchive(pub Vec<u8>);

/// The bytes of a charm archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive(pub Vec<u8>);

macro_rules! bytes {
    ($($message:ident)*) => {$(
        impl Message for $message {
            const CONTENT: Content = Content::Bytes;

            fn into_bytes(self) -> Vec<u8> {
                self.0
            }

            fn from_bytes(bytes: Vec<u8>) -> Result<$message, serde_json::Error> {
                Ok($message(bytes))
            }

            fn schema(_: &Types) -> Option<Value> {
                None
            }
        }
    )*};
}
bytes! { UploadArchive Archive }

/// Largest charm archive.
pub const ARCHIVE_BYTES_MAX: usize = 512 << 20;

/// A charm archive the controller holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchiveInfo {
    pub sha256: String,
    pub bytes: u64,
    pub charm: Charm,
}
