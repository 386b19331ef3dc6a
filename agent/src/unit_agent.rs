//! The unit agent's loops over one shared memory: the action loop (here), the sender, the watcher and the claim
//! loop.
//!
//! No loop decides what is done: `state::unit::resolve::next` does. The action loop saves a decision before it
//! executes it. One task polls everything and nothing is spawned, so a crash is equivalent to dropping one
//! future.
//!
//! Started by `pintle-agent unit`, and by the simulator.

mod facts;
mod fetch;
mod lease;
mod sender;
mod watcher;

use crate::ports::{Charms, Clock, DiskError, HookResult, UnitMemory};
use api::{FetchArchive, UnitAgentRequests};
use facts::{ProcessFacts, ReportedRun};
use host::backoff::Backoff;
use lease::ClockReading;
use state::terms::cause::Cause;
use state::unit::activity::Activity;
use state::unit::context::{self, ContextInput};
use state::unit::hook::Writes;
use state::unit::local::{Event, Local, Run, Step};
use state::unit::operation::Operation;
use state::unit::outcome::{self, Exit, FinishedRun};
use state::unit::pending_reports::PendingReports;
use state::unit::record::RunReport;
use state::unit::resolve::{self, Act, Now};
use state::unit::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};
use tracing::Instrument;

/// The delay before the next attempt while the controller is unreachable: from 0.2 s, doubled up to 5 s.
const LINK_RETRY_FIRST_MS: u64 = 200;
const LINK_RETRY_MAX_MS: u64 = 5_000;
const LINK_BACKOFF: Backoff = Backoff::new(LINK_RETRY_FIRST_MS, LINK_RETRY_MAX_MS);

/// The reboot is requested again if the machine has not rebooted within this time.
const REBOOT_REQUEST_INTERVAL_MS: u64 = 30_000;

/// Why the unit agent ends.
#[derive(Debug)]
pub enum UnitAgentEnd {
    /// The unit is finished: its agent is never started again.
    Finished,
    /// A newer agent serves the unit, so this folder is a copy. The text describes the newer agent.
    Copy(String),
    /// The records of the folder and of the controller have diverged.
    Forked(String),
    /// The store of the controller has changed generation: the agent restarts to compare its disk with the
    /// replica.
    Reattach(String),
    /// The disk failed: the agent restarts from what is on disk.
    Disk(DiskError),
}

/// The agent of one unit. See the module.
pub struct UnitAgent<M, A, H, C> {
    memory: M,
    api: A,
    charms: H,
    clock: C,
    /// The unit's memory: changed only after the change is on disk, with `disk` locked; read at any time.
    local: RefCell<Arc<Local>>,
    /// Acknowledgements that are not on disk yet: the next append includes them.
    acknowledged: RefCell<Vec<Event>>,
    /// Serialises appends to the journal.
    disk: Mutex<()>,
    /// The number of appends so far.
    saves: Cell<u64>,
    facts: RefCell<ProcessFacts>,
    /// An input of `next` has changed.
    act_changed: Notify,
    /// There may be something to send.
    send_changed: Notify,
    /// A session was opened or a view was received.
    view_changed: Notify,
    /// Why the unit waits, as of the last decision.
    wait_reasons: RefCell<Vec<Cause>>,
    /// Whether this agent holds the hook lock.
    hook_lock: Cell<bool>,
}

impl<M: UnitMemory, A: UnitAgentRequests, H: Charms, C: Clock> UnitAgent<M, A, H, C> {
    /// `ports` are the memory, the controller, the charm and the clock. `view` is the view that an earlier
    /// process cached.
    pub fn new(ports: (M, A, H, C), local: Local, view: Option<Arc<Snapshot>>) -> Self {
        let (memory, api, charms, clock) = ports;
        let start = clock.since_boot_ms();
        let facts =
            ProcessFacts { view, last_end_ms: start, agent_start_ms: start, ..ProcessFacts::default() };
        UnitAgent {
            memory,
            api,
            charms,
            clock,
            local: RefCell::new(Arc::new(local)),
            acknowledged: RefCell::default(),
            disk: Mutex::new(()),
            saves: Cell::new(0),
            facts: RefCell::new(facts),
            act_changed: Notify::new(),
            send_changed: Notify::new(),
            view_changed: Notify::new(),
            wait_reasons: RefCell::default(),
            hook_lock: Cell::new(false),
        }
    }

