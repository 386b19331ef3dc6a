//! Relations: added between endpoints that fit, entered and left by units, gone with the last one out (spec E.2,
//! A.12; seeds 000 and 001). They are never seen Dead: Dying or gone.

use crate::charm::{Charm, Endpoint, JUJU_INFO, NoMatch, Role, Scope, IntegrateEnd, endpoints};
use crate::documents::blockers::{self, EntityId};
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::keys::{
    BagDoc, Model, RelationDoc, RelationEndDoc, ScopeDoc, SubordinateLink, SuspendedDoc, TombstoneDoc,
    UnitDoc, key_text, last_id, line_of,
};
use crate::documents::refusal::{Code, Refusal};
use crate::documents::sequence;
use crate::lifecycle::application;
use crate::lifecycle::unit::Destroyed;
use crate::operations::session;
use crate::terms::life::Life;
use crate::terms::names::{EndpointName, RelationNumber, Uuid, is_application_name};
use crate::terms::settings::Bag;
use std::sync::Arc;

/// Peer endpoints of one charm: a unit leaves them all in one transaction, at most 8 writes each when it is the last
/// one out, and they are all made in the deploy's or the refresh's.
pub const PEERS_MAX: usize = 8;

/// Pairs of endpoints that a relation is looked for by: a read each, beside some 10 and the 30 of its removal.
const KEYS_MAX: usize = 40;
/// Relations of one application that are looked at for those that hold a place of an endpoint: some 10 us each, 10 ms.
const RELATIONS_MAX: usize = 1_000;

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
    crate::lifecycle::model::require_alive(draft, model)?;
    let (left, right) = (end(draft, model, ends.0)?, end(draft, model, ends.1)?);
    if left.id == right.id {
        let message = format!("cannot integrate {} with itself", left.application);
        return Err(Refusal::new(Code::Invalid, message));
    }
    let found = endpoints::infer(as_side(&left), as_side(&right)).map_err(no_match)?;
    let sides = [(&left, &found.left), (&right, &found.right)].map(|(end, endpoint)| side_doc(end, endpoint));
    let subordinate_link = subordinate_link(found.scope, &left, &right);
    let doc = RelationDoc {
        number: 0,
        sides: sides.to_vec(),
        scope: found.scope,
        subordinate_link,
        created_ms: now_ms,
    };
    let ends = doc.key_text();
    if let Some(holder) = draft.get(&model.relation_key(&ends)) {
        return Err(exists(draft, model, holder, &ends));
    }
    for (end, endpoint) in [(&left, &found.left), (&right, &found.right)] {
        require_below_limit(draft, model, end, endpoint)?;
    }
    Ok(create(draft, model, id, doc))
}

fn as_side(end: &End) -> IntegrateEnd<'_> {
    IntegrateEnd { application: &end.application, charm: &end.charm, endpoint: end.endpoint.as_deref() }
}

fn side_doc(end: &End, endpoint: &Endpoint) -> RelationEndDoc {
    let declared = end.charm.endpoints.contains_key(&endpoint.name);
    RelationEndDoc {
        application: end.id,
        application_name: end.application.clone(),
        endpoint: endpoint.name.clone(),
        role: endpoint.role,
        interface: endpoint.interface.clone(),
        implicit: endpoint.name == JUJU_INFO && !declared,
    }
}

/// Between two subordinates of one principal nobody comes with the other: both are there already.
fn subordinate_link(scope: Scope, left: &End, right: &End) -> Option<SubordinateLink> {
    let (subordinate, principal) = match (scope, left.charm.subordinate, right.charm.subordinate) {
        (Scope::Container, true, false) => (left.id, right.id),
        (Scope::Container, false, true) => (right.id, left.id),
        (Scope::Container, ..) | (Scope::Global, ..) => return None,
    };
    Some(SubordinateLink { subordinate, principal, line: 0 })
}

/// In whose container a unit is in scope: in a container relation its principal's, or its own; in a global one there
/// is none, and the uuid is nil.
pub fn container(scope: Scope, unit: Uuid, doc: &UnitDoc) -> Uuid {
    match scope {
        Scope::Global => Uuid(0),
        Scope::Container => doc.principal.unwrap_or(unit),
    }
}

