//! The sending loop: attach, then the outbox in order, and early what a long hook says.

use crate::outage::Call;
use crate::ports::{Charms, Clock, Memory};
use crate::unit_agent::{DiskError, End, LINK_BACKOFF, Uniter};
use api::error::{ApiError, ErrorCode};
use api::{Attach, Commit, Report, UnitAgentRequests};
use state::restore::reconciliation::{Reconciliation, Session, agree};
use state::terms::position::Position;
use state::unit::local::Event;
use state::unit::resolve::{self, Send};
use state::unit::retry;
use std::pin::pin;
use std::sync::Arc;
use tracing::Instrument;

/// What a hook says, and that it runs, is sent early only if it runs longer than this: a short hook's record says
/// it all, without a second round trip in its way.
const EARLY_MS: u64 = 100;
/// A record the controller can never take is a mistake of ours, which another version of either may not make: people
/// are shown it meanwhile, and hooks go on as without a link.
const REFUSED_RETRY_MS: u64 = 60_000;
/// Another agent's session that is still open after this long is no leftover of a crash: the watch of a dead one
/// is given up after `WATCH_SILENCE_MS`, and a third again.
const OTHER_SESSION_MS: u64 = 20_000;

impl<M: Memory, A: UnitAgentRequests, H: Charms, C: Clock> Uniter<M, A, H, C> {
    pub(crate) async fn send_loop(&self) -> End {
        let mut backoff = LINK_BACKOFF;
        loop {
            let send = {
                let now = self.now();
                resolve::next(&self.local.borrow(), self.facts.borrow().view.as_deref(), &now).send
            };
            let sent = match send {
                Send::Attach => self.attach().await,
                Send::UnrecordedReport(run) => self.tell(run).await,
                Send::Commit(sequence) => self.commit(sequence).await,
                Send::Nothing => match self.report() {
                    Early::Now(report) => self.send_report(report).await,
                    Early::Later(at_ms) => {
                        let timer = pin!(self.clock.sleep_until(at_ms));
                        tokio::select! { biased; () = self.sending.notified() => {}, () = timer => {} }
                        continue;
                    }
                    Early::Nothing => {
                        self.sending.notified().await;
                        continue;
                    }
                },
            };
            match sent {
                Ok(()) => {
                    backoff.reset();
                    self.works(Call::Send);
                }
                Err(SendError::End(end)) => return end,
                Err(SendError::Link(error)) => {
                    self.fails(Call::Send, &error);
                    self.pause(&mut backoff).await;
                }
                Err(SendError::Refused(error)) => {
                    self.fails(Call::Send, &error);
                    self.clock.sleep_until(self.clock.since_boot_ms() + REFUSED_RETRY_MS).await;
                }
            }
        }
    }

    /// Opens the session: the nonce is on disk before it is sent, and nothing runs before disk and replica agree.
    async fn attach(&self) -> Result<(), SendError> {
        let (nonce, epoch, store_generation) = {
            let local = self.local.borrow();
            (local.nonce, local.epoch, local.store_generation)
        };
        let nonce = match nonce {
            Some(nonce) => nonce,
            None => {
                let nonce = self.clock.fresh();
                self.save(vec![Event::Attaching { nonce }]).await?;
                nonce
            }
        };
        let answer = match self.api.handle(Attach { nonce, epoch, store_generation }).await {
            Ok(answer) => answer,
            Err(error) if error.code == ErrorCode::Blocked => return Err(self.other_session(error)),
            Err(error) => return Err(error.into()),
        };
        let mut forked = None;
        self.save_with(|local| {
            let session = Session {
                store_generation: answer.store_generation,
                epoch: answer.epoch,
                sequence: answer.sequence,
                digest: &answer.digest,
                replica: answer.replica.as_ref(),
            };
            match agree(local, &session, self.clock.wall_ms()) {
                Reconciliation::Consistent(events) => events,
                Reconciliation::Forked { sequence } => {
                    forked = Some(sequence);
                    Vec::new()
                }
            }
        })
        .await?;
        if let Some(sequence) = forked {
            let what = format!("record {sequence} of this folder is not the one the controller has");
            return Err(SendError::End(End::Forked(what)));
        }
        let mut facts = self.facts.borrow_mut();
        facts.epoch = Some(answer.epoch);
        facts.attached_at =
            Some(Position { store_generation: answer.store_generation, revision: answer.revision });
        // a view of another history says nothing about this one
        facts.view.take_if(|view| view.position.store_generation != answer.store_generation);
        drop(facts);
        self.doing.notify_one();
        self.shown.notify_waiters();
        Ok(())
    }

    /// Another session of this unit is open: a leftover of the agent before this one, for as long as the
    /// controller needs to see it closed; after that, another agent that lives.
    fn other_session(&self, error: ApiError) -> SendError {
        let now = self.clock.since_boot_ms();
        let since = *self.facts.borrow_mut().other_session_ms.get_or_insert(now);
        if now - since < OTHER_SESSION_MS {
            SendError::Link(error)
        } else {
            SendError::End(End::Copy(error.message))
        }
    }

