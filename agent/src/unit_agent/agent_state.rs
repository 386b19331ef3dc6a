//! The state that the loops of one unit agent share: the interfaces to storage, controller and clock, the unit's stored
//! state, the volatile state of this process, and the notifications between the loops.
//!
//! The stored state changes only after the change is on disk, except for acknowledgements, which the next append
//! stores. This module makes no decisions and calls no loop: the loops use it.

use super::volatile_state::{ReportedRun, VolatileState};
use crate::outage::{Channel, jittered_delay_ms};
use crate::ports::{Clock, DiskError, UnitStorage};
use api::error::ApiError;
use host::backoff::Backoff;
use state::agents::lease::ClockReading;
use state::terms::activity::Activity;
use state::terms::cause::Cause;
use state::terms::run_lock::HeldLock;
use state::unit::decision::{CharmOnDisk, Now};
use state::unit::local::{Event, Local, Run};
use state::unit::pending_reports::PendingReports;
use state::unit::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};

/// The state of one running unit agent. See the module.
pub struct AgentState<S, A, C> {
    pub(super) storage: S,
    pub(super) api: A,
    pub(super) clock: C,
    /// The stored state: changed with `disk` locked; read at any time.
    local: RefCell<Arc<Local>>,
    /// Acknowledgements that are not on disk yet: the next append includes them.
    acknowledged: RefCell<Vec<Event>>,
    /// Serialises appends to the journal.
    disk: Mutex<()>,
    /// The number of appends so far.
    saves: Cell<u64>,
    /// What is lost when this process ends.
    pub(super) volatile: RefCell<VolatileState>,
    /// An input of `next` has changed.
    pub(super) act_changed: Notify,
    /// There may be something to send.
    pub(super) send_changed: Notify,
    /// A session was opened or a view was received.
    pub(super) view_changed: Notify,
    /// The view differs from the cached one.
    pub(super) cache_outdated: Notify,
    /// Why the unit waits, as of the last decision.
    wait_causes: RefCell<Vec<Cause>>,
}

impl<S: UnitStorage, A, C: Clock> AgentState<S, A, C> {
    pub(super) fn new(storage: S, api: A, clock: C, local: Local, view: Option<Arc<Snapshot>>) -> Self {
        let start = clock.since_boot_ms();
        let mut volatile = VolatileState { view, agent_start_ms: start, ..VolatileState::default() };
        volatile.set_last_end(start);
        AgentState {
            storage,
            api,
            clock,
            local: RefCell::new(Arc::new(local)),
            acknowledged: RefCell::default(),
            disk: Mutex::new(()),
            saves: Cell::new(0),
            volatile: RefCell::new(volatile),
            act_changed: Notify::new(),
            send_changed: Notify::new(),
            view_changed: Notify::new(),
            cache_outdated: Notify::new(),
            wait_causes: RefCell::default(),
        }
    }

    /// The stored state of the unit, with the acknowledgements that are not on disk yet.
    pub fn local(&self) -> Arc<Local> {
        self.local.borrow().clone()
    }

    /// The current view.
    pub fn view(&self) -> Option<Arc<Snapshot>> {
        self.volatile.borrow().view.clone()
    }

    /// The causes that the unit waits for, as of the last time that it began to wait. Empty if it waited for nothing.
    pub fn wait_causes(&self) -> Vec<Cause> {
        self.wait_causes.borrow().clone()
    }

    /// Stores what the unit waits for, and logs it when the first cause is another one.
    pub(super) fn set_wait_causes(&self, causes: Vec<Cause>) {
        let before = self.wait_causes.replace(causes);
        let after = self.wait_causes.borrow();
        let first = |causes: &[Cause]| causes.first().map(|cause| (cause.entity.clone(), cause.duty.clone()));
        if let Some(cause) = after.first()
            && first(&before) != first(&after)
        {
            tracing::debug!(entity = %cause.entity, duty = ?cause.duty, "waiting");
        }
    }

    /// The facts of the agent's environment, without what only the decision loop has: the hook lock, whether the charm is
    /// on disk, and the commands that were requested.
    pub(super) fn now(&self) -> Now {
        let volatile = self.volatile.borrow();
        let since_boot_ms = self.clock.since_boot_ms();
        Now {
            boot: self.clock.boot(),
            since_boot_ms,
            agent_start_ms: volatile.agent_start_ms,
            wall_ms: self.clock.wall_ms(),
            held_lock: HeldLock::None,
            no_run_process: volatile.no_run_process,
            attached: volatile.epoch.is_some(),
            link_age_ms: volatile
                .last_contact_ms
                .filter(|_| volatile.is_current())
                .map(|last_contact_ms| since_boot_ms.saturating_sub(last_contact_ms)),
            leader_generation: volatile.leader_generation(self.clocks_now()),
            is_leader_known: volatile.is_leader_known,
            idle_ms: volatile.idle_ms(since_boot_ms),
            charm: CharmOnDisk::Complete,
            commands: None,
        }
    }

    pub(super) fn clocks_now(&self) -> ClockReading {
        ClockReading { since_boot_ms: self.clock.since_boot_ms(), wall_ms: self.clock.wall_ms() }
    }

