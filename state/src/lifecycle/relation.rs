//! Relations: added between two compatible endpoints, left by units, removed with the last unit that leaves (spec
//! E.2, A.12).
//!
//! A relation is never visible as Dead: it is Dying until its scope is empty, and removed in the same
//! transaction as the last unit in it (I18). Called by the handlers of user requests, by deployments and refreshes
//! (peer relations), by the commit of unit records, by resyncs, by the removal of units and applications, by forced
//! removal and for fake applications.

use crate::charm::{Charm, Endpoint, IntegrateEnd, JUJU_INFO, NoMatch, Role, Scope, endpoints};
use crate::documents::blockers::{self, EntityId};
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{
    BagDoc, Model, RelationDoc, RelationEndDoc, SubordinateLink, SuspendedDoc, TombstoneDoc, TombstoneKind,
    UnitDoc, first_relation_of, last_id,
};
use crate::documents::refusal::Refusal;
use crate::documents::sequence;
use crate::lifecycle::application;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::pending_reentry;
use crate::lifecycle::unit::Destroyed;
use crate::terms::cause::RelationName;
use crate::terms::life::Life;
use crate::terms::names::{EndpointName, RelationEnds, RelationNumber, Uuid, is_application_name};
use crate::terms::owner::Owner;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::application::ApplicationRequest;
use crate::terms::refusal::relation::{RelationRefusal, SuspensionRequest};
use std::sync::Arc;

/// The maximum number of peer endpoints of one charm. A unit leaves all of its peer relations in one
/// transaction, with at most 8 writes each if it is the last one out; a deployment or refresh creates all of
/// them in one transaction.
pub const PEERS_MAX: usize = 8;

/// The maximum number of endpoint pairs that [`find`] looks up: one read each. With some 10 others and the 30 of the
/// removal they are 80, a small part of [`READS_MAX`](crate::documents::draft::READS_MAX).
const ENDPOINT_PAIRS_MAX: usize = 40;
/// The maximum number of relations of one application that are scanned to count those of one endpoint: some 10
/// us each, 10 ms in all.
const RELATIONS_SCANNED_MAX: usize = 1_000;

/// One end of a requested relation, written as `web` or `web:db`.
struct RequestedEnd {
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
        return Err(RelationRefusal::InvalidEnd { text: text.to_owned() }.into());
    }
    Ok((name, endpoint))
}

fn end(draft: &mut Draft, model: Model, text: &str) -> Result<RequestedEnd, Refusal> {
    let (name, endpoint) = split(text)?;
    let id = application::find(draft, model, name)?;
    application::require_alive(draft, model, id, ApplicationRequest::Integrate)?;
    let (_, charm) = application::charm_of(draft, model, id)
        .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, name))?;
    Ok(RequestedEnd { id, application: name.to_owned(), endpoint: endpoint.map(str::to_owned), charm })
}

/// The user's `integrate` (spec E.1 add relation).
///
/// Requires that the model and both applications are Alive, that the applications differ, that [`endpoints::infer`]
/// selects a pair of their endpoints, that the relation does not exist yet, and that the limits of both endpoints
/// permit another relation.
///
/// # Errors
/// If one of these does not hold, or if an application has `RELATIONS_SCANNED_MAX` relations and its endpoint a limit.
/// The refusal names the blockers of what is being removed.
pub fn add(
    draft: &mut Draft,
    model: Model,
    ends: [&str; 2],
    id: Uuid,
    now_ms: i64,
) -> Result<RelationName, Refusal> {
    crate::lifecycle::model::require_alive(draft, model)?;
    let (left, right) = (end(draft, model, ends[0])?, end(draft, model, ends[1])?);
    if left.id == right.id {
        return Err(RelationRefusal::SameApplication { application: left.application }.into());
    }
    let found = endpoints::infer(integrate_end(&left), integrate_end(&right)).map_err(no_match)?;
    let ends = [(&left, &found.left), (&right, &found.right)].map(|(end, endpoint)| end_doc(end, endpoint));
    let subordinate_link = subordinate_link(found.scope, &left, &right);
    let doc = RelationDoc {
        number: 0,
        ends: ends.to_vec(),
        scope: found.scope,
        subordinate_link,
        created_ms: now_ms,
    };
    let ends = doc.end_names();
    if let Some(holder) = draft.get(&model.relation_key(&ends)) {
        return Err(already_exists(draft, model, holder, ends));
    }
    for (end, endpoint) in [(&left, &found.left), (&right, &found.right)] {
        require_below_limit(draft, model, end, endpoint)?;
    }
    Ok(create(draft, model, id, doc).name())
}

