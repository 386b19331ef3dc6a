//! Simulated charms: the hook processes of one unit and the charm's folder.
//!
//! A hook runs a seeded script over the production hook tools. It is a process of its own: it either outlives its
//! agent or dies with it, holds the machine's hook lock, and is re-attached by the next agent from the recorded
//! tool calls.

use crate::sim::checks::Fact;
use crate::sim::disk::FolderLocation;
use crate::sim::mutants::Mutant;
use crate::sim::script;
use crate::sim::world::{Command, World};
use agent::ports::{Charms, HookResult, HookHost};
use commands::{CallOutcome, Inputs, Need, ToolReply};
use hook_client::reconnect::WAIT_MAX_MS;
use state::charm::Charm;
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::terms::settings::Bag;
use state::unit::hook::{HookContext, Reboot};
use state::unit::local::Run;
use state::unit::operation::CharmRef;
use state::unit::outcome::Exit;
use state::unit::record::Said;
use state::unit::snapshot::BagRequest;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::sync::{Notify, OwnedMutexGuard};

/// One tool call as the agent wrote it down.
#[derive(Clone)]
struct RecordedCall {
    tool: String,
    args: Vec<String>,
    leads: bool,
    reply: ToolReply,
}

#[derive(Default)]
struct ToolExchange {
    /// The call that waits for its answer, and how many there were before.
    asked: Option<(usize, String, Vec<String>)>,
    calls: usize,
    answer: Option<ToolReply>,
    /// Agents that answer: at most one.
    serving: u32,
    exit: Option<Exit>,
    killed: bool,
    /// The machine's hook lock, for as long as the process lives.
    lock: Option<Arc<OwnedMutexGuard<()>>>,
}

/// A hook's process.
pub struct HookProcess {
    world: World,
    pub folder: Uuid,
    pub run: u64,
    exchange: Mutex<ToolExchange>,
    changed: Notify,
}

impl HookProcess {
    fn exchange(&self) -> MutexGuard<'_, ToolExchange> {
        self.exchange.lock().expect("one thread")
    }

    /// Calls a tool. None: killed, or no agent answered for as long as a tool tries.
    pub async fn call(&self, tool: &str, args: &[&str]) -> Option<ToolReply> {
        {
            let mut exchange = self.exchange();
            let args = args.iter().map(|arg| arg.to_string()).collect();
            exchange.asked = Some((exchange.calls, tool.to_owned(), args));
            exchange.calls += 1;
        }
        self.changed.notify_waiters();
        loop {
            let changed = self.changed.notified();
            {
                let mut exchange = self.exchange();
                if exchange.killed {
                    return None;
                }
                if let Some(answer) = exchange.answer.take() {
                    return Some(answer);
                }
            }
            let tried = self.world.sleep(u64::from(WAIT_MAX_MS));
            tokio::select! {
                biased;
                () = changed => {}
                () = tried => if self.exchange().serving == 0 {
                    return None;
                }
            }
        }
    }

    pub fn is_killed(&self) -> bool {
        self.exchange().killed
    }

    fn is_alive(&self) -> bool {
        let exchange = self.exchange();
        exchange.exit.is_none() && !exchange.killed
    }

    /// `keeps_lock`: a planted fault; the lock is taken for ever.
    fn kill(&self, keeps_lock: bool) {
        let mut exchange = self.exchange();
        exchange.killed = true;
        let lock = exchange.lock.take();
        drop(exchange);
        if keeps_lock {
            std::mem::forget(lock);
        }
        self.changed.notify_waiters();
    }
}

#[derive(Default)]
struct State {
    charm: Option<(String, Arc<Charm>)>,
    lock: Weak<OwnedMutexGuard<()>>,
    process: Option<Arc<HookProcess>>,
    context: Option<HookContext>,
    calls: Vec<RecordedCall>,
    /// Every hook fails.
    fails: bool,
}

/// The charm's folder of one unit, and its processes.
#[derive(Clone)]
pub struct SimCharms {
    world: World,
    at: FolderLocation,
    state: Arc<Mutex<State>>,
}

impl SimCharms {
    pub fn new(world: World, at: FolderLocation) -> SimCharms {
        SimCharms { world, at, state: Arc::default() }
    }

    /// The same charm in another folder; what runs is not copied.
    pub fn copy(&self, folder: Uuid) -> SimCharms {
        let state = State { charm: self.state().charm.clone(), ..State::default() };
        let at = FolderLocation { folder, ..self.at.clone() };
        SimCharms { world: self.world.clone(), at, state: Arc::new(Mutex::new(state)) }
    }

    /// Every hook that begins from here on fails, or no more than chance has it.
    pub fn fail(&self, fails: bool) {
        self.state().fails = fails;
    }

