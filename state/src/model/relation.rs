//! Relations: added between endpoints that fit, entered and left by units, gone with the last one out (spec E.2,
//! A.12; seeds 000 and 001). They are never seen Dead: Dying or gone.

use super::blockers::{self, Entity};
use super::draft::{Draft, PAGE_MAX};
use super::effective::{self, Documents};
use super::keys::{BagDoc, Model, RelationDoc, ScopeDoc, SideDoc, TombstoneDoc};
use super::refusal::{Code, Refusal};
use super::unit::Destroyed;
use super::{application, sequence};
use crate::charm::{Charm, Endpoint, JUJU_INFO, NoMatch, Role, Scope, Side, endpoints};
use crate::life::Life;
use crate::names::{RelationNumber, Uuid, is_application_name};
use crate::planted::{self, Planted};
use crate::settings::Bag;
use std::sync::Arc;

/// Peer endpoints of one charm: a unit leaves them all in one transaction, at most 8 writes each when it is the last
/// one out, and they are all made in the deploy's.
pub const PEERS_MAX: usize = 8;

/// One end as a person writes it: `web`, or `web:db`.
struct End {
    id: Uuid,
    application: String,
    endpoint: Option<String>,
    charm: Arc<Charm>,
}

fn split(text: &str) -> Result<(&str, Option<&str>), Refusal> {
    let (name, endpoint) = match text.split_once(':') {
        Some((name, endpoint)) => (name, Some(endpoint)),
        None => (text, None),
    };
    if !is_application_name(name) || endpoint == Some("") {
        let message = format!("{text:?} is not an application or an endpoint (like web or web:db)");
        return Err(Refusal::new(Code::Invalid, message));
    }
    Ok((name, endpoint))
}

fn end(draft: &mut Draft, model: Model, text: &str) -> Result<End, Refusal> {
    let (name, endpoint) = split(text)?;
    let id = application::find(draft, model, name)?;
    application::require_alive(draft, model, id, "integrate")?;
    let (_, charm) = application::charm_of(draft, model, id).expect("an application has a charm (I22)");
    Ok(End { id, application: name.to_owned(), endpoint: endpoint.map(str::to_owned), charm })
}

/// The user's integrate (spec E.1 add relation): both applications Alive, one pair of endpoints that fits, no such
/// relation yet, limits kept.
pub fn add(
    draft: &mut Draft,
    model: Model,
    ends: (&str, &str),
    id: Uuid,
    now_ms: i64,
) -> Result<RelationDoc, Refusal> {
    super::model::require_alive(draft, model)?;
    let (left, right) = (end(draft, model, ends.0)?, end(draft, model, ends.1)?);
    if left.id == right.id {
        let message = format!("cannot integrate {} with itself", left.application);
        return Err(Refusal::new(Code::Invalid, message));
    }
    let found = endpoints::infer(as_side(&left), as_side(&right)).map_err(no_match)?;
    let sides = [(&left, &found.left), (&right, &found.right)].map(|(end, endpoint)| side_doc(end, endpoint));
    let doc = RelationDoc { number: 0, sides: sides.to_vec(), scope: found.scope, created_ms: now_ms };
    let ends = doc.key_text();
    if let Some(holder) = draft.get(&model.relation_key(&ends)) {
        return Err(exists(draft, model, holder, &ends));
    }
    if found.scope == Scope::Container {
        let message = format!("cannot integrate {ends}: subordinate charms come with a later version");
        return Err(Refusal::new(Code::Invalid, message));
    }
    for (end, endpoint) in [(&left, &found.left), (&right, &found.right)] {
        require_below_limit(draft, model, end, endpoint)?;
    }
    Ok(create(draft, model, id, doc))
}

fn as_side(end: &End) -> Side<'_> {
    Side { application: &end.application, charm: &end.charm, endpoint: end.endpoint.as_deref() }
}

fn side_doc(end: &End, endpoint: &Endpoint) -> SideDoc {
    let declared = end.charm.endpoints.contains_key(&endpoint.name);
    SideDoc {
        application: end.id,
        application_name: end.application.clone(),
        endpoint: endpoint.name.clone(),
        role: endpoint.role,
        interface: endpoint.interface.clone(),
        implicit: endpoint.name == JUJU_INFO && !declared,
    }
}

fn no_match(reason: NoMatch) -> Refusal {
    let code = match &reason {
        NoMatch::Unknown { .. } => Code::NotFound,
        NoMatch::Ambiguous(_) => Code::Ambiguous,
        NoMatch::Nothing { .. } | NoMatch::NoSubordinate => Code::Invalid,
    };
    Refusal::new(code, reason.to_string())
}

