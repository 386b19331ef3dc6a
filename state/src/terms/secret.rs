//! The terms of secrets: their ids, owners, rotation policies and events (spec/hook-tools.md 2.6).
//!
//! Nothing here contains the content of a secret except [`SecretContent`], which agents and commands send to the
//! controller and receive from it, and [`ValueSource`], an argument of a command or a tool. Neither is stored, and `Debug`
//! does not show the content. What is stored is sealed: text that only the controller can open.

use crate::terms::names::{BadName, UnitName, Uuid, application_tag, beginning, serde_as_text};
use crate::terms::string_enum::string_enum;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The most secrets that one unit, application or model owns: their ids and labels are one document of about 64 KiB.
pub const SECRETS_MAX: usize = 200;
/// The most revisions of one secret that are not removed: their times are one document, with 100 bytes each.
pub const REVISIONS_MAX: usize = 200;
/// The most grants of one secret, each with 200 bytes in the same document.
pub const GRANTS_MAX: usize = 100;
/// The most secrets that one unit reads: their labels and revisions are one document.
pub const CONSUMED_MAX: usize = 500;
/// The most bytes of a label.
pub const LABEL_BYTES_MAX: usize = 256;
/// The most bytes of a description.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;
/// The most bytes of the sealed content of one revision: as much as the writes of a hook may take altogether, so that the
/// transaction that stores it has room for its other documents (`documents::draft` asserts that they are equal).
pub const SEALED_BYTES_MAX: usize = 768 << 10;
/// The most bytes of the sealed contents of all secrets of one unit, application or model: 64 MiB, 85 contents of the
/// largest size or 1.6 KiB in each of 200 revisions of 200 secrets. Without it they could have 29 GiB.
pub const OWNED_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of the values of one revision in base64, as their writers count them: the sealed content takes as many,
/// and 16 KiB are left for its keys, salt and authentication.
pub const VALUES_BYTES_MAX: usize = SEALED_BYTES_MAX - (16 << 10);
/// The most bytes of the encoded values of one revision that a tool or a command sends, as in Juju.
pub const CONTENT_BYTES_MAX: usize = 1_000_000;

/// The number of characters of an id.
const ID_CHARS: usize = 20;
/// The digits of an id, which is 96 bits in base 32.
const ID_DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// The id of a secret, as charms write it after `secret:`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretId([u8; ID_CHARS]);

impl SecretId {
    /// Makes an id of random bits.
    pub fn from_bits(bits: u128) -> SecretId {
        // 96 bits are 19 digits of five bits and one of a single bit, as in xid
        let bits = bits >> 32;
        let digit = |at: usize| match at {
            19 => (bits << 4) as usize & 31,
            at => (bits >> (91 - 5 * at)) as usize & 31,
        };
        SecretId(std::array::from_fn(|at| ID_DIGITS[digit(at)]))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for SecretId {
    type Err = BadName;
    fn from_str(text: &str) -> Result<SecretId, BadName> {
        let bytes: Option<[u8; ID_CHARS]> = text.as_bytes().try_into().ok();
        match bytes.filter(|bytes| bytes.iter().all(|byte| ID_DIGITS.contains(byte))) {
            Some(bytes) => Ok(SecretId(bytes)),
            None => Err(BadName(format!(
                "invalid secret id {:?}: expected {ID_CHARS} characters of 0-9 and a-v",
                beginning(text)
            ))),
        }
    }
}

impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretId({self})")
    }
}

serde_as_text! { SecretId "secret-id" }

/// The URI of a secret, in any form of Juju: `secret:ID`, `ID`, `secret://MODEL/ID` or `secret:MODEL/ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretUri {
    /// The model, if the URI names it.
    pub model: Option<Uuid>,
    /// The secret.
    pub id: SecretId,
}

/// Why a text is no URI of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSecretUri<'a> {
    /// It has this scheme.
    Scheme(&'a str),
    /// It has no id of a secret, or another model than a uuid.
    Invalid,
}

