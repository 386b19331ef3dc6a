//! The parts of a charm's files that declare something, put together and checked against each other.

use crate::names::Kind;
use crate::problem::{Checker, Problem};
use crate::{actions, assumes, config, metadata, yaml};
use serde_json::Value;
use state::charm::{Base, Charm};
use std::collections::BTreeMap;

/// The files that are read; everything else is only carried (spec/clients.md 4.1).
pub const READ: [&str; 6] =
    ["metadata.yaml", "config.yaml", "actions.yaml", "manifest.yaml", "charmcraft.yaml", "version"];
/// Largest of these files: any-charm's metadata, the largest met, has 60 KiB.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Those of the files that are there, by name.
pub type Texts = BTreeMap<String, String>;

/// A parsed section and where it stands: a file, or a part of one.
pub struct Section {
    pub file: &'static str,
    pub section: &'static str,
    pub value: Value,
}

/// The sections of one charm, wherever they come from.
#[derive(Default)]
pub struct Sections {
    pub metadata: Option<Section>,
    pub config: Option<Section>,
    pub actions: Option<Section>,
    pub manifest: Option<Section>,
}

/// The parsed file, or none when there is none, or when it is no YAML: then that is reported.
pub fn parse(texts: &Texts, file: &'static str, problems: &mut Vec<Problem>) -> Option<Section> {
    match yaml::from_str(texts.get(file)?) {
        Ok(value) => Some(Section { file, section: "", value }),
        Err(error) => {
            problems.push(Problem::new(file, &error.place(), error.message));
            None
        }
    }
}

/// What is run of a charm.
#[derive(Debug, Default)]
pub struct Layout {
    /// Whether there is a dispatch, and if so whether it can be run.
    pub dispatch: Option<bool>,
    pub has_hooks: bool,
    /// The Python, `3.12`, that the packed environment was made for.
    pub python: Option<String>,
}

impl Layout {
    pub fn of<'a>(members: impl Iterator<Item = (&'a str, &'a Kind)>) -> Layout {
        let mut layout = Layout::default();
        for (path, kind) in members {
            if path == "dispatch" {
                // A link's target is checked as a member of its own.
                layout.dispatch = Some(!matches!(kind, Kind::Folder | Kind::File { executable: false }));
            }
            layout.has_hooks |= path.starts_with("hooks/") && *kind != Kind::Folder;
            let packed_for = path.strip_prefix("venv/lib/python").and_then(|rest| rest.split_once('/'));
            if let Some((version, _)) = packed_for {
                layout.python = Some(version.to_owned());
            }
        }
        layout
    }
}

/// The charm that the sections declare, and all that is wrong with them. `forced` leaves out what the user may
/// insist on: unmet assumptions.
pub fn declare(
    sections: &Sections,
    texts: &Texts,
    forced: bool,
    notes: &mut Vec<String>,
) -> (Charm, Vec<Problem>) {
    let mut charm = Charm::default();
    let mut problems = Vec::new();
    let mut with = |section: &Option<Section>, read: &mut dyn FnMut(&Value, &mut Checker)| {
        if let Some(section) = section {
            let mut checker = Checker::of_section(section.file, section.section);
            read(&section.value, &mut checker);
            problems.append(&mut checker.problems);
        }
    };
    with(&sections.metadata, &mut |value, checker| metadata::read(value, &mut charm, checker));
    with(&sections.config, &mut |value, checker| config::read(value, &mut charm, checker, notes));
    with(&sections.actions, &mut |value, checker| actions::read(value, &mut charm, checker));
    with(&sections.manifest, &mut |value, checker| charm.bases = bases(value, checker));
    if !forced {
        with(&sections.metadata, &mut |value, checker| assumes::check(value, checker));
    }
    charm.version = texts.get("version").and_then(|text| text.lines().next()).map(str::to_owned);
    (charm, problems)
}

/// manifest.yaml: only the bases matter (spec/clients.md 4.2).
fn bases(value: &Value, checker: &mut Checker) -> Vec<Base> {
    let list = value.get("bases").and_then(Value::as_array).cloned().unwrap_or_default();
    let base = |(index, value): (usize, &Value)| {
        let place = format!("bases.{index}");
        let map = checker.map(&place, Some(value));
        let architectures = map.get("architectures").and_then(Value::as_array).into_iter().flatten();
        Base {
            name: checker.text(&format!("{place}.name"), map.get("name")).unwrap_or_default(),
            // An unquoted 24.04 is a number to YAML and still a channel.
            channel: map
                .get("channel")
                .map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned))
                .unwrap_or_default(),
            architectures: architectures.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    };
    list.iter().enumerate().map(base).collect()
}
