//! A key of a document: how it is made, and how it is taken apart.
//!
//! A key is `<model>/<kind>/<ids or a name>`. It begins with the model's uuid; what belongs to no model lies under the
//! nil uuid. Life, config, settings and status are separate keys (design 5). The methods of [`Model`] that make a key are
//! beside the document that it names, in `documents`; [`Parts`] is the only code that reads one.

use crate::documents::draft::Key;
use crate::terms::names::Uuid;
use crate::terms::words::words;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One model's keys. `Model(Uuid(0))` holds what belongs to no model: models, tokens, charms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Model(pub Uuid);

/// Where documents of no model lie.
pub const GLOBAL: Model = Model(Uuid(0));

/// Most keys fit: a kind and three uuids, 37 bytes each.
const KEY_LENGTH: usize = 128;

words! {
    /// What kind of document a key names: the part after the model.
    Kind {
        Model = "model",
        ModelConfig = "model-config",
        ModelLife = "model-life",
        ModelDestruction = "model-destruction",
        ModelName = "model-name",
        Token = "token",
        TokenOf = "token-of",
        Archive = "archive",
        Sequence = "sequence",
        Tombstone = "tombstone",
        Machine = "machine",
        MachineLife = "machine-life",
        MachineInstance = "machine-instance",
        MachineTrouble = "machine-trouble",
        MachineName = "machine-name",
        UnitOn = "unit-on",
        PortsOn = "ports-on",
        Application = "application",
        ApplicationLife = "application-life",
        ApplicationCharm = "application-charm",
        ApplicationConfig = "application-config",
        ApplicationStatus = "application-status",
        ApplicationName = "application-name",
        Leader = "leader",
        UnitOf = "unit-of",
        Reap = "reap",
        RelationOf = "relation-of",
        Unit = "unit",
        UnitLife = "unit-life",
        Subordinate = "subordinate",
        Container = "container",
        UnitStatus = "unit-status",
        AgentStatus = "agent-status",
        WorkloadVersion = "workload-version",
        Session = "session",
        Replica = "replica",
        Resolved = "resolved",
        Ports = "ports",
        Relation = "relation",
        RelationLife = "relation-life",
        RelationSuspended = "relation-suspended",
        RelationKey = "relation-key",
        Scope = "scope",
        ScopeOf = "scope-of",
        Bag = "bag",
        Cleanup = "cleanup",
        Forced = "forced",
        ActionOf = "action-of",
        Log = "log",
        UnitName = "unit-name",
        Action = "action",
    }
}

impl Model {
    /// `<model>/<kind>/<id>/...`, without the detour over a formatter: keys are made all the time.
    fn text(&self, kind: Kind, ids: &[Uuid]) -> String {
        let mut text = String::with_capacity(KEY_LENGTH);
        self.0.append_to(&mut text);
        text.push('/');
        text.push_str(kind.as_str());
        for id in ids {
            text.push('/');
            id.append_to(&mut text);
        }
        text
    }

    pub(crate) fn key<T>(&self, kind: Kind, ids: &[Uuid]) -> Key<T> {
        Key::new(self.text(kind, ids))
    }

    pub(crate) fn named<T>(&self, kind: Kind, name: &str) -> Key<T> {
        Key::new(self.all(kind) + name)
    }

    pub(crate) fn other<T>(&self, kind: Kind, rest: fmt::Arguments<'_>) -> Key<T> {
        Key::new(format!("{}/{kind}/{rest}", self.0))
    }

    /// The prefix of the keys that go on after these ids.
    pub(crate) fn below(&self, kind: Kind, ids: &[Uuid]) -> String {
        self.text(kind, ids) + "/"
    }

    /// The prefix of all keys of one kind in this model.
    pub fn all(&self, kind: Kind) -> String {
        self.below(kind, &[])
    }
}

/// A key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'k> {
    /// The model's uuid.
    pub model: &'k str,
    pub kind: Kind,
    /// What follows the kind: ids, a number or a name; empty where the kind is the whole key.
    pub rest: &'k str,
}

impl<'k> Parts<'k> {
    /// None for what is no key.
    pub fn of(key: &'k str) -> Option<Parts<'k>> {
        let (model, rest) = key.split_once('/')?;
        let (kind, rest) = rest.split_once('/').unwrap_or((rest, ""));
        Some(Parts { model, kind: kind.parse().ok()?, rest })
    }

    /// The ids that follow the kind, up to the first part that is none.
    pub fn ids(&self) -> Vec<Uuid> {
        self.rest.split('/').map_while(|part| part.parse().ok()).collect()
    }

    /// The number that the key ends with: of an action.
    pub fn number(&self) -> Option<u64> {
        last_number(self.rest)
    }
}

/// The last part of a key, when it is a uuid.
pub fn last_id(key: &str) -> Option<Uuid> {
    key.rsplit('/').next()?.parse().ok()
}

/// The last part of a key, when it is a number: of an action.
pub fn last_number(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.parse().ok()
}
