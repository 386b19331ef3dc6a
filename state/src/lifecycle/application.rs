//! Applications: deployed from a charm archive, configured, refreshed and destroyed (spec E.4).
//!
//! Destroying an application writes one document, its life; the lives of its units and relations are derived
//! from it. An application is never visible as Dead: it is Dying until its last unit and relation are removed,
//! and removed in the same transaction as the last of them. Called by the handlers of users, by the janitor and
//! by the other lifecycle modules.

use crate::charm::options::{self, Settings};
use crate::charm::{Base, Charm, Role};
pub use crate::documents::application::charm_of;
use crate::documents::blockers::{self, EntityId, operator_removal};
use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::prelude::{
    ApplicationDoc, ApplicationStorageDoc, CharmDoc, GLOBAL, Model, TombstoneDoc, TombstoneKind,
};
use crate::documents::refusal::Refusal;
use crate::documents::sequence;
use crate::lifecycle::application_settings::{self, ChangedSettings};
use crate::lifecycle::creation::{Creation, require_count};
use crate::lifecycle::leadership;
use crate::lifecycle::resource::ResourceOwner;
use crate::lifecycle::secret;
use crate::lifecycle::storage_directives;
use crate::lifecycle::unit::{Destroyed, Placement};
use crate::lifecycle::{archive, relation, resource, unit};
use crate::terms::cause::Entity;
use crate::terms::constraints::Constraints;
use crate::terms::life::Life;
use crate::terms::names::{NAME_LENGTH_MAX, UnitName, Uuid, is_application_name};
use crate::terms::refusal::application::{ApplicationRefusal, ApplicationRequest};
use crate::terms::refusal::{AddedKind, EntityKind};
use crate::terms::resource::Resources;
use crate::terms::storage::{StorageDirective, StorageId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Relations that are examined in one batch when their application is destroyed. Each may be removed (9
/// writes), and with it a Dying application at its other end (11 writes): 4 × 20 and the application's own 11
/// are 91 of a transaction's 600 writes. The janitor examines the rest in batches of the same size.
const RELATIONS_PER_BATCH: usize = 4;

/// Deploys an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Deploy {
    /// The name of the application; none for the name of the charm.
    pub application: Option<String>,
    /// The digest of an uploaded charm archive; `NotFound` if the controller does not have it, or no longer.
    pub sha256: String,
    /// The number of units. Of a subordinate charm at most 1, which is ignored: its units are created with those of
    /// principals.
    pub units: u32,
    /// The name of the machine for the first unit; none to add a machine for each unit.
    pub to: Option<String>,
    /// The initial settings.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    /// Whether the application is trusted from the beginning.
    #[serde(default)]
    pub trusted: bool,
    /// The operating system of the new machines for its units; none for that of the provider. A provider that does not
    /// have it uses its own.
    #[serde(default)]
    pub base: Option<Base>,
    /// What each unit gets of the storage of the charm, by name; for others what the charm requires.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<String, StorageDirective>,
    /// Existing instances of storage for the unit. It is added to their machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach_storage: Vec<StorageId>,
    /// The constraints of the machines of its units, in the form in which they are typed. A subordinate can have none.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub constraints: Constraints,
    /// The digests of uploaded files, by resource.
    #[serde(default)]
    pub resources: BTreeMap<String, String>,
    /// Whether its units have no agents, so that a user sets what they publish. Only in models in which charms are
    /// developed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fake: bool,
}

/// Refreshes an application: its charm is replaced by another revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// The application.
    pub application: String,
    /// The digest of the uploaded archive of the new charm.
    pub sha256: String,
    /// Whether units in error take the new charm, too (`--force-units`).
    pub forced: bool,
    /// Whether the charm of the application stays if it has this digest and no file of a resource is attached. Otherwise each
    /// refresh is a new revision.
    #[serde(default)]
    pub only_if_changed: bool,
    /// Settings that are changed together with the charm.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    /// Whether the application becomes trusted; otherwise this does not change.
    #[serde(default)]
    pub trusted: bool,
    /// The digests of uploaded files that are attached together with the charm, by resource.
    #[serde(default)]
    pub resources: BTreeMap<String, String>,
}

