//! Streams to agents (design 9): the whole view first, then one delta per revision that concerns the agent, from any
//! position on that the change log still reaches. Any doubt means a whole view.
//!
//! A watch holds no queue: it asks the store for what came after its position when its reader asks it, so a slow
//! reader costs nothing and loses nothing.

use crate::authority::unauthorised;
use crate::environment::Environment;
use crate::presence::StreamGuard;
use crate::session::{Controller, store_position};
use crate::store::{CommitChanges, Store};
use api::error::{ApiError, ErrorCode};
use api::{Assigned, MachineView, MachineWatchEvent, Shown};
use state::documents::draft::{Reader, read};
use state::documents::keys::{Kind, Model, Parts};
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::unit::snapshot::{Change, Delta};
use state::views::view;
use std::collections::VecDeque;
use std::sync::Arc;

/// Revisions looked at in one go: a reader that is behind catches up in a few reads, and holds some 32 × 4 KiB.
const REVISIONS_PER_READ: usize = 32;

/// A position that advances with the store, and a heartbeat while it does not.
struct Cursor<S, O> {
    controller: Arc<Controller<S, O>>,
    agent: Uuid,
    position: Position,
    heartbeat_ms: u64,
    /// The reader knows that it is where the store is. One that resumes is told so once, at once: until then it
    /// cannot tell an old view from a quiet store.
    is_position_sent: bool,
}

enum CursorEvent {
    /// Revisions after the position, which is now the last of them.
    Revisions(Vec<CommitChanges>),
    Heartbeat,
    Compacted,
}

impl<S: Store, O: Environment> Cursor<S, O> {
    fn new(controller: Arc<Controller<S, O>>, agent: Uuid, position: Position) -> Cursor<S, O> {
        let heartbeat_ms = controller.environment.monotonic_ms() + api::HEARTBEAT_MS;
        Cursor { controller, agent, position, heartbeat_ms, is_position_sent: true }
    }

    /// Something is about to be sent. That the reader takes it is no sign of its life: a stopped process leaves its
    /// stream open, and the kernel takes it instead.
    fn note_sent(&mut self) {
        self.heartbeat_ms = self.controller.environment.monotonic_ms() + api::HEARTBEAT_MS;
    }

    async fn next(&mut self) -> CursorEvent {
        loop {
            // most wake-ups find nothing new for long: the store is asked only when there is
            let store = &self.controller.store;
            if self.position == self.controller.position(store.newest()) {
                if !std::mem::replace(&mut self.is_position_sent, true) {
                    return CursorEvent::Heartbeat;
                }
                if !self.controller.wait_past_until(self.position.revision, self.heartbeat_ms).await {
                    return CursorEvent::Heartbeat;
                }
            }
            let after = store_position(self.position);
            let Ok(changes) = self.controller.store.changes_after(after, REVISIONS_PER_READ).await else {
                return CursorEvent::Compacted;
            };
            if !changes.is_empty() {
                return CursorEvent::Revisions(changes);
            }
        }
    }
}

/// One unit's stream.
pub struct UnitStream<S, O> {
    cursor: Cursor<S, O>,
    model: Model,
    epoch: u64,
    /// What was shown up to the cursor's position; none = a whole view is next.
    shown: Option<Arc<view::Shown>>,
    ahead: VecDeque<CommitChanges>,
    removed: bool,
    /// Open as long as this is.
    _stream: StreamGuard,
}

impl<S: Store, O: Environment> UnitStream<S, O> {
    pub(crate) async fn open(
        controller: Arc<Controller<S, O>>,
        (model, unit): (Model, Uuid),
        epoch: u64,
        from: Option<Position>,
    ) -> Result<UnitStream<S, O>, ApiError> {
        let bound = controller.environment.inline_settings_bytes_max();
        let shown = match from {
            Some(from) => {
                let shown = controller.store.read_at(store_position(from), move |reader| {
                    view::full_view_within(reader, model, unit, bound).map(|view| Arc::new(view.shown()))
                });
                shown.await.ok().flatten()
            }
            None => None,
        };
        let position = from.unwrap_or_default();
        let stream = controller.presence.stream(unit);
        let mut cursor = Cursor::new(controller, unit, position);
        cursor.is_position_sent = from.is_none();
        let ahead = VecDeque::new();
        let watch = UnitStream { cursor, model, epoch, shown, ahead, removed: false, _stream: stream };
        watch.check_epoch().await?;
        Ok(watch)
    }