impl SecretUri {
    /// Parses a URI.
    ///
    /// # Errors
    /// If the text is not the URI of a secret.
    pub fn parse(text: &str) -> Result<SecretUri, BadSecretUri<'_>> {
        let rest = match text.split_once(':') {
            Some(("secret", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            Some((scheme, _)) => return Err(BadSecretUri::Scheme(scheme)),
            None => text,
        };
        let (model, id) = match rest.split_once('/') {
            Some((model, id)) => (Some(model.parse().map_err(|_| BadSecretUri::Invalid)?), id),
            None => (None, rest),
        };
        Ok(SecretUri { model, id: id.parse().map_err(|_| BadSecretUri::Invalid)? })
    }
}

/// Where the value of a key comes from, in an argument `KEY=VALUE` of a command or a tool. `Debug` does not show a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ValueSource<'a> {
    /// `key=value`: the value itself.
    Text(&'a str),
    /// `key#base64=value`: the value in base64.
    Base64(&'a str),
    /// `key#file=path`: the file that contains the value.
    File(&'a str),
}

impl fmt::Debug for ValueSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSource::Text(_) => f.write_str("Text"),
            ValueSource::Base64(_) => f.write_str("Base64"),
            ValueSource::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Splits `KEY=VALUE`; none if there is no key. The padding of base64 is no separator.
pub fn split_pair(word: &str) -> Option<(&str, &str)> {
    let at = word.trim_end_matches('=').find('=').filter(|at| *at > 0)?;
    Some((&word[..at], &word[at + 1..]))
}

/// The key without its suffix, and where its value comes from.
pub fn value_source<'a>(key: &'a str, value: &'a str) -> (&'a str, ValueSource<'a>) {
    match (key.strip_suffix("#file"), key.strip_suffix("#base64")) {
        (Some(key), _) => (key, ValueSource::File(value)),
        (None, Some(key)) => (key, ValueSource::Base64(value)),
        (None, None) => (key, ValueSource::Text(value)),
    }
}

/// Whether a content may have this key: `^[a-z](-?[a-z0-9]){2,}$`.
pub fn is_content_key(key: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase();
    let is_inner = |c: char| is_letter(c) || c.is_ascii_digit();
    let letters = key.chars().filter(|c| *c != '-').count();
    letters >= 3
        && key.starts_with(is_letter)
        && key.ends_with(is_inner)
        && !key.contains("--")
        && key.chars().all(|c| c == '-' || is_inner(c))
}

/// The content of one revision: base64 by key. `Debug` shows the keys only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SecretContent(pub BTreeMap<String, String>);

impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretContent({:?})", self.0.keys().collect::<Vec<_>>())
    }
}

string_enum! {
    /// The kind of owner of a secret.
    SecretOwnerKind {
        /// One unit.
        Unit = "unit",
        /// All units of an application; its leader changes the secret.
        Application = "application",
        /// The users of the model.
        Model = "model",
    }
}

string_enum! {
    /// How often a secret gets a new content.
    RotatePolicy {
        /// Never.
        Never = "never",
        /// Every hour.
        Hourly = "hourly",
        /// Every day.
        Daily = "daily",
        /// Every 7 days.
        Weekly = "weekly",
        /// Every 30 days.
        Monthly = "monthly",
        /// Every 91 days.
        Quarterly = "quarterly",
        /// Every 365 days.
        Yearly = "yearly",
    }
}

impl RotatePolicy {
    /// The time between two rotations in milliseconds; none if the secret is not rotated.
    pub fn interval_ms(self) -> Option<i64> {
        const HOUR_MS: i64 = 3_600_000;
        match self {
            RotatePolicy::Never => None,
            RotatePolicy::Hourly => Some(HOUR_MS),
            RotatePolicy::Daily => Some(24 * HOUR_MS),
            RotatePolicy::Weekly => Some(7 * 24 * HOUR_MS),
            RotatePolicy::Monthly => Some(30 * 24 * HOUR_MS),
            RotatePolicy::Quarterly => Some(91 * 24 * HOUR_MS),
            RotatePolicy::Yearly => Some(365 * 24 * HOUR_MS),
        }
    }
}

