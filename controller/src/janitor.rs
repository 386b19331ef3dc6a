//! The janitor: background work of the controller, in batches of bounded size.
//!
//! It deletes the documents that removals left behind, executes forced removals and the destruction of models
//! (design 6), ends fake units, starts the timers of teardown budgets, marks due secrets and reseals contents (`secrets`), forgets the
//! presence of removed agents, and enforces the limits on log lines (`logs`), completed actions, charm archives
//! (`archives`), tombstones (`tombstones`; design 5) and tokens of removed machines (`retired_tokens`). A batch that fails does not
//! stop the others; the next sweep repeats it. A document that is damaged on disk fails only the batches that need it.
//!
//! `program` runs one sweep every [`SWEEP_INTERVAL_MS`]. A model that a request has changed is swept at once, and during a
//! sweep before the next model (`urgent_models`): how long a destruction takes does not depend on the number of models.

mod archives;
mod batch;
mod logs;
mod retired_tokens;
mod secrets;
mod tombstones;

pub use archives::ARCHIVE_GRACE_MS;
use archives::ArchiveScan;
use batch::{log_and_skip, next_page};
use logs::LogScan;
use state::terms::force::Force;

use crate::callers::Controller;
use crate::environment::Environment;
use crate::secret_keys::SecretKeys;
use crate::store::Store;
use api::error::ApiError;
use state::documents::draft::{Draft, PAGE_MAX, StoredDocument, parse, read, read_all};
use state::documents::prelude::{ForcedRemovalDoc, GLOBAL, Kind, Model, last_id};
use state::documents::token::RETIRED_TOKENS_MAX;
use state::lifecycle::{action, application, cleanup, fake_application, model};
use state::status::presence::PresenceReader;
use state::terms::names::Uuid;
use state::transitions::force_timer::{self, ForceTimer, TimerTime};
use state::transitions::retention_scan::{RetentionScan, ScanLimits};
use state::transitions::tombstone_retention::TOMBSTONES_MAX;
use state::transitions::{destruction, force};
use std::collections::{BTreeMap, BTreeSet};

/// Completed actions kept per model: some 1 KiB each if they log little, 1 MiB.
pub const ACTIONS_MAX: usize = 1_000;
/// Bytes of completed actions kept per model: 64 KiB for each of 1,000. One takes up to 1 MiB with its log and results.
pub const ACTIONS_BYTES_MAX: u64 = 64 << 20;
/// Actions read by one sweep: their logs may be 256 KiB each.
const ACTIONS_PER_SWEEP: usize = PAGE_MAX;
/// Forced entities read by one sweep: some 200 bytes each. The next sweep continues after them.
const FORCED_PER_SWEEP: usize = 1_000;
/// Units whose life one sweep reads in a model with a teardown budget: a handful of reads each.
const UNITS_PER_SWEEP: usize = 200;
/// Agents for which one sweep looks up the unit or machine: two reads in each model.
const AGENTS_PER_SWEEP: usize = 200;
/// The pause between two sweeps. Leftovers have no effect on the model, so they need not be deleted sooner.
pub const SWEEP_INTERVAL_MS: u64 = 10_000;
/// The pause while a model is destroyed with force. A unit whose hook fails on the way is removed in the next sweep,
/// and an operator waits for the end of the model, which should take less than 5 s.
const FORCED_DESTRUCTION_INTERVAL_MS: u64 = 1_000;

/// How often one model is swept before the other urgent ones have their turn: an empty model is removed in four rounds.
const URGENT_ROUNDS_MAX: usize = 8;

/// Limits that the simulator lowers, so that its runs reach them.
#[derive(Clone, Copy)]
pub struct JanitorLimits {
    /// How long an archive that nothing uses is kept.
    pub archive_grace_ms: u64,
    /// Tombstones per model that are kept although no agent needs them as evidence.
    pub tombstones_max: usize,
    /// Retired tokens that are kept.
    pub retired_tokens_max: usize,
}

impl Default for JanitorLimits {
    fn default() -> JanitorLimits {
        JanitorLimits {
            archive_grace_ms: ARCHIVE_GRACE_MS,
            tombstones_max: TOMBSTONES_MAX,
            retired_tokens_max: RETIRED_TOKENS_MAX,
        }
    }
}

