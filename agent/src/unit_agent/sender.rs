//! The sender loop: it attaches to the controller, then sends the records of the outbox in order.
//!
//! Reports of a hook that runs for a while are also sent early, before the hook's record. A record is
//! acknowledged before the next one is sent.

use super::agent_state::AgentState;
use super::end::{RequestError, UnitAgentEnd};
use crate::outage::{Channel, LINK_BACKOFF};
use crate::ports::{Clock, UnitStorage};
use api::error::{ApiError, ErrorCode};
use api::text::refusal;
use api::{Attach, Commit, Report, UnitAgentRequests};
use state::agents::reconciliation::{Reconciliation, reconcile};
use state::terms::position::{Committed, Position};
use state::unit::decision::NextMessage;
use state::unit::local::Event;
use state::unit::record::CommitOutcome;
use state::unit::{resolve, retry};
use std::pin::pin;
use tracing::Instrument;

/// The reports of a hook, and the fact that it runs, are sent before its record only if it runs longer than this. A
/// short hook's record contains everything and needs no second round trip.
const EARLY_REPORT_AFTER_MS: u64 = 100;
/// The delay after the controller refused a record as invalid. This is a defect of the agent or of the
/// controller, which another version may not have: status shows it meanwhile, and hooks continue as if the
/// controller were unreachable.
const REFUSED_RETRY_MS: u64 = 60_000;
/// A session of another agent that is still open after this time is not the remainder of a crash: the
/// controller closes the watch of a dead agent after `WATCH_SILENCE_MS`, and this is a third longer.
const OTHER_SESSION_MS: u64 = api::WATCH_SILENCE_MS * 4 / 3;

/// The sender loop of one unit agent.
pub(super) struct Sender<'a, S, A, C>(pub(super) &'a AgentState<S, A, C>);

