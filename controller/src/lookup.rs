//! Looks up entities by the names that users give: models, units (`web/0`, `web/leader`) and removal targets.
//!
//! Each function returns a refusal if the name is invalid or the entity does not exist. Called by the user handlers.

use crate::status;
use api::{RelationChoice, RemovalTarget};
use state::documents::blockers::EntityId;
use state::documents::draft::{Draft, Reader, read};
use state::documents::keys::{GLOBAL, Model};
use state::documents::refusal::{Code, Refusal};
use state::lifecycle::{application, machine, relation, unit};
use state::terms::names::{UnitName, Uuid};

/// Returns the model of this name or uuid.
pub(crate) fn find_model(reader: &dyn Reader, text: &str) -> Result<Model, Refusal> {
    let named = read(reader, &GLOBAL.model_name(text)).or_else(|| text.parse().ok());
    named.map(Model).filter(|model| reader.get(model.model().text()).is_some()).ok_or_else(|| {
        Refusal::not_found("model", format!("{text:?}")).hint("list the models with: pintle models")
    })
}

/// Returns the unit that `web/0` or `web/leader` names.
pub(crate) fn find_unit(reader: &dyn Reader, model: Model, text: &str) -> Result<(Uuid, UnitName), Refusal> {
    let mut documents = reader;
    if let Some(name) = text.strip_suffix("/leader") {
        let id = application::find(&mut documents, model, name)?;
        return match read(reader, &model.leader(id)) {
            Some(grant) => Ok((grant.holder, grant.holder_name)),
            None => {
                Err(Refusal::new(Code::NotFound, format!("application {name:?} has no leader at the moment")))
            }
        };
    }
    let name: UnitName = text.parse().map_err(|e| Refusal::new(Code::Invalid, format!("{e}")))?;
    Ok((unit::find(&mut documents, model, &name)?, name))
}

/// Returns the entity that a removal request names.
pub(crate) fn entity(
    reader: &dyn Reader,
    model: Model,
    removed: &RemovalTarget,
) -> Result<EntityId, Refusal> {
    let mut documents = reader;
    Ok(match removed {
        RemovalTarget::Unit(name) => {
            let name: UnitName = name.parse().map_err(|e| Refusal::new(Code::Invalid, format!("{e}")))?;
            EntityId::Unit(unit::find(&mut documents, model, &name)?)
        }
        RemovalTarget::Application(name) => {
            EntityId::Application(application::find(&mut documents, model, name)?)
        }
        RemovalTarget::Relation(RelationChoice::Number(number)) => {
            let found = status::relation_of_number(reader, model, *number);
            EntityId::Relation(found.ok_or_else(|| Refusal::not_found("relation", number))?)
        }
        RemovalTarget::Relation(RelationChoice::Ends(ends)) => {
            let mut draft = Draft::new(reader); // read only: it is never committed
            EntityId::Relation(relation::find(&mut draft, model, &ends.a, &ends.b)?)
        }
        RemovalTarget::Machine(name) => EntityId::Machine(machine::find(&mut documents, model, name)?),
    })
}
