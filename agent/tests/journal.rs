//! The unit's memory under damage: every byte of both files flipped, and both files cut at every byte.

use agent::journal::{self, Files, Found, JOURNAL, Journal, STATE};
use agent::ports::{DiskFailed, Memory};
use state::names::{UnitName, Uuid};
use state::unit::local::{Event, Local, Run};
use state::unit::operation::{CharmRef, Hook, Operation};
use state::unit::record::Outcome;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A folder in memory; never waits.
#[derive(Clone, Default)]
struct Folder(RefCell<BTreeMap<String, Vec<u8>>>);

impl Files for &Folder {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskFailed> {
        Ok(self.0.borrow().get(name).cloned())
    }
    async fn append(&self, name: &str, bytes: &[u8]) -> Result<(), DiskFailed> {
        self.0.borrow_mut().entry(name.to_owned()).or_default().extend(bytes);
        Ok(())
    }
    async fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), DiskFailed> {
        self.0.borrow_mut().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
    async fn cache(&self, name: &str, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.0.borrow_mut().insert(name.to_owned(), bytes.to_vec()),
            None => self.0.borrow_mut().remove(name),
        };
    }
    async fn set_aside(&self, name: &str) -> Result<String, DiskFailed> {
        let bytes = self.0.borrow_mut().remove(name).expect("what is set aside was there");
        let aside = format!("{name}.corrupt-1");
        self.0.borrow_mut().insert(aside.clone(), bytes);
        Ok(aside)
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a folder in memory never waits"),
    }
}

/// A small unit's files after a few appends, and its memory after each.
fn story() -> (Folder, Vec<Local>) {
    let folder = Folder::default();
    let mut local = Local::new(Uuid(7), UnitName::new("web", 0));
    let journal = now(Journal::begin(&folder, 0, &local, true)).expect("it is written");
    let mut memories = vec![local.clone()];
    let mut append = |local: &mut Local, event: Event| {
        local.apply(&event);
        now(journal.append(&[event], &local.clone().into())).expect("it is appended");
        memories.push(local.clone());
    };
    append(&mut local, Event::Attaching { nonce: Uuid(1) });
    append(
        &mut local,
        Event::Attached { history: Uuid(2), epoch: 1, sequence: 0, found: Default::default() },
    );
    let charm = CharmRef {
        sha256: "ab".repeat(32),
        url: "local:web-0".into(),
        revision: 0,
        endpoints: BTreeSet::from(["db".to_owned()]),
    };
    for operation in [Operation::Deploy(charm), Operation::Hook(Hook::Install)] {
        let run = Run {
            number: local.run + 1,
            operation: operation.clone(),
            attempt: 1,
            cause: "the charm: is new".into(),
            position: None,
            leads: None,
            episode: None,
        };
        append(&mut local, Event::Began(run));
        let record = local.record(operation, Outcome::Ok, 5);
        append(&mut local, Event::Finished(record));
    }
    drop(journal);
    (folder, memories)
}

/// What a start makes of damaged files: one of the memories there were, named if it is not the last; or lost, named and
/// kept. Never a fresh unit, never a memory that never was. True: lost.
fn judge(damaged: &Folder, memories: &[Local], silent: bool, what: &str) -> bool {
    match now(journal::load(&damaged)).unwrap_or_else(|failed| panic!("{what}: {failed}")) {
        Found::Memory { local, notes, .. } => {
            assert!(memories.contains(&local), "{what}: a memory that never was");
            let said = silent || !notes.is_empty();
            assert!(memories.last() == Some(&*local) || said, "{what}: not said");
            let again = now(journal::load(&damaged)).unwrap_or_else(|failed| panic!("{what}: {failed}"));
            let Found::Memory { local: second, notes, .. } = again else { panic!("{what}: {again:?}") };
            assert!(*second == *local && notes.is_empty(), "{what}: a second start finds it in order");
            false
        }
        Found::Lost { notes } => {
            assert!(!notes.is_empty(), "{what}: not said");
            assert!(damaged.0.borrow().keys().any(|name| name.contains("corrupt")), "{what}: not kept");
            true
        }
        found @ (Found::Nothing | Found::Newer { .. }) => panic!("{what}: {found:?}"),
    }
}

