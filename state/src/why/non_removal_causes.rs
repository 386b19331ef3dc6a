//! The causes for which entities wait, except for their own removal.
//!
//! `documents::blockers` explains entities that are being removed; this module explains entities that remain, and
//! failures of the provider. The functions read documents and never write. The other modules of `why` add the causes
//! that depend on presence and times.

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::effective_life;
use crate::documents::fake_application::is_fake_machine;
use crate::documents::prelude::{
    GLOBAL, MachineDoc, Model, RelationDoc, RelationEndDoc, TokenHolder, last_id,
};
use crate::lifecycle::machine;
use crate::terms::cause::{Actor, Cause, Count, Duty, Entity, Host};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::provider_kind::ProviderKind;

/// Returns the cause for a suspended relation that is not being removed: it waits to be resumed.
pub fn suspended(reader: &dyn Reader, model: Model, id: Uuid) -> Option<Cause> {
    let suspended = read(reader, &model.relation_suspended(id))?;
    let doc = read(reader, &model.relation(id))?;
    let life = effective_life::relation_life_of(&mut { reader }, model, id, &doc);
    let duty = Duty::ResumeRequest { message: suspended.message };
    let cause = Cause::new(Entity::Relation(doc.name()), duty, Actor::Operator).since(suspended.since_ms);
    (life == Life::Alive).then_some(cause)
}

/// Returns the cause for a subordinate application without units: it waits to be integrated with a principal
/// application that has units.
pub fn without_principal(reader: &dyn Reader, model: Model, application: Uuid, name: &str) -> Option<Cause> {
    let relations = read_all::<()>(reader, &model.relations_of(application));
    let alive = |id: &Uuid| effective_life::relation_life(&mut { reader }, model, *id) == Some(Life::Alive);
    let alive = relations.iter().filter_map(|(key, ())| last_id(key)).filter(alive);
    let docs = alive.filter_map(|id| read(reader, &model.relation(id)));
    // a relation of global scope adds no unit to a subordinate
    let docs = docs.filter(|doc: &RelationDoc| doc.subordinate_link.is_some());
    let mut others = docs.map(|doc: RelationDoc| doc.other_end(application).clone());
    let has_units = |side: &RelationEndDoc| !reader.scan(&model.units_of(side.application), "", 1).is_empty();
    let first = others.next();
    if first.iter().any(&has_units) || others.any(|other| has_units(&other)) {
        return None;
    }
    let duty = match first {
        Some(side) => Duty::AddPrincipalUnit { principal: side.application_name },
        None => Duty::Integrate,
    };
    Some(Cause::new(Entity::Application(name.to_owned()), duty, Actor::Operator))
}

/// Returns the cause for a machine whose provider has failed: it waits for the provider. `starts` is whether the
/// instance still has to be started.
pub fn provisioning(reader: &dyn Reader, model: Model, id: Uuid, name: &str, starts: bool) -> Option<Cause> {
    let error = read(reader, &model.machine_provisioning_error(id))?;
    let retry_ms = error.retry_ms;
    let duty = if starts { Duty::StartInstance { retry_ms } } else { Duty::ReachInstance { retry_ms } };
    let cause = Cause::new(Entity::Machine(name.to_owned()), duty, Actor::Provisioner);
    Some(cause.since(error.since_ms).last_error(error.message))
}

/// Returns the cause for a machine without an instance whose units have run hooks: the units can be removed only by
/// their own agents. A Dying machine gets a new instance for them (`machine::provision`), unless it is manually
/// provisioned.
pub fn missing_instance(reader: &dyn Reader, model: Model, id: Uuid) -> Option<Cause> {
    let doc = read(reader, &model.machine(id))?;
    let instance = read(reader, &model.machine_instance(id));
    let has_instance = instance.is_some_and(|instance| instance.id.is_some());
    if has_instance || !machine::needs_unit_agent(reader, model, id) {
        return None;
    }
    let (duty, actor) = match doc.manual {
        true => (Duty::RemoveUnits, Actor::Operator),
        false => (Duty::CreateInstance, Actor::Provisioner),
    };
    Some(Cause::new(Entity::Machine(doc.name), duty, actor))
}

/// Returns the cause for a manually provisioned machine that has not enrolled: it waits for its owner. The command that
/// enrols it cannot be shown again, because only the digest of the token is stored.
pub fn enrolment(reader: &dyn Reader, model: Model, id: Uuid) -> Option<Cause> {
    let doc = read(reader, &model.machine(id)).filter(|_| !is_fake_machine(&mut { reader }, model, id))?;
    let holder = read(reader, &GLOBAL.token_digest(id)).and_then(|hash| read(reader, &GLOBAL.token(&hash)));
    let expires_ms = match holder {
        Some(TokenHolder::EnrollingMachine { expires_ms, .. }) => Some(expires_ms),
        Some(_) | None => None,
    };
    let cause = Cause::new(Entity::Machine(doc.name), Duty::Enrol { expires_ms }, Actor::Operator);
    Some(cause.since(doc.created_ms))
}

/// Returns the actor that restarts the agent of a machine, and the host on which the agent runs.
pub fn host(reader: &dyn Reader, model: Model, id: Uuid, doc: &MachineDoc) -> (Actor, Host) {
    let instance = read(reader, &model.machine_instance(id));
    match instance.and_then(|instance| instance.provider) {
        _ if doc.manual => (Actor::Operator, Host::Manual),
        Some(ProviderKind::Nspawn) => (Actor::Supervisor, Host::Container(id)),
        Some(ProviderKind::Local) | None => (Actor::Supervisor, Host::Process(id)),
    }
}

/// Returns the cause for a model that is being destroyed: it waits until its applications and machines have been
/// removed.
pub fn destruction(
    reader: &dyn Reader,
    model: Model,
    name: &str,
    applications: Count,
    machines: Count,
) -> Option<Cause> {
    let doc = read(reader, &model.model_destruction())?;
    let duty = Duty::EmptyModel { applications, machines, force: doc.force };
    Some(Cause::new(Entity::Model(name.to_owned()), duty, Actor::Janitor).since(doc.since_ms))
}
