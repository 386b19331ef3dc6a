//! What a controller's data folder holds: the documents of the store, and the files beside it.

use crate::named::{Named, loads, types};
use crate::samples::Samples;
use crate::values::Maker;
use api::AgentConfig;
use api::client_file::ClientFile;
use cli::supervisor::network::Network;
use cli::supervisor::provider::Instance;
use cli::supervisor::settings::UpSettings as Settings;
use serde_json::Value;
use state::documents::prelude::*;
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::port_range::Ports;
use state::terms::status::ActionStatus;
use state::unit::hook_context::ReportContent;
use state::unit::record::Outcome;
use std::fs;
use std::path::Path;

types! { made_documents, loads_documents:
    Operation ReportContent Outcome
    ModelDoc DestructionDoc
    MachineDoc InstanceDoc ProvisioningErrorDoc
    ApplicationDoc CharmDoc ArchiveDoc
    UnitDoc StatusDoc SessionDoc ReplicaDoc ResolvedDoc Ports OpenPortsDoc GrantDoc LeaderSettingsDoc
    RelationDoc SuspendedDoc ScopeDoc BagDoc
    ActionDoc ActionStatus LogDoc
    SecretDoc SecretContentDoc OwnedSecretsDoc ConsumedSecretsDoc
    ForcedRemovalDoc TombstoneDoc
    Life
}

types! { made_files, loads_files: ClientFile AgentConfig Instance Network Settings }

/// The kind is a tag among the fields, which no reader asks for.
fn principals() -> Vec<Value> {
    let (model, id) = (Model(Uuid(1)), Uuid(2));
    let all = [
        TokenHolder::User { name: "admin".to_owned(), role: UserRole::Admin },
        TokenHolder::Machine { model, machine: id },
        TokenHolder::Unit { model, unit: id },
        TokenHolder::EnrollingMachine { model, machine: id, expires_ms: 1 },
        TokenHolder::RemovedMachine { model, machine: id },
    ];
    all.iter().map(|principal| serde_json::to_value(principal).expect("plain data")).collect()
}

const DOCUMENTS: &str = "documents.yaml";
const FILES: &str = "files.yaml";

pub fn make() -> Samples {
    let mut maker = Maker::default();
    let mut documents = made_documents(&mut maker);
    documents.insert("TokenHolder".to_owned(), principals());
    let files = made_files(&mut maker);
    let yaml = |named: &Named| serde_yaml::to_string(named).expect("plain data");
    Samples::from([(DOCUMENTS.to_owned(), yaml(&documents)), (FILES.to_owned(), yaml(&files))])
}

pub fn load(samples: &Samples) {
    let named = |file: &str| serde_yaml::from_str::<Named>(&samples[file]).expect("samples by name");
    let documents = named(DOCUMENTS);
    loads_documents(&documents);
    loads::<TokenHolder>("TokenHolder", &documents["TokenHolder"]);
    loads_files(&named(FILES));
}

/// The types of documents that the functions for keys name: `-> Key<UnitDoc>`.
fn stored_types(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("it is a folder").flatten() {
        if entry.path().is_dir() {
            stored_types(&entry.path(), found);
            continue;
        }
        let text = fs::read_to_string(entry.path()).expect("sources are text");
        let types = text.split("-> Key<").skip(1).filter_map(|rest| rest.split('>').next());
        let of_std =
            |name: &str| ["BTreeMap", "Vec", "String", "Uuid", "u64", "bool", "()", "T"].contains(&name);
        let types = types.map(|name| name.split('<').next().unwrap_or(name));
        found.extend(types.filter(|name| !of_std(name)).map(str::to_owned));
    }
}

#[test]
fn every_type_of_document_has_a_sample() {
    let mut types = Vec::new();
    stored_types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../state/src/documents"), &mut types);
    assert!(types.len() > 20, "{types:?}");
    let documents: Named = serde_yaml::from_str(&make()[DOCUMENTS]).expect("samples by name");
    for name in types {
        assert!(documents.contains_key(&name), "{name} has no sample: add it to `types!`");
    }
}
