//! The journal detects damage: every byte of both files is flipped, and both files are cut at every byte.
//!
//! A damaged file leads to a state that existed before, with a message, or to a file that is set aside. It never
//! leads to a fresh unit or to a state that never existed.

use agent::folder_port::FolderFiles;
use agent::journal::{self, JOURNAL, Journal, Loaded, STATE, STATE_HEAD};
use agent::ports::{DiskError, UnitStorage};
use agent::view_cache::ViewCache;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::operation::{CharmRef, Hook, Operation};
use state::terms::start_reason::StartReason;
use state::unit::local::{Event, Local, Run};
use state::unit::record::Outcome;
use state::unit::snapshot::Snapshot;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// While a folder has a file of this name, no file can be cached in it.
const FULL: &str = "full";

/// A folder in memory, whose operations never wait.
#[derive(Clone, Debug, Default)]
struct MemoryFolder(RefCell<BTreeMap<String, Vec<u8>>>);

impl FolderFiles for &MemoryFolder {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(self.0.borrow().get(name).cloned())
    }
    async fn append(&self, name: &str, length: usize, bytes: &[u8]) -> Result<(), DiskError> {
        let mut files = self.0.borrow_mut();
        let file = files.get_mut(name).ok_or_else(|| DiskError::new("the file does not exist"))?;
        file.truncate(length);
        file.extend(bytes);
        Ok(())
    }
    async fn write_atomic(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.borrow_mut().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
    async fn cache(&self, name: &str, bytes: Option<&[u8]>) -> bool {
        if self.0.borrow().contains_key(FULL) {
            return false;
        }
        match bytes {
            Some(bytes) => self.0.borrow_mut().insert(name.to_owned(), bytes.to_vec()),
            None => self.0.borrow_mut().remove(name),
        };
        true
    }
    async fn set_aside(&self, name: &str) -> Result<String, DiskError> {
        let bytes = self.0.borrow_mut().remove(name).expect("the file exists");
        let new_name = format!("{name}.corrupt-1");
        self.0.borrow_mut().insert(new_name.clone(), bytes);
        Ok(new_name)
    }
}

/// A folder whose stored state is deleted as soon as both files were read.
struct DeletedAfterRead<'a>(&'a MemoryFolder);

impl FolderFiles for DeletedAfterRead<'_> {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskError> {
        let content = self.0.read(name).await;
        if name == JOURNAL {
            self.0.0.borrow_mut().clear();
        }
        content
    }
    async fn append(&self, name: &str, length: usize, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.append(name, length, bytes).await
    }
    async fn write_atomic(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.write_atomic(name, bytes).await
    }
    async fn cache(&self, name: &str, bytes: Option<&[u8]>) -> bool {
        self.0.cache(name, bytes).await
    }
    async fn set_aside(&self, name: &str) -> Result<String, DiskError> {
        self.0.set_aside(name).await
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a folder in memory never waits"),
    }
}

/// An older state was put back into the folder. A person deletes it, just while the agent starts once more.
#[test]
fn a_stored_state_that_is_deleted_while_an_agent_starts_does_not_come_back() {
    let (with_documents, states) = unit_files();
    let without = MemoryFolder::default();
    block_on(Journal::create(&without, &states[0])).expect("it is written");
    for folder in [with_documents, without] {
        // the start ends here, or when it reads the state again
        let _ = block_on(journal::load(&DeletedAfterRead(&folder)));
        assert!(matches!(block_on(journal::load(&&folder)), Ok(Loaded::Nothing)), "{folder:?}");
    }
}

/// The journal goes on where the agent before has ended it.
#[test]
fn the_documents_of_several_agents_are_one_journal() {
    let (folder, states) = unit_files();
    let written = folder.0.borrow().clone();
    let found = block_on(journal::load(&&folder)).expect("they are read");
    assert_eq!(*folder.0.borrow(), written, "nothing is written again");
    let Loaded::State { mut local, end, .. } = found else { panic!("{found:?}") };
    let event = Event::Attaching { nonce: Uuid(3) };
    local.apply(&event);
    assert!(!states.contains(&local));
    block_on(Journal::after(&folder, end).append(&[event], &(*local).clone().into()))
        .expect("it is appended");
    let found = block_on(journal::load(&&folder)).expect("they are read");
    assert!(matches!(&found, Loaded::State { local: last, .. } if *last == local), "{found:?}");
}

/// 1. The disk is full while the file of a relation is written, and while that of another is deleted.
/// 2. There is room again, and the same view is cached once more.
#[test]
fn a_file_of_the_view_that_could_not_be_cached_or_deleted_is_tried_again() {
    let (folder, cache) = (MemoryFolder::default(), ViewCache::default());
    for name in ["view/unit.yaml", "view/relation-1.yaml"] {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/compat/unit-folder/1").join(name);
        folder.0.borrow_mut().insert(name.to_owned(), std::fs::read(sample).expect("a sample"));
    }
    let sample = block_on(ViewCache::load(&&folder)).expect("it is complete");
    let view = |number: RelationNumber| {
        let relations = BTreeMap::from([(number, sample.relations[&1].clone())]);
        Snapshot { relations, ..sample.clone() }
    };
    block_on(cache.store(&&folder, &view(1)));
    folder.0.borrow_mut().insert(FULL.to_owned(), Vec::new());
    block_on(cache.store(&&folder, &view(2)));
    folder.0.borrow_mut().remove(FULL);
    block_on(cache.store(&&folder, &view(2)));
    assert_eq!(block_on(ViewCache::load(&&folder)), Some(view(2)));
    assert!(!folder.0.borrow().contains_key("view/relation-1.yaml"));
}

