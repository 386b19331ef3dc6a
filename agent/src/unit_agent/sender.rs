//! The sender loop: it attaches to the controller, then sends the records of the outbox in order.
//!
//! Reports of a hook that runs for a while are also sent early, before the hook's record. A record is
//! acknowledged before the next one is sent.

use crate::outage::Channel;
use crate::ports::{Charms, Clock, UnitMemory};
use crate::unit_agent::{DiskError, LINK_BACKOFF, UnitAgent, UnitAgentEnd};
use api::error::{ApiError, ErrorCode};
use api::{Attach, Commit, Report, UnitAgentRequests};
use state::restore::reconciliation::{Reconciliation, reconcile};
use state::terms::position::{Committed, Position};
use state::unit::local::Event;
use state::unit::record::CommitOutcome;
use state::unit::resolve::{self, Send};
use state::unit::retry;
use std::pin::pin;
use std::sync::Arc;
use tracing::Instrument;

/// Reports of a hook, and that it runs, are sent before its record only if it runs longer than this. A short
/// hook's record contains everything and needs no second round trip.
const EARLY_REPORT_AFTER_MS: u64 = 100;
/// The delay after the controller refused a record as invalid. This is a defect of the agent or of the
/// controller, which another version may not have: status shows it meanwhile, and hooks continue as if the
/// controller was unreachable.
const REFUSED_RETRY_MS: u64 = 60_000;
/// A session of another agent that is still open after this time is not the remainder of a crash: the
/// controller closes the watch of a dead agent after `WATCH_SILENCE_MS`, and this is a third longer.
const OTHER_SESSION_MS: u64 = 20_000;

impl<M: UnitMemory, A: UnitAgentRequests, H: Charms, C: Clock> UnitAgent<M, A, H, C> {
    /// Attaches, then sends records and reports in order, until the agent must end.
    pub(crate) async fn send_loop(&self) -> UnitAgentEnd {
        let mut backoff = LINK_BACKOFF;
        loop {
            let send = {
                let now = self.now();
                resolve::next(&self.local.borrow(), self.facts.borrow().view.as_deref(), &now).send
            };
            let sent = match send {
                Send::Attach => self.attach().await,
                Send::UnrecordedReport(run) => self.send_unrecorded(run).await,
                Send::Commit(sequence) => self.commit(sequence).await,
                Send::Nothing => match self.report() {
                    EarlyReport::Now(report) => self.send_report(report).await,
                    EarlyReport::Later(at_ms) => {
                        let timer = pin!(self.clock.sleep_until(at_ms));
                        tokio::select! { biased; () = self.send_changed.notified() => {}, () = timer => {} }
                        continue;
                    }
                    EarlyReport::Nothing => {
                        self.send_changed.notified().await;
                        continue;
                    }
                },
            };
            match sent {
                Ok(()) => {
                    backoff.reset();
                    self.note_success(Channel::Send);
                }
                Err(SendError::End(end)) => return end,
                Err(SendError::Link(error)) => {
                    self.note_failure(Channel::Send, &error);
                    self.pause(&mut backoff).await;
                }
                Err(SendError::Refused(error)) => {
                    self.note_failure(Channel::Send, &error);
                    self.clock.sleep_until(self.clock.since_boot_ms() + REFUSED_RETRY_MS).await;
                }
            }
        }
    }

    /// Opens the session. The nonce is on disk before it is sent, and no hook runs before the disk and the
    /// replica agree.
    async fn attach(&self) -> Result<(), SendError> {
        let (nonce, epoch, store_generation) = {
            let local = self.local.borrow();
            (local.nonce, local.epoch, local.store_generation)
        };
        let nonce = match nonce {
            Some(nonce) => nonce,
            None => {
                let nonce = self.clock.random_uuid();
                self.save(vec![Event::Attaching { nonce }]).await?;
                nonce
            }
        };
        let attached = match self.api.handle(Attach { nonce, epoch, store_generation }).await {
            Ok(attached) => attached,
            Err(error) if error.code == ErrorCode::Blocked => return Err(self.other_session(error)),
            Err(error) => return Err(error.into()),
        };
        let session = attached.answer;
        let mut forked = None;
        self.save_with(|local| match reconcile(local, &session, self.clock.wall_ms()) {
            Reconciliation::Consistent(events) => events,
            Reconciliation::Forked { sequence } => {
                forked = Some(sequence);
                Vec::new()
            }
        })
        .await?;
        if let Some(sequence) = forked {
            let what = format!("record {sequence} of this folder is not the one the controller has");
            return Err(SendError::End(UnitAgentEnd::Forked(what)));
        }
        let mut facts = self.facts.borrow_mut();
        facts.epoch = Some(session.epoch);
        facts.attached_at =
            Some(Position { store_generation: session.store_generation, revision: attached.revision });
        // a view of another store generation is not valid for this one
        facts.view.take_if(|view| view.position.store_generation != session.store_generation);
        drop(facts);
        self.act_changed.notify_one();
        self.view_changed.notify_waiters();
        Ok(())
    }

    /// Another session of this unit is open: the session of the previous agent for as long as the controller
    /// needs to detect that it is closed, and after that, the session of another live agent.
    fn other_session(&self, error: ApiError) -> SendError {
        let now = self.clock.since_boot_ms();
        let since = *self.facts.borrow_mut().other_session_ms.get_or_insert(now);
        if now - since < OTHER_SESSION_MS {
            SendError::Link(error)
        } else {
            SendError::End(UnitAgentEnd::Copy(error.message))
        }
    }

