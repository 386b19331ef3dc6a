//! Bounds every text, list and depth of a record and of the state in a resync record: what one unit sends is shown to
//! everyone by `status` and `why` (I30).
//!
//! Each struct is taken apart without `..` and each enum is matched without `_`, so that a field that is added does not
//! compile before it is bounded here. Names of units and ids of storage have a grammar and are parsed with their length.
//! What is not bounded here is bounded where the comment says. Called by `record_validation`; the commit of records
//! uses its bounds of names and bags.

use crate::agents::json_measure::JsonMeasure;
use crate::documents::refusal::Refusal;
use crate::terms::commands::{CommandsRequest, RelationContext};
use crate::terms::hook_name::HookName;
use crate::terms::operation::{CharmRef, ConfigDigest, Hook, LocalEndpoint, Operation, RelationEvent};
use crate::terms::port_range::{PORT_RANGES_MAX, Ports, range_count};
use crate::terms::refusal::record::RecordRefusal;
use crate::terms::secret::LABEL_BYTES_MAX;
use crate::terms::settings::{self, BAG_BYTES_MAX, BagChange};
use crate::terms::status::WorkloadStatus;
use crate::terms::storage::{AttachedStorage, LOCATION_BYTES_MAX, STORAGE_OF_UNIT_MAX};
use crate::unit::local::{Episode, Local, RelationLocal, Run, Step};
use crate::unit::record::Record;
use crate::unit::writes::{ActionWrites, BagWrites, PortWrites, TEXT_BYTES_MAX, Writes};
use serde::Serialize;

/// The most relations in the state of one unit: it is stored as one document, and each takes 200 bytes of 1 MiB.
/// A transaction has 1.25 MiB.
pub(super) const RELATIONS_MAX: usize = (1 << 20) / 200;

/// The most bytes of a line or a status message. Agents truncate a text to half of this and append the number of bytes
/// that are missing.
pub(super) const REPORT_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;

/// The most bytes of the outcome of an operation as JSON: its failure has two texts (the last line of stderr, and what a
/// refusal quotes), which may be escaped, and names.
pub(super) const OUTCOME_BYTES_MAX: usize = 4 * REPORT_BYTES_MAX;
/// The deepest nesting of the outcome of an operation: the refusal of an entry into a scope because of the refusal of a
/// subordinate, of an operation, has 12 levels. A status adds some 10; JSON readers accept 127.
pub(super) const OUTCOME_DEPTH_MAX: usize = 24;

/// The number of characters of an invalid name that a refusal contains: enough to recognise it.
pub(super) const NAME_SHOWN: usize = 40;

/// The most bytes of a name, a digest or a boot id: hook names are file names of at most 255 bytes, and the others are
/// shorter (a SHA-256 64, a boot id 36, a charm URL some 220).
pub(crate) const IDENTIFIER_BYTES_MAX: usize = 255;

/// The most endpoints of the charm in a record: `charms` accepts no charm with more.
const ENDPOINTS_MAX: usize = crate::charm::ENDPOINTS_MAX;

/// The most hooks that are skipped and have not succeeded since: a user skips each one with a command of its own.
const SKIPPED_MAX: usize = 1_000;

/// The most instances of storage in the state of a unit: four times the 16 of a unit, because a restored store may lack
/// some of those that the unit has, and provide others.
const STORAGE_MAX: usize = 4 * STORAGE_OF_UNIT_MAX;

/// The most bytes of a unit's settings in one relation: those that the hook tools accept, and 4 KiB for the addresses that
/// the agent adds (three keys, with a list of networks).
pub(crate) const PUBLISHED_BAG_BYTES_MAX: usize = BAG_BYTES_MAX + (4 << 10);

/// Refuses a record of which a text, a list or a depth exceeds what a correct agent sends.
pub(super) fn require_bounded(record: &Record) -> Result<(), Refusal> {
    let Record {
        sequence: _,
        previous_digest,
        run: _,
        operation,
        outcome,
        episode: _,
        writes,
        reports: _, // by `require_reports`
        hook_log: _,
        deleted_files: _,
        at_ms: _,
        leader_generation: _,
        reboot,
        resync_local,
    } = record;
    require_identifier(previous_digest)?;
    require_operation(operation)?;
    require_shown(outcome)?;
    require_writes(writes)?;
    reboot.iter().try_for_each(require_identifier)?;
    resync_local.iter().try_for_each(|local| require_local(local))
}