    pub(super) fn is_leader(&self) -> bool {
        self.volatile.borrow().leader_generation(self.clocks_now()).is_some()
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        self.volatile.borrow().epoch
    }

    /// The number of appends so far, for [`AgentState::save_if_unchanged`].
    pub(super) fn saves(&self) -> u64 {
        self.saves.get()
    }

    pub(super) async fn save(&self, events: Vec<Event>) -> Result<(), DiskError> {
        self.save_with(|_| events).await
    }

    /// Saves the events that `decide` derives from the stored state, then applies them. Calls never interleave.
    pub(super) async fn save_with(&self, decide: impl FnOnce(&Local) -> Vec<Event>) -> Result<(), DiskError> {
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
        self.storage.append(&all, &after).await?;
        *self.local.borrow_mut() = after;
        self.saves.set(self.saves.get() + 1);
        self.act_changed.notify_one();
        self.send_changed.notify_one();
        Ok(())
    }

    /// Saves an event that was decided when [`AgentState::saves`] had this value. Returns false, and saves nothing, if
    /// anything was appended to the stored state since, so that the caller decides again. An acknowledgement does not
    /// count: while a decision depends on an answer, the step of the unit awaits it, and nothing is decided.
    /// 1. `next` decides to start run 4.
    /// 2. The disk is busy. A session that is opened meanwhile replaces the stored state by the replica, in which
    ///    run 6 has finished.
    /// 3. Run 4 does not belong to this state.
    pub(super) async fn save_if_unchanged(&self, saves: u64, event: Event) -> Result<bool, DiskError> {
        let mut is_unchanged = false;
        let decide = |_: &Local| {
            is_unchanged = self.saves.get() == saves;
            if is_unchanged { vec![event] } else { Vec::new() }
        };
        self.save_with(decide).await?;
        Ok(is_unchanged)
    }

    /// Applies an acknowledgement, which the next append stores. After a crash before that, the record is sent
    /// again and receives the same answer.
    pub(super) async fn acknowledge(&self, answered: Event) {
        let _order = self.disk.lock().await;
        Arc::make_mut(&mut self.local.borrow_mut()).apply(&answered);
        self.acknowledged.borrow_mut().push(answered);
        self.act_changed.notify_one();
    }

    /// Records the run in progress, which is reported to the controller.
    pub(super) fn set_executing(&self, run: &Run) {
        let mut volatile = self.volatile.borrow_mut();
        let (activity, since_ms) = (Activity::from(&run.operation), self.clock.since_boot_ms());
        volatile.executing = Some(ReportedRun { run: run.number, activity, since_ms });
        volatile.pending_reports = PendingReports::default();
        self.send_changed.notify_one();
    }

    /// Records that no run is in progress.
    pub(super) fn clear_executing(&self) {
        let mut volatile = self.volatile.borrow_mut();
        volatile.executing = None;
        volatile.pending_reports = PendingReports::default();
        volatile.set_last_end(self.clock.since_boot_ms());
        self.send_changed.notify_one();
    }

    /// Records that an input of `next` has changed.
    pub(super) fn notify_act(&self) {
        self.act_changed.notify_one();
    }

    /// Waits until an input of `next` has changed, or until this many milliseconds since boot.
    pub(super) async fn wait_for_change(&self, until_ms: Option<u64>) {
        let changed = pin!(self.act_changed.notified());
        match until_ms {
            None => changed.await,
            Some(until_ms) => {
                let timer = pin!(self.clock.sleep_until(until_ms));
                tokio::select! { biased; () = changed => {}, () = timer => {} }
            }
        }
    }

    /// Waits until `found` returns a value for the volatile state of this process.
    pub(super) async fn wait_for_volatile<T>(&self, found: impl Fn(&VolatileState) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.view_changed.notified());
            changed.as_mut().enable();
            if let Some(found) = found(&self.volatile.borrow()) {
                return found;
            }
            changed.await;
        }
    }

    /// Waits for the delay of `backoff`, with jitter, and increases it.
    pub(super) async fn pause(&self, backoff: &mut Backoff) {
        self.clock.sleep_until(self.clock.since_boot_ms() + jittered_delay_ms(backoff, &self.clock)).await;
        backoff.increase();
    }

    /// Records that a request succeeded; logs the end of an outage.
    pub(super) fn record_success(&self, channel: Channel) {
        let now = self.clock.since_boot_ms();
        let mut volatile = self.volatile.borrow_mut();
        let outage = &mut volatile.outage;
        let had_error = outage.last_error().is_some();
        if let Some(line) = outage.record_success(channel, now) {
            tracing::info!("{line}");
        }
        if had_error && outage.last_error().is_none() {
            self.storage.store_controller_error(None);
        }
    }

    /// Records that a request failed; logs each new cause of an outage.
    pub(super) fn record_failure(&self, channel: Channel, error: &ApiError) {
        let now = self.clock.since_boot_ms();
        let mut volatile = self.volatile.borrow_mut();
        let outage = &mut volatile.outage;
        let before = outage.last_error().map(str::to_owned);
        if let Some(line) = outage.record_failure(channel, error, now) {
            tracing::warn!("{line}");
        }
        if outage.last_error() != before.as_deref() {
            self.storage.store_controller_error(outage.last_error());
        }
    }
}