    /// The folder is gone, and what ran in it.
    pub fn delete(&self) {
        self.kill_process();
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// What a crash of the machine, or a process that was in its agent's group, does to the hook.
    pub fn kill_process(&self) {
        let process = self.state().process.clone();
        if let Some(process) = process.filter(|process| process.is_alive()) {
            process.kill(self.world.mix().has(Mutant::LockOutlivesHook));
            self.world.note(Fact::HookEnded { folder: self.at.folder, run: process.run });
        }
    }

    pub fn kill_with_agent(&self) {
        if self.world.draws_fault(self.world.mix().process_dies) {
            self.kill_process();
        }
    }

    /// What was fetched is written down where a successor finds it, then used.
    fn store_fetched(&self, context: &mut HookContext, asked: &BagRequest, values: Option<Bag>) {
        if let Some(kept) = &mut self.state().context {
            kept.insert_bag(asked, values.clone());
        }
        context.insert_bag(asked, values);
    }

    /// Answers the process until it ends.
    async fn serve(
        &self,
        process: Arc<HookProcess>,
        mut context: HookContext,
        mut said: Vec<Said>,
        hook_host: &impl HookHost,
    ) -> HookResult {
        let _serving = ServingGuard::new(&process);
        let mut fetched: Vec<BagRequest> = Vec::new();
        loop {
            let changed = process.changed.notified();
            let (asked, exit) = {
                let exchange = process.exchange();
                (exchange.asked.clone(), exchange.exit.clone().or(exchange.killed.then_some(Exit::Signal(9))))
            };
            if let Some(exit) = exit {
                let exit = match exit {
                    // as the agent's end of it, which a hook may forestall
                    _ if context.writes.reboot == Some(Reboot::Now) => Exit::Interrupted,
                    Exit::Code(_) if self.world.mix().has(Mutant::FailedHookPublishes) => Exit::Code(0),
                    exit => exit,
                };
                return HookResult { exit, writes: context.writes, reports: said };
            }
            if context.writes.reboot == Some(Reboot::Now) {
                self.kill_process();
                continue;
            }
            let Some((number, tool, args)) = asked else {
                changed.await;
                continue;
            };
            let kept = self.state().calls.get(number).cloned();
            let reply = match kept {
                // answered by an agent that died before its answer arrived
                Some(kept) => kept.reply,
                None => {
                    let leads = hook_host.is_leader();
                    if leads {
                        self.world.note(Fact::LeadershipPromised { unit: self.at.unit });
                    }
                    let reply = loop {
                        let asked = match call(&mut context, leads, &tool, &args) {
                            Ok(reply) => break reply,
                            Err(asked) => asked,
                        };
                        match hook_host.fetch_bag(&asked).await {
                            Ok(values) => self.store_fetched(&mut context, &asked, values),
                            Err(why) => break ToolReply::error(1, &why),
                        }
                        fetched.push(asked);
                    };
                    let said = remember(&self.world, number, &reply, &mut said);
                    said.iter().for_each(|said| hook_host.report(said));
                    if self.world.mix().has(Mutant::FetchesAgain) {
                        for relation in context.relations.values_mut() {
                            let again =
                                fetched.iter().filter(|asked| asked.relation == relation.omitted.relation);
                            relation.omitted.bags.extend(again.map(|asked| asked.owner.clone()));
                            relation.omitted.position = Position::default();
                        }
                    }
                    self.state().calls.push(RecordedCall { tool, args, leads, reply: reply.clone() });
                    if self.world.mix().has(Mutant::ContextMoves) {
                        let bags =
                            context.relations.values_mut().flat_map(|relation| relation.unit_bags.iter_mut());
                        bags.filter(|(owner, _)| **owner != self.at.name)
                            .for_each(|(_, bag)| drop(bag.insert("moved".to_owned(), number.to_string())));
                    }
                    reply
                }
            };
            self.world.pause().await;
            let mut exchange = process.exchange();
            if exchange.asked.as_ref().is_some_and(|(asked, ..)| *asked == number) {
                exchange.asked = None;
                exchange.answer = Some(reply);
                drop(exchange);
                process.changed.notify_waiters();
            }
        }
    }
}

/// An agent answers a process, as long as this is.
struct ServingGuard<'p>(&'p HookProcess);

impl ServingGuard<'_> {
    fn new(process: &HookProcess) -> ServingGuard<'_> {
        process.exchange().serving += 1;
        ServingGuard(process)
    }
}

impl Drop for ServingGuard<'_> {
    fn drop(&mut self) {
        self.0.exchange().serving -= 1;
    }
}

