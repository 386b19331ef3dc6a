//! Samples of the folder of a unit: its state as the journal writes it, each event, the cached view, its configuration,
//! what its charm declares, and the files of its runs.

use crate::named::{Named, loaded, types};
use crate::samples::{self, Samples};
use crate::values::Maker;
use agent::config;
use agent::folder::UnitFolder;
use agent::hook_process::InstalledCharmFile;
use agent::hook_process::run_files::{RunFile, read_outcome, read_run_file};
use agent::hook_session::{
    AnsweredCall, CALLS_BYTES_MAX, CallsFile, CallsLine, ConfidentialCall, FetchedBagLine, StoredBytes,
};
use agent::journal::{self, Loaded};
use agent::view_cache::ViewCache;
use api::AgentConfig;
use hook_client::shim::OUTCOME;
use state::terms::operation::Operation;
use state::unit::hook_context::ReportContent;
use state::unit::local::Event;
use state::unit::outcome::RunExit;
use state::unit::record::Outcome;
use state::unit::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;
use tests::folder_operations;

const CONFIG: &str = "agent.yaml";
/// Every event that a document of `journal.yaml` may contain.
const EVENTS: &str = "events.yaml";

/// Every form of what the files of a run may hold.
const RUNS: &str = "runs.yaml";

types! { made_events, loads_events: Operation ReportContent Outcome Event }
types! { made_runs, loads_runs: RunFile AnsweredCall ConfidentialCall FetchedBagLine }

/// The outcomes of the runs 1, 2 and 3, as the shim writes them (`hooks-tools/client/tests/program/shim.rs`).
const OUTCOMES: [&str; 3] = [
    "exit 1                          \n",
    "signal 9                        \n",
    "failed 2 fork/exec /charm/hooks/install",
];

/// The form of these bytes depends on what they are, so they are not made from their type alone.
fn stored_bytes() -> [StoredBytes; 3] {
    let digest = StoredBytes::Digest { sha256: "ab".repeat(32), length: 5000 };
    [StoredBytes::Text("text".to_owned()), StoredBytes::Raw { bytes: vec![255] }, digest]
}

/// What the charm declares, and the folders of three runs, written as the agent and the shim write them.
fn write_runs(folder: &UnitFolder) {
    let mut maker = Maker::default();
    maker.values::<InstalledCharmFile>()[0].write(folder).expect("there is room for a test");
    for (number, outcome) in (1..).zip(OUTCOMES) {
        fs::create_dir_all(folder.run(number)).expect("there is room for a test");
        fs::write(folder.run(number).join(OUTCOME), outcome).expect("there is room for a test");
    }
    let run = folder.run(1);
    maker.values::<RunFile>()[0].write(&run).expect("there is room for a test");
    let (call, bag) = (maker.values::<AnsweredCall>().remove(0), maker.values::<FetchedBagLine>().remove(0));
    let mut calls = CallsFile::open(&run);
    for line in [CallsLine::Call(call), CallsLine::Bag(bag)] {
        calls.append(&line, CALLS_BYTES_MAX).expect("there is room for a test");
    }
}

/// Loads these files as the agent does.
fn load_runs(folder: &UnitFolder) {
    assert!(InstalledCharmFile::read(folder).is_some(), "the declarations are read");
    let outcomes = [1, 2, 3].map(|number| read_outcome(&folder.run(number)));
    let [Some(RunExit::Code(1)), Some(RunExit::Signal(9)), Some(RunExit::Failed(_))] = outcomes else {
        panic!("{outcomes:?}")
    };
    assert!(read_run_file(&folder.run(1)).is_some(), "the file of the run is read");
    let calls = CallsFile::read(&folder.run(1)).expect("the calls are read");
    assert!(matches!(calls[..], [CallsLine::Call(_), CallsLine::Bag(_)]), "{calls:?}");
}

/// The names of all types in the samples of this form.
pub fn sampled_types() -> BTreeSet<&'static str> {
    let mut maker = Maker::default();
    made_events(&mut maker);
    made_runs(&mut maker);
    maker.values::<InstalledCharmFile>();
    maker.values::<AgentConfig>();
    maker.values::<Snapshot>();
    maker.types
}

fn folder() -> (TempDir, UnitFolder) {
    let dir = TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    let folder = UnitFolder::new(dir.path().to_owned());
    (dir, folder)
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

pub fn make() -> Samples {
    let ((dir, folder), mut maker) = (folder(), Maker::default());
    folder_operations::begin(dir.path());
    write_runs(&folder);
    let view = Maker::default().values::<Snapshot>().remove(0);
    wait(ViewCache::default().store(&folder, &view));
    let mut made = samples::read(dir.path());
    // the sample ends where the reserve of the file begins
    let journal = made.get_mut(journal::JOURNAL).expect("the journal is there");
    journal.truncate(journal.trim_end_matches('\n').len() + 1);
    let events = charms::yaml::to_string(&made_events(&mut maker)).expect("events are plain data");
    made.insert(EVENTS.to_owned(), events);
    let mut runs = made_runs(&mut maker);
    let bytes = stored_bytes().map(|bytes| serde_json::to_value(bytes).expect("plain data"));
    runs.insert("StoredBytes".to_owned(), bytes.to_vec());
    made.insert(RUNS.to_owned(), charms::yaml::to_string(&runs).expect("plain data"));
    made.insert(CONFIG.to_owned(), config::to_yaml(&maker.values::<AgentConfig>()[0]));
    made
}

pub fn load(kept: &Samples) {
    loads_events(&charms::yaml::from_str::<Named>(&kept[EVENTS]).expect("samples by name"));
    let runs = charms::yaml::from_str::<Named>(&kept[RUNS]).expect("samples by name");
    loads_runs(&runs);
    let bytes: Vec<StoredBytes> = loaded("StoredBytes", &runs["StoredBytes"]);
    assert_eq!(bytes, stored_bytes(), "each is read as what it was");
    let _: AgentConfig = charms::yaml::from_str(&kept[CONFIG]).expect("it is an agent's configuration");
    let (dir, folder) = folder();
    samples::write(dir.path(), kept);
    load_runs(&folder);
    let found = wait(journal::load(&folder)).expect("the files are read");
    let Loaded::State { local, notes, .. } = found else { panic!("{found:?}") };
    assert!(notes.is_empty() && local.installed, "{notes:?} {local:?}");
    assert!(wait(ViewCache::load(&folder)).is_some(), "the view is whole");
}
