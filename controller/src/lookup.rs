//! Looks up entities by the names that users give: models, units (`web/0`, `web/leader`), leaders, relations and removal
//! targets.
//!
//! Each function returns a refusal if the entity does not exist. Called by the handlers of users and by `why`.

use api::{RelationChoice, RemovalTarget, UnitChoice};
use state::documents::blockers::EntityId;
use state::documents::draft::{Draft, Reader, read};
use state::documents::prelude::{GLOBAL, Model};
use state::documents::refusal::Refusal;
use state::lifecycle::{application, leadership, machine, relation, unit};
use state::status::relation::relation_of_number;
use state::terms::names::{UnitName, Uuid};
use state::terms::refusal::EntityKind;

/// Returns the model of this name or uuid.
pub(crate) fn find_model(reader: &dyn Reader, text: &str) -> Result<Model, Refusal> {
    let named = read(reader, &GLOBAL.model_name(text)).or_else(|| text.parse().ok());
    named
        .map(Model)
        .filter(|model| reader.get(model.model().text()).is_some())
        .ok_or_else(|| Refusal::not_found(EntityKind::Model, text))
}

/// Returns the unit that a person chose.
pub(crate) fn find_unit(
    reader: &dyn Reader,
    model: Model,
    choice: &UnitChoice,
) -> Result<(Uuid, UnitName), Refusal> {
    match choice {
        UnitChoice::Name(name) => Ok((unit::find(&mut { reader }, model, name)?, name.clone())),
        UnitChoice::LeaderOf(application) => find_leader(reader, model, application),
    }
}

/// Returns the leader of the application of this name.
pub(crate) fn find_leader(
    reader: &dyn Reader,
    model: Model,
    application: &str,
) -> Result<(Uuid, UnitName), Refusal> {
    let id = application::find(&mut { reader }, model, application)?;
    leadership::find(&mut { reader }, model, id, application)
}

/// Returns the relation that a person chose.
pub(crate) fn find_relation(
    reader: &dyn Reader,
    model: Model,
    choice: &RelationChoice,
) -> Result<Uuid, Refusal> {
    match choice {
        RelationChoice::Number(number) => {
            let found = relation_of_number(reader, model, *number);
            found.ok_or_else(|| Refusal::not_found(EntityKind::Relation, number))
        }
        RelationChoice::Ends(ends) => {
            let mut draft = Draft::new(reader); // read only: it is never committed
            relation::find(&mut draft, model, &ends.a, &ends.b)
        }
    }
}

/// Returns the entity that a removal request names.
pub(crate) fn find_entity(
    reader: &dyn Reader,
    model: Model,
    removed: &RemovalTarget,
) -> Result<EntityId, Refusal> {
    let mut documents = reader;
    Ok(match removed {
        RemovalTarget::Unit(name) => EntityId::Unit(unit::find(&mut documents, model, name)?),
        RemovalTarget::Application(name) => {
            EntityId::Application(application::find(&mut documents, model, name)?)
        }
        RemovalTarget::Relation(choice) => EntityId::Relation(find_relation(reader, model, choice)?),
        RemovalTarget::Machine(name) => EntityId::Machine(machine::find(&mut documents, model, name)?),
    })
}