/// The result of [`deploy`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deployed {
    /// The new application.
    pub application: Uuid,
    /// Its name.
    pub name: String,
    /// Its charm.
    pub charm: CharmDoc,
    /// Its units.
    pub units: Vec<UnitName>,
    /// The number of units that did not fit into the transaction. The controller adds them in others before it answers.
    pub units_remaining: u32,
}

/// The application named `name`.
///
/// # Errors
/// If there is none.
pub fn find(documents: &mut impl Documents, model: Model, name: &str) -> Result<Uuid, Refusal> {
    let found = documents.document(&model.application_name(name));
    found.ok_or_else(|| Refusal::not_found(EntityKind::Application, name))
}

/// Returns the application. Refuses the request if it is not Alive: nothing new may refer to an application that is being
/// removed (I21).
pub(crate) fn require_alive(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    request: ApplicationRequest,
) -> Result<ApplicationDoc, Refusal> {
    let doc =
        draft.get(&model.application(id)).ok_or_else(|| Refusal::not_found(EntityKind::Application, id))?;
    if draft.get(&model.application_life(id)) == Some(Life::Alive) {
        return Ok(doc);
    }
    let blockers = blockers::blockers(draft, model, EntityId::Application(id));
    let reason = ApplicationRefusal::BeingRemoved { application: doc.name, request };
    Err(Refusal::new(reason).blockers(model, blockers))
}

/// Creates an application with its peer relations and first units in one transaction (spec E.1).
///
/// The name must be free. The name of a Dying application is not free; the refusal lists what that application
/// waits for (I26; against scenario 177). A subordinate gets no units here.
///
/// # Errors
/// If the model is not Alive, the archive or a resource is not registered, the name is invalid or taken, or a setting or
/// the name of a resource is invalid.
pub fn deploy(
    draft: &mut Draft,
    model: Model,
    request: &Deploy,
    mut creation: Creation<'_>,
) -> Result<Deployed, Refusal> {
    let charm = registered_charm(draft, &request.sha256)?;
    let name = request.application.clone().unwrap_or_else(|| charm.name.clone());
    crate::lifecycle::model::require_alive(draft, model)?;
    require_count(request.units, AddedKind::Units)?;
    require_name_free(draft, model, &name)?;
    require_peers_within_limit(&charm)?;
    if request.fake {
        crate::lifecycle::model::require_development(draft, model)?;
        if charm.subordinate || !charm.storage.is_empty() {
            return Err(ApplicationRefusal::CannotBeFake { charm: charm.name.clone() }.into());
        }
    }
    if charm.subordinate && (request.to.is_some() || request.units > 1) {
        return Err(ApplicationRefusal::SubordinateUnits { application: name }.into());
    }
    if charm.subordinate && !request.constraints.is_empty() {
        return Err(ApplicationRefusal::SubordinateConstraints { application: name }.into());
    }
    let mut changed = ChangedSettings { options: Settings::new(), is_trusted: request.trusted };
    changed.change(&charm, &request.config, &[])?;
    storage_directives::validate_directives(&charm, &request.storage)?;

    let application = (creation.ids)();
    let doc = ApplicationDoc {
        name: name.clone(),
        subordinate: charm.subordinate,
        created_ms: creation.now_ms,
        requested_base: request.base.clone(),
    };
    draft.put(&model.application(application), &doc);
    draft.put(&model.application_life(application), &Life::Alive);
    draft.put(&model.application_name(&name), &application);
    if request.fake {
        draft.put(&model.fake_application(application), &());
    }
    if !request.constraints.is_empty() {
        draft.put(&model.constraints(application), &request.constraints);
    }
    draft.put(&model.application_config(application), &changed.options);
    application_settings::set_trust(draft, model, application, changed.is_trusted);
    let mut charm_doc = charm_doc(draft, model, &request.sha256, &charm);
    let (resources, now_ms) = (&mut charm_doc.resources, creation.now_ms);
    let owner = ResourceOwner { model, application, charm: &charm };
    resource::attach(draft, owner, resources, &request.resources, now_ms)?;
    draft.put(&model.application_charm(application), &charm_doc);
    archive::record_use(draft, model, application, &request.sha256);
    if !request.storage.is_empty() {
        let directives = request.storage.clone();
        draft.put(
            &model.application_storage(application),
            &ApplicationStorageDoc { directives, destroyed: false },
        );
    }
    relation::add_peers(draft, model, application, &name, &charm, creation.reborrow());

    let requested = if charm.subordinate { 0 } else { request.units };
    let placement = Placement { to: request.to.as_deref(), attach: &request.attach_storage };
    let units = match placement.attach.is_empty() {
        true => unit::add_batch(draft, model, application, requested, placement.to, creation)?,
        false => {
            vec![unit::add_with_storage(draft, model, application, requested, placement, creation)?]
        }
    };
    let added = u32::try_from(units.len()).expect("at most as many as requested");
    Ok(Deployed {
        application,
        name,
        charm: charm_doc,
        units: units.into_iter().map(|(_, name)| name).collect(),
        units_remaining: requested - added,
    })
}

