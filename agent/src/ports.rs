//! The interfaces through which the unit agent's loop and the machine agent's loop reach the host: disk, charm, clock,
//! deployments, ssh keys and storage. (The ports of a unit's network are in `state::terms::port_range`.)
//!
//! The controller is the other interface (`api::UnitAgentRequests`, `api::MachineAgentRequests`). The simulator
//! implements these traits and, for its disk, `FolderFiles` of `folder_port`.

use crate::unrestored_storage::UnrestoredStorage;
use commands::{ResourceRequest, SecretAnswer, SecretRequest};
use state::charm::Charm;
use state::machine::claims::Claim;
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::health::{Fault, UnitHealth};
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::CharmRef;
use state::terms::run_lock::RunLock;
use state::terms::settings::{Bag, BagChange};
use state::terms::ssh_key::SshKey;
use state::terms::storage::{MachineStorage, StorageId};
use state::unit::hook_context::HookContext;
use state::unit::local::{Event, Local, Run};
use state::unit::networks::AddressDevice;
use state::unit::outcome::HookResult;
use state::unit::record::RunReport;
use state::unit::relation_view::BagRequest;
use state::unit::required_files::RequiredFiles;
use state::unit::snapshot::Snapshot;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

/// A write to the disk failed. The content after it is unknown: the agent ends and restarts from what is on
/// disk.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct DiskError {
    /// The file and the error.
    pub text: String,
    /// What is wrong with the disk, if that is known.
    pub fault: Option<Fault>,
}

impl DiskError {
    /// An error with this text and no known fault.
    pub fn new(text: impl Into<String>) -> DiskError {
        DiskError { text: text.into(), fault: None }
    }
}

/// The storage of the state of a unit.
pub trait UnitStorage {
    /// Appends the events as one document and syncs it: when this returns, the events are durable, in order.
    /// `after` is the state with the events applied; it is stored if the journal is compacted.
    ///
    /// # Errors
    /// If the disk fails: what is stored is then unknown.
    fn append(&self, events: &[Event], after: &Arc<Local>) -> impl Future<Output = Result<(), DiskError>>;
    /// Stores the current view as a cache: it is not synced and may be lost.
    fn cache_view(&self, view: &Arc<Snapshot>) -> impl Future<Output = ()>;
    /// Stores the last error of the controller, or that it answers again (none), for people who ask what the unit waits for.
    /// It is not synced and may be lost. Called when it has changed.
    fn store_controller_error(&self, _error: Option<&str>) {}
}

/// The requests of a running hook's tools to the agent.
pub trait HookHost {
    /// Forwards a report, which is sent to the controller before the hook ends.
    fn report(&self, report: &RunReport);
    /// Whether the unit leads for at least 30 s more.
    fn is_leader(&self) -> bool;
    /// Fetches a bag that is omitted from the view. `None` if the bag no longer exists. Waits a bounded time
    /// for the controller.
    ///
    /// # Errors
    /// A message for the charm.
    fn fetch_bag(&self, request: &BagRequest) -> impl Future<Output = Result<Option<Bag>, String>>;
    /// Changes the leader settings at the controller, for a tool call of a run. A call that is repeated is applied
    /// once. Waits a bounded time for the controller.
    ///
    /// # Errors
    /// A message for the charm.
    fn write_leader_settings(
        &self,
        run: u64,
        call: u32,
        change: &BagChange,
    ) -> impl Future<Output = Result<(), String>>;
    /// Makes a request about a secret to the controller, for a tool call. Waits a bounded time for the controller.
    ///
    /// # Errors
    /// A message for the charm.
    fn request_secret(&self, request: &SecretRequest) -> impl Future<Output = Result<SecretAnswer, String>>;
    /// Fetches the file of a resource. The caller verifies the digest. Waits a bounded time for the controller.
    ///
    /// # Errors
    /// A message for the charm.
    fn fetch_resource(&self, request: &ResourceRequest) -> impl Future<Output = Result<Vec<u8>, String>>;
}