fn integrate_end(end: &RequestedEnd) -> IntegrateEnd<'_> {
    IntegrateEnd { application: &end.application, charm: &end.charm, endpoint: end.endpoint.as_deref() }
}

fn end_doc(end: &RequestedEnd, endpoint: &Endpoint) -> RelationEndDoc {
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

/// The subordinate link of a container relation between a subordinate and a principal. There is none between
/// two subordinates: such a relation creates no units.
fn subordinate_link(scope: Scope, left: &RequestedEnd, right: &RequestedEnd) -> Option<SubordinateLink> {
    let (subordinate, principal) = match (scope, left.charm.subordinate, right.charm.subordinate) {
        (Scope::Container, true, false) => (left.id, right.id),
        (Scope::Container, false, true) => (right.id, left.id),
        (Scope::Container, ..) | (Scope::Global, ..) => return None,
    };
    Some(SubordinateLink { subordinate, principal, first_relation: 0 })
}

/// The container in which a unit is in scope: for a container relation its principal, or the unit itself if it
/// has none; for a global relation the nil UUID.
pub fn container(scope: Scope, unit: Uuid, doc: &UnitDoc) -> Uuid {
    match scope {
        Scope::Global => Uuid(0),
        Scope::Container => doc.principal.unwrap_or(unit),
    }
}

fn no_match(reason: NoMatch) -> RelationRefusal {
    match reason {
        NoMatch::Unknown { application, endpoint } => {
            RelationRefusal::UnknownEndpoint { application, endpoint }
        }
        NoMatch::Nothing { left, right } => RelationRefusal::NoCommonInterface { left, right },
        NoMatch::Ambiguous(pairs) => RelationRefusal::AmbiguousEndpoints { pairs },
        NoMatch::NoSubordinate => RelationRefusal::NoSubordinate,
    }
}

fn already_exists(draft: &mut Draft, model: Model, holder: Uuid, ends: RelationEnds) -> Refusal {
    if effective_life::relation_life(draft, model, holder) == Some(Life::Alive) {
        return RelationRefusal::AlreadyExists { ends }.into();
    }
    let blockers = blockers::blockers(draft, model, EntityId::Relation(holder));
    Refusal::new(RelationRefusal::PredecessorExists { ends }).blockers(model, blockers)
}

fn require_below_limit(
    draft: &mut Draft,
    model: Model,
    end: &RequestedEnd,
    endpoint: &Endpoint,
) -> Result<(), Refusal> {
    let Some(limit) = endpoint.limit else {
        return Ok(());
    };
    // Read untracked, because an application may have more relations than a transaction may read. Each new
    // relation also takes a number of the model in [`create`], so two concurrent requests still conflict.
    let relations = draft.keys_untracked(&model.relations_of(end.id), RELATIONS_SCANNED_MAX);
    let endpoint_name =
        EndpointName { application: end.application.clone(), endpoint: endpoint.name.clone() };
    if relations.len() == RELATIONS_SCANNED_MAX {
        return Err(RelationRefusal::LimitNotCheckable { endpoint: endpoint_name }.into());
    }
    let holds = |id: &Uuid| {
        let held = draft.get_untracked(&model.relation(*id));
        held.and_then(|held| held.end_of(end.id).map(|end| end.endpoint == endpoint.name)) == Some(true)
    };
    let holders: Vec<Uuid> = relations.iter().filter_map(|key| last_id(key)).filter(holds).collect();
    if holders.len() < limit as usize {
        return Ok(());
    }
    let blockers = blockers::capacity_blockers(draft, model, &endpoint_name, &holders);
    let reason = RelationRefusal::LimitReached { endpoint: endpoint_name, limit };
    Err(Refusal::new(reason).blockers(model, blockers))
}

/// Creates the peer relations of an application that do not exist yet: all of them at its deployment, the new
/// ones at a refresh.
pub(crate) fn add_peers(
    draft: &mut Draft,
    model: Model,
    application: Uuid,
    name: &str,
    charm: &Charm,
    creation: Creation,
) {
    for endpoint in charm.endpoints.values().filter(|endpoint| endpoint.role == Role::Peer) {
        let end = RelationEndDoc {
            application,
            application_name: name.to_owned(),
            endpoint: endpoint.name.clone(),
            role: Role::Peer,
            interface: endpoint.interface.clone(),
            implicit: false,
        };
        let (ends, scope) = (vec![end], Scope::Global);
        let doc = RelationDoc { number: 0, ends, scope, subordinate_link: None, created_ms: creation.now_ms };
        if draft.get(&model.relation_key(&doc.end_names())).is_none() {
            create(draft, model, (creation.ids)(), doc);
        }
    }
}

/// Assigns a number to the relation and stores it, with empty bags for its applications.
fn create(draft: &mut Draft, model: Model, id: Uuid, mut doc: RelationDoc) -> RelationDoc {
    let number = sequence::take(draft, model, "relation");
    doc.number = RelationNumber::try_from(number).expect("fewer than 2^32 relations in a model's life");
    if let Some(subordinate_link) = &mut doc.subordinate_link {
        subordinate_link.first_relation =
            first_relation_of_alive_link(draft, model, subordinate_link).unwrap_or(doc.number);
        draft.put(&model.relation_of_link(subordinate_link, id), &());
    }
    draft.put(&model.relation(id), &doc);
    draft.put(&model.relation_life(id), &Life::Alive);
    draft.put(&model.relation_key(&doc.end_names()), &id);
    for end in &doc.ends {
        draft.put(&model.relation_of(end.application, id), &());
        let bag = BagDoc::new(Owner::Application(end.application_name.clone()));
        draft.put(&model.bag(id, end.application), &bag);
    }
    doc
}

/// The number of the first relation of the subordinate link that a new relation between these applications continues;
/// none if no relation of an earlier link is Alive, so that the new relation starts a new link.
fn first_relation_of_alive_link(
    draft: &mut Draft,
    model: Model,
    subordinate_link: &SubordinateLink,
) -> Option<RelationNumber> {
    let alive = draft
        .any_key(&model.subordinate_links(subordinate_link.subordinate, subordinate_link.principal), &[])?;
    Some(first_relation_of(&alive).expect("the key contains a relation's number"))
}

/// The relation between two ends that a user names, for example in `remove-relation`. A peer relation is named
/// by its endpoint given twice; `remove-relation web web` matches none.
///
/// # Errors
/// If an application does not exist, a name is invalid, none or several relations match, or more than
/// `ENDPOINT_PAIRS_MAX` pairs of endpoints are possible.
pub fn find(draft: &mut Draft, model: Model, left: &str, right: &str) -> Result<Uuid, Refusal> {
    let ((a, a_endpoint), (b, b_endpoint)) = (split(left)?, split(right)?);
    let (id, other) = (application::find(draft, model, a)?, application::find(draft, model, b)?);
    let mut charm = |id, name| {
        let charm = application::charm_of(draft, model, id);
        charm.map(|(_, charm)| charm).ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, name))
    };
    let (charm, other_charm) = (charm(id, a)?, charm(other, b)?);
    let end = |application: &str, endpoint: &str| EndpointName {
        application: application.to_owned(),
        endpoint: endpoint.to_owned(),
    };
    let candidates: Vec<RelationEnds> = if id == other {
        let peer = a_endpoint.filter(|_| a_endpoint == b_endpoint);
        peer.map(|endpoint| RelationEnds::from_iter([end(a, endpoint)])).into_iter().collect()
    } else {
        let left = IntegrateEnd { application: a, charm: &charm, endpoint: a_endpoint };
        let right = IntegrateEnd { application: b, charm: &other_charm, endpoint: b_endpoint };
        let pairs = endpoints::compatible_pairs(left, right).unwrap_or_default();
        pairs
            .iter()
            .map(|pair| [end(a, &pair.left.name), end(b, &pair.right.name)].into_iter().collect())
            .collect()
    };
    if candidates.len() > ENDPOINT_PAIRS_MAX {
        let (left, right) = (left.to_owned(), right.to_owned());
        return Err(RelationRefusal::TooManyCandidates { left, right }.into());
    }
    let found =
        candidates.into_iter().filter_map(|ends| Some((draft.get(&model.relation_key(&ends))?, ends)));
    match &found.collect::<Vec<_>>()[..] {
        [(only, _)] => Ok(*only),
        [] => Err(RelationRefusal::NotFound { left: left.to_owned(), right: right.to_owned() }.into()),
        several => {
            let candidates = several.iter().map(|(_, ends)| ends.clone()).collect();
            Err(RelationRefusal::Ambiguous { candidates }.into())
        }
    }
}

