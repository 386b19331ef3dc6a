//! The folder of a unit: its stored state as the journal writes it, each event, the cached view, and its configuration.

use crate::named::{Named, types};
use crate::samples::{self, Samples};
use crate::values::Maker;
use agent::config;
use agent::folder::UnitFolder;
use agent::journal::{self, Loaded};
use agent::view_cache::ViewCache;
use api::AgentConfig;
use state::terms::operation::Operation;
use state::unit::hook_context::ReportContent;
use state::unit::local::Event;
use state::unit::record::Outcome;
use state::unit::snapshot::Snapshot;
use tempfile::TempDir;
use tests::crash_scenarios;

const CONFIG: &str = "agent.yaml";
/// Every event that a document of `journal.yaml` may hold.
const EVENTS: &str = "events.yaml";

types! { made_events, loads_events: Operation ReportContent Outcome Event }

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
    crash_scenarios::begin(dir.path());
    let view = Maker::default().values::<Snapshot>().remove(0);
    wait(ViewCache::default().store(&folder, &view));
    let mut made = samples::read(dir.path());
    // the sample ends where the reserve of the file begins
    let journal = made.get_mut(journal::JOURNAL).expect("the journal is there");
    journal.truncate(journal.trim_end_matches('\n').len() + 1);
    let events = charms::yaml::to_string(&made_events(&mut maker)).expect("events are plain data");
    made.insert(EVENTS.to_owned(), events);
    made.insert(CONFIG.to_owned(), config::to_yaml(&maker.values::<AgentConfig>()[0]));
    made
}

pub fn load(kept: &Samples) {
    loads_events(&charms::yaml::from_str::<Named>(&kept[EVENTS]).expect("samples by name"));
    let _: AgentConfig = charms::yaml::from_str(&kept[CONFIG]).expect("it is an agent's configuration");
    let (dir, folder) = folder();
    samples::write(dir.path(), kept);
    let found = wait(journal::load(&folder)).expect("the files are read");
    let Loaded::State { local, notes, .. } = found else { panic!("{found:?}") };
    assert!(notes.is_empty() && local.installed, "{notes:?} {local:?}");
    assert!(wait(ViewCache::load(&folder)).is_some(), "the view is whole");
}
