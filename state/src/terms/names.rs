//! Names that people and charms use, and the uuids under which everything is stored.
//!
//! Decisions and documents refer to entities by uuid. Names are resolved at the edge only, so that an entity
//! that reuses a name never gets the state of an earlier holder of that name (design, "Identity").

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A name or an id that cannot be parsed. The text is a message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName(pub String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadName {}

/// The beginning of a text that is no name, for a message.
pub(crate) fn beginning(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}

/// 128 random bits that identify one entity for ever. The caller draws them from the entropy source or computes
/// them from a hash; this crate never makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub u128);

/// The positions of the hyphens in the text of a uuid.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
/// The positions of the two digits of each byte in the text of a uuid.
const BYTE_OFFSETS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

impl Uuid {
    fn digits(&self) -> [u8; 36] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        for (byte, at) in self.0.to_be_bytes().into_iter().zip(BYTE_OFFSETS) {
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }

    /// Appends the text of the uuid. It does not use a formatter, because keys are built from uuids very often.
    pub fn append_to(&self, text: &mut String) {
        text.push_str(std::str::from_utf8(&self.digits()).expect("digits and hyphens"));
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Uuid {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bytes = text.as_bytes();
        let dashed = bytes.len() == 36 && HYPHENS.iter().all(|at| bytes[*at] == b'-');
        let digits = BYTE_OFFSETS.into_iter().flat_map(|at| [at, at + 1]);
        let digit = |at: usize| char::from(bytes[at]).to_digit(16);
        let number = dashed.then(|| digits.map(digit).try_fold(0, |n, d| Some(n << 4 | u128::from(d?))));
        number.flatten().map(Uuid).ok_or_else(|| BadName(format!("invalid uuid {:?}", beginning(text))))
    }
}

/// The name of a unit: `web/0`. Names are ordered by application, then by number: `web/2` comes before
/// `web/10`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitName {
    /// The name of the application.
    pub application: String,
    /// The number of the unit within the application; never reused.
    pub number: u32,
}

impl UnitName {
    /// The name of unit `number` of `application`, which must be a valid application name.
    pub fn new(application: &str, number: u32) -> UnitName {
        UnitName { application: application.to_owned(), number }
    }

    /// `unit-web-0`: the form used in folder names and log lines.
    pub fn tag(&self) -> String {
        format!("unit-{}-{}", self.application, self.number)
    }

    /// The inverse of [`UnitName::tag`]; none if the text is no tag of a unit.
    pub fn from_tag(tag: &str) -> Option<UnitName> {
        let (application, number) = tag.strip_prefix("unit-")?.rsplit_once('-')?;
        format!("{application}/{number}").parse().ok()
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.application, self.number)
    }
}

impl FromStr for UnitName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || {
            let text = beginning(text);
            BadName(format!("invalid unit name {text:?}: expected APPLICATION/NUMBER, for example web/0"))
        };
        let (application, number) = text.split_once('/').ok_or_else(bad)?;
        let plain = number.bytes().all(|b| b.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
        if application.len() > NAME_LENGTH_MAX || !is_application_name(application) || !plain {
            return Err(bad());
        }
        Ok(UnitName::new(application, number.parse().map_err(|_| bad())?))
    }
}

/// The tag of an application, as Juju writes it: `application-web`.
pub fn application_tag(name: &str) -> String {
    format!("application-{name}")
}

/// The most characters of the name of a new application or model: the unit's name is part of file names, of names of
/// services and of the path of its tool socket, which has 108 bytes.
pub const NAME_LENGTH_MAX: usize = 63;

/// Whether `text` is a valid application name: lower-case letters, digits and single hyphens. It begins with a
/// letter, and no part after a hyphen consists of digits only (spec/clients.md 3.2).
pub fn is_application_name(text: &str) -> bool {
    let mut parts = text.split('-');
    let first = parts.next().unwrap_or_default();
    let lower = |part: &str| part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    first.starts_with(|c: char| c.is_ascii_lowercase())
        && lower(first)
        && parts.all(|part| lower(part) && part.bytes().any(|b| b.is_ascii_lowercase()))
}

/// Whether `text` is a valid model name: lower-case letters, digits and hyphens; it does not begin with a hyphen. Test
/// suites generate names like `jubilant-40494813`, which no application may have.
pub fn is_model_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain)
}

/// One endpoint of one application: `web:db`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointName {
    /// The name of the application.
    pub application: String,
    /// The name of the endpoint in the charm.
    pub endpoint: String,
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.application, self.endpoint)
    }
}

impl FromStr for EndpointName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || {
            BadName(format!("invalid endpoint {text:?}: expected APPLICATION:ENDPOINT, for example web:db"))
        };
        let (application, endpoint) = text.split_once(':').ok_or_else(bad)?;
        if !is_application_name(application) || endpoint.is_empty() {
            return Err(bad());
        }
        Ok(EndpointName { application: application.to_owned(), endpoint: endpoint.to_owned() })
    }
}

