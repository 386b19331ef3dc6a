//! The commands of hints that name an entity.
//!
//! Used by `cause` and `status_message`.

use state::terms::cause::Entity;

/// The command that explains what the entity waits for: `pintle why web/0`.
pub fn why(entity: &Entity) -> String {
    format!("pintle why {}", as_argument(entity))
}

/// The entity as an argument of a command.
fn as_argument(entity: &Entity) -> String {
    match entity {
        // `entity_choice` would parse the bare name as a machine, a relation or the model
        Entity::Unit(name) if ["machine", "relation"].contains(&&*name.application) => format!("unit {name}"),
        Entity::Application(name) if name == "model" => format!("application {name}"),
        Entity::Unit(name) => name.to_string(),
        Entity::Application(name) => name.clone(),
        Entity::Relation(name) => format!("relation/{}", name.number),
        Entity::Machine(name) => format!("machine/{name}"),
        Entity::Model(_) => "model".to_owned(),
    }
}