/// The user's `remove-relation` (spec E.2; scenarios 160, 161, 175): removes the relation if its scope is
/// empty, else sets it Dying. Repeating the request changes nothing. A peer relation is removed only together
/// with its application.
///
/// # Errors
/// If it is a peer relation, or neither it nor its tombstone exists.
pub fn destroy(draft: &mut Draft, model: Model, id: Uuid) -> Result<Destroyed, Refusal> {
    let Some(doc) = draft.get(&model.relation(id)) else {
        return match draft.get(&model.tombstone(id)) {
            Some(_) => Ok(Destroyed::Removed),
            None => Err(Refusal::not_found(EntityKind::Relation, id)),
        };
    };
    if doc.is_peer() {
        return Err(RelationRefusal::PeerRemoved { ends: doc.end_names() }.into());
    }
    if draft.any_key(&model.scopes(id), &[]).is_none() {
        remove(draft, model, id, &doc);
        return Ok(Destroyed::Removed);
    }
    if draft.get(&model.relation_life(id)) == Some(Life::Alive) {
        draft.put(&model.relation_life(id), &Life::Dying);
        leave_subordinate_link(draft, model, id, &doc);
    }
    Ok(Destroyed::Dying)
}

/// Removes a relation that is no longer Alive from the index of its subordinate link. The link ends with the last
/// relation in the index (scenario 121).
fn leave_subordinate_link(draft: &mut Draft, model: Model, id: Uuid, doc: &RelationDoc) {
    if let Some(subordinate_link) = &doc.subordinate_link {
        draft.remove(&model.relation_of_link(subordinate_link, id));
    }
}

