//! Documents of units: the unit, its session, and what the controller knows of its agent's memory.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::documents::relation::SubordinateLink;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::unit::local::Local;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitDoc {
    pub name: UnitName,
    pub application: Uuid,
    pub machine: Uuid,
    pub principal: Option<Uuid>,
    /// Of a subordinate: that of the relation it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subordinate_link: Option<SubordinateLink>,
    pub created_ms: i64,
}

/// Who speaks for a unit: raised by compare-and-set at every attach (design 6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionDoc {
    pub epoch: u64,
    pub nonce: Uuid,
    /// Nonces of agents that came with an empty folder, newest last: one that comes again late is no newcomer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub newcomers: Vec<Uuid>,
    /// None: no agent has attached; the session exists because the unit is removed by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<SessionOrigin>,
    /// Relations, since a restore, that the unit takes itself to be in and could not be let into, or is in without the
    /// subordinate it had brought. To it they are shown suspended, so that it leaves, and enters as soon as it can.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pending_reentry: BTreeSet<Uuid>,
}

/// When a session was granted: an epoch is one of its history, and its nonce is good until its first record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionOrigin {
    pub store_generation: Uuid,
    /// Of the last record applied by then.
    pub sequence: u64,
}

/// What the controller knows of a unit's own memory: the last record applied, its digest, the answer given, and
/// `Local` as of it (design 4), without the bags the unit wrote: those are documents of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaDoc {
    pub sequence: u64,
    pub digest: String,
    pub refusal: Option<String>,
    /// Writes of that record that had nothing left to apply to, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    pub local: Local,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolvedDoc {
    pub episode: u64,
    pub retry: bool,
}

impl Model {
    pub fn unit(&self, id: Uuid) -> Key<UnitDoc> {
        self.key(Kind::Unit, &[id])
    }
    pub fn unit_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::UnitLife, &[id])
    }
    pub fn unit_name(&self, name: &UnitName) -> Key<Uuid> {
        self.other(Kind::UnitName, format_args!("{name}"))
    }
    /// A principal's subordinates: one of each application at most.
    pub fn subordinate(&self, principal: Uuid, application: Uuid, unit: Uuid) -> Key<()> {
        self.key(Kind::Subordinate, &[principal, application, unit])
    }
    pub fn subordinates(&self, principal: Uuid) -> String {
        self.below(Kind::Subordinate, &[principal])
    }
    pub fn subordinates_of(&self, principal: Uuid, application: Uuid) -> String {
        self.below(Kind::Subordinate, &[principal, application])
    }
    pub fn workload_version(&self, id: Uuid) -> Key<String> {
        self.key(Kind::WorkloadVersion, &[id])
    }
    pub fn session(&self, unit: Uuid) -> Key<SessionDoc> {
        self.key(Kind::Session, &[unit])
    }
    pub fn replica(&self, unit: Uuid) -> Key<ReplicaDoc> {
        self.key(Kind::Replica, &[unit])
    }
    pub fn resolved(&self, unit: Uuid) -> Key<ResolvedDoc> {
        self.key(Kind::Resolved, &[unit])
    }
    /// endpoint (or `*`) -> ranges in their text form (`80/tcp`).
    pub fn ports(&self, unit: Uuid) -> Key<BTreeMap<String, BTreeSet<String>>> {
        self.key(Kind::Ports, &[unit])
    }
}
