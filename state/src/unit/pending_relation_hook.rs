//! Decides which hook is next in one relation: the first row of the table of spec A.11 that applies.
//!
//! The decision compares what this unit's hooks have observed ([`RelationLocal`]) with the relation in the view. It
//! never orders hooks across relations; `pending_operations` does that, and calls [`pending_hook`] for each relation.

use super::local::RelationLocal;
use crate::terms::names::UnitName;
use crate::terms::operation::RelationEvent;
use crate::terms::owner::Owner;
use crate::unit::relation_view::RelationView;

/// The next step of this unit in a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingHook {
    /// A relation hook runs.
    Hook(RelationEvent),
    /// The unit leaves the scope without a hook: the endpoint is implicit, or relation-created never ran.
    LeaveScope,
}

/// The facts about this unit that decide its relation hooks.
#[derive(Clone, Copy, Debug)]
pub struct ThisUnit<'a> {
    /// The unit's own name.
    pub name: &'a UnitName,
    /// Whether the unit's effective life is Alive.
    pub alive: bool,
}

/// Returns the relation-changed that must follow a relation-joined. It precedes every other hook of this relation
/// and, by a choice of this implementation, the hooks of other relations.
pub fn pending_changed(local: &RelationLocal, view: Option<&RelationView>) -> Option<RelationEvent> {
    let unit = local.pending_changed.clone()?;
    // if the unit has departed meanwhile, the hook uses the version it joined with: its settings stay readable
    let joined = *local.members.get(&unit).expect("only a member has a pending changed");
    let version = view.and_then(|view| view.version(&unit)).filter(|v| v.incarnation == joined.incarnation);
    Some(RelationEvent::Changed { unit, version: version.unwrap_or(joined) })
}

/// Returns the next hook in a relation that this unit is in, or `None` if the charm has observed everything. `view`
/// is `None` if the relation was removed from the model.
pub fn pending_hook(
    local: &RelationLocal,
    view: Option<&RelationView>,
    this_unit: ThisUnit,
) -> Option<PendingHook> {
    let present = view.filter(|view| this_unit.alive && view.head.life.is_alive() && !view.head.suspended);
    if local.local_endpoint.implicit {
        return present.is_none().then_some(PendingHook::LeaveScope);
    }
    if let Some(event) = pending_changed(local, view) {
        return Some(PendingHook::Hook(event));
    }
    if let Some(unit) = departed_member(local, present) {
        // JUJU_DEPARTING_UNIT distinguishes "this unit departs" from "the remote unit departs" (spec A.11)
        let departing = if this_unit.alive { unit.clone() } else { this_unit.name.clone() };
        return Some(PendingHook::Hook(RelationEvent::Departed { unit, departing }));
    }
    let Some(view) = present else {
        // a relation whose relation-created never ran has no relation-broken either (the grammar of spec A.11)
        let last =
            if local.created { PendingHook::Hook(RelationEvent::Broken) } else { PendingHook::LeaveScope };
        return (!local.local_endpoint.peer).then_some(last);
    };
    application_changed_event(local, view)
        .or_else(|| joined_event(local, view))
        .or_else(|| changed_event(local, view))
        .map(PendingHook::Hook)
}

/// Returns a member that has departed, or that re-entered under another incarnation, which is another membership.
fn departed_member(local: &RelationLocal, present: Option<&RelationView>) -> Option<UnitName> {
    let still = |unit: &UnitName| present.and_then(|view| view.members.get(unit).copied());
    let departed = local.members.iter().find(|(unit, version)| still(unit) != Some(version.incarnation));
    departed.map(|(unit, _)| unit.clone())
}

fn application_changed_event(local: &RelationLocal, view: &RelationView) -> Option<RelationEvent> {
    let application = &view.head.remote_application;
    let counter = view.bag(&Owner::Application(application.clone())).map_or(0, |bag| bag.counter);
    let delivered = local.applications.get(application).copied().unwrap_or(0);
    (counter != delivered)
        .then(|| RelationEvent::ApplicationChanged { application: application.clone(), counter })
}

fn joined_event(local: &RelationLocal, view: &RelationView) -> Option<RelationEvent> {
    let unit = view.members.keys().find(|unit| !local.members.contains_key(unit))?;
    let version = view.version(unit).expect("members have versions");
    Some(RelationEvent::Joined { unit: unit.clone(), version })
}

/// Compares versions for inequality, not for order: the counters of a restored controller may restart from a lower
/// value.
fn changed_event(local: &RelationLocal, view: &RelationView) -> Option<RelationEvent> {
    local.members.iter().find_map(|(unit, delivered)| {
        let version = view.version(unit)?;
        (version != *delivered).then(|| RelationEvent::Changed { unit: unit.clone(), version })
    })
}
