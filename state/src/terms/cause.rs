//! Causes: why an entity waits.
//!
//! A [`Cause`] names the entity that waits, the [`Duty`] that has to be done, and the [`Actor`] who has to do
//! it. What a person can do about it follows from the duty ([`Cause::remedy`]). This is the only type for "why
//! this waits", from the unit's resolver through refusals and the API to the commands.
//!
//! Causes are computed on request, from documents and from the presence of agents; they are never stored
//! (design 5). The English is in `api::text`. Causes are created in `documents::blockers`, `unit` and `why`, and by the
//! store for a damaged document.
//! A new cause needs a variant of [`Duty`], its remedy in `remedy`, its sentence in `api::text::cause`, and its creator.

mod count;
mod debug_session;
mod machine_agent;
mod remedy;

use crate::terms::activity::Activity;
use crate::terms::failure_reason::FailureReason;
use crate::terms::force::{Force, ForcePhase, ForcedBy};
use crate::terms::health::{Fault, LockHolder, MachineAgentExits, UnitAgentExit};
use crate::terms::names::{EndpointName, RelationEnds, RelationNumber, UnitName};
use crate::terms::owner::Owner;
use crate::terms::start_reason::StartReason;
use crate::terms::storage::StorageId;
use crate::terms::write_failure::WriteFailure;
use serde::{Deserialize, Serialize};
use std::fmt;

pub use count::Count;
pub use machine_agent::{Host, Silence};
pub use remedy::Remedy;

/// One thing that an entity waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The entity that waits.
    pub entity: Entity,
    /// What has to be done.
    pub duty: Duty,
    /// Who has to do it.
    pub actor: Actor,
    /// When the wait began, in milliseconds of the wall clock; none if no document contains the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// The failure that prevents the actor from doing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<FailureReason>,
}

impl Cause {
    /// A cause without a start time and without an error.
    pub fn new(entity: Entity, duty: Duty, actor: Actor) -> Cause {
        Cause { entity, duty, actor, since_ms: None, last_error: None }
    }

    /// A duty of the unit's own agent.
    pub fn of_unit_agent(unit: &UnitName, duty: Duty) -> Cause {
        Cause::new(Entity::Unit(unit.clone()), duty, Actor::UnitAgent(unit.clone()))
    }

    /// This cause with the time at which the wait began.
    pub fn since(self, since_ms: impl Into<Option<i64>>) -> Cause {
        Cause { since_ms: since_ms.into(), ..self }
    }

    /// This cause with the failure that prevents the actor from acting, as the text of what failed.
    pub fn last_error(self, last_error: impl Into<Option<String>>) -> Cause {
        self.failure(last_error.into().map(FailureReason::Text))
    }

    /// This cause with the failure that prevents the actor from acting.
    pub fn failure(self, reason: impl Into<Option<FailureReason>>) -> Cause {
        Cause { last_error: reason.into(), ..self }
    }

    /// Whether both describe the same wait, regardless of start time and last error.
    pub fn is_same_as(&self, other: &Cause) -> bool {
        (&self.entity, &self.duty, &self.actor) == (&other.entity, &other.duty, &other.actor)
    }
}

/// Removes repeated waits and keeps the first of each ([`Cause::is_same_as`]).
pub fn deduplicate(causes: &mut Vec<Cause>) {
    let mut kept: Vec<Cause> = Vec::with_capacity(causes.len());
    for cause in std::mem::take(causes) {
        if !kept.iter().any(|earlier| earlier.is_same_as(&cause)) {
            kept.push(cause);
        }
    }
    *causes = kept;
}

/// An entity of a model that can wait, by the name that people use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Entity {
    /// A unit.
    Unit(UnitName),
    /// An application.
    Application(String),
    /// A relation.
    Relation(RelationName),
    /// A machine.
    Machine(String),
    /// A model.
    Model(String),
}

impl fmt::Display for Entity {
    /// Writes the kind and the name: `unit web/0`, `relation 3 (db:server web:db)`.
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

/// The name of a relation in messages: its number and its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelationName {
    /// The number of the relation, unique in its model.
    pub number: RelationNumber,
    /// The endpoints, in text order: `db:server web:db`.
    pub ends: RelationEnds,
}

impl fmt::Display for RelationName {
    /// Writes the number and the endpoints: `3 (db:server web:db)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.ends)
    }
}

/// Who has to act.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// The controller.
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
    /// The agent of this unit.
    UnitAgent(UnitName),
    /// The agent of this machine.
    MachineAgent(String),
    /// The agent of the unit's machine, where the name of that machine is not known.
    OwnMachineAgent,
    /// The unit itself, which has to be removed; its own causes name the actors of its removal.
    Unit(UnitName),
}