    async fn commit(&self, sequence: u64) -> Result<(), SendError> {
        let found = self.local.borrow().outbox.iter().find(|record| record.sequence == sequence).cloned();
        let (Some(record), Some(epoch)) = (found, self.epoch()) else { return Ok(()) };
        let conditional = record.is_conditional();
        let operation = record.operation.clone();
        let span = tracing::debug_span!("commit", sequence, operation = %operation, run = record.run);
        let committed = match self.api.handle(Commit { epoch, record }).instrument(span.clone()).await {
            Err(error) if error.code == ErrorCode::Invalid => {
                let message = format!("the controller refuses record {sequence}: {}", error.message);
                return Err(SendError::Refused(ApiError { message, ..error }));
            }
            answer => answer?,
        };
        span.in_scope(|| {
            tracing::debug!(revision = committed.revision, refusal = committed.refusal, "acknowledged");
            committed.dropped.iter().for_each(|dropped| tracing::warn!("record {sequence}: {dropped}"));
        });
        let retry = committed.refusal.as_ref().and_then(|_| {
            let (local, now) = (self.local.borrow(), self.now());
            retry::retry_after(&local, self.facts.borrow().view.as_deref(), &now, &operation)
        });
        let answered =
            Event::Acknowledged { sequence, revision: committed.revision, refusal: committed.refusal, retry };
        if conditional {
            self.save(vec![answered]).await?;
            return Ok(());
        }
        self.acknowledge(answered).await;
        Ok(())
    }

    /// It rides on the next append; what it is about, sent again after a crash, is answered the same.
    async fn acknowledge(&self, answered: Event) {
        let _order = self.disk.lock().await;
        Arc::make_mut(&mut self.local.borrow_mut()).apply(&answered);
        self.acknowledged.borrow_mut().push(answered);
        self.doing.notify_one();
    }

    /// Tells what a run said that has no record.
    async fn tell(&self, run: u64) -> Result<(), SendError> {
        let found = self.local.borrow().unheard.iter().find(|unheard| unheard.run == run).cloned();
        let (Some(unheard), Some(epoch)) = (found, self.epoch()) else { return Ok(()) };
        let report = Report { epoch, run, said: unheard.said, executing: None, executing_for_ms: 0 };
        match self.api.handle(report).await {
            // refused once, refused for ever; the records wait behind it
            Err(error) if error.code == ErrorCode::Invalid => {
                tracing::warn!("what run {run} said is lost: {}", error.message);
            }
            told => told?,
        }
        self.facts.borrow_mut().executing_shown = None;
        self.acknowledge(Event::ReportAcknowledged { run }).await;
        Ok(())
    }

    fn epoch(&self) -> Option<u64> {
        self.facts.borrow().epoch
    }

    /// What the running hook said, and that it runs.
    fn report(&self) -> Early {
        let facts = self.facts.borrow();
        let Some(epoch) = facts.epoch else { return Early::Nothing };
        let activity = facts.executing.as_ref().map(|executing| executing.activity.clone());
        let is_shown = activity == facts.executing_shown && !(activity.is_some() && facts.resend_executing);
        if facts.unsaid.is_empty() && is_shown {
            return Early::Nothing;
        }
        let due = facts.executing.as_ref().map_or(0, |executing| executing.since_ms + EARLY_MS);
        if due > self.clock.since_boot_ms() {
            return Early::Later(due);
        }
        let run = facts.executing.as_ref().map_or(0, |executing| executing.run);
        let timer_started_ms = facts.executing.as_ref().map_or(0, |executing| executing.since_ms);
        let executing_for_ms = self.clock.since_boot_ms().saturating_sub(timer_started_ms);
        let said = facts.unsaid.report();
        Early::Now(Report { epoch, run, said, executing: activity, executing_for_ms })
    }

    async fn send_report(&self, report: Report) -> Result<(), SendError> {
        let (run, activity) = (report.run, report.executing.clone());
        let last = report.said.last().map(|said| said.call);
        let again = std::mem::take(&mut self.facts.borrow_mut().resend_executing);
        let told = self.api.handle(report).await;
        let mut facts = self.facts.borrow_mut();
        facts.resend_executing |= again && told.is_err();
        told?;
        facts.executing_shown = activity;
        if facts.executing.as_ref().is_some_and(|executing| executing.run == run)
            && let Some(last) = last
        {
            facts.unsaid.acknowledged(last);
        }
        Ok(())
    }

    pub(crate) fn works(&self, call: Call) {
        let now = self.clock.since_boot_ms();
        if let Some(told) = self.facts.borrow_mut().outage.ended(call, now) {
            tracing::info!("{told}");
        }
    }

    pub(crate) fn fails(&self, call: Call, error: &ApiError) {
        let now = self.clock.since_boot_ms();
        if let Some(told) = self.facts.borrow_mut().outage.failed(call, error, now) {
            tracing::warn!("{told}");
        }
    }
}

enum Early {
    Now(Report),
    Later(u64),
    Nothing,
}

/// What an error means to this loop.
pub(crate) enum SendError {
    /// Try again later.
    Link(ApiError),
    /// The same again will be refused again.
    Refused(ApiError),
    End(End),
}

impl From<ApiError> for SendError {
    fn from(error: ApiError) -> SendError {
        match error.code {
            ErrorCode::Fenced => SendError::End(End::Copy(error.message)),
            ErrorCode::Forked => SendError::End(End::Forked(error.message)),
            ErrorCode::Removed => SendError::End(End::Finished),
            ErrorCode::Gap => SendError::End(End::Reattach(error.message)),
            ErrorCode::Unreachable
            | ErrorCode::Unavailable
            | ErrorCode::Invalid
            | ErrorCode::NotFound
            | ErrorCode::AlreadyExists
            | ErrorCode::NotAlive
            | ErrorCode::Blocked
            | ErrorCode::Unauthorised
            | ErrorCode::Compacted
            | ErrorCode::Broken => SendError::Link(error),
        }
    }
}

impl From<DiskError> for SendError {
    fn from(failed: DiskError) -> SendError {
        SendError::End(End::Disk(failed))
    }
}
