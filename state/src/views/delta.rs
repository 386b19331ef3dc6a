//! The changes of one unit's view by one or several revisions, computed from the keys that were written at them (design 9).
//!
//! There is one change for each part of the view that differs, and none for a unit that is not affected.
//! Applying all deltas in order to a full view gives the full view at the last revision. Called by the watches
//! of unit agents.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{
    BagDoc, KeyParts, Kind, Model, OpenPortsDoc, RelationDoc, UnitDoc, leader_settings_of, secret_of_key,
};
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::storage::StorageId;
use crate::unit::relation_view::RelationHead;
use crate::unit::snapshot::Change;
use crate::views::dependencies::{RelatedUnitsChange, UnitHosts, ViewUpdate};
use crate::views::inline_settings::{self, BagKey};
use crate::views::unit_view_reader::UnitViewReader;
use crate::views::view::{ScopeEntry, SentView};
use crate::views::{secrets, storage};
use std::collections::{BTreeMap, BTreeSet};

/// The parts of a view that a revision may have changed.
#[derive(Debug, Default, PartialEq)]
pub struct AffectedParts {
    model: bool,
    unit: bool,
    charm: bool,
    config: bool,
    trust: bool,
    leader: bool,
    leader_settings: bool,
    resolved: bool,
    application_status: bool,
    removed: bool,
    /// A secret that the unit may have been shown or will be.
    secrets: bool,
    storage: bool,
    actions: BTreeSet<u64>,
    relations: BTreeSet<Uuid>,
    applications: BTreeSet<Uuid>,
    scopes: BTreeSet<ScopeEntry>,
    /// Units and machines whose life changed; they and their dependents may be departing.
    departing: BTreeSet<Uuid>,
    /// Keys of subordinate links that were written: the last link of a sequence may have ended.
    subordinate_links: BTreeSet<String>,
    bags: BTreeSet<(Uuid, Uuid)>,
    statuses: BTreeSet<Uuid>,
    /// Units that were added to an application whose units are shown, or removed from it.
    units: BTreeSet<Uuid>,
    /// Unit names whose holder may have been removed.
    names: BTreeSet<UnitName>,
    ports: BTreeSet<Uuid>,
}

/// The changes of a view at the revision of the reader `at`. `shown` is what was sent up to the revision
/// before; `parts` are the affected parts, from [`affected_parts`]. The caller then applies the result to `shown`
/// ([`SentView::apply`]).
pub fn delta(at: &dyn Reader, shown: &SentView, parts: &AffectedParts) -> ViewUpdate {
    let model = Model(shown.model.uuid);
    let unit = shown.unit.uuid;
    let mut update = ViewUpdate::default();
    let changes = &mut update.changes;
    let Some(doc) = read(at, &model.unit(unit)) else {
        changes.extend(parts.removed.then_some(Change::Removed));
        return update;
    };
    let view_reader = UnitViewReader { reader: at, model, unit, doc: &doc };
    if parts.model {
        let view = crate::lifecycle::model::model_view(&mut { at }, model);
        changes.extend(view.filter(|view| *view != shown.model).map(Change::Model));
    }
    if parts.unit || !parts.applications.is_empty() {
        let (view, dependencies) = view_reader.unit_view().unzip();
        changes.extend(view.filter(|view| *view != shown.unit).map(Change::Unit));
        update.unit_dependencies = dependencies;
    }
    if parts.charm {
        changes.extend(view_reader.charm().map(Change::Charm));
    }
    if parts.config {
        changes
            .push(Change::Config(read(at, &model.application_config(doc.application)).unwrap_or_default()));
    }
    if parts.trust {
        changes.push(Change::Trust(read(at, &model.application_trust(doc.application)).unwrap_or_default()));
    }
    if parts.leader {
        changes.push(Change::Leader(view_reader.leader()));
    }
    if parts.leader_settings {
        changes.push(Change::LeaderSettings(leader_settings_of(at, model, doc.application)));
    }
    if parts.resolved {
        changes.push(Change::Resolved(read(at, &model.resolved(unit))));
    }
    if parts.application_status {
        changes.push(Change::ApplicationStatus(read(at, &model.application_status(doc.application))));
    }
    if parts.secrets {
        let (after, dependencies) = view_reader.secrets();
        changes.extend(secrets::changes(&shown.secrets, &after));
        update.secret_dependencies = Some(dependencies);
    }
    if parts.storage {
        changes.extend(storage::changes(&shown.storage, &view_reader.storage()));
    }
    changes.extend(parts.actions.iter().map(|id| view_reader.action(*id)));
    let heads = relation_changes(&view_reader, shown, parts, changes);
    inline_settings_changes(&view_reader, shown, &heads, changes);
    update.related_units = status_changes(&view_reader, shown, parts, &heads, changes);
    port_changes(&view_reader, shown, parts, changes);
    update
}

