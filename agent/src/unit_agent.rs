//! The unit agent: the decision loop (here), beside the sender, the watcher, the loop that caches the view, the leadership
//! loop and the queue of juju-exec commands.
//!
//! No loop decides what is done: `state::unit::resolve::next` does. The decision loop saves a decision before it
//! executes it: the process of a hook is started meanwhile, and waits at a gate that is opened after the save.
//! One task polls all loops, so a crash is equivalent to dropping one future. The loops do not call each other: each uses
//! what they share (`agent_state`).
//!
//! Started by `pintle-agent unit`, and by the simulator.

mod agent_state;
mod charm_error;
mod end;
mod fetch;
mod leadership;
pub(crate) mod run_log;
mod sender;
mod volatile_state;
mod watcher;

pub use agent_state::AgentState;
use charm_error::CharmError;
pub use end::UnitAgentEnd;
pub use fetch::no_response_in_time;

use crate::outage::{Channel, LINK_BACKOFF, jittered_delay_ms};
use crate::ports::{CharmHost, Clock, DiskError, UnitStorage};
use crate::reboot_request::{RequestDue, RequestTimes};
use crate::requested_commands::RequestedCommands;
use api::text::error::full_text;
use api::text::log::RUN_TEXTS;
use api::{FetchArchive, UnitAgentRequests};
use host::backoff::Backoff;
use leadership::claim_loop;
use sender::Sender;
use state::charm::Charm;
use state::terms::failure_reason::FailureReason;
use state::terms::operation::{CharmRef, Operation};
use state::terms::run_lock::{HeldLock, RunLock};
use state::unit::decision::{Act, CharmOnDisk, Now};
use state::unit::hook_context::HookContext;
use state::unit::hook_context_builder::{self, ContextInput, NoContext};
use state::unit::local::{Event, Local, Run};
use state::unit::outcome::{self, FinishedRun, HookResult, RunExit};
use state::unit::resolve;
use state::unit::snapshot::Snapshot;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use tracing::Instrument;
use watcher::Watcher;

/// The agent of one unit. See the module.
pub struct UnitAgent<S, A, H, C> {
    /// The state that the loops share: the stored state, the view, and the causes that the unit waits for.
    pub shared: AgentState<S, A, C>,
    charms: H,
    commands: RequestedCommands,
    /// Why a lost charm cannot be fetched again.
    charm_error: CharmError,
}

/// What a decision knows of the lock that is held.
fn held<T>(lock: Option<&(RunLock, T)>) -> HeldLock {
    lock.map_or(HeldLock::None, |(lock, _)| HeldLock::One(lock.clone()))
}

/// The process of a run at its closed gate, and the context that it was started with.
struct GatedHook<P> {
    context: HookContext,
    process: P,
}

impl<S: UnitStorage, A: UnitAgentRequests, H: CharmHost, C: Clock> UnitAgent<S, A, H, C> {
    /// `ports` are the storage, the controller, the charm and the clock. `view` is the view that an earlier
    /// process cached.
    pub fn new(ports: (S, A, H, C), local: Local, view: Option<Arc<Snapshot>>) -> Self {
        let (storage, api, charms, clock) = ports;
        let commands = RequestedCommands::default();
        let shared = AgentState::new(storage, api, clock, local, view);
        UnitAgent { shared, charms, commands, charm_error: CharmError::default() }
    }

    /// Adds the queue of commands that processes on the machine request.
    pub fn with_commands(self, commands: RequestedCommands) -> Self {
        UnitAgent { commands, ..self }
    }

    /// Runs until the unit is finished or this agent must end.
    pub async fn run(&self) -> UnitAgentEnd {
        let (sender, watcher) = (Sender(&self.shared), Watcher(&self.shared));
        let (acting, sending) = (pin!(self.run_decision_loop()), pin!(sender.run()));
        let (watching, caching) = (pin!(watcher.run()), pin!(watcher.keep_cached()));
        let claiming = pin!(claim_loop(&self.shared));
        let receiving = pin!(self.receive_commands());
        // the first loop that ends determines the result: no loop ends while the agent must run
        tokio::select! {
            biased;
            end = sending => end,
            end = acting => end,
            end = watching => end,
            end = caching => end,
            end = claiming => end,
            end = receiving => end,
        }
    }

    async fn receive_commands(&self) -> UnitAgentEnd {
        loop {
            self.commands.receive(|| self.shared.local()).await;
            self.shared.notify_act();
        }
    }

