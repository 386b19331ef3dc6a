//! The view of a unit without what its next operation does not depend on: the statuses of other units, their open ports
//! and the contents of bags.
//!
//! The status of a model needs one such view of each unit. A full view contains the status of every unit of all related
//! applications, so that the size of the full views of all units of an application grows with the square of their
//! number. [`next`] decides the same with both views, except that it never fetches an omitted bag first: no bag is
//! omitted here.
//!
//! [`next`]: crate::unit::resolve::next

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{Model, RelationDoc, last_id, last_number, leader_settings_of};
use crate::terms::leader_settings::LeaderSettingsView;
use crate::terms::names::Uuid;
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::terms::settings::Bag;
use crate::terms::status::ActionStatus;
use crate::unit::relation_view::{BagView, RelationView};
use crate::unit::snapshot::{Change, Snapshot};
use crate::views::unit_view_reader::UnitViewReader;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A bag document without its values.
#[derive(Clone, Deserialize)]
struct BagHead {
    owner: Owner,
    #[serde(default)]
    container: Uuid,
    counter: u64,
}

/// The view at the revision of the reader; none for a unit that does not exist. The store generation of the position is
/// nil, because a reader contains revisions only; the caller sets it.
pub fn decision_view(reader: &dyn Reader, model: Model, unit: Uuid) -> Option<Snapshot> {
    let doc = read(reader, &model.unit(unit))?;
    let view_reader = UnitViewReader { reader, model, unit, doc: &doc };
    let mut actions = BTreeMap::new();
    for (key, _) in read_all::<ActionStatus>(reader, &model.actions_of(unit)) {
        if let Some(Change::Action { id, action: Some(action) }) =
            last_number(&key).map(|id| view_reader.action(id))
        {
            actions.insert(id, action);
        }
    }
    let mut relations = BTreeMap::new();
    for (key, ()) in read_all(reader, &model.relations_of(doc.application)) {
        let id = last_id(&key)?;
        let relation: RelationDoc = read(reader, &model.relation(id))?;
        if doc.takes_part_in(&relation) {
            relations.insert(relation.number, relation_versions(&view_reader, id, &relation));
        }
    }
    Some(Snapshot {
        position: Position { store_generation: Uuid(0), revision: reader.revision() },
        model: crate::lifecycle::model::model_view(&mut { reader }, model)?,
        unit: view_reader.unit_view()?.0,
        charm: view_reader.charm()?,
        config: read(reader, &model.application_config(doc.application)).unwrap_or_default(),
        trusted: read(reader, &model.application_trust(doc.application)).unwrap_or_default(),
        leader: view_reader.leader(),
        leader_settings: leader_settings_version(reader, model, doc.application),
        written_leader_settings: None,
        resolved: read(reader, &model.resolved(unit)),
        secrets: view_reader.secrets().0,
        storage: view_reader.storage(),
        actions,
        relations,
        statuses: BTreeMap::new(),
        dying_units: BTreeSet::new(),
        application_status: None,
        machine_ports: BTreeMap::new(),
        removed: false,
        fetched_bag: None,
    })
}

/// The leader settings without their values.
fn leader_settings_version(reader: &dyn Reader, model: Model, application: Uuid) -> LeaderSettingsView {
    let version = leader_settings_of(reader, model, application).version;
    LeaderSettingsView { version, values: Bag::new() }
}

/// A relation with its members and the versions of its bags.
fn relation_versions(view_reader: &UnitViewReader<'_>, id: Uuid, relation: &RelationDoc) -> RelationView {
    let head = view_reader.head(id, relation);
    let members =
        view_reader.members(&head).into_iter().map(|entry| (entry.unit, entry.incarnation)).collect();
    let stored = read_all::<BagHead>(view_reader.reader, &view_reader.model.bags(id));
    let bag = |bag: BagHead| {
        let is_seen = view_reader.sees_bag(&head, &bag.owner, bag.container);
        is_seen.then(|| (bag.owner, BagView { counter: bag.counter, values: Some(Bag::new()), bytes: 0 }))
    };
    // if two bags have the same owner, the last one is used, as in a full view
    let bags: BTreeMap<_, _> = stored.into_iter().filter_map(|(_, stored)| bag(stored)).collect();
    RelationView { head, members, bags: bags.into_iter().collect() }
}
