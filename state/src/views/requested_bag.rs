//! The bag that a running hook requests, because its view does not contain the values (design 9, I31).
//!
//! Called by the handler of the request.

use crate::charm::Scope;
use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{Model, RelationDoc};
use crate::terms::names::Uuid;
use crate::terms::owner::Owner;
use crate::unit::relation_view::{BagRequest, BagView};
use crate::unit::snapshot::Change;
use crate::views::unit_view_reader::UnitViewReader;

/// One bag, if the view of this unit contains it, omitted or not (I31); or that of another unit of its application in a
/// relation with another one, which no view contains (spec/hook-tools.md 2.1).
pub fn bag(reader: &dyn Reader, model: Model, unit: Uuid, request: &BagRequest) -> Option<BagView> {
    let doc = read(reader, &model.unit(unit))?;
    let view_reader = UnitViewReader { reader, model, unit, doc: &doc };
    let relation: RelationDoc = read(reader, &model.relation(request.relation))?;
    if !doc.takes_part_in(&relation) {
        return None;
    }
    let head = view_reader.head(request.relation, &relation);
    let found = view_reader.stored_bag(request.relation, &head, &request.owner)?;
    let is_fellow = matches!(&request.owner, Owner::Unit(name) if name.application == doc.name.application);
    if is_fellow && head.scope == Scope::Global {
        return Some(BagView::with_values(found.counter, found.values));
    }
    let shown = view_reader.bag(relation.number, &head, found)?;
    if let Change::Bag { bag, .. } = shown { bag } else { None }
}
