//! Requests about the resources of applications: uploading their files, attaching and listing them.

use crate::changes::WriteResponse;
use crate::request::{Content, Message, requests};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::charm::Resource;
use state::terms::resource::ResourceFile;
use std::collections::BTreeMap;

requests! { ResourceRequests {
    FindResource = post "/v1/resources/info", Reader => Option<StoredResource>;
    UploadResource = post "/v1/resources", Writer => StoredResource;
    AttachResources = post "/v1/models/{model}/attach-resources", Writer => WriteResponse;
    ListResources = post "/v1/models/{model}/resources", Reader => ApplicationResources;
} }

/// Returns the file of this digest; none if the controller does not have it completely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindResource {
    /// The SHA-256 digest of the file, in hexadecimal.
    pub sha256: String,
}

/// Stores a file that is to be attached to a resource, by its digest. A file that nothing uses is removed after a time.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(inline, extend("format" = "binary"))]
pub struct UploadResource(#[schemars(with = "String")] pub Vec<u8>);

impl Message for UploadResource {
    const CONTENT: Content = Content::Bytes;

    fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<UploadResource, serde_json::Error> {
        Ok(UploadResource(bytes))
    }
}

/// The largest file of a resource: 512 MiB, as for a charm archive. The controller and the agent keep a file in memory
/// while they transfer it.
pub const RESOURCE_BYTES_MAX: usize = crate::archives::ARCHIVE_BYTES_MAX;

/// A file that the controller has stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredResource {
    /// The SHA-256 digest of the file, in hexadecimal.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// Attaches uploaded files to resources of an application, all or none. Its units run upgrade-charm if a file differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachResources {
    /// The application.
    pub application: String,
    /// The digests of the files, by resource.
    pub resources: BTreeMap<String, String>,
}

/// Returns the resources of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListResources {
    /// The application.
    pub application: String,
}

/// The resources that the charm of an application declares, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationResources {
    /// The application.
    pub application: String,
    /// The resources.
    pub resources: BTreeMap<String, ResourceInfo>,
}

/// One resource of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceInfo {
    /// What the charm declares.
    pub declared: Resource,
    /// The file; none if no user has attached one.
    pub file: Option<ResourceFile>,
}
