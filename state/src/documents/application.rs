//! Documents of applications: the application, its charm, settings and leader, and who belongs to it.

use crate::charm::Charm;
use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationDoc {
    pub name: String,
    pub subordinate: bool,
    pub created_ms: i64,
}

/// The charm an application runs. A separate key, so that a refresh touches nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CharmDoc {
    pub sha256: String,
    pub name: String,
    /// `local:web-3`.
    pub url: String,
    pub revision: u32,
    /// `--force-units`: replace the charm even while a hook is in error (spec A.6).
    pub forced: bool,
}

/// A charm archive that was uploaded: what it declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchiveDoc {
    pub charm: Arc<Charm>,
    pub bytes: u64,
}

/// Who leads an application; a new holder is a new generation. No times in it (design 13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantDoc {
    pub holder: Uuid,
    pub holder_name: UnitName,
    pub generation: u64,
}

impl Model {
    /// Under [`GLOBAL`].
    pub fn archive(&self, sha256: &str) -> Key<ArchiveDoc> {
        self.named(Kind::Archive, sha256)
    }
    pub fn application(&self, id: Uuid) -> Key<ApplicationDoc> {
        self.key(Kind::Application, &[id])
    }
    pub fn application_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::ApplicationLife, &[id])
    }
    pub fn application_charm(&self, id: Uuid) -> Key<CharmDoc> {
        self.key(Kind::ApplicationCharm, &[id])
    }
    /// What the user set; defaults belong to the charm.
    pub fn application_config(&self, id: Uuid) -> Key<BTreeMap<String, Value>> {
        self.key(Kind::ApplicationConfig, &[id])
    }
    pub fn application_name(&self, name: &str) -> Key<Uuid> {
        self.named(Kind::ApplicationName, name)
    }
    pub fn leader(&self, application: Uuid) -> Key<GrantDoc> {
        self.key(Kind::Leader, &[application])
    }
    pub fn unit_of(&self, application: Uuid, unit: Uuid) -> Key<()> {
        self.key(Kind::UnitOf, &[application, unit])
    }
    pub fn units_of(&self, application: Uuid) -> String {
        self.below(Kind::UnitOf, &[application])
    }
    /// A destroyed application with more relations than one transaction removes: the last relation looked at
    /// (design 5, "sideways").
    pub fn reap(&self, application: Uuid) -> Key<String> {
        self.key(Kind::Reap, &[application])
    }
    pub fn relation_of(&self, application: Uuid, relation: Uuid) -> Key<()> {
        self.key(Kind::RelationOf, &[application, relation])
    }
    pub fn relations_of(&self, application: Uuid) -> String {
        self.below(Kind::RelationOf, &[application])
    }
}
