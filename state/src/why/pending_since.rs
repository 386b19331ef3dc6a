//! Computes since when an operation or a blocker is pending: since the commit of the document that caused it, or else
//! since the end of the unit's last run.
//!
//! Documents have no times; the controller has the commit times of revisions. Called by `why`, by dry runs, and for the
//! blockers in refusals.

use crate::documents::draft::{Key, Reader, Revision, read, read_all};
use crate::documents::json_text::Document;
use crate::documents::prelude::{BagDoc, Model, UnitDoc, last_id};
use crate::lifecycle::{machine, unit as units};
use crate::status::relation::relation_of_number;
use crate::terms::cause::{Cause, Duty, Entity};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::operation::{Hook, Operation, RelationEvent};
use crate::terms::owner::Owner;

/// The documents and the commit times at one moment.
pub struct PendingSince<'a> {
    /// The documents.
    pub reader: &'a dyn Reader,
    /// The model of all entities.
    pub model: Model,
    /// When a revision was committed; none if that is not recorded yet.
    pub commit_time_ms: &'a dyn Fn(Revision) -> Option<i64>,
    /// The wall clock.
    pub now_ms: i64,
}

impl PendingSince<'_> {
    /// Returns since when this operation of the unit is pending, by the wall clock; none if no commit that caused it is
    /// found.
    pub fn since_ms(&self, id: Uuid, doc: &UnitDoc, operation: &Operation) -> Option<i64> {
        let change = self
            .document_time_ms(&self.model.resolved(id))
            .or_else(|| self.cause_time_ms(id, doc, operation));
        // a cause that is older than the unit counts since the unit was created
        change.or_else(|| self.last_run_ms(id)).map(|since_ms| since_ms.max(doc.created_ms))
    }

    /// Returns since when a unit, or the machine if `unit` is none, is being removed.
    fn removal_since_ms(&self, unit: Option<(Uuid, &UnitDoc)>, machine: Uuid) -> Option<i64> {
        let model = self.model;
        let mut lives = vec![model.machine_life(machine)];
        if let Some((id, doc)) = unit {
            lives.extend([model.unit_life(id), model.application_life(doc.application)]);
            lives.extend(doc.principal.map(|principal| model.unit_life(principal)));
        }
        self.life_ended_ms(&lives)
    }

    /// Returns since when a unit or a machine, given by name, is being removed.
    fn removal_since_ms_by_name(&self, entity: &Entity) -> Option<i64> {
        let (reader, model) = (self.reader, self.model);
        match entity {
            Entity::Unit(name) => {
                let id = units::find(&mut { reader }, model, name).ok()?;
                let doc = read(reader, &model.unit(id))?;
                self.removal_since_ms(Some((id, &doc)), doc.machine)
            }
            Entity::Machine(name) => {
                self.removal_since_ms(None, machine::find(&mut { reader }, model, name).ok()?)
            }
            Entity::Application(_) | Entity::Relation(_) | Entity::Model(_) => None,
        }
    }

    /// Adds the time to a cause without one: the time since which its entity is being removed, or since which its
    /// relation must be left.
    pub fn with_since(&self, cause: Cause) -> Cause {
        let since_ms = cause
            .since_ms
            .or_else(|| self.removal_since_ms_by_name(&cause.entity))
            .or_else(|| self.leave_since_ms(&cause));
        cause.since(since_ms)
    }

    /// Returns since when the first relation of the cause must be left.
    fn leave_since_ms(&self, cause: &Cause) -> Option<i64> {
        let relation = match (&cause.duty, &cause.entity) {
            (Duty::LeaveScopes { relations } | Duty::Terminate { relations }, _) => relations.first()?,
            (_, Entity::Relation(relation)) => relation,
            _ => return None,
        };
        let id = read(self.reader, &self.model.relation_key(&relation.ends))?;
        let suspended = || Some(read(self.reader, &self.model.relation_suspended(id))?.since_ms);
        self.broken_since_ms(id).or_else(suspended)
    }

    fn document_time_ms<T: Document>(&self, key: &Key<T>) -> Option<i64> {
        Some(self.commit_time_ms(self.reader.get(key.text())?.revision))
    }

    /// Returns the time of a revision. A revision that is not recorded yet was committed just now.
    fn commit_time_ms(&self, revision: Revision) -> i64 {
        (self.commit_time_ms)(revision).unwrap_or(self.now_ms)
    }

    fn last_run_ms(&self, id: Uuid) -> Option<i64> {
        self.document_time_ms(&self.model.replica(id))
    }

    /// Returns the time of the change that caused the operation; none if it follows from the unit's previous run.
    fn cause_time_ms(&self, id: Uuid, doc: &UnitDoc, operation: &Operation) -> Option<i64> {
        let (model, application) = (self.model, doc.application);
        match operation {
            Operation::InstallCharm(_) | Operation::Hook(Hook::UpgradeCharm) => {
                self.document_time_ms(&model.application_charm(application))
            }
            Operation::Hook(Hook::ConfigChanged(_)) => {
                read(self.reader, &model.replica(id))?.local.config?;
                let charm = self.document_time_ms(&model.application_charm(application));
                let settings = self.document_time_ms(&model.application_config(application));
                charm.max(settings).max(self.document_time_ms(&model.application_trust(application)))
            }
            Operation::Hook(Hook::LeaderElected { .. }) => self.document_time_ms(&model.leader(application)),
            Operation::Hook(Hook::LeaderSettingsChanged { .. }) => {
                self.document_time_ms(&model.leader_settings(application))
            }
            Operation::Hook(Hook::Secret { secret, .. }) => self.document_time_ms(&model.secret(*secret)),
            Operation::Hook(Hook::Storage { id, .. }) => self.document_time_ms(&model.storage(id)),
            Operation::Hook(Hook::Stop | Hook::Remove) => {
                self.last_run_ms(id).max(self.dying_since_ms(id, doc))
            }
            Operation::Hook(Hook::Relation { relation, event, .. }) => {
                let relation = relation_of_number(self.reader, model, *relation)?;
                let leaves = matches!(event, RelationEvent::Departed { .. } | RelationEvent::Broken);
                let dying = || self.dying_since_ms(id, doc).filter(|_| leaves);
                self.relation_event_ms(relation, event).or_else(dying)
            }
            Operation::EnterScope { uuid, .. } => Some(read(self.reader, &model.relation(*uuid))?.created_ms),
            Operation::LeaveScope { uuid, .. } => {
                self.broken_since_ms(*uuid).or_else(|| self.dying_since_ms(id, doc))
            }
            Operation::Action { id, .. } => Some(read(self.reader, &model.action(*id))?.enqueued_ms),
            Operation::Hook(Hook::Install | Hook::Start { .. } | Hook::UpdateStatus)
            | Operation::Commands(_)
            | Operation::Resync
            | Operation::SetDead => None,
        }
    }

    /// Returns since when the unit, its application or its machine is being removed.
    fn dying_since_ms(&self, id: Uuid, doc: &UnitDoc) -> Option<i64> {
        let model = self.model;
        let application = model.application_life(doc.application);
        self.life_ended_ms(&[model.unit_life(id), application, model.machine_life(doc.machine)])
    }

    fn relation_event_ms(&self, relation: Uuid, event: &RelationEvent) -> Option<i64> {
        let model = self.model;
        match event {
            RelationEvent::Created => Some(read(self.reader, &model.relation(relation))?.created_ms),
            RelationEvent::Joined { unit, .. } => {
                let all = self.reader.scan(&model.scopes(relation), "", usize::MAX);
                let id = units::find(&mut { self.reader }, model, unit).ok()?;
                let entry = all.iter().find(|stored| last_id(&stored.key) == Some(id))?;
                Some(self.commit_time_ms(entry.revision))
            }
            RelationEvent::Changed { unit, .. } => self.document_time_ms(
                &model.bag(relation, self.bag_holder(relation, &Owner::Unit(unit.clone()))?),
            ),
            RelationEvent::ApplicationChanged { application, .. } => {
                let owner = Owner::Application(application.clone());
                self.document_time_ms(&model.bag(relation, self.bag_holder(relation, &owner)?))
            }
            RelationEvent::Departed { unit, .. } => self.broken_since_ms(relation).or_else(|| {
                let unit = self.bag_holder(relation, &Owner::Unit(unit.clone()))?;
                self.life_ended_ms(&[model.unit_life(unit)])
                    .or_else(|| self.document_time_ms(&model.tombstone(unit)))
            }),
            RelationEvent::Broken => self.broken_since_ms(relation),
        }
    }

    /// Returns the uuid of the owner of a bag. It also finds a removed unit while the relation exists.
    fn bag_holder(&self, relation: Uuid, owner: &Owner) -> Option<Uuid> {
        let bags = read_all::<BagDoc>(self.reader, &self.model.bags(relation));
        bags.into_iter().find(|(_, bag)| bag.owner == *owner).and_then(|(key, _)| last_id(&key))
    }

    fn broken_since_ms(&self, relation: Uuid) -> Option<i64> {
        let doc = read(self.reader, &self.model.relation(relation))?;
        let mut lives = vec![self.model.relation_life(relation)];
        lives.extend(doc.ends.iter().map(|end| self.model.application_life(end.application)));
        self.life_ended_ms(&lives)
    }

    /// Returns when the first of these entities ceased to be Alive.
    fn life_ended_ms(&self, lives: &[Key<Life>]) -> Option<i64> {
        let over = lives.iter().filter(|key| read(self.reader, *key).is_some_and(|life| life != Life::Alive));
        over.filter_map(|key| self.document_time_ms(key)).min()
    }
}
