//! The controller process and its authenticated callers.
//!
//! [`Controller`] owns the store, the environment and all state that is kept in memory only; it runs transitions and
//! converts their failures to errors of the API. An [`AuthenticatedCaller`] handles the requests of one caller; each request is
//! authorised before its handler runs (S13). `server` authenticates callers by their tokens; the simulator makes them directly.

use crate::archive_retention::ArchiveRetention;
use crate::authorisation::{self, unauthorised};
use crate::commit_times::CommitTimes;
use crate::debug_log_growth::{LogGrant, LogGrowth};
use crate::environment::Environment;
use crate::force_timers::ForceTimers;
use crate::full_connections::FullConnections;
use crate::leases::Leases;
use crate::presence::{Presence, PresenceSnapshot};
use crate::recent_claims::RecentClaims;
use crate::status::StatusCaches;
use crate::store::shared_presence::StatementReceiver;
use crate::store::{self, RunError, Store, StoreError, unavailable};
use crate::tokens;
use crate::urgent_models::UrgentModels;
use crate::watch_progress::{CATCH_UP_MS, WatchProgresses};
use api::error::{ApiError, ErrorCode};
use api::request::{Handle, InModel, Request, Watch, WatchRequest};
use state::documents::draft::{Draft, Reader, Revision};
use state::documents::prelude::{Model, TokenHolder};
use state::documents::refusal::Refusal;
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::terms::refusal::RefusalReason;
use state::why::pending_since::PendingSince;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

/// One controller process: the store, the environment, and the state that is kept in memory only.
pub struct Controller<S, E> {
    /// The store of all models.
    pub store: S,
    /// Clocks, randomness and charm archives.
    pub environment: E,
    /// The controller's uuid, which is the name in its certificate.
    pub id: Uuid,
    /// The presence of all agents.
    pub presence: Arc<Presence>,
    /// How far the watches of all agents have got.
    pub(crate) watch_progresses: Arc<WatchProgresses>,
    pub(crate) commit_times: Arc<CommitTimes>,
    pub(crate) force_timers: Arc<ForceTimers>,
    pub(crate) leases: Leases,
    /// The claims of leadership that were decided since the last commit.
    pub(crate) recent_claims: RecentClaims,
    pub(crate) archives: ArchiveRetention,
    known_tokens: tokens::KnownTokens,
    /// How much the debug logs have grown since they were last measured.
    pub(crate) log_growth: LogGrowth,
    /// What was computed for the last status of each model.
    pub(crate) status_caches: StatusCaches,
    /// The models for which the janitor is woken before its next regular sweep.
    pub(crate) urgent_models: UrgentModels,
    /// Whether the server has as many connections as it may have.
    pub(crate) full_connections: Arc<FullConnections>,
}

/// One authenticated caller. It handles every request that the caller may send.
pub struct AuthenticatedCaller<S, E> {
    /// The controller that handles the requests.
    pub controller: Arc<Controller<S, E>>,
    /// Whom the token authenticates.
    pub principal: TokenHolder,
    /// The name or uuid of the model that a user's requests refer to. The model need not exist.
    pub(crate) model: String,
    /// The hash of the caller's token; none if the caller was made without a token.
    pub(crate) token_sha256: Option<String>,
}

impl<S, E> Clone for AuthenticatedCaller<S, E> {
    fn clone(&self) -> Self {
        AuthenticatedCaller {
            controller: self.controller.clone(),
            principal: self.principal.clone(),
            model: self.model.clone(),
            token_sha256: self.token_sha256.clone(),
        }
    }
}

impl<S: Store, E: Environment> Controller<S, E> {
    /// Starts a controller on a store. All agents have the full time to report, and all leases of leaders start again.
    pub fn new(store: S, environment: E, id: Uuid) -> Arc<Controller<S, E>> {
        let now_ms = environment.monotonic_ms();
        let leases = Leases::new(now_ms);
        let presence = Arc::new(Presence::new(now_ms));
        let commit_times = Arc::new(CommitTimes::new(store.newest_revision(), environment.wall_ms()));
        let (force_timers, log_growth, urgent_models) =
            (Arc::default(), LogGrowth::default(), UrgentModels::default());
        let controller = Arc::new(Controller {
            store,
            environment,
            id,
            presence,
            watch_progresses: Arc::default(),
            commit_times,
            force_timers,
            leases,
            recent_claims: RecentClaims::default(),
            archives: ArchiveRetention::default(),
            known_tokens: tokens::KnownTokens::default(),
            log_growth,
            status_caches: StatusCaches::default(),
            urgent_models,
            full_connections: Arc::default(),
        });
        if let Some(statements) = controller.store.statements() {
            controller.presence.share();
            let receiver: Weak<dyn StatementReceiver> = Arc::<Controller<S, E>>::downgrade(&controller);
            statements.follow(receiver);
        }
        controller
    }

