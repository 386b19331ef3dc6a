//! Explains an application: its own blockers, followed by the causes of its units.

use super::facts::{Facts, deduplicate_and_check_full};
use super::unit;
use api::{EntityState, Why};
use state::documents::blockers::EntityId;
use state::documents::draft::{read, read_all};
use state::documents::prelude::last_id;
use state::documents::refusal::Refusal;
use state::lifecycle::application;
use state::terms::cause::Entity;
use state::terms::life::Life;
use state::why::non_removal_causes;

/// Explains the application of this name.
pub(super) fn explain(facts: &Facts<'_>, name: &str) -> Result<Why, Refusal> {
    let id = application::find(&mut { facts.reader }, facts.model, name)?;
    let life = read(facts.reader, &facts.model.application_life(id)).unwrap_or(Life::Dying);
    let mut causes = facts.blockers(EntityId::Application(id));
    let units = read_all::<()>(facts.reader, &facts.model.units_of(id));
    for (key, ()) in &units {
        let unit = last_id(key).expect("an index ends with an id");
        if life == Life::Alive {
            causes.extend(unit::explain(facts, unit)?.causes);
        } else {
            // the blockers contain everything except the force timer, which each unit has for itself
            let doc = read(facts.reader, &facts.model.unit(unit));
            causes.extend(doc.and_then(|doc| facts.forced_removal_cause(unit, Entity::Unit(doc.name))));
        }
        if deduplicate_and_check_full(&mut causes) {
            break;
        }
    }
    let doc = read(facts.reader, &facts.model.application(id));
    let is_subordinate = doc.is_some_and(|doc| doc.subordinate);
    if life == Life::Alive && units.is_empty() && is_subordinate {
        causes.extend(non_removal_causes::without_principal(facts.reader, facts.model, id, name));
    }
    let now = EntityState::Application { units: units.len() };
    let entity = Entity::Application(name.to_owned());
    causes.extend(facts.forced_removal_cause(id, entity.clone()));
    Ok(Why { entity, life, now, causes, more: false })
}
