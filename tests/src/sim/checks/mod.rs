//! Checks: the promises of spec/invariants.md, one per file.
//!
//! A check observes what became durable in the units' folders, which hooks ran, and every commit of the store. At
//! the end it sees the whole system at rest. A check must not change the run. The name of a check is the name of
//! its file; mutants name the check that must detect them.

mod actions;
mod applied_once;
mod authority;
mod bag_counters;
mod bag_visibility;
mod container_scope;
mod converged;
mod delivered_config;
mod delivered_settings;
mod destroyed_model;
mod documents;
mod done_records;
mod duplicate_instances;
mod durable_events;
mod early_reports;
mod empty_machine;
mod failed_actions;
mod first_hooks;
mod force_grace;
mod forced;
mod foreign_instances;
mod hooks;
mod instance_termination;
mod journal_size;
mod leadership;
mod leaked_instances;
mod life_order;
mod link_freshness;
mod names_and_tokens;
mod ports;
mod provisioning;
mod recall_evidence;
mod record_effects;
mod references;
mod relations;
mod restart;
mod retries;
mod run_intervals;
mod serializable;
mod session_takeover;
mod stable_reads;
mod statuses;
mod teardown_budget;
pub mod true_blockers;
mod view_fold;
mod visible_effects;

use controller::store::CommitChanges;
use done_records::DoneRecords;
use state::documents::draft::{Reader, Revision, Txn};
use state::documents::keys::Model;
use state::terms::cause::Cause;
use state::terms::names::{UnitName, Uuid};
use state::unit::local::{Event, Local};
use state::unit::record::{Record, RunReport};
use state::unit::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;
use true_blockers::StuckSystem;

/// An event outside the store. A journal belongs to a folder, so a unit whose folder was copied has two
/// journals.
#[derive(Clone, Debug)]
pub enum Fact {
    /// These events are durable. The agent received the acknowledgement unless it crashed first.
    Recorded { folder: Uuid, unit: Uuid, events: Arc<[Event]> },
    /// An agent started and loaded this state.
    Loaded { folder: Uuid, local: Box<Local> },
    /// The folder is new or was damaged: its journal starts here, with this state.
    JournalStarted { folder: Uuid, local: Box<Local> },
    /// A folder was copied, including its journal.
    Copied { folder: Uuid, copy: Uuid },
    /// The journal of a folder grew to this size.
    Appended { folder: Uuid, bytes: usize },
    /// The process of a hook started; `locked`: it holds the machine's hook lock.
    HookStarted { folder: Uuid, run: u64, locked: bool },
    /// The process of the hook ended, by itself or killed.
    HookEnded { folder: Uuid, run: u64 },
    /// The process of the hook exited by itself; `counted`: the counter that it wrote.
    HookExited { folder: Uuid, run: u64, ok: bool, counted: Option<u64> },
    /// A hook read a value; one event per tool call.
    HookRead { folder: Uuid, run: u64, what: String, text: String },
    /// A hook wrote a value that it reads back later.
    HookWrote { folder: Uuid, run: u64, what: String, text: String },
    /// A hook set the status of its workload, and the tool returned.
    HookSetStatus { folder: Uuid, run: u64, message: String },
    /// The controller accepted that the instance of this machine is kept.
    KeepInstanceAccepted { machine: String },
    /// A record reached the controller in a message of this epoch.
    RecordReceived { unit: Uuid, sequence: u64, epoch: u64, is_resync: bool },
    /// A unit sent these reports ahead of its record; `executes`: also that this run is executing.
    Reported { unit: Uuid, epoch: u64, run: u64, reports: Vec<RunReport>, executes: bool },
    /// A machine agent deletes this unit's folder; `evidence`: the unit is Dead, or it or its machine has a
    /// tombstone; `known`: the store contains the unit.
    Recalled { unit: Uuid, evidence: bool, known: bool },
    /// An event at the provider, for an instance with these tags.
    Instance { number: u64, model: Uuid, machine: Uuid, nonce: Uuid, what: InstanceEvent },
    /// The provisioner started again: it had crashed or lost the controller.
    ProvisionerStarted,
    /// From here on processes are only restarted.
    OnlyRestarts,
    /// A part of the simulator detected a violation: name of the check, and description.
    InvariantViolated(&'static str, String),
    /// The agent in this folder received an event of its stream.
    StreamReceived { folder: Uuid },
    /// The stream of the agent in this folder was opened or closed.
    Stream { folder: Uuid, unit: Uuid, open: bool },
    /// A tool of this unit received the promise that the unit leads (is-leader).
    LeadershipPromised { unit: Uuid },
    /// The agent in this folder is frozen for a while, as by SIGSTOP.
    Frozen { folder: Uuid },
    /// Another process of the controller started: all streams are closed.
    ControllerStarted,
    /// No faults are injected from here on.
    FaultsEnded,
}

/// What happened to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceEvent {
    /// It existed before the run.
    Existed,
    Created,
    /// It was not created, or the answer reported a failure with this reason.
    Failed(String),
    /// It was terminated on request.
    Terminated,
    /// It was handed over to its user and is no longer managed.
    HandedOver,
    /// It vanished by itself, with everything on it.
    Lost,
}

