//! The unit's memory on disk: `state.yaml` (`Local` as of one index) and `journal.yaml` (what changed since, one YAML
//! document and one sync each). Both are plain YAML that `less` shows (design 11).
//!
//! A document is `--- # <index> <bytes> <checksum>` and its body; the body names the checksum of the document before.
//! A bad document with a good one behind it is corruption; a bad end is a torn tail: the write that a crash cut.

use crate::ports::{DiskError, Memory};
use crate::view_cache::ViewCache;
use charms::yaml;
use serde::{Deserialize, Serialize};
use state::unit::local::{Event, Local};
use state::unit::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::Arc;

pub const STATE: &str = "state.yaml";
pub const JOURNAL: &str = "journal.yaml";

/// A journal is no longer than this: replay of it costs tens of milliseconds (invariant I42).
pub const JOURNAL_BYTES_MAX: usize = 1 << 20;
/// The format of a unit's folder. A program refuses a folder of another format without changing it. The number is
/// raised when an [`Event`] or anything in it changes: a program that cannot read a journal document would take it for a
/// torn tail (ARCHITECTURE.md, Compatibility).
pub const FORMAT: u32 = 1;

/// The few operations on the unit's own folder that the memory needs. The simulator's crash disk implements them
/// too, byte for byte.
pub trait Files {
    /// None: there is no such file.
    fn read(&self, name: &str) -> impl Future<Output = Result<Option<Vec<u8>>, DiskError>>;
    /// Writes at the end and syncs the file.
    fn append(&self, name: &str, bytes: &[u8]) -> impl Future<Output = Result<(), DiskError>>;
    /// Writes beside, syncs, renames over, syncs the folder. All or nothing.
    fn replace(&self, name: &str, bytes: &[u8]) -> impl Future<Output = Result<(), DiskError>>;
    /// Writes beside and renames, unsynced: a cache. None: the file goes.
    fn cache(&self, name: &str, bytes: Option<&[u8]>) -> impl Future<Output = ()>;
    /// Renames out of the way, to a name that is free; answers that name.
    fn set_aside(&self, name: &str) -> impl Future<Output = Result<String, DiskError>>;
    /// The journal is folded into the state beyond this.
    fn journal_bytes_max(&self) -> usize {
        JOURNAL_BYTES_MAX
    }
}

#[derive(Serialize, Deserialize)]
struct StateFile {
    format: u32,
    /// Of the last journal document this includes.
    index: u64,
    local: Local,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    index: u64,
    /// Checksum of the document before.
    previous: String,
    events: Vec<Event>,
}

/// What a start found.
#[derive(Debug)]
pub enum Found {
    /// No files: a unit that has done nothing yet.
    Nothing,
    /// The memory, with what is to be told about it.
    Memory { local: Box<Local>, index: u64, notes: Vec<String> },
    /// Files that cannot be trusted, set aside: never read as fresh (design 11).
    Lost { notes: Vec<String> },
    /// The folder has another format than [`FORMAT`]; nothing was changed.
    OtherFormat { format: u32 },
}

/// 64 bits of SHA-256 in hex: against torn and flipped bytes, not against forgers.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    host::digest::sha256(bytes)[..16].to_owned()
}

fn encode(index: u64, previous: &str, events: &[Event]) -> (Vec<u8>, String) {
    let entry = Entry { index, previous: previous.to_owned(), events: events.to_vec() };
    let body = yaml::to_string(&entry).expect("events are plain data");
    let sum = checksum(body.as_bytes());
    (format!("--- # {index} {} {sum}\n{body}", body.len()).into_bytes(), sum)
}

/// One document at the start of `bytes`: its entry, checksum and length.
fn decode(bytes: &[u8]) -> Option<(Entry, String, usize)> {
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
    let entry: Entry = yaml::from_str(std::str::from_utf8(body).ok()?).ok()?;
    (entry.index.to_string() == index).then(|| (entry, sum.to_owned(), line_end + 1 + body.len()))
}

