//! The request that explains what an entity waits for (`pintle why`).

use crate::entity_choice::EntityChoice;
use crate::request::requests;
use crate::status::StatusInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::activity::Activity;
use state::terms::cause::{Cause, Count, Entity};
use state::terms::life::Life;
use state::terms::names::UnitName;
use state::terms::status::{AgentStatus, WorkloadStatus};

requests! { WhyRequests {
    GetWhy = post "/v1/models/{model}/why", Reader => Why;
} }

/// Returns everything that an entity waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetWhy {
    /// The entity.
    pub entity: EntityChoice,
}

/// Everything that an entity waits for, computed on request (design 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The entity.
    pub entity: Entity,
    /// Its effective life.
    pub life: Life,
    /// Its state.
    pub now: EntityState,
    /// What it waits for; empty if nothing.
    pub causes: Vec<Cause>,
    /// Whether there are more causes.
    #[serde(default)]
    pub more: bool,
}

/// The state of an entity, by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntityState {
    /// A unit.
    Unit {
        /// Its workload status.
        workload: StatusInfo<WorkloadStatus>,
        /// The status of its agent.
        agent: StatusInfo<AgentStatus>,
    },
    /// An application.
    Application {
        /// The number of its units.
        units: usize,
    },
    /// A relation.
    Relation {
        /// The number of units in its scope.
        units_in_scope: usize,
    },
    /// A machine.
    Machine {
        /// The number of its units.
        units: usize,
        /// Who holds its hook lock; none if the lock is free.
        hook_lock: Option<HookLock>,
    },
    /// A model.
    Model {
        /// Its applications.
        applications: Count,
        /// Its machines.
        machines: Count,
    },
}

/// The hook lock of a machine while a unit holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookLock {
    /// The unit that holds it.
    pub holder: UnitName,
    /// What that unit runs.
    pub running: Activity,
    /// The units that wait for it.
    pub waiters: Vec<UnitName>,
}
