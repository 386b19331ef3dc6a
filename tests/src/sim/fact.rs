//! Facts: the events of a schedule outside the store, which the checks observe.
//!
//! The parts of the simulator report each one with `World::note` when it happens. A fact contains only values of the
//! product, so that a check needs no access to the parts.

use state::terms::names::{UnitName, Uuid};
use state::terms::secret::SecretId;
use state::terms::storage::StorageId;
use state::unit::local::{Event, Local};
use state::unit::record::RunReport;
use std::sync::Arc;

/// An event outside the store. A journal belongs to a folder, so a unit whose folder was copied has two
/// journals.
#[derive(Clone, Debug)]
pub enum Fact {
    /// These events are durable. The agent received the acknowledgement unless it crashed first.
    EventsPersisted { folder: Uuid, unit: Uuid, events: Arc<[Event]> },
    /// An agent started and loaded this state.
    Loaded { folder: Uuid, local: Box<Local> },
    /// The folder is new or was damaged: its journal starts here, with this state.
    JournalStarted { folder: Uuid, local: Box<Local> },
    /// A folder was copied, including its journal.
    Copied { folder: Uuid, copy: Uuid },
    /// The journal of a folder grew to this size.
    Appended { folder: Uuid, bytes: usize },
    /// The process of a hook started; `locked`: it holds the machine's hook lock.
    HookStarted { folder: Uuid, run: u64, locked: bool },
    /// The process of the hook ended, by itself or killed.
    HookEnded { folder: Uuid, run: u64 },
    /// The process of the hook exited by itself; `counted`: the counter that it wrote.
    HookExited { folder: Uuid, run: u64, ok: bool, counted: Option<u64> },
    /// A hook read a value; one event per tool call.
    HookRead { folder: Uuid, run: u64, what: String, text: String },
    /// A hook wrote a value that it reads back later.
    HookWrote { folder: Uuid, run: u64, what: String, text: String },
    /// A hook writes this content of a secret, which is stored if the hook succeeds; or a user does, of any secret.
    SecretWritten { secret: Option<SecretId>, content: String },
    /// A hook asks for the content of a secret.
    SecretRequested { folder: Uuid, secret: SecretId },
    /// The hook received the content that it asked for.
    SecretRead { folder: Uuid, unit: UnitName, secret: SecretId, content: String },
    /// A hook of the unit starts with this storage; `instance`: what its machine has provided for the unit under this id.
    HookFoundStorage { unit: Uuid, run: u64, id: StorageId, instance: Option<Uuid> },
    /// A machine agent deleted the content of an instance.
    StorageDeleted { id: StorageId, instance: Uuid },
    /// A hook set the status of its workload, and the tool returned.
    HookSetStatus { folder: Uuid, run: u64, message: String },
    /// The controller accepted that the instance of this machine is kept.
    KeepInstanceAccepted { machine: String },
    /// A record reached the controller in a message of this epoch.
    RecordReceived { unit: Uuid, sequence: u64, epoch: u64, is_resync: bool },
    /// A unit sent these reports ahead of its record; `executes`: also that this run is executing.
    Reported { unit: Uuid, epoch: u64, run: u64, reports: Vec<RunReport>, executes: bool },
    /// A machine agent deletes this unit's folder; `evidence`: the unit is Dead, or it or its machine has a
    /// tombstone; `known`: the store contains the unit.
    Recalled { unit: Uuid, evidence: bool, known: bool },
    /// An event at the provider, for an instance with these tags.
    Instance { number: u64, model: Uuid, machine: Uuid, nonce: Uuid, what: InstanceEvent },
    /// The provisioner started again: it had crashed or lost the controller.
    ProvisionerStarted,
    /// From here on processes are only restarted.
    OnlyRestarts,
    /// A part of the simulator detected a violation: name of the check, and description.
    InvariantViolated(&'static str, String),
    /// The agent in this folder received an event of its stream.
    StreamReceived { folder: Uuid },
    /// The agent of this folder has received a response that confirms its view.
    ViewConfirmed { folder: Uuid },
    /// The stream of the agent in this folder was opened or closed.
    Stream { folder: Uuid, unit: Uuid, open: bool },
    /// A tool of this unit received the promise that the unit leads (is-leader).
    LeadershipPromised { unit: Uuid },
    /// The agent in this folder is frozen for a while, as by SIGSTOP.
    Frozen { folder: Uuid },
    /// Another process of the controller started: all streams are closed.
    ControllerStarted,
    /// The wall clock was set. `latest_ms`: the later one of what it showed before and what it shows now.
    ClockSet { latest_ms: i64 },
    /// No faults are injected from here on.
    FaultsEnded,
}

/// What happened to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceEvent {
    /// It existed before the schedule.
    Existed,
    Created,
    /// It was not created, or the answer reported a failure with this reason.
    Failed(String),
    /// It was terminated on request.
    Terminated,
    /// It was handed over to its user and is no longer managed.
    HandedOver,
    /// It vanished by itself, with everything on it.
    Lost,
}