/// The user's `suspend-relation` (spec A.12, scenario 102): the units of both ends leave, and none enters until
/// the relation is resumed. Repeating the request with another message replaces the message. A peer relation
/// cannot be suspended.
///
/// # Errors
/// As [`resume`].
pub fn suspend(draft: &mut Draft, model: Model, id: Uuid, message: &str, now_ms: i64) -> Result<(), Refusal> {
    let before = suspension(draft, model, id, SuspensionRequest::Suspend)?;
    let since_ms = before.as_ref().map_or(now_ms, |before| before.since_ms);
    let suspended = SuspendedDoc { message: message.to_owned(), since_ms };
    if before.as_ref() != Some(&suspended) {
        draft.put(&model.relation_suspended(id), &suspended);
    }
    Ok(())
}

/// The user's `resume-relation`: all units enter again, as if the relation were new. Changes nothing for a
/// relation that is not suspended.
///
/// # Errors
/// If the relation does not exist, is not Alive, or is a peer relation.
pub fn resume(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    if suspension(draft, model, id, SuspensionRequest::Resume)?.is_some() {
        draft.remove(&model.relation_suspended(id));
    }
    Ok(())
}

/// The suspension of a relation, if it is suspended; refused for a relation that cannot be suspended or
/// resumed.
fn suspension(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    request: SuspensionRequest,
) -> Result<Option<SuspendedDoc>, Refusal> {
    let doc = draft.get(&model.relation(id)).ok_or_else(|| Refusal::not_found(EntityKind::Relation, id))?;
    let ends = doc.end_names();
    if doc.is_peer() {
        return Err(RelationRefusal::PeerSuspended { ends, request }.into());
    }
    if effective_life::relation_life_of(draft, model, id, &doc) != Life::Alive {
        let blockers = blockers::blockers(draft, model, EntityId::Relation(id));
        return Err(Refusal::new(RelationRefusal::BeingRemoved { ends, request }).blockers(model, blockers));
    }
    Ok(draft.get(&model.relation_suspended(id)))
}

