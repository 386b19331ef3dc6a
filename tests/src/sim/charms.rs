//! Simulated charms: the hook processes of one unit and the charm's folder.
//!
//! A hook runs a seeded script over the production hook tools. It is a process of its own: it either outlives its
//! agent or dies with it, holds the machine's hook lock, and is re-attached by the next agent from the recorded
//! tool calls.

pub mod hook_process;

use crate::sim::disk::FolderLocation;
use crate::sim::fact::Fact;
use crate::sim::mutants::Mutant;
use crate::sim::script;
use crate::sim::world::{Command, World};
use agent::ports::{CharmHost, HookHost};
use commands::{CallOutcome, Inputs, Need, ResourceRequest, SecretAnswer, ToolReply};
use hook_process::{HookProcess, ServingGuard};
use state::charm::Charm;
use state::terms::names::Uuid;
use state::terms::operation::CharmRef;
use state::terms::position::Position;
use state::terms::run_lock::RunLock;
use state::terms::settings::Bag;
use state::unit::hook_context::{HookContext, Reboot};
use state::unit::local::Run;
use state::unit::outcome::{HookResult, RunExit};
use state::unit::record::RunReport;
use state::unit::relation_view::BagRequest;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::sync::OwnedMutexGuard;

/// A tool call as the agent recorded it.
#[derive(Clone)]
struct RecordedCall {
    tool: String,
    args: Vec<String>,
    leads: bool,
    secret: Option<Result<SecretAnswer, String>>,
    resource: Option<Result<String, String>>,
    reply: ToolReply,
}

#[derive(Default)]
struct State {
    charm: Option<(String, Arc<Charm>)>,
    lock: Weak<OwnedMutexGuard<()>>,
    process: Option<Arc<HookProcess>>,
    context: Option<HookContext>,
    calls: Vec<RecordedCall>,
    /// The digests of the files of resources.
    resources: BTreeMap<String, String>,
    /// Whether every hook fails.
    fails: bool,
}

/// The process of a hook at its closed gate: all that it does is to hold the machine's hook lock.
pub struct GatedProcess {
    _lock: Option<Arc<OwnedMutexGuard<()>>>,
}

/// The charm folder of one unit, and the processes of its hooks.
#[derive(Clone)]
pub struct SimCharms {
    world: World,
    location: FolderLocation,
    state: Arc<Mutex<State>>,
}

impl SimCharms {
    pub fn new(world: World, location: FolderLocation) -> SimCharms {
        SimCharms { world, location, state: Arc::default() }
    }

    /// The same charm in another folder. Running processes are not copied.
    pub fn copy(&self, folder: Uuid) -> SimCharms {
        let state = State { charm: self.state().charm.clone(), ..State::default() };
        let location = FolderLocation { folder, ..self.location.clone() };
        SimCharms { world: self.world.clone(), location, state: Arc::new(Mutex::new(state)) }
    }

    /// Sets whether every hook that starts from now on fails, or only those that fail by the profile.
    pub fn fail(&self, fails: bool) {
        self.state().fails = fails;
    }

