//! Constraints of machines, in the form of Juju: `mem=8G cores=2`.
//!
//! They are stored and shown. No provider chooses or creates a machine by them: every machine has the resources and the
//! architecture of its host.

use crate::terms::string_enum::string_enum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

string_enum! {
    /// What a constraint limits, in the order in which constraints are printed.
    ConstraintKey {
        /// The architecture.
        Arch = "arch",
        /// The kind of container.
        Container = "container",
        /// The number of cores.
        Cores = "cores",
        /// The power of a core.
        CpuPower = "cpu-power",
        /// The memory in MiB.
        Mem = "mem",
        /// The size of the root disk in MiB.
        RootDisk = "root-disk",
        /// Where the root disk comes from.
        RootDiskSource = "root-disk-source",
        /// The tags of the machine.
        Tags = "tags",
        /// The role of the instance.
        InstanceRole = "instance-role",
        /// The type of the instance.
        InstanceType = "instance-type",
        /// The spaces of the machine.
        Spaces = "spaces",
        /// The virtualisation.
        VirtType = "virt-type",
        /// The zones of the machine.
        Zones = "zones",
        /// Whether the machine has a public address.
        AllocatePublicIp = "allocate-public-ip",
        /// The image of the instance.
        ImageId = "image-id",
    }
}

/// The most bytes of the constraints of one entity as they are typed and as they are stored.
pub const CONSTRAINTS_BYTES_MAX: usize = 4096;

/// The value of a constraint. Its JSON is what `--format json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ConstraintValue {
    /// Yes or no.
    Flag(bool),
    /// A number; sizes are in MiB.
    Number(u64),
    /// One word.
    Word(String),
    /// Several words.
    Words(Vec<String>),
}

/// The constraints of an application or a model. They are stored and sent in the form in which they are typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Constraints(pub BTreeMap<ConstraintKey, ConstraintValue>);

impl Constraints {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These constraints, and those of `others` whose keys are absent here; these alone if all together would have more than
    /// [`CONSTRAINTS_BYTES_MAX`] bytes, which are not read again.
    #[must_use]
    pub fn or(self, others: Constraints) -> Constraints {
        let mut all = others;
        all.0.extend(self.0.clone());
        if all.to_string().len() <= CONSTRAINTS_BYTES_MAX { all } else { self }
    }
}

/// A text that is no list of constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadConstraint {
    /// A word without `=`.
    Malformed(String),
    /// An unknown key.
    Unknown(String),
    /// The same key twice.
    Repeated(ConstraintKey),
    /// A value that the key cannot have, and what it must be.
    Value(ConstraintKey, &'static str),
    /// More than [`CONSTRAINTS_BYTES_MAX`] bytes.
    TooLong,
}

/// The messages of Juju.
impl fmt::Display for BadConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadConstraint::Malformed(word) => write!(f, "malformed constraint {word:?}"),
            BadConstraint::Unknown(key) => write!(f, "unknown constraint {key:?}"),
            BadConstraint::Repeated(key) => write!(f, "bad \"{key}\" constraint: already set"),
            BadConstraint::Value(key, must) => write!(f, "bad \"{key}\" constraint: must be {must}"),
            BadConstraint::TooLong => write!(f, "constraints have more than {CONSTRAINTS_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for BadConstraint {}

impl TryFrom<String> for Constraints {
    type Error = BadConstraint;

    fn try_from(text: String) -> Result<Constraints, BadConstraint> {
        text.parse()
    }
}

impl From<Constraints> for String {
    fn from(constraints: Constraints) -> String {
        constraints.to_string()
    }
}

impl FromStr for Constraints {
    type Err = BadConstraint;

    fn from_str(text: &str) -> Result<Constraints, BadConstraint> {
        if text.len() > CONSTRAINTS_BYTES_MAX {
            return Err(BadConstraint::TooLong);
        }
        let (mut constraints, mut seen) = (BTreeMap::new(), Vec::new());
        for word in text.split_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| BadConstraint::Malformed(word.to_owned()))?;
            let known = if key == "cpu-cores" { "cores" } else { key };
            let key: ConstraintKey = known.parse().map_err(|_| BadConstraint::Unknown(key.to_owned()))?;
            if seen.contains(&key) {
                return Err(BadConstraint::Repeated(key));
            }
            seen.push(key);
            if !value.is_empty() {
                constraints.insert(key, parse_value(key, value)?);
            }
        }
        let constraints = Constraints(constraints);
        // the stored form is longer: `mem=8P` is `mem=8589934592M`
        match constraints.to_string().len() <= CONSTRAINTS_BYTES_MAX {
            true => Ok(constraints),
            false => Err(BadConstraint::TooLong),
        }
    }
}

