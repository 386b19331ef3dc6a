//! The unit loop. Small loops over one shared memory: doing (save, act, save; here), `sending` (attach, then the
//! outbox in order), `watching` (take the view, claim leadership). None of them decides: `state::unit::resolve::next` does.
//!
//! Everything here is polled by one task; nothing is spawned, so a crash is the drop of one future.

mod fetch;
mod lease;
mod sender;
mod watcher;

use crate::outage::Outage;
use crate::ports::{Charms, Clock, DiskError, Ending, Memory};
use api::{FetchArchive, UnitAgentRequests};
use host::backoff::Backoff;
use lease::{ClockReading, Lease};
use state::terms::cause::Cause;
use state::terms::position::Position;
use state::unit::activity::Activity;
use state::unit::context::{self, ContextInput};
use state::unit::hook::Writes;
use state::unit::local::{Event, Local, Run, Step};
use state::unit::operation::Operation;
use state::unit::outcome::{self, Ended, Exit};
use state::unit::pending_reports::PendingReports;
use state::unit::record::Said;
use state::unit::resolve::{self, Act, Now};
use state::unit::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};
use tracing::Instrument;

/// Waits between tries of a link that is down: 0.2 s doubled to 5 s.
const LINK_RETRY_FIRST_MS: u64 = 200;
const LINK_RETRY_MAX_MS: u64 = 5_000;
const LINK_BACKOFF: Backoff = Backoff::new(LINK_RETRY_FIRST_MS, LINK_RETRY_MAX_MS);

/// A machine that was told to reboot and has not is told again.
const REBOOT_ASKED_EVERY_MS: u64 = 30_000;

/// Why the agent ends.
#[derive(Debug)]
pub enum End {
    /// The unit is finished; this agent is never started again.
    Finished,
    /// A newer agent serves the unit: this one is a copy. The text says where the live one is.
    Copy(String),
    /// Folder and controller went separate ways.
    Forked(String),
    /// The controller is not where it was: start again, so that disk and replica are compared.
    Reattach(String),
    /// The disk failed: die, restart from what is there.
    Disk(DiskError),
}

#[derive(Clone, Debug)]
struct Executing {
    run: u64,
    activity: Activity,
    since_ms: u64,
}

/// Facts of this process, lost with it.
#[derive(Debug, Default)]
struct ProcessFacts {
    view: Option<Arc<Snapshot>>,
    epoch: Option<u64>,
    /// Where the store was when this session was opened. What the memory rests on was there: an older view, kept
    /// from before, would show as gone what has come since.
    attached_at: Option<Position>,
    /// When the controller last showed where it is.
    heard_ms: Option<u64>,
    outage: Outage,
    lease: Option<Lease>,
    claimed: bool,
    orphan_missing: bool,
    last_end_ms: u64,
    agent_start_ms: u64,
    executing: Option<Executing>,
    /// Since when attaching is refused because another session is open.
    other_session_ms: Option<u64>,
    unsaid: PendingReports,
    executing_shown: Option<Activity>,
    /// The link was away since: a controller that has started anew knows nothing of it.
    resend_executing: bool,
}

/// One unit agent.
pub struct Uniter<M, A, H, C> {
    memory: M,
    api: A,
    charms: H,
    clock: C,
    /// Memory is set from what was saved: written under `disk`, read anywhere.
    local: RefCell<Arc<Local>>,
    /// Acknowledgements not yet on disk: folded into the next append.
    acknowledged: RefCell<Vec<Event>>,
    disk: Mutex<()>,
    /// Counts what was saved.
    saves: Cell<u64>,
    facts: RefCell<ProcessFacts>,
    /// Something that `next` looks at has changed.
    doing: Notify,
    sending: Notify,
    /// A session was opened, a view came, leadership is free.
    shown: Notify,
    explained: RefCell<Vec<Cause>>,
    hook_lock: Cell<bool>,
}