/// The progress of the sweeps. It is in memory only: after a restart the scans start again.
#[derive(Default)]
pub struct Janitor {
    limits: JanitorLimits,
    archives: ArchiveScan,
    tombstones: BTreeMap<Uuid, RetentionScan>,
    retired_tokens: RetentionScan,
    logs: BTreeMap<Uuid, LogScan>,
    actions: BTreeMap<Uuid, RetentionScan>,
    /// By model: the document key of the last content of a secret that was examined for an older encryption key.
    sealed_after: BTreeMap<Uuid, String>,
    /// By model: the document key of the last forced entity that was read.
    forced_after: BTreeMap<Uuid, String>,
    /// By model: the document key of the last unit that was read.
    units_after: BTreeMap<Uuid, String>,
    /// The last agent that was looked up.
    agents_after: Option<Uuid>,
    /// The models that are being destroyed with force.
    destroyed_by_force: BTreeSet<Uuid>,
}

impl Janitor {
    /// A janitor with these limits.
    pub fn new(limits: JanitorLimits) -> Janitor {
        Janitor { limits, ..Janitor::default() }
    }

    /// The pause until the next sweep, of urgent models or of all.
    pub fn interval_ms(&self) -> u64 {
        if !self.destroyed_by_force.is_empty() { FORCED_DESTRUCTION_INTERVAL_MS } else { SWEEP_INTERVAL_MS }
    }

    /// Runs one sweep over all models, with batches of bounded size. Returns true if there is more to do now. An error
    /// means that the store accepts no writes at the moment.
    pub async fn sweep<S: Store, E: Environment>(
        &mut self,
        controller: &Controller<S, E>,
    ) -> Result<bool, ApiError> {
        // a model that is added from now on may be one that was swept already
        controller.urgent_models.take();
        controller.environment.secret_keys().into_iter().for_each(SecretKeys::keep_file);
        let (models, damaged) = controller
            .store
            .read_available(|reader| read_all::<Uuid>(reader, &GLOBAL.prefix(Kind::ModelName)))
            .await;
        let model_ids: BTreeSet<Uuid> = models.iter().map(|(_, id)| *id).collect();
        // a model whose name is damaged still exists
        if damaged.is_empty() {
            self.forget_removed_models(&model_ids);
            controller.log_growth.retain(|model| model_ids.contains(model));
            controller.force_timers.retain(|model, _| model_ids.contains(&model.0));
        }
        controller.status_caches.forget_unused(controller.environment.monotonic_ms());
        controller.status_caches.advance(&controller.store).await;
        forget_agents(controller, &mut self.agents_after).await;
        // leftovers of removed models
        let mut more = cleanup_batch(controller, GLOBAL).await?;
        archives::sweep(controller, &mut self.archives, self.limits.archive_grace_ms).await?;
        let tombstones = self.tombstones.entry(GLOBAL.0).or_default();
        more |= tombstones::sweep(controller, GLOBAL, tombstones, self.limits.tombstones_max).await?;
        let (retired_tokens, tokens_max) = (&mut self.retired_tokens, self.limits.retired_tokens_max);
        more |= retired_tokens::sweep(controller, retired_tokens, tokens_max).await?;
        for id in model_ids {
            more |= self.sweep_model(controller, id).await?;
            more |= self.sweep_changed(controller).await?;
        }
        Ok(more)
    }

    /// Sweeps the models that requests have changed, those that are being destroyed with force, and what is left of removed
    /// ones. Returns true if there is more to do now.
    ///
    /// # Errors
    /// As [`Janitor::sweep`].
    pub async fn sweep_urgent<S: Store, E: Environment>(
        &mut self,
        controller: &Controller<S, E>,
    ) -> Result<bool, ApiError> {
        let mut more = self.sweep_changed(controller).await?;
        for id in self.destroyed_by_force.clone() {
            more |= self.sweep_model(controller, id).await?;
        }
        Ok(cleanup_batch(controller, GLOBAL).await? || more)
    }