/// The parts of a view that the written documents (key and new value) may have changed; none if they change nothing in
/// it. Which keys of other entities count is stated in [`crate::views::dependencies`].
pub fn affected_parts<'k>(
    shown: &SentView,
    changed: impl Iterator<Item = (&'k str, Option<&'k str>)>,
) -> Option<AffectedParts> {
    let (unit, application) = (shown.unit.uuid, shown.unit.application);
    let (of_unit, of_secrets) = (&shown.unit_dependencies, &shown.secret_dependencies);
    let model = shown.model.uuid.to_string();
    let mut affected = AffectedParts::default();
    for (key, value) in changed {
        let Some(key_parts) = KeyParts::of(key).filter(|key_parts| key_parts.model == model) else {
            continue;
        };
        let (kind, ids) = (key_parts.kind, key_parts.ids());
        let own = ids.first() == Some(&unit);
        match (kind, &ids[..]) {
            // a unit or a machine that is Alive is new: nothing departs
            (Kind::UnitLife | Kind::MachineLife, [id])
                if !is_alive(value) && shown.related_units.depend_on(*id) =>
            {
                affected.departing.insert(*id);
            }
            (Kind::SubordinateLink, _) => drop(affected.subordinate_links.insert(key.to_owned())),
            _ => {}
        }
        match (kind, &ids[..]) {
            (Kind::Model | Kind::ModelConfig, _) => affected.model = true,
            (Kind::Tombstone, _) if own => affected.removed = true,
            (Kind::Unit | Kind::UnitLife, [id]) if own || of_unit.units.contains(id) => affected.unit = true,
            (Kind::Subordinate, _) if own => affected.unit = true,
            (Kind::SubordinateLink, [subordinate, principal])
                if [subordinate, principal].contains(&&application) =>
            {
                affected.unit = true;
            }
            // `unit-on`: whether the machine has capacity for a subordinate
            (Kind::Machine | Kind::MachineLife | Kind::UnitOn, [id, ..]) if *id == of_unit.machine => {
                affected.unit = true;
            }
            (Kind::Resolved, _) if own => affected.resolved = true,
            (Kind::ActionOf, _) if own => {
                affected.actions.extend(key_parts.number());
            }
            (Kind::ApplicationCharm, [id]) if *id == application => affected.charm = true,
            (Kind::ApplicationConfig, [id]) if *id == application => affected.config = true,
            (Kind::ApplicationTrust, [id]) if *id == application => affected.trust = true,
            (Kind::ApplicationStatus, [id]) if *id == application => affected.application_status = true,
            (Kind::ApplicationLife, [id]) => drop(affected.applications.insert(*id)),
            (Kind::Leader, [id]) if *id == application => affected.leader = true,
            (Kind::LeaderSettings, [id]) if *id == application => affected.leader_settings = true,
            (Kind::StorageOf, _) if own => affected.storage = true,
            (Kind::Storage, _) => {
                let id = key_parts.rest.parse::<StorageId>().ok();
                affected.storage |= id.is_some_and(|id| shown.storage.contains_key(&id));
            }
            (Kind::SecretsOf, [owner]) => {
                affected.secrets |= [unit, application].contains(owner) || of_secrets.owners.contains(owner);
            }
            (Kind::SecretsConsumed, [id]) if *id == unit => affected.secrets = true,
            (Kind::Secret, _) => {
                affected.secrets |=
                    secret_of_key(key_parts.rest).is_some_and(|id| of_secrets.secrets.contains(&id));
            }
            (Kind::SecretTracker, _) => {
                affected.secrets |=
                    secret_of_key(key_parts.rest).is_some_and(|id| shown.secrets.contains_key(&id));
            }
            (Kind::Relation, [id]) => affected.secrets |= of_secrets.relations.contains(id),
            (Kind::RelationOf, [id, relation]) if *id == application => {
                affected.relations.insert(*relation);
            }
            (Kind::RelationLife | Kind::RelationSuspended, [relation])
                if shown.relation(*relation).is_some() =>
            {
                affected.relations.insert(*relation);
            }
            // relations whose re-entry is pending
            (Kind::Session, _) if own => {
                let creating = shown.relations.values().filter(|head| head.creates_subordinate);
                affected.relations.extend(creating.map(|head| head.uuid));
            }
            // a relation that is new to the unit is sent whole
            (Kind::Scope, [relation, container, member]) if shown.relation(*relation).is_some() => {
                affected.scopes.insert(ScopeEntry {
                    relation: *relation,
                    container: *container,
                    unit: *member,
                });
            }
            (Kind::Bag, [relation, owner]) if shown.relation(*relation).is_some() => {
                affected.bags.insert((*relation, *owner));
            }
            (Kind::UnitStatus, [id]) if shown.related_units.contains(*id) => {
                affected.statuses.insert(*id);
            }
            (Kind::UnitOf, [id, unit]) if shown.shows_units_of(*id) => drop(affected.units.insert(*unit)),
            (Kind::UnitName, _) => {
                let name = key_parts.rest.parse::<UnitName>().ok();
                affected.names.extend(name.filter(|name| shown.shows_unit(name)));
            }
            (Kind::PortsOn, [machine, id]) if *machine == of_unit.machine => {
                affected.ports.insert(*id);
            }
            _ => {}
        }
    }
    (affected != AffectedParts::default()).then_some(affected)
}