    /// Sends one record of the outbox, and applies its acknowledgement.
    async fn commit(&self, sequence: u64) -> Result<(), SendError> {
        let record = self.local.borrow().outbox.iter().find(|record| record.sequence == sequence).cloned();
        let (Some(record), Some(epoch)) = (record, self.epoch()) else { return Ok(()) };
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
        let Committed { answer: CommitOutcome { refusal, dropped }, revision } = committed;
        span.in_scope(|| {
            tracing::debug!(revision, refusal, "acknowledged");
            dropped.iter().for_each(|dropped| tracing::warn!("record {sequence}: {dropped}"));
        });
        let retry = refusal.as_ref().and_then(|_| {
            let (local, now) = (self.local.borrow(), self.now());
            retry::retry_after(&local, self.facts.borrow().view.as_deref(), &now, &operation)
        });
        let answered = Event::Acknowledged { sequence, revision, refusal, retry };
        if conditional {
            self.save(vec![answered]).await?;
            return Ok(());
        }
        self.acknowledge(answered).await;
        Ok(())
    }

    /// Applies an acknowledgement, which the next append stores. After a crash before that, the record is sent
    /// again and receives the same answer.
    async fn acknowledge(&self, answered: Event) {
        let _order = self.disk.lock().await;
        Arc::make_mut(&mut self.local.borrow_mut()).apply(&answered);
        self.acknowledged.borrow_mut().push(answered);
        self.act_changed.notify_one();
    }

    /// Sends the reports of a run that has no record.
    async fn send_unrecorded(&self, run: u64) -> Result<(), SendError> {
        let unrecorded =
            self.local.borrow().unrecorded_reports.iter().find(|report| report.run == run).cloned();
        let (Some(unrecorded), Some(epoch)) = (unrecorded, self.epoch()) else { return Ok(()) };
        let report = Report { epoch, run, reports: unrecorded.reports, executing: None, executing_for_ms: 0 };
        match self.api.handle(report).await {
            // a refused report is refused again, and the records wait behind it
            Err(error) if error.code == ErrorCode::Invalid => {
                tracing::warn!("the reports of run {run} are lost: {}", error.message);
            }
            answer => answer?,
        }
        self.facts.borrow_mut().executing_shown = None;
        self.acknowledge(Event::ReportAcknowledged { run }).await;
        Ok(())
    }

    fn epoch(&self) -> Option<u64> {
        self.facts.borrow().epoch
    }

    /// The report of the running hook that is due now or later.
    fn report(&self) -> EarlyReport {
        let facts = self.facts.borrow();
        let Some(epoch) = facts.epoch else { return EarlyReport::Nothing };
        let activity = facts.executing.as_ref().map(|executing| executing.activity.clone());
        let is_shown = activity == facts.executing_shown && !(activity.is_some() && facts.resend_executing);
        if facts.pending_reports.is_empty() && is_shown {
            return EarlyReport::Nothing;
        }
        let due = facts.executing.as_ref().map_or(0, |executing| executing.since_ms + EARLY_REPORT_AFTER_MS);
        if due > self.clock.since_boot_ms() {
            return EarlyReport::Later(due);
        }
        let run = facts.executing.as_ref().map_or(0, |executing| executing.run);
        let timer_started_ms = facts.executing.as_ref().map_or(0, |executing| executing.since_ms);
        let executing_for_ms = self.clock.since_boot_ms().saturating_sub(timer_started_ms);
        let reports = facts.pending_reports.next_batch();
        EarlyReport::Now(Report { epoch, run, reports, executing: activity, executing_for_ms })
    }

    /// Sends the report of the run in progress.
    async fn send_report(&self, report: Report) -> Result<(), SendError> {
        let (run, activity) = (report.run, report.executing.clone());
        let last = report.reports.last().map(|report| report.call);
        let again = std::mem::take(&mut self.facts.borrow_mut().resend_executing);
        let answer = self.api.handle(report).await;
        let mut facts = self.facts.borrow_mut();
        facts.resend_executing |= again && answer.is_err();
        answer?;
        facts.executing_shown = activity;
        if facts.executing.as_ref().is_some_and(|executing| executing.run == run)
            && let Some(last) = last
        {
            facts.pending_reports.acknowledge(last);
        }
        Ok(())
    }

    /// Notes that a request succeeded; logs the end of an outage.
    pub(crate) fn note_success(&self, channel: Channel) {
        let now = self.clock.since_boot_ms();
        if let Some(line) = self.facts.borrow_mut().outage.ended(channel, now) {
            tracing::info!("{line}");
        }
    }

    /// Notes that a request failed; logs each new cause of an outage.
    pub(crate) fn note_failure(&self, channel: Channel, error: &ApiError) {
        let now = self.clock.since_boot_ms();
        if let Some(line) = self.facts.borrow_mut().outage.failed(channel, error, now) {
            tracing::warn!("{line}");
        }
    }
}

/// A report that is sent before the record of its run.
enum EarlyReport {
    Now(Report),
    Later(u64),
    Nothing,
}

/// How a loop reacts to an error.
pub(crate) enum SendError {
    /// The request is retried later.
    Link(ApiError),
    /// The same request would be refused again.
    Refused(ApiError),
    /// The agent ends.
    End(UnitAgentEnd),
}

impl From<ApiError> for SendError {
    fn from(error: ApiError) -> SendError {
        match error.code {
            ErrorCode::Fenced => SendError::End(UnitAgentEnd::Copy(error.message)),
            ErrorCode::Forked => SendError::End(UnitAgentEnd::Forked(error.message)),
            ErrorCode::Removed => SendError::End(UnitAgentEnd::Finished),
            ErrorCode::Gap => SendError::End(UnitAgentEnd::Reattach(error.message)),
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
        SendError::End(UnitAgentEnd::Disk(failed))
    }
}
