//! The environment of one unit in a scripted case: its disk, its agent's process, the controller, the clock, and
//! hooks that end as the case prescribes.
//!
//! [`World::look`] runs the agent until it waits. It follows the loop of `agent/src/unit_agent.rs`, but one step at a
//! time and always sending before it acts, so that a case has exactly one outcome. It must never decide by itself:
//! each step comes from `state::unit::resolve::next`, and each event from `state::unit::outcome::events`.
//!
//! Changed by the commands of [`super::command`]; its trace is what a case compares.

use super::controller::Controller;
use super::view;
use api::text::log::RUN_TEXTS;
use api::text::refusal;
use state::agents::reconciliation::{Reconciliation, reconcile};
use state::agents::session::GrantedSession;
use state::terms::commands::CommandsRequest;
use state::terms::failure_reason::FailureReason;
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::refusal::RefusalReason;
use state::terms::run_lock::HeldLock;
use state::terms::settings::Bag;
use state::unit::hook_context::Writes;
use state::unit::local::{Event, Local, Run};
use state::unit::outcome::{self, FinishedRun, HookResult, RunExit};
use state::unit::pending_reports::PendingReports;
use state::unit::record::{Outcome, Record};
use state::unit::relation_view::{BagRequest, BagView};
use state::unit::resolve::{self, Act, CharmOnDisk, NextMessage, Now, Wait};
use state::unit::retry;
use state::unit::snapshot::Snapshot;
use std::collections::BTreeMap;

/// No case needs more operations in one run of the agent. The bound detects a core that never waits.
const OPERATIONS_MAX: usize = 200;

/// How a run of a hook ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The hook ends, and the agent records this exit.
    RunExit(RunExit),
    /// The agent crashes while the hook runs.
    Crash,
}

/// The environment of one unit; see the module documentation.
pub struct World {
    /// The unit's state on disk.
    pub local: Local,
    /// The unit's view as the model is now.
    pub view: Snapshot,
    /// The view that the agent received last.
    pub agent_view: Option<Snapshot>,
    pub controller: Controller,
    /// Whether the agent reaches the controller.
    pub link: bool,
    /// The generation of the application's lease, if this unit holds it.
    pub lease: Option<u64>,
    /// Number of leases granted so far.
    pub leases: u64,
    /// Number of the machine's boot.
    pub boot: u32,
    /// Time since boot.
    pub clock_ms: u64,
    /// Wall-clock time since the epoch.
    pub wall_ms: i64,
    /// The agent's process; `None` if the agent is down.
    pub process: Option<Process>,
    /// How the runs of an operation end, by its text without `hook` or by the first words of it.
    pub run_ends: BTreeMap<String, RunEnd>,
    /// What the runs of an operation write, by the same key.
    pub writes: BTreeMap<String, Writes>,
    /// Commands that are performed once, while an operation runs.
    pub during: BTreeMap<String, Vec<String>>,
    /// The exit that the shim of an orphaned hook has stored for the next agent.
    pub orphan: Option<RunExit>,
    /// The commands that a process on the machine has requested.
    pub commands: Option<CommandsRequest>,
    /// How many commands were requested so far; the number is the id of the last ones.
    pub commands_requested: u128,
    /// Whether the charm is missing from its folder.
    pub charm_lost: bool,
    /// The refusal of the next record that may be refused.
    pub refusal: Option<RefusalReason>,
    /// The controller applies the next record, and the agent crashes before it receives the reply.
    pub reply_lost: bool,
    /// The agent crashes before the process of this operation starts, after it has stored the operation's start.
    pub crash_before_start: Option<String>,
    /// The agent crashes after it has stored the next change of its leadership.
    pub crash_after_event: bool,
    /// The controller and the disk at the last `save`, for the two `restore` commands.
    pub saved: Option<Box<(Controller, Local)>>,
    /// A hook runs: the agent observes a change when the hook has ended.
    running: bool,
    trace: Vec<String>,
    perform: Perform,
}

/// Performs the command of one line.
pub type Perform = fn(&mut World, &str) -> Result<(), String>;

/// Facts that are lost with the agent's process.
#[derive(Clone, Debug)]
pub struct Process {
    start_ms: u64,
    last_end_ms: u64,
    attached: bool,
    contact_ms: Option<u64>,
    no_run_process: bool,
    held_lock: HeldLock,
    stopped: bool,
}

