//! What is owed in one relation: the table of spec A.11, first entry that applies.

use super::local::RelationLocal;
use super::operation::RelationEvent;
use crate::terms::names::UnitName;
use crate::terms::owner::Owner;
use crate::unit::snapshot::RelationView;

/// What is next in a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owed {
    Hook(RelationEvent),
    /// The scope of an implicit endpoint, or of one whose created never ran, is left without a hook.
    Leave,
}

/// This unit, as a relation needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct ThisUnit<'a> {
    pub name: &'a UnitName,
    /// Effective life is Alive.
    pub alive: bool,
}

/// The hook `joined` owes; it comes before anything else of this relation and, by our own choice, before other
/// relations' hooks.
pub fn pending_changed(local: &RelationLocal, view: Option<&RelationView>) -> Option<RelationEvent> {
    let unit = local.pending_changed.clone()?;
    // a unit that has gone meanwhile keeps the version it joined with: its settings stay readable
    let joined = *local.members.get(&unit).expect("changed is owed by members only");
    let version = view.and_then(|view| view.version(&unit)).filter(|v| v.incarnation == joined.incarnation);
    Some(RelationEvent::Changed { unit, version: version.unwrap_or(joined) })
}

/// What is owed in a relation this unit is in. `view` none: the relation is gone from the model.
pub fn owed(local: &RelationLocal, view: Option<&RelationView>, me: ThisUnit) -> Option<Owed> {
    let present = view.filter(|view| me.alive && view.head.life.is_alive() && !view.head.suspended);
    if local.place.implicit {
        return present.is_none().then_some(Owed::Leave);
    }
    if let Some(event) = pending_changed(local, view) {
        return Some(Owed::Hook(event));
    }
    if let Some(unit) = departed(local, present) {
        // JUJU_DEPARTING_UNIT tells "I am leaving" from "he is leaving" (spec A.11)
        let departing = if me.alive { unit.clone() } else { me.name.clone() };
        return Some(Owed::Hook(RelationEvent::Departed { unit, departing }));
    }
    let Some(view) = present else {
        // what the charm was never told of is left without a word (the grammar of spec A.11)
        let last = if local.created { Owed::Hook(RelationEvent::Broken) } else { Owed::Leave };
        return (!local.place.peer).then_some(last);
    };
    changed_application(local, view)
        .or_else(|| joined(local, view))
        .or_else(|| changed(local, view))
        .map(Owed::Hook)
}

/// A member that is no longer there, or is there again as another incarnation: that is another membership.
fn departed(local: &RelationLocal, present: Option<&RelationView>) -> Option<UnitName> {
    let still = |unit: &UnitName| present.and_then(|view| view.members.get(unit).copied());
    let gone = local.members.iter().find(|(unit, version)| still(unit) != Some(version.incarnation));
    gone.map(|(unit, _)| unit.clone())
}

fn changed_application(local: &RelationLocal, view: &RelationView) -> Option<RelationEvent> {
    let application = &view.head.remote_application;
    let counter = view.bag(&Owner::Application(application.clone())).map_or(0, |bag| bag.counter);
    let delivered = local.applications.get(application).copied().unwrap_or(0);
    (counter != delivered)
        .then(|| RelationEvent::ApplicationChanged { application: application.clone(), counter })
}

fn joined(local: &RelationLocal, view: &RelationView) -> Option<RelationEvent> {
    let unit = view.members.keys().find(|unit| !local.members.contains_key(unit))?;
    let version = view.version(unit).expect("members have versions");
    Some(RelationEvent::Joined { unit: unit.clone(), version })
}

/// Not equal, never greater: a restored controller may count from lower.
fn changed(local: &RelationLocal, view: &RelationView) -> Option<RelationEvent> {
    local.members.iter().find_map(|(unit, delivered)| {
        let version = view.version(unit)?;
        (version != *delivered).then(|| RelationEvent::Changed { unit: unit.clone(), version })
    })
}
