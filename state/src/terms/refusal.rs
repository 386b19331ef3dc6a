//! Reasons for refusals: why a transition is not allowed, as types.
//!
//! The code of a refusal follows from its reason ([`RefusalReason::code`]). The English, message and hint, is in
//! `api::text::refusal` and nowhere else. A reason is part of `documents::refusal::Refusal`, which adds the blockers.
//! A reason is also stored and sent in the outcome of a commit and as the reason of a failure.
//!
//! A new reason needs a variant here or in the file of its noun, its code in the match below the enum, its sentence in
//! `api::text::refusal`, and an example in the golden test.

pub mod action;
pub mod application;
pub mod code;
pub mod instance;
pub mod machine;
pub mod model;
pub mod record;
pub mod relation;
pub mod secret;
pub mod session;
pub mod storage;
pub mod transaction;
pub mod unit;
pub mod write;

use crate::terms::life::Life;
use crate::terms::names::{RelationEnds, UnitName};
use crate::terms::string_enum::string_enum;
use action::ActionRefusal;
use application::ApplicationRefusal;
use code::Code;
use instance::InstanceRefusal;
use machine::MachineRefusal;
use model::ModelRefusal;
use record::RecordRefusal;
use relation::RelationRefusal;
use secret::SecretRefusal;
use serde::{Deserialize, Serialize};
use session::SessionRefusal;
use storage::StorageRefusal;
use transaction::TransactionRefusal;
use unit::UnitRefusal;
use write::WriteRefusal;

string_enum! {
    /// The kind of entity that does not exist.
    EntityKind {
        /// A model.
        Model = "model",
        /// An application.
        Application = "application",
        /// The charm of an application.
        ApplicationCharm = "application-charm",
        /// A charm archive.
        CharmArchive = "charm-archive",
        /// The file of a resource.
        ResourceFile = "resource-file",
        /// A unit.
        Unit = "unit",
        /// A relation.
        Relation = "relation",
        /// A machine.
        Machine = "machine",
        /// A machine or a relation, by its number.
        MachineOrRelation = "machine-or-relation",
        /// A task: an action that was enqueued.
        Task = "task",
        /// An operation: the tasks that one command has enqueued.
        Operation = "operation",
        /// An instance of storage.
        Storage = "storage",
        /// An ssh key.
        SshKey = "ssh-key",
    }
}

string_enum! {
    /// The kind of entity of which one request adds too many.
    AddedKind {
        /// Units.
        Units = "units",
        /// Machines.
        Machines = "machines",
    }
}

/// Why a transition is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RefusalReason {
    /// A refusal about an action.
    Action(ActionRefusal),
    /// A refusal about an application.
    Application(ApplicationRefusal),
    /// A refusal about an instance or an enrolment.
    Instance(InstanceRefusal),
    /// A refusal about a machine.
    Machine(MachineRefusal),
    /// A refusal about a model.
    Model(ModelRefusal),
    /// A refusal of a whole record.
    Record(RecordRefusal),
    /// A refusal about a relation.
    Relation(RelationRefusal),
    /// A refusal of the entry into a scope.
    Scope(ScopeRefusal),
    /// A refusal about a secret.
    Secret(SecretRefusal),
    /// A refusal about the session of an agent.
    Session(SessionRefusal),
    /// A refusal about storage.
    Storage(StorageRefusal),
    /// A refusal of a transaction that exceeds a bound of the store.
    Transaction(TransactionRefusal),
    /// A refusal about a unit.
    Unit(UnitRefusal),
    /// A refusal of the conditional writes of a record, or of leader settings.
    Write(WriteRefusal),
    /// The caller may not do this, or what it names does not exist: an agent cannot distinguish the two (S15).
    NotAuthorised,
    /// An entity does not exist.
    NotFound {
        /// The kind of entity.
        kind: EntityKind,
        /// Its name, number or uuid.
        name: String,
    },
    /// One request adds too many entities.
    TooManyAdded {
        /// The number that was requested.
        count: u32,
        /// What is added.
        kind: AddedKind,
        /// The most that one request may add.
        max: u32,
    },
    /// One request simulates too many removals.
    TooManySimulated {
        /// The number that was requested.
        count: usize,
        /// The most that one request may simulate.
        max: usize,
    },
}

impl RefusalReason {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            RefusalReason::Action(reason) => reason.code(),
            RefusalReason::Application(reason) => reason.code(),
            RefusalReason::Instance(reason) => reason.code(),
            RefusalReason::Machine(reason) => reason.code(),
            RefusalReason::Model(reason) => reason.code(),
            RefusalReason::Record(reason) => reason.code(),
            RefusalReason::Relation(reason) => reason.code(),
            RefusalReason::Scope(reason) => reason.code(),
            RefusalReason::Secret(reason) => reason.code(),
            RefusalReason::Session(reason) => reason.code(),
            RefusalReason::Storage(reason) => reason.code(),
            RefusalReason::Transaction(reason) => reason.code(),
            RefusalReason::Unit(reason) => reason.code(),
            RefusalReason::Write(reason) => reason.code(),
            RefusalReason::NotAuthorised => Code::Forbidden,
            RefusalReason::NotFound { .. } => Code::NotFound,
            RefusalReason::TooManyAdded { .. } | RefusalReason::TooManySimulated { .. } => Code::Invalid,
        }
    }
}

/// Makes each enum of reasons a [`RefusalReason`].
macro_rules! reasons {
    ($($variant:ident($reason:ident),)+) => {
        $(impl From<$reason> for RefusalReason {
            fn from(reason: $reason) -> RefusalReason {
                RefusalReason::$variant(reason)
            }
        })+
    };
}

reasons! {
    Action(ActionRefusal),
    Application(ApplicationRefusal),
    Instance(InstanceRefusal),
    Machine(MachineRefusal),
    Model(ModelRefusal),
    Record(RecordRefusal),
    Relation(RelationRefusal),
    Scope(ScopeRefusal),
    Secret(SecretRefusal),
    Session(SessionRefusal),
    Storage(StorageRefusal),
    Transaction(TransactionRefusal),
    Unit(UnitRefusal),
    Write(WriteRefusal),
}

/// Why a unit does not enter the scope of a relation. It is defined here because it contains a [`RefusalReason`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ScopeRefusal {
    /// The relation is between other units.
    NotMember {
        /// The unit.
        unit: UnitName,
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
    },
    /// The unit is being removed.
    UnitNotAlive {
        /// The unit.
        unit: UnitName,
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
        /// The life of the unit.
        life: Life,
    },
    /// The relation is being removed.
    RelationNotAlive {
        /// The unit.
        unit: UnitName,
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
        /// The life of the relation.
        life: Life,
    },
    /// The relation is suspended.
    Suspended {
        /// The unit.
        unit: UnitName,
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
    },
    /// The subordinate that the entry creates is refused.
    SubordinateRefused {
        /// The unit.
        unit: UnitName,
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
        /// Why it is refused.
        reason: Box<RefusalReason>,
    },
}

impl ScopeRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            ScopeRefusal::NotMember { .. } => Code::Forbidden,
            ScopeRefusal::UnitNotAlive { .. }
            | ScopeRefusal::RelationNotAlive { .. }
            | ScopeRefusal::Suspended { .. }
            | ScopeRefusal::SubordinateRefused { .. } => Code::NotAlive,
        }
    }
}
