//! Storage: instances that are created for units, attached, detached and removed (spec/uniter.md A.13).
//!
//! An instance is created Alive with an attachment, provided by the agent of its machine, used by the unit from its hook
//! storage-attached on, and released when its hook storage-detaching has run. It outlives its unit if the unit has used
//! it and its pool is persistent. Its content stays on the machine where it was created; a machine with such an instance
//! is not removed with its last unit. A content is deleted only after a request to remove it, or with the machine.
//!
//! Called by the handlers of users and machine agents, the removals that users request, the lifecycle of units, the
//! commit of records, and resyncs.

use crate::charm::{Charm, Storage};
use crate::documents::application::charm_of;
use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{AttachmentDoc, Model, StorageDoc, UnitDoc};
use crate::documents::refusal::Refusal;
use crate::documents::sequence;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::machine;
use crate::lifecycle::storage_directives::{count_of, declared, require_count, suitable, too_many};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::storage::StorageRefusal;
use crate::terms::storage::{
    ERROR_BYTES_MAX, STORAGE_OF_MACHINE_MAX, STORAGE_OF_UNIT_MAX, StorageDirective, StorageId, StoragePool,
    StorageReport, is_location,
};

/// A unit to which storage is attached.
#[derive(Clone, Copy)]
pub(crate) struct StorageOwner<'a> {
    pub id: Uuid,
    pub doc: &'a UnitDoc,
}

/// The number of documents that the storage of a new unit of the application takes: one for each instance, its sequence,
/// and the two indexes.
pub(crate) fn writes_of_new_unit(draft: &mut Draft, model: Model, application: Uuid) -> usize {
    let Some((_, charm)) = charm_of(draft, model, application).filter(|(_, charm)| !charm.storage.is_empty())
    else {
        return 0;
    };
    let requested = draft.get(&model.application_storage(application)).unwrap_or_default().directives;
    let counts = charm.storage.iter().map(|(name, declared)| count_of(declared, requested.get(name)));
    counts.sum::<usize>() + 3
}

/// Creates the storage of a new unit: what the charm requires and what was requested at its deployment, and attaches
/// the existing instances `attach` in place of new ones.
pub(crate) fn create_for_unit(
    draft: &mut Draft,
    model: Model,
    unit: StorageOwner,
    attach_existing: &[StorageId],
    mut creation: Creation,
) -> Result<(), Refusal> {
    let Some((_, charm)) = charm_of(draft, model, unit.doc.application) else { return Ok(()) };
    if charm.storage.is_empty() && attach_existing.is_empty() {
        return Ok(());
    }
    for id in attach_existing {
        attach_to(draft, model, unit, id, &charm)?;
    }
    let requested =
        draft.get(&model.application_storage(unit.doc.application)).unwrap_or_default().directives;
    for (name, declared) in &charm.storage {
        let existing = attach_existing.iter().filter(|id| id.name == *name).count();
        let directive = requested.get(name);
        for _ in existing..count_of(declared, directive) {
            create(draft, model, unit, StorageRequest { name, declared, directive }, creation.reborrow())?;
        }
    }
    Ok(())
}

/// One instance of storage that is to be created: its name, how the charm declares it, and what the user requests of it.
#[derive(Clone, Copy)]
struct StorageRequest<'a> {
    name: &'a str,
    declared: &'a Storage,
    directive: Option<&'a StorageDirective>,
}

fn create(
    draft: &mut Draft,
    model: Model,
    unit: StorageOwner,
    StorageRequest { name, declared, directive }: StorageRequest,
    creation: Creation,
) -> Result<StorageId, Refusal> {
    let (pool, size_mib) = suitable(name, declared, directive)?;
    let number = sequence::take(draft, model, "storage");
    let number = u32::try_from(number).expect("a model has fewer than 2^32 instances in its life");
    let id = StorageId { name: name.to_owned(), number };
    let doc = StorageDoc {
        uuid: (creation.ids)(),
        kind: declared.kind,
        pool,
        size_mib,
        machine: unit.doc.machine,
        created_ms: creation.now_ms,
        life: Life::Alive,
        provisioned: false,
        used: false,
        attachment: Some(AttachmentDoc { unit: unit.id, location: None, attached: false, detaching: false }),
        error: None,
        since_ms: creation.now_ms,
    };
    put_in_indexes(draft, model, unit, &id)?;
    draft.put(&model.storage(&id), &doc);
    Ok(id)
}

