//! Operations on a unit's folder for the tests of the crash disk, and the state that each crash must leave.
//!
//! `tests/src/bin/folder-operations.rs` runs them under strace, and `tests/tests/crash_disk.rs` checks every folder that a
//! crash could leave.

use agent::folder::UnitFolder;
use agent::journal::{self, Journal, Loaded};
use agent::ports::UnitStorage;
use charms::folder::FileEntry;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{CharmRef, Hook, Operation};
use state::terms::start_reason::StartReason;
use state::unit::local::{Event, Local, Run};
use state::unit::record::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The result of a future that never waits, as those of files.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("files never wait"),
    }
}

fn new() -> Local {
    Local::new(Uuid(7), UnitName::new("web", 0))
}

/// Returns the events of a small unit, each with the local state after it. The fifth event replaces the local state, so
/// that a new state file and journal start.
pub fn local_states() -> Vec<(Option<Event>, Local)> {
    let mut local = new();
    let mut all = vec![(None, local.clone())];
    let mut happens = |local: &mut Local, event: Event| {
        local.apply(&event);
        all.push((Some(event), local.clone()));
    };
    happens(&mut local, Event::Attaching { nonce: Uuid(1) });
    happens(
        &mut local,
        Event::Attached {
            store_generation: Uuid(2),
            epoch: 1,
            sequence: 0,
            recovered_bags: Default::default(),
        },
    );
    let charm = CharmRef {
        sha256: "ab".repeat(32),
        url: "local:web-0".into(),
        revision: 0,
        endpoints: Default::default(),
        resources: String::new(),
    };
    for operation in [Operation::InstallCharm(charm), Operation::Hook(Hook::Install)] {
        let reason = StartReason::Refreshed { charm_url: "local:web-0".into() };
        let number = local.run + 1;
        let run = Run::new(number, operation.clone(), reason);
        happens(&mut local, Event::Started(run));
        let record = local.record(operation, Outcome::Ok, 5);
        happens(&mut local, Event::Finished(record));
        if local.sequence == 1 {
            let replica = Local { workload_version: "of the replica".into(), ..local.clone() };
            happens(&mut local, Event::ReplicaTaken { replica: Box::new(replica) });
        }
    }
    all
}

/// Writes all events to an empty folder, and prints the number of each event that is durable.
pub fn begin(folder: &Path) {
    let folder = UnitFolder::new(folder.to_path_buf());
    let all = local_states();
    let journal = ready(Journal::create(folder, &all[0].1)).expect("it is written");
    println!("0");
    for (n, (event, local)) in all.iter().enumerate().skip(1) {
        let event = event.clone().expect("all but the first");
        ready(journal.append(&[event], &local.clone().into())).expect("it is appended");
        println!("{n}");
    }
}

/// Loads the journal as a starting agent does, which repairs the folder.
pub fn recover(folder: &Path) {
    ready(journal::load(&UnitFolder::new(folder.to_path_buf()))).expect("it is read");
}

/// Returns the number of the local state that a starting agent finds. `None`: no state was durable yet.
pub fn found(folder: &Path) -> Option<usize> {
    match ready(journal::load(&UnitFolder::new(folder.to_path_buf()))).expect("it is read") {
        Loaded::Nothing => None,
        Loaded::State { local, .. } => {
            let at = local_states().iter().position(|(_, memory)| *memory == *local);
            Some(at.expect("one of the states"))
        }
        found @ (Loaded::Corrupt { .. } | Loaded::OtherFormat { .. }) => {
            panic!("a crash must not look like corruption: {found:?}")
        }
    }
}

/// A file that the charm itself wrote, which must survive every upgrade.
const OWN: (&str, &str) = ("own/data", "precious");

fn revision(number: u32) -> BTreeMap<&'static str, String> {
    let mut files = BTreeMap::from([
        ("metadata.yaml", "name: web\n".to_owned()),
        ("hooks/install", format!("#!/bin/sh\necho {number}\n")),
        ("large", format!("{number}").repeat(1500)),
    ]);
    if number > 0 {
        files.insert("new/only", "x".to_owned());
    }
    files
}

/// Installs revision `number` into the charm folder, and prints it.
pub fn charm(folder: &Path, number: u32) {
    let files = revision(number);
    let entry =
        |(path, text): (&&str, &String)| ((*path).to_owned(), FileEntry::from_bytes(text.clone(), false));
    let archive = charms::archive::pack(&files.iter().map(entry).collect()).expect("it packs");
    let sha256 = host::digest::sha256(&archive);
    charms::install(&archive, &sha256, &folder.join("charm"), number).expect("it installs");
    println!("charm {number}");
}

/// Writes the charm's own file, which is synced between two revisions.
pub fn write_own(folder: &Path) {
    let path = folder.join("charm").join(OWN.0);
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("it is made");
    fs::write(path, OWN.1).expect("it is written");
}

/// Returns the revision in the folder, which must be complete and contain the charm's own file. `None`: there is no
/// charm.
pub fn charm_found(folder: &Path) -> Option<u32> {
    let charm = folder.join("charm");
    if !charm.exists() {
        return None;
    }
    assert_eq!(charms::verify(&charm), Some(Vec::new()), "the charm is whole");
    let text = fs::read_to_string(charm.join("revision")).expect("it has a number");
    let number = text.trim().parse().expect("a number");
    for (path, text) in revision(number) {
        assert_eq!(fs::read_to_string(charm.join(path)).ok(), Some(text), "{path} of revision {number}");
    }
    assert_eq!(fs::read_to_string(charm.join(OWN.0)).ok().as_deref(), Some(OWN.1), "the charm's own file");
    Some(number)
}