    async fn run_decision_loop(&self) -> UnitAgentEnd {
        match self.decide_and_perform().await {
            Ok(end) => end,
            Err(failed) => UnitAgentEnd::Disk(failed),
        }
    }

    /// The facts of the agent's environment on which the decision loop bases its decisions.
    fn now(&self, held_lock: HeldLock) -> Now {
        let charm = self.charm_error.observe(self.is_charm_missing());
        Now { held_lock, charm, commands: self.commands.oldest(), ..self.shared.now() }
    }

    /// Whether the charm is to be fetched before a run starts.
    fn is_lost_again(&self) -> bool {
        self.charm_error.observe(self.is_charm_missing()) == CharmOnDisk::Missing
    }

    fn is_charm_missing(&self) -> bool {
        let (declared, files) = (self.charms.declared(), self.charms.required_files());
        hook_context_builder::charm_to_fetch(&self.shared.local(), declared.as_deref(), &files).is_some()
    }

    /// Decides and performs operations until the agent ends. Each decision is saved before it is executed.
    async fn decide_and_perform(&self) -> Result<UnitAgentEnd, DiskError> {
        let shared = &self.shared;
        let (mut lock, mut backoff) = (None, LINK_BACKOFF);
        let mut reboot_requests = RequestTimes::default();
        loop {
            self.commands.confirm(shared.local().awaited(), shared.volatile.borrow().last_refusal.as_ref());
            let (now, saves) = (self.now(held(lock.as_ref())), shared.saves());
            let act = resolve::next(&shared.local(), shared.view().as_deref(), &now).act;
            match act {
                Act::Finish => return Ok(UnitAgentEnd::Finished),
                Act::Reattach(run) => self.reattach(&run).instrument(run_log::span(&run)).await?,
                Act::AcquireLock(wanted) => {
                    // two agents would wait for each other if each kept its lock while it waits for that of the other
                    drop(lock.take());
                    let acquired = {
                        let (locked, changed) =
                            (pin!(self.charms.lock(&wanted)), pin!(shared.act_changed.notified()));
                        tokio::select! { biased; held = locked => Some(held), () = changed => None }
                    };
                    lock = acquired.map(|held| (wanted, held));
                    continue;
                }
                Act::FetchBag(request) => {
                    drop(lock.take());
                    shared.set_wait_causes(vec![resolve::fetch_cause(&shared.local().name, &request)]);
                    fetch::fetch(shared, request, &mut backoff).await;
                    continue;
                }
                Act::FetchCharm(charm) => {
                    drop(lock.take());
                    shared.set_wait_causes(vec![resolve::fetch_charm_cause(&shared.local().name, &charm)]);
                    self.restore_charm(&charm, &mut backoff).await;
                    continue;
                }
                Act::Start(run) => {
                    // an action that was started is not run again: a charm that was lost since the decision is fetched
                    // before the start is stored
                    if run.operation.runs_charm() && self.is_lost_again() {
                        continue;
                    }
                    let saving = shared.save_if_unchanged(saves, Event::Started(run.clone()));
                    let (gated, is_saved) = tokio::join!(biased; self.start_gated(&run), saving);
                    if is_saved? {
                        self.run_operation(&run, gated).instrument(run_log::span(&run)).await?;
                    }
                }
                Act::RecordOutcome(record) => {
                    let operation = record.operation.clone();
                    if shared.save_if_unchanged(saves, Event::Finished(record)).await? {
                        tracing::info!(%operation, "recorded without running it");
                        shared.clear_executing();
                    }
                }
                Act::ChangeLeadership(generation) => {
                    if shared.save_if_unchanged(saves, Event::LeadershipChanged(generation)).await? {
                        tracing::info!(generation, "leadership changed");
                    }
                }
                Act::Reboot => {
                    drop(lock.take());
                    self.request_reboot(&now, &mut reboot_requests).await;
                    shared.set_wait_causes(vec![resolve::reboot_cause(&shared.local().name, None)]);
                    shared.wait_for_change(reboot_requests.next_ms(&now.boot)).await;
                    continue;
                }
                Act::Wait(wait) => {
                    drop(lock.take());
                    self.charm_error.clear();
                    shared.set_wait_causes(wait.causes);
                    shared.wait_for_change(wait.until_ms).await;
                    continue;
                }
            }
            // the outcome is durable: other units may run their hooks before this outcome is sent (design 12)
            drop(lock.take());
        }
    }