fn put_in_indexes(
    draft: &mut Draft,
    model: Model,
    unit: StorageOwner,
    id: &StorageId,
) -> Result<(), Refusal> {
    let mut of_unit = draft.get(&model.unit_storage(unit.id)).unwrap_or_default();
    let mut on_machine = draft.get(&model.machine_storage(unit.doc.machine)).unwrap_or_default();
    of_unit.insert(id.clone());
    on_machine.insert(id.clone(), Life::Alive);
    if of_unit.len() > STORAGE_OF_UNIT_MAX || on_machine.len() > STORAGE_OF_MACHINE_MAX {
        return Err(too_many());
    }
    draft.put(&model.unit_storage(unit.id), &of_unit);
    draft.put(&model.machine_storage(unit.doc.machine), &on_machine);
    Ok(())
}

/// The instance with this id.
///
/// # Errors
/// If there is none.
pub(crate) fn find(draft: &mut Draft, model: Model, id: &StorageId) -> Result<StorageDoc, Refusal> {
    draft.get(&model.storage(id)).ok_or_else(|| Refusal::not_found(EntityKind::Storage, id))
}

fn alive_unit(draft: &mut Draft, model: Model, unit: Uuid) -> Result<UnitDoc, Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
    if effective_life::unit_life_of(draft, model, unit, &doc) != Life::Alive {
        return Err(StorageRefusal::UnitNotAlive { unit: doc.name }.into());
    }
    Ok(doc)
}

fn count_attached(draft: &mut Draft, model: Model, unit: Uuid, name: &str) -> usize {
    let of_unit = draft.get(&model.unit_storage(unit)).unwrap_or_default();
    of_unit.iter().filter(|id| id.name == name).count()
}

/// The user's `add-storage` and the tool storage-add: creates further instances for an Alive unit.
///
/// # Errors
/// If the unit is not Alive, its charm declares no such storage or not so many instances, or a limit is exceeded.
pub fn add(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    name: &str,
    directive: &StorageDirective,
    mut creation: Creation,
) -> Result<Vec<StorageId>, Refusal> {
    let doc = alive_unit(draft, model, unit)?;
    let (_, charm) = charm_of(draft, model, doc.application)
        .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, &doc.name.application))?;
    let declared = declared(&charm, name)?;
    let added = count_of(declared, Some(directive));
    // refused without a loop: the user may request 2^32 instances
    require_count(name, declared, count_attached(draft, model, unit, name).saturating_add(added))?;
    let owner = StorageOwner { id: unit, doc: &doc };
    let request = StorageRequest { name, declared, directive: Some(directive) };
    (0..added).map(|_| create(draft, model, owner, request, creation.reborrow())).collect()
}

/// The user's `attach-storage`: attaches an instance that no unit has to an Alive unit of its machine.
///
/// # Errors
/// If it is attached or being removed, or does not suit the unit.
pub fn attach(draft: &mut Draft, model: Model, unit: Uuid, id: &StorageId) -> Result<(), Refusal> {
    let doc = alive_unit(draft, model, unit)?;
    let (_, charm) = charm_of(draft, model, doc.application)
        .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, &doc.name.application))?;
    attach_to(draft, model, StorageOwner { id: unit, doc: &doc }, id, &charm)
}

