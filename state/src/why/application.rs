//! Explains an application: its own blockers, followed by the causes of its units.

use crate::documents::blockers::EntityId;
use crate::documents::draft::{read, read_all};
use crate::documents::effective_life;
use crate::documents::prelude::last_id;
use crate::documents::refusal::Refusal;
use crate::terms::cause::Entity;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::why::explanation::{EntityState, Why};
use crate::why::facts::{Facts, deduplicate_and_check_full};
use crate::why::non_removal_causes;
use crate::why::unit;

/// Explains the application of this name.
pub(crate) fn explain(facts: &Facts<'_>, id: Uuid, name: &str) -> Result<Why, Refusal> {
    let life = effective_life::application_life(&mut { facts.reader }, facts.model, id);
    let mut causes = facts.blockers(EntityId::Application(id));
    let units = read_all::<()>(facts.reader, &facts.model.units_of(id));
    for (key, ()) in &units {
        let unit = last_id(key).expect("an index ends with an id");
        if life == Life::Alive {
            causes.extend(unit::explain(facts, unit)?.causes);
        } else {
            // the blockers contain everything except what the unit runs now, and the force timer, which it has for itself
            unit::name_running(facts, unit, &mut causes);
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