#[test]
fn undamaged_files_are_read_back_whole() {
    let (folder, memories) = story();
    let found = now(journal::load(&&folder)).expect("they are read");
    let Found::Memory { local, notes, .. } = found else { panic!("{found:?}") };
    assert_eq!(Some(&*local), memories.last());
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn every_flipped_byte_is_noticed() {
    let (folder, memories) = story();
    let text = String::from_utf8(folder.0.borrow()[JOURNAL].clone()).expect("YAML is text");
    let last = text.rfind("--- # ").expect("there are documents");
    for file in [STATE, JOURNAL] {
        for at in 0..folder.0.borrow()[file].len() {
            for bit in [0x01, 0x80] {
                let damaged = folder.clone();
                damaged.0.borrow_mut().get_mut(file).expect("it is there")[at] ^= bit;
                let what = format!("{file}, byte {at} ^ {bit:#x}");
                let lost = judge(&damaged, &memories, false, &what);
                // only the end can be torn; before it, what follows tells that it was whole once
                let end = file == JOURNAL && at >= last;
                assert!(lost || end, "{what}: corruption taken for a torn end");
            }
        }
    }
}

#[test]
fn every_cut_is_survived() {
    let (folder, memories) = story();
    for file in [STATE, JOURNAL] {
        for at in 0..folder.0.borrow()[file].len() {
            let damaged = folder.clone();
            damaged.0.borrow_mut().get_mut(file).expect("it is there").truncate(at);
            // a journal that ends between two documents is one that was never longer
            let silent = file == JOURNAL && (at == 0 || damaged.0.borrow()[file].ends_with(b"\n"));
            judge(&damaged, &memories, silent, &format!("{file} cut at {at}"));
        }
    }
}

/// 1. An agent of format 2 ends: the last that it wrote is that install has succeeded. 2. Today's takes its folder up,
///    and dies at once. 3. An older one, started then, looks at the first lines of the state alone (I49).
#[test]
fn a_memory_of_format_2_is_taken_up_whole_and_is_none_for_an_older_agent_from_then_on() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/earlier/2/unit-web-0");
    let folder = Folder::default();
    for name in [STATE, JOURNAL] {
        let bytes = std::fs::read(sample.join(name)).expect("the sample is in the repository");
        folder.0.borrow_mut().insert(name.to_owned(), bytes);
    }
    let found = now(journal::load(&&folder)).expect("they are read");
    let Found::Memory { local, index, notes } = found else { panic!("{found:?}") };
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!((index, local.run, local.sequence, local.epoch), (11, 3, 2, 2));
    assert!(local.installed, "{local:?}");
    assert_eq!(local.status, Some(("blocked".to_owned(), "needs db".to_owned())));
    assert_eq!(local.outbox.iter().map(|record| record.sequence).collect::<Vec<_>>(), [2]);

    let format_of = |state: &[u8]| -> u32 {
        let state = String::from_utf8(state.to_vec()).expect("YAML is text");
        let line = state.lines().nth(1).expect("below the checksum");
        line.strip_prefix("format: ").and_then(|number| number.parse().ok()).expect("the format comes first")
    };
    assert!(format_of(&folder.0.borrow()[STATE]) > 2, "before the first event that format 2 does not know");
    assert!(folder.0.borrow()[JOURNAL].is_empty());

    let mut newer = folder.0.borrow()[STATE].clone();
    let body =
        String::from_utf8(newer.split_off(newer.iter().position(|b| *b == b'\n').expect("a line") + 1));
    let body = body
        .expect("YAML is text")
        .replace(&format!("format: {}", journal::FORMAT), &format!("format: {}", journal::FORMAT + 1));
    let sum = &host::digest::sha256(body.as_bytes())[..16];
    folder.0.borrow_mut().insert(STATE.to_owned(), format!("# checksum {sum}\n{body}").into_bytes());
    let before = folder.0.borrow().clone();
    let found = now(journal::load(&&folder)).expect("they are read");
    assert!(matches!(found, Found::Newer { format } if format == journal::FORMAT + 1), "{found:?}");
    assert_eq!(*folder.0.borrow(), before, "nothing was touched");
}