/// Whether a life that was written is Alive.
fn is_alive(value: Option<&str>) -> bool {
    value.is_some_and(|value| serde_json::from_str(value).is_ok_and(|life: Life| life == Life::Alive))
}

/// Adds the changes of relations (added, removed or changed), then of the members and bags of relations that
/// the unit has received before. Returns the current relation heads.
fn relation_changes(
    view_reader: &UnitViewReader,
    shown: &SentView,
    parts: &AffectedParts,
    changes: &mut Vec<Change>,
) -> BTreeMap<RelationNumber, RelationHead> {
    let (mut heads, own) = (shown.relations.clone(), view_reader.doc.application);
    let mut again: BTreeSet<Uuid> = parts.relations.clone();
    for head in shown.relations.values() {
        let ends = [own, head.remote_application_uuid];
        if ends.iter().any(|id| parts.applications.contains(id)) {
            again.insert(head.uuid);
        }
    }
    let mut whole = BTreeSet::new();
    for id in again {
        let relation = read(view_reader.reader, &view_reader.model.relation(id));
        match (shown.relation(id), relation.filter(|doc: &RelationDoc| view_reader.doc.takes_part_in(doc))) {
            (Some((number, before)), Some(doc)) => {
                let head = view_reader.head(id, &doc);
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
                changes.extend(view_reader.full_relation(id, &doc));
                heads.insert(doc.number, view_reader.head(id, &doc));
                whole.insert(id);
            }
            (None, None) => {}
        }
    }
    let known = |id: &Uuid| {
        let there = |(_, head): &(&RelationNumber, &RelationHead)| head.uuid == *id && !whole.contains(id);
        heads.iter().find(there)
    };
    let mut scopes = parts.scopes.clone();
    let ends =
        |id: &Uuid| read(view_reader.reader, &view_reader.model.application_life(*id)) != Some(Life::Alive);
    let is_link_ended = |key: &String| view_reader.reader.get(key).is_none();
    if parts.applications.iter().any(ends) || parts.subordinate_links.iter().any(is_link_ended) {
        heads.values().for_each(|head| scopes.extend(view_reader.departing_members(head, None)));
    } else {
        for unit in parts.departing.iter().flat_map(|id| view_reader.with_dependents(*id)) {
            heads.values().for_each(|head| scopes.extend(view_reader.departing_members(head, Some(unit))));
        }
    }
    for entered in &scopes {
        let Some((number, head)) = known(&entered.relation) else { continue };
        if !view_reader.is_container_visible(head.scope, entered.container) {
            continue;
        }
        let entry = view_reader.member(*entered);
        // The name of a departed member is in its bag, which stays until the relation is removed.
        let bag = read::<BagDoc>(view_reader.reader, &view_reader.model.bag(entered.relation, entered.unit));
        if let Some(Owner::Unit(unit)) = bag.map(|bag| bag.owner)
            && view_reader.observes(head, &unit)
        {
            let incarnation = entry.map(|entry| entry.incarnation);
            if shown.members.get(&(*number, unit.clone())).copied() != incarnation {
                changes.push(Change::Member { relation: *number, unit, incarnation });
            }
        }
    }
    for (id, owner) in &parts.bags {
        let Some((number, head)) = known(id) else { continue };
        let bag = read(view_reader.reader, &view_reader.model.bag(*id, *owner));
        changes.extend(bag.and_then(|bag| view_reader.bag(*number, head, bag)));
    }
    heads
}

