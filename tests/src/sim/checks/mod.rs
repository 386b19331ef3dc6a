//! The promises of spec/invariants.md as checks: one a file. A check sees what was made durable in the units' folders,
//! which hooks ran, and every commit of the store; at the end it sees everything at rest.

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
use state::unit::record::{Record, Said};
use state::unit::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;
use true_blockers::StuckSystem;

/// Something that happened beside the store. A unit's journal is that of a folder: a unit whose folder was copied has
/// two.
#[derive(Clone, Debug)]
pub enum Fact {
    /// These events are durable, and the agent was told so (or a crash kept it from being told).
    Recorded {
        folder: Uuid,
        of: Uuid,
        events: Arc<[Event]>,
    },
    /// An agent starts and finds this.
    Loaded {
        folder: Uuid,
        local: Box<Local>,
    },
    /// A folder is new, or was harmed: its journal begins here, with this.
    JournalStarted {
        folder: Uuid,
        local: Box<Local>,
    },
    /// A folder was copied, journal and all.
    Copied {
        folder: Uuid,
        copy: Uuid,
    },
    /// To a folder's journal, which is now so long.
    Appended {
        folder: Uuid,
        bytes: usize,
    },
    HookStarted {
        folder: Uuid,
        run: u64,
        locked: bool,
    },
    /// By itself or killed.
    HookEnded {
        folder: Uuid,
        run: u64,
    },
    /// By itself; with what it counted.
    HookExited {
        folder: Uuid,
        run: u64,
        ok: bool,
        counted: Option<u64>,
    },
    /// What a hook read, once for each answer of a tool.
    HookRead {
        folder: Uuid,
        run: u64,
        what: String,
        text: String,
    },
    HookWrote {
        folder: Uuid,
        run: u64,
        what: String,
        text: String,
    },
    /// What a hook said of its workload, once the tool had answered.
    HookSetStatus {
        folder: Uuid,
        run: u64,
        message: String,
    },
    /// People were told that the instance of this machine is kept.
    KeepInstanceAccepted {
        machine: String,
    },
    /// A record reached the controller in a message of this epoch.
    RecordReceived {
        unit: Uuid,
        sequence: u64,
        epoch: u64,
        is_resync: bool,
    },
    /// A unit says this at once, beside its records; `executes`: and that this run goes on.
    Reported {
        unit: Uuid,
        epoch: u64,
        run: u64,
        said: Vec<Said>,
        executes: bool,
    },
    /// A machine agent takes this unit's folder away; `evidence`: the store says Dead, or has its tombstone or the
    /// machine's; `known`: the unit is there.
    Recalled {
        unit: Uuid,
        evidence: bool,
        known: bool,
    },
    /// At the provider, of an instance with these tags.
    Instance {
        number: u64,
        model: Uuid,
        machine: Uuid,
        nonce: Uuid,
        what: InstanceEvent,
    },
    /// The provisioner begins anew: it died, or lost the controller.
    ProvisionerStarted,
    /// From here on nothing changes any more: agents are only restarted.
    OnlyRestarts,
    /// A part of the world saw a promise broken: which check's, and how.
    InvariantViolated(&'static str, String),
    /// Something was heard on the stream of the agent in this folder.
    StreamReceived {
        folder: Uuid,
    },
    /// That stream was opened, or is over.
    Stream {
        folder: Uuid,
        unit: Uuid,
        open: bool,
    },
    /// A tool of this unit was promised that the unit leads.
    LeadershipPromised {
        unit: Uuid,
    },
    /// The agent in this folder stops where it stands, for a while.
    Frozen {
        folder: Uuid,
    },
    /// Another process of the controller, which nobody has a stream to.
    ControllerStarted,
    /// Faults are over.
    FaultsEnded,
}

/// What became of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceEvent {
    /// Before anybody of this story.
    WasThere,
    Made,
    /// It was not made, or whoever asked for it was told so, with this reason.
    Failed(String),
    /// By whoever asked for that.
    Taken,
    /// To its user: it is no part of the story any more.
    HandedOver,
    /// By itself, with all that was in it.
    Lost,
}

/// One commit, and the documents after it.
pub struct Commit<'a> {
    pub model: Model,
    pub changes: &'a CommitChanges,
    pub reader: &'a dyn Reader,
    /// All documents are to be looked at.
    pub whole: bool,
    /// Virtual time, which no jump of a clock moves.
    pub now_ms: u64,
}

/// An agent that runs, at the end.
pub struct Agent {
    pub unit: Uuid,
    pub folder: Uuid,
    pub name: UnitName,
    /// The boot its machine is in.
    pub boot: String,
    /// By which it proves itself.
    pub token: Option<String>,
    pub local: Arc<Local>,
    pub view: Option<Arc<Snapshot>>,
    /// What it waits for.
    pub waits: Vec<Cause>,
}

/// The system when it has come to rest, or has not in the time it was given.
pub struct FinalState<'a> {
    pub model: Model,
    pub reader: &'a dyn Reader,
    /// Agents that run, of units that the store knows.
    pub agents: Vec<Agent>,
    pub is_at_rest: bool,
    /// What was committed, as far as it was kept.
    pub recorded: &'a [(Revision, Txn)],
}

/// A promise and what it remembers.
pub trait Check {
    fn name(&self) -> &'static str;
    /// Virtual time, before anything is seen that happened then.
    fn advance_time(&mut self, _now_ms: u64) {}
    fn observe(&mut self, _fact: &Fact, _found: &mut Vec<String>) {}
    /// This record counts as done, in the journal's order.
    fn record_done(&mut self, _folder: Uuid, _record: &Record, _found: &mut Vec<String>) {}
    /// A folder's journal begins, or begins again, with this memory.
    fn journal_started(&mut self, _folder: Uuid, _memory: &Local) {}
    fn folder_copied(&mut self, _folder: Uuid, _copy: Uuid) {}
    /// The store goes on from an older copy of itself.
    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {}
    fn commit(&mut self, _commit: &Commit<'_>, _found: &mut Vec<String>) {}
    /// Everybody was asked what they wait for, at rest.
    fn check_explanations(&mut self, _stuck: &StuckSystem<'_>, _found: &mut Vec<String>) {}
    fn at_rest(&mut self, _end: &FinalState<'_>, _found: &mut Vec<String>) {}
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub check: &'static str,
    pub what: String,
}

/// All checks of one run.
pub struct Checks {
    all: Vec<Box<dyn Check>>,
    done_records: DoneRecords,
    /// Folders that may be behind the controller: made anew, copies, and those that were copied.
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
            Event::ReplicaTaken { replica } if self.behind.contains(&folder) => self.journal_started(folder, replica),
            _ => {
                if let Event::ReplicaTaken { replica } = event {
                    let what = format!("{folder} lacks what the controller has: record {}", replica.sequence);
                    self.violations.push(Violation { check: "durable-events", what });
                }
                if let Some(record) = self.done_records.take(folder, event) {
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

/// `kind` and the rest of a document's key.
fn key_parts(key: &str) -> (&str, &str) {
    let (_, rest) = key.split_once('/').unwrap_or_default();
    rest.split_once('/').unwrap_or((rest, ""))
}