    /// Runs until the unit is finished or this agent must end.
    pub async fn run(&self) -> UnitAgentEnd {
        let (acting, sending) = (pin!(self.run_actions()), pin!(self.send_loop()));
        let (watching, claiming) = (pin!(self.watch_loop()), pin!(self.claim_loop()));
        // the first loop that ends determines the result: no loop ends while the agent must run
        tokio::select! {
            biased;
            end = sending => end,
            end = acting => end,
            end = watching => end,
            end = claiming => end,
        }
    }

    /// The causes that the unit waits for, as of the last decision. Empty if it waits for nothing.
    pub fn wait_reasons(&self) -> Vec<Cause> {
        self.wait_reasons.borrow().clone()
    }

    /// Calls `read` with the unit's memory, for the simulator's checks and for reports.
    pub fn with_local<T>(&self, read: impl FnOnce(&Arc<Local>) -> T) -> T {
        read(&self.local.borrow())
    }

    /// Calls `read` with the current view, for the simulator's checks.
    pub fn with_view<T>(&self, read: impl FnOnce(Option<&Arc<Snapshot>>) -> T) -> T {
        read(self.facts.borrow().view.as_ref())
    }

    fn now(&self) -> Now {
        let is_charm_missing =
            context::charm_to_fetch(&self.local.borrow(), self.charms.declared().as_deref()).is_some();
        let facts = self.facts.borrow();
        let since_boot_ms = self.clock.since_boot_ms();
        Now {
            boot: self.clock.boot(),
            since_boot_ms,
            agent_start_ms: facts.agent_start_ms,
            wall_ms: self.clock.wall_ms(),
            holds_hook_lock: self.hook_lock.get(),
            orphan_missing: facts.orphan_missing,
            attached: facts.epoch.is_some(),
            link_age_ms: facts
                .last_contact_ms
                .filter(|_| facts.is_current())
                .map(|last_contact_ms| since_boot_ms.saturating_sub(last_contact_ms)),
            leader_generation: facts.leader_generation(self.clocks_now()),
            is_leader_known: facts.is_leader_known,
            idle_ms: since_boot_ms.saturating_sub(facts.last_end_ms),
            is_charm_missing,
        }
    }

    async fn save(&self, events: Vec<Event>) -> Result<(), DiskError> {
        self.save_with(|_| events).await
    }

    /// Saves the events that `decide` derives from the memory, then applies them to the memory. Calls never
    /// interleave.
    async fn save_with(&self, decide: impl FnOnce(&Local) -> Vec<Event>) -> Result<(), DiskError> {
        let _order = self.disk.lock().await;
        let mut after = self.local.borrow().clone();
        let events = decide(&after);
        if events.is_empty() {
            return Ok(());
        }
        let acknowledged = self.acknowledged.borrow_mut().split_off(0);
        let changed = Arc::make_mut(&mut after);
        events.iter().for_each(|event| changed.apply(event));
        let all: Vec<Event> = acknowledged.into_iter().chain(events).collect();
        self.memory.append(&all, &after).await?;
        *self.local.borrow_mut() = after;
        self.saves.set(self.saves.get() + 1);
        self.act_changed.notify_one();
        self.send_changed.notify_one();
        Ok(())
    }

    /// Saves an event that was decided when the counter `saves` had this value. Returns false, and saves
    /// nothing, if the memory has changed since, so that the caller decides again:
    /// 1. `next` decides to start run 4.
    /// 2. The disk is busy. A session that is opened meanwhile replaces the memory by the replica, in which run
    ///    6 has finished.
    /// 3. Run 4 does not belong to this memory.
    async fn save_if_unchanged(&self, saves: u64, event: Event) -> Result<bool, DiskError> {
        let mut is_unchanged = false;
        let decide = |_: &Local| {
            is_unchanged = self.saves.get() == saves;
            if is_unchanged { vec![event] } else { Vec::new() }
        };
        self.save_with(decide).await?;
        Ok(is_unchanged)
    }

    async fn run_actions(&self) -> UnitAgentEnd {
        match self.act_loop().await {
            Ok(end) => end,
            Err(failed) => UnitAgentEnd::Disk(failed),
        }
    }

