//! Invariants that the documents of a model satisfy after every commit (spec/invariants.md I13, I14, I18 to
//! I23).
//!
//! The module reads a whole model and never writes. Called by `pintle-controller check`, the simulator, the model
//! checker and the tests of `state`; each violation is one line for people.

use crate::charm::Scope;
use crate::documents::draft::{Key, Reader, read, read_all};
use crate::documents::effective_life;
use crate::documents::json_text::Document;
use crate::documents::prelude::{
    ActionDoc, ApplicationDoc, ArchiveUse, GLOBAL, KeyParts, Kind, LeaderDoc, MachineDoc, MachineStorageDoc,
    Model, OpenPortsDoc, OwnedSecretsDoc, RelationDoc, ScopeDoc, StorageDoc, UnitDoc, UnitStorageDoc,
    last_id, last_number,
};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::status::ActionStatus;
use crate::terms::storage::{StorageId, is_location};
use std::collections::{BTreeMap, BTreeSet};

/// The invariants that the documents of one model violate, one line each; empty if all hold.
pub fn violations(reader: &dyn Reader, model: Model) -> Vec<String> {
    let mut check = Check { reader, model, violations: Vec::new() };
    check.machines();
    check.applications();
    check.units();
    check.relations();
    check.scopes();
    check.indexes();
    check.owned();
    check.storage();
    check.violations
}

/// The ids in a key.
fn ids(key: &str) -> Vec<Uuid> {
    KeyParts::of(key).map_or(Vec::new(), |parts| parts.ids())
}

struct Check<'a> {
    reader: &'a dyn Reader,
    model: Model,
    violations: Vec<String>,
}

/// A document.
struct Entry<T> {
    key: String,
    /// The last id of the key.
    id: Uuid,
    doc: T,
}