/// Err: the bag that is to be in the context first.
fn call(
    context: &mut HookContext,
    leads: bool,
    tool: &str,
    args: &[String],
) -> Result<ToolReply, BagRequest> {
    context.restrict_leadership(leads);
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_bytes()).collect();
    match commands::call(context, tool, &args, &Inputs::default()) {
        CallOutcome::Reply(reply) => Ok(reply),
        CallOutcome::Need(Need::Bag(asked)) => Err(asked),
        CallOutcome::Need(need) => panic!("no script gives a tool a file: {need:?}"),
    }
}

/// Numbers what the call said, as the agent does.
fn remember(world: &World, number: usize, reply: &ToolReply, said: &mut Vec<Said>) -> Vec<Said> {
    let call = u32::try_from(number + 1).expect("scripts are short");
    let at_ms = world.wall_ms();
    let new: Vec<Said> = reply.reports.iter().map(|what| Said { call, at_ms, what: what.clone() }).collect();
    said.extend(new.clone());
    new
}

impl Charms for SimCharms {
    type Lock = Arc<OwnedMutexGuard<()>>;

    async fn lock(&self, parallel: bool) -> Self::Lock {
        self.world.pause().await;
        let lock = if parallel { Arc::default() } else { self.at.machine.hook_lock() };
        let lock = Arc::new(lock.lock_owned().await);
        self.state().lock = Arc::downgrade(&lock);
        lock
    }

    fn declared(&self) -> Option<Arc<Charm>> {
        self.state().charm.as_ref().map(|(_, charm)| charm.clone())
    }

    async fn deploy(&self, charm: &CharmRef, archive: Vec<u8>) -> Result<(), String> {
        self.world.pause().await;
        if self.is_deployed(charm).await {
            return Ok(());
        }
        if self.at.machine.is_full(self.world.now_ms()) {
            return Err("no space is left on the device".to_owned());
        }
        let declared = serde_json::from_slice(&archive).map_err(|error| error.to_string())?;
        self.state().charm = Some((charm.sha256.clone(), Arc::new(declared)));
        self.world.pause().await;
        Ok(())
    }

    async fn is_deployed(&self, charm: &CharmRef) -> bool {
        self.state().charm.as_ref().is_some_and(|(sha256, _)| *sha256 == charm.sha256)
    }

    async fn run(&self, run: &Run, context: HookContext, hook_host: &impl HookHost) -> HookResult {
        self.world.pause().await;
        self.world.trace(|| {
            format!("{}: hook {}: {} (run {})", self.at.name, context.cause.hook(), run.operation, run.number)
        });
        if script::is_missing(&context) {
            return HookResult { exit: Exit::Missing, writes: Default::default(), reports: Vec::new() };
        }
        let process = Arc::new(HookProcess {
            world: self.world.clone(),
            folder: self.at.folder,
            run: run.number,
            exchange: Mutex::default(),
            changed: Notify::new(),
        });
        let (lock, fails) = {
            let mut state = self.state();
            state.process = Some(process.clone());
            state.context = Some(context.clone());
            state.calls.clear();
            (state.lock.upgrade(), state.fails)
        };
        let inherits = !self.world.mix().has(Mutant::OrphanedRunIsIgnored);
        self.world.note(Fact::HookStarted {
            folder: self.at.folder,
            run: run.number,
            locked: lock.is_some(),
        });
        process.exchange().lock = lock.filter(|_| inherits);
        let (world, of, cause) = (self.world.clone(), process.clone(), context.clone());
        let folder = self.at.folder;
        self.world.spawn_process(async move {
            let (exit, counted) = match fails {
                true => (Exit::Code(1), None),
                false => script::run(&world, &of, &cause).await,
            };
            if !of.is_killed() {
                let run = of.run;
                world.note(Fact::HookEnded { folder, run });
                world.note(Fact::HookExited { folder, run, ok: exit == Exit::Code(0), counted });
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
        if self.world.mix().has(Mutant::OrphanedRunIsIgnored) {
            return None;
        }
        let process = process.filter(|process| process.run == run.number)?;
        if process.is_killed() || (!process.is_alive() && self.world.draws_fault(300)) {
            return None; // dead, and its exit was not written down
        }
        let (mut context, mut all) = (context?, Vec::new());
        for (number, kept) in calls.iter().enumerate() {
            // what it wanted and did not get made it fail
            call(&mut context, kept.leads, &kept.tool, &kept.args).ok();
            let said = remember(&self.world, number, &kept.reply, &mut all);
            said.iter().for_each(|said| hook_host.report(said));
        }
        self.world.trace(|| format!("{}: adopts run {}", self.at.name, run.number));
        Some(self.serve(process, context, all, hook_host).await)
    }

    async fn reboot(&self, _boot: &str) {
        self.world.pause().await;
        self.world.command(Command::Reboot(self.at.machine.id));
    }
}