/// Removes a unit from the scope of a relation (spec A.12, E.2).
///
/// Its settings stay until the relation is removed (I14). The last unit that leaves a Dying relation removes
/// it, and with it a Dying application that only this relation kept (scenarios 161, 163). For a unit that is
/// not in scope only its pending re-entry is deleted. A principal may have one although it is in scope: its subordinate
/// was not Alive when it resynchronised.
pub fn leave_scope(draft: &mut Draft, model: Model, unit: Uuid, id: Uuid) {
    if draft.get(&model.scope_of(unit, id)).is_none() {
        return pending_reentry::remove(draft, model, unit, id);
    }
    let (Some(doc), Some(relation)) = (draft.get(&model.unit(unit)), draft.get(&model.relation(id))) else {
        return; // damaged on disk: the store discards the transaction
    };
    if relation.subordinate_link.is_some_and(|subordinate_link| subordinate_link.principal == doc.application)
    {
        pending_reentry::remove(draft, model, unit, id);
    }
    draft.remove(&model.scope(id, container(relation.scope, unit, &doc), unit));
    draft.remove(&model.scope_of(unit, id));
    remove_if_empty(draft, model, id);
}

/// Removes a Dying relation whose scope is empty (I18).
pub(crate) fn remove_if_empty(draft: &mut Draft, model: Model, id: Uuid) {
    let Some(doc) = draft.get(&model.relation(id)) else {
        return;
    };
    let dying = effective_life::relation_life_of(draft, model, id, &doc) != Life::Alive;
    if dying && draft.any_key(&model.scopes(id), &[]).is_none() {
        remove(draft, model, id, &doc);
    }
}

/// Removes a relation, and a Dying application that only this relation kept. The bags, to which nothing refers
/// any more, are left to the janitor.
fn remove(draft: &mut Draft, model: Model, id: Uuid, doc: &RelationDoc) {
    draft.remove(&model.relation(id));
    draft.remove(&model.relation_life(id));
    draft.remove(&model.relation_key(&doc.end_names()));
    leave_subordinate_link(draft, model, id, doc);
    if !doc.is_peer() {
        draft.remove(&model.relation_suspended(id));
    }
    draft.put(&model.tombstone(id), &TombstoneDoc::new(TombstoneKind::Relation, doc.end_names().to_string()));
    draft.put(&model.cleanup(id), &vec![model.bags(id)]);
    for end in &doc.ends {
        draft.remove(&model.relation_of(end.application, id));
    }
    for end in &doc.ends {
        application::remove_if_unreferenced(draft, model, end.application);
    }
}
