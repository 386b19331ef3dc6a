//! Documents of units: the unit, the session of its agent, the replica of its state, and its open ports.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::documents::relation::{RelationDoc, SubordinateLink};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::port_range::Ports;
use crate::terms::unit_documents::ResolvedDoc;
use crate::unit::local::Local;
use crate::unit::record::{CommitOutcome, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A unit. Nothing in it changes after the unit was added, except the subordinate link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitDoc {
    /// The name of the unit.
    pub name: UnitName,
    /// Its application.
    pub application: Uuid,
    /// The machine it is assigned to.
    pub machine: Uuid,
    /// For a subordinate: its principal unit.
    pub principal: Option<Uuid>,
    /// For a subordinate: the link of the relation that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subordinate_link: Option<SubordinateLink>,
    /// When the unit was added.
    pub created_ms: i64,
}

impl UnitDoc {
    /// Whether the unit takes part in a relation. A subordinate takes part in relations that create units of its
    /// application only if the principal application is its own principal's.
    pub fn takes_part_in(&self, relation: &RelationDoc) -> bool {
        let principals = relation
            .subordinate_link
            .zip(self.subordinate_link)
            .map(|(its, own)| (its.principal, own.principal));
        relation.end_of(self.application).is_some() && principals.is_none_or(|(its, own)| its == own)
    }
}

/// The session of the agent that acts for a unit. Each attach increments the epoch by compare-and-set (design
/// 6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionDoc {
    /// The number of the session; an agent with an older epoch is fenced.
    pub epoch: u64,
    /// The nonce of the attach that was granted this epoch.
    pub nonce: Uuid,
    /// Nonces of agents that attached with empty state, newest last. An agent whose attach request arrives a
    /// second time, late, is not taken for a new one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_attach_nonces: Vec<Uuid>,
    /// When the session was granted; none if no agent has attached and the session exists because the unit is
    /// removed by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<SessionOrigin>,
    /// Relations that the unit's state contains, but that it could not re-enter after a restore, or that it is
    /// in without the subordinate it had. The view shows them as suspended, so that the unit leaves them, and
    /// enters them again as soon as possible.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pending_reentry: BTreeSet<Uuid>,
}

impl SessionDoc {
    /// Whether a forced removal has fenced the unit: its agent can write nothing more, and no agent can attach.
    /// Only a forced removal stores a session with an epoch and without a nonce.
    pub fn is_fenced(&self) -> bool {
        self.epoch > 0 && self.nonce == Uuid(0)
    }
}

/// The point at which a session was granted. An epoch belongs to one store generation; the nonce is valid until
/// the first record of the session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionOrigin {
    /// The store generation that granted it.
    pub store_generation: Uuid,
    /// The sequence number of the last record that was applied before.
    pub sequence: u64,
}

/// The controller's replica of a unit's state as of the last record that was applied (design 4). Bags that the
/// unit wrote are not part of it; they are documents of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaDoc {
    /// The outcome of the commit of that record; a repeated record gets the same outcome.
    pub outcome: CommitOutcome,
    /// The digest of the charm archive that the unit runs, if the controller had assigned it to the unit's
    /// application. The state below is what the unit claims; it grants no access to an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_archive: Option<String>,
    /// When the unit has last resynchronised, by the clock of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_ms: Option<i64>,
    /// The unit's state, with the sequence number and the digest of that record.
    pub local: Local,
}

impl ReplicaDoc {
    /// Whether this record is the last one that was applied.
    pub fn is_last(&self, record: &Record) -> bool {
        record.sequence == self.local.sequence && record.digest() == self.local.digest
    }
}

impl Model {
    /// The unit.
    pub fn unit(&self, id: Uuid) -> Key<UnitDoc> {
        self.key(Kind::Unit, &[id])
    }
    /// The unit's own life.
    pub fn unit_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::UnitLife, &[id])
    }
    /// The unit of this name.
    pub fn unit_name(&self, name: &UnitName) -> Key<Uuid> {
        self.key_with_rest(Kind::UnitName, format_args!("{name}"))
    }
    /// Index of the subordinates of a principal: at most one of each application.
    pub fn subordinate(&self, principal: Uuid, application: Uuid, unit: Uuid) -> Key<()> {
        self.key(Kind::Subordinate, &[principal, application, unit])
    }
    /// The prefix of [`Self::subordinate`] for one principal.
    pub fn subordinates(&self, principal: Uuid) -> String {
        self.prefix_below(Kind::Subordinate, &[principal])
    }
    /// The prefix of [`Self::subordinate`] for one principal and one subordinate application.
    pub fn subordinates_of(&self, principal: Uuid, application: Uuid) -> String {
        self.prefix_below(Kind::Subordinate, &[principal, application])
    }
    /// The workload version, which `application-version-set` sets.
    pub fn workload_version(&self, id: Uuid) -> Key<String> {
        self.key(Kind::WorkloadVersion, &[id])
    }
    /// The session of the unit's agent; absent if no agent has attached.
    pub fn session(&self, unit: Uuid) -> Key<SessionDoc> {
        self.key(Kind::Session, &[unit])
    }
    /// The replica of the unit's state.
    pub fn replica(&self, unit: Uuid) -> Key<ReplicaDoc> {
        self.key(Kind::Replica, &[unit])
    }
    /// The request to resolve the unit's error; absent if there is none.
    pub fn resolved(&self, unit: Uuid) -> Key<ResolvedDoc> {
        self.key(Kind::Resolved, &[unit])
    }
    /// The open ports: endpoint (or `*`) to ranges in their text form (`80/tcp`).
    pub fn ports(&self, unit: Uuid) -> Key<Ports> {
        self.key(Kind::Ports, &[unit])
    }
}