    /// Deletes the folder and kills the process of its hook.
    pub fn delete(&self) {
        self.kill_process();
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// Kills the process of the hook, as a crash of the machine does.
    pub fn kill_process(&self) {
        let process = self.state().process.clone();
        if let Some(process) = process.filter(|process| process.is_alive()) {
            process.kill(self.world.profile().has(Mutant::LockOutlivesHook));
            self.world.note(Fact::HookEnded { folder: self.location.folder, run: process.run });
        }
    }

    /// Kills the process of the hook together with its agent, if the profile lets processes die with their agents.
    pub fn kill_with_agent(&self) {
        if self.world.draws_fault(self.world.profile().process_dies) {
            self.kill_process();
        }
    }

    /// Stores a fetched bag where the next agent finds it, then adds it to the context.
    fn store_fetched(&self, context: &mut HookContext, request: &BagRequest, values: Option<Bag>) {
        if let Some(stored) = &mut self.state().context {
            stored.insert_bag(request, values.clone());
        }
        context.insert_bag(request, values);
    }

    /// The path of a resource's file, which is fetched unless it is on the disk.
    async fn provide_resource(
        &self,
        need: &ResourceRequest,
        hook_host: &impl HookHost,
    ) -> Result<String, String> {
        if self.state().resources.get(&need.name) != Some(&need.sha256) {
            let content = hook_host.fetch_resource(need).await?;
            if host::digest::sha256(&content) != need.sha256 {
                return Err("the file has another digest".to_owned());
            }
            self.state().resources.insert(need.name.clone(), need.sha256.clone());
        }
        Ok(format!("resources/{}/{}", need.name, need.filename))
    }

    /// Serves the calls of the process until it ends.
    async fn serve(
        &self,
        process: Arc<HookProcess>,
        mut context: HookContext,
        mut reports: Vec<RunReport>,
        hook_host: &impl HookHost,
    ) -> HookResult {
        let _serving = ServingGuard::new(&process);
        let mut fetched: Vec<BagRequest> = Vec::new();
        loop {
            let changed = process.changed.notified();
            let (request, exit) = {
                let exchange = process.exchange();
                (
                    exchange.request.clone(),
                    exchange.exit.clone().or(exchange.killed.then_some(RunExit::Signal(9))),
                )
            };
            if let Some(exit) = exit {
                let exit = match exit {
                    // the agent kills the hook, which may exit by itself before that
                    _ if context.writes.reboot == Some(Reboot::Now) => RunExit::Interrupted,
                    RunExit::Code(_) if self.world.profile().has(Mutant::FailedHookPublishes) => {
                        RunExit::Code(0)
                    }
                    exit => exit,
                };
                return HookResult { writes: context.writes, reports, ..HookResult::without_writes(exit) };
            }
            if context.writes.reboot == Some(Reboot::Now) {
                self.kill_process();
                continue;
            }
            let Some((number, tool, args)) = request else {
                changed.await;
                continue;
            };
            let recorded = self.state().calls.get(number).cloned();
            let reply = match recorded {
                // an earlier agent answered the call and died before its reply arrived
                Some(recorded) => recorded.reply,
                None => {
                    let leads = hook_host.is_leader();
                    if leads {
                        self.world.note(Fact::LeadershipPromised { unit: self.location.unit });
                    }
                    let mut inputs = Inputs::default();
                    let reply = loop {
                        let request = match call(&mut context, leads, &tool, &args, &inputs) {
                            Ok(reply) => break reply,
                            Err(Need::Bag(request)) => request,
                            Err(Need::LeaderSettings(change)) => {
                                let call = u32::try_from(number + 1).expect("scripts are short");
                                let write = hook_host.write_leader_settings(process.run, call, &change);
                                inputs.leader_write = Some(write.await);
                                continue;
                            }
                            Err(Need::Secret(need)) => {
                                inputs.secret = Some(hook_host.request_secret(&need).await);
                                continue;
                            }
                            Err(Need::Resource(need)) => {
                                inputs.resource = Some(self.provide_resource(&need, hook_host).await);
                                continue;
                            }
                            Err(need) => panic!("no script gives a tool a file: {need:?}"),
                        };
                        match hook_host.fetch_bag(&request).await {
                            Ok(values) => self.store_fetched(&mut context, &request, values),
                            Err(why) => break ToolReply::error(1, &why),
                        }
                        fetched.push(request);
                    };
                    let reports = number_reports(&self.world, &reply, &mut reports);
                    reports.iter().for_each(|report| hook_host.report(report));
                    if self.world.profile().has(Mutant::FetchesAgain) {
                        for relation in context.relations.values_mut() {
                            let again = fetched
                                .iter()
                                .filter(|request| request.relation == relation.omitted.relation);
                            relation.omitted.bags.extend(again.map(|request| request.owner.clone()));
                            relation.omitted.position = Position::default();
                        }
                    }
                    self.state().calls.push(RecordedCall {
                        tool,
                        args,
                        leads,
                        secret: inputs.secret,
                        resource: inputs.resource,
                        reply: reply.clone(),
                    });
                    if self.world.profile().has(Mutant::ContextMoves) {
                        let bags =
                            context.relations.values_mut().flat_map(|relation| relation.unit_bags.iter_mut());
                        bags.filter(|(owner, _)| **owner != self.location.name)
                            .for_each(|(_, bag)| drop(bag.insert("moved".to_owned(), number.to_string())));
                    }
                    reply
                }
            };
            self.world.pause().await;
            let mut exchange = process.exchange();
            if exchange.request.as_ref().is_some_and(|(request, ..)| *request == number) {
                exchange.request = None;
                exchange.reply = Some(reply);
                drop(exchange);
                process.changed.notify_waiters();
            }
        }
    }
}

/// Executes a tool call with the answers of the controller that it needs (`inputs`). `Err`: the request that
/// the controller must answer first.
fn call(
    context: &mut HookContext,
    leads: bool,
    tool: &str,
    args: &[String],
    inputs: &Inputs,
) -> Result<ToolReply, Need> {
    context.restrict_leadership(leads);
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_bytes()).collect();
    match commands::call(context, tool, &args, inputs) {
        CallOutcome::Reply(reply) => Ok(reply),
        CallOutcome::Need(need) => Err(need),
    }
}

/// Numbers the reports of a call within their run, as the agent does.
fn number_reports(world: &World, reply: &ToolReply, reports: &mut Vec<RunReport>) -> Vec<RunReport> {
    let (at_ms, last) = (world.wall_ms(), reports.last().map_or(0, |report| report.number));
    let new: Vec<RunReport> = reply
        .reports
        .iter()
        .zip(last + 1..)
        .map(|(what, number)| RunReport { number, at_ms, what: what.clone() })
        .collect();
    reports.extend(new.clone());
    new
}

impl CharmHost for SimCharms {
    type Lock = Arc<OwnedMutexGuard<()>>;

    async fn lock(&self, lock: &RunLock) -> Self::Lock {
        self.world.pause().await;
        let lock = self.location.machine.run_lock(lock);
        let lock = Arc::new(lock.lock_owned().await);
        self.state().lock = Arc::downgrade(&lock);
        lock
    }

