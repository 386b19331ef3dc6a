//! The watch streams of agents (design 9).
//!
//! A stream starts with the full view, followed by deltas: one per revision that concerns the agent, or one for all
//! revisions that it is behind. An agent can resume from any position that is still in the change log. In every
//! doubtful case the stream sends a full view again.
//!
//! Heartbeats are sent only if no other request has confirmed the view of the agent (`watch_progress`).
//!
//! A stream has no queue: it reads the changes after its position when the connection polls it. A slow reader costs no
//! memory and misses nothing. Opened by the handlers of `WatchUnit` and `WatchMachine`.

use crate::authorisation::unauthorised;
use crate::callers::Controller;
use crate::environment::Environment;
use crate::presence::StreamGuard;
use crate::store::{CommitChanges, Store};
use crate::watch_progress::WatchProgress;
use api::error::{ApiError, ErrorCode};
use api::{MachineView, MachineWatchEvent, UnitWatchEvent};
use state::agents::session::{self, AgentSession};
use state::documents::draft::Draft;
use state::documents::prelude::Model;
use state::documents::refusal::Code;
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::unit::snapshot::{Change, Delta};
use state::views::delta::{AffectedParts, affected_parts, delta};
use state::views::dependencies::ViewUpdate;
use state::views::{machine_view, view};
use std::sync::Arc;

/// Revisions per read of the change log: a reader that is behind catches up in a few reads of some 32 × 4 KiB.
const REVISIONS_PER_READ: usize = 32;

/// A position that follows the store, with a heartbeat while nothing changes and nothing else confirms the view.
struct Cursor<S, E> {
    controller: Arc<Controller<S, E>>,
    agent: Uuid,
    position: Position,
    progress: WatchProgress,
    /// Whether the reader has received its position. A reader that resumes receives a heartbeat at once: until then it
    /// cannot distinguish an outdated view from a store without changes.
    is_position_sent: bool,
}

/// What a cursor has found.
enum CursorEvent {
    /// The next revisions after the position.
    Revisions(Vec<CommitChanges>),
    /// A heartbeat is due.
    Heartbeat,
    /// The change log no longer reaches the position: a full view is needed.
    Compacted,
}

impl<S: Store, E: Environment> Cursor<S, E> {
    /// `from`: the position of the view that the agent has.
    fn new(controller: Arc<Controller<S, E>>, agent: Uuid, from: Option<Position>) -> Cursor<S, E> {
        let now_ms = controller.environment.monotonic_ms();
        let progress = controller.watch_progresses.open(agent, from, now_ms);
        let position = from.unwrap_or_default();
        Cursor { controller, agent, position, progress, is_position_sent: from.is_none() }
    }

    /// Postpones the next heartbeat because an event is being sent.
    fn record_sent(&mut self) {
        self.progress.record_sent(self.controller.environment.monotonic_ms());
    }

    /// Follows the store to the position of an event that is being sent.
    fn send_at(&mut self, position: Position) {
        self.position = position;
        self.progress.record_event(position);
    }

    /// Follows the store to a position up to which nothing has changed for the agent.
    fn pass_to(&mut self, position: Position) {
        self.position = position;
        self.progress.record_unchanged(position);
    }

    /// Whether the store has nothing after the position. A controller that has lost its store waits here: it must not
    /// tell an agent that its view is current.
    async fn is_current(&self) -> bool {
        self.controller.store.confirmed_newest().await == self.position.revision
    }

    async fn next(&mut self) -> CursorEvent {
        loop {
            // Most calls find nothing new, so the store is read only after its newest revision has changed.
            let store = &self.controller.store;
            if self.position == self.controller.position(store.newest_revision()) {
                if !self.is_position_sent && self.is_current().await {
                    self.is_position_sent = true;
                    return CursorEvent::Heartbeat;
                }
                let heartbeat_ms = self.progress.heartbeat_ms();
                if !self.controller.wait_past_until(self.position.revision, heartbeat_ms).await {
                    let is_due = self.controller.environment.monotonic_ms() >= self.progress.heartbeat_ms();
                    if is_due && self.is_current().await {
                        return CursorEvent::Heartbeat;
                    }
                    continue; // a request of the agent has confirmed its view meanwhile
                }
            }
            let changes = self.controller.store.changes_after(self.position, REVISIONS_PER_READ);
            let Ok(changes) = changes.await else { return CursorEvent::Compacted };
            if !changes.is_empty() {
                return CursorEvent::Revisions(changes);
            }
        }
    }
}