/// Removes the values of bags that are omitted now, and adds the other bags that are newly inlined or omitted because
/// of these changes.
fn inline_settings_changes(
    view_reader: &UnitViewReader,
    shown: &SentView,
    heads: &BTreeMap<RelationNumber, RelationHead>,
    changes: &mut Vec<Change>,
) {
    let moves = |change: &Change| matches!(change, Change::Bag { .. } | Change::Relation { head: None, .. });
    if !changes.iter().any(moves) {
        return;
    }
    let mut sizes = shown.sizes.clone();
    sizes.apply(changes);
    let (before, now) = (shown.sizes.omitted(shown.inline_bytes_max), sizes.omitted(shown.inline_bytes_max));
    let sent: BTreeSet<BagKey> = changes.iter().filter_map(inline_settings::bag_key).collect();
    for (number, owner) in before.symmetric_difference(&now).filter(|key| !sent.contains(*key)) {
        let head = heads.get(number).filter(|_| sizes.contains(*number, owner));
        changes.extend(head.and_then(|head| view_reader.bag_of(head.uuid, *number, head, owner)));
    }
    inline_settings::omit_values(changes, &now);
}

/// Adds the statuses of the units of the own application and of related applications. Returns which units became related,
/// and which are no longer.
fn status_changes(
    view_reader: &UnitViewReader,
    shown: &SentView,
    parts: &AffectedParts,
    heads: &BTreeMap<RelationNumber, RelationHead>,
    changes: &mut Vec<Change>,
) -> RelatedUnitsChange {
    let own = (view_reader.doc.application, &view_reader.doc.name.application);
    let related = |heads: &BTreeMap<RelationNumber, RelationHead>| -> BTreeMap<Uuid, String> {
        let remote =
            heads.values().map(|head| (head.remote_application_uuid, head.remote_application.clone()));
        remote.chain([(own.0, own.1.clone())]).collect()
    };
    let (before, after) = (related(&shown.relations), related(heads));
    let unit = |id: &Uuid| read(view_reader.reader, &view_reader.model.unit(*id));
    let mut added = parts.units.clone();
    for application in after.keys().filter(|id| !before.contains_key(id)) {
        added.extend(view_reader.units_of(*application));
    }
    let mut related = RelatedUnitsChange::new();
    let departing = parts.departing.iter().flat_map(|id| view_reader.with_dependents(*id));
    for id in departing.filter(|id| shown.related_units.contains_alive(*id)) {
        let is_dying = unit(&id).is_some_and(|doc: UnitDoc| view_reader.is_dying(id, &doc));
        added.extend(is_dying.then_some(id));
    }
    for id in parts.statuses.union(&added) {
        let doc = unit(id).filter(|doc: &UnitDoc| after.contains_key(&doc.application));
        changes.extend(doc.as_ref().and_then(|doc| view_reader.status(*id, doc)));
        if added.contains(id) {
            let hosts = |doc: &UnitDoc| UnitHosts::new(doc, view_reader.is_dying(*id, doc));
            related.insert(*id, doc.as_ref().map(hosts));
        }
    }
    let mut removed_names: BTreeSet<UnitName> = parts.names.clone();
    removed_names.retain(|name| {
        let was_shown = before.values().any(|application| *application == name.application);
        was_shown && read(view_reader.reader, &view_reader.model.unit_name(name)).is_none()
    });
    for application in before.keys().filter(|id| !after.contains_key(id)) {
        for id in view_reader.units_of(*application) {
            removed_names.extend(unit(&id).map(|doc| doc.name));
            related.insert(id, None);
        }
    }
    let removed = |unit| Change::Status { unit, status: None, is_dying: false };
    changes.extend(removed_names.into_iter().map(removed));
    related
}

/// Adds the ports that other units of the machine have open.
fn port_changes(
    view_reader: &UnitViewReader,
    shown: &SentView,
    parts: &AffectedParts,
    changes: &mut Vec<Change>,
) {
    for id in parts.ports.iter().filter(|id| **id != view_reader.unit) {
        let open = read::<OpenPortsDoc>(
            view_reader.reader,
            &view_reader.model.machine_port(view_reader.doc.machine, *id),
        );
        let name = read(view_reader.reader, &view_reader.model.unit(*id)).map(|doc| doc.name);
        match (open, name) {
            (Some(open), _) => changes.push(Change::MachinePorts { unit: open.unit, ports: open.ports }),
            (None, Some(unit)) if shown.units_with_ports.contains(&unit) => {
                changes.push(Change::MachinePorts { unit, ports: BTreeMap::new() });
            }
            (None, _) => {}
        }
    }
    for unit in parts.names.intersection(&shown.units_with_ports) {
        if read(view_reader.reader, &view_reader.model.unit_name(unit)).is_none() {
            changes.push(Change::MachinePorts { unit: unit.clone(), ports: BTreeMap::new() });
        }
    }
}