impl<M: Memory, A: UnitAgentRequests, H: Charms, C: Clock> Uniter<M, A, H, C> {
    /// `view` is the cached one, of an earlier process.
    pub fn new(world: (M, A, H, C), local: Local, view: Option<Arc<Snapshot>>) -> Self {
        let (memory, api, charms, clock) = world;
        let start = clock.since_boot_ms();
        let facts =
            ProcessFacts { view, last_end_ms: start, agent_start_ms: start, ..ProcessFacts::default() };
        Uniter {
            memory,
            api,
            charms,
            clock,
            local: RefCell::new(Arc::new(local)),
            acknowledged: RefCell::default(),
            disk: Mutex::new(()),
            saves: Cell::new(0),
            facts: RefCell::new(facts),
            doing: Notify::new(),
            sending: Notify::new(),
            shown: Notify::new(),
            explained: RefCell::default(),
            hook_lock: Cell::new(false),
        }
    }

    /// Runs until the unit is finished or this agent may not go on.
    pub async fn run(&self) -> End {
        let (doing, sending) = (pin!(self.keep_doing()), pin!(self.send_loop()));
        let (watching, claiming) = (pin!(self.watch_loop()), pin!(self.claim_loop()));
        // first come, first ended: none of the four ends while the unit goes on
        tokio::select! {
            biased;
            end = sending => end,
            end = doing => end,
            end = watching => end,
            end = claiming => end,
        }
    }

    /// What the unit waits for, as of the last decision.
    pub fn explained(&self) -> Vec<Cause> {
        self.explained.borrow().clone()
    }

    /// A look at the memory, for the simulator's checks and for reports.
    pub fn with_local<T>(&self, look: impl FnOnce(&Arc<Local>) -> T) -> T {
        look(&self.local.borrow())
    }

    /// A look at what the controller last showed, for the simulator's checks.
    pub fn with_view<T>(&self, look: impl FnOnce(Option<&Arc<Snapshot>>) -> T) -> T {
        look(self.facts.borrow().view.as_ref())
    }

    fn now(&self) -> Now {
        let lost = context::charm_to_fetch(&self.local.borrow(), self.charms.declared().as_deref()).is_some();
        let facts = self.facts.borrow();
        let since_boot_ms = self.clock.since_boot_ms();
        Now {
            boot: self.clock.boot(),
            since_boot_ms,
            agent_start_ms: facts.agent_start_ms,
            wall_ms: self.clock.wall_ms(),
            hook_lock: self.hook_lock.get(),
            orphan_missing: facts.orphan_missing,
            attached: facts.epoch.is_some(),
            link_age_ms: facts
                .heard_ms
                .filter(|_| facts.is_current())
                .map(|heard| since_boot_ms.saturating_sub(heard)),
            leads: facts.leads(self.clocks_now()),
            claimed: facts.claimed,
            idle_ms: since_boot_ms.saturating_sub(facts.last_end_ms),
            charm_lost: lost,
        }
    }

    async fn save(&self, events: Vec<Event>) -> Result<(), DiskError> {
        self.save_with(|_| events).await
    }