/// The charm of a unit: its folder and its processes.
pub trait CharmHost {
    /// A lock that is held during a run. Dropping it releases the lock, unless a hook's process still holds it.
    type Lock;
    /// Waits until this lock is acquired.
    fn lock(&self, lock: &RunLock) -> impl Future<Output = Self::Lock>;
    /// The declarations of the installed charm. None before the first installation, or if the folder was
    /// deleted.
    fn declared(&self) -> Option<Arc<Charm>>;
    /// The network device of the machine that has this address. None if there is none.
    fn device(&self, _address: &str) -> Option<AddressDevice> {
        None
    }
    /// Which of the files that its hooks need exist in the installed charm.
    fn required_files(&self) -> RequiredFiles {
        RequiredFiles::default()
    }
    /// Verifies the archive and installs the charm, completely or not at all.
    ///
    /// # Errors
    /// A message for the operator.
    fn install(&self, charm: &CharmRef, archive: Vec<u8>) -> impl Future<Output = Result<(), String>>;
    /// Whether this charm is installed and undamaged, so that its archive need not be fetched.
    fn is_installed(&self, charm: &CharmRef) -> impl Future<Output = bool>;
    /// The process of a run that waits at its gate: nothing of the charm runs before [`CharmHost::run`] opens the gate.
    /// If it is dropped, or this agent dies, the process ends without an outcome.
    type Gated;
    /// Starts the process of `run`, whose start may not be stored yet, at a closed gate. None if it cannot be started,
    /// or has no program: [`CharmHost::run`] starts it then, or reports why not.
    fn start_gated(&self, run: &Run, context: &HookContext) -> impl Future<Output = Option<Self::Gated>>;
    /// Runs the charm's program for `run`, whose start is stored, and answers its tool calls from `context`. `gated` is
    /// its process, if it was started with the same context.
    fn run(
        &self,
        run: &Run,
        context: HookContext,
        gated: Option<Self::Gated>,
        hook_host: &impl HookHost,
    ) -> impl Future<Output = HookResult>;
    /// Continues a run that an earlier agent started: waits for its process if it is alive, else reads its
    /// outcome. `None` if neither exists; all processes of the run are dead then, and it must be repeated.
    fn reattach(&self, run: &Run, hook_host: &impl HookHost) -> impl Future<Output = Option<HookResult>>;
    /// Ends the processes of a running action or of running commands, which a user has cancelled: with SIGTERM first,
    /// then with SIGKILL. Completes when they have ended, or never started and the run has ended. [`CharmHost::run`]
    /// returns how the run has ended.
    fn stop(&self, run: &Run, has_run_ended: &Cell<bool>) -> impl Future<Output = ()>;
    /// Requests a reboot of the machine, which the machine agent performs later.
    fn reboot(&self, boot: &str) -> impl Future<Output = ()>;
}

/// Clocks and randomness.
pub trait Clock {
    /// The identity of this boot.
    fn boot(&self) -> String;
    /// The identity of the boot of the machine now. The agent of a machine of the provider `local` outlives a boot.
    fn machine_boot(&self) -> String {
        self.boot()
    }
    /// Milliseconds since boot, including the time that the machine was suspended.
    fn since_boot_ms(&self) -> u64;
    /// The wall clock in milliseconds since 1970. It is shown to people, and ends a leader's lease when it diverges from
    /// the time since boot.
    fn wall_ms(&self) -> i64;
    /// Waits until this many milliseconds since boot.
    fn sleep_until(&self, since_boot_ms: u64) -> impl Future<Output = ()>;
    /// 128 random bits.
    fn random_uuid(&self) -> Uuid;
}

/// The token with which a unit agent authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitToken {
    /// The token itself.
    pub text: String,
    /// Whether a controller has accepted the token, according to the unit's folder.
    pub is_accepted: bool,
}

