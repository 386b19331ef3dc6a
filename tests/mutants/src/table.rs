//! The table of mutants, read from `table/*.toml`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const FILES: [&str; 13] = [
    include_str!("../table/agent.toml"),
    include_str!("../table/commits.toml"),
    include_str!("../table/controller.toml"),
    include_str!("../table/force.toml"),
    include_str!("../table/hooks.toml"),
    include_str!("../table/machine.toml"),
    include_str!("../table/operations.toml"),
    include_str!("../table/relations.toml"),
    include_str!("../table/removal.toml"),
    include_str!("../table/retries.toml"),
    include_str!("../table/secrets.toml"),
    include_str!("../table/storage.toml"),
    include_str!("../table/views.toml"),
];

/// One row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The name of the mutant, for `cargo sim --mutant NAME`.
    pub name: String,
    /// The fault, as one sentence.
    pub about: String,
    /// The product file, from the root of the repository.
    pub file: String,
    /// The original: text inside a function, which must occur exactly once in the file.
    pub code: String,
    /// The replacement of the original; an empty one deletes it.
    pub instead: String,
    /// Further replacements in the same file that are part of the same fault.
    #[serde(default)]
    pub also: Vec<Change>,
    /// The check of the simulator that must detect the mutant.
    pub killed_by: String,
    /// Numbers of the fault profile that make the detection of the fault likely.
    #[serde(default)]
    pub mix: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub code: String,
    pub instead: String,
}

impl Mutant {
    /// All replacements of the row: the original and its replacement.
    pub fn changes(&self) -> impl Iterator<Item = (&str, &str)> {
        let also = self.also.iter().map(|change| (change.code.as_str(), change.instead.as_str()));
        std::iter::once((self.code.as_str(), self.instead.as_str())).chain(also)
    }
}

#[derive(Deserialize)]
struct File {
    mutant: Vec<Mutant>,
}

static MUTANTS: LazyLock<Vec<Mutant>> = LazyLock::new(|| {
    let read = |text: &&str| toml::from_str::<File>(text).unwrap_or_else(|error| panic!("{error}")).mutant;
    FILES.iter().flat_map(read).collect()
});

/// All rows. The position of a row is the number that [`crate::choose`] takes.
pub fn mutants() -> &'static [Mutant] {
    &MUTANTS
}