/// Checks that the unit of a session exists and that the session is still its newest.
async fn check_epoch<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    session: AgentSession,
) -> Result<(), ApiError> {
    let checked = controller.read(move |reader| {
        let mut draft = Draft::new(reader); // read only: it is never committed
        session::check_epoch(&mut draft, session)
    });
    match checked.await {
        Ok(_) => Ok(()),
        // the error does not reveal whether the unit exists (S15)
        Err(refusal) if refusal.code() == Code::NotFound => Err(unauthorised()),
        Err(refusal) => Err(controller.refusal_error(refusal).await),
    }
}

/// The stream of one unit agent.
pub struct UnitStream<S, E> {
    cursor: Cursor<S, E>,
    model: Model,
    epoch: u64,
    /// The content sent up to the cursor's position; none if a full view is to be sent next.
    shown: Option<Arc<view::SentView>>,
    /// The revisions after the cursor's position that were read and not compared yet.
    ahead: Vec<CommitChanges>,
    removed: bool,
    /// Counts the stream in the agent's presence.
    _stream: StreamGuard,
}

impl<S: Store, E: Environment> UnitStream<S, E> {
    pub(crate) async fn open(
        controller: Arc<Controller<S, E>>,
        session: AgentSession,
        from: Option<Position>,
    ) -> Result<UnitStream<S, E>, ApiError> {
        // Before the watch is registered: a copy that is refused must not end what the live agent's watch confirms.
        check_epoch(&controller, session).await?;
        let AgentSession { model, unit, epoch, .. } = session;
        let bound = controller.environment.inline_settings_bytes_max();
        let shown = match from {
            Some(from) => {
                let shown = controller.store.read_at(from, move |reader| {
                    view::full_view_within(reader, model, unit, bound).map(|view| Arc::new(view.shown()))
                });
                shown.await.ok().flatten()
            }
            None => None,
        };
        let stream = controller.presence.stream(unit);
        let cursor = Cursor::new(controller, unit, from);
        let ahead = Vec::new();
        Ok(UnitStream { cursor, model, epoch, shown, ahead, removed: false, _stream: stream })
    }

    fn unit(&self) -> Uuid {
        self.cursor.agent
    }

    /// Checks that the unit exists and that this session is still its newest.
    async fn check_epoch(&self) -> Result<(), ApiError> {
        let store_generation = self.cursor.controller.store.store_generation();
        let session =
            AgentSession { model: self.model, unit: self.unit(), epoch: self.epoch, store_generation };
        check_epoch(&self.cursor.controller, session).await
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
        self.cursor.send_at(view.delta.position);
        self.shown = Some(Arc::new(view.shown()));
        self.ahead.clear();
        Ok(view.delta)
    }

    /// Returns what has changed for this unit, as one delta at the newest revision. None if the revisions ahead have changed
    /// nothing, or if the log no longer contains them and a full view must be sent.
    ///
    /// A stream that is behind does not read the documents at the last revision ahead:
    /// 1. Hundreds of agents run their first hooks, and each stream is hundreds of revisions behind.
    /// 2. To read the documents at an older revision, all later changes are undone, for each stream and each delta, and
    ///    the streams fall further behind.
    async fn delta(&mut self, last: u64) -> Result<Option<Delta>, ApiError> {
        let session = self.model.session(self.unit()).text().to_owned();
        if writes(&self.ahead, &session) {
            self.check_epoch().await?;
        }
        let shown = self.shown.clone().expect("deltas follow a full view");
        if changed_parts(&shown, &self.ahead).is_none() {
            self.cursor.pass_to(Position { revision: last, ..self.cursor.position });
            return Ok(None);
        }
        let read = self.cursor.controller.store.read_after(self.cursor.position, move |reader, commits| {
            let update = changed_parts(&shown, commits).map(|parts| delta(reader, &shown, &parts));
            let ahead = commits.partition_point(|commit| commit.revision <= last);
            (reader.revision(), update.unwrap_or_default(), writes(&commits[ahead..], &session))
        });
        let Ok((revision, update, is_session_written)) = read.await else {
            // The log dropped these revisions while the reader lagged.
            self.shown = None;
            return Ok(None);
        };
        if is_session_written {
            self.check_epoch().await?;
        }
        let position = Position { revision, ..self.cursor.position };
        if update == ViewUpdate::default() {
            self.cursor.pass_to(position);
            return Ok(None);
        }
        if let Some(shown) = &mut self.shown {
            Arc::make_mut(shown).apply(&update);
        }
        let changes = update.changes;
        if changes.is_empty() {
            self.cursor.pass_to(position);
            return Ok(None);
        }
        self.cursor.send_at(position);
        self.removed = changes.contains(&Change::Removed);
        Ok(Some(Delta { position, full: false, changes }))
    }
}

/// Whether one of the commits wrote the document.
fn writes(commits: &[CommitChanges], key: &str) -> bool {
    commits.iter().flat_map(CommitChanges::keys).any(|written| written == key)
}

