//! Handlers of the requests of unit agents.
//!
//! The unit is always the one of the caller's token (S14). Each transition checks the epoch of the agent's session, so that a
//! superseded agent cannot write (S16). Every request is a sign of life of the agent (`presence`).

use crate::archive_file::ArchiveFile;
use crate::authorisation;
use crate::callers::{AuthenticatedCaller, Authorised};
use crate::environment::{Environment, Uuids};
use crate::recent_claims::DecidedClaim;
use crate::request_dispatch::parse_body;
use crate::store::leader_leases::StoreLeases;
use crate::store::{Compacted, Store};
use crate::watches::UnitStream;
use api::error::{ApiError, ErrorCode};
use api::request::{Method, Request, Route};
use api::{
    Archive, Attach, Claim, ClaimResponse, Commit, FetchArchive, FetchResource, Handle, Report, Watch,
    WatchUnit, WriteLeaderSettings,
};
use state::agents::record_validation::{EarlyReport, Valid};
use state::agents::session::{self, AgentSession, GrantedSession};
use state::documents::application::{may_read_archive, may_read_resource};
use state::documents::draft::{self, Draft, Reader, read};
use state::documents::prelude::{GLOBAL, Model};
use state::documents::refusal::Refusal;
use state::lifecycle::creation::Creation;
use state::lifecycle::leadership::{self, GrantedLease};
use state::restore::resync;
use state::status::presence::ExecutingRun;
use state::status::shared_presence::BootChange;
use state::terms::leader_settings::LeaderSettingsView;
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::position::Committed;
use state::terms::refusal::EntityKind;
use state::transitions::run_reports::{RefusedRecord, log_line_count, record_line_count};
use state::transitions::{leader_claim, leader_settings, record_commit};
use state::unit::record::{CommitOutcome, DroppedWrite, Record};
use state::unit::relation_view::{BagRequest, BagView};
use state::views::requested_bag;
use std::io;
use std::sync::Arc;
use tracing::Instrument;

/// The delay of the response to a refused scope entry. An entry is refused after a lost race, and the agent's view may
/// not show the reason yet; without the delay the agent would repeat the request immediately.
pub const REFUSED_ENTRY_DELAY_MS: u64 = 1_000;

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Returns the calling unit, and records that its agent has sent a request.
    ///
    /// # Errors
    /// If the token is not that of a unit.
    pub(super) fn authenticate_unit(&self) -> Result<(Model, Uuid), ApiError> {
        let (model, unit) = authorisation::unit(&self.principal)?;
        self.controller.presence.record_request(unit, self.controller.environment.monotonic_ms());
        Ok((model, unit))
    }

    /// Returns the session of this epoch, and records that the agent has sent a request.
    ///
    /// # Errors
    /// If the token is not that of a unit.
    pub(super) fn agent_session(&self, epoch: u64) -> Result<AgentSession, ApiError> {
        let (model, unit) = self.authenticate_unit()?;
        let store_generation = self.controller.store.store_generation();
        Ok(AgentSession { model, unit, epoch, store_generation })
    }

    /// Applies a record, preceded by the batches of its resync if it has one.
    async fn apply(
        &self,
        session: AgentSession,
        record: Record,
    ) -> Result<Committed<CommitOutcome>, ApiError> {
        let record = Arc::new(Valid::record(record)?);
        let dropped = self.resync(session, &record).await?;
        let AgentSession { model, unit, .. } = session;
        let ids = Uuids::new(&self.controller.environment);
        let now_ms = self.controller.environment.wall_ms();
        let grant = self.controller.log_growth.grant(model, unit, record_line_count(&record));
        let unopened = self.unopened(model, unit, &record.writes.secrets);
        let transition = move |draft: &mut Draft<'_>| {
            let creation = Creation { now_ms, ids: &mut ids.generator() };
            let outcome = record_commit::commit(draft, session, &record, unopened, grant.lines, creation)?;
            Ok((outcome, draft.bytes_written(&model.logs_of(unit))))
        };
        let committed = self.controller.run(transition).await;
        let log_bytes = committed.as_ref().ok().map(|committed| committed.answer.1);
        self.controller.count_log_bytes(grant, log_bytes);
        let Committed { answer: (mut outcome, _), revision } = committed?;
        outcome.dropped.splice(..0, dropped);
        Ok(Committed { answer: outcome, revision })
    }

    /// Applies all batches of a resync record. Does nothing for other records. Returns the writes that were dropped.
    async fn resync(
        &self,
        session: AgentSession,
        record: &Arc<Valid<Record>>,
    ) -> Result<Vec<DroppedWrite>, ApiError> {
        let now_ms = self.controller.environment.wall_ms();
        let mut next = record.resync_local.as_ref().map(|_| resync::ResyncProgress::default());
        let mut all_dropped = Vec::new();
        while let Some(progress) = next {
            let (record, ids) = (record.clone(), Uuids::new(&self.controller.environment));
            let transition = move |draft: &mut Draft<'_>| {
                let batch = resync::ResyncBatch { record: &record, position: &progress };
                let creation = Creation { now_ms, ids: &mut ids.generator() };
                resync::apply_batch(draft, session, batch, creation)
            };
            let (after, dropped) = self.controller.run(transition).await?.answer;
            all_dropped.extend(dropped);
            next = after;
        }
        Ok(all_dropped)
    }
}

