//! Since when a duty is pending: since the commit of the document that caused it, else since the unit's last work ended.
//!
//! Documents have no times; `commit_times` keeps those of revisions. Called by `why`, by dry runs, and for the blockers of
//! refusals.

use crate::commit_times::CommitTimes;
use crate::named::find_unit;
use crate::status::relation_of_number;
use state::documents::draft::{Key, Reader, Revision, read, read_all};
use state::documents::json_text::Document;
use state::documents::keys::{BagDoc, Model, UnitDoc, last_id};
use state::lifecycle::{machine, unit};
use state::terms::cause::{Cause, Duty, Entity};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::unit::operation::{Hook, Operation, RelationEvent};

/// The documents and the times of one moment.
pub struct PendingSince<'a> {
    pub reader: &'a dyn Reader,
    pub model: Model,
    pub commit_times: &'a CommitTimes,
    pub now_ms: i64,
}

impl PendingSince<'_> {
    /// Since when this operation of the unit is pending, by the wall clock. None: no commit that causes it is known.
    pub fn since_ms(&self, id: Uuid, doc: &UnitDoc, operation: &Operation) -> Option<i64> {
        let change = self.time(&self.model.resolved(id)).or_else(|| self.change_ms(id, doc, operation));
        // what was there before the unit is pending since the unit was created
        change.or_else(|| self.last_work_ms(id)).map(|since_ms| since_ms.max(doc.created_ms))
    }

    /// Since when a unit, or a machine with None, is to go.
    fn removal_since_ms(&self, unit: Option<(Uuid, &UnitDoc)>, machine: Uuid) -> Option<i64> {
        let model = self.model;
        let mut lives = vec![model.machine_life(machine)];
        if let Some((id, doc)) = unit {
            lives.extend([model.unit_life(id), model.application_life(doc.application)]);
            lives.extend(doc.principal.map(|principal| model.unit_life(principal)));
        }
        self.ended_ms(&lives)
    }

    /// The same for a unit or a machine by its name.
    fn removal_since_ms_by_name(&self, entity: &Entity) -> Option<i64> {
        let (reader, model) = (self.reader, self.model);
        match entity {
            Entity::Unit(name) => {
                let id = unit::find(&mut { reader }, model, name).ok()?;
                let doc = read(reader, &model.unit(id))?;
                self.removal_since_ms(Some((id, &doc)), doc.machine)
            }
            Entity::Machine(name) => {
                self.removal_since_ms(None, machine::find(&mut { reader }, model, name).ok()?)
            }
            Entity::Application(_) | Entity::Relation(_) | Entity::Model(_) => None,
        }
    }

    /// A cause that no document dates waits since its entity is being removed, or since its relation is to be left.
    pub fn dated(&self, one: Cause) -> Cause {
        let since_ms = one
            .since_ms
            .or_else(|| self.removal_since_ms_by_name(&one.entity))
            .or_else(|| self.left_ms(&one));
        one.since(since_ms)
    }

    /// Since when the first relation that this is about is to be left.
    fn left_ms(&self, one: &Cause) -> Option<i64> {
        let relation = match (&one.duty, &one.entity) {
            (Duty::LeaveScopes { relations } | Duty::Terminate { relations }, _) => relations.first()?,
            (_, Entity::Relation(relation)) => relation,
            _ => return None,
        };
        let id = read(self.reader, &self.model.relation_key(&relation.ends))?;
        let suspended = || Some(read(self.reader, &self.model.relation_suspended(id))?.since_ms);
        self.broken_ms(id).or_else(suspended)
    }

    fn time<T: Document>(&self, key: &Key<T>) -> Option<i64> {
        Some(self.at(self.reader.get(key.text())?.revision))
    }

    /// A revision that is not noted yet was committed just now.
    fn at(&self, revision: Revision) -> i64 {
        self.commit_times.time(revision).unwrap_or(self.now_ms)
    }

    fn last_work_ms(&self, id: Uuid) -> Option<i64> {
        self.time(&self.model.replica(id))
    }

    /// None: the work follows what the unit did last.
    fn change_ms(&self, id: Uuid, doc: &UnitDoc, operation: &Operation) -> Option<i64> {
        let (model, application) = (self.model, doc.application);
        match operation {
            Operation::InstallCharm(_) | Operation::Hook(Hook::UpgradeCharm) => {
                self.time(&model.application_charm(application))
            }
            Operation::Hook(Hook::ConfigChanged(_)) => {
                read(self.reader, &model.replica(id))?.local.config?;
                let charm = self.time(&model.application_charm(application));
                charm.max(self.time(&model.application_config(application)))
            }
            Operation::Hook(Hook::LeaderElected { .. }) => self.time(&model.leader(application)),
            Operation::Hook(Hook::Stop | Hook::Remove) => self.last_work_ms(id).max(self.going_ms(id, doc)),
            Operation::Hook(Hook::Relation { relation, event, .. }) => {
                let relation = relation_of_number(self.reader, model, *relation)?;
                let leaves = matches!(event, RelationEvent::Departed { .. } | RelationEvent::Broken);
                let going = || self.going_ms(id, doc).filter(|_| leaves);
                self.relation_ms(relation, event).or_else(going)
            }
            Operation::EnterScope { uuid, .. } => Some(read(self.reader, &model.relation(*uuid))?.created_ms),
            Operation::LeaveScope { uuid, .. } => self.broken_ms(*uuid).or_else(|| self.going_ms(id, doc)),
            Operation::Action { id, .. } => Some(read(self.reader, &model.action(*id))?.enqueued_ms),
            Operation::Hook(Hook::Install | Hook::Start { .. } | Hook::UpdateStatus)
            | Operation::Resync
            | Operation::SetDead => None,
        }
    }

    /// Since when the unit is on its way out.
    fn going_ms(&self, id: Uuid, doc: &UnitDoc) -> Option<i64> {
        let model = self.model;
        let application = model.application_life(doc.application);
        self.ended_ms(&[model.unit_life(id), application, model.machine_life(doc.machine)])
    }

    fn relation_ms(&self, relation: Uuid, event: &RelationEvent) -> Option<i64> {
        let model = self.model;
        match event {
            RelationEvent::Created => Some(read(self.reader, &model.relation(relation))?.created_ms),
            RelationEvent::Joined { unit, .. } => {
                let all = self.reader.scan(&model.scopes(relation), "", usize::MAX);
                let id = find_unit(self.reader, model, &unit.to_string()).ok()?.0;
                let entry = all.iter().find(|stored| last_id(&stored.key) == Some(id))?;
                Some(self.at(entry.revision))
            }
            RelationEvent::Changed { unit, .. } => {
                self.time(&model.bag(relation, self.owner(relation, &unit.to_string())?))
            }
            RelationEvent::ApplicationChanged { application, .. } => {
                self.time(&model.bag(relation, self.owner(relation, application)?))
            }
            RelationEvent::Departed { unit, .. } => self.broken_ms(relation).or_else(|| {
                let gone = self.owner(relation, &unit.to_string())?;
                self.ended_ms(&[model.unit_life(gone)]).or_else(|| self.time(&model.tombstone(gone)))
            }),
            RelationEvent::Broken => self.broken_ms(relation),
        }
    }

    /// Whose bag it is, by name: of a unit that is gone too, while the relation is there.
    fn owner(&self, relation: Uuid, name: &str) -> Option<Uuid> {
        let bags = read_all::<BagDoc>(self.reader, &self.model.bags(relation));
        bags.into_iter().find(|(_, bag)| bag.owner == name).and_then(|(key, _)| last_id(&key))
    }

    fn broken_ms(&self, relation: Uuid) -> Option<i64> {
        let doc = read(self.reader, &self.model.relation(relation))?;
        let mut lives = vec![self.model.relation_life(relation)];
        lives.extend(doc.sides.iter().map(|side| self.model.application_life(side.application)));
        self.ended_ms(&lives)
    }

    /// When the first of these lives that is over ended.
    fn ended_ms(&self, lives: &[Key<Life>]) -> Option<i64> {
        let over = lives.iter().filter(|key| read(self.reader, *key).is_some_and(|life| life != Life::Alive));
        over.filter_map(|key| self.time(key)).min()
    }
}