/// The parts of a view that the commits may have changed; none if they change nothing in it.
fn changed_parts(shown: &view::SentView, commits: &[CommitChanges]) -> Option<AffectedParts> {
    let written = commits.iter().flat_map(|commit| commit.entries.iter());
    affected_parts(shown, written.map(|entry| (entry.key.as_str(), entry.value.as_deref())))
}

fn removed() -> ApiError {
    ApiError::new(ErrorCode::Removed, "the unit was removed")
}

impl<S: Store, E: Environment> api::Stream for UnitStream<S, E> {
    type Item = UnitWatchEvent;

    async fn next(&mut self) -> Result<UnitWatchEvent, ApiError> {
        loop {
            if self.removed {
                return Err(removed());
            }
            if self.shown.is_none() {
                let delta = Box::pin(self.full_view()).await?; // on the heap: thousands of streams wait
                self.cursor.record_sent();
                return Ok(UnitWatchEvent::Delta(delta));
            }
            if let Some(last) = self.ahead.last().map(|commit| commit.revision) {
                let delta = Box::pin(self.delta(last)).await?;
                self.ahead.clear();
                match delta {
                    Some(delta) => {
                        self.cursor.record_sent();
                        return Ok(UnitWatchEvent::Delta(delta));
                    }
                    None => continue,
                }
            }
            match self.cursor.next().await {
                CursorEvent::Revisions(revisions) => self.ahead.extend(revisions),
                CursorEvent::Compacted => self.shown = None,
                CursorEvent::Heartbeat => {
                    self.cursor.record_sent();
                    return Ok(UnitWatchEvent::Heartbeat(self.cursor.position));
                }
            }
        }
    }
}

/// The stream of one machine agent.
pub struct MachineStream<S, E> {
    cursor: Cursor<S, E>,
    model: Model,
    shown: Option<MachineView>,
    /// Whether the view may have changed. It is a field because a call of `next` may be dropped while it reads.
    must_read: bool,
}

impl<S: Store, E: Environment> MachineStream<S, E> {
    pub(crate) fn open(
        controller: Arc<Controller<S, E>>,
        model: Model,
        machine: Uuid,
    ) -> MachineStream<S, E> {
        let cursor = Cursor::new(controller, machine, None);
        MachineStream { cursor, model, shown: None, must_read: true }
    }

    /// Returns the view if it differs from the last one sent; a new position alone is no difference.
    async fn changed_view(&mut self) -> Result<Option<MachineView>, ApiError> {
        let (model, machine) = (self.model, self.cursor.agent);
        let view =
            self.cursor.controller.read(move |reader| machine_view::view(reader, model, machine)).await;
        let removed = || ApiError::new(ErrorCode::Removed, "the machine was removed");
        let mut view = view.ok_or_else(removed)?;
        view.position.store_generation = self.cursor.controller.store.store_generation();
        let is_unchanged = self
            .shown
            .as_ref()
            .is_some_and(|shown| MachineView { position: shown.position, ..view.clone() } == *shown);
        match is_unchanged {
            true => self.cursor.pass_to(view.position),
            false => self.cursor.send_at(view.position),
        }
        self.shown = Some(view.clone());
        Ok((!is_unchanged).then_some(view))
    }
}

impl<S: Store, E: Environment> api::Stream for MachineStream<S, E> {
    type Item = MachineWatchEvent;

    async fn next(&mut self) -> Result<MachineWatchEvent, ApiError> {
        loop {
            if self.must_read {
                let changed = self.changed_view().await?;
                self.must_read = false;
                if let Some(view) = changed {
                    self.cursor.record_sent();
                    return Ok(MachineWatchEvent::View(view));
                }
            }
            self.must_read = match self.cursor.next().await {
                CursorEvent::Revisions(revisions) => {
                    let last = revisions.last().map(|changes| changes.revision);
                    let revision = last.expect("a cursor returns at least one revision");
                    let position = Position { revision, ..self.cursor.position };
                    let (machine, shown) = (self.cursor.agent, self.shown.as_ref());
                    let mut changed = revisions.iter().flat_map(CommitChanges::keys);
                    let may_differ = shown.is_none_or(|shown| {
                        changed.any(|key| machine_view::is_affected(shown, machine, key))
                    });
                    match may_differ {
                        true => self.cursor.position = position,
                        false => self.cursor.pass_to(position),
                    }
                    may_differ
                }
                CursorEvent::Compacted => true,
                CursorEvent::Heartbeat => {
                    self.cursor.record_sent();
                    return Ok(MachineWatchEvent::Heartbeat(self.cursor.position));
                }
            };
        }
    }
}