/// The error for an archive that does not exist and for one that the caller may not read: they are the same (S15).
fn no_archive(sha256: &str) -> ApiError {
    Refusal::not_found(EntityKind::CharmArchive, sha256).into()
}

/// As [`no_archive`], for the file of a resource.
fn no_resource(sha256: &str) -> ApiError {
    Refusal::not_found(EntityKind::ResourceFile, sha256).into()
}

impl<S: Store, E: Environment> Handle<Attach> for Authorised<S, E> {
    async fn handle(&self, attach: Attach) -> Result<Committed<GrantedSession>, ApiError> {
        let (model, unit) = authorisation::unit(&self.principal)?;
        attach.validate()?;
        let presence = &self.controller.presence;
        // The stream of an agent that died is closed after a timeout; a new agent repeats its request until then.
        let is_connected = presence.is_streaming(unit);
        // Whoever sees the commit of the attach must find its boot, by which a unit that has to run start again is not
        // idle. The boot is therefore recorded before, together with the request, and taken back after a refusal.
        let boot = attach.boot.clone();
        presence.record_request(unit, self.controller.environment.monotonic_ms());
        self.controller.state_boots(unit, BootChange::Attached(boot.clone())).await?;
        let generation = self.controller.store.store_generation();
        let transition = move |draft: &mut Draft<'_>| {
            session::attach(draft, model, unit, attach.clone(), generation, is_connected)
        };
        let attached = self.controller.run(transition).await;
        let change = if attached.is_ok() { BootChange::Accepted(boot) } else { BootChange::Refused(boot) };
        let finished = self.controller.state_boots(unit, change).await;
        let attached = attached?;
        finished?; // the agent repeats the attach with the same nonce
        self.controller.presence.set_executing(unit, None, self.controller.environment.monotonic_ms());
        Ok(attached)
    }
}

impl<S: Store, E: Environment> Handle<Commit> for Authorised<S, E> {
    async fn handle(&self, commit: Commit) -> Result<Committed<CommitOutcome>, ApiError> {
        let Commit { epoch, record } = commit;
        let session = self.agent_session(epoch)?;
        let unit = session.unit;
        let (sequence, run) = (record.sequence, record.run);
        let enters = matches!(record.operation, Operation::EnterScope { .. });
        let span = tracing::debug_span!("commit", %unit, sequence, operation = %record.operation, run);
        let committed = self.apply(session, record).instrument(span.clone()).await;
        span.in_scope(|| match &committed {
            Ok(committed) => tracing::debug!(revision = committed.revision, "applied"),
            Err(error) => tracing::debug!("not applied: {error}"),
        });
        if let Err(ApiError { code: ErrorCode::Invalid, reason: Some(reason), .. }) = &committed {
            let (reason, now_ms) = (reason.clone(), self.controller.environment.wall_ms());
            let note = move |draft: &mut Draft<'_>| {
                let refused = RefusedRecord { sequence, run, reason: &reason };
                record_commit::record_refused(draft, session, refused, now_ms)
            };
            self.controller.run(note).await?;
        }
        self.controller.presence.clear_executing(unit, run);
        if enters && committed.as_ref().is_ok_and(|committed| committed.answer.refusal.is_some()) {
            let environment = &self.controller.environment;
            environment.sleep_until(environment.monotonic_ms() + REFUSED_ENTRY_DELAY_MS).await;
        }
        committed
    }
}