    fn declared(&self) -> Option<Arc<Charm>> {
        self.state().charm.as_ref().map(|(_, charm)| charm.clone())
    }

    async fn install(&self, charm: &CharmRef, archive: Vec<u8>) -> Result<(), String> {
        self.world.pause().await;
        if self.location.machine.is_full(self.world.now_ms()) {
            return Err("no space left on device".to_owned());
        }
        let declared = serde_json::from_slice(&archive).map_err(|error| error.to_string())?;
        self.state().charm = Some((charm.sha256.clone(), Arc::new(declared)));
        self.world.pause().await;
        Ok(())
    }

    async fn is_installed(&self, charm: &CharmRef) -> bool {
        self.state().charm.as_ref().is_some_and(|(sha256, _)| *sha256 == charm.sha256)
    }

    type Gated = GatedProcess;

    async fn start_gated(&self, run: &Run, context: &HookContext) -> Option<GatedProcess> {
        self.world.pause().await;
        let gated = GatedProcess { _lock: self.state().lock.upgrade() };
        if self.world.profile().has(Mutant::GateIsOpen) && !script::is_missing(context) {
            self.world.note(Fact::HookStarted {
                folder: self.location.folder,
                run: run.number,
                locked: true,
            });
            self.world.note(Fact::HookEnded { folder: self.location.folder, run: run.number });
        }
        Some(gated)
    }

    async fn run(
        &self,
        run: &Run,
        context: HookContext,
        _gated: Option<GatedProcess>,
        hook_host: &impl HookHost,
    ) -> HookResult {
        self.world.pause().await;
        self.world.trace(|| {
            format!(
                "{}: hook {}: {} (run {})",
                self.location.name,
                context.trigger.hook_name(),
                run.operation,
                run.number
            )
        });
        if script::is_missing(&context) {
            return HookResult::without_writes(RunExit::Missing);
        }
        let process = Arc::new(HookProcess::new(self.world.clone(), self.location.folder, run.number));
        let (lock, fails) = {
            let mut state = self.state();
            state.process = Some(process.clone());
            state.context = Some(context.clone());
            state.calls.clear();
            (state.lock.upgrade(), state.fails)
        };
        let inherits = !self.world.profile().has(Mutant::OrphanedRunIsIgnored);
        self.world.note(Fact::HookStarted {
            folder: self.location.folder,
            run: run.number,
            locked: lock.is_some(),
        });
        for id in context.storage.keys() {
            let (unit, id) = (self.location.unit, id.clone());
            let instance = self.location.machine.storage_of(unit, &id);
            self.world.note(Fact::HookFoundStorage { unit, run: run.number, id, instance });
        }
        process.exchange().lock = lock.filter(|_| inherits);
        let (world, of, hook) = (self.world.clone(), process.clone(), context.clone());
        let folder = self.location.folder;
        self.world.spawn_process(async move {
            let (exit, counted) = match fails {
                true => (RunExit::Code(1), None),
                false => script::run(&world, &of, &hook).await,
            };
            if !of.is_killed() {
                let run = of.run;
                world.note(Fact::HookEnded { folder, run });
                world.note(Fact::HookExited { folder, run, ok: exit == RunExit::Code(0), counted });
                let mut exchange = of.exchange();
                exchange.exit = Some(exit);
                let lock = exchange.lock.take();
                drop(exchange);
                drop(lock);
                of.changed.notify_waiters();
            }
        });
        self.serve(process, context, Vec::new(), hook_host).await
    }

    async fn reattach(&self, run: &Run, hook_host: &impl HookHost) -> Option<HookResult> {
        self.world.pause().await;
        let (process, context, calls) = {
            let state = self.state();
            (state.process.clone(), state.context.clone(), state.calls.clone())
        };
        if self.world.profile().has(Mutant::OrphanedRunIsIgnored) {
            return None;
        }
        let process = process.filter(|process| process.run == run.number)?;
        if process.is_killed() || (!process.is_alive() && self.world.draws_fault(300)) {
            return None; // the process was killed, or ended before its exit status was recorded
        }
        let (mut context, mut reports_so_far) = (context?, Vec::new());
        for recorded in &calls {
            // a call whose bag could not be fetched fails again
            let written = if recorded.reply.code == 0 { Ok(()) } else { Err(String::new()) };
            let (secret, resource) = (recorded.secret.clone(), recorded.resource.clone());
            let inputs = Inputs { leader_write: Some(written), secret, resource, ..Inputs::default() };
            call(&mut context, recorded.leads, &recorded.tool, &recorded.args, &inputs).ok();
            let reports = number_reports(&self.world, &recorded.reply, &mut reports_so_far);
            reports.iter().for_each(|report| hook_host.report(report));
        }
        self.world.trace(|| format!("{}: re-attaches run {}", self.location.name, run.number));
        Some(self.serve(process, context, reports_so_far, hook_host).await)
    }

    async fn stop(&self, _: &Run, _: &Cell<bool>) {
        self.kill_process();
    }

    async fn reboot(&self, _boot: &str) {
        self.world.pause().await;
        self.world.command(Command::Reboot(self.location.machine.id));
    }
}