    /// Requests a reboot of the machine if the request is due.
    async fn request_reboot(&self, now: &Now, requests: &mut RequestTimes) {
        match requests.request(&now.boot, now.since_boot_ms) {
            RequestDue::First => tracing::info!("requesting a reboot of the machine"),
            RequestDue::Again => {
                tracing::info!("the machine has not rebooted yet; requesting the reboot again")
            }
            RequestDue::NotYet => return,
        }
        self.charms.reboot(&now.boot).await;
    }

    /// Starts the process of a run at a closed gate, so that this and the sync of the run's start overlap. None if that
    /// is not possible; the process is then started with the run.
    async fn start_gated(&self, run: &Run) -> Option<GatedHook<H::Gated>> {
        if self.is_charm_missing() {
            return None;
        }
        let (declared, view) = (self.charms.declared()?, self.shared.view()?);
        let context = self.context(run, &declared, &view).ok()?;
        let process = self.charms.start_gated(run, &context).await?;
        Some(GatedHook { context, process })
    }

    /// The context of a run, or why it has none.
    fn context(&self, run: &Run, declared: &Charm, view: &Snapshot) -> Result<HookContext, NoContext> {
        let id_suffix = format!("{:032x}", self.shared.clock.random_uuid().0);
        let script = match &run.operation {
            Operation::Commands(request) => self.commands.script(request),
            Operation::Hook(_)
            | Operation::InstallCharm(_)
            | Operation::Action { .. }
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Resync
            | Operation::SetDead => None,
        };
        let input = ContextInput {
            declared,
            id_suffix: &id_suffix,
            is_leader: self.shared.is_leader(),
            device: self.charms.device(&view.unit.address),
            commands: script.as_deref(),
            message_text: api::text::status_message::describe,
        };
        hook_context_builder::build(&self.shared.local(), view, run, &input)
    }

    /// Performs the operation of a run that was saved as started, and saves its outcome.
    async fn run_operation(&self, run: &Run, gated: Option<GatedHook<H::Gated>>) -> Result<(), DiskError> {
        tracing::debug!("started");
        let started_ms = self.shared.clock.since_boot_ms();
        self.shared.volatile.borrow_mut().no_run_process = false;
        let result = match &run.operation {
            Operation::InstallCharm(charm) => {
                let exit = match self.install_charm(charm).await {
                    Ok(()) => RunExit::Code(0),
                    Err(reason) => RunExit::Failed(reason.into()),
                };
                HookResult::without_writes(exit)
            }
            Operation::Hook(_)
            | Operation::Action { .. }
            | Operation::Commands(_)
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Resync
            | Operation::SetDead => self.run_charm(run, gated).await,
        };
        self.save_outcome(run, result, started_ms).await
    }

    /// Runs the charm's program for a run. `gated` is its process, if it was started.
    async fn run_charm(&self, run: &Run, gated: Option<GatedHook<H::Gated>>) -> HookResult {
        let shared = &self.shared;
        let failed = |reason: FailureReason| HookResult::without_writes(RunExit::Failed(reason));
        // A process at its gate was started in the folder of the charm. Nothing is fetched here, because the hook lock is
        // held.
        if gated.is_none() && self.is_charm_missing() {
            return match self.charm_error.take() {
                Some(reason) => failed(reason),
                None => HookResult::without_writes(RunExit::with_lost_charm(&run.operation)),
            };
        }
        // 1. A hook is started with a cached view.
        // 2. The agent attaches to a store of another generation, and the view is dropped.
        let Some(view) = shared.view() else {
            return HookResult::without_writes(RunExit::without_view(&run.operation));
        };
        if hook_context_builder::is_cancelled(&view, &run.operation) {
            return HookResult::without_writes(RunExit::Cancelled);
        }
        let (context, process) = match (gated, self.charms.declared()) {
            (Some(GatedHook { context, process }), _) => (context, Some(process)),
            (None, None) => return failed(FailureReason::CharmMissing),
            (None, Some(declared)) => match self.context(run, &declared, &view) {
                Ok(context) => (context, None),
                Err(reason) => return HookResult::without_writes(reason.into()),
            },
        };
        shared.set_executing(run);
        self.until_finished(run, self.charms.run(run, context, process, shared)).await
    }

    /// Waits until a run has finished, and ends its processes if a user cancels it meanwhile.
    async fn until_finished<T>(&self, run: &Run, running: impl Future<Output = T>) -> T {
        let mut running = pin!(running);
        let cancelled = self.shared.wait_for_volatile(|volatile| {
            let view = volatile.view.as_deref()?;
            hook_context_builder::is_aborted(view, &run.operation).then_some(())
        });
        tokio::select! {
            biased;
            result = &mut running => return result,
            () = cancelled => {}
        }
        tracing::info!("cancelled: its processes are being ended");
        let has_finished = Cell::new(false);
        let running = async {
            let result = running.await;
            has_finished.set(true);
            result
        };
        tokio::join!(running, self.charms.stop(run, &has_finished)).0
    }

