//! What one unit's disk remembers. Two forms: typed (events are durable when `append` has returned; one that was cut
//! off may or may not be) and bytes (the production journal over files whose unsynced tail is torn by a crash).

use crate::sim::checks::Fact;
use crate::sim::mutants::Mutant;
use crate::sim::world::World;
use agent::journal::{self, Files, Found, Journal};
use agent::ports::{DiskFailed, Memory};
use state::names::{UnitName, Uuid};
use state::unit::local::{Event, Local, Step};
use state::unit::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A write that is under way.
#[derive(Clone)]
enum Unsynced {
    Append(String, Vec<u8>),
    Replace(String, Vec<u8>),
}

struct State {
    /// All that was acknowledged, folded.
    known: Option<Local>,
    /// Being written; a crash decides whether it was.
    trying: Option<Vec<Event>>,
    /// A planted fault: acknowledged, and not there yet.
    unsynced_events: Vec<Event>,
    view: Option<Snapshot>,
    files: BTreeMap<String, Vec<u8>>,
    unsynced: Option<Unsynced>,
}

/// One unit's files.
#[derive(Clone)]
pub struct Disk {
    world: World,
    unit: Uuid,
    name: UnitName,
    state: Arc<Mutex<State>>,
}

impl Disk {
    pub fn new(world: World, unit: Uuid, name: UnitName) -> Disk {
        let state = State {
            known: None,
            trying: None,
            unsynced_events: Vec::new(),
            view: None,
            files: BTreeMap::new(),
            unsynced: None,
        };
        Disk { world, unit, name, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// The power went: what was never synced may be torn.
    pub fn lose_power(&self) {
        let cut = self.world.below(1_000) as usize;
        let mut state = self.state();
        state.view = None;
        if let Some(view) = state.files.get_mut(agent::view_cache::HEAD) {
            view.truncate(cut);
        }
    }

    /// What an agent finds when it starts.
    pub async fn open(&self) -> Result<(SimMemory, Local, Option<Snapshot>), DiskFailed> {
        self.world.pause().await;
        let (memory, mut local, view) = if self.world.mix().bytes {
            self.open_bytes().await?
        } else {
            let (local, view) = self.open_typed();
            (SimMemory::Typed(self.clone()), local, view)
        };
        self.state().known = Some(local.clone());
        self.world.note(Fact::Loaded { unit: self.unit, local: Box::new(local.clone()) });
        self.forget(&mut local);
        Ok((memory, local, view))
    }

    /// Planted faults: an agent that does not remember everything.
    fn forget(&self, local: &mut Local) {
        let mix = self.world.mix();
        if mix.has(Mutant::ForgetsOwedChanged) {
            local.relations.values_mut().for_each(|relation| relation.changed_owed = None);
        }
        if mix.has(Mutant::ForgetsConfig) && local.started {
            local.config = None;
        }
        if mix.has(Mutant::ForgetsMembers) && local.step == Step::Idle {
            local.relations.values_mut().filter(|r| r.changed_owed.is_none()).for_each(|r| r.members.clear());
        }
        if mix.has(Mutant::ForgetsStart) && local.started && !local.stopped && local.step == Step::Idle {
            local.boot = None;
        }
        if mix.has(Mutant::ForgetsInterrupted) && matches!(local.step, Step::Started(_)) {
            local.step = Step::Idle;
        }
    }

    fn open_typed(&self) -> (Local, Option<Snapshot>) {
        let survived = self.world.hits(500);
        let mut state = self.state();
        state.unsynced_events.clear();
        let mut local = state.known.take().unwrap_or_else(|| Local::new(self.unit, self.name.clone()));
        let trying = state.trying.take().filter(|_| survived);
        let view = state.view.clone();
        drop(state);
        if let Some(events) = trying {
            events.iter().for_each(|event| local.apply(event));
            self.world.note(Fact::Recorded { unit: self.unit, events });
        }
        (local, view)
    }

    async fn open_bytes(&self) -> Result<(SimMemory, Local, Option<Snapshot>), DiskFailed> {
        self.settle_unsynced();
        let found = journal::load(self).await?;
        let (local, index, fresh) = match found {
            Found::Nothing => (Local::new(self.unit, self.name.clone()), 0, true),
            Found::Memory { local, index, .. } => (*local, index, false),
            Found::Lost { notes } => {
                self.world.note(Fact::Broken("durable", format!("{}: files lost: {notes:?}", self.name)));
                (Local::new(self.unit, self.name.clone()), 0, true)
            }
            Found::Newer { .. } => return Err(DiskFailed("files of a newer program".to_owned())),
        };
        let (known, trying) = {
            let mut state = self.state();
            (state.known.take(), state.trying.take())
        };
        if let (Some(mut known), Some(events)) = (known, trying)
            && known != local
        {
            events.iter().for_each(|event| known.apply(event));
            if known == local {
                self.world.note(Fact::Recorded { unit: self.unit, events });
            }
        }
        let journal = Journal::begin(self.clone(), index, &local, fresh).await?;
        let view = agent::view_cache::ViewCache::load(self).await;
        Ok((SimMemory::Bytes(self.clone(), journal), local, view))
    }

    /// The write that a crash cut: all of it, a part of it or nothing.
    fn settle_unsynced(&self) {
        let Some(unsynced) = self.state().unsynced.take() else { return };
        match unsynced {
            Unsynced::Append(name, bytes) => {
                let kept = self.world.below(bytes.len() as u64 + 1) as usize;
                self.state().files.entry(name).or_default().extend_from_slice(&bytes[..kept]);
            }
            Unsynced::Replace(name, bytes) => {
                if self.world.hits(500) {
                    self.state().files.insert(name, bytes);
                }
            }
        }
    }

    async fn write(&self, unsynced: Unsynced) -> Result<(), DiskFailed> {
        self.world.pause().await;
        self.state().unsynced = Some(unsynced.clone());
        self.world.pause().await;
        if self.world.strikes(self.world.mix().sync_fails) {
            return Err(DiskFailed("the sync failed".to_owned()));
        }
        let mut state = self.state();
        state.unsynced = None;
        match unsynced {
            Unsynced::Append(name, bytes) => state.files.entry(name).or_default().extend_from_slice(&bytes),
            Unsynced::Replace(name, bytes) => drop(state.files.insert(name, bytes)),
        }
        Ok(())
    }

    fn acknowledge(&self, events: Vec<Event>) {
        let mut state = self.state();
        state.trying = None;
        if let Some(known) = &mut state.known {
            events.iter().for_each(|event| known.apply(event));
        }
        drop(state);
        self.world.note(Fact::Recorded { unit: self.unit, events });
    }

    async fn append_typed(&self, events: &[Event]) -> Result<(), DiskFailed> {
        if self.world.mix().has(Mutant::AcknowledgesBeforeSync) {
            let synced: Vec<Event> = std::mem::replace(&mut self.state().unsynced_events, events.to_vec());
            if let Some(known) = &mut self.state().known {
                synced.iter().for_each(|event| known.apply(event));
            }
            self.world.note(Fact::Recorded { unit: self.unit, events: events.to_vec() });
            self.world.pause().await;
            return Ok(());
        }
        self.world.pause().await;
        self.state().trying = Some(events.to_vec());
        self.world.pause().await;
        if self.world.strikes(self.world.mix().sync_fails) {
            return Err(DiskFailed("the sync failed".to_owned()));
        }
        self.acknowledge(events.to_vec());
        self.world.pause().await;
        Ok(())
    }
}

impl Files for Disk {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskFailed> {
        self.world.pause().await;
        Ok(self.state().files.get(name).cloned())
    }
    async fn append(&self, name: &str, bytes: &[u8]) -> Result<(), DiskFailed> {
        self.write(Unsynced::Append(name.to_owned(), bytes.to_vec())).await
    }
    async fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), DiskFailed> {
        self.write(Unsynced::Replace(name.to_owned(), bytes.to_vec())).await
    }
    async fn cache(&self, name: &str, bytes: Option<&[u8]>) {
        self.world.pause().await;
        let mut state = self.state();
        match bytes {
            Some(bytes) => state.files.insert(name.to_owned(), bytes.to_vec()),
            None => state.files.remove(name),
        };
    }
    async fn set_aside(&self, name: &str) -> Result<String, DiskFailed> {
        self.world.pause().await;
        let mut state = self.state();
        let aside = format!("{name}.{}", state.files.len());
        let bytes = state.files.remove(name).unwrap_or_default();
        state.files.insert(aside.clone(), bytes);
        Ok(aside)
    }
}

/// The memory port.
pub enum SimMemory {
    Typed(Disk),
    Bytes(Disk, Journal<Disk>),
}

impl Memory for SimMemory {
    async fn append(&self, events: &[Event], after: &Local) -> Result<(), DiskFailed> {
        match self {
            SimMemory::Typed(disk) => disk.append_typed(events).await,
            SimMemory::Bytes(disk, journal) => {
                disk.state().trying = Some(events.to_vec());
                journal.append(events, after).await?;
                disk.acknowledge(events.to_vec());
                disk.world.pause().await;
                Ok(())
            }
        }
    }

    async fn keep_view(&self, view: &Snapshot) {
        match self {
            SimMemory::Typed(disk) => {
                disk.world.pause().await;
                disk.state().view = Some(view.clone());
            }
            SimMemory::Bytes(_, journal) => journal.keep_view(view).await,
        }
    }
}