fn parse_value(key: ConstraintKey, value: &str) -> Result<ConstraintValue, BadConstraint> {
    let bad = |must| BadConstraint::Value(key, must);
    Ok(match key {
        ConstraintKey::Cores | ConstraintKey::CpuPower => {
            ConstraintValue::Number(value.parse().map_err(|_| bad("a non-negative integer"))?)
        }
        ConstraintKey::Mem | ConstraintKey::RootDisk => {
            let size = mebibytes(value);
            ConstraintValue::Number(
                size.ok_or_else(|| bad("a non-negative float with optional M/G/T/P suffix"))?,
            )
        }
        ConstraintKey::AllocatePublicIp => {
            ConstraintValue::Flag(value.parse().map_err(|_| bad("true or false"))?)
        }
        ConstraintKey::Tags | ConstraintKey::Spaces | ConstraintKey::Zones => {
            ConstraintValue::Words(value.split(',').map(str::to_owned).collect())
        }
        ConstraintKey::Arch
        | ConstraintKey::Container
        | ConstraintKey::RootDiskSource
        | ConstraintKey::InstanceRole
        | ConstraintKey::InstanceType
        | ConstraintKey::VirtType
        | ConstraintKey::ImageId => ConstraintValue::Word(value.to_owned()),
    })
}

/// A size in MiB, rounded up.
fn mebibytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.char_indices().last()? {
        (at, 'M') => (&text[..at], 1.0),
        (at, 'G') => (&text[..at], 1024.0),
        (at, 'T') => (&text[..at], 1024.0 * 1024.0),
        (at, 'P') => (&text[..at], 1024.0 * 1024.0 * 1024.0),
        _ => (text, 1.0),
    };
    let size = number.parse::<f64>().ok()? * factor;
    // every integer below 2^53 has an exact form
    (0.0..9_007_199_254_740_992.0).contains(&size).then(|| size.ceil() as u64)
}

/// In the form in which they are typed.
impl fmt::Display for Constraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            write!(f, "{separator}{key}=")?;
            match value {
                ConstraintValue::Flag(flag) => write!(f, "{flag}")?,
                ConstraintValue::Number(size)
                    if matches!(key, ConstraintKey::Mem | ConstraintKey::RootDisk) =>
                {
                    write!(f, "{size}M")?;
                }
                ConstraintValue::Number(number) => write!(f, "{number}")?,
                ConstraintValue::Word(word) => f.write_str(word)?,
                ConstraintValue::Words(words) => f.write_str(&words.join(","))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_together_can_be_read_again() {
        let parsed = |text: &str| text.parse::<Constraints>().expect("they are constraints");
        let (own, others) = (parsed(&format!("zones={}", "z".repeat(3_000))), parsed("mem=2G cores=2"));
        let large = parsed(&format!("mem=1G tags={}", "t".repeat(3_000)));
        let both = own.clone().or(others);
        assert_eq!((both.0.len(), both.to_string().parse()), (3, Ok(both)));
        assert_eq!(own.clone().or(large), own);
    }

    #[test]
    fn constraints_are_printed_as_they_are_typed() {
        let parsed: Constraints =
            "mem=1.5G cpu-cores=2 arch=amd64 tags=a,b root-disk= zones=z".parse().unwrap();
        assert_eq!(parsed.to_string(), "arch=amd64 cores=2 mem=1536M tags=a,b zones=z");
        assert_eq!(parsed.to_string().parse(), Ok(parsed.clone()));
        let json =
            serde_json::json!({"arch": "amd64", "cores": 2, "mem": 1536, "tags": ["a", "b"], "zones": ["z"]});
        assert_eq!(serde_json::to_value(&parsed.0).unwrap(), json);
    }

    #[test]
    fn what_is_no_constraint_is_refused() {
        for (text, expected) in [
            ("mem", BadConstraint::Malformed("mem".to_owned())),
            ("cow=1", BadConstraint::Unknown("cow".to_owned())),
            ("mem=1G mem=", BadConstraint::Repeated(ConstraintKey::Mem)),
            ("cores=-1", BadConstraint::Value(ConstraintKey::Cores, "a non-negative integer")),
        ] {
            assert_eq!(text.parse::<Constraints>(), Err(expected), "{text}");
        }
        for size in ["-1M", "1X", "M", "NaN", "1e300", "inf"] {
            assert!(format!("mem={size}").parse::<Constraints>().is_err(), "{size}");
        }
    }
}