/// The relation is one of this unit's: of those that bring units of its application, a subordinate has a part only in
/// its own principal's application's.
pub fn includes_unit(relation: &RelationDoc, unit: &UnitDoc) -> bool {
    let principals =
        relation.subordinate_link.zip(unit.subordinate_link).map(|(its, own)| (its.principal, own.principal));
    relation.end_of(unit.application).is_some() && principals.is_none_or(|(its, own)| its == own)
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
    if effective_life::relation_life(draft, model, holder) == Some(Life::Alive) {
        return Refusal::new(Code::AlreadyExists, format!("relation {ends} already exists"));
    }
    let message = format!("relation {ends} already exists and is being removed");
    let blockers = blockers::blockers(draft, model, EntityId::Relation(holder));
    Refusal::new(Code::AlreadyExists, message).blockers(model, blockers)
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
    // Not recorded, since a transaction reads less than an application may have relations: who makes another one counts
    // the model's relations too ([`create`]), and so is in nobody's way unseen.
    let relations = draft.keys_untracked(&model.relations_of(end.id), RELATIONS_MAX);
    let place = EndpointName { application: end.application.clone(), endpoint: endpoint.name.clone() };
    if relations.len() == RELATIONS_MAX {
        let message =
            format!("endpoint {place} has a limit, and {} too many relations to count", end.application);
        return Err(Refusal::new(Code::Invalid, message));
    }
    let holds = |id: &Uuid| {
        let held = draft.get_untracked(&model.relation(*id));
        held.and_then(|held| held.end_of(end.id).map(|side| side.endpoint == endpoint.name)) == Some(true)
    };
    let holders: Vec<Uuid> = relations.iter().filter_map(|key| last_id(key)).filter(holds).collect();
    if holders.len() < limit as usize {
        return Ok(());
    }
    let message = format!("endpoint {place} takes at most {limit} relations");
    let blockers = blockers::of_capacity(draft, model, &place, &holders);
    Err(Refusal::new(Code::Busy, message).blockers(model, blockers))
}

/// The peer relations of an application that do not exist yet: made with it, and at a refresh that brings more.
pub(crate) fn add_peers(
    draft: &mut Draft,
    model: Model,
    application: (Uuid, &str),
    charm: &Charm,
    (now_ms, ids): (i64, &mut dyn FnMut() -> Uuid),
) {
    let (id, name) = application;
    for endpoint in charm.endpoints.values().filter(|endpoint| endpoint.role == Role::Peer) {
        let side = RelationEndDoc {
            application: id,
            application_name: name.to_owned(),
            endpoint: endpoint.name.clone(),
            role: Role::Peer,
            interface: endpoint.interface.clone(),
            implicit: false,
        };
        let (sides, scope) = (vec![side], Scope::Global);
        let doc = RelationDoc { number: 0, sides, scope, subordinate_link: None, created_ms: now_ms };
        if draft.get(&model.relation_key(&doc.key_text())).is_none() {
            create(draft, model, ids(), doc);
        }
    }
}

