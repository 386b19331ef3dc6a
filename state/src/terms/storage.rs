//! The terms of storage: ids, pools, the directives by which users request instances, and events (spec/hook-tools.md
//! 2.5).
//!
//! An instance of storage is a directory, a filesystem in memory, or a block device on one machine. Its id is never used
//! again in its model.

use crate::charm::{DECLARED_NAME_BYTES_MAX, StorageType};
use crate::terms::names::{BadName, Uuid, beginning, is_application_name, serde_as_text};
use crate::terms::string_enum::string_enum;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// The most instances of one unit: the transaction that adds or removes the unit writes one document for each.
pub const STORAGE_OF_UNIT_MAX: usize = 16;
/// The most instances of one machine: the transaction that removes the machine removes one document for each.
pub const STORAGE_OF_MACHINE_MAX: usize = 40;
/// The size of an instance for which neither the user nor the charm states one, as in Juju.
pub const SIZE_MIB_DEFAULT: u64 = 1024;
/// The most bytes of the error that a machine agent reports.
pub const ERROR_BYTES_MAX: usize = 500;
/// The most bytes of the path at which a unit finds its storage: PATH_MAX of Linux, without the zero byte.
pub const LOCATION_BYTES_MAX: usize = 4095;

/// Whether a unit can find its storage there: an absolute path without control characters.
pub fn is_location(text: &str) -> bool {
    text.starts_with('/') && text.len() <= LOCATION_BYTES_MAX && !text.contains(char::is_control)
}

/// The id of an instance: `data/0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageId {
    /// The name under which the charm declares the storage.
    pub name: String,
    /// The number, unique in the model.
    pub number: u32,
}

impl fmt::Display for StorageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.number)
    }
}

impl FromStr for StorageId {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || {
            let text = beginning(text);
            BadName(format!("invalid storage ID {text:?}: expected NAME/NUMBER, for example data/0"))
        };
        let (name, number) = text.split_once('/').ok_or_else(bad)?;
        let is_plain =
            number.bytes().all(|b| b.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
        if name.len() > DECLARED_NAME_BYTES_MAX || !is_application_name(name) || !is_plain {
            return Err(bad());
        }
        Ok(StorageId { name: name.to_owned(), number: number.parse().map_err(|_| bad())? })
    }
}

serde_as_text! { StorageId "storage-id" }

string_enum! {
    /// What provides the content of an instance.
    StoragePool {
        /// A directory on the disk of the machine, which is mounted where the charm declares it.
        Rootfs = "rootfs",
        /// A filesystem in the memory of the machine: its content ends with its attachment, and with a reboot.
        Tmpfs = "tmpfs",
        /// A block device over a file on the disk of the machine.
        Loop = "loop",
    }
}

impl StoragePool {
    /// The pool of an instance for which the user names none.
    pub fn default_of(kind: StorageType) -> StoragePool {
        match kind {
            StorageType::Filesystem => StoragePool::Rootfs,
            StorageType::Block => StoragePool::Loop,
        }
    }

    /// Whether the pool provides storage of this kind.
    pub fn provides(self, kind: StorageType) -> bool {
        match self {
            StoragePool::Rootfs | StoragePool::Tmpfs => kind == StorageType::Filesystem,
            StoragePool::Loop => kind == StorageType::Block,
        }
    }

    /// Whether the content outlives its attachment to a unit.
    pub fn is_persistent(self) -> bool {
        match self {
            StoragePool::Rootfs | StoragePool::Loop => true,
            StoragePool::Tmpfs => false,
        }
    }
}

string_enum! {
    /// What a storage hook reports; the last part of its name.
    StorageEvent {
        /// The storage can be used.
        Attached = "attached",
        /// The storage is about to be taken from the unit.
        Detaching = "detaching",
    }
}

/// What a user requests of one storage of a charm: `[POOL,][COUNT,][SIZE]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageDirective {
    /// The name of the pool; none for the default of the kind of storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The number of instances; none if the user did not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The size in MiB; none for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_mib: Option<u64>,
}

/// Why a text is no directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadDirective<'a> {
    /// The count is not positive.
    Count(&'a str),
    /// The size is negative.
    Size(&'a str),
    /// A field is neither a pool, nor a count, nor a size.
    Unrecognized(&'a str),
    /// It has no field.
    Empty,
}

impl fmt::Display for BadDirective<'_> {
    /// Writes the text of Juju, which the tool `storage-add` prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadDirective::Count(text) => {
                write!(f, "cannot parse count: count must be greater than zero, got {text:?}")
            }
            BadDirective::Size(text) => {
                write!(f, "cannot parse size: expected a non-negative number, got {text:?}")
            }
            BadDirective::Unrecognized(text) => {
                write!(f, "unrecognized storage constraint {text:?} not valid")
            }
            BadDirective::Empty => {
                f.write_str("storage constraints require at least one field to be specified")
            }
        }
    }
}

impl StorageDirective {
    /// Parses `[POOL,][COUNT,][SIZE]`.
    ///
    /// # Errors
    /// If a field is not valid, or there is none.
    pub fn parse(text: &str) -> Result<StorageDirective, BadDirective<'_>> {
        let mut directive = StorageDirective { pool: None, count: None, size_mib: None };
        for field in text.split(',').filter(|field| !field.is_empty()) {
            if is_pool_name(field) {
                directive.pool.get_or_insert_with(|| field.to_owned());
            } else if is_number(field) {
                let count = field.parse().ok().filter(|count| *count > 0);
                directive.count = Some(count.ok_or(BadDirective::Count(field))?);
            } else {
                directive.size_mib = Some(parse_size(field)?);
            }
        }
        match directive {
            StorageDirective { pool: None, count: None, size_mib: None } => Err(BadDirective::Empty),
            directive => Ok(directive),
        }
    }
}