/// One commit and the documents after it.
pub struct Commit<'a> {
    pub model: Model,
    pub changes: &'a CommitChanges,
    pub reader: &'a dyn Reader,
    /// Whether checks examine all documents after this commit.
    pub is_full_check: bool,
    /// Virtual time; jumps of the wall clock do not affect it.
    pub now_ms: u64,
}

/// An agent that is running when the system is examined.
pub struct Agent {
    pub unit: Uuid,
    pub folder: Uuid,
    pub name: UnitName,
    /// The current boot of its machine.
    pub boot: String,
    /// The token with which it authenticates.
    pub token: Option<String>,
    pub local: Arc<Local>,
    pub view: Option<Arc<Snapshot>>,
    /// The blockers that it reports.
    pub waits: Vec<Cause>,
}

/// The system at the end: at rest, or still changing when the time is over.
pub struct FinalState<'a> {
    pub model: Model,
    pub reader: &'a dyn Reader,
    /// Running agents of units that the store contains.
    pub agents: Vec<Agent>,
    pub is_at_rest: bool,
    /// The committed transactions, if the profile keeps them.
    pub recorded: &'a [(Revision, Txn)],
}

/// One promise, with the state that is needed to check it. Violations are appended to `found`.
pub trait Check {
    fn name(&self) -> &'static str;
    /// Virtual time; called before the events of that time.
    fn advance_time(&mut self, _now_ms: u64) {}
    fn observe(&mut self, _fact: &Fact, _found: &mut Vec<String>) {}
    /// This record counts as done; called in the order of the journal.
    fn record_done(&mut self, _folder: Uuid, _record: &Record, _found: &mut Vec<String>) {}
    /// The journal of a folder starts, or starts again, with this state.
    fn journal_started(&mut self, _folder: Uuid, _memory: &Local) {}
    fn folder_copied(&mut self, _folder: Uuid, _copy: Uuid) {}
    /// The store was restored from a backup.
    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {}
    fn commit(&mut self, _commit: &Commit<'_>, _found: &mut Vec<String>) {}
    /// The system rests, and `why` was requested for every entity.
    fn check_explanations(&mut self, _stuck: &StuckSystem<'_>, _found: &mut Vec<String>) {}
    fn at_rest(&mut self, _end: &FinalState<'_>, _found: &mut Vec<String>) {}
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub check: &'static str,
    pub what: String,
}

/// All checks of one run.
pub struct Checks {
    all: Vec<Box<dyn Check>>,
    done_records: DoneRecords,
    /// Folders that may be behind the controller: new folders, copies and their originals.
    behind: BTreeSet<Uuid>,
    pub violations: Vec<Violation>,
}

impl Default for Checks {
    fn default() -> Checks {
        let all: Vec<Box<dyn Check>> = vec![
            Box::<actions::Actions>::default(),
            Box::<record_effects::RecordEffects>::default(),
            Box::<authority::Authority>::default(),
            Box::<journal_size::JournalSize>::default(),
            Box::<failed_actions::FailedActions>::default(),
            Box::<teardown_budget::TeardownBudget>::default(),
            Box::<session_takeover::SessionTakeover>::default(),
            Box::<delivered_config::DeliveredConfig>::default(),
            Box::<container_scope::ContainerScope>::default(),
            Box::<delivered_settings::DeliveredSettings>::default(),
            Box::<destroyed_model::DestroyedModel>::default(),
            Box::<documents::DocumentInvariants>::default(),
            Box::<duplicate_instances::DuplicateInstances>::default(),
            Box::<durable_events::DurableEvents>::default(),
            Box::<visible_effects::VisibleEffects>::default(),
            Box::<empty_machine::EmptyMachine>::default(),
            Box::<true_blockers::TrueBlockers>::default(),
            Box::<first_hooks::FirstHooks>::default(),
            Box::<forced::Forced>::default(),
            Box::<link_freshness::LinkFreshness>::default(),
            Box::<hooks::Hooks>::default(),
            Box::<names_and_tokens::NamesAndTokens>::default(),
            Box::<run_intervals::RunIntervals>::default(),
            Box::<leadership::Leadership>::default(),
            Box::<leaked_instances::LeakedInstances>::default(),
            Box::<life_order::LifeOrder>::default(),
            Box::<applied_once::AppliedOnce>::default(),
            Box::<force_grace::ForceGrace>::default(),
            Box::<ports::PortConflicts>::default(),
            Box::<provisioning::Provisioning>::default(),
            Box::<recall_evidence::RecallEvidence>::default(),
            Box::<references::References>::default(),
            Box::<relations::RelationHooks>::default(),
            Box::<restart::Restart>::default(),
            Box::<retries::Retries>::default(),
            Box::<serializable::Serializable>::default(),
            Box::<converged::Converged>::default(),
            Box::<stable_reads::StableReads>::default(),
            Box::<early_reports::EarlyReports>::default(),
            Box::<statuses::StatusDelivery>::default(),
            Box::<bag_visibility::BagVisibility>::default(),
            Box::<foreign_instances::ForeignInstances>::default(),
            Box::<instance_termination::InstanceTermination>::default(),
            Box::<bag_counters::BagCounters>::default(),
            Box::<view_fold::ViewFold>::default(),
        ];
        Checks { all, done_records: DoneRecords::default(), behind: BTreeSet::new(), violations: Vec::new() }
    }
}

impl Checks {
    /// The names of all checks.
    pub fn names() -> Vec<&'static str> {
        Checks::default().all.iter().map(|check| check.name()).collect()
    }

    fn for_each(&mut self, mut call: impl FnMut(&mut dyn Check, &mut Vec<String>)) {
        let mut found = Vec::new();
        for check in &mut self.all {
            call(check.as_mut(), &mut found);
            let check = check.name();
            self.violations.extend(found.drain(..).map(|what| Violation { check, what }));
        }
    }

    pub fn advance_time(&mut self, now_ms: u64) {
        self.all.iter_mut().for_each(|check| check.advance_time(now_ms));
    }

    pub fn observe(&mut self, fact: &Fact) {
        self.for_each(|check, found| check.observe(fact, found));
        match fact {
            Fact::InvariantViolated(check, what) => {
                self.violations.push(Violation { check, what: what.clone() })
            }
            Fact::JournalStarted { folder, local } => {
                self.behind.insert(*folder);
                self.journal_started(*folder, local);
            }
            Fact::Copied { folder, copy } => {
                self.behind.extend([*folder, *copy]);
                self.done_records.folder_copied(*folder, *copy);
                self.for_each(|check, _| check.folder_copied(*folder, *copy));
            }
            Fact::Recorded { folder, events, .. } => {
                for event in events.iter() {
                    self.event(*folder, event);
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, folder: Uuid, event: &Event) {
        match event {
            Event::ReplicaTaken { replica } if self.behind.contains(&folder) => {
                self.journal_started(folder, replica)
            }
            _ => {
                if let Event::ReplicaTaken { replica } = event {
                    let what =
                        format!("{folder}: durable record {} is missing from the folder", replica.sequence);
                    self.violations.push(Violation { check: "durable-events", what });
                }
                if let Some(record) = self.done_records.complete(folder, event) {
                    self.for_each(|check, found| check.record_done(folder, &record, found));
                }
            }
        }
    }

    fn journal_started(&mut self, folder: Uuid, memory: &Local) {
        self.done_records.journal_started(folder, memory);
        self.for_each(|check, _| check.journal_started(folder, memory));
    }

    pub fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        self.for_each(|check, _| check.store_restored(reader, model));
    }

    pub fn commit(&mut self, commit: &Commit<'_>) {
        self.for_each(|check, found| check.commit(commit, found));
    }

    pub fn check_explanations(&mut self, stuck: &StuckSystem<'_>) {
        self.for_each(|check, found| check.check_explanations(stuck, found));
    }

    pub fn at_rest(&mut self, end: &FinalState<'_>) {
        self.for_each(|check, found| check.at_rest(end, found));
    }
}

/// The kind in a document's key, and the rest of the key.
fn key_parts(key: &str) -> (&str, &str) {
    let (_, rest) = key.split_once('/').unwrap_or_default();
    rest.split_once('/').unwrap_or((rest, ""))
}