/// What an entity can wait for. [`Cause::remedy`] matches on every variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Duty {
    // The unit's state and its link to the controller.
    /// Compare the state on the unit's disk with the controller's replica of it.
    CompareState,
    /// Decide how a unit continues whose state files are corrupt and of which the controller has no replica.
    RestoreState,
    /// Answer a record that contains a conditional write.
    AnswerRecord {
        /// The sequence number of the record.
        sequence: u64,
    },
    /// Agree with the unit on a store generation: the controller reports a different one.
    AgreeOnStoreGeneration,
    /// Send the first view of the unit.
    SendView,
    /// Fetch settings that are omitted from the view and that the next hook needs.
    FetchSettings {
        /// Whose settings.
        owner: Owner,
    },
    /// Fetch the charm again, which the next run needs and of which the folder or a program is missing.
    FetchCharm {
        /// The charm.
        charm_url: String,
    },
    /// Answer the unit's leadership claim.
    AnswerLeadershipClaim,
    /// Restore the connection: relation hooks do not start while the view is stale.
    Reconnect,

    /// Provide an instance of storage, for which install waits.
    ProvideStorage {
        /// The instance.
        storage: StorageId,
    },

    // The unit's charm and its relations.
    /// Refresh the application to a charm that has the endpoint.
    ProvideEndpoint {
        /// The application whose charm lacks the endpoint.
        application: String,
        /// The missing endpoint.
        endpoint: String,
        /// The relation that uses the endpoint.
        relation: RelationNumber,
    },
    /// Remove a subordinate unit, before its principal becomes Dead or before a relation can add a new one.
    RemoveSubordinate {
        /// The subordinate unit.
        unit: UnitName,
        /// The relation that adds the new unit; none if the principal waits.
        relation: Option<RelationNumber>,
    },
    /// Remove a unit from a full machine, for the subordinate unit that a relation adds.
    FreeUnitSlot {
        /// The full machine.
        machine: String,
        /// The relation that adds the unit.
        relation: RelationNumber,
    },
    /// Complete the activity that failed.
    Recover {
        /// What failed.
        activity: Activity,
        /// How often it has failed in a row.
        failures: u32,
        /// When it is run again.
        retry: Retry,
    },
    /// End the failure that delays a refresh.
    EndFailure {
        /// The charm that the unit runs, also when it completes what failed.
        runs: String,
        /// The charm to which the application is refreshed.
        charm_url: String,
    },
    /// Integrate a subordinate application with one that has units.
    Integrate,
    /// Add a unit to the principal application, so that the subordinate gets one.
    AddPrincipalUnit {
        /// The principal application.
        principal: String,
    },
    /// Enter the scope of a relation.
    EnterScope {
        /// The relation.
        relation: RelationName,
    },
    /// Resume a suspended relation.
    ResumeRequest {
        /// Why it was suspended; may be empty.
        message: String,
    },

    // The unit's agent and its hooks.
    /// Start the unit agent.
    StartUnitAgent {
        /// The unit's machine; none if its name is not known.
        machine: Option<String>,
    },
    /// Install the program behind the hook tools, without which the unit agent does not run.
    InstallHookTools,
    /// Attach for the first time; the machine agent runs.
    Attach {
        /// The unit's machine.
        machine: String,
    },
    /// Report again: the unit agent was present and is now silent.
    Respond {
        /// The unit's machine.
        machine: String,
        /// Whether the agent has been silent for so long that the unit is shown as lost.
        lost: bool,
        /// Whether the unit is a subordinate, which can only be removed with its principal.
        subordinate: bool,
    },
    /// Start the next activity.
    Start {
        /// The next activity.
        activity: Activity,
        /// Why it is next.
        reason: StartReason,
        /// Whether the agent is silent.
        silent: bool,
    },
    /// Finish the current activity.
    Finish {
        /// What runs.
        activity: Activity,
        /// The number of the run, unique in the unit.
        run: u64,
        /// The unit's machine.
        machine: String,
        /// The units that wait for the hook lock that this unit holds.
        lock_waiters: Vec<UnitName>,
    },
    /// End the debug session in which a hook of the unit runs. Nobody but the user of its terminal knows when it ends.
    EndDebugSession {
        /// What runs in it.
        activity: Activity,
        /// The units that wait for the hook lock that this unit holds.
        lock_waiters: Vec<UnitName>,
    },
    /// Remove the storage, or attach it to another unit: it keeps its machine, which has no units.
    RemoveStorage {
        /// The instances.
        storage: Vec<StorageId>,
    },
    /// Release the machine's hook lock, or that of an execution group.
    ReleaseHookLock {
        /// The execution group; none for the hook lock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
        /// What the waiting unit starts next.
        activity: Activity,
        /// What the holder of the lock runs.
        running: Activity,
        /// The unit that holds the lock.
        holder: UnitName,
    },
    /// End a process on the machine that holds the hook lock and is none of Pintle's.
    EndLockHolder {
        /// The process.
        holder: LockHolder,
        /// What the waiting unit starts next.
        activity: Activity,
    },
    /// Restart the unit agent, which has ended.
    RestartUnitAgent {
        /// The unit's machine; none if its name is not known.
        machine: Option<String>,
        /// How it ended.
        exit: UnitAgentExit,
    },
    /// Remove what prevents the unit agent from continuing.
    ClearFault {
        /// What prevents it.
        fault: Fault,
        /// The unit's machine; none if its name is not known.
        machine: Option<String>,
    },
    /// Inspect damaged files of the unit's stored state, which were set aside. The unit continues without them.
    InspectSetAside {
        /// The names of the files in the unit's folder.
        files: Vec<String>,
        /// The unit's machine; none if its name is not known.
        machine: Option<String>,
    },
    /// Reboot the machine: a hook requested it.
    Reboot,

    // Repairs by a person.
    /// Accept changes again: the store of the controller has not written the last one.
    AcceptChanges(WriteFailure),
    /// Accept the requests of the unit agent: the last one failed.
    AcceptRequests,
    /// Allow the controller more connections: all are open, and new ones wait.
    AllowConnections {
        /// The number of connections that it may have.
        limit: usize,
    },
    /// Restore a document that is damaged on the controller's disk.
    RestoreDocument {
        /// The key of the document.
        document: String,
    },
    /// Restore the file with the keys of secrets, which lacks a key that contents in the store are sealed with.
    RestoreSecretKeys {
        /// The file.
        file: String,
    },
    /// Restore a file that the controller lacks and the unit needs: a charm archive, or the file of a resource.
    RestoreFile {
        /// The application of the unit.
        application: String,
        /// The digest of the file, which is its name in the folder of the controller.
        sha256: String,
    },
    /// Reboot the machine by hand: the reboot that a hook requested did not come within
    /// [`crate::unit::decision::REBOOT_DEADLINE_MS`].
    RebootByHand {
        /// The machine; none if its name is not known.
        machine: Option<String>,
    },

    // Removal.
    /// Remove the entity by hand; nothing else removes it.
    Remove,
    /// Remove the relation by hand, because it uses the capacity of an endpoint.
    FreeCapacity {
        /// The endpoint whose relation limit is reached.
        endpoint: EndpointName,
    },
    /// Leave the scopes of relations.
    LeaveScopes {
        /// The relations.
        relations: Vec<RelationName>,
    },
    /// Leave the scopes of relations, run the last hooks and report that the unit is dead.
    Terminate {
        /// The relations whose scopes the unit is still in.
        relations: Vec<RelationName>,
    },
    /// Stop the agent of a dead unit and remove the unit.
    Recall,
    /// Remove a unit whose agent never started.
    RemoveUnstarted,
    /// Delete the record of a relation whose scope is empty.
    DeleteRelation,
    /// Remove everything from a model that is being destroyed.
    EmptyModel {
        /// The applications that are left.
        applications: Count,
        /// The machines that are left.
        machines: Count,
        /// Whether the model is destroyed by force.
        force: Force,
    },
    /// Remove by force.
    ForceRemoval {
        /// What started it.
        by: ForcedBy,
        /// Whether it has started.
        phase: ForcePhase,
    },

    // Machines.
    /// Report that the machine is dead.
    ReportDead,
    /// Report that a machine is dead whose instance was never started.
    ReportUnstartedDead,
    /// Uninstall the machine agent from an instance that stays.
    Uninstall {
        /// Whether force removes the machine if the agent does not uninstall itself.
        forced: bool,
    },
    /// Release the instance and remove the machine.
    ReleaseInstance,
    /// Start the instance: the provider failed.
    StartInstance {
        /// When the provider is called again, in milliseconds of the wall clock.
        retry_ms: i64,
    },
    /// Reach the instance: the provider failed.
    ReachInstance {
        /// When the provider is called again, in milliseconds of the wall clock.
        retry_ms: i64,
    },
    /// Create an instance on which the units of the machine can run their last hooks.
    CreateInstance,
    /// Remove the units of a machine that has no agent to stop them.
    RemoveUnits,
    /// Enrol a manually provisioned machine.
    Enrol {
        /// When the enrolment token expires, in milliseconds of the wall clock; none if no token is valid.
        expires_ms: Option<i64>,
    },
    /// Delete the folder of a removed unit, or move it out of the machine's folder: its tombstone is kept until then.
    DeleteFolder {
        /// The removed unit.
        unit: UnitName,
    },
    /// Run the machine agent.
    RunMachineAgent {
        /// How long the agent has been silent.
        silence: Silence,
        /// What the agent runs on.
        host: Host,
        /// How its process ended, if the supervisor has observed that since the last request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exits: Option<MachineAgentExits>,
    },
}

/// When a failed operation is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// At this time, in milliseconds of the wall clock.
    At(i64),
    /// This many milliseconds after the last failure. The clock of the boot in which it is measured is not
    /// known here.
    After(u64),
    /// Never: the model's `max-hook-retries` is 0.
    Off,
    /// Never: all retries have been used.
    Exhausted,
}
