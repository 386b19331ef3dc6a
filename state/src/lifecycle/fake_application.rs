//! Fake applications, for the development of charms (`pintle dev`): their units have no agents, and a user sets what they
//! publish in relations.
//!
//! A fake application is an ordinary application of a model in which charms are developed, marked when it is deployed.
//! Its units are on a machine that never enrols. The controller does what an agent would do when something is removed:
//! fake units leave each relation that is not Alive or is suspended, and are removed once they are not Alive
//! ([`tear_down`]). Other units observe ordinary members.
//!
//! Called by the handlers of users and by the janitor.

use crate::charm::Scope;
use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Reader, read, read_all};
use crate::documents::effective_life;
use crate::documents::fake_application::is_fake;
use crate::documents::prelude::{BagDoc, Model, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::{application, relation, scope, unit};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::application::ApplicationRefusal;
use crate::terms::refusal::relation::RelationRefusal;
use crate::terms::settings::{self, Bag};
use serde::{Deserialize, Serialize};

/// Sets what a fake application, or a unit of it, publishes in a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetFakeSettings {
    /// The fake application.
    pub application: String,
    /// One end of the relation, as `remove-relation` names it: `web:db`.
    pub left: String,
    /// The other end: `postgres:db`.
    pub right: String,
    /// The unit that publishes; none for the application.
    pub unit: Option<UnitName>,
    /// The settings, which replace the previous ones; the unit enters the scope of the relation if it is not in it. None: the
    /// unit leaves the relation; the settings of the application become empty.
    pub settings: Option<Bag>,
}

/// Sets what a fake application or its unit publishes.
///
/// # Errors
/// If an entity does not exist, the application is not fake or takes no part in the relation, or the settings are too
/// large. Also, for the settings of a unit, if the relation has container scope, or the unit would have to enter the scope
/// and [`scope::enter`] refuses it: the unit or the relation is not Alive, or the relation is suspended.
pub fn set_settings(
    draft: &mut Draft,
    model: Model,
    request: &SetFakeSettings,
    creation: Creation,
) -> Result<(), Refusal> {
    let owner = application::find(draft, model, &request.application)?;
    if draft.get(&model.fake_application(owner)).is_none() {
        return Err(ApplicationRefusal::NotFake { application: request.application.clone() }.into());
    }
    let (left, right) = (&request.left, &request.right);
    let id = relation::find(draft, model, left, right)?;
    let doc = draft.get(&model.relation(id)).ok_or_else(|| Refusal::not_found(EntityKind::Relation, id))?;
    if doc.end_of(owner).is_none() {
        return Err(RelationRefusal::NotFound { left: left.clone(), right: right.clone() }.into());
    }
    let settings = request.settings.clone().unwrap_or_default();
    let bytes = settings::size(&settings);
    if bytes > settings::BAG_BYTES_MAX {
        let (application, max) = (request.application.clone(), settings::BAG_BYTES_MAX);
        return Err(ApplicationRefusal::FakeSettingsTooLarge { application, bytes, max }.into());
    }
    let Some(name) = &request.unit else {
        let key = model.bag(id, owner);
        let before = draft.get(&key);
        let mut bag = before.unwrap_or_else(|| BagDoc::new(Owner::Application(request.application.clone())));
        if bag.values != settings {
            (bag.counter, bag.values) = (bag.counter + 1, settings);
            draft.put(&key, &bag);
        }
        return Ok(());
    };
    let unit = unit::find(draft, model, name)?;
    if draft.get(&model.unit(unit)).is_none_or(|unit| unit.application != owner) {
        return Err(Refusal::not_found(EntityKind::Unit, name));
    }
    match request.settings {
        Some(_) if doc.scope == Scope::Container => {
            Err(ApplicationRefusal::FakeInContainer { application: request.application.clone() }.into())
        }
        Some(_) => scope::enter(draft, model, unit, id, &settings, creation),
        None => {
            relation::leave_scope(draft, model, unit, id);
            Ok(())
        }
    }
}

/// The most steps of teardowns of fake units that one sweep of the janitor executes in a model.
const TEARDOWNS_MAX: usize = 40;

/// A step of the teardown of a fake unit: it leaves a relation, or is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakeTeardown {
    unit: Uuid,
    relation: Option<Uuid>,
}

/// Returns the relations that fake units have to leave, and the fake units to remove: at most `TEARDOWNS_MAX`.
pub fn pending_teardowns(reader: &dyn Reader, model: Model) -> Vec<FakeTeardown> {
    let mut teardowns = Vec::new();
    let ids = |prefix: &str| -> Vec<Uuid> {
        read_all::<()>(reader, prefix).iter().filter_map(|(key, ())| last_id(key)).collect()
    };
    let fake = ids(&model.fake_applications());
    for unit in fake.into_iter().flat_map(|application| ids(&model.units_of(application))) {
        let Some(doc) = read(reader, &model.unit(unit)) else { continue };
        let is_alive = effective_life::unit_life_of(&mut { reader }, model, unit, &doc) == Life::Alive;
        let relations_to_leave = ids(&model.scopes_of(unit))
            .into_iter()
            .filter(|relation| !is_alive || must_be_left(&mut { reader }, model, *relation));
        teardowns.extend(relations_to_leave.map(|relation| FakeTeardown { unit, relation: Some(relation) }));
        if !is_alive {
            teardowns.push(FakeTeardown { unit, relation: None });
        }
        if teardowns.len() >= TEARDOWNS_MAX {
            break;
        }
    }
    teardowns.truncate(TEARDOWNS_MAX);
    teardowns
}

/// Whether the fake units of a relation have to leave it: it is not Alive, or is suspended.
fn must_be_left(documents: &mut impl Documents, model: Model, id: Uuid) -> bool {
    let Some(doc) = documents.document(&model.relation(id)) else { return false };
    effective_life::relation_life_of(documents, model, id, &doc) != Life::Alive
        || documents.document(&model.relation_suspended(id)).is_some()
}

/// Lets a fake unit leave a relation, or removes it, if that is still necessary.
///
/// # Errors
/// If the unit cannot be removed, for example because it is in the scope of a relation.
pub fn tear_down(
    draft: &mut Draft,
    model: Model,
    teardown: FakeTeardown,
    now_ms: i64,
) -> Result<(), Refusal> {
    let FakeTeardown { unit, relation } = teardown;
    let Some(doc) = draft.get(&model.unit(unit)) else { return Ok(()) };
    if !is_fake(draft, model, &doc) {
        return Ok(());
    }
    let is_alive = effective_life::unit_life_of(draft, model, unit, &doc) == Life::Alive;
    match relation {
        Some(relation) if !is_alive || must_be_left(draft, model, relation) => {
            relation::leave_scope(draft, model, unit, relation);
            Ok(())
        }
        None if !is_alive => unit::remove(draft, model, unit, now_ms),
        Some(_) | None => Ok(()),
    }
}
