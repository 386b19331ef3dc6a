//! Combines the declaring files of a charm into one `Charm` and checks them against each other.
//!
//! Each section except the manifest is read by the module that is named after it. Problems name the file and the key
//! where the user finds them, even if the section comes from charmcraft.yaml. Called by `read` for folders and for
//! archives.

use crate::problem::{Checker, Problem};
use crate::safe_paths::MemberKind;
use crate::{actions, assumes, config, metadata, yaml};
use serde_json::Value;
use state::charm::{Base, Charm};
use std::collections::BTreeMap;

/// The files that are read. All other files are only packed (spec/clients.md 4.1).
pub const READ_FILES: [&str; 6] =
    ["metadata.yaml", "config.yaml", "actions.yaml", "manifest.yaml", "charmcraft.yaml", "version"];
/// Largest size of one of these files in bytes. The largest known file, the metadata of any-charm, has 60 KiB.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// The text of each of these files that exists, by name.
pub type Texts = BTreeMap<String, String>;

/// A parsed section of the declaration: a file, or a part of charmcraft.yaml.
pub struct Section {
    /// The file that contains the section.
    pub file: &'static str,
    /// The key of the section in the file; empty for a whole file.
    pub section: &'static str,
    /// The parsed content.
    pub value: Value,
}

/// The sections of one charm, from files of their own or from charmcraft.yaml.
#[derive(Default)]
pub struct Sections {
    pub metadata: Option<Section>,
    pub config: Option<Section>,
    pub actions: Option<Section>,
    pub manifest: Option<Section>,
}

/// Parses `file`. Returns `None` if there is no such file, or if it is not valid YAML, which is reported.
pub fn parse(texts: &Texts, file: &'static str, problems: &mut Vec<Problem>) -> Option<Section> {
    match yaml::value(texts.get(file)?) {
        Ok(value) => Some(Section { file, section: "", value }),
        Err(error) => {
            problems.push(Problem::new(file, &error.location(), error.message));
            None
        }
    }
}

/// The code that a charm contains.
#[derive(Debug, Default)]
pub struct Layout {
    /// Whether `dispatch` is executable; `None` if the charm has no `dispatch`.
    pub dispatch: Option<bool>,
    /// Whether the charm has a file in `hooks/`.
    pub has_hooks: bool,
    /// The Python version, for example `3.12`, for which the packed environment was created.
    pub python: Option<String>,
}

impl Layout {
    /// Reads the layout from the paths of all members.
    pub fn from_members<'a>(members: impl Iterator<Item = (&'a str, &'a MemberKind)>) -> Layout {
        let mut layout = Layout::default();
        for (path, kind) in members {
            if path == "dispatch" {
                // A link's target is checked as a member of its own.
                layout.dispatch =
                    Some(!matches!(kind, MemberKind::Folder | MemberKind::File { executable: false }));
            }
            layout.has_hooks |= path.starts_with("hooks/") && *kind != MemberKind::Folder;
            let packed_for = path.strip_prefix("venv/lib/python").and_then(|rest| rest.split_once('/'));
            if let Some((version, _)) = packed_for {
                layout.python = Some(version.to_owned());
            }
        }
        layout
    }
}

/// Reads the charm that `sections` declare, and all of its problems. With `forced`, `assumes` is not checked.
pub fn declare(
    sections: &Sections,
    texts: &Texts,
    forced: bool,
    notes: &mut Vec<String>,
) -> (Charm, Vec<Problem>) {
    let mut charm = Charm::default();
    let mut problems = Vec::new();
    let mut check = |section: &Option<Section>, read: &mut dyn FnMut(&Value, &mut Checker)| {
        if let Some(section) = section {
            let mut checker = Checker::for_section(section.file, section.section);
            read(&section.value, &mut checker);
            problems.append(&mut checker.problems);
        }
    };
    check(&sections.metadata, &mut |value, checker| metadata::read(value, &mut charm, checker));
    check(&sections.config, &mut |value, checker| config::read(value, &mut charm, checker, notes));
    check(&sections.actions, &mut |value, checker| actions::read(value, &mut charm, checker));
    check(&sections.manifest, &mut |value, checker| charm.bases = bases(value, checker));
    if !forced {
        check(&sections.metadata, &mut |value, checker| assumes::check(value, checker));
    }
    charm.version = texts.get("version").and_then(|text| text.lines().next()).map(str::to_owned);
    (charm, problems)
}

/// Reads the bases of manifest.yaml; its other keys are not used (spec/clients.md 4.2).
fn bases(value: &Value, checker: &mut Checker) -> Vec<Base> {
    let list = value.get("bases").and_then(Value::as_array).cloned().unwrap_or_default();
    let base = |(index, value): (usize, &Value)| {
        let place = format!("bases.{index}");
        let map = checker.map(&place, Some(value));
        let architectures = map.get("architectures").and_then(Value::as_array).into_iter().flatten();
        Base {
            name: checker.text(&format!("{place}.name"), map.get("name")).unwrap_or_default(),
            // YAML reads an unquoted 24.04 as a number.
            channel: map
                .get("channel")
                .map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned))
                .unwrap_or_default(),
            architectures: architectures.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    };
    list.iter().enumerate().map(base).collect()
}
