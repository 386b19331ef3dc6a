//! Checks: the properties of spec/invariants.md, one per file.
//!
//! A check observes the durable events of the units' folders, the hooks that ran, and every commit of the store. At
//! the end it examines the final state of the whole system. A check must not change the schedule. The name of a
//! check is the name of its file; mutants name the check that must detect them.
//!
//! Four files contain no check: `check` is the interface of a check, and `running_agent`, `stuck_system` and
//! `done_records` are shared by several checks.

mod actions;
mod applied_once;
mod authority;
mod bag_counters;
mod bag_visibility;
pub mod check;
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
mod leader_settings;
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
mod resources;
mod restart;
mod retries;
mod run_intervals;
pub mod running_agent;
mod secret_timers;
mod secrets;
mod serializable;
mod session_takeover;
mod stable_reads;
mod statuses;
mod storage;
pub mod stuck_system;
mod teardown_budget;
mod true_blockers;
mod view_fold;
mod visible_effects;

use crate::sim::fact::Fact;
use check::{Check, Commit, FinalState};
use done_records::DoneRecords;
use state::documents::draft::Reader;
use state::documents::prelude::Model;
use state::terms::names::Uuid;
use state::unit::local::{Event, Local};
use std::collections::BTreeSet;
use stuck_system::StuckSystem;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub check: &'static str,
    pub what: String,
}

/// All checks of one schedule.
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
            Box::<leader_settings::LeaderSettings>::default(),
            Box::<leaked_instances::LeakedInstances>::default(),
            Box::<life_order::LifeOrder>::default(),
            Box::<applied_once::AppliedOnce>::default(),
            Box::<force_grace::ForceGrace>::default(),
            Box::<ports::PortConflicts>::default(),
            Box::<provisioning::Provisioning>::default(),
            Box::<recall_evidence::RecallEvidence>::default(),
            Box::<references::References>::default(),
            Box::<relations::RelationHooks>::default(),
            Box::<resources::Resources>::default(),
            Box::<restart::Restart>::default(),
            Box::<retries::Retries>::default(),
            Box::<secrets::Secrets>::default(),
            Box::<secret_timers::SecretTimers>::default(),
            Box::<serializable::Serializable>::default(),
            Box::<converged::Converged>::default(),
            Box::<stable_reads::StableReads>::default(),
            Box::<early_reports::EarlyReports>::default(),
            Box::<statuses::StatusDelivery>::default(),
            Box::<storage::Storage>::default(),
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
            Fact::EventsPersisted { folder, events, .. } => {
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

    fn journal_started(&mut self, folder: Uuid, stored: &Local) {
        self.done_records.journal_started(folder, stored);
        self.for_each(|check, _| check.journal_started(folder, stored));
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

    pub fn check_final_state(&mut self, end: &FinalState<'_>) {
        self.for_each(|check, found| check.check_final_state(end, found));
    }
}
