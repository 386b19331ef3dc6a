//! All that the unit loop and the machine loop ask of the world, beside the controller (`api::UnitAgentRequests`,
//! `api::MachineAgentRequests`). The simulator implements these and nothing else.

use state::charm::Charm;
use state::terms::names::{UnitName, Uuid};
use state::terms::settings::Bag;
use state::unit::hook::{HookContext, Writes};
use state::unit::local::{Event, Local, Run};
use state::unit::operation::CharmRef;
use state::unit::outcome::Exit;
use state::unit::record::Said;
use state::unit::snapshot::{BagRequest, Snapshot};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

/// The disk failed under a write: nothing after it is certain. The agent dies and restarts from what is there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DiskError(pub String);

/// The unit's durable memory.
pub trait Memory {
    /// Appends the events as one record and syncs it. Events are durable when this returns, in order.
    /// `after` is the memory with the events applied, for when the journal is folded.
    fn append(&self, events: &[Event], after: &Arc<Local>) -> impl Future<Output = Result<(), DiskError>>;
    /// Keeps the last view as a cache: not synced, may be lost.
    fn keep_view(&self, view: &Arc<Snapshot>) -> impl Future<Output = ()>;
}

/// A hook process that ended, with all it wrote and said.
#[derive(Clone, Debug)]
pub struct Ending {
    pub exit: Exit,
    pub writes: Writes,
    pub said: Vec<Said>,
}

/// What a running hook's tools ask of the agent.
pub trait HookHost {
    /// This was said: others are to know it at once.
    fn said(&self, said: &Said);
    /// The unit leads for at least 30 s more.
    fn leads(&self) -> bool;
    /// A bag that did not come along; none: it is gone. Waits for the controller a bounded time; the error is for the
    /// charm.
    fn bag(&self, asked: &BagRequest) -> impl Future<Output = Result<Option<Bag>, String>>;
}

/// The charm's folder and its processes.
pub trait Charms {
    /// Held around a run, one at a time per machine, or, if `parallel`, per unit. Dropping it releases it, unless a hook's process still holds
    /// it.
    type Lock;
    fn lock(&self, parallel: bool) -> impl Future<Output = Self::Lock>;
    /// What the deployed charm declares; none before the first deployment.
    fn declared(&self) -> Option<Arc<Charm>>;
    /// Makes this charm the deployed one: verified, complete, or not at all. The error is for people.
    fn deploy(&self, charm: &CharmRef, archive: Vec<u8>) -> impl Future<Output = Result<(), String>>;
    /// True when the archive need not be fetched: this charm is deployed already.
    fn is_deployed(&self, charm: &CharmRef) -> impl Future<Output = bool>;
    /// Runs the charm's program for `run` and answers its tool calls from `context`.
    fn run(&self, run: &Run, context: HookContext, outward: &impl HookHost) -> impl Future<Output = Ending>;
    /// Takes over a run that an earlier agent began: waits for its process if it lives, else finds its outcome.
    /// None: neither is there (any process of it is dead by then); run it again.
    fn adopt(&self, run: &Run, outward: &impl HookHost) -> impl Future<Output = Option<Ending>>;
    /// Has the machine's agent end this boot; it does so when it can.
    fn reboot(&self, boot: &str) -> impl Future<Output = ()>;
}

/// Time and chance.
pub trait Clock {
    /// Identity of this boot.
    fn boot(&self) -> String;
    /// Milliseconds since boot; goes on while the machine sleeps.
    fn since_boot_ms(&self) -> u64;
    /// Wall clock in milliseconds, for people only.
    fn wall_ms(&self) -> i64;
    fn sleep_until(&self, since_boot_ms: u64) -> impl Future<Output = ()>;
    /// 128 random bits.
    fn fresh(&self) -> Uuid;
}

/// What a unit's agent proves itself with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    /// The unit's folder says that a controller was told it.
    pub is_acknowledged: bool,
}

/// The units' folders on a machine and the agents in them (spec F.2). The machine agent may die within each of these;
/// the next one does it again.
pub trait Deployments {
    /// A unit's folder, which is told from others by the unit's name.
    type Folder: Clone + PartialEq + Display;
    fn folder(&self, name: &UnitName) -> Self::Folder;
    /// Units deployed here.
    fn deployed(&self) -> BTreeMap<Uuid, Self::Folder>;
    /// The unit's agent has said so, and the controller agreed; or it was being recalled, for a reason that held; or no
    /// agent has begun in it.
    fn is_finished(&self, folder: &Self::Folder) -> bool;
    /// Makes the folder, or takes back the one that was set aside; answers the token to be set, which is on disk.
    fn prepare(&self, unit: Uuid, name: &UnitName) -> impl Future<Output = anyhow::Result<String>>;
    fn token(&self, folder: &Self::Folder) -> anyhow::Result<Token>;
    fn note_token_set(&self, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<()>>;
    /// Sees that the unit's agent runs, after its back-off, unless it has finished. `assigned`: the controller says that
    /// it is to run here, whatever it said before: a recall that was begun is called off.
    fn keep(&self, unit: Uuid, folder: &Self::Folder, assigned: bool) -> anyhow::Result<()>;
    /// Ends the agent and what is left of its hooks. From here on it is not started again.
    fn stop(&self, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<()>>;
    /// Deletes everything of the unit.
    fn forget(&self, unit: Uuid, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<()>>;
    /// Ends the agent, and takes the folder, whole, from the unit's name; answers where it is, for people.
    fn set_aside(&self, unit: Uuid, folder: &Self::Folder) -> impl Future<Output = anyhow::Result<String>>;
    /// A unit's agent ended, or may be started again.
    fn changed(&self) -> impl Future<Output = ()>;
}