/// Numbers the relation and writes it, with its applications' empty bags.
fn create(draft: &mut Draft, model: Model, id: Uuid, mut doc: RelationDoc) -> RelationDoc {
    let number = sequence::take(draft, model, "relation");
    doc.number = RelationNumber::try_from(number).expect("fewer than 2^32 relations in a model's life");
    if let Some(subordinate_link) = &mut doc.subordinate_link {
        subordinate_link.line = line(draft, model, subordinate_link).unwrap_or(doc.number);
        draft.put(&model.container(subordinate_link, id), &());
    }
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

/// The line of relations that a new one between the two continues; none = it begins one.
fn line(draft: &mut Draft, model: Model, subordinate_link: &SubordinateLink) -> Option<RelationNumber> {
    let alive =
        draft.first(&model.containers(subordinate_link.subordinate, subordinate_link.principal), &[])?;
    Some(line_of(&alive).expect("a line is a relation's number"))
}

/// The one relation between two ends that a person names (remove-relation). Peers are named only by naming their
/// endpoint twice: `remove-relation web web` means none of them.
pub fn find(draft: &mut Draft, model: Model, left: &str, right: &str) -> Result<Uuid, Refusal> {
    let ((a, a_endpoint), (b, b_endpoint)) = (split(left)?, split(right)?);
    let (id, other) = (application::find(draft, model, a)?, application::find(draft, model, b)?);
    let mut charm = |id| application::charm_of(draft, model, id).expect("an application has a charm (I22)").1;
    let (charm, other_charm) = (charm(id), charm(other));
    let keys: Vec<String> = if id == other {
        let peer = a_endpoint.filter(|_| a_endpoint == b_endpoint);
        peer.map(|endpoint| format!("{a}:{endpoint}")).into_iter().collect()
    } else {
        let left = IntegrateEnd { application: a, charm: &charm, endpoint: a_endpoint };
        let right = IntegrateEnd { application: b, charm: &other_charm, endpoint: b_endpoint };
        let pairs = endpoints::compatible_pairs(left, right).unwrap_or_default();
        pairs.iter().map(|pair| key_text([(a, &*pair.left.name), (b, &*pair.right.name)])).collect()
    };
    if keys.len() > KEYS_MAX {
        let message = format!("{left:?} {right:?} may be one of many relations");
        return Err(Refusal::new(Code::Ambiguous, message).hint("name the endpoints"));
    }
    let found = keys.into_iter().filter_map(|key| Some((draft.get(&model.relation_key(&key))?, key)));
    match &found.collect::<Vec<_>>()[..] {
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
        unbind(draft, model, id, &doc);
    }
    Ok(Destroyed::Dying)
}

/// The relation is no longer Alive: no subordinate lives by it (scenario 121).
fn unbind(draft: &mut Draft, model: Model, id: Uuid, doc: &RelationDoc) {
    if let Some(subordinate_link) = &doc.subordinate_link {
        draft.remove(&model.container(subordinate_link, id));
    }
}

/// The user's suspend-relation (spec A.12, scenario 102): the units of both sides leave, and nobody enters, until it is
/// resumed. Again with other words: these are shown from then on. Peer relations cannot be suspended.
pub fn suspend(draft: &mut Draft, model: Model, id: Uuid, message: &str, now_ms: i64) -> Result<(), Refusal> {
    let before = suspension(draft, model, id, "suspend")?;
    let since_ms = before.as_ref().map_or(now_ms, |before| before.since_ms);
    let suspended = SuspendedDoc { message: message.to_owned(), since_ms };
    if before.as_ref() != Some(&suspended) {
        draft.put(&model.relation_suspended(id), &suspended);
    }
    Ok(())
}

/// The user's resume-relation: all of them enter again, as if it were new. One that is not suspended: no change.
pub fn resume(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    if suspension(draft, model, id, "resume")?.is_some() {
        draft.remove(&model.relation_suspended(id));
    }
    Ok(())
}

/// Whether a relation that may be suspended and resumed is.
fn suspension(draft: &mut Draft, model: Model, id: Uuid, act: &str) -> Result<Option<SuspendedDoc>, Refusal> {
    let doc = draft.get(&model.relation(id)).ok_or_else(|| Refusal::not_found("relation", id))?;
    let ends = doc.key_text();
    if doc.is_peer() {
        let message = format!("cannot {act} peer relation {ends}");
        return Err(Refusal::new(Code::Forbidden, message).hint("it is there as long as its application is"));
    }
    if effective_life::relation_life_of(draft, model, id, &doc) != Life::Alive {
        let blockers = blockers::blockers(draft, model, EntityId::Relation(id));
        let message = format!("cannot {act} relation {ends}: it is being removed");
        return Err(Refusal::new(Code::NotAlive, message).blockers(model, blockers));
    }
    Ok(draft.get(&model.relation_suspended(id)))
}

/// A unit announces itself, with its initial settings in the same transaction (spec A.12, I13). Unit and relation
/// must be Alive (I21, scenario 174) and the relation not suspended; in scope already, it stays (spec E.8#15) with
/// these settings: its agent is their only author. Each entry is another incarnation, numbered by the bag's counter,
/// which grows with it. With a principal comes its subordinate, whose uuid is one of `ids`.
pub fn enter_scope(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: Uuid,
    settings: &Bag,
    given: (i64, &mut dyn FnMut() -> Uuid),
) -> Result<(), Refusal> {
    enter(draft, model, (unit, false), id, settings, given)
}

/// What a unit that restates was in. Suspended or not: 1. a unit is in scope, and the store is restored from before
/// that; 2. the relation is suspended, the unit restates, and the relation is resumed. The unit, which saw nothing of
/// it, takes itself to be in (cargo sim 64000922). If it is still suspended, the unit sees so, and leaves.
pub(crate) fn reenter_scope(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: Uuid,
    settings: &Bag,
    given: (i64, &mut dyn FnMut() -> Uuid),
) -> Result<(), Refusal> {
    enter(draft, model, (unit, true), id, settings, given)
}

fn enter(
    draft: &mut Draft,
    model: Model,
    (unit, again): (Uuid, bool),
    id: Uuid,
    settings: &Bag,
    given: (i64, &mut dyn FnMut() -> Uuid),
) -> Result<(), Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found("unit", unit))?;
    let relation = draft.get(&model.relation(id)).ok_or_else(|| Refusal::not_found("relation", id))?;
    if !includes_unit(&relation, &doc) {
        let message = format!("unit {} has no part in relation {}", doc.name, relation.key_text());
        return Err(Refusal::new(Code::Forbidden, message));
    }
    let container = container(relation.scope, unit, &doc);
    let scope = model.scope(id, container, unit);
    if draft.get(&scope).is_some() {
        if let Some(subordinate_link) = relation
            .subordinate_link
            .filter(|subordinate_link| again && subordinate_link.principal == doc.application)
        {
            let beside = draft.first(&model.subordinates_of(unit, subordinate_link.subordinate), &[]);
            let life = beside.and_then(|key| draft.get(&model.unit_life(last_id(&key)?)));
            if life != Some(Life::Alive) {
                session::pending_reentry(draft, model, unit, |all| {
                    all.insert(id);
                });
            }
        }
        let mut bag = draft.get(&model.bag(id, unit)).unwrap_or_default();
        if bag.values != *settings {
            bag.values = settings.clone();
            bag.counter += 1;
            draft.put(&model.bag(id, unit), &bag);
        }
        return Ok(());
    }
    let refuse = |what: String| {
        let message = format!("unit {} cannot enter the scope of {}: {what}", doc.name, relation.key_text());
        Err(Refusal::new(Code::NotAlive, message))
    };
    let life = effective_life::unit_life_of(draft, model, unit, &doc);
    if life != Life::Alive {
        return refuse(format!("the unit is {life}"));
    }
    let life = effective_life::relation_life_of(draft, model, id, &relation);
    if life != Life::Alive {
        return refuse(format!("the relation is {life}"));
    }
    if !again && draft.get(&model.relation_suspended(id)).is_some() {
        return refuse("the relation is suspended".to_owned());
    }
    if let Some(subordinate_link) =
        relation.subordinate_link.filter(|subordinate_link| subordinate_link.principal == doc.application)
    {
        let added =
            crate::lifecycle::unit::add_subordinate(draft, model, (unit, &doc), &subordinate_link, given);
        if let Err(refusal) = added {
            // 1. A unit enters and brings a subordinate, and the store is restored from when the one before that was
            // still going. 2. The unit restates, and no second one can come. 3. It takes itself to be in, and would
            // hear nothing of the relation any more (cargo sim 66064694).
            if again {
                session::pending_reentry(draft, model, unit, |all| {
                    all.insert(id);
                });
            }
            return refuse(refusal.message);
        }
    }
    let before = draft.get(&model.bag(id, unit)).unwrap_or_default();
    let counter = before.counter + 1;
    let bag = BagDoc { owner: doc.name.to_string(), container, counter, values: settings.clone() };
    draft.put(&model.bag(id, unit), &bag);
    let entry = ScopeDoc { unit: doc.name.clone(), application: doc.application, incarnation: counter };
    draft.put(&scope, &entry);
    draft.put(&model.scope_of(unit, id), &());
    Ok(())
}