fn is_pool_name(field: &str) -> bool {
    field.starts_with(|c: char| c.is_ascii_alphabetic())
        && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '?')
}

fn is_number(field: &str) -> bool {
    let digits = field.strip_prefix('-').unwrap_or(field);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The size in MiB, rounded up. It needs a unit: a number without one is a count.
fn parse_size(field: &str) -> Result<u64, BadDirective<'_>> {
    match field.strip_prefix('-').and_then(|size| parse_size_mib(size, None)) {
        Some(_) => Err(BadDirective::Size(field)),
        None => parse_size_mib(field, None).ok_or(BadDirective::Unrecognized(field)),
    }
}

/// Parses a size with one of the units M, G, T, P, E, Z and Y (`1.5G`, `1GiB`) into MiB, rounded up. `default_unit` is
/// the unit of a number without a unit; without `default_unit`, a size needs a unit.
pub fn parse_size_mib(text: &str, default_unit: Option<char>) -> Option<u64> {
    const UNITS: &str = "MGTPEZY";
    // far beyond every disk, and exact in each JSON reader
    const SIZE_MIB_MAX: f64 = (1_u64 << 50) as f64;
    let text = ["iB", "B"].into_iter().find_map(|suffix| text.strip_suffix(suffix)).unwrap_or(text);
    let (number, unit) = match text.chars().last().filter(|unit| UNITS.contains(*unit)) {
        Some(unit) => (&text[..text.len() - 1], unit),
        None => (text, default_unit?),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number: f64 = number.parse().ok().filter(|_| is_digits(whole) && is_digits(fraction))?;
    let mib = (0..UNITS.find(unit)?).fold(number, |size, _| size * 1024.0).ceil();
    (mib <= SIZE_MIB_MAX).then_some(mib as u64)
}

/// An instance for which a unit runs or has run storage-attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttachedStorage {
    /// The instance.
    pub instance: Uuid,
    /// The kind.
    pub kind: StorageType,
    /// Where the unit finds it.
    pub location: String,
}

/// An instance on a machine, as the agent of the machine sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineStorage {
    /// The instance: an id that was given to another instance after a restore is not taken for this one.
    pub instance: Uuid,
    /// The kind.
    pub kind: StorageType,
    /// The pool.
    pub pool: StoragePool,
    /// The size in MiB.
    pub size_mib: u64,
    /// Whether its content is to be deleted, because it was removed and no unit has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The attachment to a unit; none if no unit has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<MachineAttachment>,
}

/// The attachment of an instance, as the agent of its machine sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineAttachment {
    /// The unit.
    pub unit: Uuid,
    /// Where the charm wants a filesystem to be mounted; none if it does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_location: Option<String>,
    /// Whether it is mounted read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Where the unit finds it, as the agent has reported; none until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// What a machine agent has done with an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StorageReport {
    /// The unit can use it.
    Provisioned {
        /// The unit to which it is attached.
        unit: Uuid,
        /// Where the unit finds it.
        location: String,
    },
    /// It cannot be provided or deleted, and the agent tries again.
    Failed {
        /// Why not, in one line.
        error: String,
    },
    /// It is unmounted, because no unit has it.
    Released,
    /// Its content is deleted.
    Removed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directive(pool: Option<&str>, count: Option<u32>, size_mib: Option<u64>) -> StorageDirective {
        StorageDirective { pool: pool.map(str::to_owned), count, size_mib }
    }

    #[test]
    fn a_directive_has_its_fields_in_any_order() {
        for (text, expected) in [
            ("rootfs", directive(Some("rootfs"), None, None)),
            ("3", directive(None, Some(3), None)),
            ("10G", directive(None, None, Some(10 * 1024))),
            ("0.5GiB", directive(None, None, Some(512))),
            ("tmpfs,2,100MB", directive(Some("tmpfs"), Some(2), Some(100))),
            ("1.5M,1,rootfs", directive(Some("rootfs"), Some(1), Some(2))),
        ] {
            assert_eq!(StorageDirective::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_directive_is_refused_by_its_field() {
        for (text, expected) in [
            ("", BadDirective::Empty),
            (",", BadDirective::Empty),
            ("0", BadDirective::Count("0")),
            ("-1", BadDirective::Count("-1")),
            ("-1G", BadDirective::Size("-1G")),
            ("1X", BadDirective::Unrecognized("1X")),
            ("!", BadDirective::Unrecognized("!")),
            ("1,2.G", BadDirective::Unrecognized("2.G")),
            ("99999999999999Y", BadDirective::Unrecognized("99999999999999Y")),
        ] {
            assert_eq!(StorageDirective::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn an_id_is_a_name_and_a_number() {
        let id = StorageId { name: "pg-data".into(), number: 12 };
        assert_eq!("pg-data/12".parse(), Ok(id.clone()));
        assert_eq!(id.to_string(), "pg-data/12");
        for wrong in
            ["data", "data/", "/0", "data/01", "data/x", "data/0/1", "Data/0", "data/4294967296", "é/0"]
        {
            assert!(wrong.parse::<StorageId>().is_err(), "{wrong}");
        }
        let of_length = |length: usize| format!("{}/0", "a".repeat(length)).parse::<StorageId>();
        assert!(of_length(DECLARED_NAME_BYTES_MAX).is_ok());
        assert!(of_length(DECLARED_NAME_BYTES_MAX + 1).is_err());
        assert!(of_length(1 << 20).is_err_and(|bad| bad.0.len() < 200), "the message is short");
    }
}
