//! Each attached resource leads to one upgrade of each unit, which is never lost (spec/uniter.md A.6, I.9).
//!
//! That upgrade-charm follows an upgrade is the check `hooks`.

use super::check::{Check, FinalState};
use super::running_agent::RunningAgent;
use crate::sim::fact::Fact;
use state::documents::draft::Reader;
use state::documents::prelude::Model;
use state::terms::names::Uuid;
use state::terms::operation::{CharmRef, Operation};
use state::unit::local::{Event, Local};
use state::unit::record::{Outcome, Record};
use state::unit::resolve::resources_digest;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Resources {
    /// By folder: the charm that it installed last with its resources, since its journal started. A restored store gives
    /// a revision again, to another archive.
    installed: BTreeMap<Uuid, CharmRef>,
    /// Folders whose installation was interrupted. Their next agent may have an older view, which is not synced, and
    /// installs its charm: the newer one follows.
    interrupted: BTreeSet<Uuid>,
}

impl Check for Resources {
    fn name(&self) -> &'static str {
        "resources"
    }

    fn observe(&mut self, fact: &Fact, _: &mut Vec<String>) {
        let Fact::EventsPersisted { folder, events, .. } = fact else { return };
        let is_again = |event: &Event| {
            matches!(event, Event::Started(run)
                if run.attempt > 1 && matches!(run.operation, Operation::InstallCharm(_)))
        };
        if events.iter().any(is_again) {
            self.interrupted.insert(*folder);
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, found: &mut Vec<String>) {
        let Operation::InstallCharm(charm) = &record.operation else { return };
        if record.outcome != Outcome::Ok {
            return;
        }
        let was_interrupted = self.interrupted.remove(&folder);
        let before = self.installed.insert(folder, charm.clone());
        if before.as_ref() == Some(charm) && !was_interrupted {
            found.push(format!("{folder}: {} was installed again with the same resources", charm.url));
        }
    }

    fn journal_started(&mut self, folder: Uuid, _: &Local) {
        self.installed.remove(&folder);
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        self.installed.remove(&folder);
        self.installed.remove(&copy);
    }

    fn store_restored(&mut self, _: &dyn Reader, _: Model) {
        self.installed.clear();
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for RunningAgent { name, local, view, .. } in end.agents.iter().filter(|_| end.is_at_rest) {
            let current = view.as_deref().map(|view| resources_digest(&view.charm.charm.resources));
            let seen = local.charm.as_ref().map(|charm| charm.resources.clone());
            if current != seen {
                found.push(format!("{name}: upgraded for resources {seen:?}, current are {current:?}"));
            }
        }
    }
}
