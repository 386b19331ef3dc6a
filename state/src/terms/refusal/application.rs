//! Why a request about an application is refused.

use crate::charm::options::OptionProblem;
use crate::terms::names::RelationEnds;
use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// A request that needs an Alive application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationRequest {
    /// Integrate it with another application.
    Integrate,
    /// Add a unit.
    AddUnit,
    /// Refresh its charm.
    Refresh,
    /// Attach a file to a resource.
    AttachResource,
}

/// Why a request about an application is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationRefusal {
    /// The application is being removed.
    BeingRemoved {
        /// The application.
        application: String,
        /// What was requested.
        request: ApplicationRequest,
    },
    /// A subordinate is deployed without units: neither their number nor a machine can be given.
    SubordinateUnits {
        /// The application.
        application: String,
    },
    /// A subordinate has no machines of its own, so that it can have no constraints.
    SubordinateConstraints {
        /// The application.
        application: String,
    },
    /// The units of a fake application have a machine without an agent.
    FakePlaced {
        /// The application.
        application: String,
    },
    /// The units of a subordinate charm, or of one with storage, need agents.
    CannotBeFake {
        /// The charm.
        charm: String,
    },
    /// What the units of an application publish is set by a user only if the application is fake.
    NotFake {
        /// The application.
        application: String,
    },
    /// A fake unit cannot enter a relation of container scope: the subordinate of the other end would need its agent.
    FakeInContainer {
        /// The fake application.
        application: String,
    },
    /// The settings of a fake application or unit are too large.
    FakeSettingsTooLarge {
        /// The fake application.
        application: String,
        /// Their size.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
    /// The name is invalid.
    InvalidName {
        /// The name.
        name: String,
    },
    /// The name is too long.
    NameTooLong {
        /// The number of its characters.
        length: usize,
        /// The most characters that are allowed.
        max: usize,
    },
    /// Another application has the name.
    AlreadyExists {
        /// The name.
        name: String,
    },
    /// An application that is being removed has the name.
    PredecessorExists {
        /// The name.
        name: String,
    },
    /// The charm has workload containers.
    NeedsKubernetes {
        /// The charm.
        charm: String,
    },
    /// The charm has too many peer relations.
    TooManyPeers {
        /// The charm.
        charm: String,
        /// The number of its peer relations.
        peers: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// Settings do not fit the options of the charm.
    InvalidSettings {
        /// Each invalid setting, and why it is invalid.
        problems: Vec<OptionProblem>,
    },
    /// The charm does not declare these resources.
    UndeclaredResources {
        /// The charm.
        charm: String,
        /// The names.
        resources: Vec<String>,
    },
    /// One request attaches too many files.
    TooManyResources {
        /// The number of files.
        count: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// A refresh would replace the charm by another one.
    OtherCharm {
        /// The application.
        application: String,
        /// The name of its current charm.
        current: String,
        /// The name of the requested charm.
        charm: String,
    },
    /// A refresh would make a subordinate of a principal or the reverse.
    SubordinateChanged {
        /// The application.
        application: String,
    },
    /// A refresh would change endpoints, and the application has too many relations to check.
    TooManyRelations {
        /// The application.
        application: String,
    },
    /// A refresh would remove or change the endpoint of a relation.
    BreaksRelation {
        /// The application.
        application: String,
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
    },
    /// No unit is the leader.
    NoLeader {
        /// The application.
        application: String,
    },
}

impl ApplicationRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            ApplicationRefusal::BeingRemoved { .. } => Code::NotAlive,
            ApplicationRefusal::SubordinateUnits { .. }
            | ApplicationRefusal::SubordinateConstraints { .. }
            | ApplicationRefusal::FakePlaced { .. }
            | ApplicationRefusal::CannotBeFake { .. }
            | ApplicationRefusal::NotFake { .. }
            | ApplicationRefusal::FakeInContainer { .. }
            | ApplicationRefusal::FakeSettingsTooLarge { .. }
            | ApplicationRefusal::InvalidName { .. }
            | ApplicationRefusal::NameTooLong { .. }
            | ApplicationRefusal::NeedsKubernetes { .. }
            | ApplicationRefusal::TooManyPeers { .. }
            | ApplicationRefusal::InvalidSettings { .. }
            | ApplicationRefusal::UndeclaredResources { .. }
            | ApplicationRefusal::TooManyResources { .. }
            | ApplicationRefusal::OtherCharm { .. }
            | ApplicationRefusal::SubordinateChanged { .. }
            | ApplicationRefusal::TooManyRelations { .. } => Code::Invalid,
            ApplicationRefusal::AlreadyExists { .. } | ApplicationRefusal::PredecessorExists { .. } => {
                Code::AlreadyExists
            }
            ApplicationRefusal::BreaksRelation { .. } => Code::Busy,
            ApplicationRefusal::NoLeader { .. } => Code::NotFound,
        }
    }
}