    fn unit(&self) -> Uuid {
        self.cursor.agent
    }

    /// The session of this epoch is still the unit's newest.
    async fn check_epoch(&self) -> Result<(), ApiError> {
        let (model, unit, epoch) = (self.model, self.unit(), self.epoch);
        let found = self.cursor.controller.read(move |reader| {
            (read(reader, &model.session(unit)).map_or(0, |s| s.epoch), fate(reader, model, unit))
        });
        let (newest, fate) = found.await;
        match fate {
            view::Fate::Tombstone => Err(removed()),
            view::Fate::Unknown => Err(unauthorised()),
            view::Fate::Known(_) if newest < epoch => {
                // the store was restored from an older copy, see `state::operations::session`
                let text =
                    format!("epoch {epoch} was not granted here (the newest is {newest}): attach again");
                Err(ApiError::new(ErrorCode::Gap, text))
            }
            view::Fate::Known(_) if newest != epoch || epoch == 0 => {
                let text =
                    format!("a newer agent of this unit has attached (epoch {newest}, this one is {epoch})");
                Err(ApiError::new(ErrorCode::Fenced, text).hint("this agent is a copy; stop it"))
            }
            view::Fate::Known(_) => Ok(()),
        }
    }

    async fn full_view(&mut self) -> Result<Delta, ApiError> {
        self.check_epoch().await?;
        let (model, unit) = (self.model, self.unit());
        let bound = self.cursor.controller.environment.inline_settings_bytes_max();
        let view = self
            .cursor
            .controller
            .read(move |reader| view::full_view_within(reader, model, unit, bound))
            .await;
        let mut view = view.ok_or_else(removed)?;
        view.delta.position.store_generation = self.cursor.controller.store.store_generation();
        self.cursor.position = view.delta.position;
        self.shown = Some(Arc::new(view.shown()));
        self.ahead.clear();
        Ok(view.delta)
    }

    /// What one revision changed for this unit; none = nothing, or the log does not reach there any more and a whole
    /// view is next.
    async fn delta(&mut self, changed: CommitChanges) -> Result<Option<Delta>, ApiError> {
        let position =
            Position { store_generation: self.cursor.position.store_generation, revision: changed.revision };
        let session = self.model.session(self.unit());
        if changed.keys().any(|key| key == session.text()) {
            self.check_epoch().await?;
        }
        let shown = self.shown.clone().expect("deltas follow a whole view");
        let Some(touched) = view::touched(&shown, changed.keys()) else {
            self.cursor.position = position;
            return Ok(None);
        };
        let changes = self
            .cursor
            .controller
            .store
            .read_at(store_position(position), move |reader| view::delta(reader, &shown, &touched));
        let Ok(changes) = changes.await else {
            // the log lost this revision while its reader lagged: what was to follow it is of no use either
            self.shown = None;
            self.ahead.clear();
            return Ok(None);
        };
        self.cursor.position = position;
        if changes.is_empty() {
            return Ok(None);
        }
        if let Some(shown) = &mut self.shown {
            Arc::make_mut(shown).take(&changes);
        }
        self.removed = changes.contains(&Change::Removed);
        Ok(Some(Delta { position, full: false, changes }))
    }
}

fn removed() -> ApiError {
    ApiError::new(ErrorCode::Removed, "the unit was removed")
}

fn fate(reader: &dyn Reader, model: Model, unit: Uuid) -> view::Fate {
    view::fate(reader, model, unit)
}

impl<S: Store, O: Environment> api::Stream for UnitStream<S, O> {
    type Item = Shown;