impl Check<'_> {
    /// All documents of one kind.
    fn all<T: Document>(&self, kind: Kind) -> Vec<Entry<T>> {
        let documents = read_all(self.reader, &self.model.prefix(kind));
        documents
            .into_iter()
            .filter_map(|(key, doc)| last_id(&key).map(|id| Entry { key, id, doc }))
            .collect()
    }

    /// The keys of all documents of one kind, with the last id of each.
    fn keys(&self, kind: Kind) -> Vec<(String, Uuid)> {
        let stored = self.reader.scan(&self.model.prefix(kind), "", usize::MAX);
        stored.into_iter().filter_map(|s| last_id(&s.key).map(|id| (s.key, id))).collect()
    }

    fn get<T: Document>(&self, key: &Key<T>) -> Option<T> {
        read(self.reader, key)
    }

    /// Whether the document of `kind` with this id exists.
    fn exists(&self, kind: Kind, id: Uuid) -> bool {
        let mut key = self.model.prefix(kind);
        id.append_to(&mut key);
        self.reader.get(&key).is_some()
    }

    /// Whether any key exists below `prefix`.
    fn has_any(&self, prefix: &str) -> bool {
        !self.reader.scan(prefix, "", 1).is_empty()
    }

    /// Records a violation unless `holds`.
    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(what());
        }
    }

    /// Records a violation unless the document of `key` is `expected`.
    fn require_document<T: Document + PartialEq>(&mut self, key: &Key<T>, expected: &T) {
        let exists = self.get(key).is_some_and(|value| value == *expected);
        self.require(exists, || format!("I22: {key} is missing or refers to another document"));
    }

    fn machines(&mut self) {
        for Entry { id, doc, .. } in self.all::<MachineDoc>(Kind::Machine) {
            self.require_document(&self.model.machine_name(&doc.name), &id);
            let life = self.get(&self.model.machine_life(id));
            self.require(life.is_some(), || format!("I22: machine {} has no life", doc.name));
            let empty = !self.has_any(&self.model.machine_units(id));
            self.require(life != Some(Life::Dead) || empty, || {
                format!("I20: machine {} is Dead but has units assigned", doc.name)
            });
        }
    }

    fn applications(&mut self) {
        for Entry { id, doc, .. } in self.all::<ApplicationDoc>(Kind::Application) {
            self.require_document(&self.model.application_name(&doc.name), &id);
            let life = self.get(&self.model.application_life(id));
            let is_stored_life = matches!(life, Some(Life::Alive | Life::Dying));
            self.require(is_stored_life, || {
                format!("application {} is {life:?}, expected Alive or Dying", doc.name)
            });
            let held = self.has_any(&self.model.units_of(id)) || self.has_any(&self.model.relations_of(id));
            self.require(life != Some(Life::Dying) || held, || {
                format!("I19: application {} is Dying but nothing refers to it", doc.name)
            });
            let charm = self.get(&self.model.application_charm(id));
            self.require(charm.is_some(), || format!("I22: application {} has no charm", doc.name));
            let used = charm.iter().flat_map(|charm| {
                charm.previous.iter().chain([&charm.sha256]).chain(charm.resources.digests())
            });
            for sha256 in used {
                self.archive(id, &doc.name, sha256);
            }
        }
    }

    fn units(&mut self) {
        for Entry { id, doc, .. } in self.all::<UnitDoc>(Kind::Unit) {
            let model = self.model;
            let name = doc.name.clone();
            self.require_document(&model.unit_name(&name), &id);
            self.require_document(&model.unit_of(doc.application, id), &());
            self.require_document(&model.machine_unit(doc.machine, id), &());
            let application = self.get(&model.application(doc.application));
            let named = application.is_some_and(|application| application.name == name.application);
            self.require(named, || {
                format!("I22: unit {name} does not belong to the application of its name")
            });
            let machine = self.get(&model.machine(doc.machine)).is_some();
            self.require(machine, || format!("I22: unit {name} has no machine"));
            if let Some(principal) = doc.principal {
                self.subordinate(principal, id, &doc);
            }
            let statuses = self.get(&model.unit_status(id)).and(self.get(&model.agent_status(id)));
            self.require(statuses.is_some(), || format!("unit {name} has no status"));
            let life = self.get(&model.unit_life(id));
            self.require(life.is_some(), || format!("I22: unit {name} has no life"));
            let runs = self.get(&model.replica(id)).and_then(|replica| replica.assigned_archive);
            if let Some(sha256) = runs {
                self.archive(id, &name.to_string(), &sha256);
            }
            let held = self.has_any(&model.scopes_of(id)) || self.has_any(&model.subordinates(id));
            self.require(life != Some(Life::Dead) || !held, || {
                format!("I20: unit {name} is Dead but is in a scope or has subordinates")
            });
        }
    }

    /// The archive that an application or a unit uses exists, and its use is recorded.
    fn archive(&mut self, owner: Uuid, name: &str, sha256: &str) {
        let archive = self.get(&GLOBAL.archive(sha256)).is_some();
        self.require(archive, || format!("I22: charm archive {sha256} of {name} does not exist"));
        let archive_use = ArchiveUse { sha256: sha256.to_owned(), model: self.model, owner };
        self.require_document(&GLOBAL.archive_use(&archive_use), &());
    }

    /// A subordinate is on the machine of its principal, is the only unit of its application there, and is
    /// never Alive without its principal.
    fn subordinate(&mut self, principal: Uuid, id: Uuid, doc: &UnitDoc) {
        let (model, name) = (self.model, &doc.name);
        self.require_document(&model.subordinate(principal, doc.application, id), &());
        let Some(principal_doc) = self.get(&model.unit(principal)) else {
            self.violations.push(format!("I22: unit {name} has no principal"));
            return;
        };
        let beside_principal = principal_doc.principal.is_none() && principal_doc.machine == doc.machine;
        self.require(beside_principal, || {
            format!("I22: unit {name} is not on the machine of a principal unit")
        });
        let others = self.reader.scan(&model.subordinates_of(principal, doc.application), "", 2).len();
        self.require(others == 1, || {
            format!("unit {} has {others} subordinates of the application of {name}", principal_doc.name)
        });
        let [own_alive, principal_alive] = [(id, doc), (principal, &principal_doc)]
            .map(|(id, doc)| self.effective_life(id, doc) == Life::Alive);
        self.require(principal_alive || !own_alive, || {
            format!("I23: unit {name} is Alive but its principal {} is not", principal_doc.name)
        });
        let ends = [doc.application, principal_doc.application];
        let related = read_all::<RelationDoc>(self.reader, &model.prefix(Kind::Relation)).iter().any(
            |(key, relation)| {
                let life = last_id(key).and_then(|id| self.get(&model.relation_life(id)));
                let container = relation.scope == Scope::Container && life == Some(Life::Alive);
                container && ends.iter().all(|end| relation.end_of(*end).is_some())
            },
        );
        self.require(related || !own_alive, || {
            format!("I23: unit {name} is Alive but no relation to {} is", principal_doc.name.application)
        });
    }

    fn effective_life(&self, id: Uuid, doc: &UnitDoc) -> Life {
        effective_life::unit_life_of(&mut { self.reader }, self.model, id, doc)
    }

    fn relations(&mut self) {
        for Entry { id, doc, .. } in self.all::<RelationDoc>(Kind::Relation) {
            let model = self.model;
            let ends = doc.end_names();
            self.require_document(&model.relation_key(&ends), &id);
            let own = self.get(&model.relation_life(id));
            let is_stored_life = matches!(own, Some(Life::Alive | Life::Dying));
            self.require(is_stored_life, || format!("relation {ends} is {own:?}, expected Alive or Dying"));
            for end in &doc.ends {
                self.require_document(&model.relation_of(end.application, id), &());
                let application = self.get(&model.application(end.application)).is_some();
                self.require(application, || format!("I22: relation {ends} has an end without application"));
                let bag = self.get(&model.bag(id, end.application)).is_some();
                self.require(bag, || {
                    format!("relation {ends} has no bag for application {}", end.application_name)
                });
            }
            if let Some(subordinate_link) = &doc.subordinate_link {
                let alive = own == Some(Life::Alive);
                let index = self.get(&model.relation_of_link(subordinate_link, id)).is_some();
                self.require(alive == index, || {
                    format!(
                        "I22: relation {ends} is {own:?}, which contradicts the index of subordinate links"
                    )
                });
            }
            let life = effective_life::relation_life_of(&mut { self.reader }, model, id, &doc);
            let in_batches = doc
                .ends
                .iter()
                .any(|end| self.get(&model.application_relation_removal(end.application)).is_some());
            let held = life == Life::Alive || in_batches || self.has_any(&model.scopes(id));
            self.require(held, || format!("I18: relation {ends} is {life} but no unit is in its scope"));
        }
    }

    fn scopes(&mut self) {
        let model = self.model;
        for Entry { key, id: unit, doc: entry } in self.all::<ScopeDoc>(Kind::Scope) {
            let [relation, container, _] = ids(&key)[..] else {
                self.violations.push(format!("{key} is not the key of a scope"));
                continue;
            };
            self.require_document(&model.scope_of(unit, relation), &());
            let doc = self.get(&model.unit(unit));
            let same = |doc: &UnitDoc| doc.name == entry.unit && doc.application == entry.application;
            self.require(doc.as_ref().is_some_and(same), || {
                format!("I22: {} is in a scope but does not exist", entry.unit)
            });
            let related = self.get(&model.relation(relation));
            self.require(related.is_some(), || {
                format!("I22: {} is in the scope of a relation that does not exist", entry.unit)
            });
            let part = related.as_ref().zip(doc.as_ref());
            let part = part.is_none_or(|(related, doc)| doc.takes_part_in(related));
            self.require(part, || {
                format!("I22: {} is in the scope of a relation to which it does not belong", entry.unit)
            });
            let own = doc.zip(related).map(|(doc, related)| match (related.scope, doc.principal) {
                (Scope::Global, _) => Uuid(0),
                (Scope::Container, principal) => principal.unwrap_or(unit),
            });
            self.require(own.is_none_or(|own| own == container), || {
                format!("I31: {} is in the container of another principal", entry.unit)
            });
            let bag = self.get(&model.bag(relation, unit));
            let owner = Owner::Unit(entry.unit.clone());
            let settled = bag.is_some_and(|bag| bag.counter >= entry.incarnation && bag.owner == owner);
            self.require(settled, || format!("I13: {} is in a scope without a settings bag", entry.unit));
        }
        let of = |key: &str| ids(key).first().copied().unwrap_or_default();
        let exists: BTreeSet<(Uuid, Uuid)> =
            self.keys(Kind::Scope).iter().map(|(key, unit)| (*unit, of(key))).collect();
        for (key, relation) in self.keys(Kind::ScopeOf) {
            let scope = exists.contains(&(of(&key), relation));
            self.require(scope, || format!("I22: {key} refers to no scope"));
        }
        for (key, _) in self.keys(Kind::Bag) {
            let relation = of(&key);
            let held = self.get(&model.relation(relation)).is_some();
            let leftover = self.get(&model.cleanup(relation)).is_some();
            self.require(held || leftover, || format!("I14: {key} belongs to no relation and no cleanup"));
        }
    }

    /// Every index entry and every name refers to an existing document.
    fn indexes(&mut self) {
        let model = self.model;
        for (index, kind) in [
            (Kind::UnitOf, Kind::Unit),
            (Kind::UnitOn, Kind::Unit),
            (Kind::Subordinate, Kind::Unit),
            (Kind::RelationOf, Kind::Relation),
            (Kind::RelationSuspended, Kind::Relation),
            (Kind::SubordinateLink, Kind::Relation),
            (Kind::UnitLife, Kind::Unit),
            (Kind::MachineLife, Kind::Machine),
            (Kind::MachineInstance, Kind::Machine),
            (Kind::ProvisioningError, Kind::Machine),
            (Kind::ApplicationLife, Kind::Application),
            (Kind::RelationLife, Kind::Relation),
        ] {
            for (key, id) in self.keys(index) {
                let exists = self.exists(kind, id);
                self.require(exists, || format!("I22: {key} refers to no {kind}"));
            }
        }
        for (names, kind) in [
            (Kind::UnitName, Kind::Unit),
            (Kind::MachineName, Kind::Machine),
            (Kind::ApplicationName, Kind::Application),
            (Kind::RelationKey, Kind::Relation),
        ] {
            for (key, id) in read_all::<Uuid>(self.reader, &model.prefix(names)) {
                let exists = self.exists(kind, id);
                self.require(exists, || format!("I26: {key} refers to no {kind}"));
            }
        }
        for (key, id) in self.keys(Kind::Tombstone) {
            let recreated = [Kind::Unit, Kind::Machine, Kind::Application, Kind::Relation];
            let recreated = recreated.iter().any(|kind| self.exists(*kind, id));
            self.require(!recreated, || format!("I17: {key}: the removed entity exists"));
        }
        for (key, unit) in self.keys(Kind::Recall) {
            let tombstone = self.get(&model.tombstone(unit)).is_some();
            self.require(tombstone, || format!("{key}: the recall is not confirmed and has no tombstone"));
        }
    }

    /// Each instance of storage is in the indexes of its machine and its unit, and these contain no other ones.
    fn storage(&mut self) {
        let model = self.model;
        let all: BTreeMap<StorageId, StorageDoc> =
            read_all::<StorageDoc>(self.reader, &model.prefix(Kind::Storage))
                .into_iter()
                .filter_map(|(key, doc)| Some((KeyParts::of(&key)?.rest.parse().ok()?, doc)))
                .collect();
        for (id, doc) in &all {
            let on_machine = self.get(&model.machine_storage(doc.machine)).unwrap_or_default();
            let is_on_machine =
                self.exists(Kind::Machine, doc.machine) && on_machine.get(id) == Some(&doc.life);
            self.require(is_on_machine, || format!("I22: storage {id} is not in the index of its machine"));
            let Some(attachment) = &doc.attachment else { continue };
            let of_unit = self.get(&model.unit_storage(attachment.unit)).unwrap_or_default();
            self.require(of_unit.contains(id), || {
                format!("I22: storage {id} is not in the index of its unit")
            });
            let is_usable = attachment.location.as_deref().is_none_or(is_location);
            self.require(is_usable, || format!("I30: the location of storage {id} is no path"));
        }
        for Entry { key, id: unit, doc } in self.all::<UnitStorageDoc>(Kind::StorageOf) {
            for id in doc {
                let attachment = all.get(&id).and_then(|doc| doc.attachment.as_ref());
                let is_attached = attachment.is_some_and(|attachment| attachment.unit == unit);
                self.require(is_attached, || format!("I22: {key} has storage {id}, which is not attached"));
            }
        }
        for Entry { key, id: machine, doc } in self.all::<MachineStorageDoc>(Kind::StorageOn) {
            for id in doc.keys() {
                let is_here = all.get(id).is_some_and(|doc| doc.machine == machine);
                self.require(is_here, || format!("I22: {key} has storage {id}, which is not on the machine"));
            }
        }
    }

    /// The documents of a unit or an application are deleted with it.
    fn owned(&mut self) {
        let model = self.model;
        let of_units = [
            Kind::UnitStatus,
            Kind::AgentStatus,
            Kind::WorkloadVersion,
            Kind::Session,
            Kind::Replica,
            Kind::Resolved,
            Kind::SecretsConsumed,
            Kind::StorageOf,
            Kind::Ports,
        ];
        let of_applications = [
            Kind::ApplicationCharm,
            Kind::ApplicationConfig,
            Kind::ApplicationExposed,
            Kind::ApplicationTrust,
            Kind::ApplicationStorage,
            Kind::ApplicationStatus,
            Kind::LeaderSettings,
            Kind::ApplicationRelationRemoval,
        ];
        let owned = of_units.map(|kind| (kind, Kind::Unit)).into_iter();
        for (kind, owner) in owned.chain(of_applications.map(|kind| (kind, Kind::Application))) {
            for (key, id) in self.keys(kind) {
                let exists = self.exists(owner, id);
                self.require(exists, || format!("I22: {key} belongs to no existing entity"));
            }
        }
        for (key, id) in self.keys(Kind::Constraints) {
            let exists = id == model.0 || self.exists(Kind::Application, id);
            self.require(exists, || format!("I22: {key} belongs to no existing entity"));
        }
        for (key, id) in self.keys(Kind::StatusLog) {
            let exists =
                [Kind::Unit, Kind::Application, Kind::Machine].iter().any(|kind| self.exists(*kind, id));
            self.require(exists, || format!("I22: {key} belongs to no existing entity"));
        }
        for Entry { id: application, doc: grant, .. } in self.all::<LeaderDoc>(Kind::Leader) {
            let holder = self.get(&model.unit(grant.holder));
            let own = holder.is_some_and(|unit| unit.application == application);
            let dead = self.get(&model.unit_life(grant.holder)) == Some(Life::Dead);
            self.require(own && !dead, || {
                format!("{} is the leader but is Dead or of another application", grant.holder_name)
            });
        }
        for Entry { key, doc: owned, .. } in self.all::<OwnedSecretsDoc>(Kind::SecretsOf) {
            let differs = owned.into_iter().find(|(id, entry)| {
                let secret = self.get(&model.secret(*id));
                secret.is_none_or(|secret| {
                    (&secret.label, secret.content_bytes()) != (&entry.label, entry.bytes)
                })
            });
            self.require(differs.is_none(), || format!("I22: {key} differs from a secret"));
        }
        for Entry { key, id, doc: open } in self.all::<OpenPortsDoc>(Kind::PortsOn) {
            let same = self.get(&model.ports(id)).is_some_and(|ports| ports == open.ports);
            self.require(same, || format!("I22: {key} differs from the open ports of the unit"));
        }
        for (key, status) in read_all::<ActionStatus>(self.reader, &model.prefix(Kind::ActionOf)) {
            let action = last_number(&key).and_then(|id| self.get(&model.action(id)));
            let waits = action.is_some_and(|doc: ActionDoc| {
                ids(&key) == [doc.unit] && doc.completed_ms.is_none() && doc.status == status
            });
            self.require(waits, || format!("I22: {key} refers to no unfinished action"));
        }
        for Entry { id, doc, .. } in self.all::<UnitDoc>(Kind::Unit) {
            let replica = self.get(&model.replica(id));
            let same =
                replica.is_none_or(|replica| replica.local.unit == id && replica.local.outbox.is_empty());
            let name: &UnitName = &doc.name;
            self.require(same, || {
                format!("the replica of {name} belongs to another unit, or contains unsent records")
            });
        }
    }
}