    /// Continues a run that an earlier agent started, or records that neither its process nor its outcome exists.
    async fn reattach(&self, run: &Run) -> Result<(), DiskError> {
        let shared = &self.shared;
        let started_ms = shared.clock.since_boot_ms();
        shared.set_executing(run);
        let result = match run.operation.runs_charm() {
            true => self.until_finished(run, self.charms.reattach(run, shared)).await,
            false => None,
        };
        match result {
            Some(result) => {
                tracing::info!("re-attached to a run of an earlier agent");
                self.save_outcome(run, result, started_ms).await
            }
            None => {
                tracing::info!("started by an earlier agent, and neither a process nor an outcome is left");
                shared.volatile.borrow_mut().no_run_process = true;
                shared.clear_executing();
                Ok(())
            }
        }
    }

    /// Saves the outcome and all its effects as one record.
    async fn save_outcome(&self, run: &Run, result: HookResult, started_ms: u64) -> Result<(), DiskError> {
        let shared = &self.shared;
        let (now, exit) = (shared.now(), outcome::counted_exit(&shared.local(), run, &result));
        if exit != result.exit {
            tracing::warn!("a program of the charm was deleted while the hook ran: it runs again");
        }
        let duration_ms = now.since_boot_ms.saturating_sub(started_ms);
        shared
            .save_with(|local| {
                if local.started_run().is_none_or(|started| started.number != run.number) {
                    // the stored state was replaced by a replica that already has the outcome of this run
                    return Vec::new();
                }
                let volatile = shared.volatile.borrow();
                let pending_reports = &volatile.pending_reports;
                let finished = FinishedRun { run, result, pending_reports, texts: RUN_TEXTS };
                outcome::events(local, volatile.view.as_deref(), &now, finished)
            })
            .await?;
        let local = shared.local();
        if let Operation::Commands(request) = &run.operation {
            self.commands.answer(request, &exit, run.number, local.awaited());
        }
        let record = local.outbox.last().filter(|record| record.run == run.number);
        run_log::finished(&exit, duration_ms, record.map(|record| record.sequence));
        // a run without an outcome was interrupted: `next` finds it started and its process missing, and starts it again,
        // or records an action or commands as failed
        shared.volatile.borrow_mut().no_run_process = true;
        shared.clear_executing();
        Ok(())
    }

    /// Fetches and installs the charm. Retries until the controller answers, because an outage is not a failure
    /// of the charm.
    async fn install_charm(&self, charm: &CharmRef) -> Result<(), String> {
        let mut backoff = LINK_BACKOFF;
        loop {
            if let Some(installed) = self.try_install(charm).await {
                self.charm_error.clear();
                return installed;
            }
            self.shared.pause(&mut backoff).await;
        }
    }

    /// Fetches and installs the charm once. None if the controller does not answer.
    async fn try_install(&self, charm: &CharmRef) -> Option<Result<(), String>> {
        if self.charms.is_installed(charm).await {
            return Some(Ok(()));
        }
        let sha256 = charm.sha256.clone();
        match self.shared.api.handle(FetchArchive { sha256 }).await {
            Ok(archive) => {
                self.shared.record_success(Channel::Fetch);
                Some(self.charms.install(charm, archive.0).await)
            }
            Err(error) if error.is_transient() => {
                self.shared.record_failure(Channel::Fetch, &error);
                None
            }
            Err(error) => Some(Err(full_text(&error, self.shared.clock.wall_ms()))),
        }
    }

    /// Fetches and installs a charm that was lost, before the hook lock is acquired. If the controller does not answer,
    /// waits for a delay or a change, after which `next` decides again. If the charm cannot be had, the next run fails.
    async fn restore_charm(&self, charm: &CharmRef, backoff: &mut Backoff) {
        let shared = &self.shared;
        match self.try_install(charm).await {
            Some(installed) => {
                backoff.reset();
                let is_missing = || self.is_charm_missing().then_some(FailureReason::CharmMissing);
                self.charm_error.set(installed.map_or_else(|why| Some(why.into()), |()| is_missing()));
            }
            None => {
                let delay_ms = jittered_delay_ms(backoff, &shared.clock);
                shared.wait_for_change(Some(shared.clock.since_boot_ms() + delay_ms)).await;
                backoff.increase();
            }
        }
    }
}