impl<S: Store, E: Environment> Handle<Report> for Authorised<S, E> {
    async fn handle(&self, report: Report) -> Result<(), ApiError> {
        let Report { epoch, run, reports, executing, executing_for_ms } = report;
        let session = self.agent_session(epoch)?;
        let AgentSession { model, unit, .. } = session;
        let early = EarlyReport { run, reports, executing: executing.clone(), executing_for_ms };
        let early = Valid::report(early)?;
        let now_ms = self.controller.environment.wall_ms();
        let grant = self.controller.log_growth.grant(model, unit, log_line_count(&early.reports));
        let transition = move |draft: &mut Draft<'_>| {
            record_commit::apply_report(draft, session, &early, grant.lines, now_ms)?;
            let since_ms = record_commit::executing_since(draft, session, &early, now_ms);
            Ok((draft.bytes_written(&model.logs_of(unit)), since_ms))
        };
        let stored = self.controller.run(transition).await;
        let log_bytes = stored.as_ref().ok().map(|stored| stored.answer.0);
        self.controller.count_log_bytes(grant, log_bytes);
        let (_, since_ms) = stored?.answer;
        let executing = executing.map(|activity| ExecutingRun { run, activity, since_ms });
        self.controller.presence.set_executing(unit, executing, self.controller.environment.monotonic_ms());
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<Claim> for Authorised<S, E> {
    async fn handle(&self, claim: Claim) -> Result<ClaimResponse, ApiError> {
        let Claim { epoch, release, view } = claim;
        let session = self.agent_session(epoch)?;
        let lease = self.claim(session, release).await?;
        let current_to = self.controller.confirm_view(session.unit, view).await;
        Ok(ClaimResponse { lease, current_to })
    }
}

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Claims, renews or releases the leadership for the unit of a session.
    async fn claim(&self, session: AgentSession, release: bool) -> Result<Option<GrantedLease>, ApiError> {
        let AgentSession { model, unit, .. } = session;
        let (store, recent) = (&self.controller.store, &self.controller.recent_claims);
        let of_unit = move |reader: &dyn Reader| read(reader, &model.unit(unit)).map(|doc| doc.application);
        let application = match recent.decided(session, store.confirmed_newest().await) {
            Some(decided) => Some(decided.application),
            None => self.controller.read(of_unit).await,
        };
        // The lock is held until the transaction is committed: see the race described in `leases`. The claim of a unit
        // that does not exist is refused.
        let leases = &self.controller.leases;
        let lock = leases.lock(application.unwrap_or(unit)).await;
        let now_ms = self.controller.environment.monotonic_ms();
        let claim = move |draft: &mut Draft<'_>, may_take_over: bool| {
            leader_claim::answer(draft, session, release, may_take_over)
        };
        // A unit that does not hold the lease that the store keeps is told that it does not lead, whatever the documents say.
        let shared = store.leader_leases().zip(application);
        if shared.is_some() && !release {
            // Before the lease is touched: a claim of an older session must neither renew nor end that of the newest one.
            self.require_claimant(session).await?;
        }
        let holds_lease = match &shared {
            Some((leases, application)) if !release => self.hold_lease(leases, session, *application).await?,
            _ => false,
        };
        // Most claims change nothing, so they are decided by a read, which does not wait for other writes, and not even by
        // that if nothing was committed since the last one.
        let newest = store.confirmed_newest().await;
        let unchanged = match recent.decided(session, newest).filter(|_| !release) {
            Some(decided) => Some(decided.lease),
            None => {
                let decide =
                    move |reader: &dyn Reader| draft::without_writes(reader, |draft| claim(draft, false));
                let decided = self.controller.read(decide).await;
                if let (Some(lease), Some(application), false) = (decided, application, release) {
                    recent.insert(session, DecidedClaim { application, lease }, newest);
                }
                decided
            }
        };
        let may_take_over = match &shared {
            Some(_) => holds_lease,
            None => application.is_some_and(|application| leases.has_expired(application, now_ms)),
        };
        let claimed = match unchanged {
            _ if shared.is_some() && !release && !holds_lease => Ok(None),
            Some(claimed) if claimed.is_some() || !may_take_over => Ok(claimed),
            Some(_) | None => {
                let held = lock.clone();
                let transition = move |draft: &mut Draft<'_>| {
                    let _held_until_committed = &held;
                    claim(draft, may_take_over)
                };
                self.controller.run(transition).await.map(|committed| committed.answer)
            }
        };
        let has_ended = match &claimed {
            Ok(None) => release || holds_lease,
            // Its holder may have received that it leads: the lease ends by itself.
            Ok(Some(_)) | Err(_) => false,
        };
        if let Some((leases, application)) = shared.filter(|_| has_ended) {
            leases.release(application, unit).await;
        }
        if let (Ok(Some(_)), Some(application)) = (&claimed, application) {
            leases.renew(application, now_ms);
        }
        claimed
    }

    /// Refuses the claim of a session that is not the newest one of its unit, and of a Dead unit.
    async fn require_claimant(&self, session: AgentSession) -> Result<(), ApiError> {
        let checked = self.controller.read(move |reader| {
            let mut draft = Draft::new(reader); // read only: it is never committed
            leader_claim::require_claimant(&mut draft, session)
        });
        match checked.await {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self.controller.refusal_error(refusal).await),
        }
    }

    /// Takes the lease of an application for the unit of a session, or renews it. Returns whether the unit holds it.
    async fn hold_lease(
        &self,
        leases: &StoreLeases,
        session: AgentSession,
        application: Uuid,
    ) -> Result<bool, ApiError> {
        let AgentSession { model, unit, .. } = session;
        let other = leases.holder(application).filter(|holder| *holder != unit);
        if let Some(other) = other
            && self.controller.read(move |reader| leadership::can_lead(reader, model, other)).await
        {
            return Ok(false);
        }
        leases.take(application, unit, other).await.map_err(|outage| {
            let hint = outage.hint();
            ApiError::new(ErrorCode::Unavailable, format!("cannot renew the leadership: {outage}")).hint(hint)
        })
    }
}