    async fn next(&mut self) -> Result<Shown, ApiError> {
        loop {
            if self.removed {
                return Err(removed());
            }
            if self.shown.is_none() {
                let delta = self.full_view().await?;
                self.cursor.note_sent();
                return Ok(Shown::Delta(delta));
            }
            while let Some(changed) = self.ahead.pop_front() {
                if let Some(delta) = self.delta(changed).await? {
                    self.cursor.note_sent();
                    return Ok(Shown::Delta(delta));
                }
            }
            if self.shown.is_none() {
                continue;
            }
            match self.cursor.next().await {
                CursorEvent::Revisions(revisions) => self.ahead.extend(revisions),
                CursorEvent::Compacted => self.shown = None,
                CursorEvent::Heartbeat => {
                    self.cursor.note_sent();
                    return Ok(Shown::Heartbeat(self.cursor.position));
                }
            }
        }
    }
}

/// One machine's stream.
pub struct MachineStream<S, O> {
    cursor: Cursor<S, O>,
    model: Model,
    shown: Option<MachineView>,
    /// There may be news. StoredArchive here, since a call for the next view may be dropped while it reads.
    must_read: bool,
}

/// Kinds of documents that a machine's view is made of.
const MACHINE_VIEW_KINDS: [Kind; 7] = [
    Kind::Machine,
    Kind::MachineLife,
    Kind::Unit,
    Kind::UnitLife,
    Kind::UnitOn,
    Kind::ApplicationLife,
    Kind::Container,
];

impl<S: Store, O: Environment> MachineStream<S, O> {
    pub(crate) fn open(
        controller: Arc<Controller<S, O>>,
        model: Model,
        machine: Uuid,
    ) -> MachineStream<S, O> {
        let cursor = Cursor::new(controller, machine, Position::default());
        MachineStream { cursor, model, shown: None, must_read: true }
    }

    /// The view if it is another than what was shown; none for the position's sake.
    async fn changed_view(&mut self) -> Result<Option<MachineView>, ApiError> {
        let (model, machine) = (self.model, self.cursor.agent);
        let (revision, seen) = self
            .cursor
            .controller
            .read(move |reader| (reader.revision(), view::machine(reader, model, machine)))
            .await;
        self.cursor.position = self.cursor.controller.position(revision);
        let gone = || ApiError::new(ErrorCode::Removed, "the machine was removed");
        let seen = seen.ok_or_else(gone)?;
        let assigned =
            |(id, unit): (Uuid, view::Assigned)| (id, Assigned { name: unit.name, life: unit.life });
        let view = MachineView {
            position: self.cursor.position,
            model: model.0,
            name: seen.name,
            address: seen.address,
            life: seen.life,
            units: seen.units.into_iter().map(assigned).collect(),
        };
        let known = self
            .shown
            .as_ref()
            .is_some_and(|shown| MachineView { position: shown.position, ..view.clone() } == *shown);
        self.shown = Some(view.clone());
        Ok((!known).then_some(view))
    }
}

impl<S: Store, O: Environment> api::Stream for MachineStream<S, O> {
    type Item = MachineWatchEvent;

    async fn next(&mut self) -> Result<MachineWatchEvent, ApiError> {
        loop {
            if self.must_read {
                let changed = self.changed_view().await?;
                self.must_read = false;
                if let Some(view) = changed {
                    self.cursor.note_sent();
                    return Ok(MachineWatchEvent::View(view));
                }
            }
            self.must_read = match self.cursor.next().await {
                CursorEvent::Revisions(revisions) => {
                    let last = revisions.last().map(|changes| changes.revision);
                    self.cursor.position.revision = last.expect("a step has revisions");
                    let mut changed = revisions.iter().flat_map(CommitChanges::keys).filter_map(Parts::of);
                    changed.any(|key| MACHINE_VIEW_KINDS.contains(&key.kind))
                }
                CursorEvent::Compacted => true,
                CursorEvent::Heartbeat => {
                    self.cursor.note_sent();
                    return Ok(MachineWatchEvent::Heartbeat(self.cursor.position));
                }
            };
        }
    }
}
