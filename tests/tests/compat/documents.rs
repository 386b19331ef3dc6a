//! Samples of the content of a controller's data folder: the documents of the store, and the files beside it.

use crate::named::{Named, loaded, types};
use crate::samples::Samples;
use crate::values::Maker;
use api::AgentConfig;
use api::client_file::ClientFile;
use api::etcd_file::EtcdFile;
use cli::supervisor::identity::FolderIdentity;
use cli::supervisor::network::Network;
use cli::supervisor::process_exits::ProcessExits;
use cli::supervisor::provider::Instance;
use cli::supervisor::settings::UpSettings as Settings;
use controller::installation::ControllerIdentity;
use controller::secret_keys::KeyFile;
use controller::store::etcd::{FileManifest, StoreRecord};
use controller::store::sqlite::{GenerationFile, Options, Sqlite};
use serde_json::Value;
use state::documents::prelude::*;
use state::terms::constraints::Constraints;
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::port_range::Ports;
use state::terms::position::Position;
use state::terms::ssh_key::SshKey;
use state::terms::status::ActionStatus;
use state::unit::hook_context::ReportContent;
use state::unit::record::Outcome;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

types! { made_documents, loads_documents:
    Operation ReportContent Outcome
    ModelDoc DestructionDoc
    MachineDoc InstanceDoc ProvisioningErrorDoc
    ApplicationDoc CharmDoc ArchiveDoc
    UnitDoc StatusDoc StatusLogDoc SessionDoc ReplicaDoc ResolvedDoc Ports OpenPortsDoc LeaderDoc LeaderSettingsDoc
    RelationDoc SuspendedDoc ScopeDoc BagDoc
    ActionDoc ActionStatus LogDoc
    SecretDoc SecretContentDoc OwnedSecretsDoc ConsumedSecretsDoc
    StorageDoc ApplicationStorageDoc UnitStorageDoc MachineStorageDoc
    ForcedRemovalDoc TombstoneDoc
    Life
}

types! { made_files, loads_files:
    ClientFile AgentConfig Instance Network Settings ControllerIdentity FolderIdentity KeyFile ProcessExits
    StoreRecord FileManifest EtcdFile
}

/// The samples of [`TokenHolder`], which a [`Maker`] cannot make: the kind is a tag among the fields, which a
/// `Deserialize` does not request.
fn principals() -> Vec<Value> {
    let (model, id) = (Model(Uuid(1)), Uuid(2));
    let roles = Maker::default().values::<UserRole>().into_iter();
    let users = roles.map(|role| TokenHolder::User { name: "admin".to_owned(), role });
    let others = [
        TokenHolder::Machine { model, machine: id },
        TokenHolder::Unit { model, unit: id },
        TokenHolder::EnrollingMachine { model, machine: id, expires_ms: 1 },
        TokenHolder::RemovedMachine { model, machine: id },
    ];
    users.chain(others).map(|principal| serde_json::to_value(principal).expect("plain data")).collect()
}

const DOCUMENTS: &str = "documents.yaml";
const FILES: &str = "files.yaml";
const GENERATION: &str = "generation.yaml";

/// `generation.yaml` of a new store. The identity of the file is another one at each run.
fn generation() -> String {
    let folder = TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    drop(Sqlite::open(folder.path(), Options::new(Uuid(1))).expect("a new store"));
    let text = fs::read_to_string(folder.path().join(GENERATION)).expect("the store has written it");
    let line = |line: &str| match line.split_once(": ") {
        Some((name @ ("inode" | "created_ns"), _)) => format!("{name}: {:<20}\n", 1),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The names of all types in the samples of this form.
pub fn sampled_types() -> BTreeSet<&'static str> {
    let mut maker = Maker::default();
    made_documents(&mut maker);
    made_files(&mut maker);
    maker.types
}

pub fn make() -> Samples {
    let mut maker = Maker::default();
    let mut documents = made_documents(&mut maker);
    documents.insert("TokenHolder".to_owned(), principals());
    documents.insert("Constraints".to_owned(), vec![Value::from("arch=amd64 mem=8192M")]);
    documents.insert(
        "SshKey".to_owned(),
        vec![Value::from(
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ me@host",
        )],
    );
    let files = made_files(&mut maker);
    let yaml = |named: &Named| serde_yaml::to_string(named).expect("plain data");
    let texts = [(DOCUMENTS, yaml(&documents)), (FILES, yaml(&files)), (GENERATION, generation())];
    texts.map(|(name, text)| (name.to_owned(), text)).into()
}

pub fn load(samples: &Samples) {
    let named = |file: &str| serde_yaml::from_str::<Named>(&samples[file]).expect("samples by name");
    let documents = named(DOCUMENTS);
    loads_documents(&documents);
    loaded::<TokenHolder>("TokenHolder", &documents["TokenHolder"]);
    loaded::<Constraints>("Constraints", &documents["Constraints"]);
    loaded::<SshKey>("SshKey", &documents["SshKey"]);
    loads_files(&named(FILES));
    let folder = TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    fs::write(folder.path().join(GENERATION), &samples[GENERATION]).expect("there is room for a test");
    let position = GenerationFile::load(folder.path()).expect("the generation is read");
    assert_eq!(position, Position { store_generation: Uuid(1), revision: 0 });
}

/// The types of documents in the results of the functions for keys: `-> Key<UnitDoc>`.
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