impl World {
    /// `perform`: performs a command of a `during` line.
    pub fn new(perform: Perform) -> World {
        let local = Local::new(Uuid(2), view::unit_name());
        let controller = Controller::new(local.clone());
        let mut world = World {
            local,
            view: view::without_relations(),
            agent_view: None,
            controller,
            link: true,
            lease: None,
            leases: 0,
            boot: 1,
            clock_ms: 60_000,
            wall_ms: 1_000_000,
            process: None,
            run_ends: BTreeMap::new(),
            writes: BTreeMap::new(),
            during: BTreeMap::new(),
            orphan: None,
            commands: None,
            commands_requested: 0,
            charm_lost: false,
            refusal: None,
            reply_lost: false,
            crash_before_start: None,
            crash_after_event: false,
            saved: None,
            running: false,
            trace: Vec::new(),
            perform,
        };
        world.start();
        world
    }

    pub fn print(&mut self, line: impl Into<String>) {
        self.trace.push(line.into());
    }

    pub fn take_trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }

    /// Starts a new agent process, which reads the disk as it was written.
    pub fn start(&mut self) {
        let text = serde_yaml::to_string(&self.local).expect("the local state is serialisable");
        self.local = serde_yaml::from_str(&text).expect("the stored state is readable");
        // fetched bags are kept in memory only
        self.agent_view.iter_mut().chain([&mut self.view]).for_each(|view| view.fetched_bag = None);
        self.process = Some(Process {
            start_ms: self.clock_ms,
            last_end_ms: self.clock_ms,
            attached: false,
            contact_ms: None,
            no_run_process: false,
            held_lock: HeldLock::None,
            stopped: false,
        });
    }

    /// Advances the clock by `ms`; the agent runs whenever a timer of it expires.
    pub fn pass(&mut self, ms: u64) {
        let end = self.clock_ms + ms;
        while let Some(timer_ms) =
            self.run_until_waiting().and_then(|wait| wait.until_ms).filter(|ms| *ms <= end)
        {
            self.set_clock(timer_ms);
        }
        self.set_clock(end);
    }

    pub fn set_clock(&mut self, ms: u64) {
        self.wall_ms += i64::try_from(ms - self.clock_ms).expect("the time of a case fits an i64");
        self.clock_ms = ms;
    }

    fn now(&self, process: &Process) -> Now {
        let contact_ms = if self.link && process.attached { Some(self.clock_ms) } else { process.contact_ms };
        Now {
            boot: format!("boot-{}", self.boot),
            since_boot_ms: self.clock_ms,
            agent_start_ms: process.start_ms,
            wall_ms: self.wall_ms,
            held_lock: process.held_lock.clone(),
            no_run_process: process.no_run_process,
            attached: process.attached,
            link_age_ms: contact_ms.map(|contact_ms| self.clock_ms - contact_ms),
            leader_generation: self.lease.filter(|_| process.attached),
            is_leader_known: true,
            idle_ms: self.clock_ms - process.last_end_ms,
            charm: match self.charm_lost && self.local.charm.is_some() {
                true => CharmOnDisk::Missing,
                false => CharmOnDisk::Complete,
            },
            commands: self.commands.clone(),
        }
    }

    /// Runs the agent until it waits, and returns its wait. Returns `None` if the agent is down or finished.
    pub fn run_until_waiting(&mut self) -> Option<Wait> {
        if self.running {
            return None;
        }
        for _ in 0..OPERATIONS_MAX {
            let mut process = self.process.clone().filter(|process| !process.stopped)?;
            let now = self.now(&process);
            process.contact_ms = now.link_age_ms.map(|age| self.clock_ms - age);
            self.process = Some(process.clone());
            if self.link && process.attached {
                self.agent_view = Some(self.view.clone());
            }
            let next = resolve::next(&self.local, self.agent_view.as_ref(), &now);
            assert_eq!(
                next,
                resolve::next(&self.local, self.agent_view.as_ref(), &now),
                "next is deterministic"
            );
            if self.link && next.send != NextMessage::Nothing {
                self.send(&next.send, &now);
                continue;
            }
            match next.act {
                Act::Finish => {
                    self.print("finished");
                    process.stopped = true;
                    self.process = Some(process);
                }
                Act::Reattach(run) => self.reattach(&run),
                Act::AcquireLock(lock) => {
                    assert_eq!(now.held_lock, HeldLock::None, "a lock is requested once");
                    process.held_lock = HeldLock::One(lock);
                    self.process = Some(process);
                }
                Act::FetchBag(request) => {
                    process.held_lock = HeldLock::None;
                    self.process = Some(process);
                    let causes = vec![resolve::fetch_cause(&self.local.name, &request)];
                    if !self.link {
                        return Some(Wait { until_ms: None, causes });
                    }
                    self.print(format!("fetch {}", request.owner));
                    self.fetch(request);
                }
                Act::FetchCharm(charm) => {
                    process.held_lock = HeldLock::None;
                    self.process = Some(process);
                    let causes = vec![resolve::fetch_charm_cause(&self.local.name, &charm)];
                    if !self.link {
                        return Some(Wait { until_ms: None, causes });
                    }
                    self.print(format!("fetch {}", charm.url));
                    self.charm_lost = false;
                }
                Act::Start(run) => {
                    assert!(!run.operation.runs_charm() || now.held_lock != HeldLock::None, "it has a lock");
                    self.start_run(run);
                }
                Act::RecordOutcome(record) => {
                    let verb = match &record.outcome {
                        Outcome::Ok | Outcome::Missing => "",
                        Outcome::Skipped => "skip ",
                        Outcome::Failed { .. } => "fail ",
                    };
                    self.print(format!("{verb}{}", record.operation));
                    self.local.apply(&Event::Finished(record));
                    self.mark_idle();
                }
                Act::ChangeLeadership(generation) => {
                    self.local.apply(&Event::LeadershipChanged(generation));
                    if std::mem::take(&mut self.crash_after_event) {
                        self.process = None;
                    }
                }
                Act::Reboot => {
                    process.held_lock = HeldLock::None;
                    self.process = Some(process);
                    return Some(Wait {
                        until_ms: None,
                        causes: vec![resolve::reboot_cause(&self.local.name, None)],
                    });
                }
                Act::Wait(wait) => {
                    process.held_lock = HeldLock::None;
                    self.process = Some(process);
                    self.compare_replica();
                    return Some(wait);
                }
            }
        }
        self.print(format!("still busy after {OPERATIONS_MAX} operations"));
        None
    }

    /// Stores the controller's reply: the bag as it is now.
    fn fetch(&mut self, request: BagRequest) {
        let relation = self.view.relations.values().find(|relation| relation.head.uuid == request.relation);
        let counter = relation.and_then(|relation| relation.bag(&request.owner)).map_or(0, |bag| bag.counter);
        self.view.keep_fetched(request, BagView::with_values(counter, Bag::new()));
    }

    fn start_run(&mut self, run: Run) {
        let text = run.operation.to_string();
        self.local.apply(&Event::Started(run.clone()));
        if matches!(run.operation, Operation::Commands(_)) {
            self.commands = None;
        }
        if let Some(process) = &mut self.process {
            process.no_run_process = false;
        }
        if self.crash_before_start.take_if(|name| named(&text, name)).is_some() {
            self.print("crash before it started");
            self.process = None;
            return;
        }
        let commands: Vec<String> = find(&self.during, &text).unwrap_or_default();
        self.during.retain(|name, _| !named(&text, name));
        self.running = true;
        for command in commands {
            (self.perform)(self, &command).expect("the command of a `during` line is valid");
        }
        self.running = false;
        // a run that uses the charm unpacks it again
        self.charm_lost = false;
        let needs_process = run.operation.runs_charm() || matches!(run.operation, Operation::InstallCharm(_));
        let default = match needs_process {
            true => RunExit::Code(0),
            // as in the agent: the operation has no program
            false => RunExit::Failed(FailureReason::Text("the operation has no program".to_owned())),
        };
        match find(&self.run_ends, &text).unwrap_or(RunEnd::RunExit(default)) {
            RunEnd::Crash => {
                self.print(format!("{text}: crash"));
                self.process = None;
            }
            RunEnd::RunExit(exit) => {
                let how = match &exit {
                    RunExit::Code(0) => String::new(),
                    RunExit::Code(code) => format!(": exit {code}"),
                    RunExit::Signal(signal) => format!(": signal {signal}"),
                    RunExit::Interrupted => ": interrupted".to_owned(),
                    RunExit::Missing => ": missing".to_owned(),
                    RunExit::Cancelled => ": cancelled".to_owned(),
                    RunExit::Failed(reason) => format!(": {}", refusal::failure(reason)),
                };
                self.print(format!("{text}{how}"));
                if exit == RunExit::Interrupted {
                    self.run_ends.retain(|name, _| !named(&text, name));
                }
                self.finish_run(&run, exit);
            }
        }
    }

    fn finish_run(&mut self, run: &Run, exit: RunExit) {
        let Some(process) = self.process.clone() else { return };
        let now = self.now(&process);
        let text = run.operation.to_string();
        let writes = find(&self.writes, &text).unwrap_or_default();
        // a hook requests a reboot once, or no other hook would ever run
        self.writes
            .iter_mut()
            .filter(|(name, _)| named(&text, name))
            .for_each(|(_, writes)| writes.reboot = None);
        let result = HookResult { writes, ..HookResult::without_writes(exit) };
        let ended =
            FinishedRun { run, result, pending_reports: &PendingReports::default(), texts: RUN_TEXTS };
        for event in outcome::events(&self.local, self.agent_view.as_ref(), &now, ended) {
            self.local.apply(&event);
        }
        if let Some(process) = &mut self.process {
            process.no_run_process = true;
        }
        self.mark_idle();
    }

    fn mark_idle(&mut self) {
        if let Some(process) = &mut self.process {
            process.last_end_ms = self.clock_ms;
            process.held_lock = HeldLock::None;
        }
    }

    fn reattach(&mut self, run: &Run) {
        match self.orphan.take().filter(|_| run.operation.runs_charm()) {
            Some(exit) => {
                self.print(format!("reattach {}", run.operation));
                self.finish_run(run, exit);
            }
            None => {
                if let Some(process) = &mut self.process {
                    process.no_run_process = true;
                }
                self.mark_idle();
            }
        }
    }

    fn send(&mut self, send: &NextMessage, now: &Now) {
        match send {
            NextMessage::Nothing => {}
            NextMessage::UnrecordedReport(run) => self.local.apply(&Event::ReportAcknowledged { run: *run }),
            NextMessage::Attach => self.attach(),
            NextMessage::Commit(sequence) => {
                let record = self.local.outbox.iter().find(|record| record.sequence == *sequence).cloned();
                self.commit(&record.expect("the core sends only records of the outbox"), now);
            }
        }
    }

    fn attach(&mut self) {
        self.controller.epoch += 1;
        let replica = &self.controller.replica;
        let session = GrantedSession {
            store_generation: self.controller.store_generation,
            epoch: self.controller.epoch,
            replica: (replica.sequence > 0).then(|| replica.clone()),
        };
        match reconcile(&self.local, &session, self.wall_ms) {
            Reconciliation::Continue(events) => {
                for event in &events {
                    if matches!(event, Event::ReplicaTaken { .. }) {
                        self.print("take the replica");
                    }
                    if let Event::Finished(record) = event {
                        self.print(record.operation.to_string());
                    }
                    self.local.apply(event);
                }
                if let Some(process) = &mut self.process {
                    process.attached = true;
                }
            }
            Reconciliation::Forked { sequence } => {
                self.print(format!("forked at record {sequence}"));
                self.process = None;
            }
        }
    }

    /// Sends a record to the controller and stores its answer.
    fn commit(&mut self, record: &Record, now: &Now) {
        let refusal = self.refusal.take_if(|_| record.is_conditional());
        if refusal.is_none() {
            view::remove_secret_mark(&mut self.view, &record.operation);
            view::remove_detached(&mut self.view, &record.operation);
        }
        self.controller.apply(record, refusal.clone());
        if std::mem::take(&mut self.reply_lost) {
            self.print("the reply is lost, and the agent crashes");
            self.process = None;
            return;
        }
        let retry = refusal
            .as_ref()
            .and_then(|_| retry::retry_after(&self.local, self.agent_view.as_ref(), now, &record.operation));
        if let Some(reason) = &refusal {
            self.print(format!("refused: {}", api::text::refusal::message(reason)));
        }
        let revision = self.view.position.revision;
        let acknowledged = Event::Acknowledged { sequence: record.sequence, revision, refusal, retry };
        self.local.apply(&acknowledged);
    }

    /// Prints a difference between the disk and the replica.
    fn compare_replica(&mut self) {
        if let Some((disk, replica)) = self.controller.difference(&self.local) {
            self.print(format!("disk:    {disk}"));
            self.print(format!("replica: {replica}"));
        }
    }
}

/// The value that a case has set for an operation: by its text without `hook`, or by the first words of it.
fn find<T: Clone>(map: &BTreeMap<String, T>, operation: &str) -> Option<T> {
    map.iter().rev().find(|(name, _)| named(operation, name)).map(|(_, value)| value.clone())
}

fn named(operation: &str, name: &str) -> bool {
    // `install` names the hook, not the operation that installs a charm
    if name == "install" && operation.starts_with("install charm ") {
        return false;
    }
    let operation = operation.strip_prefix("hook ").unwrap_or(operation);
    operation.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
