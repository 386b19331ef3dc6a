//! One unit in memory: the disk that its successive agents share, its charm, and hooks that are functions.
//!
//! The disk is the fold of the durable events, as that of the product: what `append` has received survives the agent. Each
//! port call yields once or twice, so that a test can drop the agent there. Hooks take no time and have no processes, so
//! none is ever re-attached. Every hook must succeed.
//!
//! Used where agents run under tokio: `cancellation` and the load generator (`swarm`). The simulator has a disk of its
//! own, which can fail.

use agent::ports::{CharmHost, DiskError, HookHost, UnitStorage};
use state::charm::Charm;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{CharmRef, Operation};
use state::terms::run_lock::RunLock;
use state::unit::hook_context::HookContext;
use state::unit::local::{Event, Local, Run, Step};
use state::unit::outcome::HookResult;
use state::unit::record::Outcome;
use state::unit::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::yield_now;

/// What the program of a charm does: it reads the context of a hook and returns its result.
pub type HookProgram = fn(&HookContext) -> HookResult;

/// The disk and the charm of one unit. Clones share them.
#[derive(Clone)]
pub struct MemoryUnit(Rc<Content>);

struct Content {
    local: RefCell<Local>,
    /// The operations whose outcome is durable, in order.
    finished: RefCell<Vec<Operation>>,
    charm: Arc<Charm>,
    is_installed: Cell<bool>,
    program: HookProgram,
}

impl MemoryUnit {
    /// A unit without stored state. It declares `charm` once an archive was installed, whatever the archive contains.
    pub fn new(unit: Uuid, name: UnitName, charm: Arc<Charm>, program: HookProgram) -> MemoryUnit {
        MemoryUnit(Rc::new(Content {
            local: RefCell::new(Local::new(unit, name)),
            finished: RefCell::default(),
            charm,
            is_installed: Cell::new(false),
            program,
        }))
    }

    /// The stored state, with which the next agent starts.
    pub fn local(&self) -> Local {
        self.0.local.borrow().clone()
    }

    /// The number of the last record whose outcome is durable.
    pub fn sequence(&self) -> u64 {
        self.0.local.borrow().sequence
    }

    /// Returns the operations whose outcome is durable, in order.
    pub fn finished(&self) -> Vec<Operation> {
        self.0.finished.borrow().clone()
    }

    /// The number of units for which joined is durable, and departed is not, in all relations.
    pub fn joined(&self) -> usize {
        self.0.local.borrow().relations.values().map(|relation| relation.members.len()).sum()
    }

    /// Returns the number of hooks whose outcome is durable.
    pub fn hooks(&self) -> usize {
        self.0.finished.borrow().iter().filter(|operation| matches!(operation, Operation::Hook(_))).count()
    }
}

impl UnitStorage for MemoryUnit {
    async fn append(&self, events: &[Event], _: &Arc<Local>) -> Result<(), DiskError> {
        yield_now().await;
        for event in events {
            self.0.local.borrow_mut().apply(event);
            if let Event::Finished(record) = event {
                assert_eq!(record.outcome, Outcome::Ok, "{}", record.operation);
                self.0.finished.borrow_mut().push(record.operation.clone());
            }
        }
        yield_now().await;
        Ok(())
    }
    async fn cache_view(&self, _: &Arc<Snapshot>) {
        yield_now().await;
    }
}

impl CharmHost for MemoryUnit {
    type Lock = ();
    async fn lock(&self, _: &RunLock) {
        yield_now().await;
    }
    fn declared(&self) -> Option<Arc<Charm>> {
        self.0.is_installed.get().then(|| self.0.charm.clone())
    }
    async fn install(&self, _: &CharmRef, _: Vec<u8>) -> Result<(), String> {
        yield_now().await;
        self.0.is_installed.set(true);
        yield_now().await;
        Ok(())
    }
    async fn is_installed(&self, _: &CharmRef) -> bool {
        self.0.is_installed.get()
    }
    type Gated = u64;
    async fn start_gated(&self, run: &Run, _: &HookContext) -> Option<u64> {
        yield_now().await;
        Some(run.number)
    }
    async fn run(&self, run: &Run, context: HookContext, held: Option<u64>, _: &impl HookHost) -> HookResult {
        let stored = match &self.0.local.borrow().step {
            Step::Started(started) => Some(started.number),
            Step::Idle | Step::AwaitingAnswer { .. } | Step::Failed(_) => None,
        };
        assert_eq!((stored, held), (Some(run.number), Some(run.number)), "its start is stored first");
        yield_now().await;
        let result = (self.0.program)(&context);
        yield_now().await;
        result
    }
    async fn reattach(&self, _: &Run, _: &impl HookHost) -> Option<HookResult> {
        yield_now().await;
        None
    }
    async fn stop(&self, _: &Run, _: &Cell<bool>) {
        unreachable!("no user of this unit cancels an action");
    }
    async fn reboot(&self, _: &str) {
        unreachable!("no hook here requests it");
    }
}