    /// Decides and acts until the agent ends. Each decision is saved before it is executed.
    async fn act_loop(&self) -> Result<UnitAgentEnd, DiskError> {
        let (mut lock, mut backoff) = (None, LINK_BACKOFF);
        loop {
            let (now, saves) = (self.now(), self.saves.get());
            let act = resolve::next(&self.local.borrow(), self.facts.borrow().view.as_deref(), &now).act;
            match act {
                Act::Finish => return Ok(UnitAgentEnd::Finished),
                Act::Reattach(run) => self.reattach(&run).instrument(hook_span(&run)).await?,
                Act::AcquireHookLock => {
                    let parallel = self.facts.borrow().view.as_ref().is_some_and(|view| view.model.parallel);
                    let (locked, changed) =
                        (pin!(self.charms.lock(parallel)), pin!(self.act_changed.notified()));
                    lock = tokio::select! { biased; held = locked => Some(held), () = changed => None };
                    self.hook_lock.set(lock.is_some());
                    continue;
                }
                Act::FetchBag(request) => {
                    self.release(&mut lock);
                    *self.wait_reasons.borrow_mut() =
                        vec![resolve::fetch_reason(&self.local.borrow().name, &request)];
                    self.fetch(request, &mut backoff).await;
                    continue;
                }
                Act::Start(run) => {
                    if self.save_if_unchanged(saves, Event::Started(run.clone())).await? {
                        self.run_operation(&run).instrument(hook_span(&run)).await?;
                    }
                }
                Act::RecordOutcome(record) => {
                    if self.save_if_unchanged(saves, Event::Finished(record)).await? {
                        self.clear_executing();
                    }
                }
                Act::PersistEvent(event) => {
                    self.save_if_unchanged(saves, event).await?;
                }
                Act::Reboot => {
                    self.release(&mut lock);
                    self.charms.reboot(&now.boot).await;
                    *self.wait_reasons.borrow_mut() =
                        vec![resolve::reboot_reason(&self.local.borrow().name, None)];
                    self.wait_for_change(Some(now.since_boot_ms + REBOOT_REQUEST_INTERVAL_MS)).await;
                    continue;
                }
                Act::Wait(wait) => {
                    self.release(&mut lock);
                    *self.wait_reasons.borrow_mut() = wait.causes;
                    self.wait_for_change(wait.until_ms).await;
                    continue;
                }
            }
            // the outcome is durable: other units may run their hooks before this outcome is sent (design 12)
            self.release(&mut lock);
        }
    }

    /// Releases the hook lock, if this agent holds it.
    fn release(&self, lock: &mut Option<H::Lock>) {
        self.hook_lock.set(false);
        lock.take();
    }

    /// Waits until an input of `next` has changed, or until this many milliseconds since boot.
    async fn wait_for_change(&self, until_ms: Option<u64>) {
        let changed = pin!(self.act_changed.notified());
        match until_ms {
            None => changed.await,
            Some(until_ms) => {
                let timer = pin!(self.clock.sleep_until(until_ms));
                tokio::select! { biased; () = changed => {}, () = timer => {} }
            }
        }
    }

    /// Performs the operation of a run that was saved as started, and saves its outcome.
    async fn run_operation(&self, run: &Run) -> Result<(), DiskError> {
        tracing::debug!("started");
        self.facts.borrow_mut().orphan_missing = false;
        match &run.operation {
            Operation::InstallCharm(charm) => {
                let exit = match self.deploy(charm).await {
                    Ok(()) => Exit::Code(0),
                    Err(reason) => Exit::Refused(reason),
                };
                self.save_outcome(run, HookResult { exit, writes: Writes::default(), reports: Vec::new() })
                    .await
            }
            Operation::Hook(_)
            | Operation::Action { .. }
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Resync
            | Operation::SetDead => {
                let result = self.run_charm(run).await;
                self.save_outcome(run, result).await
            }
        }
    }

    /// Runs the charm's program for a run, after fetching the charm if it is not on disk.
    async fn run_charm(&self, run: &Run) -> HookResult {
        let without = |exit| HookResult { exit, writes: Writes::default(), reports: Vec::new() };
        let refused = |reason: &str| without(Exit::Refused(reason.to_owned()));
        let lost_charm =
            context::charm_to_fetch(&self.local.borrow(), self.charms.declared().as_deref()).cloned();
        if let Some(charm) = lost_charm
            && let Err(why) = self.deploy(&charm).await
        {
            return refused(&why);
        }
        let Some(declared) = self.charms.declared() else { return refused("charm missing from disk") };
        let secret = format!("{:032x}", self.clock.random_uuid().0);
        let built = {
            let (local, is_leader) = (self.local.borrow(), self.is_leader());
            let facts = self.facts.borrow();
            let input = ContextInput { declared: &declared, secret: &secret, is_leader };
            // 1. A hook is started with a cached view.
            // 2. The agent attaches to a store of another generation, and the view is dropped.
            // This is not a failure of the charm: the hook is started again with the new view.
            let Some(view) = facts.view.as_deref() else {
                return match &run.operation {
                    Operation::Action { .. } => {
                        refused("the controller was restored while the action started")
                    }
                    _ => without(Exit::Interrupted),
                };
            };
            if context::is_cancelled(view, &run.operation) {
                return without(Exit::Cancelled);
            }
            context::build(&local, view, run, &input)
        };
        let Some(context) = built else { return refused("the relation is not in the unit's view") };
        self.set_executing(run);
        self.charms.run(run, context, self).await
    }

