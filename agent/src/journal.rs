//! The stored state of a unit agent: `state.yaml` holds `Local` as of one index, and `journal.yaml` holds the
//! events since then.
//!
//! Each append writes one YAML document and syncs it once. Both files are plain YAML (design 11). A document is
//! the line `--- # <index> <bytes> <checksum>` followed by its body; the body contains the checksum of the
//! previous document.
//!
//! A bad document that is followed by a good one is corruption, which is set aside. A
//! bad document at the end is a torn tail, the write that a crash interrupted, and is dropped. Newlines at the end are
//! preallocated space, which later appends overwrite.

use crate::folder_port::FolderFiles;
pub use crate::folder_port::{JOURNAL, STATE};
use crate::ports::{DiskError, UnitStorage};
use crate::view_cache::ViewCache;
use charms::yaml;
use host::digest::{checksum, verified, with_checksum};
use serde::{Deserialize, Serialize};
use state::unit::local::{Event, Local};
use state::unit::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The format of a unit's folder. A program refuses a folder of another format without changing it. From the
/// first release on, the number must be raised when an [`Event`] or anything in it changes, because a program that cannot parse a journal
/// document would treat it as a torn tail (ARCHITECTURE.md, Compatibility).
pub const FORMAT: u32 = 1;

/// The beginning of `state.yaml` in every format, for a person who opens it. The checksum follows.
pub const STATE_HEAD: &str = "\
# The state of one unit of Pintle as of the start of its journal; journal.yaml has what has changed since.
# The complete state is printed by: pintle-agent show FOLDER
# The unit agent writes this file. One that is changed by hand is set aside as damaged.
";

#[derive(Serialize, Deserialize)]
struct StateFile {
    /// The first line of the document in every format, so that it can be read without the rest ([`format_of`]).
    format: u32,
    /// The index of the last journal document that is included.
    index: u64,
    local: Local,
}

#[derive(Serialize, Deserialize)]
struct JournalEntry {
    index: u64,
    /// The checksum of the previous document.
    previous: String,
    events: Vec<Event>,
}

/// The result of [`load`].
#[derive(Debug)]
pub enum Loaded {
    /// No files: a new unit, or one whose files were set aside or deleted. The caller must distinguish them.
    Nothing,
    /// The stored state, where the next append continues, and messages for the log.
    State { local: Box<Local>, end: JournalEnd, notes: Vec<String> },
    /// Corrupt files, which were set aside. A unit that has run folders must not be treated as a fresh one (design 11). The
    /// notes are for the log.
    Corrupt { notes: Vec<String> },
    /// The folder has another format than [`FORMAT`]; nothing was changed.
    OtherFormat { format: u32 },
}

/// The end of the documents in `journal.yaml`. The default is that of a new and empty journal of a new unit.
#[derive(Clone, Debug, Default)]
pub struct JournalEnd {
    /// The index of the last document, or of the state if the journal is empty.
    index: u64,
    /// The size of the documents.
    bytes: usize,
    /// The checksum of the last document; empty if there is none.
    previous: String,
}

fn encode(index: u64, previous: &str, events: &[Event]) -> (Vec<u8>, String) {
    let entry = JournalEntry { index, previous: previous.to_owned(), events: events.to_vec() };
    let body = yaml::to_string(&entry).expect("events are plain data");
    let sum = checksum(body.as_bytes());
    (format!("--- # {index} {} {sum}\n{body}", body.len()).into_bytes(), sum)
}

/// Decodes the document at the start of `bytes`: its entry, its checksum and its length.
fn decode(bytes: &[u8]) -> Option<(JournalEntry, String, usize)> {
    let line_end = bytes.iter().take(80).position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&bytes[..line_end]).ok()?.strip_prefix("--- # ")?;
    let mut parts = header.split(' ');
    let (index, length, sum) = (parts.next()?, parts.next()?, parts.next()?);
    let length: usize = length.parse().ok()?;
    let rest = &bytes[line_end + 1..];
    let body = rest.get(..length)?;
    if parts.next().is_some() || checksum(body) != sum {
        return None;
    }
    let entry: JournalEntry = yaml::from_str(std::str::from_utf8(body).ok()?).ok()?;
    (entry.index.to_string() == index).then(|| (entry, sum.to_owned(), line_end + 1 + body.len()))
}

/// The valid documents from the start of the file, and what follows them.
struct ReadJournal {
    entries: Vec<JournalEntry>,
    good_bytes: usize,
    /// The checksum of the last of them.
    last: String,
    /// Whether a valid document follows an invalid one, or does not continue the sequence.
    corrupt: bool,
}

