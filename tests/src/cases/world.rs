//! A world of one unit: its disk, its agent's process, the controller, the clock, and hooks that end as the script
//! says. It does what `agent/src/uniter.rs` does, one thing after the other, and sends before it acts.

use super::view;
use state::restore::reconciliation::{Reconciliation, Session, agree};
use state::terms::names::Uuid;
use state::terms::settings::Bag;
use state::unit::hook::Writes;
use state::unit::local::{Event, Local, Run, Step};
use state::unit::operation::Operation;
use state::unit::outcome::{self, Ended, Exit};
use state::unit::pending_reports::PendingReports;
use state::unit::record::{Outcome, Record};
use state::unit::resolve::{self, Act, Now, Send, Wait};
use state::unit::retry;
use state::unit::snapshot::{BagRequest, BagView, Snapshot};
use std::collections::BTreeMap;

/// No case needs more operations in one look: a core that never comes to rest is found out.
const OPERATIONS_MAX: usize = 200;

/// How a scripted run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(Exit),
    /// The agent dies while it runs.
    Crash,
}

/// What the controller holds of this unit.
#[derive(Clone, Debug)]
pub struct Controller {
    pub store_generation: Uuid,
    pub epoch: u64,
    pub sequence: u64,
    pub digest: String,
    pub replica: Local,
}

/// See the module's head.
pub struct World {
    /// The disk.
    pub local: Local,
    /// The model's truth, and what of it the agent was last shown.
    pub view: Snapshot,
    pub shown: Option<Snapshot>,
    pub controller: Controller,
    /// The link works; since when it does not.
    pub link: bool,
    /// The generation of the lease this unit has at the controller.
    pub lease: Option<u64>,
    pub leases: u64,
    pub boot: u32,
    pub clock_ms: u64,
    pub wall_ms: i64,
    /// Of the agent's process; none = it is down.
    pub process: Option<Process>,
    pub endings: BTreeMap<String, Ending>,
    pub writes: BTreeMap<String, Writes>,
    /// Commands that take effect while a hook runs, once.
    pub during: BTreeMap<String, Vec<String>>,
    /// What the shim of a dead agent's hook has left.
    pub orphan: Option<Exit>,
    /// The charm is not in its folder.
    pub charm_lost: bool,
    pub refusal: Option<String>,
    /// The next record is applied, and the agent dies before it hears so.
    pub answer_lost: bool,
    /// The agent dies when it has written down that it begins this; or after a note.
    pub crash_after_start: Option<String>,
    pub crash_after_event: bool,
    /// Controller and disk as they once were.
    pub copy: Option<Box<(Controller, Local)>>,
    /// A hook runs: what happens meanwhile is looked at when it has ended.
    running: bool,
    trace: Vec<String>,
}

/// Facts lost with the agent's process.
#[derive(Clone, Debug)]
pub struct Process {
    start_ms: u64,
    last_end_ms: u64,
    attached: bool,
    heard_ms: Option<u64>,
    orphan_missing: bool,
    hook_lock: bool,
    stopped: bool,
}

impl World {
    pub fn new() -> World {
        let local = Local::new(Uuid(2), view::me());
        let controller = Controller {
            store_generation: view::HISTORY,
            epoch: 0,
            sequence: 0,
            digest: String::new(),
            replica: local.clone(),
        };
        let mut world = World {
            local,
            view: view::fresh(),
            shown: None,
            controller,
            link: true,
            lease: None,
            leases: 0,
            boot: 1,
            clock_ms: 60_000,
            wall_ms: 1_000_000,
            process: None,
            endings: BTreeMap::new(),
            writes: BTreeMap::new(),
            during: BTreeMap::new(),
            orphan: None,
            charm_lost: false,
            refusal: None,
            answer_lost: false,
            crash_after_start: None,
            crash_after_event: false,
            copy: None,
            running: false,
            trace: Vec::new(),
        };
        world.start();
        world
    }

    pub fn say(&mut self, line: impl Into<String>) {
        self.trace.push(line.into());
    }