fn require_local(local: &Local) -> Result<(), Refusal> {
    let Local {
        unit: _,
        name: _,
        store_generation: _,
        epoch: _,
        nonce: _,
        sequence: _,
        digest,
        run: _,
        step,
        follow_up: _,
        charm,
        deleted_files: _,
        installed: _,
        started: _,
        stopped: _,
        removed: _,
        dead: _,
        state_lost: _,
        elected_generation: _,
        leader_settings_version: _,
        secrets_revision: _,
        storage,
        status_set: _,
        status,
        skipped,
        upgrade_pending: _,
        config,
        boot,
        reboot,
        unrecorded_reports: _, // empty, by `require_published`
        relations,
        charm_state: _, // by the size of a transaction; shown to nobody
        ports,
        workload_version,
        last_action: _,
        outbox: _, // empty, by `require_published`
    } = local;
    if relations.len() > RELATIONS_MAX {
        let count = relations.len();
        return Err(RecordRefusal::TooManyRelations { count, max: RELATIONS_MAX }.into());
    }
    [Some(digest), boot.as_ref(), reboot.as_ref()].into_iter().flatten().try_for_each(require_identifier)?;
    require_step(step)?;
    charm.iter().try_for_each(require_charm)?;
    require_length(storage.len(), STORAGE_MAX)?;
    storage.values().try_for_each(require_storage)?;
    if let Some((status, message)) = status {
        require_status(*status)?;
        require_text(message)?;
    }
    require_length(skipped.len(), SKIPPED_MAX)?;
    skipped.iter().try_for_each(require_hook_name)?;
    config.iter().try_for_each(require_config)?;
    relations.values().try_for_each(require_relation)?;
    ports.keys().try_for_each(require_identifier)?;
    require_ports(ports)?;
    require_text(workload_version)
}

fn require_step(step: &Step) -> Result<(), Refusal> {
    match step {
        Step::Idle => Ok(()),
        Step::Started(Run {
            number: _,
            operation,
            attempt: _,
            reason,
            position: _,
            leader_generation: _,
            episode,
        }) => {
            require_operation(operation)?;
            require_shown(reason)?;
            episode.iter().try_for_each(require_episode)
        }
        Step::AwaitingAnswer { sequence: _, episode } => episode.iter().try_for_each(require_episode),
        Step::Failed(episode) => require_episode(episode),
    }
}

fn require_episode(episode: &Episode) -> Result<(), Refusal> {
    let Episode { id: _, operation, reason, since_ms: _, failures: _, retry } = episode;
    require_operation(operation)?;
    require_shown(&(reason, retry))
}

fn require_relation(relation: &RelationLocal) -> Result<(), Refusal> {
    let RelationLocal {
        uuid: _,
        local_endpoint,
        created: _,
        members: _, // by the size of a transaction; shown to nobody
        applications,
        pending_changed: _,
        bag,
        lost_bag_changes,
        pending_application_writes,
    } = relation;
    require_endpoint(local_endpoint)?;
    applications.keys().try_for_each(require_identifier)?;
    require_bag(bag)?;
    lost_bag_changes.iter().try_for_each(require_bag)?;
    pending_application_writes.iter().try_for_each(|(_, change)| require_bag(change))
}

fn require_operation(operation: &Operation) -> Result<(), Refusal> {
    match operation {
        Operation::InstallCharm(charm) => require_charm(charm),
        Operation::EnterScope { relation: _, uuid: _, local_endpoint, settings } => {
            require_endpoint(local_endpoint)?;
            require_bag(settings)
        }
        Operation::Hook(hook) => require_hook(hook),
        Operation::Action { id: _, name } => require_identifier(name),
        Operation::Commands(CommandsRequest { id: _, about }) => about.iter().try_for_each(|about| {
            let RelationContext { relation: _, unit: _, application, departing: _ } = about;
            require_identifier(application)
        }),
        Operation::LeaveScope { relation: _, uuid: _ } | Operation::Resync | Operation::SetDead => Ok(()),
    }
}

fn require_charm(charm: &CharmRef) -> Result<(), Refusal> {
    let CharmRef { sha256, url, revision: _, endpoints, resources } = charm;
    [sha256, url, resources].into_iter().try_for_each(require_identifier)?;
    require_length(endpoints.len(), ENDPOINTS_MAX)?;
    endpoints.iter().try_for_each(require_identifier)
}

fn require_endpoint(local_endpoint: &LocalEndpoint) -> Result<(), Refusal> {
    let LocalEndpoint { endpoint, interface, peer: _, implicit: _, remote_application } = local_endpoint;
    [endpoint, interface, remote_application].into_iter().try_for_each(require_identifier)
}

fn require_hook(hook: &Hook) -> Result<(), Refusal> {
    match hook {
        Hook::Install
        | Hook::UpgradeCharm
        | Hook::UpdateStatus
        | Hook::Stop
        | Hook::Remove
        | Hook::LeaderElected { generation: _ }
        | Hook::LeaderSettingsChanged { version: _ } => Ok(()),
        Hook::ConfigChanged(config) => require_config(config),
        Hook::Start { boot } => require_identifier(boot),
        Hook::Relation { relation: _, endpoint, event } => {
            require_identifier(endpoint)?;
            match event {
                RelationEvent::ApplicationChanged { application, counter: _ } => {
                    require_identifier(application)
                }
                RelationEvent::Created
                | RelationEvent::Joined { unit: _, version: _ }
                | RelationEvent::Changed { unit: _, version: _ }
                | RelationEvent::Departed { unit: _, departing: _ }
                | RelationEvent::Broken => Ok(()),
            }
        }
        Hook::Secret { secret: _, label, revision: _, event: _, leader_only: _ } => {
            require_bytes(label.len(), LABEL_BYTES_MAX)
        }
        Hook::Storage { id: _, storage, event: _ } => require_storage(storage),
    }
}

