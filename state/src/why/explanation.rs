//! The explanation of an entity: its state, and what it waits for. It is also the response of the API.

use crate::terms::activity::Activity;
use crate::terms::cause::{Cause, Count, Duty, Entity};
use crate::terms::life::Life;
use crate::terms::names::UnitName;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::terms::status_info::StatusInfo;
use serde::{Deserialize, Serialize};

/// Everything that an entity waits for, computed on request (design 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl Why {
    /// Names a store that accepts no changes before all other causes. It lacks what the agents have done since: an operation
    /// that it shows as the next one may have run.
    pub fn name_unwritable_store(&mut self, failure: Cause) {
        self.causes.retain(|cause| !matches!(cause.duty, Duty::Start { .. }));
        self.causes.insert(0, failure);
    }
}

/// The state of an entity, by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        /// The holder of its hook lock; none if the lock is free.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookLock {
    /// The unit that holds it.
    pub holder: UnitName,
    /// What that unit runs.
    pub running: Activity,
    /// The units that wait for it.
    pub waiters: Vec<UnitName>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::cause::Actor;
    use crate::terms::hook_name::HookName;
    use crate::terms::start_reason::StartReason;
    use crate::terms::write_failure::WriteFailure;

    #[test]
    fn the_next_operation_is_not_known_while_the_store_accepts_no_changes() {
        let unit = UnitName::new("web", 0);
        let of_unit = |duty| Cause::of_unit_agent(&unit, duty);
        let activity = Activity::hook(HookName::ConfigChanged);
        let starts = of_unit(Duty::Start { activity, reason: StartReason::Interrupted, silent: false });
        let responds = of_unit(Duty::AcceptRequests);
        let mut why = Why {
            entity: Entity::Unit(unit.clone()),
            life: Life::Alive,
            now: EntityState::Application { units: 1 },
            causes: vec![starts, responds.clone()],
            more: false,
        };
        let full = Cause::new(
            Entity::Unit(unit.clone()),
            Duty::AcceptChanges(WriteFailure::DiskFull),
            Actor::Operator,
        );
        why.name_unwritable_store(full.clone());
        assert_eq!(why.causes, [full, responds]);
    }
}
