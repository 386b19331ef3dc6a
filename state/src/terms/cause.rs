//! Why something waits: the one type of it, from the unit's own resolver through refusals and the API to the commands.
//!
//! A [`Cause`] names the entity that waits, the [`Duty`] that has to be done, and the [`Actor`] who has to do it. What a
//! person can do about it follows from the duty ([`Cause::remedy`]). Causes are computed when they are asked for, from
//! documents and from what is known of agents; they are never stored (design 5). No part of a cause is a sentence: the
//! only English is made in `api::text`.
//!
//! Made by `unit::resolve`, `model::blockers` and the controller's `why`.

mod remedy;

use crate::terms::names::{EndpointName, RelationNumber, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::unit::activity::Activity;
use serde::{Deserialize, Serialize};
use std::fmt;

pub use remedy::Remedy;

/// One thing that an entity waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// What waits.
    pub entity: Entity,
    /// What has to be done.
    pub duty: Duty,
    /// Who has to do it.
    pub actor: Actor,
    /// Since when, by the wall clock in milliseconds. None: no document tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// The failure that keeps the actor from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl Cause {
    pub fn new(entity: Entity, duty: Duty, actor: Actor) -> Cause {
        Cause { entity, duty, actor, since_ms: None, last_error: None }
    }

    /// A duty of the unit's own agent.
    pub fn of_unit_agent(unit: &UnitName, duty: Duty) -> Cause {
        Cause::new(Entity::Unit(unit.clone()), duty, Actor::UnitAgent(unit.clone()))
    }

    pub fn since(self, since_ms: impl Into<Option<i64>>) -> Cause {
        Cause { since_ms: since_ms.into(), ..self }
    }

    pub fn last_error(self, last_error: impl Into<Option<String>>) -> Cause {
        Cause { last_error: last_error.into(), ..self }
    }

    /// The same wait, whatever its time and its last error.
    pub fn is_same_as(&self, other: &Cause) -> bool {
        (&self.entity, &self.duty, &self.actor) == (&other.entity, &other.duty, &other.actor)
    }
}

/// Keeps the first of each wait that is told more than once.
pub fn retain_first(causes: &mut Vec<Cause>) {
    let mut kept: Vec<Cause> = Vec::with_capacity(causes.len());
    for cause in std::mem::take(causes) {
        if !kept.iter().any(|known| known.is_same_as(&cause)) {
            kept.push(cause);
        }
    }
    *causes = kept;
}

/// Something of a model that can wait, by the name that people know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entity {
    Unit(UnitName),
    Application(String),
    Relation(RelationName),
    Machine(String),
    Model(String),
}

impl fmt::Display for Entity {
    /// `unit web/0`, `relation 3 (db:server web:db)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entity::Unit(name) => write!(f, "unit {name}"),
            Entity::Application(name) => write!(f, "application {name}"),
            Entity::Relation(name) => write!(f, "relation {name}"),
            Entity::Machine(name) => write!(f, "machine {name}"),
            Entity::Model(name) => write!(f, "model {name}"),
        }
    }
}

/// The two names of a relation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RelationName {
    pub number: RelationNumber,
    /// `db:server web:db`.
    pub ends: String,
}

impl fmt::Display for RelationName {
    /// `3 (db:server web:db)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.ends)
    }
}

/// Who has to act.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    Controller,
    /// The controller's janitor.
    Janitor,
    /// The provisioner of `pintle up`, which creates and releases instances.
    Provisioner,
    /// The supervisor of `pintle up`, which runs machine agents.
    Supervisor,
    /// A person with the command `pintle`.
    Operator,
    /// The unit's charm.
    Charm,
    UnitAgent(UnitName),
    MachineAgent(String),
    /// The agent of the unit's machine, where the name of that machine is not known.
    OwnMachineAgent,
    /// The unit itself has to be removed; its own causes tell who must act for that.
    Unit(UnitName),
}

