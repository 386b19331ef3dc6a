//! The controller of a scripted case: what it stores about the only unit.
//!
//! It folds records as the real controller does, so that a case also checks that the replica has the workflow, the charm,
//! the config and the relations of the disk. Their order and their effects are not checked here.

use super::view;
use state::terms::names::Uuid;
use state::terms::refusal::RefusalReason;
use state::unit::local::{Event, Local, Step};
use state::unit::record::Record;

/// What the controller stores about this unit: its newest session, and the replica that its records produce (design 4).
#[derive(Clone, Debug)]
pub struct Controller {
    pub store_generation: Uuid,
    pub epoch: u64,
    pub replica: Local,
}

impl Controller {
    /// A controller that has applied no record. `local`: the disk of the unit, which the replica equals.
    pub fn new(local: Local) -> Controller {
        Controller { store_generation: view::STORE_GENERATION, epoch: 0, replica: local }
    }

    /// Applies a record as the controller does (`state::transitions::record_commit`), once.
    pub fn apply(&mut self, record: &Record, refusal: Option<RefusalReason>) {
        if (record.sequence, &record.digest()) == (self.replica.sequence, &self.replica.digest) {
            return;
        }
        self.replica.apply(&Event::Finished(record.clone()));
        let sequence = record.sequence;
        self.replica.apply(&Event::Acknowledged { sequence, revision: 0, refusal, retry: None });
    }

    /// The difference of the `summary` of a disk and of the replica, which is the fold of the records (design 4). `None` as well while a run or a record is not complete: the replica cannot equal the disk then.
    pub fn difference(&self, disk: &Local) -> Option<(String, String)> {
        // no record contains a started run
        let is_incomplete = self.replica.sequence != disk.sequence
            || !disk.outbox.is_empty()
            || matches!(disk.step, Step::Started(_));
        let (disk, replica) = (summary(disk), summary(&self.replica));
        (!is_incomplete && disk != replica).then_some((disk, replica))
    }
}

/// The part of a state that is compared, as text: the most important of what disk and replica have in common.
fn summary(local: &Local) -> String {
    let step = match &local.step {
        Step::Idle => "idle".to_owned(),
        Step::Failed(episode) => {
            format!("episode {} of {}, {} failures", episode.id, episode.operation, episode.failures)
        }
        Step::Started(_) | Step::AwaitingAnswer { .. } => "busy".to_owned(),
    };
    let relations = local.relations.iter().map(|(number, relation)| {
        let (members, bag) = (&relation.members, &relation.bag);
        format!("{number} {} {members:?} {bag:?} {:?}", relation.created, relation.applications)
    });
    let relations: Vec<_> = relations.collect();
    format!(
        "{step} {:?} {relations:?} {:?} {:?} {:?} upgrade_pending={} {}",
        local.charm.as_ref().map(|charm| &charm.url),
        (local.installed, local.started, local.stopped, local.removed, local.dead),
        local.config,
        local.boot,
        local.upgrade_pending,
        local.workflow()
    )
}