/// The ends of a relation, in text order: `db:server web:db`; `web:ring` for a peer relation. Two relations with the same
/// ends are the same relation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelationEnds(Vec<EndpointName>);

impl RelationEnds {
    /// The tag of the relation, as Juju writes it: `relation-db.server#web.db`.
    pub fn tag(&self) -> String {
        let ends: Vec<String> =
            self.0.iter().map(|end| format!("{}.{}", end.application, end.endpoint)).collect();
        format!("relation-{}", ends.join("#"))
    }
}

impl FromIterator<EndpointName> for RelationEnds {
    fn from_iter<I: IntoIterator<Item = EndpointName>>(ends: I) -> RelationEnds {
        let mut ends: Vec<EndpointName> = ends.into_iter().collect();
        ends.sort_by_cached_key(ToString::to_string);
        RelationEnds(ends)
    }
}

impl fmt::Display for RelationEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, end) in self.0.iter().enumerate() {
            write!(f, "{}{end}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for RelationEnds {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        text.split(' ').map(str::parse).collect()
    }
}

/// The number of a relation, which charms use in `db:1`. Never reused within a model.
pub type RelationNumber = u32;

macro_rules! serde_as_text {
    ($($name:ident $format:literal),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.collect_str(self) }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(de::Error::custom)
            }
        }
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "format": $format})
            }
        }
    )*};
}
pub(crate) use serde_as_text;

serde_as_text!(Uuid "uuid", UnitName "unit-name", EndpointName "endpoint", RelationEnds "relation-ends");

#[cfg(test)]
mod tests {
    use crate::terms::names::*;

    #[test]
    fn a_model_name_may_have_parts_of_digits_only_and_an_application_name_may_not() {
        for (name, [of_model, of_application]) in [
            ("dev", [true, true]),
            ("jubilant-40494813", [true, false]),
            ("0", [true, false]),
            ("a-", [true, false]),
            ("", [false, false]),
            ("-a", [false, false]),
            ("Dev", [false, false]),
            ("a.b", [false, false]),
            ("a/b", [false, false]),
        ] {
            assert_eq!(
                [is_model_name(name), is_application_name(name)],
                [of_model, of_application],
                "{name:?}"
            );
        }
    }

    /// The keys of stored relations contain their ends in this order.
    #[test]
    fn the_ends_of_a_relation_are_in_text_order() {
        for (given, printed, tag) in [
            ("web:db db:server", "db:server web:db", "relation-db.server#web.db"),
            ("db:x db-a:x", "db-a:x db:x", "relation-db-a.x#db.x"),
            ("db:x db0:x", "db0:x db:x", "relation-db0.x#db.x"),
            ("web:ring", "web:ring", "relation-web.ring"),
        ] {
            let ends: RelationEnds = given.parse().expect("ends");
            assert_eq!([ends.to_string(), ends.tag()], [printed, tag]);
        }
        for bad in ["", "web", "web:db ", "web:db  db:server"] {
            assert!(bad.parse::<RelationEnds>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_are_parsed_and_printed() {
        assert_eq!("web-app/10".parse::<UnitName>().map(|u| u.to_string()), Ok("web-app/10".to_owned()));
        for bad in ["web", "web/", "web/x", "web/01", "Web/0", "web-1/0", "/0", "web/0/1", "web//0"] {
            assert!(bad.parse::<UnitName>().is_err(), "{bad}");
        }
        let of_length = |length: usize| format!("{}/0", "a".repeat(length)).parse::<UnitName>();
        assert!(of_length(NAME_LENGTH_MAX).is_ok());
        assert!(of_length(NAME_LENGTH_MAX + 1).is_err_and(|bad| bad.0.len() < 200));
        assert!(of_length(1 << 20).is_err_and(|bad| bad.0.len() < 200), "the message is short");
        let name = UnitName::new("web-app", 10);
        assert_eq!(UnitName::from_tag(&name.tag()), Some(name));
        for bad in ["web-app/10", "unit-web", "unit-10", "machine-0", "unit-web-01"] {
            assert_eq!(UnitName::from_tag(bad), None, "{bad}");
        }
        let uuid = "5f3a1c2e-7d64-4a0b-9c11-0e6b8f2d9a10";
        assert_eq!(uuid.parse::<Uuid>().map(|u| u.to_string()), Ok(uuid.to_owned()));
        for bad in [
            "5f3a1c2e7d644a0b9c110e6b8f2d9a10",
            "5f3a1c2e-7d64-4a0b-9c11-0e6b8f2d9a1",
            "5f3a1c2e-7d64-4a0b-9c11-0e6b8f2d9a1-",
            "+f3a1c2e-7d64-4a0b-9c11-0e6b8f2d9a10",
            "5f3a1c2e-7d64-4a0b-9c11-0e6b8f2d9aé",
        ] {
            assert!(bad.parse::<Uuid>().is_err(), "{bad}");
        }
    }

    #[test]
    fn units_order_by_number() {
        assert!(UnitName::new("web", 2) < UnitName::new("web", 10));
    }
}
