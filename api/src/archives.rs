//! Requests about charm archives: finding and uploading them.

use crate::request::requests;
use crate::request::{Content, Message};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::charm::Charm;

requests! { ArchiveRequests {
    FindArchive = post "/v1/archives/info", Reader => Option<ArchiveInfo>;
    UploadArchive = post "/v1/archives", Writer => ArchiveInfo;
} }

/// Returns the archive of this digest; none if the controller does not have it completely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindArchive {
    /// The SHA-256 digest of the archive, in hexadecimal.
    pub sha256: String,
}

/// Checks and stores a charm archive. `Invalid` lists all problems of the charm, one per line.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(inline, extend("format" = "binary"))]
pub struct UploadArchive(#[schemars(with = "String")] pub Vec<u8>);

/// The bytes of a charm archive, or of the file of a resource.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(inline, extend("format" = "binary"))]
pub struct Archive(#[schemars(with = "String")] pub Vec<u8>);

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
        }
    )*};
}
bytes! { UploadArchive Archive }

/// The largest charm archive: 512 MiB.
pub const ARCHIVE_BYTES_MAX: usize = 512 << 20;

/// A charm archive that the controller has stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArchiveInfo {
    /// The SHA-256 digest of the archive, in hexadecimal.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// What the charm declares.
    pub charm: Charm,
}
