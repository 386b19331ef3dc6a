//! Tests that the cost of a removal does not depend on how many entities depend on the removed one (design 5).

use crate::documents::draft::Transaction;
use crate::documents::prelude::ScopeDoc;
use crate::tests::*;

/// The numbers of reads and writes of a transition on these documents.
fn cost(documents: &Documents, transition: impl FnOnce(&mut Draft)) -> (usize, usize) {
    let mut draft = Draft::new(documents);
    transition(&mut draft);
    let Transaction { keys, exist, none, pages, writes } = draft.finish().expect("transactions are bounded");
    (
        keys.len() + exist.len() + none.len() + pages.iter().map(|page| page.keys.len() + 1).sum::<usize>(),
        writes.len(),
    )
}

/// An application with one unit in the scope of a relation, and many more units, of which only the documents that a
/// removal could read are written, directly.
pub(crate) fn application_with_units(more: u32) -> (Documents, Uuid, Uuid) {
    let mut world = World::new();
    let web = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let relation = world.integrate("web", "db").expect("the endpoints are compatible");
    for name in ["web/0", "db/0"] {
        let mut agent = Agent::attach(&mut world, name);
        agent.start(&mut world);
        agent.enter(&mut world, relation);
    }
    let first = world.unit("web/0");
    let doc: UnitDoc = read(world.reader(), &MODEL.unit(first)).expect("it was deployed");
    let mut documents = world.documents;
    for number in 1..=more {
        let id = Uuid(u128::from(number) << 64);
        let name = UnitName::new("web", number);
        let unit = UnitDoc { name: name.clone(), ..doc.clone() };
        let scope = ScopeDoc { unit: name, application: web, incarnation: 1 };
        let json = |value: Result<String, _>| value.expect("plain data");
        for (key, value) in [
            (MODEL.unit(id).to_string(), json(serde_json::to_string(&unit))),
            (MODEL.unit_life(id).to_string(), json(serde_json::to_string(&Life::Alive))),
            (MODEL.unit_of(web, id).to_string(), "null".to_owned()),
            (MODEL.scope(relation, Uuid(0), id).to_string(), json(serde_json::to_string(&scope))),
            (MODEL.scope_of(id, relation).to_string(), "null".to_owned()),
        ] {
            documents.map.insert(key, (1, value));
        }
    }
    (documents, web, relation)
}

#[test]
fn destroying_an_application_of_100_000_units_costs_as_much_as_one_of_ten() {
    let (few, web, relation) = application_with_units(10);
    let (many, same, _) = application_with_units(100_000);
    assert_eq!(web, same, "ids are given in order");
    let application = |documents: &Documents| {
        cost(documents, |draft| {
            assert_eq!(application::destroy(draft, MODEL, web), Ok(unit::Destroyed::Dying));
        })
    };
    let relation = |documents: &Documents| {
        cost(documents, |draft| {
            assert_eq!(relation::destroy(draft, MODEL, relation), Ok(unit::Destroyed::Dying));
        })
    };
    let one = |documents: &Documents| {
        let id = Uuid(3 << 64);
        cost(documents, |draft| assert_eq!(unit::destroy(draft, MODEL, id, 60), Ok(unit::Destroyed::Dying)))
    };
    // its own life, from which all others are derived, and the six documents of its peer relation, whose scope is empty
    assert_eq!(application(&few).1, 1 + 6);
    for (cost, more) in
        [(application(&few), application(&many)), (relation(&few), relation(&many)), (one(&few), one(&many))]
    {
        assert_eq!(cost, more, "reads and writes");
    }
}
