//! The controller and a caller's session with it.

use crate::authority::{self, unauthorised};
use crate::commit_times::CommitTimes;
use crate::environment::Environment;
use crate::force_timers::ForceTimers;
use crate::leases::Leases;
use crate::pending_since::PendingSince;
use crate::presence::{Presence, PresenceSnapshot};
use crate::store::{self, StoreError, RunError, Store};
use crate::tokens;
use api::error::{ApiError, ErrorCode};
use api::request::{Handle, InModel, Request, Watch, WatchRequest};
use state::documents::draft::{Draft, Reader};
use state::documents::keys::{Model, TokenHolder};
use state::documents::refusal::{Code, Refusal};
use state::terms::names::Uuid;
use state::terms::position::Position;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// One controller process: the store, the outside, and what is kept in memory only.
pub struct Controller<S, O> {
    pub store: S,
    pub environment: O,
    /// Its uuid: the name in its certificate.
    pub id: Uuid,
    pub presence: Arc<Presence>,
    pub(crate) commit_times: Arc<CommitTimes>,
    pub(crate) force_timers: Arc<ForceTimers>,
    pub(crate) leases: tokio::sync::Mutex<Leases>,
    /// There is something for the janitor to do now.
    pub(crate) sweep: tokio::sync::Notify,
}

/// One authenticated caller: handles every request that this caller may send.
pub struct Session<S, O> {
    pub controller: Arc<Controller<S, O>>,
    pub principal: TokenHolder,
    /// Name or uuid of the model that a user's requests are about; it need not exist.
    pub(crate) model: String,
    /// The hash of the token that let the caller in; none where none was needed.
    pub(crate) token_sha256: Option<String>,
}

impl<S, O> Clone for Session<S, O> {
    fn clone(&self) -> Self {
        Session {
            controller: self.controller.clone(),
            principal: self.principal.clone(),
            model: self.model.clone(),
            token_sha256: self.token_sha256.clone(),
        }
    }
}

impl<S: Store, O: Environment> Controller<S, O> {
    pub fn new(store: S, environment: O, id: Uuid) -> Arc<Controller<S, O>> {
        let now_ms = environment.monotonic_ms();
        let leases = tokio::sync::Mutex::new(Leases::new(now_ms));
        let presence = Arc::new(Presence::new(now_ms));
        let commit_times = Arc::new(CommitTimes::new(store.newest(), environment.wall_ms()));
        let (force_timers, sweep) = (Arc::default(), tokio::sync::Notify::new());
        Arc::new(Controller { store, environment, id, presence, commit_times, force_timers, leases, sweep })
    }

    /// The session of whoever holds this token.
    pub async fn session(self: &Arc<Self>, token: &str) -> Result<Session<S, O>, ApiError> {
        if !tokens::is_token(token) {
            return Err(unauthorised());
        }
        let sha256 = host::digest::sha256(token.as_bytes());
        let asked = sha256.clone();
        let principal = self.store.read(move |reader| tokens::holder(reader, &asked)).await?;
        Ok(Session { token_sha256: Some(sha256), ..self.session_for(principal) })
    }

    /// A session of a principal that needs no token: the controller's own, and the simulator's.
    pub fn session_for(self: &Arc<Self>, principal: TokenHolder) -> Session<S, O> {
        Session { controller: self.clone(), principal, model: String::new(), token_sha256: None }
    }

    /// Runs a transition; whatever kept it from being committed becomes the caller's error.
    pub async fn run<A, F>(&self, transition: F) -> Result<store::Committed<A>, ApiError>
    where
        A: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, Refusal> + Send + Sync + 'static,
    {
        match self.store.run(transition).await {
            Ok(committed) => {
                self.commit_times.note(committed.revision, self.environment.wall_ms());
                Ok(committed)
            }
            Err(RunError::Refused(refusal)) => Err(self.refusal_error(refusal).await),
            Err(RunError::TooLarge(why)) => Err(ApiError::new(ErrorCode::Invalid, why.to_string())),
            Err(RunError::Busy(_)) => {
                let text = "many others change the same thing at this moment; try again";
                Err(ApiError::new(ErrorCode::Unavailable, text))
            }
            Err(RunError::Failed(StoreError::Full)) => {
                Err(ApiError::new(ErrorCode::Unavailable, StoreError::Full.to_string()))
            }
            Err(RunError::Failed(broken @ StoreError::Broken(_))) => {
                self.environment.store_broken(&broken.to_string());
                Err(ApiError::new(ErrorCode::Unavailable, broken.to_string()))
            }
        }
    }