    /// Returns the holder of this token as a caller. An error if the token is unknown.
    pub async fn authenticate(self: &Arc<Self>, token: &str) -> Result<AuthenticatedCaller<S, E>, ApiError> {
        if !tokens::is_token(token) {
            return Err(unauthorised());
        }
        let (sha256, newest) = (host::digest::sha256(token.as_bytes()), self.store.confirmed_newest().await);
        let principal = match self.known_tokens.holder(&sha256, newest) {
            Some(principal) => principal,
            None => {
                let hash = sha256.clone();
                let principal = self.store.read(move |reader| tokens::holder(reader, &hash)).await?;
                self.known_tokens.insert(sha256.clone(), principal.clone(), newest);
                principal
            }
        };
        Ok(AuthenticatedCaller { token_sha256: Some(sha256), ..self.caller(principal) })
    }

    /// Returns a caller without a token: for the controller itself and the simulator.
    pub fn caller(self: &Arc<Self>, principal: TokenHolder) -> AuthenticatedCaller<S, E> {
        AuthenticatedCaller { controller: self.clone(), principal, model: String::new(), token_sha256: None }
    }

    /// Runs a transition. If it is not committed, the reason is returned as an error of the API. If the store is
    /// broken, the process ends.
    pub async fn run<A, F>(&self, transition: F) -> Result<store::Committed<A>, ApiError>
    where
        A: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, Refusal> + Send + Sync + 'static,
    {
        match self.store.run(transition).await {
            Ok(committed) => {
                self.commit_times.record(committed.revision, self.environment.wall_ms());
                Ok(committed)
            }
            Err(RunError::Refused(refusal)) => Err(self.refusal_error(refusal).await),
            Err(RunError::TooLarge(bound)) => Err(RefusalReason::from(bound).into()),
            Err(RunError::Busy(_)) => {
                let text =
                    "cannot commit the change: too many concurrent changes of the same entity; try again";
                Err(ApiError::new(ErrorCode::Unavailable, text))
            }
            Err(RunError::Failed(StoreError::Full)) => {
                Err(ApiError::new(ErrorCode::Unavailable, StoreError::Full.to_string())
                    .hint("free disk space on the controller's host, then try again"))
            }
            Err(RunError::Failed(unavailable @ StoreError::CannotOpen(_))) => {
                Err(ApiError::new(ErrorCode::Unavailable, unavailable.to_string())
                    .hint("try again; if it persists, raise the limit of open files of the controller"))
            }
            Err(RunError::Failed(StoreError::Unavailable(outage))) => {
                let hint = outage.hint();
                let error = StoreError::Unavailable(outage);
                Err(ApiError::new(ErrorCode::Unavailable, error.to_string()).hint(hint))
            }
            Err(RunError::Failed(StoreError::Damaged(documents))) => {
                Err(unavailable::damage_error(&documents))
            }
            Err(RunError::Failed(broken @ StoreError::Broken(_))) => {
                self.environment.on_store_failure(&broken.to_string());
                Err(ApiError::new(ErrorCode::Unavailable, broken.to_string()))
            }
        }
    }

    /// Converts a refusal to an error of the API. Adds the time since which each blocker waits, which a transition
    /// cannot compute, because commit times are not stored.
    pub(crate) async fn refusal_error(&self, mut refusal: Refusal) -> ApiError {
        let now_ms = self.environment.wall_ms();
        if let Some(model) = refusal.model.as_deref().copied().filter(|_| !refusal.blockers.is_empty()) {
            let (commit_times, blockers) = (self.commit_times.clone(), std::mem::take(&mut refusal.blockers));
            let completed = self.read(move |reader| {
                let commit_time_ms = |revision| commit_times.time(revision);
                let pending_since = PendingSince { reader, model, commit_time_ms: &commit_time_ms, now_ms };
                blockers.into_iter().map(|blocker| pending_since.with_since(blocker)).collect()
            });
            refusal.blockers = completed.await;
        }
        refusal.into()
    }

    /// Counts the bytes of log lines that were committed of a message. Wakes the janitor if the debug log of the model
    /// has grown by too much since it was last measured.
    pub(crate) fn count_log_bytes(&self, grant: LogGrant, bytes: Option<u64>) {
        let model = grant.model;
        if self.log_growth.record(grant, bytes) {
            self.urgent_models.add(model.0);
        }
    }

    /// Cleans up after a machine was removed. Wakes the janitor if the model is being destroyed: this machine may have
    /// been the last entity that blocked it.
    pub(crate) async fn finish_machine_removal(&self, model: Model, machine: Uuid) {
        self.presence.forget(machine);
        let destroyed = self.read(move |reader| reader.get(model.model_destruction().text()).is_some()).await;
        if destroyed {
            self.urgent_models.add(model.0);
        }
    }

    /// Copies the presence of all agents at this moment.
    pub(crate) fn presence_snapshot(&self) -> PresenceSnapshot {
        self.presence.snapshot(self.environment.monotonic_ms(), self.environment.wall_ms())
    }