fn exists(draft: &mut Draft, model: Model, holder: Uuid, ends: &str) -> Refusal {
    if effective::relation_life(draft, model, holder) == Some(Life::Alive) {
        return Refusal::new(Code::AlreadyExists, format!("relation {ends} already exists"));
    }
    let message = format!("relation {ends} already exists and is being removed");
    let blockers = blockers::blockers(draft, model, Entity::Relation(holder));
    Refusal::new(Code::AlreadyExists, message).blockers(blockers).hint("wait until it is gone")
}

fn require_below_limit(
    draft: &mut Draft,
    model: Model,
    end: &End,
    endpoint: &Endpoint,
) -> Result<(), Refusal> {
    let Some(limit) = endpoint.limit else {
        return Ok(());
    };
    let mut count = 0;
    for id in draft.ids(&model.relations_of(end.id), PAGE_MAX) {
        let held = draft.get(&model.relation(id)).expect("an index names what exists (I22)");
        count += u32::from(held.side_of(end.id).is_some_and(|side| side.endpoint == endpoint.name));
    }
    if count < limit {
        return Ok(());
    }
    let message = format!("endpoint {}:{} takes at most {limit} relations", end.application, endpoint.name);
    Err(Refusal::new(Code::Invalid, message).hint("remove another relation of this endpoint first"))
}

/// The peer relations of an application that do not exist yet: made with it, and at a refresh that brings more.
pub(super) fn add_peers(
    draft: &mut Draft,
    model: Model,
    application: (Uuid, &str),
    charm: &Charm,
    (now_ms, ids): (i64, &mut dyn FnMut() -> Uuid),
) {
    let (id, name) = application;
    for endpoint in charm.endpoints.values().filter(|endpoint| endpoint.role == Role::Peer) {
        let side = SideDoc {
            application: id,
            application_name: name.to_owned(),
            endpoint: endpoint.name.clone(),
            role: Role::Peer,
            interface: endpoint.interface.clone(),
            implicit: false,
        };
        let doc = RelationDoc { number: 0, sides: vec![side], scope: Scope::Global, created_ms: now_ms };
        if draft.get(&model.relation_key(&doc.key_text())).is_none() {
            create(draft, model, ids(), doc);
        }
    }
}

/// Numbers the relation and writes it, with its applications' empty bags.
fn create(draft: &mut Draft, model: Model, id: Uuid, mut doc: RelationDoc) -> RelationDoc {
    let number = sequence::take(draft, model, "relation");
    doc.number = RelationNumber::try_from(number).expect("fewer than 2^32 relations in a model's life");
    draft.put(&model.relation(id), &doc);
    draft.put(&model.relation_life(id), &Life::Alive);
    draft.put(&model.relation_key(&doc.key_text()), &id);
    for side in &doc.sides {
        draft.put(&model.relation_of(side.application, id), &());
        let bag = BagDoc { owner: side.application_name.clone(), ..BagDoc::default() };
        draft.put(&model.bag(id, side.application), &bag);
    }
    doc
}

/// The one relation between two ends that a person names (remove-relation).
pub fn find(draft: &mut Draft, model: Model, left: &str, right: &str) -> Result<Uuid, Refusal> {
    let ((a, a_endpoint), (b, b_endpoint)) = (split(left)?, split(right)?);
    let (id, other) = (application::find(draft, model, a)?, application::find(draft, model, b)?);
    let mut found: Vec<(Uuid, String)> = Vec::new();
    for relation in draft.ids(&model.relations_of(id), PAGE_MAX) {
        let doc = draft.get(&model.relation(relation)).expect("an index names what exists (I22)");
        let fits = |application: Uuid, endpoint: Option<&str>| {
            let side = doc.side_of(application);
            side.is_some_and(|side| endpoint.is_none_or(|endpoint| endpoint == side.endpoint))
        };
        // Peers are named only by naming the endpoint twice: `remove-relation web web` means none of them.
        let named = !doc.is_peer() || (a_endpoint.is_some() && a_endpoint == b_endpoint);
        if named && (id != other || doc.is_peer()) && fits(id, a_endpoint) && fits(other, b_endpoint) {
            found.push((relation, doc.key_text()));
        }
    }
    match &found[..] {
        [(only, _)] => Ok(*only),
        [] => Err(Refusal::not_found("relation", format!("{left:?} {right:?}"))),
        several => {
            let keys: Vec<String> = several.iter().map(|(_, key)| format!("{key:?}")).collect();
            let message = format!("ambiguous relation: could be {}", keys.join(" or "));
            Err(Refusal::new(Code::Ambiguous, message).hint("name the endpoints"))
        }
    }
}