fn attach_to(
    draft: &mut Draft,
    model: Model,
    unit: StorageOwner,
    id: &StorageId,
    charm: &Charm,
) -> Result<(), Refusal> {
    let storage = find(draft, model, id)?;
    if storage.life != Life::Alive {
        return Err(StorageRefusal::BeingRemoved { id: id.clone() }.into());
    }
    if let Some(attachment) = &storage.attachment {
        if attachment.unit == unit.id && !attachment.detaching {
            return Ok(());
        }
        let holder = draft.get(&model.unit(attachment.unit)).map(|unit| unit.name);
        return Err(StorageRefusal::Attached { id: id.clone(), unit: holder }.into());
    }
    let declared = declared(charm, &id.name)?;
    if declared.kind != storage.kind {
        return Err(StorageRefusal::OtherKind { id: id.clone() }.into());
    }
    if storage.machine != unit.doc.machine {
        let machine = draft.get(&model.machine(storage.machine)).map(|machine| machine.name);
        let machine = machine.unwrap_or_default();
        return Err(StorageRefusal::OtherMachine { id: id.clone(), machine }.into());
    }
    let count = count_attached(draft, model, unit.id, &id.name) + 1;
    if declared.count_max.is_some_and(|max| count > max as usize) {
        let (name, min, max) = (id.name.clone(), declared.count_min, declared.count_max);
        return Err(StorageRefusal::WrongCount { name, count, min, max }.into());
    }
    put_in_indexes(draft, model, unit, id)?;
    let attachment = AttachmentDoc { unit: unit.id, location: None, attached: false, detaching: false };
    draft.put(&model.storage(id), &StorageDoc { attachment: Some(attachment), ..storage });
    Ok(())
}

/// The user's `detach-storage`: the unit runs storage-detaching, and continues without the instance. An attachment that no
/// unit has used ends at once, without a hook. Repeating the request changes nothing.
///
/// # Errors
/// If there is no such instance, it is not attached, or its content would be lost.
pub fn detach(draft: &mut Draft, model: Model, id: &StorageId, now_ms: i64) -> Result<(), Refusal> {
    let storage = find(draft, model, id)?;
    let Some(attachment) = &storage.attachment else {
        return Err(StorageRefusal::NotAttached { id: id.clone() }.into());
    };
    if !storage.pool.is_persistent() {
        return Err(StorageRefusal::NotDetachable { id: id.clone() }.into());
    }
    if !attachment.attached {
        release(draft, model, id, storage, now_ms);
        return Ok(());
    }
    let attachment = AttachmentDoc { detaching: true, ..attachment.clone() };
    draft.put(&model.storage(id), &StorageDoc { attachment: Some(attachment), since_ms: now_ms, ..storage });
    Ok(())
}

/// The user's `remove-storage`: the agent of its machine deletes the content. With `force`, an instance that is attached
/// is detached first.
///
/// # Errors
/// If there is no such instance, or it is attached and `force` is not set.
pub fn destroy(
    draft: &mut Draft,
    model: Model,
    id: &StorageId,
    force: bool,
    now_ms: i64,
) -> Result<(), Refusal> {
    let storage = find(draft, model, id)?;
    match &storage.attachment {
        Some(_) if !force => Err(StorageRefusal::InUse { id: id.clone() }.into()),
        Some(attachment) if attachment.attached => {
            set_dying(draft, model, id, storage, now_ms);
            Ok(())
        }
        Some(_) => {
            release_as(draft, model, id, storage, Life::Dying, now_ms);
            Ok(())
        }
        None => {
            destroy_detached(draft, model, id, storage, now_ms);
            Ok(())
        }
    }
}

/// The user's `remove-storage --no-destroy`: the model forgets an instance whose content another model can reach. No pool has
/// such a content: that of each exists on its machine only, and would be lost with it.
///
/// # Errors
/// If there is no such instance, or its pool cannot release it, as those of Juju with the same names.
pub fn release_content(documents: &mut impl Documents, model: Model, id: &StorageId) -> Result<(), Refusal> {
    let storage = documents.document(&model.storage(id));
    match storage.ok_or_else(|| Refusal::not_found(EntityKind::Storage, id))?.pool {
        pool @ (StoragePool::Rootfs | StoragePool::Tmpfs | StoragePool::Loop) => {
            Err(StorageRefusal::NotReleasable { id: id.clone(), pool }.into())
        }
    }
}

/// The users' `remove-unit --destroy-storage`: the storage of the unit is removed once the unit has detached it.
pub(crate) fn destroy_with_unit(draft: &mut Draft, model: Model, unit: Uuid, now_ms: i64) {
    for id in draft.get(&model.unit_storage(unit)).unwrap_or_default() {
        if let Some(storage) = draft.get(&model.storage(&id)) {
            set_dying(draft, model, &id, storage, now_ms);
        }
    }
}