    /// Sweeps the models that requests have changed. Returns true if there is more to do in one of them.
    async fn sweep_changed<S: Store, E: Environment>(
        &mut self,
        controller: &Controller<S, E>,
    ) -> Result<bool, ApiError> {
        let mut has_more = false;
        for id in controller.urgent_models.take() {
            let mut rounds = 0;
            while self.sweep_model(controller, id).await? {
                rounds += 1;
                if rounds == URGENT_ROUNDS_MAX {
                    controller.urgent_models.add(id);
                    has_more = true;
                    break;
                }
            }
        }
        Ok(has_more)
    }

    /// Runs one sweep over one model. Returns true if there is more to do now.
    async fn sweep_model<S: Store, E: Environment>(
        &mut self,
        controller: &Controller<S, E>,
        id: Uuid,
    ) -> Result<bool, ApiError> {
        let (model, mut more) = (Model(id), false);
        more |= cleanup_batch(controller, model).await?;
        more |= destroy_model_batch(controller, model).await?;
        start_budget_timers(controller, model, self.units_after.entry(id).or_default()).await?;
        let destruction =
            controller.read_available(move |reader| read(reader, &model.model_destruction())).await;
        let destroyed_by_force = destruction.is_some_and(|destruction| destruction.force != Force::No);
        match destroyed_by_force {
            true => drop(self.destroyed_by_force.insert(id)),
            false => drop(self.destroyed_by_force.remove(&id)),
        }
        let forced = self.forced_after.entry(id).or_default();
        more |= force_batches(controller, model, destroyed_by_force, forced).await?;
        let tombstones = self.tombstones.entry(id).or_default();
        more |= tombstones::sweep(controller, model, tombstones, self.limits.tombstones_max).await?;
        more |= end_fake_units(controller, model).await?;
        more |= secrets::mark_due(controller, model).await?;
        more |= secrets::seal_again(controller, model, self.sealed_after.entry(id).or_default()).await?;
        more |= logs::sweep(controller, model, self.logs.entry(id).or_default()).await?;
        more |= delete_expired_actions(controller, model, self.actions.entry(id).or_default()).await?;
        Ok(more)
    }

    fn forget_removed_models(&mut self, models: &BTreeSet<Uuid>) {
        self.logs.retain(|id, _| models.contains(id));
        self.actions.retain(|id, _| models.contains(id));
        self.destroyed_by_force.retain(|id| models.contains(id));
        self.tombstones.retain(|id, _| *id == GLOBAL.0 || models.contains(id));
        for after in [&mut self.forced_after, &mut self.sealed_after, &mut self.units_after] {
            after.retain(|id, _| models.contains(id));
        }
    }
}

/// Deletes one batch of the oldest completed actions beyond the limit. Returns true if there is more to do now.
async fn delete_expired_actions<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    scan: &mut RetentionScan,
) -> Result<bool, ApiError> {
    let mut advanced = std::mem::take(scan);
    let page = controller.read_available(move |reader| {
        let prefix = model.prefix(Kind::Action);
        let limits =
            ScanLimits { documents_max: ACTIONS_MAX, bytes_max: ACTIONS_BYTES_MAX, page: ACTIONS_PER_SWEEP };
        advanced.advance(reader, &prefix, limits, |stored| action::is_completed(reader, stored));
        advanced
    });
    *scan = page.await;
    let batch: Vec<String> = scan.excess.iter().take(PAGE_MAX).cloned().collect();
    let remove = batch.clone();
    if !batch.is_empty() {
        let transition = move |draft: &mut Draft<'_>| {
            action::delete_completed(draft, &remove);
            Ok(())
        };
        log_and_skip("delete old actions of model", model.0, controller.run(transition).await)?;
    }
    scan.excess.drain(..batch.len());
    Ok(scan.needs_next_pass || !scan.excess.is_empty())
}