fn read_journal(bytes: &[u8]) -> ReadJournal {
    let (mut entries, mut at, mut last) = (Vec::<JournalEntry>::new(), 0, String::new());
    while let Some((entry, sum, length)) = decode(&bytes[at..]) {
        let follows = entries.last().is_none_or(|before| before.index + 1 == entry.index)
            && (entries.is_empty() || last == entry.previous);
        if !follows {
            break;
        }
        entries.push(entry);
        last = sum;
        at += length;
    }
    let rest = &bytes[at..];
    let starts = (1..rest.len()).filter(|i| rest[*i..].starts_with(b"--- # "));
    let corrupt = starts.into_iter().any(|i| decode(&rest[i..]).is_some());
    // a valid document that does not continue the sequence is not a torn tail either
    ReadJournal { corrupt: corrupt || decode(rest).is_some(), entries, good_bytes: at, last }
}

/// Why `state.yaml` was not read.
enum Unreadable {
    Corrupt,
    OtherFormat { format: u32 },
}

/// The undamaged document of `state.yaml`, which has the format [`FORMAT`].
fn state_document(bytes: &[u8]) -> Result<&str, Unreadable> {
    let document = bytes.strip_prefix(STATE_HEAD.as_bytes()).and_then(verified).ok_or(Unreadable::Corrupt)?;
    match format_of(document) {
        Some(FORMAT) => Ok(document),
        Some(format) => Err(Unreadable::OtherFormat { format }),
        None => Err(Unreadable::Corrupt),
    }
}

/// The format in the first line. The rest of another format need not even be YAML.
fn format_of(document: &str) -> Option<u32> {
    document.lines().next()?.strip_prefix("format: ")?.parse().ok()
}

/// Decodes `state.yaml`. The bytes are freed on the way, because the state may be large.
fn decode_state(bytes: Vec<u8>) -> Result<StateFile, Unreadable> {
    let value = yaml::value(state_document(&bytes)?).map_err(|_| Unreadable::Corrupt)?;
    drop(bytes);
    yaml::from_value(value).map_err(|_| Unreadable::Corrupt)
}

/// The content of both files together.
enum Recovered {
    Nothing,
    State {
        local: Box<Local>,
        end: JournalEnd,
        torn_bytes: usize,
        /// Whether the documents are older than the state: a crash came between the replacement of the two files.
        superseded: bool,
    },
    /// Which of the two files is corrupt.
    Corrupt {
        state: bool,
        journal: bool,
    },
    OtherFormat {
        format: u32,
    },
}

fn recover(state: Option<Vec<u8>>, journal: &[u8]) -> Recovered {
    let Some(state) = state else {
        return match journal.is_empty() {
            true => Recovered::Nothing,
            false => Recovered::Corrupt { state: false, journal: true },
        };
    };
    let StateFile { mut index, mut local, .. } = match decode_state(state) {
        Ok(state) => state,
        Err(Unreadable::Corrupt) => return Recovered::Corrupt { state: true, journal: false },
        Err(Unreadable::OtherFormat { format }) => return Recovered::OtherFormat { format },
    };
    let read = read_journal(journal);
    let newer: Vec<JournalEntry> = read.entries.into_iter().filter(|entry| entry.index > index).collect();
    let has_gap = newer.first().is_some_and(|entry| entry.index != index + 1);
    if read.corrupt || has_gap {
        return Recovered::Corrupt { state: false, journal: true };
    }
    let superseded = newer.is_empty() && read.good_bytes > 0;
    for entry in newer {
        entry.events.iter().for_each(|event| local.apply(event));
        index = entry.index;
    }
    let written = journal.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let torn_bytes = written.saturating_sub(read.good_bytes);
    let end = JournalEnd { index, bytes: read.good_bytes, previous: read.last };
    Recovered::State { local: Box::new(local), end, torn_bytes, superseded }
}

/// Reads the stored state without changing the files, so that it can be used beside a running agent. None if there is
/// none, or it cannot be read.
///
/// # Errors
/// If a file cannot be read.
pub async fn read_only_load<F: FolderFiles>(files: &F) -> Result<Option<Local>, DiskError> {
    let (state, journal) = (files.read(STATE).await?, files.read(JOURNAL).await?.unwrap_or_default());
    Ok(match recover(state, &journal) {
        Recovered::State { local, .. } => Some(*local),
        Recovered::Nothing | Recovered::Corrupt { .. } | Recovered::OtherFormat { .. } => None,
    })
}

/// The format of the folder's stored state, if it is not [`FORMAT`].
pub async fn other_format<F: FolderFiles>(files: &F) -> Option<u32> {
    let state = files.read(STATE).await.ok().flatten()?;
    match state_document(&state) {
        Err(Unreadable::OtherFormat { format }) => Some(format),
        Ok(_) | Err(Unreadable::Corrupt) => None,
    }
}