fn require_name_free(draft: &mut Draft, model: Model, name: &str) -> Result<(), Refusal> {
    if !is_application_name(name) {
        return Err(ApplicationRefusal::InvalidName { name: name.to_owned() }.into());
    }
    if name.len() > NAME_LENGTH_MAX {
        return Err(ApplicationRefusal::NameTooLong { length: name.len(), max: NAME_LENGTH_MAX }.into());
    }
    let Some(holder) = draft.get(&model.application_name(name)) else {
        return Ok(());
    };
    if draft.get(&model.application_life(holder)) == Some(Life::Alive) {
        return Err(ApplicationRefusal::AlreadyExists { name: name.to_owned() }.into());
    }
    let blockers = blockers::blockers(draft, model, EntityId::Application(holder));
    let reason = ApplicationRefusal::PredecessorExists { name: name.to_owned() };
    Err(Refusal::new(reason).blockers(model, blockers))
}

fn registered_charm(draft: &mut Draft, sha256: &str) -> Result<Arc<Charm>, Refusal> {
    let charm = draft.get(&GLOBAL.archive(sha256)).and_then(|archive| archive.charm);
    let charm = charm.ok_or_else(|| Refusal::not_found(EntityKind::CharmArchive, sha256))?;
    if !charm.containers.is_empty() {
        return Err(ApplicationRefusal::NeedsKubernetes { charm: charm.name.clone() }.into());
    }
    Ok(charm)
}

/// Refuses a charm that declares so many peer relations that a unit could not leave them all in one transaction.
fn require_peers_within_limit(charm: &Charm) -> Result<(), Refusal> {
    let peers = charm.endpoints.values().filter(|endpoint| endpoint.role == Role::Peer).count();
    if peers > relation::PEERS_MAX {
        let (charm, max) = (charm.name.clone(), relation::PEERS_MAX);
        return Err(ApplicationRefusal::TooManyPeers { charm, peers, max }.into());
    }
    Ok(())
}

/// The charm under a new revision. Revisions are numbered by the name of the charm: two charms of one name never have
/// one URL, whatever revision their files declare.
fn charm_doc(draft: &mut Draft, model: Model, sha256: &str, charm: &Charm) -> CharmDoc {
    let revision = sequence::take(draft, model, &format!("charm/{}", charm.name));
    let revision = u32::try_from(revision).expect("fewer than 2^32 refreshes");
    CharmDoc {
        sha256: sha256.to_owned(),
        name: charm.name.clone(),
        url: format!("local:{}-{revision}", charm.name),
        revision,
        forced: false,
        previous: Vec::new(),
        resources: Resources::default(),
    }
}