/// Removes the presence of agents whose unit or machine no longer exists. The handlers are not sufficient: no handler
/// executes a forced removal, and a request of the agent that is still in progress may record its presence again.
async fn forget_agents<S: Store, E: Environment>(controller: &Controller<S, E>, after: &mut Option<Uuid>) {
    // The agents are listed before the documents are read: an agent that is added in between is either not listed or
    // its document exists.
    let agents = controller.presence.after(*after, AGENTS_PER_SWEEP);
    *after = agents.last().copied().filter(|_| agents.len() == AGENTS_PER_SWEEP);
    let (removed, damaged) = controller
        .store
        .read_available(move |reader| {
            let models = read_all::<Uuid>(reader, &GLOBAL.prefix(Kind::ModelName));
            let models: Vec<Model> = models.into_iter().map(|(_, id)| Model(id)).collect();
            let exists = |agent: Uuid| {
                let contains = |model: &Model| {
                    reader.get(model.unit(agent).text()).is_some()
                        || reader.get(model.machine(agent).text()).is_some()
                };
                models.iter().any(contains)
            };
            let keys = |agent: Uuid| {
                let of_model = |model: &Model| {
                    [model.unit(agent).text().to_owned(), model.machine(agent).text().to_owned()]
                };
                models.iter().flat_map(of_model).collect::<Vec<_>>()
            };
            let removed = agents.into_iter().filter(|agent| !exists(*agent));
            removed.map(|agent| (agent, keys(agent))).collect::<Vec<_>>()
        })
        .await;
    // an agent whose document, or whose model's name, is damaged still exists
    let is_damaged = |key: &String| damaged.contains(key);
    let models = GLOBAL.prefix(Kind::ModelName);
    if !damaged.iter().any(|key| key.starts_with(&models)) {
        let removed = removed.iter().filter(|(_, keys)| !keys.iter().any(is_damaged));
        removed.for_each(|(agent, _)| controller.presence.forget(*agent));
    }
}

/// Runs one batch of the destruction of a model. Returns true if there is more to do now. A failure is logged and does
/// not stop the sweep.
async fn destroy_model_batch<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
) -> Result<bool, ApiError> {
    let applied = controller.run(move |draft| destruction::destroy_batch(draft, model)).await;
    let applied = log_and_skip("continue the destruction of model", model.0, applied)?;
    Ok(applied.is_some_and(|applied| applied.answer))
}

/// Lets fake units leave relations that end, and removes those that are not Alive. Returns true if there is more to do now.
async fn end_fake_units<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
) -> Result<bool, ApiError> {
    let teardowns =
        controller.read_available(move |reader| fake_application::pending_teardowns(reader, model)).await;
    let now_ms = controller.environment.wall_ms();
    let mut more = false;
    for teardown in teardowns {
        let tear_down =
            move |draft: &mut Draft<'_>| fake_application::tear_down(draft, model, teardown, now_ms);
        let applied = controller.run(tear_down).await;
        more |= log_and_skip("end a fake unit of model", model.0, applied)?.is_some();
    }
    Ok(more)
}

/// Deletes one batch of the documents that each removal left behind. Returns true if there is more to do now.
async fn cleanup_batch<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
) -> Result<bool, ApiError> {
    let (left, destroyed) = controller
        .read_available(move |reader| {
            let ids = |prefix: &str| -> Vec<Uuid> {
                reader.scan(prefix, "", PAGE_MAX).iter().filter_map(|stored| last_id(&stored.key)).collect()
            };
            (ids(&model.cleanups()), ids(&model.prefix(Kind::ApplicationRelationRemoval)))
        })
        .await;
    let mut more = false;
    for id in left {
        let applied = controller.run(move |draft| Ok(cleanup::clean_batch(draft, model, id))).await;
        more |=
            log_and_skip("delete what is left of entity", id, applied)?.is_some_and(|applied| applied.answer);
    }
    for id in destroyed {
        let transition = move |draft: &mut Draft<'_>| {
            application::remove_next_batch(draft, model, id);
            Ok(())
        };
        let removed = controller.run(transition).await;
        more |= log_and_skip("remove the relations of application", id, removed)?.is_some();
    }
    Ok(more)
}

