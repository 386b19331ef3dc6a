//! The folder of one unit: stores the state of its agent, and decides which part of it survives a crash.
//!
//! A disk has two forms. The typed form stores events; an event is durable once `append` has returned, and an event
//! that was in flight at a crash may be there or not. The byte form runs the production journal over files; a crash
//! tears the part that was not synced.

use crate::sim::fact::Fact;
use crate::sim::machine::Machine;
use crate::sim::mutants::Mutant;
use crate::sim::world::World;
use agent::folder_port::FolderFiles;
use agent::journal::{self, Journal, Loaded};
use agent::ports::{DiskError, UnitStorage};
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::Operation;
use state::unit::local::{Event, Local, Step};
use state::unit::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The maximum size of a journal: so small that units compact theirs every few hooks.
pub const JOURNAL_BYTES_MAX: usize = 4 << 10;

/// A write in progress.
#[derive(Clone)]
enum Unsynced {
    Append(String, Vec<u8>),
    Replace(String, Vec<u8>),
}

#[derive(Clone, Default)]
struct State {
    /// The state after all acknowledged events.
    acknowledged: Option<Arc<Local>>,
    /// The events being written and the state after them. A crash decides whether they are durable.
    in_flight: Option<(Arc<[Event]>, Arc<Local>)>,
    view: Option<Arc<Snapshot>>,
    /// The view that was stored before `view`: a cache is not synced, so a crash may restore it.
    older_view: Option<Arc<Snapshot>>,
    files: BTreeMap<String, Vec<u8>>,
    unsynced: Option<Unsynced>,
    /// Whether hooks have run here: then a folder without state is not a new one.
    has_run_hooks: bool,
    /// Whether the content was damaged: the next agent starts with what it finds.
    is_damaged: bool,
    /// For a mutant: the previous content of the file that was replaced last.
    replaced: Option<(String, Option<Vec<u8>>)>,
}

/// Location and unit of a folder.
#[derive(Clone)]
pub struct FolderLocation {
    pub folder: Uuid,
    pub unit: Uuid,
    pub name: UnitName,
    pub machine: Machine,
}

/// The files of one folder.
#[derive(Clone)]
pub struct Disk {
    world: World,
    location: FolderLocation,
    state: Arc<Mutex<State>>,
}

impl Disk {
    pub fn new(world: World, location: FolderLocation) -> Disk {
        world.note(Fact::JournalStarted {
            folder: location.folder,
            local: Box::new(Local::new(location.unit, location.name.clone())),
        });
        Disk { world, location, state: Arc::default() }
    }