/// The users' `remove-application --destroy-storage`: the storage of each unit is removed with it.
pub(crate) fn destroy_with_application(draft: &mut Draft, model: Model, application: Uuid) {
    let key = model.application_storage(application);
    let mut requested = draft.get(&key).unwrap_or_default();
    if !requested.destroyed {
        requested.destroyed = true;
        draft.put(&key, &requested);
    }
}

fn set_dying(draft: &mut Draft, model: Model, id: &StorageId, storage: StorageDoc, now_ms: i64) {
    if storage.life != Life::Alive {
        return;
    }
    let mut on_machine = draft.get(&model.machine_storage(storage.machine)).unwrap_or_default();
    on_machine.insert(id.clone(), Life::Dying);
    draft.put(&model.machine_storage(storage.machine), &on_machine);
    draft.put(&model.storage(id), &StorageDoc { life: Life::Dying, since_ms: now_ms, ..storage });
}

/// Removes an instance that no unit has: its document at once if it has no content.
fn destroy_detached(draft: &mut Draft, model: Model, id: &StorageId, storage: StorageDoc, now_ms: i64) {
    if storage.provisioned {
        return set_dying(draft, model, id, storage, now_ms);
    }
    remove_documents(draft, model, id, storage.machine);
}

fn remove_documents(draft: &mut Draft, model: Model, id: &StorageId, machine: Uuid) {
    draft.remove(&model.storage(id));
    let mut on_machine = draft.get(&model.machine_storage(machine)).unwrap_or_default();
    on_machine.remove(id);
    match on_machine.is_empty() {
        true => draft.remove(&model.machine_storage(machine)),
        false => draft.put(&model.machine_storage(machine), &on_machine),
    }
}

/// Ends an attachment. The instance is removed if this was requested, or if its content does not outlive the attachment.
fn release(draft: &mut Draft, model: Model, id: &StorageId, storage: StorageDoc, now_ms: i64) {
    let Some(attachment) = &storage.attachment else { return };
    let mut of_unit = draft.get(&model.unit_storage(attachment.unit)).unwrap_or_default();
    of_unit.remove(id);
    match of_unit.is_empty() {
        true => draft.remove(&model.unit_storage(attachment.unit)),
        false => draft.put(&model.unit_storage(attachment.unit), &of_unit),
    }
    let is_removed = storage.life != Life::Alive || !storage.pool.is_persistent();
    let storage = StorageDoc { attachment: None, since_ms: now_ms, ..storage };
    draft.put(&model.storage(id), &storage);
    if is_removed {
        destroy_detached(draft, model, id, storage, now_ms);
    }
}

/// Records that a unit has run storage-attached.
pub(crate) fn record_attached(draft: &mut Draft, model: Model, unit: Uuid, id: &StorageId, instance: Uuid) {
    let Some(storage) = draft.get(&model.storage(id)).filter(|storage| storage.uuid == instance) else {
        return;
    };
    let Some(attachment) = storage.attachment.clone().filter(|attachment| attachment.unit == unit) else {
        return;
    };
    if !attachment.attached {
        let attachment = Some(AttachmentDoc { attached: true, ..attachment });
        draft.put(&model.storage(id), &StorageDoc { used: true, attachment, ..storage });
    }
}

/// Records that a unit has detached an instance.
pub(crate) fn record_detached(
    draft: &mut Draft,
    model: Model,
    unit: StorageOwner,
    id: &StorageId,
    instance: Uuid,
    now_ms: i64,
) {
    let Some(storage) = draft.get(&model.storage(id)).filter(|storage| storage.uuid == instance) else {
        return;
    };
    if storage.attachment.as_ref().is_some_and(|attachment| attachment.unit == unit.id) {
        let is_destroyed = is_destroyed_with(draft, model, unit.doc);
        let life = if is_destroyed { Life::Dying } else { storage.life };
        release_as(draft, model, id, storage, life, now_ms);
    }
}