/// The good documents from the start, and what follows them.
struct Read {
    entries: Vec<Entry>,
    good_bytes: usize,
    /// A good document behind a bad one.
    corrupt: bool,
}

fn read_journal(bytes: &[u8]) -> Read {
    let (mut entries, mut at, mut last) = (Vec::<Entry>::new(), 0, None::<String>);
    while let Some((entry, sum, length)) = decode(&bytes[at..]) {
        let follows = entries.last().is_none_or(|before| before.index + 1 == entry.index)
            && last.as_ref().is_none_or(|last| *last == entry.previous);
        if !follows {
            break;
        }
        entries.push(entry);
        last = Some(sum);
        at += length;
    }
    let rest = &bytes[at..];
    let starts = (1..rest.len()).filter(|i| rest[*i..].starts_with(b"--- # "));
    let corrupt = starts.into_iter().any(|i| decode(&rest[i..]).is_some());
    // a good document that does not follow is no tail either
    Read { corrupt: corrupt || decode(rest).is_some(), entries, good_bytes: at }
}

/// Why `state.yaml` was not read.
enum Unreadable {
    Corrupt,
    OtherFormat { format: u32 },
}

fn decode_state(bytes: &[u8]) -> Result<StateFile, Unreadable> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let body = verified(bytes).ok_or(Unreadable::Corrupt)?;
    let Format { format } = yaml::from_str(body).map_err(|_| Unreadable::Corrupt)?;
    if format != FORMAT {
        return Err(Unreadable::OtherFormat { format });
    }
    yaml::from_str(body).map_err(|_| Unreadable::Corrupt)
}

/// The text below the line with the checksum, if that is its checksum.
fn verified(bytes: &[u8]) -> Option<&str> {
    let (first, body) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    (first.strip_prefix("# checksum ")? == checksum(body.as_bytes())).then_some(body)
}

/// What the two files say together.
enum Assembled {
    Nothing,
    Memory {
        local: Box<Local>,
        index: u64,
        torn_bytes: usize,
    },
    /// Which of the two cannot be trusted.
    Corrupt {
        state: bool,
        journal: bool,
    },
    OtherFormat {
        format: u32,
    },
}

fn assemble(state: Option<&[u8]>, journal: &[u8]) -> Assembled {
    let Some(state) = state else {
        return match journal.is_empty() {
            true => Assembled::Nothing,
            false => Assembled::Corrupt { state: false, journal: true },
        };
    };
    let StateFile { mut index, mut local, .. } = match decode_state(state) {
        Ok(state) => state,
        Err(Unreadable::Corrupt) => return Assembled::Corrupt { state: true, journal: false },
        Err(Unreadable::OtherFormat { format }) => return Assembled::OtherFormat { format },
    };
    let read = read_journal(journal);
    let newer: Vec<Entry> = read.entries.into_iter().filter(|entry| entry.index > index).collect();
    let hole = newer.first().is_some_and(|entry| entry.index != index + 1);
    if read.corrupt || hole {
        return Assembled::Corrupt { state: false, journal: true };
    }
    for entry in newer {
        entry.events.iter().for_each(|event| local.apply(event));
        index = entry.index;
    }
    Assembled::Memory { local: Box::new(local), index, torn_bytes: journal.len() - read.good_bytes }
}

/// The memory as the files have it, changing nothing; for people, beside a running agent.
pub async fn peek<F: Files>(files: &F) -> Result<Option<Local>, DiskError> {
    let (state, journal) = (files.read(STATE).await?, files.read(JOURNAL).await?.unwrap_or_default());
    Ok(match assemble(state.as_deref(), &journal) {
        Assembled::Memory { local, .. } => Some(*local),
        Assembled::Nothing | Assembled::Corrupt { .. } | Assembled::OtherFormat { .. } => None,
    })
}