impl<S: Store, E: Environment> Handle<WriteLeaderSettings> for Authorised<S, E> {
    async fn handle(&self, request: WriteLeaderSettings) -> Result<LeaderSettingsView, ApiError> {
        let WriteLeaderSettings { epoch, write } = request;
        let session = self.agent_session(epoch)?;
        let transition = move |draft: &mut Draft<'_>| leader_settings::write(draft, session, &write);
        Ok(self.controller.run(transition).await?.answer)
    }
}

impl<S: Store, E: Environment> Handle<BagRequest> for Authorised<S, E> {
    async fn handle(&self, request: BagRequest) -> Result<Option<BagView>, ApiError> {
        let (model, unit) = self.authenticate_unit()?;
        let (at, earlier) = (request.position, request.clone());
        let store = &self.controller.store;
        let bag = store.read_at(at, move |reader| requested_bag::bag(reader, model, unit, &earlier)).await;
        match bag {
            Ok(bag) => Ok(bag),
            // The change log no longer reaches that position: the newest state is returned.
            Err(Compacted) => {
                Ok(store.read(move |reader| requested_bag::bag(reader, model, unit, &request)).await)
            }
        }
    }
}

impl<S: Store, E: Environment> Handle<FetchArchive> for Authorised<S, E> {
    async fn handle(&self, fetch: FetchArchive) -> Result<Archive, ApiError> {
        let sha256 = self.requested_archive(fetch).await?;
        let read = self.controller.environment.stored_file(&sha256).await;
        self.found(&sha256, read).map(Archive)
    }
}

