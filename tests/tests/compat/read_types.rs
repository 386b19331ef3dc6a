//! Every type that the product reads from a disk or from the network has a sample.
//!
//! The types are found in the sources: those that derive `Deserialize`. A sample is one of the values made here, alone
//! or inside another value, a message of the OpenAPI document, or a file that the product has written.

use crate::{documents, unit_folder};
use controller::openapi;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The folders of the product's sources. The hook tools read messages without a library.
const SOURCES: [&str; 7] =
    ["state/src", "host/src", "charms/src", "api/src", "agent/src", "controller/src", "cli/src"];

/// Types whose sample does not name them, with the reason.
const UNNAMED: &[(&str, &str)] = &[
    ("StateFile", "unit-folder: state.yaml"),
    ("JournalEntry", "unit-folder: journal.yaml"),
    ("ViewHead", "unit-folder: view/unit.yaml"),
    ("CallsLine", "unit-folder: hooks/000001/calls.yaml"),
    ("StoredBytes", "unit-folder: runs.yaml"),
    ("FileIdentity", "store: generation.yaml"),
    ("TokenHolder", "store: documents.yaml"),
    ("Constraints", "store: documents.yaml"),
    ("SshKey", "store: documents.yaml"),
    ("UserRole", "store: documents.yaml, a field of TokenHolder"),
    ("Model", "store: documents.yaml, a field of TokenHolder"),
    ("BagHead", "some fields of BagDoc"),
    ("Committed", "protocol: once for each answer"),
    ("StreamLine", "protocol: once for each stream"),
    ("StatusInfo", "protocol: once for each kind of status"),
    ("BundleApplication", "a bundle, which a person writes"),
    ("BundleMachine", "a bundle, which a person writes"),
    ("RelationEnds", "a bundle, which a person writes"),
    ("FakesFile", "the file of dev --fakes, which a person writes"),
    ("RelationEntry", "the file of dev --fakes, which a person writes"),
    ("DebugSession", "exists while a terminal is open; of another version it has no effect"),
    ("DebugMode", "a field of DebugSession"),
    ("Recorded", "store: generation.yaml, while a store generation starts"),
    ("OfAnyVersion", "a field of StoreRecord"),
    (
        "StatementValue",
        "of a key of etcd that ends with its controller; one of another version is not read until then",
    ),
    ("Statement", "a field of StatementValue"),
    ("AgentStatement", "a field of StatementValue"),
    ("Boots", "a field of StatementValue"),
    ("ExecutingRun", "a field of StatementValue"),
    ("Answer", "printed by a script that the program contains"),
    ("Declared", "printed by a script that the program contains"),
    ("Conflict", "printed by a script that the program contains"),
    ("Installed", "printed by a script that the program contains"),
    ("UnreadableFile", "printed by a script that the program contains"),
];

/// The name of the type whose attributes or macro end where `text` begins.
fn type_name(text: &str) -> Option<&str> {
    let (_, rest) = text.lines().find_map(|line| {
        let words = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(super) ");
        words.split_once(' ').filter(|(word, _)| ["struct", "enum"].contains(word))
    })?;
    let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

/// The types that derive `Deserialize` in a source, tests excluded.
fn read_types(source: &str) -> Vec<&str> {
    let product = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let attributes = product.split("#[derive(").skip(1).filter_map(|rest| rest.split_once(")]"));
    let read = attributes.filter(|(derived, _)| derived.contains("Deserialize"));
    read.filter_map(|(_, rest)| type_name(rest)).collect()
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("it is a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("sources are text");
            found.extend(read_types(&source).into_iter().map(str::to_owned));
        }
    }
}

#[test]
fn every_type_that_is_read_has_a_sample() {
    let mut read = BTreeSet::new();
    for folder in SOURCES {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder), &mut read);
    }
    assert!(read.len() > 250, "{read:?}");
    let document = openapi::document();
    let messages = document["components"]["schemas"].as_object().expect("schemas by name");
    let unnamed: BTreeSet<&str> = UNNAMED.iter().map(|(name, _)| *name).collect();
    let values: BTreeSet<&str> =
        documents::sampled_types().into_iter().chain(unit_folder::sampled_types()).collect();
    let paths = document["paths"].as_object().expect("operations by path").values();
    let operations = paths.filter_map(Value::as_object).flat_map(|methods| methods.values());
    // a request without a body is in the document by its name alone
    let requests: BTreeSet<&str> =
        operations.filter_map(|operation| operation["operationId"].as_str()).collect();
    let is_sampled =
        |name: &str| values.contains(name) || messages.contains_key(name) || requests.contains(name);
    let missing: Vec<&String> =
        read.iter().filter(|name| !is_sampled(name) && !unnamed.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "no sample, add them to a `types!` of this test: {missing:?}");
    let stale: Vec<&&str> =
        unnamed.iter().filter(|name| !read.contains(**name) || is_sampled(name)).collect();
    assert!(stale.is_empty(), "not read any more, or sampled by name: {stale:?}");
}
