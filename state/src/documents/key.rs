//! Keys of documents: how a key is composed and parsed.
//!
//! A key is `<model>/<kind>`, for a document of which a model has one, or `<model>/<kind>/<rest>`, where the rest is ids, a
//! name, a number, or several of these. It begins with the model's uuid; documents that belong to no model are stored under
//! the nil uuid. Life, settings and status are separate keys (design 5). The methods of
//! [`Model`] that compose a key are beside the document that it names, in `documents`; [`KeyParts`], [`last_id`]
//! and [`last_number`] parse one.

use crate::documents::draft::Key;
use crate::terms::names::Uuid;
use crate::terms::string_enum::string_enum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The keys of one model. [`GLOBAL`] has those that belong to no model: the names and the tombstones of models, their
/// cleanups, tokens and charm archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Model(pub Uuid);

/// The model under which documents of no model are stored.
pub const GLOBAL: Model = Model(Uuid(0));

/// The initial capacity of a key, enough for all keys that consist of ids: a uuid (36), `/subordinate` (12), and three
/// uuids after their slashes (111) are 159 bytes.
const KEY_CAPACITY: usize = 160;

string_enum! {
    /// The kind of document that a key names: the part after the model.
    Kind {
        /// The model.
        Model = "model",
        /// The settings of the model.
        ModelConfig = "model-config",
        /// The ssh keys of the model.
        SshKeys = "ssh-keys",
        /// The life of the model.
        ModelLife = "model-life",
        /// The progress of the model's destruction.
        ModelDestruction = "model-destruction",
        /// Index: the name of a model.
        ModelName = "model-name",
        /// The holder of a token, by the digest of the token.
        Token = "token",
        /// Index: the digest of an entity's token.
        TokenOf = "token-of",
        /// Index: the digest of the token of a removed machine.
        RetiredToken = "retired-token",
        /// A charm archive, or the file of a resource.
        Archive = "archive",
        /// Index: an application or a unit that uses a charm archive or the file of a resource.
        ArchiveUse = "archive-use",
        /// The next number of a sequence.
        Sequence = "sequence",
        /// The tombstone of a removed entity.
        Tombstone = "tombstone",
        /// Index: a removed unit whose machine has not confirmed that no folder of it is left.
        Recall = "recall",
        /// A machine.
        Machine = "machine",
        /// The life of a machine.
        MachineLife = "machine-life",
        /// The instance of a machine.
        MachineInstance = "machine-instance",
        /// The provisioning error of a machine.
        ProvisioningError = "provisioning-error",
        /// Index: the name of a machine.
        MachineName = "machine-name",
        /// Index: a unit of a machine.
        UnitOn = "unit-on",
        /// Index: the open ports of a unit of a machine.
        PortsOn = "ports-on",
        /// An application.
        Application = "application",
        /// The life of an application.
        ApplicationLife = "application-life",
        /// The charm of an application.
        ApplicationCharm = "application-charm",
        /// Index: an application whose units have no agents.
        FakeApplication = "fake-application",
        /// The settings of an application.
        ApplicationConfig = "application-config",
        /// Whether an application is trusted with the credential of its cloud.
        ApplicationTrust = "application-trust",
        /// The constraints of an application or of the model.
        Constraints = "constraints",
        /// Whether an application is exposed.
        ApplicationExposed = "application-exposed",
        /// The status that the leader set for an application.
        ApplicationStatus = "application-status",
        /// Index: the name of an application.
        ApplicationName = "application-name",
        /// The leader of an application.
        Leader = "leader",
        /// The settings that leaders of an application have stored.
        LeaderSettings = "leader-settings",
        /// Index: a unit of an application.
        UnitOf = "unit-of",
        /// The progress of removing the relations of an application.
        ApplicationRelationRemoval = "application-relation-removal",
        /// Index: a relation of an application.
        RelationOf = "relation-of",
        /// A unit.
        Unit = "unit",
        /// The life of a unit.
        UnitLife = "unit-life",
        /// Index: a subordinate of a unit.
        Subordinate = "subordinate",
        /// Index: a relation of a subordinate link.
        SubordinateLink = "subordinate-link",
        /// The workload status of a unit.
        UnitStatus = "unit-status",
        /// The agent status of a unit.
        AgentStatus = "agent-status",
        /// The statuses that a unit or an application has had.
        StatusLog = "status-log",
        /// The workload version of a unit.
        WorkloadVersion = "workload-version",
        /// The session of a unit's agent.
        Session = "session",
        /// The replica of a unit's state.
        Replica = "replica",
        /// A request to resolve the error of a unit.
        Resolved = "resolved",
        /// The open ports of a unit.
        Ports = "ports",
        /// A relation.
        Relation = "relation",
        /// The life of a relation.
        RelationLife = "relation-life",
        /// The suspension of a relation.
        RelationSuspended = "relation-suspended",
        /// Index: the endpoints of a relation.
        RelationKey = "relation-key",
        /// A unit in the scope of a relation.
        Scope = "scope",
        /// Index: a scope that a unit is in.
        ScopeOf = "scope-of",
        /// A settings bag.
        Bag = "bag",
        /// Leftovers that the janitor deletes.
        Cleanup = "cleanup",
        /// The forced removal of an entity.
        ForcedRemoval = "forced-removal",
        /// Index: an unfinished action of a unit.
        ActionOf = "action-of",
        /// A line of the debug log.
        Log = "log",
        /// Index: the name of a unit.
        UnitName = "unit-name",
        /// An action.
        Action = "action",
        /// A secret without its contents.
        Secret = "secret",
        /// The sealed content of a revision of a secret.
        SecretContent = "secret-content",
        /// Index: the secrets of an owner.
        SecretsOf = "secrets-of",
        /// The secrets that a unit reads.
        SecretsConsumed = "secrets-consumed",
        /// Index: a unit that reads a revision of a secret.
        SecretTracker = "secret-tracker",
        /// Index: when a secret is due for rotation or expiry.
        SecretTimer = "secret-timer",
        /// An instance of storage.
        Storage = "storage",
        /// Index: the instances of storage of a unit.
        StorageOf = "storage-of",
        /// Index: the instances of storage of a machine.
        StorageOn = "storage-on",
        /// What was requested for the storage of the units of an application.
        ApplicationStorage = "application-storage",
    }
}