    /// Saves what `decide` makes of the memory, then takes it into memory. Two never interleave.
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
        self.doing.notify_one();
        self.sending.notify_one();
        Ok(())
    }

    /// Saves what was decided when so much had been saved; false: the memory is another one now, decide anew.
    /// 1. `next` decides to begin run 4. 2. The disk is busy: a session that was opened takes the replica, in which run
    ///    6 has ended. 3. Run 4 is none of this memory's.
    async fn save_decided(&self, saves: u64, event: Event) -> Result<bool, DiskError> {
        let mut stands = false;
        let decide = |_: &Local| {
            stands = self.saves.get() == saves;
            if stands { vec![event] } else { Vec::new() }
        };
        self.save_with(decide).await?;
        Ok(stands)
    }

    async fn keep_doing(&self) -> End {
        match self.do_next_for_ever().await {
            Ok(end) => end,
            Err(failed) => End::Disk(failed),
        }
    }

    async fn do_next_for_ever(&self) -> Result<End, DiskError> {
        let (mut lock, mut backoff) = (None, LINK_BACKOFF);
        loop {
            let (now, saves) = (self.now(), self.saves.get());
            let act = resolve::next(&self.local.borrow(), self.facts.borrow().view.as_deref(), &now).act;
            match act {
                Act::Finish => return Ok(End::Finished),
                Act::Reattach(run) => self.adopt(&run).instrument(hook_span(&run)).await?,
                Act::AcquireHookLock => {
                    let parallel = self.facts.borrow().view.as_ref().is_some_and(|view| view.model.parallel);
                    let (taken, changed) = (pin!(self.charms.lock(parallel)), pin!(self.doing.notified()));
                    lock = tokio::select! { biased; taken = taken => Some(taken), () = changed => None };
                    self.hook_lock.set(lock.is_some());
                    continue;
                }
                Act::FetchBag(asked) => {
                    self.release(&mut lock);
                    *self.explained.borrow_mut() = vec![resolve::fetching(&self.local.borrow().name, &asked)];
                    self.fetch(asked, &mut backoff).await;
                    continue;
                }
                Act::Start(run) => {
                    if self.save_decided(saves, Event::Started(run.clone())).await? {
                        self.perform(&run).instrument(hook_span(&run)).await?;
                    }
                }
                Act::RecordOutcome(record) => {
                    if self.save_decided(saves, Event::Finished(record)).await? {
                        self.ended();
                    }
                }
                Act::PersistEvent(event) => {
                    self.save_decided(saves, event).await?;
                }
                Act::Reboot => {
                    self.release(&mut lock);
                    self.charms.reboot(&now.boot).await;
                    *self.explained.borrow_mut() = vec![resolve::rebooting(&self.local.borrow().name, None)];
                    self.until_changed(Some(now.since_boot_ms + REBOOT_ASKED_EVERY_MS)).await;
                    continue;
                }
                Act::Wait(wait) => {
                    self.release(&mut lock);
                    *self.explained.borrow_mut() = wait.causes;
                    self.until_changed(wait.until_ms).await;
                    continue;
                }
            }
            // the outcome is durable: others may run their hooks before ours is sent (design 12)
            self.release(&mut lock);
        }
    }

    fn release(&self, lock: &mut Option<H::Lock>) {
        self.hook_lock.set(false);
        lock.take();
    }

    async fn until_changed(&self, until_ms: Option<u64>) {
        let changed = pin!(self.doing.notified());
        match until_ms {
            None => changed.await,
            Some(until_ms) => {
                let timer = pin!(self.clock.sleep_until(until_ms));
                tokio::select! { biased; () = changed => {}, () = timer => {} }
            }
        }
    }

    /// Does what was written down as begun.
    async fn perform(&self, run: &Run) -> Result<(), DiskError> {
        tracing::debug!("started");
        self.facts.borrow_mut().orphan_missing = false;
        match &run.operation {
            Operation::InstallCharm(charm) => {
                let exit = match self.deploy(charm).await {
                    Ok(()) => Exit::Code(0),
                    Err(reason) => Exit::Refused(reason),
                };
                self.end(run, Ending { exit, writes: Writes::default(), said: Vec::new() }).await
            }
            Operation::Hook(_)
            | Operation::Action { .. }
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Resync
            | Operation::SetDead => {
                let ending = self.run_charm(run).await;
                self.end(run, ending).await
            }
        }
    }

    async fn run_charm(&self, run: &Run) -> Ending {
        let without = |exit| Ending { exit, writes: Writes::default(), said: Vec::new() };
        let refused = |reason: &str| without(Exit::Refused(reason.to_owned()));
        let missing =
            context::charm_to_fetch(&self.local.borrow(), self.charms.declared().as_deref()).cloned();
        if let Some(charm) = missing
            && let Err(why) = self.deploy(&charm).await
        {
            return refused(&why);
        }
        let Some(declared) = self.charms.declared() else { return refused("charm missing from disk") };
        let secret = format!("{:032x}", self.clock.fresh().0);
        let built = {
            let (local, leads) = (self.local.borrow(), self.is_leader());
            let facts = self.facts.borrow();
            let given = ContextInput { declared: &declared, secret: &secret, leads };
            // 1. A hook is begun on a view that was kept. 2. The agent attaches, to another history, and the view is
            // dropped. That is no failure of the charm's: a hook is begun again on what comes.
            let Some(view) = facts.view.as_deref() else {
                return match &run.operation {
                    Operation::Action { .. } => refused("the controller was restored as it began"),
                    _ => without(Exit::Interrupted),
                };
            };
            context::build(&local, view, run, &given)
        };
        let Some(context) = built else { return refused("the relation is not known") };
        self.executing(run);
        self.charms.run(run, context, self).await
    }

    async fn adopt(&self, run: &Run) -> Result<(), DiskError> {
        self.executing(run);
        let ending = match run.operation.runs_charm() {
            true => self.charms.adopt(run, self).await,
            false => None,
        };
        match ending {
            Some(ending) => self.end(run, ending).await,
            None => {
                self.facts.borrow_mut().orphan_missing = true;
                self.ended();
                Ok(())
            }
        }
    }

    /// Writes the outcome down, with all its effects, as one record.
    async fn end(&self, run: &Run, ending: Ending) -> Result<(), DiskError> {
        let now = self.now();
        self.save_with(|local| {
            let begun = matches!(&local.step, Step::Started(begun) if begun.number == run.number);
            if !begun {
                // the replica that was taken meanwhile holds this run's outcome already
                return Vec::new();
            }
            let (facts, writes) = (self.facts.borrow(), &ending.writes);
            let ended = Ended { run, exit: ending.exit, writes, said: ending.said, unsaid: &facts.unsaid };
            outcome::events(local, facts.view.as_deref(), &now, ended)
        })
        .await?;
        let sequence = self.local.borrow().outbox.last().map(|record| record.sequence);
        tracing::debug!(sequence, "finished");
        // a run without an outcome was interrupted: `next` sees it begun and gone, and begins it again
        self.facts.borrow_mut().orphan_missing = true;
        self.ended();
        Ok(())
    }

    fn executing(&self, run: &Run) {
        let mut facts = self.facts.borrow_mut();
        let (activity, since_ms) = (Activity::from(&run.operation), self.clock.since_boot_ms());
        facts.executing = Some(Executing { run: run.number, activity, since_ms });
        facts.unsaid = PendingReports::default();
        self.sending.notify_one();
    }

    fn ended(&self) {
        let mut facts = self.facts.borrow_mut();
        facts.executing = None;
        facts.unsaid = PendingReports::default();
        facts.last_end_ms = self.clock.since_boot_ms();
        self.sending.notify_one();
    }

    fn say(&self, said: &Said) {
        self.facts.borrow_mut().unsaid.say(said);
        self.sending.notify_one();
    }

    fn is_leader(&self) -> bool {
        self.facts.borrow().leads(self.clocks_now()).is_some()
    }

    fn clocks_now(&self) -> ClockReading {
        ClockReading { since_boot_ms: self.clock.since_boot_ms(), wall_ms: self.clock.wall_ms() }
    }

    /// Fetches until the controller answers: an outage is no failure of the charm.
    async fn deploy(&self, charm: &state::unit::operation::CharmRef) -> Result<(), String> {
        if self.charms.is_deployed(charm).await {
            return self.charms.deploy(charm, Vec::new()).await;
        }
        let mut backoff = LINK_BACKOFF;
        loop {
            let sha256 = charm.sha256.clone();
            match self.api.handle(FetchArchive { sha256 }).await {
                Ok(archive) => return self.charms.deploy(charm, archive.0).await,
                Err(error) if error.is_passing() => self.pause(&mut backoff).await,
                Err(error) => return Err(error.message),
            }
        }
    }

    async fn pause(&self, backoff: &mut Backoff) {
        self.clock.sleep_until(self.clock.since_boot_ms() + backoff.delay_ms()).await;
        backoff.increase();
    }
}

/// In what the log tells of one run: the controller's log has its record's sequence, which `finished` shows.
fn hook_span(run: &Run) -> tracing::Span {
    tracing::info_span!("hook", operation = %run.operation, run = run.number)
}

impl ProcessFacts {
    fn leads(&self, now: ClockReading) -> Option<u64> {
        self.lease.filter(|lease| lease.holds(now)).map(|lease| lease.generation)
    }

    /// The view is no older than what the memory may rest on.
    fn is_current(&self) -> bool {
        match (&self.view, self.attached_at) {
            (Some(view), Some(at)) => {
                view.position.store_generation == at.store_generation && view.position.revision >= at.revision
            }
            (None, _) | (_, None) => false,
        }
    }

    /// Nobody leads: worth asking before the next renewal. Not while the own grant is on its way into the view.
    fn leadership_is_free(&self) -> Option<()> {
        let free = self.view.as_ref().is_some_and(|view| view.leader.is_none());
        (free && self.lease.is_none()).then_some(())
    }

    fn drop_moved_lease(&mut self, view: &Snapshot) {
        let moved =
            |lease: &mut Lease| view.leader.as_ref().is_some_and(|grant| grant.generation > lease.generation);
        self.lease.take_if(moved);
    }
}