/// What can be waited for. [`Cause::remedy`] matches on all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duty {
    // The unit's state and its link to the controller.
    /// Compare the state on the unit's disk with the controller's replica of it.
    CompareState,
    /// Decide how a unit goes on whose state files are corrupt and of which the controller has no replica.
    RestoreState,
    /// Answer a record that contains a conditional write.
    AnswerRecord { sequence: u64 },
    /// Agree with the unit on a store generation: the controller shows another one.
    AgreeOnStoreGeneration,
    /// Send the first view of the unit.
    SendView,
    /// Fetch settings that are omitted from the view and that the next hook is about.
    FetchSettings { owner: Owner },
    /// Answer the unit's leadership claim.
    AnswerLeadershipClaim,
    /// Be reachable: relation hooks do not start on an old view.
    Reconnect,

    // The unit's charm and its relations.
    /// Refresh the application to a charm that has the endpoint.
    ProvideEndpoint { application: String, endpoint: String, relation: RelationNumber },
    /// Be removed: a subordinate unit, before its principal is dead or before a relation can add a new one.
    RemoveSubordinate {
        unit: UnitName,
        /// The relation that adds a new one.
        relation: Option<RelationNumber>,
    },
    /// Make room on a full machine, for the subordinate unit that a relation adds.
    FreeUnitSlot { machine: String, relation: RelationNumber },
    /// Complete what failed.
    Recover { activity: Activity, failures: u32, retry: Retry },
    /// End the failure that delays a refresh.
    EndFailure { charm_url: String },
    /// Integrate a subordinate application with one that has units.
    Integrate,
    /// Add a unit to the principal application, so that the subordinate gets one.
    AddPrincipalUnit { principal: String },
    /// Enter the scope of a relation.
    EnterScope { relation: RelationName },
    /// Resume a suspended relation.
    ResumeRequest {
        /// Why it was suspended; may be empty.
        message: String,
    },

    // The unit's agent and its hooks.
    /// Start the unit agent.
    StartUnitAgent {
        /// None: its name is not known here.
        machine: Option<String>,
    },
    /// Install the program behind the hook tools, without which the unit agent does not run.
    InstallHookTools,
    /// Attach for the first time; the machine agent runs.
    Attach { machine: String },
    /// Report again: the unit agent was present and is silent.
    Respond {
        machine: String,
        /// Silent for so long that it is shown as lost.
        lost: bool,
        /// The unit goes with its principal alone.
        subordinate: bool,
    },
    /// Start the next activity.
    Start {
        activity: Activity,
        /// Why it is next.
        reason: String,
        /// The agent is silent.
        silent: bool,
    },
    /// Finish what runs now.
    Finish {
        activity: Activity,
        run: u64,
        machine: String,
        /// The units that wait for the hook lock it holds.
        lock_waiters: Vec<UnitName>,
    },
    /// Release the machine's hook lock.
    ReleaseHookLock {
        /// What the unit starts then.
        activity: Activity,
        /// What the holder runs.
        running: Activity,
        holder: UnitName,
    },
    /// Reboot the machine: a hook requested it.
    Reboot,

    // Removal.
    /// Be removed by a person, who alone can do so.
    Remove,
    /// Be removed by a person: the relation uses the capacity of an endpoint.
    FreeCapacity { endpoint: EndpointName },
    /// Leave the scopes of relations.
    LeaveScopes { relations: Vec<RelationName> },
    /// Leave the scopes of relations, run the last hooks and report that the unit is dead.
    Terminate { relations: Vec<RelationName> },
    /// Recall the agent of a dead unit and remove the unit.
    Recall,
    /// Remove a unit whose agent never started.
    RemoveUnstarted,
    /// Delete the record of a relation whose scope is empty.
    DeleteRelation,
    /// Remove everything from a model that is being destroyed.
    EmptyModel { applications: Count, machines: Count, force: Forced },
    /// Remove by force.
    ForceRemoval {
        /// It was started by the model's teardown-budget, not by a person.
        start_budget_timer: bool,
        /// None: it has begun.
        wait_left_ms: Option<i64>,
    },

    // Machines.
    /// Report that the machine is dead.
    ReportDead,
    /// Report that a machine is dead that was never started.
    ReportUnstartedDead,
    /// Uninstall the machine agent from an instance that stays.
    Uninstall {
        /// Force removes the machine if the agent does not.
        forced: bool,
    },
    /// Release the instance and remove the machine.
    ReleaseInstance,
    /// Start the instance: the provider failed.
    StartInstance {
        /// When it is tried again, by the wall clock.
        retry_ms: i64,
    },
    /// Act on the instance: the provider failed.
    TendInstance {
        /// When it is tried again, by the wall clock.
        retry_ms: i64,
    },
    /// Create an instance for units that have to end on the machine.
    CreateInstance,
    /// Remove the units of a machine that has no agent to stop them.
    RemoveUnits,
    /// Enrol a manually provisioned machine.
    Enrol {
        /// When the enrolment token expires, by the wall clock; none = there is none any more.
        expires_ms: Option<i64>,
    },
    /// Run the machine agent.
    RunMachineAgent { agent: Silence, host: Host },
}

/// When a failed operation is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// At this time, by the wall clock.
    At(i64),
    /// So many milliseconds after the last failure; the boot it is counted in is not known here.
    After(u64),
    /// The model's `hook-retries` is 0.
    Off,
    Exhausted,
}

/// A number of entities, counted up to a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub number: usize,
    /// There are more than these.
    pub more: bool,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.more { " or more" } else { "" })
    }
}

/// Whether a model is destroyed by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forced {
    No,
    AfterWait,
    AtOnce,
}

/// How long a machine agent has been silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Silence {
    /// It was not started yet.
    NotStarted,
    /// It was started and has not reported yet.
    NotReported,
    Late,
    Lost,
}

/// What a machine agent runs on, as far as it tells how to start the agent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Host {
    /// A manually provisioned machine.
    Manual,
    /// A process of `pintle up`, in the folder of this machine.
    Process(Uuid),
    /// A container of `pintle up`, in the folder of this machine.
    Container(Uuid),
}