string_enum! {
    /// What a secret hook reports; the last part of its name.
    SecretEvent {
        /// A secret that the unit reads has a newer revision.
        Changed = "changed",
        /// A secret of the unit is to get a new content.
        Rotate = "rotate",
        /// A revision of a secret of the unit has expired.
        Expired = "expired",
        /// No consumer reads an older revision of a secret of the unit any more.
        Remove = "remove",
    }
}

/// A unit or an application that may read a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SecretReader {
    /// All units of an application.
    Application(String),
    /// One unit.
    Unit(UnitName),
}

impl SecretReader {
    /// The reader as secret-info-get prints it: `application-mysql` or `unit-mysql-0`.
    pub fn tag(&self) -> String {
        match self {
            SecretReader::Application(name) => application_tag(name),
            SecretReader::Unit(unit) => unit.tag(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_96_bits_in_the_digits_of_xid() {
        let id = SecretId::from_bits(u128::MAX);
        assert_eq!(id.as_str(), "vvvvvvvvvvvvvvvvvvvg");
        assert_eq!(SecretId::from_bits(0).as_str(), "00000000000000000000");
        assert_eq!(SecretId::from_bits(1 << 123).as_str(), "10000000000000000000");
        assert_eq!("vvvvvvvvvvvvvvvvvvvg".parse(), Ok(id));
        for wrong in ["", "x", "vvvvvvvvvvvvvvvvvvvw", "vvvvvvvvvvvvvvvvvvvgv"] {
            assert!(wrong.parse::<SecretId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn content_is_not_shown() {
        let content = SecretContent(BTreeMap::from([("password".to_owned(), "czNjcmV0".to_owned())]));
        assert_eq!(format!("{content:?}"), r#"SecretContent(["password"])"#);
        for source in [ValueSource::Text("czNjcmV0"), ValueSource::Base64("czNjcmV0")] {
            assert!(!format!("{source:?}").contains("czNjcmV0"));
        }
    }

    #[test]
    fn all_forms_of_a_uri_name_the_same_secret() {
        let id = "9m4e2mr0ui3e8a215n4g";
        let model = "5f3a1c2e-7d64-4a0b-9c11-0e6b8f2d9a10";
        for text in [id.to_owned(), format!("secret:{id}"), format!("secret:{model}/{id}")] {
            assert_eq!(SecretUri::parse(&text).expect("a URI").id, id.parse().expect("an id"), "{text}");
        }
        let full = format!("secret://{model}/{id}");
        assert_eq!(SecretUri::parse(&full).expect("a URI").model, Some(model.parse().expect("a uuid")));
        assert_eq!(SecretUri::parse("secret:x"), Err(BadSecretUri::Invalid));
        assert_eq!(SecretUri::parse("http:x"), Err(BadSecretUri::Scheme("http")));
        assert!(SecretUri::parse(&format!("secret:x/{id}")).is_err() && SecretUri::parse("").is_err());
    }

    #[test]
    fn keys_have_three_letters_or_digits_and_single_hyphens() {
        for key in ["abc", "a-b-c", "a1-2", "private-key"] {
            assert!(is_content_key(key), "{key}");
        }
        for key in ["ab", "a-b", "1bc", "-abc", "abc-", "a--bc", "a_bc", "Abc", "", "aéc"] {
            assert!(!is_content_key(key), "{key}");
        }
    }

    #[test]
    fn the_padding_of_base64_belongs_to_the_value() {
        assert_eq!(split_pair("data#base64=AA=="), Some(("data#base64", "AA==")));
        assert_eq!((split_pair("data"), split_pair("=x"), split_pair("data==")), (None, None, None));
        assert_eq!(value_source("data#base64", "AA=="), ("data", ValueSource::Base64("AA==")));
        assert_eq!(value_source("data#file", "p"), ("data", ValueSource::File("p")));
    }
}
