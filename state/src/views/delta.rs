//! What of one unit's view changed at one revision, from the keys written at it: one change for each thing that is
//! different now, nothing for a unit that is not concerned (design 9). The fold of deltas is the full view.

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::keys::{BagDoc, Kind, Model, OpenPortsDoc, Parts, RelationDoc, last_id};
use crate::lifecycle::relation;
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::unit::snapshot::{Change, RelationHead};
use crate::views::inline_settings::{self, Place};
use crate::views::view::{Seen, Shown};
use std::collections::{BTreeMap, BTreeSet};

/// What to look at again.
#[derive(Debug, Default, PartialEq)]
pub struct AffectedParts {
    model: bool,
    unit: bool,
    charm: bool,
    config: bool,
    leader: bool,
    resolved: bool,
    application_status: bool,
    removed: bool,
    actions: BTreeSet<u64>,
    relations: BTreeSet<Uuid>,
    applications: BTreeSet<Uuid>,
    /// Relation and container and unit, as in the key.
    scopes: BTreeSet<(Uuid, Uuid, Uuid)>,
    /// Units and machines that may be going now, with whoever goes with them.
    going: BTreeSet<Uuid>,
    /// Keys of container relations: a line of them may have ended.
    containers: BTreeSet<String>,
    bags: BTreeSet<(Uuid, Uuid)>,
    statuses: BTreeSet<Uuid>,
    /// Names whose holder may be gone.
    names: BTreeSet<UnitName>,
    ports: BTreeSet<Uuid>,
}

/// The changes of the view at the reader's revision. `at` shows the documents as of it, `shown` what the unit was
/// shown up to the revision before; the caller then lets `shown` take the answer.
pub fn delta(at: &dyn Reader, shown: &Shown, touched: &AffectedParts) -> Vec<Change> {
    let model = Model(shown.model.uuid);
    let unit = shown.unit.uuid;
    let Some(doc) = read(at, &model.unit(unit)) else {
        return if touched.removed { vec![Change::Removed] } else { Vec::new() };
    };
    let seen = Seen { reader: at, model, unit, doc: &doc };
    let mut changes = Vec::new();
    if touched.model {
        let view = crate::lifecycle::model::view(&mut { at }, model);
        changes.extend(view.filter(|view| *view != shown.model).map(Change::Model));
    }
    if touched.unit || !touched.applications.is_empty() {
        changes.extend(seen.unit_view().filter(|view| *view != shown.unit).map(Change::Unit));
    }
    if touched.charm {
        changes.extend(seen.charm().map(Change::Charm));
    }
    if touched.config {
        changes
            .push(Change::Config(read(at, &model.application_config(doc.application)).unwrap_or_default()));
    }
    if touched.leader {
        changes.push(Change::Leader(seen.leader()));
    }
    if touched.resolved {
        changes.push(Change::Resolved(read(at, &model.resolved(unit))));
    }
    if touched.application_status {
        changes.push(Change::ApplicationStatus(read(at, &model.application_status(doc.application))));
    }
    changes.extend(touched.actions.iter().map(|id| seen.action(*id)));
    let heads = relations(&seen, shown, touched, &mut changes);
    settings(&seen, shown, &heads, &mut changes);
    statuses(&seen, shown, touched, &heads, &mut changes);
    ports(&seen, shown, touched, &mut changes);
    changes
}