/// Advances the timers of forced entities and runs one batch of each, the longest overdue first. Returns true if there
/// is more to do now.
async fn force_batches<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    destroyed_by_force: bool,
    after: &mut String,
) -> Result<bool, ApiError> {
    let mut from = std::mem::take(after);
    let is_first = from.is_empty();
    let page = controller.store.read_available(move |reader| {
        let page = next_page(reader, &model.prefix(Kind::ForcedRemoval), &mut from, FORCED_PER_SWEEP);
        let entity = |stored: &StoredDocument| {
            let forced: ForcedRemovalDoc = parse(reader, stored)?;
            Some((forced.due_ms, last_id(&stored.key)?, forced))
        };
        (page.iter().filter_map(entity).collect::<Vec<_>>(), from)
    });
    let ((mut entities, last), damaged) = page.await;
    entities.sort_by_key(|(due_ms, id, _)| (*due_ms, *id));
    if is_first && last.is_empty() && damaged.is_empty() {
        controller
            .force_timers
            .retain(|of, id| of != model || entities.iter().any(|(_, there, _)| *there == id));
    }
    let (mut more, mut due, mut checkpoints) = (false, Vec::new(), Vec::new());
    *after = last;
    let presence = destroyed_by_force.then(|| controller.presence_snapshot());
    for (_, id, forced) in entities {
        let environment = &controller.environment;
        let waited_ms = controller.force_timers.count(model, id, &forced, environment.monotonic_ms());
        let timer_started_ms = force_timer::timer_started_ms(&forced);
        let passed_ms = timer_started_ms.saturating_add(waited_ms);
        let is_late = presence.as_ref().is_some_and(|presence| presence.is_late(id));
        let passed_ms = force_timer::timer_now_ms(&forced, passed_ms, destroyed_by_force, is_late);
        let is_due = force_timer::is_due(&forced, passed_ms);
        // A follow-up wait may start now. Its start time is shown to users, so it must not be before the wall clock.
        let now_ms = if is_due { passed_ms.max(environment.wall_ms()) } else { passed_ms };
        due.push((id, TimerTime { timer_started_ms, now_ms }));
        if !is_due && controller.force_timers.needs_checkpoint(model, id, &forced, waited_ms) {
            checkpoints.push(ForceTimer { id, timer_started_ms, waited_ms });
        }
    }
    for chunk in checkpoints.chunks(force_timer::CHECKPOINTS_PER_TRANSACTION) {
        let waits = chunk.to_vec();
        let transition = move |draft: &mut Draft<'_>| {
            force_timer::store_timers(draft, model, &waits);
            Ok(())
        };
        if log_and_skip("store the force timers of model", model.0, controller.run(transition).await)?
            .is_some()
        {
            controller.force_timers.set_checkpoints(model, chunk);
        }
    }
    for (id, at) in due {
        let applied = controller.run(move |draft| force::timed_force_batch(draft, model, id, at)).await;
        more |=
            log_and_skip("force the removal of entity", id, applied)?.is_some_and(|applied| applied.answer);
    }
    Ok(more)
}

/// Starts the force timer of each Dying unit among the next [`UNITS_PER_SWEEP`], if the model has a teardown budget.
async fn start_budget_timers<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    after: &mut String,
) -> Result<(), ApiError> {
    let mut from = std::mem::take(after);
    let page = controller.read_available(move |reader| {
        let config = read(reader, &model.model_config()).unwrap_or_default();
        let Some(budget_ms) = model::teardown_budget_ms(&config) else { return (None, from) };
        let units = next_page(reader, &model.prefix(Kind::Unit), &mut from, UNITS_PER_SWEEP);
        let ids = units.iter().filter_map(|stored| last_id(&stored.key));
        let due = ids.filter(|id| force_timer::needs_budget_timer(&mut &*reader, model, *id));
        let due: Vec<Uuid> = due.collect();
        (Some((budget_ms, due)), from)
    });
    let (found, last) = page.await;
    *after = last;
    let Some((budget_ms, due)) = found else { return Ok(()) };
    for id in due {
        let now_ms = controller.environment.wall_ms();
        let transition = move |draft: &mut Draft<'_>| {
            force_timer::start_budget_timer(draft, model, id, budget_ms, now_ms);
            Ok(())
        };
        log_and_skip("start the teardown budget of unit", id, controller.run(transition).await)?;
    }
    Ok(())
}