    /// Continues a run that an earlier agent started, or notes that nothing of it is left.
    async fn reattach(&self, run: &Run) -> Result<(), DiskError> {
        self.set_executing(run);
        let result = match run.operation.runs_charm() {
            true => self.charms.reattach(run, self).await,
            false => None,
        };
        match result {
            Some(result) => self.save_outcome(run, result).await,
            None => {
                self.facts.borrow_mut().orphan_missing = true;
                self.clear_executing();
                Ok(())
            }
        }
    }

    /// Saves the outcome and all its effects as one record.
    async fn save_outcome(&self, run: &Run, result: HookResult) -> Result<(), DiskError> {
        let now = self.now();
        self.save_with(|local| {
            let is_started = matches!(&local.step, Step::Started(started) if started.number == run.number);
            if !is_started {
                // the memory was replaced by a replica that already has the outcome of this run
                return Vec::new();
            }
            let (facts, writes) = (self.facts.borrow(), &result.writes);
            let ended = FinishedRun {
                run,
                exit: result.exit,
                writes,
                reports: result.reports,
                pending_reports: &facts.pending_reports,
            };
            outcome::events(local, facts.view.as_deref(), &now, ended)
        })
        .await?;
        let sequence = self.local.borrow().outbox.last().map(|record| record.sequence);
        tracing::debug!(sequence, "finished");
        // a run without an outcome was interrupted: `next` finds it started and its process missing, and starts
        // it again
        self.facts.borrow_mut().orphan_missing = true;
        self.clear_executing();
        Ok(())
    }

    /// Notes the run in progress, which is reported to the controller.
    fn set_executing(&self, run: &Run) {
        let mut facts = self.facts.borrow_mut();
        let (activity, since_ms) = (Activity::from(&run.operation), self.clock.since_boot_ms());
        facts.executing = Some(ReportedRun { run: run.number, activity, since_ms });
        facts.pending_reports = PendingReports::default();
        self.send_changed.notify_one();
    }

    fn clear_executing(&self) {
        let mut facts = self.facts.borrow_mut();
        facts.executing = None;
        facts.pending_reports = PendingReports::default();
        facts.last_end_ms = self.clock.since_boot_ms();
        self.send_changed.notify_one();
    }

    /// Queues a report of the running hook for sending.
    fn queue_report(&self, report: &RunReport) {
        self.facts.borrow_mut().pending_reports.push(report);
        self.send_changed.notify_one();
    }

    fn is_leader(&self) -> bool {
        self.facts.borrow().leader_generation(self.clocks_now()).is_some()
    }

    fn clocks_now(&self) -> ClockReading {
        ClockReading { since_boot_ms: self.clock.since_boot_ms(), wall_ms: self.clock.wall_ms() }
    }

    /// Fetches and installs the charm. Retries until the controller answers, because an outage is not a failure
    /// of the charm.
    async fn deploy(&self, charm: &state::unit::operation::CharmRef) -> Result<(), String> {
        if self.charms.is_deployed(charm).await {
            return self.charms.deploy(charm, Vec::new()).await;
        }
        let mut backoff = LINK_BACKOFF;
        loop {
            let sha256 = charm.sha256.clone();
            match self.api.handle(FetchArchive { sha256 }).await {
                Ok(archive) => return self.charms.deploy(charm, archive.0).await,
                Err(error) if error.is_transient() => self.pause(&mut backoff).await,
                Err(error) => return Err(error.message),
            }
        }
    }

    async fn pause(&self, backoff: &mut Backoff) {
        self.clock.sleep_until(self.clock.since_boot_ms() + backoff.delay_ms()).await;
        backoff.increase();
    }
}

/// The log span of one run. The message `finished` has the sequence of the run's record, which the log of the
/// controller has too.
fn hook_span(run: &Run) -> tracing::Span {
    tracing::info_span!("hook", operation = %run.operation, run = run.number)
}
