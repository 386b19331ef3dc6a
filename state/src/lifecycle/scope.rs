//! The scope of a relation: units enter it (spec A.12, E.2).
//!
//! A unit is visible to the other members while it is in scope. A unit enters only if it and the relation are Alive
//! (I21), with its initial settings in the same transaction (I13). Units leave through
//! [`relation::leave_scope`](crate::lifecycle::relation::leave_scope), because the last unit that leaves a Dying
//! relation removes it. Called by the commit of unit records, by resyncs, and for fake units.

use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{BagDoc, Model, ScopeDoc, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::pending_reentry;
use crate::lifecycle::relation::container;
use crate::lifecycle::unit::add_subordinate;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::owner::Owner;
use crate::terms::refusal::{EntityKind, ScopeRefusal};
use crate::terms::settings::Bag;

/// One entry of a unit into the scope of a relation.
struct Entry<'a> {
    unit: Uuid,
    relation: Uuid,
    settings: &'a Bag,
    /// Whether the unit was in the scope before the store was restored.
    is_resync: bool,
}

/// Adds a unit to the scope of a relation, with its initial settings in the same transaction (spec A.12, I13).
///
/// The unit and the relation must be Alive (I21, scenario 174) and the relation must not be suspended. A unit
/// that is in scope already stays in it (spec E.8#15), and its settings are replaced: its agent is their only
/// author. Each entry is another incarnation, numbered by the bag's counter, which increases with it. If the
/// relation links a subordinate and the unit is the principal, the subordinate unit is created.
///
/// # Errors
/// If one of these does not hold, the unit has no part in the relation, or its subordinate cannot be created.
pub fn enter(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: Uuid,
    settings: &Bag,
    creation: Creation,
) -> Result<(), Refusal> {
    enter_or_reenter(draft, model, &Entry { unit, relation: id, settings, is_resync: false }, creation)
}

/// Adds a unit that resynchronises to the scope of a relation it was in, even if the relation is suspended:
///
/// 1. A unit is in scope, and the store is restored from a backup made before it entered.
/// 2. The relation is suspended, the unit resynchronises, and the relation is resumed.
/// 3. The unit observed none of this, and its stored state contains the relation (cargo sim 64000922).
///
/// If the relation is still suspended, the unit observes that and leaves.
pub(crate) fn reenter(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: Uuid,
    settings: &Bag,
    creation: Creation,
) -> Result<(), Refusal> {
    enter_or_reenter(draft, model, &Entry { unit, relation: id, settings, is_resync: true }, creation)
}

fn enter_or_reenter(
    draft: &mut Draft,
    model: Model,
    entry: &Entry,
    creation: Creation,
) -> Result<(), Refusal> {
    let &Entry { unit, relation: id, settings, is_resync } = entry;
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
    let relation =
        draft.get(&model.relation(id)).ok_or_else(|| Refusal::not_found(EntityKind::Relation, id))?;
    if !doc.takes_part_in(&relation) {
        return Err(ScopeRefusal::NotMember { unit: doc.name, ends: relation.end_names() }.into());
    }
    let container = container(relation.scope, unit, &doc);
    let scope = model.scope(id, container, unit);
    if draft.get(&scope).is_some() {
        if let Some(subordinate_link) = relation
            .subordinate_link
            .filter(|subordinate_link| is_resync && subordinate_link.principal == doc.application)
        {
            let existing = draft.any_key(&model.subordinates_of(unit, subordinate_link.subordinate), &[]);
            let life = existing.and_then(|key| draft.get(&model.unit_life(last_id(&key)?)));
            if life != Some(Life::Alive) {
                pending_reentry::add(draft, model, unit, id);
            }
        }
        let before = draft.get(&model.bag(id, unit));
        let mut bag = before.unwrap_or_else(|| BagDoc::new(Owner::Unit(doc.name.clone())));
        if bag.values != *settings {
            bag.values = settings.clone();
            bag.counter += 1;
            draft.put(&model.bag(id, unit), &bag);
        }
        return Ok(());
    }
    let (name, ends) = (doc.name.clone(), relation.end_names());
    let life = effective_life::unit_life_of(draft, model, unit, &doc);
    if life != Life::Alive {
        return Err(ScopeRefusal::UnitNotAlive { unit: name, ends, life }.into());
    }
    let life = effective_life::relation_life_of(draft, model, id, &relation);
    if life != Life::Alive {
        return Err(ScopeRefusal::RelationNotAlive { unit: name, ends, life }.into());
    }
    if !is_resync && draft.get(&model.relation_suspended(id)).is_some() {
        return Err(ScopeRefusal::Suspended { unit: name, ends }.into());
    }
    if let Some(subordinate_link) =
        relation.subordinate_link.filter(|subordinate_link| subordinate_link.principal == doc.application)
    {
        let added =
            draft.attempt(|draft| add_subordinate(draft, model, unit, &doc, &subordinate_link, creation));
        if let Err(refusal) = added {
            // 1. A unit enters with a subordinate, and the store is restored from a backup in which the
            //    previous subordinate was still Dying.
            // 2. The unit resynchronises, and a second subordinate cannot be created.
            // 3. Without this mark the unit would keep the relation in its stored state and receive no event of it
            //    any more (cargo sim 66064694).
            if is_resync {
                pending_reentry::add(draft, model, unit, id);
            }
            return Err(ScopeRefusal::SubordinateRefused { unit: name, ends, reason: refusal.reason }.into());
        }
    }
    let counter = draft.get(&model.bag(id, unit)).map_or(0, |before| before.counter) + 1;
    let owner = Owner::Unit(doc.name.clone());
    let bag = BagDoc { owner, container, counter, values: settings.clone() };
    draft.put(&model.bag(id, unit), &bag);
    let member = ScopeDoc { unit: doc.name.clone(), application: doc.application, incarnation: counter };
    draft.put(&scope, &member);
    draft.put(&model.scope_of(unit, id), &());
    Ok(())
}