/// The files of a small unit after a few appends, and its state after each append.
fn unit_files() -> (MemoryFolder, Vec<Local>) {
    let folder = MemoryFolder::default();
    let mut local = Local::new(Uuid(7), UnitName::new("web", 0));
    let journal = block_on(Journal::create(&folder, &local)).expect("it is written");
    let mut states = vec![local.clone()];
    let mut append = |local: &mut Local, event: Event| {
        local.apply(&event);
        block_on(journal.append(&[event], &local.clone().into())).expect("it is appended");
        states.push(local.clone());
    };
    append(&mut local, Event::Attaching { nonce: Uuid(1) });
    append(
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
        endpoints: BTreeSet::from(["db".to_owned()]),
        resources: String::new(),
    };
    for operation in [Operation::InstallCharm(charm), Operation::Hook(Hook::Install)] {
        let run = Run::new(
            local.run + 1,
            operation.clone(),
            StartReason::Refreshed { charm_url: "local:web-0".into() },
        );
        append(&mut local, Event::Started(run));
        let record = local.record(operation, Outcome::Ok, 5);
        append(&mut local, Event::Finished(record));
    }
    drop(journal);
    (folder, states)
}

/// Loads damaged files and checks the result: a state that existed, reported if it is not the last one unless
/// `silent`; or files that were set aside, reported. Returns whether there were any.
fn is_corrupt(damaged: &MemoryFolder, states: &[Local], silent: bool, what: &str) -> bool {
    match block_on(journal::load(&damaged)).unwrap_or_else(|failed| panic!("{what}: {failed}")) {
        Loaded::State { local, notes, .. } => {
            assert!(states.contains(&local), "{what}: a state that never existed");
            let is_reported = silent || !notes.is_empty();
            assert!(states.last() == Some(&*local) || is_reported, "{what}: not reported");
            let again = block_on(journal::load(&damaged)).unwrap_or_else(|failed| panic!("{what}: {failed}"));
            let Loaded::State { local: second, notes, .. } = again else { panic!("{what}: {again:?}") };
            assert!(*second == *local && notes.is_empty(), "{what}: a second start finds no damage");
            false
        }
        Loaded::Corrupt { notes } => {
            assert!(!notes.is_empty(), "{what}: not reported");
            assert!(damaged.0.borrow().keys().any(|name| name.contains("corrupt")), "{what}: not set aside");
            true
        }
        found @ (Loaded::Nothing | Loaded::OtherFormat { .. }) => panic!("{what}: {found:?}"),
    }
}

#[test]
fn undamaged_files_are_read_back_completely() {
    let (folder, states) = unit_files();
    let found = block_on(journal::load(&&folder)).expect("they are read");
    let Loaded::State { local, notes, .. } = found else { panic!("{found:?}") };
    assert_eq!(Some(&*local), states.last());
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn every_flipped_byte_is_detected() {
    let (folder, states) = unit_files();
    let text = String::from_utf8(folder.0.borrow()[JOURNAL].clone()).expect("YAML is text");
    let last = text.rfind("--- # ").expect("there are documents");
    for file in [STATE, JOURNAL] {
        for at in 0..folder.0.borrow()[file].len() {
            for bit in [0x01, 0x80] {
                let damaged = folder.clone();
                damaged.0.borrow_mut().get_mut(file).expect("the file exists")[at] ^= bit;
                let what = format!("{file}, byte {at} ^ {bit:#x}");
                let lost = is_corrupt(&damaged, &states, false, &what);
                // only the last document can be a torn tail; damage before it is corruption
                let end = file == JOURNAL && at >= last;
                assert!(lost || end, "{what}: corruption was treated as a torn tail");
            }
        }
    }
}

#[test]
fn every_cut_is_survived() {
    let (folder, states) = unit_files();
    for file in [STATE, JOURNAL] {
        for at in 0..folder.0.borrow()[file].len() {
            let damaged = folder.clone();
            damaged.0.borrow_mut().get_mut(file).expect("the file exists").truncate(at);
            // a journal that is cut between two documents looks complete
            let silent = file == JOURNAL && (at == 0 || damaged.0.borrow()[file].ends_with(b"\n"));
            is_corrupt(&damaged, &states, silent, &format!("{file} cut at {at}"));
        }
    }
}

#[test]
fn a_folder_of_another_format_is_refused_and_not_changed() {
    let (folder, _) = unit_files();
    let state = String::from_utf8(folder.0.borrow()[STATE].clone()).expect("YAML is text");
    let document = state.strip_prefix(STATE_HEAD).expect("the file says first what it is");
    let (_, body) = document.split_once('\n').expect("a checksum comes next");
    let (current, rest) = body.split_once('\n').expect("the format comes next");
    assert_eq!(current, format!("format: {}", journal::FORMAT));
    let formats = [0, journal::FORMAT + 1];
    let rests = [&format!("unknown: yes\n{rest}"), "a form that is not YAML: [\n", ""];
    for (format, rest) in formats.into_iter().flat_map(|format| rests.map(|rest| (format, rest))) {
        let body = format!("format: {format}\n{rest}");
        let sum = &host::digest::sha256(body.as_bytes())[..16];
        folder
            .0
            .borrow_mut()
            .insert(STATE.to_owned(), format!("{STATE_HEAD}# checksum {sum}\n{body}").into_bytes());
        let before = folder.0.borrow().clone();
        let found = block_on(journal::load(&&folder)).expect("they are read");
        assert!(matches!(found, Loaded::OtherFormat { format: found } if found == format), "{found:?}");
        assert_eq!(*folder.0.borrow(), before, "nothing was changed");
    }
}