    pub fn take_trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }

    /// A new process of the agent on the same disk, read back as it was written.
    pub fn start(&mut self) {
        let text = serde_yaml::to_string(&self.local).expect("memory is plain data");
        self.local = serde_yaml::from_str(&text).expect("what was written is read back");
        // what was fetched is kept in memory only
        self.shown.iter_mut().chain([&mut self.view]).for_each(|view| view.fetched = None);
        self.process = Some(Process {
            start_ms: self.clock_ms,
            last_end_ms: self.clock_ms,
            attached: false,
            heard_ms: None,
            orphan_missing: false,
            hook_lock: false,
            stopped: false,
        });
    }

    /// Time passes; the agent looks whenever it said it would.
    pub fn pass(&mut self, ms: u64) {
        let end = self.clock_ms + ms;
        while let Some(due) = self.look().and_then(|wait| wait.until_ms).filter(|due| *due <= end) {
            self.set_clock(due);
        }
        self.set_clock(end);
    }

    pub fn set_clock(&mut self, ms: u64) {
        self.wall_ms += i64::try_from(ms - self.clock_ms).expect("scripts are shorter than an age");
        self.clock_ms = ms;
    }

    fn now(&self, process: &Process) -> Now {
        let heard = if self.link && process.attached { Some(self.clock_ms) } else { process.heard_ms };
        Now {
            boot: format!("boot-{}", self.boot),
            since_boot_ms: self.clock_ms,
            agent_start_ms: process.start_ms,
            wall_ms: self.wall_ms,
            hook_lock: process.hook_lock,
            orphan_missing: process.orphan_missing,
            attached: process.attached,
            link_age_ms: heard.map(|heard| self.clock_ms - heard),
            leads: self.lease.filter(|_| process.attached),
            claimed: true,
            idle_ms: self.clock_ms - process.last_end_ms,
            charm_lost: self.charm_lost && self.local.charm.is_some(),
        }
    }

    /// Lets the agent act until it waits; its wait, unless it is down or has ended.
    pub fn look(&mut self) -> Option<Wait> {
        if self.running {
            return None;
        }
        for _ in 0..OPERATIONS_MAX {
            let mut process = self.process.clone().filter(|process| !process.stopped)?;
            let now = self.now(&process);
            process.heard_ms = now.link_age_ms.map(|age| self.clock_ms - age);
            self.process = Some(process.clone());
            if self.link && process.attached {
                self.shown = Some(self.view.clone());
            }
            let next = resolve::next(&self.local, self.shown.as_ref(), &now);
            assert_eq!(next, resolve::next(&self.local, self.shown.as_ref(), &now), "next is a function");
            if self.link && next.send != Send::Nothing {
                self.send(&next.send, &now);
                continue;
            }
            match next.act {
                Act::Finish => {
                    self.say("stop for good");
                    process.stopped = true;
                    self.process = Some(process);
                }
                Act::Reattach(run) => self.adopt(&run),
                Act::AcquireHookLock => {
                    assert!(!now.hook_lock, "the lock is asked for once");
                    process.hook_lock = true;
                    self.process = Some(process);
                }
                Act::FetchBag(asked) => {
                    process.hook_lock = false;
                    self.process = Some(process);
                    let causes = vec![resolve::fetching(&self.local.name, &asked)];
                    if !self.link {
                        return Some(Wait { until_ms: None, causes });
                    }
                    self.say(format!("fetch {}", asked.owner));
                    self.fetch(asked);
                }
                Act::Start(run) => {
                    assert!(now.hook_lock || !run.operation.runs_charm(), "hooks run under the lock");
                    self.begin(run);
                }
                Act::RecordOutcome(record) => {
                    let verb = match &record.outcome {
                        Outcome::Ok | Outcome::Missing => "",
                        Outcome::Skipped => "skip ",
                        Outcome::Failed { .. } => "fail ",
                    };
                    self.say(format!("{verb}{}", record.operation));
                    self.local.apply(&Event::Finished(record));
                    self.ended();
                }
                Act::PersistEvent(event) => {
                    self.local.apply(&event);
                    if std::mem::take(&mut self.crash_after_event) {
                        self.process = None;
                    }
                }
                Act::Reboot => {
                    process.hook_lock = false;
                    self.process = Some(process);
                    return Some(Wait {
                        until_ms: None,
                        causes: vec![resolve::rebooting(&self.local.name, None)],
                    });
                }
                Act::Wait(wait) => {
                    process.hook_lock = false;
                    self.process = Some(process);
                    self.compare_replica();
                    return Some(wait);
                }
            }
        }
        self.say(format!("still busy after {OPERATIONS_MAX} operations"));
        None
    }

    /// The controller answers what it has now.
    fn fetch(&mut self, asked: BagRequest) {
        let relation = self.view.relations.values().find(|relation| relation.head.uuid == asked.relation);
        let counter = relation.and_then(|relation| relation.bag(&asked.owner)).map_or(0, |bag| bag.counter);
        self.view.keep_fetched(asked, BagView::whole(counter, Bag::new()));
    }

    fn begin(&mut self, run: Run) {
        let text = run.operation.to_string();
        self.local.apply(&Event::Started(run.clone()));
        if let Some(process) = &mut self.process {
            process.orphan_missing = false;
        }
        if self.crash_after_start.take_if(|name| named(&text, name)).is_some() {
            self.say("crash before it began");
            self.process = None;
            return;
        }
        let commands: Vec<String> = find(&self.during, &text).unwrap_or_default();
        self.during.retain(|name, _| !named(&text, name));
        self.running = true;
        for command in commands {
            super::command::perform(self, &command).expect("commands were checked when they were read");
        }
        self.running = false;
        // whatever runs of the charm brings it back
        self.charm_lost = false;
        let needs_process = run.operation.runs_charm() || matches!(run.operation, Operation::InstallCharm(_));
        let usual = match needs_process {
            true => Exit::Code(0),
            // as the agent would: there is no program to run
            false => Exit::Refused("nothing of the charm belongs to it".into()),
        };
        match find(&self.endings, &text).unwrap_or(Ending::Exit(usual)) {
            Ending::Crash => {
                self.say(format!("{text}: crash"));
                self.process = None;
            }
            Ending::Exit(exit) => {
                let how = match &exit {
                    Exit::Code(0) => String::new(),
                    Exit::Code(code) => format!(": exit {code}"),
                    Exit::Signal(signal) => format!(": signal {signal}"),
                    Exit::Interrupted => ": interrupted".to_owned(),
                    Exit::Missing => ": missing".to_owned(),
                    Exit::Refused(reason) => format!(": {reason}"),
                };
                self.say(format!("{text}{how}"));
                if exit == Exit::Interrupted {
                    self.endings.retain(|name, _| !named(&text, name));
                }
                self.end(&run, exit);
            }
        }
    }

    fn end(&mut self, run: &Run, exit: Exit) {
        let Some(process) = self.process.clone() else { return };
        let now = self.now(&process);
        let text = run.operation.to_string();
        let writes = find(&self.writes, &text).unwrap_or_default();
        // once, or no hook would ever follow
        self.writes
            .iter_mut()
            .filter(|(name, _)| named(&text, name))
            .for_each(|(_, writes)| writes.reboot = None);
        let ended =
            Ended { run, exit, writes: &writes, said: Vec::new(), unsaid: &PendingReports::default() };
        for event in outcome::events(&self.local, self.shown.as_ref(), &now, ended) {
            self.local.apply(&event);
        }
        if let Some(process) = &mut self.process {
            process.orphan_missing = true;
        }
        self.ended();
    }

    fn ended(&mut self) {
        if let Some(process) = &mut self.process {
            process.last_end_ms = self.clock_ms;
            process.hook_lock = false;
        }
    }

    fn adopt(&mut self, run: &Run) {
        match self.orphan.take().filter(|_| run.operation.runs_charm()) {
            Some(exit) => {
                self.say(format!("adopt {}", run.operation));
                self.end(run, exit);
            }
            None => {
                if let Some(process) = &mut self.process {
                    process.orphan_missing = true;
                }
                self.ended();
            }
        }
    }

    fn send(&mut self, send: &Send, now: &Now) {
        match send {
            Send::Nothing => {}
            Send::UnrecordedReport(run) => self.local.apply(&Event::ReportAcknowledged { run: *run }),
            Send::Attach => self.attach(),
            Send::Commit(sequence) => {
                let record = self.local.outbox.iter().find(|record| record.sequence == *sequence).cloned();
                self.commit(&record.expect("what is to be sent is in the outbox"), now);
            }
        }
    }

    fn attach(&mut self) {
        self.controller.epoch += 1;
        let controller = self.controller.clone();
        let session = Session {
            store_generation: controller.store_generation,
            epoch: controller.epoch,
            sequence: controller.sequence,
            digest: &controller.digest,
            replica: (controller.sequence > 0).then_some(&controller.replica),
        };
        match agree(&self.local, &session, self.wall_ms) {
            Reconciliation::Consistent(events) => {
                for event in &events {
                    if matches!(event, Event::ReplicaTaken { .. }) {
                        self.say("take the replica");
                    }
                    if let Event::Finished(record) = event {
                        self.say(record.operation.to_string());
                    }
                    self.local.apply(event);
                }
                if let Some(process) = &mut self.process {
                    process.attached = true;
                }
            }
            Reconciliation::Forked { sequence } => {
                self.say(format!("forked at record {sequence}"));
                self.process = None;
            }
        }
    }

    /// Applies a record as the controller does (`state::operations::hook_commit`), once.
    fn commit(&mut self, record: &Record, now: &Now) {
        let refusal = self.refusal.take_if(|_| record.is_conditional());
        let controller = &mut self.controller;
        if (record.sequence, &record.digest()) != (controller.sequence, &controller.digest) {
            controller.replica.sequence = record.sequence - 1;
            controller.replica.apply(&Event::Finished(record.clone()));
            controller.replica.apply(&Event::Acknowledged {
                sequence: record.sequence,
                revision: 0,
                refusal: refusal.clone(),
                retry: None,
            });
            controller.sequence = record.sequence;
            controller.digest = record.digest();
        }
        if std::mem::take(&mut self.answer_lost) {
            self.say("the answer is lost, and the agent dies");
            self.process = None;
            return;
        }
        let retry = refusal
            .as_ref()
            .and_then(|_| retry::retry_after(&self.local, self.shown.as_ref(), now, &record.operation));
        if let Some(reason) = &refusal {
            self.say(format!("refused: {reason}"));
        }
        let revision = self.view.position.revision;
        let answered = Event::Acknowledged { sequence: record.sequence, revision, refusal, retry };
        self.local.apply(&answered);
    }

    /// The replica is the fold of the records, so it says what the disk says (design 4).
    fn compare_replica(&mut self) {
        if self.controller.sequence != self.local.sequence || !self.local.outbox.is_empty() {
            return;
        }
        if matches!(self.local.step, Step::Started(_)) {
            return; // a run that waits to be run again is in no record
        }
        let step = |local: &Local| match &local.step {
            Step::Idle => "idle".to_owned(),
            Step::Failed(episode) => {
                format!("episode {} of {}, {} failures", episode.id, episode.operation, episode.failures)
            }
            Step::Started(_) | Step::AwaitingAnswer { .. } => "busy".to_owned(),
        };
        let said = |local: &Local| {
            let relations = local.relations.iter().map(|(number, relation)| {
                let (members, bag) = (&relation.members, &relation.bag);
                format!("{number} {} {members:?} {bag:?} {:?}", relation.created, relation.applications)
            });
            let relations: Vec<_> = relations.collect();
            format!(
                "{} {:?} {relations:?} {:?} {:?} {:?} owed={} {}",
                step(local),
                local.charm.as_ref().map(|charm| &charm.url),
                (local.installed, local.started, local.stopped, local.removed, local.dead),
                local.config,
                local.boot,
                local.upgrade_owed,
                local.workflow()
            )
        };
        let (disk, replica) = (said(&self.local), said(&self.controller.replica));
        if disk != replica {
            self.say(format!("disk:    {disk}"));
            self.say(format!("replica: {replica}"));
        }
    }
}

/// What a script has set for an operation, by its whole text or its first words, without `hook`.
fn find<T: Clone>(map: &BTreeMap<String, T>, operation: &str) -> Option<T> {
    map.iter().rev().find(|(name, _)| named(operation, name)).map(|(_, value)| value.clone())
}

fn named(operation: &str, name: &str) -> bool {
    let operation = operation.strip_prefix("hook ").unwrap_or(operation);
    operation.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