/// Reads what is there and puts it in order: afterwards `state.yaml` holds everything and the journal is new and
/// empty, both synced. Corrupt files are set aside.
pub async fn load<F: Files>(files: &F) -> Result<Found, DiskError> {
    let (state, journal) = (files.read(STATE).await?, files.read(JOURNAL).await?.unwrap_or_default());
    let mut notes = Vec::new();
    match assemble(state.as_deref(), &journal) {
        Assembled::Nothing => Ok(Found::Nothing),
        Assembled::OtherFormat { format } => Ok(Found::OtherFormat { format }),
        Assembled::Memory { local, index, torn_bytes } => {
            if torn_bytes > 0 {
                notes.push(format!("{JOURNAL} ends in {torn_bytes} torn bytes: left out"));
            }
            fold(files, index, &local).await?;
            Ok(Found::Memory { local, index, notes })
        }
        Assembled::Corrupt { state: state_corrupt, journal: journal_corrupt } => {
            for (name, corrupt, there) in
                [(STATE, state_corrupt, state.is_some()), (JOURNAL, journal_corrupt, !journal.is_empty())]
            {
                if there {
                    let what = if corrupt { "is corrupt" } else { "is of no use without the other" };
                    notes.push(format!("{name} {what}: kept as {}", files.set_aside(name).await?));
                }
            }
            Ok(Found::Lost { notes })
        }
    }
}

/// A new state file, then a new journal: begun only after the rename of the state is synced.
async fn fold<F: Files>(files: &F, index: u64, local: &Local) -> Result<(), DiskError> {
    let state = StateFile { format: FORMAT, index, local: local.clone() };
    let body = yaml::to_string(&state).expect("the memory is plain data");
    files.replace(STATE, format!("# checksum {}\n{body}", checksum(body.as_bytes())).as_bytes()).await?;
    files.replace(JOURNAL, b"").await
}

/// The unit's memory as files.
pub struct Journal<F> {
    files: F,
    index: Cell<u64>,
    bytes: Cell<usize>,
    previous: RefCell<String>,
    view: ViewCache,
    /// A failed write or sync: what is on disk is not known, so nothing is ever written after it.
    is_poisoned: Cell<bool>,
}

impl<F: Files> Journal<F> {
    /// Goes on behind `index`, in an empty journal. For a unit without files, `local` is written first.
    pub async fn begin(files: F, index: u64, local: &Local, fresh: bool) -> Result<Journal<F>, DiskError> {
        if fresh {
            fold(&files, index, local).await?;
        }
        Ok(Journal {
            files,
            index: Cell::new(index),
            bytes: Cell::new(0),
            previous: RefCell::default(),
            view: ViewCache::default(),
            is_poisoned: Cell::new(false),
        })
    }

    pub fn files(&self) -> &F {
        &self.files
    }

    async fn write(&self, events: &[Event], after: &Local) -> Result<(), DiskError> {
        let index = self.index.get() + 1;
        let (document, sum) = encode(index, &self.previous.borrow(), events);
        // a restored memory is no small change: it becomes the state itself
        let whole = events.iter().any(|event| matches!(event, Event::ReplicaTaken { .. }));
        let over = self.bytes.get() + document.len() > self.files.journal_bytes_max();
        if whole || over {
            fold(&self.files, index, after).await?;
            self.bytes.set(0);
            *self.previous.borrow_mut() = String::new();
        } else {
            self.files.append(JOURNAL, &document).await?;
            self.bytes.set(self.bytes.get() + document.len());
            *self.previous.borrow_mut() = sum;
        }
        self.index.set(index);
        Ok(())
    }
}

impl<F: Files> Memory for Journal<F> {
    async fn append(&self, events: &[Event], after: &Arc<Local>) -> Result<(), DiskError> {
        if self.is_poisoned.get() {
            return Err(DiskError("an earlier write failed".to_owned()));
        }
        // a write that is dropped half way (a crash) leaves it poisoned as well
        self.is_poisoned.set(true);
        self.write(events, after).await?;
        self.is_poisoned.set(false);
        Ok(())
    }

    async fn keep_view(&self, view: &Arc<Snapshot>) {
        self.view.keep(&self.files, view).await;
    }
}