impl<S: Store, E: Environment> Handle<FetchResource> for Authorised<S, E> {
    async fn handle(&self, fetch: FetchResource) -> Result<Archive, ApiError> {
        let sha256 = self.requested_resource(fetch).await?;
        let read = self.controller.environment.stored_file(&sha256).await;
        self.found(&sha256, read).map(Archive)
    }
}

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Returns the file that the unit has requested; an error if the controller lacks it. The status of the unit names
    /// that.
    fn found<T>(&self, sha256: &str, file: Option<T>) -> Result<T, ApiError> {
        let (_, unit) = self.authenticate_unit()?;
        let missing = file.is_none().then(|| sha256.to_owned());
        self.controller.presence.set_missing_file(unit, missing);
        file.ok_or_else(|| missing_file(sha256))
    }

    /// Returns the digest of an archive that the unit may read.
    async fn requested_archive(&self, fetch: FetchArchive) -> Result<String, ApiError> {
        let (model, unit) = self.authenticate_unit()?;
        let wanted = fetch.sha256.clone();
        let may_read = move |reader: &dyn Reader| {
            may_read_archive(reader, model, unit, &wanted) && is_registered(reader, &wanted)
        };
        match self.controller.read(may_read).await {
            true => Ok(fetch.sha256),
            false => Err(no_archive(&fetch.sha256)),
        }
    }

    /// Returns the digest of the file of a resource that the unit may read.
    async fn requested_resource(&self, fetch: FetchResource) -> Result<String, ApiError> {
        let (model, unit) = self.authenticate_unit()?;
        let FetchResource { resource, sha256 } = fetch;
        let wanted = sha256.clone();
        let may_read = move |reader: &dyn Reader| {
            may_read_resource(reader, model, unit, &resource, &wanted) && is_registered(reader, &wanted)
        };
        match self.controller.read(may_read).await {
            true => Ok(sha256),
            false => Err(no_resource(&sha256)),
        }
    }
}

impl<S: Store, E: Environment> AuthenticatedCaller<S, E> {
    /// Handles [`FetchArchive`] and [`FetchResource`] without reading the file: the server sends it piece by piece.
    pub(crate) async fn open_requested(&self, route: Route, body: Vec<u8>) -> Result<ArchiveFile, ApiError> {
        authorisation::check(&self.principal, FetchArchive::CALLER)?;
        let caller = Authorised::of(self);
        let sha256 = match route == FetchResource::ROUTE {
            true => caller.requested_resource(parse_body(Method::Post, body)?).await?,
            false => caller.requested_archive(parse_body(Method::Post, body)?).await?,
        };
        match self.controller.environment.open_stored_file(&sha256).await {
            Ok(file) => caller.found(&sha256, file),
            Err(error) => Err(unreadable_file(&sha256, &error)),
        }
    }
}

impl<S: Store, E: Environment> Watch<WatchUnit> for Authorised<S, E> {
    type Stream = UnitStream<S, E>;

    async fn watch(&self, watch: WatchUnit) -> Result<UnitStream<S, E>, ApiError> {
        let session = self.agent_session(watch.epoch)?;
        UnitStream::open(self.controller.clone(), session, watch.from).await
    }
}

/// Whether a file is registered in the store: no other file of the folder is read.
fn is_registered(reader: &dyn Reader, sha256: &str) -> bool {
    reader.get(GLOBAL.archive(sha256).text()).is_some()
}

/// The error of a file that may be there. The agent tries again.
fn unreadable_file(sha256: &str, error: &io::Error) -> ApiError {
    tracing::warn!("cannot open the file {sha256} of the archives: {error}");
    ApiError::new(ErrorCode::Unavailable, format!("cannot open file {sha256} on the controller: {error}"))
}

fn missing_file(sha256: &str) -> ApiError {
    let text = format!("cannot read file {sha256}: it is missing or damaged on the controller");
    ApiError::new(ErrorCode::Unavailable, text)
        .hint("deploy, refresh or attach the same file again to upload a new copy")
}