/// The user's remove-relation (spec E.2; scenarios 160, 161, 175): gone at once when nobody is in scope, else Dying.
/// A second time changes nothing. Peer relations go with their application only.
pub fn destroy(draft: &mut Draft, model: Model, id: Uuid) -> Result<Destroyed, Refusal> {
    let Some(doc) = draft.get(&model.relation(id)) else {
        return match draft.get(&model.tombstone(id)) {
            Some(_) => Ok(Destroyed::Removed),
            None => Err(Refusal::not_found("relation", id)),
        };
    };
    if doc.is_peer() {
        let message = format!("cannot remove peer relation {}", doc.key_text());
        return Err(Refusal::new(Code::Forbidden, message).hint("it goes with its application"));
    }
    if draft.first(&model.scopes(id), &[]).is_none() {
        remove(draft, model, id, &doc);
        return Ok(Destroyed::Removed);
    }
    if draft.get(&model.relation_life(id)) == Some(Life::Alive) {
        draft.put(&model.relation_life(id), &Life::Dying);
    }
    Ok(Destroyed::Dying)
}

/// A unit announces itself, with its initial settings in the same transaction (spec A.12, I13). Unit and relation
/// must be Alive (I21, scenario 174); in scope already: no change (spec E.8#15). Each entry is another incarnation,
/// numbered by the bag's counter, which grows with it.
pub fn enter_scope(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: Uuid,
    settings: &Bag,
) -> Result<(), Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found("unit", unit))?;
    let relation = draft.get(&model.relation(id)).ok_or_else(|| Refusal::not_found("relation", id))?;
    if relation.side_of(doc.application).is_none() {
        let message = format!("unit {} has no part in relation {}", doc.name, relation.key_text());
        return Err(Refusal::new(Code::Forbidden, message));
    }
    let scope = model.scope(id, Uuid(0), unit);
    if draft.get(&scope).is_some() {
        return Ok(());
    }
    let refuse = |what: String| {
        let message = format!("unit {} cannot enter the scope of {}: {what}", doc.name, relation.key_text());
        Err(Refusal::new(Code::NotAlive, message))
    };
    let life = effective::life_of(draft, model, unit, &doc);
    if life != Life::Alive {
        return refuse(format!("the unit is {life}"));
    }
    let life = effective::life_between(draft, model, id, &relation);
    if life != Life::Alive && !planted::is(Planted::EntersDyingRelation) {
        return refuse(format!("the relation is {life}"));
    }
    let before = draft.get(&model.bag(id, unit)).unwrap_or_default();
    let counter = before.counter + 1;
    let bag = BagDoc { owner: doc.name.to_string(), counter, values: settings.clone() };
    draft.put(&model.bag(id, unit), &bag);
    let entry = ScopeDoc { unit: doc.name.clone(), application: doc.application, incarnation: counter };
    draft.put(&scope, &entry);
    draft.put(&model.scope_of(unit, id), &());
    Ok(())
}

/// A unit has left (spec A.12, E.2). Its settings stay until the relation is removed (I14). The last one out of a
/// Dying relation removes it, and with it a Dying application that only this relation held (scenarios 161, 163).
/// Not in scope: no change.
pub fn leave_scope(draft: &mut Draft, model: Model, unit: Uuid, id: Uuid) {
    let scope = model.scope(id, Uuid(0), unit);
    if draft.get(&scope).is_none() {
        return;
    }
    draft.remove(&scope);
    draft.remove(&model.scope_of(unit, id));
    if planted::is(Planted::SettingsGoWithUnit) {
        draft.remove(&model.bag(id, unit));
    }
    if !planted::is(Planted::LastOutLeavesRelation) {
        reap(draft, model, id);
    }
}

/// Removes a Dying relation that nobody is in the scope of (I18).
pub(super) fn reap(draft: &mut Draft, model: Model, id: Uuid) {
    let Some(doc) = draft.get(&model.relation(id)) else {
        return;
    };
    let mut dying = effective::life_between(draft, model, id, &doc) != Life::Alive;
    if planted::is(Planted::RemovalNeedsAliveEnds) {
        dying = draft.get(&model.relation_life(id)) != Some(Life::Alive);
    }
    if dying && draft.first(&model.scopes(id), &[]).is_none() {
        remove(draft, model, id, &doc);
    }
}

/// The relation is gone; its bags are left to the janitor, and nothing refers to them. A Dying application that it
/// held goes too.
fn remove(draft: &mut Draft, model: Model, id: Uuid, doc: &RelationDoc) {
    draft.remove(&model.relation(id));
    draft.remove(&model.relation_life(id));
    draft.remove(&model.relation_key(&doc.key_text()));
    draft.put(&model.tombstone(id), &TombstoneDoc { kind: "relation".to_owned(), name: doc.key_text() });
    draft.put(&model.cleanup(id), &vec![model.bags(id)]);
    for side in &doc.sides {
        draft.remove(&model.relation_of(side.application, id));
    }
    for side in &doc.sides {
        application::reap(draft, model, side.application);
    }
}