/// Sorts the keys by what of the view they can be about; none = nothing of it.
pub fn touched<'k>(shown: &Shown, changed_keys: impl Iterator<Item = &'k str>) -> Option<AffectedParts> {
    let (unit, application) = (shown.unit.uuid, shown.unit.application);
    // what it is shown of itself depends on its principal, or on its subordinates
    let has_others = shown.unit.principal.is_some() || !shown.unit.subordinates.is_empty();
    let model = shown.model.uuid.to_string();
    let mut touched = AffectedParts::default();
    for key in changed_keys {
        let Some(parts) = Parts::of(key).filter(|parts| parts.model == model) else { continue };
        let (kind, ids) = (parts.kind, parts.ids());
        let own = ids.first() == Some(&unit);
        match (kind, &ids[..]) {
            (Kind::UnitLife | Kind::MachineLife, [id]) => drop(touched.going.insert(*id)),
            (Kind::Container, _) => drop(touched.containers.insert(key.to_owned())),
            _ => {}
        }
        match (kind, &ids[..]) {
            (Kind::Model | Kind::ModelConfig, _) => touched.model = true,
            (Kind::Tombstone, _) if own => touched.removed = true,
            (Kind::Unit | Kind::UnitLife, _) if own || has_others => touched.unit = true,
            (Kind::Subordinate, _) if own => touched.unit = true,
            (Kind::Container, [subordinate, principal])
                if [subordinate, principal].contains(&&application) =>
            {
                touched.unit = true;
            }
            // `unit-on`: whether there is room for a subordinate
            (Kind::Machine | Kind::MachineLife | Kind::UnitOn, _) => touched.unit = true,
            (Kind::Resolved, _) if own => touched.resolved = true,
            (Kind::ActionOf, _) if own => {
                touched.actions.extend(parts.number());
            }
            (Kind::ApplicationCharm, [id]) if *id == application => touched.charm = true,
            (Kind::ApplicationConfig, [id]) if *id == application => touched.config = true,
            (Kind::ApplicationStatus, [id]) if *id == application => touched.application_status = true,
            (Kind::ApplicationLife, [id]) => drop(touched.applications.insert(*id)),
            (Kind::Leader, [id]) if *id == application => touched.leader = true,
            (Kind::RelationOf, [id, relation]) if *id == application => {
                touched.relations.insert(*relation);
            }
            (Kind::RelationLife | Kind::RelationSuspended, [relation]) => {
                touched.relations.insert(*relation);
            }
            // which of these it is shut out of
            (Kind::Session, _) if own => {
                let bringing = shown.relations.values().filter(|head| head.brings);
                touched.relations.extend(bringing.map(|head| head.uuid));
            }
            // what is new to the unit is sent whole
            (Kind::Scope, [relation, container, member]) if shown.relation(*relation).is_some() => {
                touched.scopes.insert((*relation, *container, *member));
            }
            (Kind::Bag, [relation, owner]) if shown.relation(*relation).is_some() => {
                touched.bags.insert((*relation, *owner));
            }
            (Kind::UnitStatus, [id]) => drop(touched.statuses.insert(*id)),
            (Kind::UnitName, _) => touched.names.extend(parts.rest.parse::<UnitName>().ok()),
            (Kind::PortsOn, [_, id]) => drop(touched.ports.insert(*id)),
            _ => {}
        }
    }
    (touched != AffectedParts::default()).then_some(touched)
}

/// Relations that came, went or changed; then members and bags of those that were there. Answers the heads as they
/// are now.
fn relations(
    seen: &Seen,
    shown: &Shown,
    touched: &AffectedParts,
    changes: &mut Vec<Change>,
) -> BTreeMap<RelationNumber, RelationHead> {
    let (mut heads, own) = (shown.relations.clone(), seen.doc.application);
    let mut again: BTreeSet<Uuid> = touched.relations.clone();
    for head in shown.relations.values() {
        let ends = [own, head.remote_application_uuid];
        if ends.iter().any(|id| touched.applications.contains(id)) {
            again.insert(head.uuid);
        }
    }
    let mut whole = BTreeSet::new();
    for id in again {
        let relation = read(seen.reader, &seen.model.relation(id));
        match (
            shown.relation(id),
            relation.filter(|doc: &RelationDoc| relation::includes_unit(doc, seen.doc)),
        ) {
            (Some((number, before)), Some(doc)) => {
                let head = seen.head(id, &doc);
                if head != *before {
                    changes.push(Change::Relation { relation: number, head: Some(head.clone()) });
                    heads.insert(number, head);
                }
            }
            (Some((number, _)), None) => {
                changes.push(Change::Relation { relation: number, head: None });
                heads.remove(&number);
            }
            (None, Some(doc)) => {
                changes.extend(seen.full_relation(id, &doc));
                heads.insert(doc.number, seen.head(id, &doc));
                whole.insert(id);
            }
            (None, None) => {}
        }
    }
    let known = |id: &Uuid| {
        let there = |(_, head): &(&RelationNumber, &RelationHead)| head.uuid == *id && !whole.contains(id);
        heads.iter().find(there)
    };
    let mut scopes = touched.scopes.clone();
    let ends = |id: &Uuid| read(seen.reader, &seen.model.application_life(*id)) != Some(Life::Alive);
    let unbound = |key: &String| seen.reader.get(key).is_none();
    if touched.applications.iter().any(ends) || touched.containers.iter().any(unbound) {
        heads.values().for_each(|head| scopes.extend(seen.going(head, None)));
    } else {
        for unit in touched.going.iter().flat_map(|id| seen.with(*id)) {
            heads.values().for_each(|head| scopes.extend(seen.going(head, Some(unit))));
        }
    }
    for (id, container, member) in &scopes {
        let Some((number, head)) = known(id) else { continue };
        if !seen.shows(head.scope, *container) {
            continue;
        }
        let entry = seen.member(*id, *container, *member);
        // Who left is told by the bag, which stays until the relation is removed.
        let bag = read::<BagDoc>(seen.reader, &seen.model.bag(*id, *member));
        if let Some(unit) =
            bag.and_then(|bag| bag.owner.parse().ok()).filter(|unit| seen.observes(head, unit))
        {
            let incarnation = entry.map(|entry| entry.incarnation);
            // who has left is told again: a controller before this one showed who was going until then
            let left = touched.scopes.contains(&(*id, *container, *member));
            if left || shown.members.get(&(*number, unit.clone())).copied() != incarnation {
                changes.push(Change::Member { relation: *number, unit, incarnation });
            }
        }
    }
    for (id, owner) in &touched.bags {
        let Some((number, head)) = known(id) else { continue };
        let bag = read(seen.reader, &seen.model.bag(*id, *owner));
        changes.extend(bag.and_then(|bag| seen.bag(*number, head, bag)));
    }
    heads
}