fn require_hook_name(name: &HookName) -> Result<(), Refusal> {
    match name {
        HookName::Relation { endpoint: owner, event: _ } | HookName::Storage { name: owner, event: _ } => {
            require_identifier(owner)
        }
        HookName::Install
        | HookName::LeaderElected
        | HookName::LeaderSettingsChanged
        | HookName::ConfigChanged
        | HookName::Start
        | HookName::UpgradeCharm
        | HookName::UpdateStatus
        | HookName::Stop
        | HookName::Remove
        | HookName::Secret(_) => Ok(()),
    }
}

fn require_config(config: &ConfigDigest) -> Result<(), Refusal> {
    let ConfigDigest { settings, addresses, trusted: _ } = config;
    [settings, addresses].into_iter().try_for_each(require_identifier)
}

fn require_storage(storage: &AttachedStorage) -> Result<(), Refusal> {
    let AttachedStorage { instance: _, kind: _, location } = storage;
    require_bytes(location.len(), LOCATION_BYTES_MAX)
}

fn require_writes(writes: &Writes) -> Result<(), Refusal> {
    let Writes {
        bags,
        ports: PortWrites { open, close }, // the charm names the endpoints: the commit refuses unknown ones
        state: _,                          // by the size of a transaction; shown to nobody
        action: ActionWrites { results, process: _, failed: _ }, // shown to those who ask for the action
        secrets: _,                        // by `secret_writes`
        storage: _,                        // the charm names it: the commit refuses what it does not declare
        reboot: _,
    } = writes;
    for BagWrites { unit, application } in bags.values() {
        [unit, application].into_iter().try_for_each(require_bag)?;
    }
    [open, close].into_iter().try_for_each(require_ports)?;
    require_depth(JsonMeasure::of(results, u64::MAX).depth)
}

/// Refuses settings that the hook tools refuse.
fn require_bag(bag: &BagChange) -> Result<(), Refusal> {
    if let Some(key) = settings::key_with_nul(bag) {
        return Err(RecordRefusal::NulInSetting { key: shown(key) }.into());
    }
    require_bytes(settings::size(bag), PUBLISHED_BAG_BYTES_MAX)
}

fn require_ports(ports: &Ports) -> Result<(), Refusal> {
    require_length(range_count(ports), PORT_RANGES_MAX)
}

/// Refuses a value that is too long or too deep to be shown: it is part of statuses.
fn require_shown(value: &impl Serialize) -> Result<(), Refusal> {
    let measure = JsonMeasure::of(value, u64::MAX);
    require_bytes(measure.bytes, OUTCOME_BYTES_MAX)?;
    require_depth(measure.depth)
}

fn require_depth(depth: usize) -> Result<(), Refusal> {
    match depth > OUTCOME_DEPTH_MAX {
        true => Err(RecordRefusal::TooDeep { depth, max: OUTCOME_DEPTH_MAX }.into()),
        false => Ok(()),
    }
}

fn require_bytes(bytes: usize, max: usize) -> Result<(), Refusal> {
    if bytes > max { Err(RecordRefusal::TextTooLong { bytes, max }.into()) } else { Ok(()) }
}

/// Refuses a list that is longer than that of a correct agent.
pub(crate) fn require_length(count: usize, max: usize) -> Result<(), Refusal> {
    if count > max { Err(RecordRefusal::ListTooLong { count, max }.into()) } else { Ok(()) }
}

/// Refuses a name, a digest or a boot id that is too long or has control characters.
#[expect(clippy::ptr_arg, reason = "it is passed to iterators of texts")]
pub(super) fn require_identifier(text: &String) -> Result<(), Refusal> {
    if text.len() > IDENTIFIER_BYTES_MAX || text.contains(char::is_control) {
        return Err(RecordRefusal::InvalidName { name: shown(text) }.into());
    }
    Ok(())
}

/// The first characters of a text of an agent, for a refusal that repeats it: statuses show refusals to everyone.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(NAME_SHOWN).collect()
}

/// Refuses a status that charms cannot set.
pub(super) fn require_status(status: WorkloadStatus) -> Result<(), Refusal> {
    match status {
        WorkloadStatus::Blocked
        | WorkloadStatus::Maintenance
        | WorkloadStatus::Waiting
        | WorkloadStatus::Active => Ok(()),
        WorkloadStatus::Error | WorkloadStatus::Terminated | WorkloadStatus::Unknown => {
            Err(RecordRefusal::ReservedStatus { status }.into())
        }
    }
}

pub(super) fn require_text(text: &str) -> Result<(), Refusal> {
    if text.len() > REPORT_BYTES_MAX {
        return Err(RecordRefusal::TextTooLong { bytes: text.len(), max: REPORT_BYTES_MAX }.into());
    }
    Ok(())
}
