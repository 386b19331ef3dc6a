//! One unit with the data of its relations, for `show-unit`.

use super::unit::ports;
use api::{MemberInfo, UnitInfo, UnitRelation};
use state::documents::draft::{Reader, read, read_all};
use state::documents::effective_life;
use state::documents::prelude::{BagDoc, Model, RelationDoc, ScopeDoc, UnitDoc, last_id};
use state::lifecycle::{leadership, relation};
use state::terms::names::{UnitName, Uuid};
use state::terms::owner::Owner;
use std::collections::BTreeMap;

/// Returns one unit with the data of its relations; none if the unit does not exist.
pub fn unit_info(reader: &dyn Reader, model: Model, id: Uuid) -> Option<UnitInfo> {
    let doc = read(reader, &model.unit(id))?;
    let machine = read(reader, &model.machine(doc.machine));
    let mut relations: Vec<UnitRelation> = read_all::<()>(reader, &model.relations_of(doc.application))
        .into_iter()
        .filter_map(|(key, ())| {
            let relation = last_id(&key)?;
            let relation_doc = read(reader, &model.relation(relation))?;
            let takes_part = doc.takes_part_in(&relation_doc);
            takes_part.then(|| unit_relation(reader, model, id, &doc, relation, &relation_doc))
        })
        .collect();
    relations.sort_by_key(|relation| relation.number);
    // The charm that the unit has installed; before its first installation, the charm of its application.
    let installed = read(reader, &model.replica(id)).and_then(|replica| Some(replica.local.charm?.url));
    let assigned = read(reader, &model.application_charm(doc.application)).map(|charm| charm.url);
    Some(UnitInfo {
        name: doc.name.clone(),
        uuid: id,
        machine: machine.as_ref().map_or(String::new(), |machine| machine.name.clone()),
        life: effective_life::unit_life_of(&mut { reader }, model, id, &doc),
        leader: leadership::is_leader(&mut { reader }, model, id, &doc, None),
        charm_url: installed.or(assigned).unwrap_or_default(),
        address: machine.map_or(String::new(), |machine| machine.address),
        ports: ports(reader, model, id),
        workload_version: read(reader, &model.workload_version(id)).unwrap_or_default(),
        relations,
    })
}

fn unit_relation(
    reader: &dyn Reader,
    model: Model,
    unit: Uuid,
    doc: &UnitDoc,
    id: Uuid,
    held: &RelationDoc,
) -> UnitRelation {
    let end = held.end_of(doc.application).expect("a relation's index is of its ends (I22)");
    let other = held.other_end(doc.application);
    let bags: BTreeMap<Owner, BagDoc> = read_all::<BagDoc>(reader, &model.bags(id))
        .into_iter()
        .map(|(_, bag)| (bag.owner.clone(), bag))
        .collect();
    let data = |owner: Owner| bags.get(&owner).map(|bag| bag.values.clone()).unwrap_or_default();
    let container = relation::container(held.scope, unit, doc);
    let present = read_all::<ScopeDoc>(reader, &model.scopes_in(id, container));
    let related: BTreeMap<UnitName, MemberInfo> = present
        .iter()
        .filter(|(_, entry)| entry.application == other.application && entry.unit != doc.name)
        .map(|(_, entry)| {
            (entry.unit.clone(), MemberInfo { in_scope: true, data: data(Owner::Unit(entry.unit.clone())) })
        })
        .collect();
    UnitRelation {
        number: held.number,
        endpoint: end.endpoint.clone(),
        related_endpoint: other.endpoint.clone(),
        application_data: data(Owner::Application(other.application_name.clone())),
        local_unit: MemberInfo {
            in_scope: present.iter().any(|(key, _)| last_id(key) == Some(unit)),
            data: data(Owner::Unit(doc.name.clone())),
        },
        related_units: related,
    }
}