/// The user's `refresh`: changes the charm of an Alive application (spec A.6).
///
/// The charm gets a new revision, also if its content is the same: the units run upgrade-charm, as in Juju.
/// Refused if the new charm lacks an endpoint that a relation uses. Options that the new charm lacks, or
/// declares with another type, are dropped (spec/charms.md, lesson 7); new peer relations are created, with
/// identifiers from `creation`. With `forced`, units in error take the new charm, too.
///
/// # Errors
/// If there is no such application or archive, the application is not Alive, or the charm does not fit.
pub fn refresh(
    draft: &mut Draft,
    model: Model,
    request: &Refresh,
    creation: Creation<'_>,
) -> Result<CharmDoc, Refusal> {
    let id = find(draft, model, &request.application)?;
    let doc = require_alive(draft, model, id, ApplicationRequest::Refresh)?;
    let (current, before) = charm_of(draft, model, id)
        .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, &doc.name))?;
    let charm = registered_charm(draft, &request.sha256)?;
    if charm.name != before.name {
        let (current, charm) = (before.name.clone(), charm.name.clone());
        return Err(ApplicationRefusal::OtherCharm { application: doc.name, current, charm }.into());
    }
    if charm.subordinate != doc.subordinate {
        return Err(ApplicationRefusal::SubordinateChanged { application: doc.name }.into());
    }
    if draft.get(&model.fake_application(id)).is_some() && !charm.storage.is_empty() {
        return Err(ApplicationRefusal::CannotBeFake { charm: charm.name.clone() }.into());
    }
    // the existing peer relations are counted, too: require_endpoints keeps their endpoints
    require_peers_within_limit(&charm)?;
    require_endpoints(draft, model, id, &doc, &before, &charm)?;
    let had = draft.get(&model.application_config(id)).unwrap_or_default();
    let is_trusted = request.trusted || draft.get(&model.application_trust(id)).unwrap_or_default();
    let mut changed = ChangedSettings { options: options::retain_compatible(&charm, &had), is_trusted };
    changed.change(&charm, &request.config, &[])?;
    if changed.options != had {
        draft.put(&model.application_config(id), &changed.options);
    }
    application_settings::set_trust(draft, model, id, changed.is_trusted);
    if request.only_if_changed && current.sha256 == request.sha256 && request.resources.is_empty() {
        return Ok(current);
    }
    let previous = match current.sha256 == request.sha256 {
        true => current.previous.clone(),
        false => current.previous_of_next(),
    };
    let mut next = CharmDoc { previous, ..charm_doc(draft, model, &request.sha256, &charm) };
    next.forced = request.forced;
    next.resources = resource::retain_declared(&charm, &current.resources);
    let owner = ResourceOwner { model, application: id, charm: &charm };
    resource::attach(draft, owner, &mut next.resources, &request.resources, creation.now_ms)?;
    draft.put(&model.application_charm(id), &next);
    archive::record_use(draft, model, id, &request.sha256);
    relation::add_peers(draft, model, id, &doc.name, &charm, creation);
    Ok(next)
}

/// Refuses a charm that lacks an endpoint that a relation uses, or declares it differently.
fn require_endpoints(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    doc: &ApplicationDoc,
    before: &Charm,
    after: &Charm,
) -> Result<(), Refusal> {
    let same = |name: &String| {
        let shape = |charm: &Charm| charm.endpoint(name).map(|e| (e.role, e.interface, e.scope));
        shape(before) == shape(after)
    };
    if before.endpoints.keys().all(same) {
        return Ok(());
    }
    let relations = draft.ids(&model.relations_of(id), crate::documents::draft::PAGE_MAX);
    if relations.len() == crate::documents::draft::PAGE_MAX {
        return Err(ApplicationRefusal::TooManyRelations { application: doc.name.clone() }.into());
    }
    for relation in relations {
        let held = draft
            .get(&model.relation(relation))
            .ok_or_else(|| Refusal::not_found(EntityKind::Relation, relation))?;
        let side = held.end_of(id).expect("a relation's index is of its ends (I22)");
        if !same(&side.endpoint) {
            let blocker = operator_removal(Entity::Relation(held.name()));
            let (application, ends) = (doc.name.clone(), held.end_names());
            let reason = ApplicationRefusal::BreaksRelation { application, ends };
            return Err(Refusal::new(reason).blockers(model, vec![blocker]));
        }
    }
    Ok(())
}

