//! Entities as a person names them: a unit by its name or as a leader, and what `why` explains.
//!
//! The names are parsed here and in `state::terms::names` alone, where the command reads them or a request is decoded;
//! behind that there are only types.

use crate::relations::{Ends, RelationChoice};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use state::terms::names::{BadName, RelationNumber, UnitName};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Identifies a unit. Its text is `web/0`, or `web/leader` for the leader of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitChoice {
    /// By its name.
    Name(UnitName),
    /// The leader of the application of this name.
    LeaderOf(String),
}

impl UnitChoice {
    /// The name of the application.
    pub fn application(&self) -> &str {
        match self {
            UnitChoice::Name(name) => &name.application,
            UnitChoice::LeaderOf(application) => application,
        }
    }
}

impl From<UnitName> for UnitChoice {
    fn from(name: UnitName) -> UnitChoice {
        UnitChoice::Name(name)
    }
}

impl fmt::Display for UnitChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitChoice::Name(name) => write!(f, "{name}"),
            UnitChoice::LeaderOf(application) => write!(f, "{application}/leader"),
        }
    }
}

impl FromStr for UnitChoice {
    type Err = BadName;
    fn from_str(text: &str) -> Result<UnitChoice, BadName> {
        match text.strip_suffix("/leader") {
            Some(application) => Ok(UnitChoice::LeaderOf(application.to_owned())),
            None => text.parse().map(UnitChoice::Name),
        }
    }
}

impl Serialize for UnitChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UnitChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UnitChoice, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for UnitChoice {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "UnitChoice".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "unit-name-or-leader"})
    }
}

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
/// `relation 3`, `relation web db`). A kind and its name may also be one quoted word.
///
/// # Errors
/// In the place of the entity: if a word with a slash, or a number with leading zeros, names no unit, machine or relation.
pub fn parse(words: &[impl AsRef<str>]) -> Vec<Result<EntityChoice, BadName>> {
    let words: Vec<&str> = words.iter().flat_map(|word| split_quoted(word.as_ref())).collect();
    let (mut words, mut entities) = (&words[..], Vec::new());
    let has_endpoint = |a: &str, b: &str| a.contains(':') || b.contains(':');
    while let [first, rest @ ..] = words {
        let (entity, length) = match (*first, rest) {
            ("unit", [name, ..]) => (unit(name), 2),
            ("application", [name, ..]) => (Ok(EntityChoice::Application((*name).to_owned())), 2),
            ("machine", [name, ..]) => (Ok(EntityChoice::Machine((*name).to_owned())), 2),
            ("relation", [a, b, ..]) if has_endpoint(a, b) || is_name(a) && is_name(b) => (Ok(ends(a, b)), 3),
            ("relation", [number, ..]) => (relation(number), 2),
            (a, [b, ..]) if has_endpoint(a, b) => (Ok(ends(a, b)), 2),
            (word, _) => (word_alone(word), 1),
        };
        entities.push(entity);
        words = &words[length..];
    }
    entities
}

/// The words of a quoted argument. An argument without a word stays as it is, and names nothing.
fn split_quoted(argument: &str) -> Vec<&str> {
    let words: Vec<&str> = argument.split_whitespace().collect();
    if words.is_empty() { vec![argument] } else { words }
}

/// Whether a word after `relation` can only be the name of an application.
fn is_name(word: &str) -> bool {
    !word.contains('/') && !is_digits(word)
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn word_alone(word: &str) -> Result<EntityChoice, BadName> {
    match word.split_once('/') {
        Some(("machine", name)) if name != "leader" => Ok(EntityChoice::Machine(name.to_owned())),
        Some(("relation", number)) if number != "leader" => relation(number),
        Some(_) => unit(word),
        None if word == "model" => Ok(EntityChoice::Model),
        None if is_digits(word) => number(word).map(EntityChoice::Number).ok_or_else(|| {
            BadName(format!("invalid number {word:?} of a machine or relation: expected for example 3"))
        }),
        None => Ok(EntityChoice::Application(word.to_owned())),
    }
}

/// Parses a number as it is shown: without leading zeros.
fn number(word: &str) -> Option<RelationNumber> {
    word.parse().ok().filter(|number: &RelationNumber| number.to_string() == word)
}

fn unit(text: &str) -> Result<EntityChoice, BadName> {
    Ok(match text.parse()? {
        UnitChoice::Name(name) => EntityChoice::Unit(name),
        UnitChoice::LeaderOf(application) => EntityChoice::LeaderOf(application),
    })
}

fn relation(text: &str) -> Result<EntityChoice, BadName> {
    let number = number(text).ok_or_else(|| BadName(format!("{text:?} is not the number of a relation")))?;
    Ok(EntityChoice::Relation(RelationChoice::Number(number)))
}

fn ends(a: &str, b: &str) -> EntityChoice {
    EntityChoice::Relation(RelationChoice::Ends(Ends { a: a.to_owned(), b: b.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Vec<EntityChoice> {
        let entities = parse(&line.split(' ').collect::<Vec<_>>()).into_iter();
        entities.collect::<Result<_, _>>().expect("each word names an entity")
    }

    fn of_number(number: RelationNumber) -> EntityChoice {
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
        assert_eq!(parsed("machine 0 relation 3 db"), [machine(), of_number(3), db()]);
        assert_eq!(parsed("relation web:db db:server db"), [ends("web:db", "db:server"), db()]);
        assert_eq!(parsed("relation web db 3"), [ends("web", "db"), EntityChoice::Number(3)]);
        assert_eq!(parsed("relation/3 web/leader"), [of_number(3), EntityChoice::LeaderOf("web".to_owned())]);
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
    fn a_kind_and_its_name_may_be_one_argument() {
        let machine = Ok(EntityChoice::Machine("0".to_owned()));
        let unit = Ok(EntityChoice::Unit(UnitName::new("web", 0)));
        assert_eq!(parse(&["machine 0", "web/0", "relation web db"]), [machine, unit, Ok(ends("web", "db"))]);
        assert_eq!(parse(&[" "]), [Ok(EntityChoice::Application(" ".to_owned()))]);
    }

    #[test]
    fn a_word_that_names_nothing_is_refused() {
        for line in ["web/x", "relation/x", "relation web", "unit web", "007", "relation/03", "relation 03"] {
            let parsed = parse(&line.split(' ').collect::<Vec<_>>());
            assert!(matches!(&parsed[..], [Err(_)]), "{line}: {parsed:?}");
        }
    }

    #[test]
    fn a_word_that_names_nothing_does_not_hide_the_others() {
        let parsed = parse(&["web/0", "web/x", "db"]);
        assert!(matches!(&parsed[..], [Ok(_), Err(_), Ok(_)]), "{parsed:?}");
    }
}