/// The units' folders on a machine and the agents in them (spec F.2). The machine agent may crash within each of these
/// operations; its next start repeats the operation. Those that return a result fail if the disk or the service manager
/// does.
pub trait Deployments {
    /// A unit's folder; it is named after the unit.
    type Folder: Clone + PartialEq + Display;
    /// The folder of the unit of this name, whether or not it exists.
    fn folder(&self, name: &UnitName) -> Self::Folder;
    /// The folders that claim to belong to a unit. Folders that cannot be read are left out.
    fn claims(&self) -> anyhow::Result<Vec<Claim<Self::Folder>>>;
    /// Verifies that no folder here belongs to the unit, quarantined ones included. Fails if one does, or if a folder
    /// cannot be identified, or what is left of its recalled folder cannot be deleted.
    fn verify_absent(&self, unit: Uuid) -> anyhow::Result<()>;
    /// The units for which [`Deployments::verify_absent`] has failed because the deletion of a large folder took long, and
    /// whose deletion has ended since the last call. [`Deployments::changed`] has completed then.
    fn take_deleted(&self) -> BTreeSet<Uuid>;
    /// Completes when no folder is being deleted any more.
    fn wait_until_deleted(&self) -> impl Future<Output = ()>;
    /// Whether the folder may be deleted: its agent has finished with the agreement of the controller, or the
    /// unit is being recalled, or no agent has run in the folder.
    fn is_finished(&self, folder: &Self::Folder) -> bool;
    /// Creates the folder, or restores the quarantined one. Returns the token that the controller must accept,
    /// which is on disk.
    fn prepare(&self, unit: Uuid, name: &UnitName) -> impl Future<Output = anyhow::Result<String>>;
    /// The token in the folder.
    fn token(&self, folder: &Self::Folder) -> anyhow::Result<UnitToken>;
    /// Stores that the controller has accepted the token.
    fn store_token_accepted(&self, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<()>>;
    /// Starts the unit agent, after its back-off, unless it runs or has finished. `assigned` means that the
    /// controller has assigned the unit to this machine: a recall that was started is cancelled.
    fn ensure_running(&self, unit: Uuid, folder: &Self::Folder, assigned: bool) -> anyhow::Result<()>;
    /// Stops the agent and kills the remaining processes of its hooks. The agent is not started again.
    fn stop(&self, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<()>>;
    /// Stops the agents and hooks of all folders, of those that cannot be identified and of quarantined ones, too,
    /// because the machine is Dead. Each is stopped whether or not another one can be.
    fn stop_all(&self) -> impl Future<Output = anyhow::Result<()>>;
    /// Deletes everything of the unit. Its folder no longer has the name of the unit then; its content may be deleted later,
    /// but before [`Deployments::verify_absent`] succeeds.
    fn delete(&self, unit: Uuid, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<()>>;
    /// Stops the agent and moves the folder away from the unit's name. Returns the new path, for the log.
    fn quarantine(&self, unit: Uuid, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<String>>;
    /// Whether its agent does not run and may be started.
    fn is_to_be_started(&self, folder: &Self::Folder) -> bool;
    /// What is observed of the unit agent from outside: how it ended, what prevents it from continuing, and which
    /// damaged files were set aside.
    fn health(&self, unit: Uuid, folder: &Self::Folder) -> UnitHealth;
    /// The disk space of the unit's folder.
    fn disk_usage(&self, folder: &Self::Folder) -> impl Future<Output = UnitDiskUsage>;
    /// The disk space of the quarantined folders, in bytes.
    fn quarantined_bytes(&self) -> impl Future<Output = u64>;
    /// Completes when a unit agent has ended or may be started again.
    fn changed(&self) -> impl Future<Output = ()>;
}

/// The file with the keys with which people log in to a machine.
pub trait AuthorizedKeys {
    /// Makes these keys the keys of the model in the file; the keys of other people stay.
    fn set_ssh_keys(&self, keys: &[SshKey]) -> impl Future<Output = anyhow::Result<()>>;
}

/// The storage of a machine. The machine agent may crash within each of these operations; its next start repeats the
/// operation.
pub trait StorageHost {
    /// Creates what does not exist of an instance, with its content as it was, and mounts it. Returns where the unit
    /// finds it.
    fn provide_storage(
        &self,
        id: &StorageId,
        storage: &MachineStorage,
    ) -> impl Future<Output = anyhow::Result<String>>;
    /// Unmounts an instance that no unit has. Its content stays.
    fn release_storage(
        &self,
        id: &StorageId,
        storage: &MachineStorage,
    ) -> impl Future<Output = anyhow::Result<()>>;
    /// Deletes an instance with its content.
    fn delete_storage(
        &self,
        id: &StorageId,
        storage: &MachineStorage,
    ) -> impl Future<Output = anyhow::Result<()>>;
    /// Provides again what was provided before the host was booted. The controller need not be reachable. Returns what
    /// could not be provided; each instance is attempted.
    fn restore_storage(&self) -> impl Future<Output = UnrestoredStorage>;
    /// Unmounts everything, also what a process uses, because the folder of the machine is about to be deleted. Each
    /// instance is released whether or not another one can be.
    fn release_all_storage(&self) -> impl Future<Output = anyhow::Result<()>>;
}
