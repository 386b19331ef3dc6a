//! The entity that `why` explains, as a person names it.
//!
//! [`parse`] is the only parser of what a person typed. Called by the command; the controller gets the type.

use crate::relations::{Ends, RelationChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::names::{BadName, RelationNumber, UnitName};

/// Identifies an entity of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum EntityChoice {
    /// The model.
    Model,
    /// A unit, by its name.
    Unit(UnitName),
    /// The leader of the application of this name.
    LeaderOf(String),
    /// An application, by its name.
    Application(String),
    /// A machine, by its name.
    Machine(String),
    /// A relation.
    Relation(RelationChoice),
    /// The machine or the relation of this number: the one that waits for something, if both exist.
    Number(RelationNumber),
}

/// Parses one or more entities: `web/0`, `web/leader`, `web`, `3`, `machine/0`, `relation/3`, `model`, two words of which
/// one contains an endpoint (`web:db db`), and a kind and the name after it (`unit web/0`, `application web`, `machine 0`,
/// `relation 3`, `relation web db`).
///
/// # Errors
/// If a word with a slash names no unit, machine or relation.
pub fn parse(words: &[impl AsRef<str>]) -> Result<Vec<EntityChoice>, BadName> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let (mut words, mut entities) = (&words[..], Vec::new());
    let has_endpoint = |a: &str, b: &str| a.contains(':') || b.contains(':');
    while let [first, rest @ ..] = words {
        let (entity, length) = match (*first, rest) {
            ("unit", [name, ..]) => (unit(name)?, 2),
            ("application", [name, ..]) => (EntityChoice::Application((*name).to_owned()), 2),
            ("machine", [name, ..]) => (EntityChoice::Machine((*name).to_owned()), 2),
            ("relation", [a, b, ..]) if has_endpoint(a, b) => (ends(a, b), 3),
            ("relation", [number, ..]) => (relation(number)?, 2),
            (a, [b, ..]) if has_endpoint(a, b) => (ends(a, b), 2),
            (word, _) => (word_alone(word)?, 1),
        };
        entities.push(entity);
        words = &words[length..];
    }
    Ok(entities)
}

fn word_alone(word: &str) -> Result<EntityChoice, BadName> {
    match word.split_once('/') {
        Some(("machine", name)) if name != "leader" => Ok(EntityChoice::Machine(name.to_owned())),
        Some(("relation", number)) if number != "leader" => relation(number),
        Some(_) => unit(word),
        None if word == "model" => Ok(EntityChoice::Model),
        None => Ok(match word.parse() {
            Ok(number) => EntityChoice::Number(number),
            Err(_) => EntityChoice::Application(word.to_owned()),
        }),
    }
}

fn unit(text: &str) -> Result<EntityChoice, BadName> {
    match text.strip_suffix("/leader") {
        Some(application) => Ok(EntityChoice::LeaderOf(application.to_owned())),
        None => text.parse().map(EntityChoice::Unit),
    }
}

fn relation(text: &str) -> Result<EntityChoice, BadName> {
    let number = text.parse().map_err(|_| BadName(format!("{text:?} is not the number of a relation")))?;
    Ok(EntityChoice::Relation(RelationChoice::Number(number)))
}

fn ends(a: &str, b: &str) -> EntityChoice {
    EntityChoice::Relation(RelationChoice::Ends(Ends { a: a.to_owned(), b: b.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Vec<EntityChoice> {
        parse(&line.split(' ').collect::<Vec<_>>()).expect("each word names an entity")
    }

    fn number(number: RelationNumber) -> EntityChoice {
        EntityChoice::Relation(RelationChoice::Number(number))
    }

    #[test]
    fn several_entities_are_accepted_in_every_form() {
        let web = |number| EntityChoice::Unit(UnitName::new("web", number));
        let db = || EntityChoice::Application("db".to_owned());
        let machine = || EntityChoice::Machine("0".to_owned());
        assert_eq!(parsed("web/0 db 3 machine/0"), [web(0), db(), EntityChoice::Number(3), machine()]);
        assert_eq!(parsed("web:db db web/1"), [ends("web:db", "db"), web(1)]);
        assert_eq!(parsed("web db:server model"), [ends("web", "db:server"), EntityChoice::Model]);
        assert_eq!(parsed("machine 0 relation 3 db"), [machine(), number(3), db()]);
        assert_eq!(parsed("relation web:db db:server db"), [ends("web:db", "db:server"), db()]);
        assert_eq!(parsed("relation/3 web/leader"), [number(3), EntityChoice::LeaderOf("web".to_owned())]);
    }

    #[test]
    fn an_application_may_have_the_name_of_a_kind() {
        let named = |name: &str| EntityChoice::Application(name.to_owned());
        assert_eq!(parsed("machine"), [named("machine")]);
        assert_eq!(parsed("application model"), [named("model")]);
        assert_eq!(parsed("unit machine/0"), [EntityChoice::Unit(UnitName::new("machine", 0))]);
        assert_eq!(parsed("machine/leader"), [EntityChoice::LeaderOf("machine".to_owned())]);
    }

    #[test]
    fn a_word_that_names_nothing_is_refused() {
        for line in ["web/x", "relation/x", "relation web", "unit web"] {
            assert!(parse(&line.split(' ').collect::<Vec<_>>()).is_err(), "{line}");
        }
    }
}