    /// A refusal as it is sent. Since when its blockers wait is not in the documents that a transition reads.
    pub(crate) async fn refusal_error(&self, mut refusal: Refusal) -> ApiError {
        let now_ms = self.environment.wall_ms();
        if let Some(model) = refusal.model.as_deref().copied().filter(|_| !refusal.blockers.is_empty()) {
            let (commit_times, blockers) = (self.commit_times.clone(), std::mem::take(&mut refusal.blockers));
            let dated = self.read(move |reader| {
                let pending_since = PendingSince { reader, model, commit_times: &commit_times, now_ms };
                blockers.into_iter().map(|one| pending_since.with_since(one)).collect()
            });
            refusal.blockers = dated.await;
        }
        to_api_error(refusal)
    }

    /// A machine's record is gone. It may have been the last of what holds a model that is being destroyed.
    pub(crate) async fn machine_removed(&self, model: Model, machine: Uuid) {
        self.presence.forget(machine);
        let ending = self.read(move |reader| reader.get(model.model_destruction().text()).is_some()).await;
        if ending {
            self.sweep.notify_one();
        }
    }

    /// Who is there at this moment.
    pub(crate) fn presence_snapshot(&self) -> PresenceSnapshot {
        self.presence.snapshot(self.environment.monotonic_ms(), self.environment.wall_ms())
    }

    /// Reads documents of the newest revision.
    pub async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.store.read(view).await
    }

    pub fn position(&self, revision: u64) -> Position {
        Position { store_generation: self.store.store_generation(), revision }
    }

    /// ForceTimers until it is `until_ms`, or a person is waiting for the janitor.
    pub async fn wait_for_sweep(&self, until_ms: u64) {
        let (mut asked, mut late) = (pin!(self.sweep.notified()), pin!(self.environment.sleep_until(until_ms)));
        std::future::poll_fn(move |context| {
            if asked.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            late.as_mut().poll(context)
        })
        .await;
    }

    /// ForceTimers until the store is past `revision` or it is `until_ms`; true in the first case.
    pub async fn wait_past_until(&self, revision: u64, until_ms: u64) -> bool {
        let mut past = pin!(self.store.wait_past(revision));
        let mut late = pin!(self.environment.sleep_until(until_ms));
        std::future::poll_fn(move |context| {
            if past.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            late.as_mut().poll(context).map(|()| false)
        })
        .await
    }
}

impl<S: Store, O: Environment> InModel for Session<S, O> {
    fn in_model(&self, model: &str) -> Session<S, O> {
        Session { model: model.to_owned(), ..self.clone() }
    }
}

/// A session whose principal may send the request that is being handled. The handlers are implemented on it, one per
/// request type (`handlers`).
pub struct Authorised<S, O>(Session<S, O>);

impl<S, O> Deref for Authorised<S, O> {
    type Target = Session<S, O>;

    fn deref(&self) -> &Session<S, O> {
        &self.0
    }
}

impl<S: Store, O: Environment, R: Request> Handle<R> for Session<S, O>
where
    Authorised<S, O>: Handle<R>,
{
    async fn handle(&self, request: R) -> Result<R::Answer, ApiError> {
        authority::check(&self.principal, R::CALLER)?;
        Authorised(self.clone()).handle(request).await
    }
}

impl<S: Store, O: Environment, R: WatchRequest> Watch<R> for Session<S, O>
where
    Authorised<S, O>: Watch<R>,
{
    type Stream = <Authorised<S, O> as Watch<R>>::Stream;

    async fn watch(&self, request: R) -> Result<Self::Stream, ApiError> {
        authority::check(&self.principal, R::CALLER)?;
        Authorised(self.clone()).watch(request).await
    }
}

/// A position as the store's port has it.
pub(crate) fn store_position(position: Position) -> store::Position {
    store::Position { store_generation: position.store_generation, revision: position.revision }
}

/// A refusal as it is sent.
fn to_api_error(refusal: Refusal) -> ApiError {
    let (code, expected) = match refusal.code {
        Code::NotFound => (ErrorCode::NotFound, None),
        Code::AlreadyExists => (ErrorCode::AlreadyExists, None),
        Code::NotAlive => (ErrorCode::NotAlive, None),
        Code::Invalid | Code::Ambiguous => (ErrorCode::Invalid, None),
        Code::Busy => (ErrorCode::Blocked, None),
        Code::Forbidden => (ErrorCode::Unauthorised, None),
        Code::Fenced => (ErrorCode::Fenced, None),
        Code::Forked => (ErrorCode::Forked, None),
        Code::Gap { expected } => (ErrorCode::Gap, Some(expected)),
        Code::Removed => (ErrorCode::Removed, None),
    };
    let Refusal { message, hint, blockers, .. } = refusal;
    ApiError { hint, expected, blockers, ..ApiError::new(code, message) }
}