/// A unit has left (spec A.12, E.2). Its settings stay until the relation is removed (I14). The last one out of a
/// Dying relation removes it, and with it a Dying application that only this relation held (scenarios 161, 163).
/// Not in scope: no change, but that one who was shut out may come in again.
pub fn leave_scope(draft: &mut Draft, model: Model, unit: Uuid, id: Uuid) {
    if draft.get(&model.scope_of(unit, id)).is_none() {
        return session::pending_reentry(draft, model, unit, |all| {
            all.remove(&id);
        });
    }
    let doc = draft.get(&model.unit(unit)).expect("who is in a scope exists (I22)");
    let relation = draft.get(&model.relation(id)).expect("a scope's relation exists (I22)");
    if relation.subordinate_link.is_some_and(|subordinate_link| subordinate_link.principal == doc.application)
    {
        session::pending_reentry(draft, model, unit, |all| {
            all.remove(&id);
        });
    }
    draft.remove(&model.scope(id, container(relation.scope, unit, &doc), unit));
    draft.remove(&model.scope_of(unit, id));
    reap(draft, model, id);
}

/// Removes a Dying relation that nobody is in the scope of (I18).
pub(crate) fn reap(draft: &mut Draft, model: Model, id: Uuid) {
    let Some(doc) = draft.get(&model.relation(id)) else {
        return;
    };
    let dying = effective_life::relation_life_of(draft, model, id, &doc) != Life::Alive;
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
    unbind(draft, model, id, doc);
    if !doc.is_peer() {
        draft.remove(&model.relation_suspended(id));
    }
    draft.put(&model.tombstone(id), &TombstoneDoc { kind: "relation".to_owned(), name: doc.key_text() });
    draft.put(&model.cleanup(id), &vec![model.bags(id)]);
    for side in &doc.sides {
        draft.remove(&model.relation_of(side.application, id));
    }
    for side in &doc.sides {
        application::remove_if_unreferenced(draft, model, side.application);
    }
}