impl Model {
    /// `<model>/<kind>/<id>/...`, composed without a formatter because keys are composed very often.
    fn text(&self, kind: Kind, ids: &[Uuid]) -> String {
        let mut text = String::with_capacity(KEY_CAPACITY);
        self.0.append_to(&mut text);
        text.push('/');
        text.push_str(kind.as_str());
        for id in ids {
            text.push('/');
            id.append_to(&mut text);
        }
        text
    }

    /// The key of a document that ids identify.
    pub(crate) fn key<T>(&self, kind: Kind, ids: &[Uuid]) -> Key<T> {
        Key::new(self.text(kind, ids))
    }

    /// The key of a document that a name identifies.
    pub(crate) fn key_by_name<T>(&self, kind: Kind, name: &str) -> Key<T> {
        Key::new(self.prefix(kind) + name)
    }

    /// The key of a document that ends with a number or with several parts that are not all ids.
    pub(crate) fn key_with_rest<T>(&self, kind: Kind, rest: fmt::Arguments<'_>) -> Key<T> {
        Key::new(format!("{}/{kind}/{rest}", self.0))
    }

    /// The prefix of the keys that continue after these ids.
    pub(crate) fn prefix_below(&self, kind: Kind, ids: &[Uuid]) -> String {
        self.text(kind, ids) + "/"
    }

    /// The prefix of all keys of one kind in this model.
    pub fn prefix(&self, kind: Kind) -> String {
        self.prefix_below(kind, &[])
    }
}

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts<'k> {
    /// The model's uuid.
    pub model: &'k str,
    /// The kind of document.
    pub kind: Kind,
    /// What follows the kind: ids, a number or a name; empty if the key ends with the kind.
    pub rest: &'k str,
}

impl<'k> KeyParts<'k> {
    /// Parses a key; none if the text has no model or no known [`Kind`].
    pub fn of(key: &'k str) -> Option<KeyParts<'k>> {
        let (model, rest) = key.split_once('/')?;
        let (kind, rest) = rest.split_once('/').unwrap_or((rest, ""));
        Some(KeyParts { model, kind: kind.parse().ok()?, rest })
    }

    /// The ids that follow the kind, up to the first part that is not a uuid.
    pub fn ids(&self) -> Vec<Uuid> {
        self.rest.split('/').map_while(|part| part.parse().ok()).collect()
    }

    /// The number at the end of the key, as in the key of an action.
    pub fn number(&self) -> Option<u64> {
        last_number(self.rest)
    }
}

/// The last part of a key, if it is a uuid.
pub fn last_id(key: &str) -> Option<Uuid> {
    key.rsplit('/').next()?.parse().ok()
}

/// The last part of a key, if it is a number, as in the key of an action.
pub fn last_number(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.parse().ok()
}