/// Reads the stored state, of which everything is synced afterwards. Corrupt files are set aside.
///
/// A state that is whole is not written again. A person may delete it just now, because the controller has recorded a
/// newer one: it must not come back.
///
/// # Errors
/// If the disk fails.
pub async fn load<F: FolderFiles>(files: &F) -> Result<Loaded, DiskError> {
    let (state, journal) = (files.read(STATE).await?, files.read(JOURNAL).await?.unwrap_or_default());
    let (mut notes, has_state) = (Vec::new(), state.is_some());
    match recover(state, &journal) {
        Recovered::Nothing => Ok(Loaded::Nothing),
        Recovered::OtherFormat { format } => Ok(Loaded::OtherFormat { format }),
        Recovered::State { local, mut end, torn_bytes, superseded } => {
            if torn_bytes > 0 {
                notes
                    .push(format!("{JOURNAL}: dropped {torn_bytes} bytes of an incomplete write at the end"));
            }
            if torn_bytes > 0 || superseded {
                end = compact(files, end.index, &local).await?;
            } else if end.bytes == 0 {
                // its name may not be synced yet, or it is missing
                files.write_atomic(JOURNAL, b"").await?;
            } else {
                files.append(JOURNAL, end.bytes, b"").await?;
            }
            Ok(Loaded::State { local, end, notes })
        }
        Recovered::Corrupt { state: state_corrupt, journal: journal_corrupt } => {
            for (name, corrupt, exists) in
                [(STATE, state_corrupt, has_state), (JOURNAL, journal_corrupt, !journal.is_empty())]
            {
                if exists {
                    let what = if corrupt { "is corrupt" } else { "cannot be used without the other file" };
                    notes.push(format!("{name} {what}: moved to {}", files.set_aside(name).await?));
                }
            }
            Ok(Loaded::Corrupt { notes })
        }
    }
}

/// Writes a new state file, then an empty journal, whose end is returned. The journal is emptied only after the rename of
/// the state is synced.
async fn compact<F: FolderFiles>(files: &F, index: u64, local: &Local) -> Result<JournalEnd, DiskError> {
    let state = StateFile { format: FORMAT, index, local: local.clone() };
    let body = yaml::to_string(&state).expect("the stored state is plain data");
    files.write_atomic(STATE, format!("{STATE_HEAD}{}", with_checksum(&body)).as_bytes()).await?;
    files.write_atomic(JOURNAL, b"").await?;
    Ok(JournalEnd { index, ..JournalEnd::default() })
}

/// The unit's stored state, in the two files.
pub struct Journal<F> {
    files: F,
    end: RefCell<JournalEnd>,
    view: ViewCache,
    /// Whether a write or sync has failed. The content of the disk is then unknown, so nothing more may be written.
    is_poisoned: Cell<bool>,
}

impl<F: FolderFiles> Journal<F> {
    /// Writes the first state of a unit that has no files yet.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn create(files: F, local: &Local) -> Result<Journal<F>, DiskError> {
        let end = compact(&files, 0, local).await?;
        Ok(Journal::after(files, end))
    }

    /// Continues the files that were loaded ([`Loaded::State`]).
    pub fn after(files: F, end: JournalEnd) -> Journal<F> {
        let (view, is_poisoned) = (ViewCache::default(), Cell::new(false));
        Journal { files, end: RefCell::new(end), view, is_poisoned }
    }

    /// The folder of the files.
    pub fn files(&self) -> &F {
        &self.files
    }

    async fn write(&self, events: &[Event], after: &Local) -> Result<(), DiskError> {
        let JournalEnd { index, bytes, previous } = self.end.borrow().clone();
        let index = index + 1;
        let (document, sum) = encode(index, &previous, events);
        // a replica that replaces the state is large, so it is written as the new state file and not as an event
        let whole = events.iter().any(|event| matches!(event, Event::ReplicaTaken { .. }));
        let over = bytes + document.len() > self.files.journal_bytes_max();
        let end = if whole || over {
            compact(&self.files, index, after).await?
        } else {
            self.files.append(JOURNAL, bytes, &document).await?;
            JournalEnd { index, bytes: bytes + document.len(), previous: sum }
        };
        self.end.replace(end);
        Ok(())
    }
}

impl<F: FolderFiles> UnitStorage for Journal<F> {
    async fn append(&self, events: &[Event], after: &Arc<Local>) -> Result<(), DiskError> {
        if self.is_poisoned.get() {
            return Err(DiskError::new("cannot write after an earlier write failed"));
        }
        // if this future is dropped during the write (a crash), the journal stays poisoned
        self.is_poisoned.set(true);
        self.write(events, after).await?;
        self.is_poisoned.set(false);
        Ok(())
    }

    async fn cache_view(&self, view: &Arc<Snapshot>) {
        self.view.store(&self.files, view).await;
    }

    fn store_controller_error(&self, error: Option<&str>) {
        self.files.store_controller_error(error);
    }
}