    /// Returns what copies the presence of all agents, for a view. With several controllers the view calls it after its documents
    /// are fixed: whoever sees the commit of an attach must find its boot. A run that was executed before still counts: its
    /// record may not be in these documents.
    pub(crate) fn presence_when_read(&self) -> impl FnOnce() -> PresenceSnapshot + Send + use<S, E> {
        let (now_ms, wall_ms) = (self.environment.monotonic_ms(), self.environment.wall_ms());
        let presence = self.presence.clone();
        let before = presence.before_read(now_ms, wall_ms);
        move || presence.snapshot_when_read(before)
    }

    /// Reads documents of the newest revision. It never waits for a writer.
    pub async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.store.read(view).await
    }

    /// Reads like [`Controller::read`], without the documents that are damaged on disk. Only for work that must
    /// continue without them and that concludes nothing from their absence.
    pub async fn read_available<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.store.read_available(view).await.0
    }

    /// Returns the position of a revision in the current store generation.
    pub fn position(&self, revision: u64) -> Position {
        Position { store_generation: self.store.store_generation(), revision }
    }

    /// Returns the position up to which the view of an agent at `view` is current. None if its watch cannot confirm that,
    /// also not within [`CATCH_UP_MS`].
    pub(crate) async fn confirm_view(&self, agent: Uuid, view: Option<Position>) -> Option<Position> {
        let (view, now_ms) = (view?, self.environment.monotonic_ms());
        let newest = self.position(self.store.confirmed_newest().await);
        let mut confirmed = pin!(self.watch_progresses.confirm(agent, view, newest, now_ms));
        let mut timeout = pin!(self.environment.sleep_until(now_ms + CATCH_UP_MS));
        std::future::poll_fn(move |context| {
            if let Poll::Ready(confirmed) = confirmed.as_mut().poll(context) {
                return Poll::Ready(confirmed);
            }
            timeout.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    /// Returns when a revision was committed, as far as this controller knows, by the wall clock; none if it has not recorded
    /// that yet.
    pub fn commit_time_ms(&self, revision: Revision) -> Option<i64> {
        self.commit_times.time(revision)
    }

    /// Records when the commits of other controllers of a shared store arrive here, as long as it serves: documents have
    /// only revisions.
    pub async fn follow_commits(&self) {
        let mut newest = self.store.newest_revision();
        loop {
            self.commit_times.record(newest, self.environment.wall_ms());
            newest = self.store.wait_past(newest).await;
        }
    }

    /// Waits until a request has notified the janitor, at most until `until_ms` on the monotonic clock.
    pub async fn wait_for_sweep(&self, until_ms: u64) {
        let mut notified = pin!(self.urgent_models.added());
        let mut timeout = pin!(self.environment.sleep_until(until_ms));
        std::future::poll_fn(move |context| {
            if notified.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            timeout.as_mut().poll(context)
        })
        .await;
    }

    /// Waits until the store has a revision after `revision`, at most until `until_ms` on the monotonic clock. Returns
    /// false on a timeout.
    pub async fn wait_past_until(&self, revision: u64, until_ms: u64) -> bool {
        let mut past = pin!(self.store.wait_past(revision));
        let mut timeout = pin!(self.environment.sleep_until(until_ms));
        std::future::poll_fn(move |context| {
            if past.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            timeout.as_mut().poll(context).map(|()| false)
        })
        .await
    }
}

impl<S: Store, E: Environment> InModel for AuthenticatedCaller<S, E> {
    fn in_model(&self, model: &str) -> AuthenticatedCaller<S, E> {
        AuthenticatedCaller { model: model.to_owned(), ..self.clone() }
    }
}

/// A caller whose principal is authorised for the current request. The handlers are implemented on this type, one per
/// request type (`handlers`), so that none can run without authorisation.
pub struct Authorised<S, E>(AuthenticatedCaller<S, E>);

impl<S, E> Authorised<S, E> {
    /// A caller that was authorised for the request that it makes.
    pub(crate) fn of(caller: &AuthenticatedCaller<S, E>) -> Authorised<S, E> {
        Authorised(caller.clone())
    }
}

impl<S, E> Deref for Authorised<S, E> {
    type Target = AuthenticatedCaller<S, E>;

    fn deref(&self) -> &AuthenticatedCaller<S, E> {
        &self.0
    }
}

impl<S: Store, E: Environment, R: Request> Handle<R> for AuthenticatedCaller<S, E>
where
    Authorised<S, E>: Handle<R>,
{
    async fn handle(&self, request: R) -> Result<R::Response, ApiError> {
        authorisation::check(&self.principal, R::CALLER)?;
        Authorised(self.clone()).handle(request).await
    }
}

impl<S: Store, E: Environment, R: WatchRequest> Watch<R> for AuthenticatedCaller<S, E>
where
    Authorised<S, E>: Watch<R>,
{
    type Stream = <Authorised<S, E> as Watch<R>>::Stream;

    async fn watch(&self, request: R) -> Result<Self::Stream, ApiError> {
        authorisation::check(&self.principal, R::CALLER)?;
        Authorised(self.clone()).watch(request).await
    }
}