    /// Copies the content to another folder, as `cp -a` or cloning a machine does.
    pub fn copy(&self, folder: Uuid) -> Disk {
        let location = FolderLocation { folder, ..self.location.clone() };
        let mut state = self.state().clone();
        // events that were synced and not yet acknowledged are in the copy, too
        state.unsynced = None;
        Disk { world: self.world.clone(), location, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// Power loss: content that was not synced may be torn.
    pub fn lose_power(&self) {
        let cut = self.world.below(1_000) as usize;
        let mut state = self.state();
        state.view = if cut < 500 { state.older_view.take() } else { None };
        if let Some(view) = state.files.get_mut(agent::view_cache::VIEW_FILE) {
            view.truncate(cut);
        }
        if self.world.profile().has(Mutant::RenameIsNotSynced)
            && let Some((name, before)) = state.replaced.take()
        {
            match before {
                Some(before) => state.files.insert(name, before),
                None => state.files.remove(&name),
            };
        }
    }

    /// Deletes everything.
    pub fn delete_all(&self) {
        *self.state() = State { is_damaged: true, ..State::default() };
    }

    /// Flips one bit of one file.
    pub fn corrupt(&self) {
        let mut state = self.state();
        let index = self.world.below(state.files.len() as u64) as usize;
        let Some(bytes) = state.files.values_mut().nth(index).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        let index = self.world.below(bytes.len() as u64) as usize;
        bytes[index] ^= 1 << self.world.below(8);
        state.is_damaged = true;
    }

    fn require_space(&self) -> Result<(), DiskError> {
        match self.location.machine.is_full(self.world.now_ms()) {
            true => Err(DiskError::new("no space left on device")),
            false => Ok(()),
        }
    }

    /// Opens the folder for an agent that starts, and loads its state.
    pub async fn open(&self) -> Result<(SimStorage, Local, Option<Arc<Snapshot>>), DiskError> {
        self.world.pause().await;
        let (storage, mut local, view) = if self.world.profile().byte_disk > 0 {
            self.open_bytes().await?
        } else {
            self.require_space()?;
            let (local, view) = self.open_typed();
            (SimStorage::Typed(self.clone()), local, view)
        };
        self.state().acknowledged = Some(Arc::new(local.clone()));
        let is_damaged = std::mem::take(&mut self.state().is_damaged);
        let (folder, found) = (self.location.folder, Box::new(local.clone()));
        self.world.note(if is_damaged {
            Fact::JournalStarted { folder, local: found }
        } else {
            Fact::Loaded { folder, local: found }
        });
        self.apply_local_mutant(&mut local);
        Ok((storage, local, view))
    }

    /// Mutants: the agent forgets a part of its state.
    fn apply_local_mutant(&self, local: &mut Local) {
        let profile = self.world.profile();
        if profile.has(Mutant::ForgetsPendingChanged) {
            local.relations.values_mut().for_each(|relation| relation.pending_changed = None);
        }
        if profile.has(Mutant::ForgetsConfig) && local.started {
            local.config = None;
        }
        if profile.has(Mutant::ForgetsMembers) && local.step == Step::Idle {
            local
                .relations
                .values_mut()
                .filter(|r| r.pending_changed.is_none())
                .for_each(|r| r.members.clear());
        }
        if profile.has(Mutant::ForgetsStart) && local.started && !local.stopped && local.step == Step::Idle {
            local.boot = None;
        }
        if let Step::Started(run) = &local.step {
            let action = matches!(run.operation, Operation::Action { .. });
            let forgets = if action { Mutant::ForgetsAction } else { Mutant::ForgetsInterrupted };
            if profile.has(forgets) {
                local.step = Step::Idle;
            }
        }
    }

    /// The state of an empty folder: a new unit, or one whose files are lost.
    fn empty_state(&self) -> Local {
        let mut local = Local::new(self.location.unit, self.location.name.clone());
        local.state_lost = self.state().has_run_hooks;
        local
    }

    fn open_typed(&self) -> (Local, Option<Arc<Snapshot>>) {
        let survived = self.world.chance_of(500);
        let (acknowledged, in_flight, view) = {
            let mut state = self.state();
            (state.acknowledged.take(), state.in_flight.take().filter(|_| survived), state.view.clone())
        };
        match in_flight {
            Some((events, after)) => {
                // the mutant has acknowledged them already
                if !self.world.profile().has(Mutant::AcknowledgesBeforeSync) {
                    self.world.note(Fact::EventsPersisted {
                        folder: self.location.folder,
                        unit: self.location.unit,
                        events,
                    });
                }
                (Arc::unwrap_or_clone(after), view)
            }
            None => (acknowledged.map_or_else(|| self.empty_state(), Arc::unwrap_or_clone), view),
        }
    }

    async fn open_bytes(&self) -> Result<(SimStorage, Local, Option<Arc<Snapshot>>), DiskError> {
        self.resolve_unsynced();
        let found = journal::load(self).await?;
        let (local, end) = match found {
            Loaded::Nothing => (self.empty_state(), None),
            Loaded::State { local, end, .. } => (*local, Some(end)),
            Loaded::Corrupt { notes } => {
                if !self.state().is_damaged {
                    let what = format!("{}: files lost: {notes:?}", self.location.name);
                    self.world.note(Fact::InvariantViolated("durable-events", what));
                }
                (self.empty_state(), None)
            }
            Loaded::OtherFormat { .. } => return Err(DiskError::new("the files have another format")),
        };
        let in_flight = self.state().in_flight.take();
        if let Some((events, after)) = in_flight
            && *after == local
        {
            self.world.note(Fact::EventsPersisted {
                folder: self.location.folder,
                unit: self.location.unit,
                events,
            });
        }
        let journal = match end {
            Some(end) => Journal::after(self.clone(), end),
            None => Journal::create(self.clone(), &local).await?,
        };
        let view = agent::view_cache::ViewCache::load(self).await;
        Ok((SimStorage::Bytes(self.clone(), journal), local, view.map(Arc::new)))
    }

    /// Decides how much of a write in progress survives a crash: all of it, a part or nothing.
    fn resolve_unsynced(&self) {
        let Some(unsynced) = self.state().unsynced.take() else { return };
        match unsynced {
            Unsynced::Append(name, bytes) => {
                let surviving = self.world.below(bytes.len() as u64 + 1) as usize;
                self.state().files.entry(name).or_default().extend_from_slice(&bytes[..surviving]);
            }
            Unsynced::Replace(name, bytes) => {
                if self.world.profile().has(Mutant::RewritesInPlace) {
                    let surviving = self.world.below(bytes.len() as u64 + 1) as usize;
                    self.state().files.insert(name, bytes[..surviving].to_vec());
                } else if self.world.chance_of(500) {
                    self.state().files.insert(name, bytes);
                }
            }
        }
    }

    async fn write(&self, unsynced: Unsynced) -> Result<(), DiskError> {
        self.world.pause().await;
        self.require_space()?;
        self.state().unsynced = Some(unsynced.clone());
        self.world.pause().await;
        if self.world.draws_fault(self.world.profile().sync_fails) {
            return Err(DiskError::new("the sync failed"));
        }
        let mut state = self.state();
        state.unsynced = None;
        match unsynced {
            Unsynced::Append(name, bytes) => {
                let file = state.files.entry(name).or_default();
                file.extend_from_slice(&bytes);
                self.world.note(Fact::Appended { folder: self.location.folder, bytes: file.len() });
            }
            Unsynced::Replace(name, bytes) => {
                let before = state.files.insert(name.clone(), bytes);
                state.replaced = Some((name, before));
            }
        }
        Ok(())
    }

    fn acknowledge(&self, events: Arc<[Event]>, after: Arc<Local>) {
        let mut state = self.state();
        state.in_flight = None;
        state.acknowledged = Some(after);
        state.has_run_hooks |= events.iter().any(|event| matches!(event, Event::Started(_)));
        drop(state);
        self.world.note(Fact::EventsPersisted {
            folder: self.location.folder,
            unit: self.location.unit,
            events,
        });
    }

    async fn append_typed(&self, events: &[Event], after: &Arc<Local>) -> Result<(), DiskError> {
        let profile = self.world.profile();
        let events: Arc<[Event]> = events.into();
        if profile.has(Mutant::AcknowledgesBeforeSync) {
            let synced = self.state().in_flight.replace((events.clone(), after.clone()));
            if let Some((_, after)) = synced {
                self.state().acknowledged = Some(after);
            }
            self.world.note(Fact::EventsPersisted {
                folder: self.location.folder,
                unit: self.location.unit,
                events,
            });
            self.world.pause().await;
            return Ok(());
        }
        self.world.pause().await;
        self.require_space()?;
        if profile.has(Mutant::SavesInTwoSteps) {
            self.save_half(&events);
        } else {
            self.state().in_flight = Some((events.clone(), after.clone()));
        }
        self.world.pause().await;
        if self.world.draws_fault(profile.sync_fails) {
            if profile.has(Mutant::FailedSyncIsAccepted) {
                self.state().in_flight = None;
                let (folder, unit) = (self.location.folder, self.location.unit);
                self.world.note(Fact::EventsPersisted { folder, unit, events });
                return Ok(());
            }
            return Err(DiskError::new("the sync failed"));
        }
        self.acknowledge(events, after.clone());
        self.world.pause().await;
        Ok(())
    }

    /// A mutant: the outcome is stored before its effects.
    fn save_half(&self, events: &[Event]) {
        let half = |event: &Event| match event {
            Event::Finished(record) => {
                let mut record = record.clone();
                record.writes = Default::default();
                Event::Finished(record)
            }
            other => other.clone(),
        };
        let half: Vec<Event> = events.iter().map(half).collect();
        let mut state = self.state();
        let acknowledged = state.acknowledged.as_deref().cloned();
        let mut after =
            acknowledged.unwrap_or_else(|| Local::new(self.location.unit, self.location.name.clone()));
        half.iter().for_each(|event| after.apply(event));
        state.in_flight = Some((half.into(), Arc::new(after)));
    }
}

impl FolderFiles for Disk {
    fn journal_bytes_max(&self) -> usize {
        JOURNAL_BYTES_MAX
    }
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskError> {
        self.world.pause().await;
        if self.world.profile().has(Mutant::UnreadableIsEmpty) && self.world.draws_fault(50) {
            return Ok(None);
        }
        Ok(self.state().files.get(name).cloned())
    }
    async fn append(&self, name: &str, _: usize, bytes: &[u8]) -> Result<(), DiskError> {
        self.write(Unsynced::Append(name.to_owned(), bytes.to_vec())).await
    }
    async fn write_atomic(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.write(Unsynced::Replace(name.to_owned(), bytes.to_vec())).await
    }
    async fn cache(&self, name: &str, bytes: Option<&[u8]>) -> bool {
        self.world.pause().await;
        let mut state = self.state();
        match bytes {
            Some(bytes) => state.files.insert(name.to_owned(), bytes.to_vec()),
            None => state.files.remove(name),
        };
        true
    }
    async fn set_aside(&self, name: &str) -> Result<String, DiskError> {
        self.world.pause().await;
        let mut state = self.state();
        let aside = format!("{name}.{}", state.files.len());
        let bytes = state.files.remove(name).unwrap_or_default();
        state.files.insert(aside.clone(), bytes);
        Ok(aside)
    }
}

/// The storage of an agent, in the form that the profile selects.
pub enum SimStorage {
    Typed(Disk),
    Bytes(Disk, Journal<Disk>),
}

impl UnitStorage for SimStorage {
    async fn append(&self, events: &[Event], after: &Arc<Local>) -> Result<(), DiskError> {
        match self {
            SimStorage::Typed(disk) => disk.append_typed(events, after).await,
            SimStorage::Bytes(disk, journal) => {
                let shared: Arc<[Event]> = events.into();
                disk.state().in_flight = Some((shared.clone(), after.clone()));
                journal.append(events, after).await?;
                disk.acknowledge(shared, after.clone());
                disk.world.pause().await;
                Ok(())
            }
        }
    }

    async fn cache_view(&self, view: &Arc<Snapshot>) {
        match self {
            SimStorage::Typed(disk) => {
                disk.world.pause().await;
                let mut state = disk.state();
                state.older_view = state.view.replace(view.clone());
            }
            SimStorage::Bytes(_, journal) => journal.cache_view(view).await,
        }
    }
}