/// The user's `remove-application` (spec E.4, scenarios 162, 164).
///
/// Writes one document: the lives of units and relations are derived from the application's. Relations with an
/// empty scope are removed in this transaction, and so is the application if nothing refers to it then.
/// Repeating the request changes nothing.
///
/// # Errors
/// If neither the application nor its tombstone exists.
pub fn destroy(draft: &mut Draft, model: Model, id: Uuid) -> Result<Destroyed, Refusal> {
    let Some(doc) = draft.get(&model.application(id)) else {
        return match draft.get(&model.tombstone(id)) {
            Some(_) => Ok(Destroyed::Removed),
            None => Err(Refusal::not_found(EntityKind::Application, id)),
        };
    };
    if draft.get(&model.application_life(id)) == Some(Life::Alive) {
        draft.put(&model.application_life(id), &Life::Dying);
        remove_dying_relations(draft, model, id, "");
        remove_if_unreferenced(draft, model, id);
    }
    let left = draft.get(&model.application_name(&doc.name)) == Some(id);
    Ok(if left { Destroyed::Dying } else { Destroyed::Removed })
}

/// Examines the next batch of a destroyed application's relations. The janitor calls this for every document
/// below `application-relation-removal/`, which holds the position of the last batch.
pub fn remove_next_batch(draft: &mut Draft, model: Model, id: Uuid) {
    let Some(after) = draft.get(&model.application_relation_removal(id)) else {
        return;
    };
    draft.remove(&model.application_relation_removal(id));
    remove_dying_relations(draft, model, id, &after);
    remove_if_unreferenced(draft, model, id);
}

fn remove_dying_relations(draft: &mut Draft, model: Model, id: Uuid, after: &str) {
    let page = draft.page::<()>(&model.relations_of(id), after, RELATIONS_PER_BATCH);
    if let (RELATIONS_PER_BATCH, Some((last, ()))) = (page.len(), page.last()) {
        draft.put(&model.application_relation_removal(id), last);
    }
    for (key, ()) in page {
        let relation = crate::documents::prelude::last_id(&key).expect("an index ends with an id");
        relation::remove_if_empty(draft, model, relation);
    }
}

/// Removes a Dying application that nothing refers to any more (I19). Every transition that removes a unit or a
/// relation calls this in the same transaction (spec E.8#11).
pub(crate) fn remove_if_unreferenced(draft: &mut Draft, model: Model, id: Uuid) {
    let dying = draft.get(&model.application_life(id)).is_some_and(|life| life != Life::Alive);
    let held = dying
        && (draft.any_key(&model.units_of(id), &[]).is_some()
            || draft.any_key(&model.relations_of(id), &[]).is_some());
    if !dying || held {
        return;
    }
    let Some(doc) = draft.get(&model.application(id)) else { return };
    secret::remove_owner(draft, model, id);
    draft.remove(&model.application(id));
    draft.remove(&model.application_life(id));
    draft.remove(&model.application_charm(id));
    draft.remove(&model.application_config(id));
    draft.remove(&model.application_exposed(id));
    draft.remove(&model.fake_application(id));
    draft.remove(&model.application_trust(id));
    draft.remove(&model.application_storage(id));
    draft.remove(&model.application_status(id));
    draft.remove(&model.status_log(id));
    draft.remove(&model.constraints(id));
    draft.remove(&model.application_name(&doc.name));
    draft.remove(&model.leader(id));
    draft.remove(&model.leader_settings(id));
    draft.remove(&model.sequence(&leadership::generation_sequence(id)));
    draft.remove(&model.application_relation_removal(id));
    draft.put(&model.tombstone(id), &TombstoneDoc::new(TombstoneKind::Application, doc.name));
}