/// Bags that stay behind lose their values; other bags may come along, or stay behind, because of these.
fn settings(
    seen: &Seen,
    shown: &Shown,
    heads: &BTreeMap<RelationNumber, RelationHead>,
    changes: &mut Vec<Change>,
) {
    let moves = |change: &Change| matches!(change, Change::Bag { .. } | Change::Relation { head: None, .. });
    if !changes.iter().any(moves) {
        return;
    }
    let mut sizes = shown.sizes.clone();
    sizes.take(changes);
    let (before, now) = (shown.sizes.withheld(shown.bound), sizes.withheld(shown.bound));
    let sent: BTreeSet<Place> = changes.iter().filter_map(inline_settings::place).collect();
    for (number, owner) in before.symmetric_difference(&now).filter(|place| !sent.contains(*place)) {
        let head = heads.get(number).filter(|_| sizes.has(*number, owner));
        changes.extend(head.and_then(|head| seen.bag_of(head.uuid, *number, head, owner)));
    }
    inline_settings::omit_values(changes, &now);
}

/// Statuses of the units of the own application and of related ones.
fn statuses(
    seen: &Seen,
    shown: &Shown,
    touched: &AffectedParts,
    heads: &BTreeMap<RelationNumber, RelationHead>,
    changes: &mut Vec<Change>,
) {
    let own = (seen.doc.application, &seen.doc.name.application);
    let of = |heads: &BTreeMap<RelationNumber, RelationHead>| -> BTreeMap<Uuid, String> {
        let remote =
            heads.values().map(|head| (head.remote_application_uuid, head.remote_application.clone()));
        remote.chain([(own.0, own.1.clone())]).collect()
    };
    let (before, after) = (of(&shown.relations), of(heads));
    let units = |application: &Uuid| -> Vec<Uuid> {
        let index = read_all::<()>(seen.reader, &seen.model.units_of(*application));
        index.iter().filter_map(|(key, ())| last_id(key)).collect()
    };
    let mut again = touched.statuses.clone();
    for application in after.keys().filter(|id| !before.contains_key(id)) {
        again.extend(units(application));
    }
    for id in again {
        let doc = read(seen.reader, &seen.model.unit(id));
        if doc.is_some_and(|doc| after.contains_key(&doc.application)) {
            changes.extend(seen.status(id));
        }
    }
    let mut gone: BTreeSet<UnitName> = touched.names.clone();
    gone.retain(|name| {
        let was_shown = before.values().any(|application| *application == name.application);
        was_shown && read(seen.reader, &seen.model.unit_name(name)).is_none()
    });
    for application in before.keys().filter(|id| !after.contains_key(id)) {
        let docs = units(application).into_iter().filter_map(|id| read(seen.reader, &seen.model.unit(id)));
        gone.extend(docs.map(|doc| doc.name));
    }
    changes.extend(gone.into_iter().map(|unit| Change::Status { unit, status: None }));
}

/// What other units of the machine have open.
fn ports(seen: &Seen, shown: &Shown, touched: &AffectedParts, changes: &mut Vec<Change>) {
    for id in touched.ports.iter().filter(|id| **id != seen.unit) {
        let open = read::<OpenPortsDoc>(seen.reader, &seen.model.machine_port(seen.doc.machine, *id));
        let name = read(seen.reader, &seen.model.unit(*id)).map(|doc| doc.name);
        match (open, name) {
            (Some(open), _) => changes.push(Change::MachinePorts { unit: open.unit, ports: open.ports }),
            (None, Some(unit)) if shown.units_with_ports.contains(&unit) => {
                changes.push(Change::MachinePorts { unit, ports: BTreeMap::new() });
            }
            (None, _) => {}
        }
    }
    for unit in touched.names.intersection(&shown.units_with_ports) {
        if read(seen.reader, &seen.model.unit_name(unit)).is_none() {
            changes.push(Change::MachinePorts { unit: unit.clone(), ports: BTreeMap::new() });
        }
    }
}