impl<S: UnitStorage, A: UnitAgentRequests, C: Clock> Sender<'_, S, A, C> {
    /// Attaches, then sends records and reports in order, until the agent must end.
    pub(super) async fn run(&self) -> UnitAgentEnd {
        let mut backoff = LINK_BACKOFF;
        loop {
            let send = {
                let now = self.0.now();
                resolve::next(&self.0.local(), self.0.view().as_deref(), &now).send
            };
            let sent = match send {
                NextMessage::Attach => self.attach().await,
                NextMessage::UnrecordedReport(run) => self.send_unrecorded(run).await,
                NextMessage::Commit(sequence) => self.commit(sequence).await,
                NextMessage::Nothing => match self.next_report() {
                    NextReport::Send(report) => self.send_report(report).await,
                    NextReport::WaitUntil(at_ms) => {
                        let timer = pin!(self.0.clock.sleep_until(at_ms));
                        tokio::select! { biased; () = self.0.send_changed.notified() => {}, () = timer => {} }
                        continue;
                    }
                    NextReport::Nothing => {
                        self.0.send_changed.notified().await;
                        continue;
                    }
                },
            };
            match sent {
                Ok(()) => {
                    backoff.reset();
                    self.0.record_success(Channel::Send);
                }
                Err(RequestError::End(end)) => return end,
                Err(RequestError::Retry(error)) => {
                    self.0.record_failure(Channel::Send, &error);
                    self.0.pause(&mut backoff).await;
                }
                Err(RequestError::Refused(error)) => {
                    self.0.record_failure(Channel::Send, &error);
                    self.0.clock.sleep_until(self.0.clock.since_boot_ms() + REFUSED_RETRY_MS).await;
                }
            }
        }
    }

    /// Opens the session. The nonce is on disk before it is sent, and no hook runs before the disk and the
    /// replica agree.
    async fn attach(&self) -> Result<(), RequestError> {
        let nonce = match self.0.local().nonce {
            Some(nonce) => nonce,
            None => {
                let nonce = self.0.clock.random_uuid();
                self.0.save(vec![Event::Attaching { nonce }]).await?;
                nonce
            }
        };
        let attach = {
            let local = self.0.local();
            Attach {
                nonce,
                epoch: local.epoch,
                store_generation: local.store_generation,
                teardown_started: local.has_started_teardown(),
                boot: self.0.now().boot,
            }
        };
        let attached = match self.0.api.handle(attach).await {
            Ok(attached) => attached,
            Err(error) if error.code == ErrorCode::Blocked => return Err(self.other_session(error)),
            Err(error) => return Err(error.into()),
        };
        let session = attached.answer;
        let mut forked = None;
        self.0
            .save_with(|local| match reconcile(local, &session, self.0.clock.wall_ms()) {
                Reconciliation::Continue(events) => events,
                Reconciliation::Forked { sequence } => {
                    forked = Some(sequence);
                    Vec::new()
                }
            })
            .await?;
        if let Some(sequence) = forked {
            let what = format!("record {sequence} of this folder is not the one the controller has");
            return Err(RequestError::End(UnitAgentEnd::Diverged(what)));
        }
        let mut volatile = self.0.volatile.borrow_mut();
        volatile.epoch = Some(session.epoch);
        volatile.attached_at =
            Some(Position { store_generation: session.store_generation, revision: attached.revision });
        // a view of another store generation is not valid for this one
        volatile.view.take_if(|view| view.position.store_generation != session.store_generation);
        drop(volatile);
        let (epoch, revision) = (session.epoch, attached.revision);
        tracing::info!(epoch, revision, store_generation = %session.store_generation, "attached to the controller");
        self.0.act_changed.notify_one();
        self.0.view_changed.notify_waiters();
        Ok(())
    }

    /// Another session of this unit is open: the session of the previous agent for as long as the controller
    /// needs to detect that it is closed, and after that, the session of another live agent.
    fn other_session(&self, error: ApiError) -> RequestError {
        let now = self.0.clock.since_boot_ms();
        let since = *self.0.volatile.borrow_mut().attach_refused_since_ms.get_or_insert(now);
        if now - since < OTHER_SESSION_MS {
            RequestError::Retry(error)
        } else {
            RequestError::End(UnitAgentEnd::Fenced(error.message))
        }
    }

    /// Sends one record of the outbox, and applies its acknowledgement.
    async fn commit(&self, sequence: u64) -> Result<(), RequestError> {
        let record = self.0.local().outbox.iter().find(|record| record.sequence == sequence).cloned();
        let (Some(record), Some(epoch)) = (record, self.0.epoch()) else { return Ok(()) };
        let conditional = record.is_conditional();
        let operation = record.operation.clone();
        let span = tracing::debug_span!("commit", sequence, operation = %operation, run = record.run);
        let committed = match self.0.api.handle(Commit { epoch, record }).instrument(span.clone()).await {
            Err(error) if error.code == ErrorCode::Invalid => {
                let message = format!("the controller refuses record {sequence}: {}", error.message);
                return Err(RequestError::Refused(ApiError { message, ..error }));
            }
            answer => answer?,
        };
        let Committed { answer: CommitOutcome { refusal, dropped }, revision } = committed;
        span.in_scope(|| {
            tracing::debug!(revision, refusal = refusal.as_ref().map(refusal::message), "acknowledged");
            for dropped in dropped.iter().map(refusal::dropped) {
                tracing::warn!("record {sequence}: {dropped}");
            }
        });
        let retry = refusal.as_ref().and_then(|_| {
            let (local, view, now) = (self.0.local(), self.0.view(), self.0.now());
            retry::retry_after(&local, view.as_deref(), &now, &operation)
        });
        if let Some(refusal) = &refusal {
            self.0.volatile.borrow_mut().last_refusal = Some((sequence, refusal.clone()));
        }
        let answered = Event::Acknowledged { sequence, revision, refusal, retry };
        if conditional {
            self.0.save(vec![answered]).await?;
            return Ok(());
        }
        self.0.acknowledge(answered).await;
        Ok(())
    }

    /// Sends the reports of a run that has no record.
    async fn send_unrecorded(&self, run: u64) -> Result<(), RequestError> {
        let unrecorded = self.0.local().unrecorded_reports.iter().find(|report| report.run == run).cloned();
        let (Some(unrecorded), Some(epoch)) = (unrecorded, self.0.epoch()) else { return Ok(()) };
        let report = Report { epoch, run, reports: unrecorded.reports, executing: None, executing_for_ms: 0 };
        match self.0.api.handle(report).await {
            // a refused report is refused again, and the records wait behind it
            Err(error) if error.code == ErrorCode::Invalid => {
                tracing::warn!("the reports of run {run} are lost: {}", error.message);
            }
            answer => answer?,
        }
        self.0.volatile.borrow_mut().acknowledged_activity = None;
        self.0.acknowledge(Event::ReportAcknowledged { run }).await;
        Ok(())
    }

    /// The report of the running hook that is due now or later.
    fn next_report(&self) -> NextReport {
        let volatile = self.0.volatile.borrow();
        let Some(epoch) = volatile.epoch else { return NextReport::Nothing };
        let activity = volatile.executing.as_ref().map(|executing| executing.activity.clone());
        let is_shown =
            activity == volatile.acknowledged_activity && !(activity.is_some() && volatile.resend_activity);
        if volatile.pending_reports.is_empty() && is_shown {
            return NextReport::Nothing;
        }
        let due =
            volatile.executing.as_ref().map_or(0, |executing| executing.since_ms + EARLY_REPORT_AFTER_MS);
        if due > self.0.clock.since_boot_ms() {
            return NextReport::WaitUntil(due);
        }
        let run = volatile.executing.as_ref().map_or(0, |executing| executing.run);
        let since_ms = volatile.executing.as_ref().map_or(0, |executing| executing.since_ms);
        let executing_for_ms = self.0.clock.since_boot_ms().saturating_sub(since_ms);
        let reports = volatile.pending_reports.next_batch();
        NextReport::Send(Report { epoch, run, reports, executing: activity, executing_for_ms })
    }

    /// Sends the report of the run in progress.
    async fn send_report(&self, report: Report) -> Result<(), RequestError> {
        let (run, activity) = (report.run, report.executing.clone());
        let last = report.reports.last().map(|report| report.number);
        let again = std::mem::take(&mut self.0.volatile.borrow_mut().resend_activity);
        let answer = self.0.api.handle(report).await;
        let mut volatile = self.0.volatile.borrow_mut();
        volatile.resend_activity |= again && answer.is_err();
        answer?;
        volatile.acknowledged_activity = activity;
        if volatile.executing.as_ref().is_some_and(|executing| executing.run == run)
            && let Some(last) = last
        {
            volatile.pending_reports.acknowledge(last);
        }
        Ok(())
    }
}

/// A report that is sent before the record of its run.
enum NextReport {
    Send(Report),
    WaitUntil(u64),
    Nothing,
}