/// Releases an instance whose removal may have been requested with that of its unit's application or model.
fn release_as(draft: &mut Draft, model: Model, id: &StorageId, storage: StorageDoc, life: Life, now_ms: i64) {
    if life != Life::Alive && storage.life == Life::Alive {
        // the index of the machine has the life, too
        set_dying(draft, model, id, storage.clone(), now_ms);
    }
    release(draft, model, id, StorageDoc { life, ..storage }, now_ms);
}

/// Whether the storage of a unit is removed with it: its model is being destroyed, or its application together with its
/// storage.
fn is_destroyed_with(draft: &mut Draft, model: Model, unit: &UnitDoc) -> bool {
    draft.get(&model.model_life()) != Some(Life::Alive)
        || draft
            .get(&model.application_storage(unit.application))
            .is_some_and(|requested| requested.destroyed)
}

/// The first instance for which a unit has run storage-attached and not storage-detaching.
pub(crate) fn first_attached(draft: &mut Draft, model: Model, unit: Uuid) -> Option<StorageId> {
    let of_unit = draft.get(&model.unit_storage(unit)).unwrap_or_default();
    of_unit.into_iter().find(|id| {
        let attachment = draft.get(&model.storage(id)).and_then(|storage| storage.attachment);
        attachment.is_some_and(|attachment| attachment.attached)
    })
}

/// Ends all attachments of a unit that becomes Dead or is removed. An instance that no unit has used is removed.
pub(crate) fn release_all(draft: &mut Draft, model: Model, unit: StorageOwner) {
    let of_unit = draft.get(&model.unit_storage(unit.id)).unwrap_or_default();
    if of_unit.is_empty() {
        return;
    }
    let is_destroyed = is_destroyed_with(draft, model, unit.doc);
    for id in of_unit {
        let Some(storage) = draft.get(&model.storage(&id)) else { continue };
        let life = if is_destroyed || !storage.used { Life::Dying } else { storage.life };
        let since_ms = storage.since_ms;
        release_as(draft, model, &id, storage, life, since_ms);
    }
}

/// What the agent of a machine reports about an instance of storage.
#[derive(Clone, Debug)]
pub struct ReportedStorage<'a> {
    /// The storage.
    pub id: &'a StorageId,
    /// The uuid of the instance that had this id when the report was made.
    pub instance: Uuid,
    /// The report.
    pub report: StorageReport,
}

/// Applies what the agent of a machine reports about an instance. A report about another instance of that id, or about
/// an attachment that has ended, changes nothing.
///
/// # Errors
/// If the instance is on another machine, or the location is no path that a unit can use.
pub fn record_report(
    draft: &mut Draft,
    model: Model,
    machine: Uuid,
    ReportedStorage { id, instance, report }: ReportedStorage,
    now_ms: i64,
) -> Result<(), Refusal> {
    let Some(mut storage) = draft.get(&model.storage(id)).filter(|storage| storage.uuid == instance) else {
        return Ok(());
    };
    if storage.machine != machine {
        return Err(Refusal::not_found(EntityKind::Storage, id));
    }
    let before = storage.clone();
    match report {
        StorageReport::Provisioned { location, .. } if !is_location(&location) => {
            return Err(StorageRefusal::InvalidLocation { id: id.clone() }.into());
        }
        StorageReport::Provisioned { unit, location } => {
            storage.provisioned = true;
            storage.error = None;
            if let Some(attachment) = storage.attachment.as_mut().filter(|attachment| attachment.unit == unit)
            {
                attachment.location = Some(location);
            }
        }
        StorageReport::Failed { error } => {
            let mut error = error.replace(char::is_control, " ");
            let end = (0..=ERROR_BYTES_MAX).rev().find(|at| error.is_char_boundary(*at));
            error.truncate(end.unwrap_or_default());
            storage.error = Some(error);
        }
        StorageReport::Released if storage.attachment.is_none() => storage.error = None,
        StorageReport::Removed if storage.life != Life::Alive && storage.attachment.is_none() => {
            remove_documents(draft, model, id, machine);
            machine::destroy_if_empty(draft, model, machine);
            return Ok(());
        }
        StorageReport::Released | StorageReport::Removed => return Ok(()),
    }
    if storage != before {
        draft.put(&model.storage(id), &StorageDoc { since_ms: now_ms, ..storage });
    }
    Ok(())
}
