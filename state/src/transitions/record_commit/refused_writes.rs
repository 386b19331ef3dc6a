//! The context of a commit, and why the writes of a record are refused: an endpoint that the charm does not declare, ports of another unit, or settings
//! that are too large. Called by the commit of a record; nothing is written here.

use crate::agents::record_bounds::{PUBLISHED_BAG_BYTES_MAX, shown};
use crate::agents::secret_writes::SecretWriter;
use crate::charm::JUJU_INFO;
use crate::documents::draft::Draft;
use crate::documents::prelude::{Model, OpenPortsDoc, UnitDoc};
use crate::lifecycle::machine::UNITS_MAX;
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::port_range::PortRange;
use crate::terms::refusal::write::WriteRefusal;
use crate::terms::secret::SecretId;
use crate::terms::settings;
use crate::unit::hook_context::ALL_ENDPOINTS;
use crate::unit::local::Local;
use crate::unit::record::Record;
use crate::unit::writes::size;
use std::collections::BTreeSet;

/// A record that is being committed, with its unit.
pub(super) struct CommitContext<'a> {
    pub(super) id: Uuid,
    pub(super) doc: &'a UnitDoc,
    /// The record, with its times by the clock of the controller.
    pub(super) record: &'a Record,
    /// The unit's stored state before the record.
    pub(super) local: &'a Local,
    /// A secret whose content in the record the controller cannot open.
    pub(super) unopened: Option<SecretId>,
    /// The time of the commit by the clock of the controller.
    pub(super) now_ms: i64,
}

impl CommitContext<'_> {
    pub(super) fn secret_writer(&self) -> SecretWriter<'_> {
        let (leader_generation, at_ms) = (self.record.leader_generation, self.record.at_ms);
        SecretWriter { unit: self.id, doc: self.doc, local: self.local, leader_generation, at_ms }
    }
}

/// The relation that the unit has recorded under this number, if it still exists.
pub(super) fn existing_relation(
    draft: &mut Draft,
    model: Model,
    local: &Local,
    number: RelationNumber,
) -> Option<Uuid> {
    let id = local.relations.get(&number)?.uuid;
    draft.get(&model.relation(id)).map(|_| id)
}

/// The refusal of a port range that is opened at an endpoint which the charm does not declare
/// (spec/hook-tools.md 2.4).
pub(super) fn unknown_endpoint(context: &CommitContext) -> Option<WriteRefusal> {
    let declared = &context.local.charm.as_ref()?.endpoints;
    let mut named = context.record.writes.ports.open.keys();
    let unknown =
        named.find(|name| *name != ALL_ENDPOINTS && *name != JUJU_INFO && !declared.contains(*name))?;
    Some(WriteRefusal::UnknownEndpoint { unit: context.doc.name.clone(), endpoint: shown(unknown) })
}

/// The bytes of new addresses, which the record of a config-changed hook publishes in 300 relations: some 200 each. They are
/// part of the 272 KiB that a transaction has for keys and fields.
const ADDRESSES_BYTES_MAX: usize = 64 << 10;

/// The refusal of settings that would exceed what the hook tools allow, one bag or all together, so that the transaction is
/// not refused as a whole. Leaders that follow each other can exceed it together, because the view of the second one may be
/// older than what the first one has written; and so can a hook that began before its store was migrated to etcd. Otherwise
/// no correct agent sends such a record.
pub(super) fn too_large_bag(
    draft: &mut Draft,
    model: Model,
    context: &CommitContext,
) -> Option<WriteRefusal> {
    let mut all_bytes = 0;
    for (relation, writes) in &context.record.writes.bags {
        let Some(id) = existing_relation(draft, model, context.local, *relation) else { continue };
        for (holder, change) in [(context.id, &writes.unit), (context.doc.application, &writes.application)] {
            if change.is_empty() {
                continue;
            }
            let mut values = draft.get(&model.bag(id, holder)).map(|bag| bag.values).unwrap_or_default();
            settings::apply(&mut values, change);
            let (bytes, max) = (settings::size(&values), PUBLISHED_BAG_BYTES_MAX);
            if bytes > max {
                let (unit, relation) = (context.doc.name.clone(), *relation);
                return Some(WriteRefusal::BagTooLarge { unit, relation, bytes, max });
            }
            all_bytes += size(&values);
        }
    }
    let (unit, max) = (context.doc.name.clone(), all_bags_bytes_max(draft));
    let is_refused = context.record.is_conditional() && all_bytes > max;
    is_refused.then_some(WriteRefusal::BagsTooLarge { unit, bytes: all_bytes, max })
}

/// The most bytes of all bags that a record changes.
fn all_bags_bytes_max(draft: &Draft) -> usize {
    draft.engine().hook_writes_bytes_max() + ADDRESSES_BYTES_MAX
}

/// The relations whose settings a record cannot write because those of the relations before them leave no room. Only a record
/// with settings of its unit alone has any: it is never refused, so that the rest of it is applied. Another one was refused
/// ([`too_large_bag`]).
pub(super) fn relations_without_room(
    draft: &mut Draft,
    model: Model,
    context: &CommitContext,
) -> BTreeSet<RelationNumber> {
    let mut found = BTreeSet::new();
    if context.record.is_conditional() {
        return found;
    }
    let mut room = all_bags_bytes_max(draft);
    for (relation, writes) in &context.record.writes.bags {
        let Some(id) = existing_relation(draft, model, context.local, *relation) else { continue };
        let mut values = draft.get(&model.bag(id, context.id)).map(|bag| bag.values).unwrap_or_default();
        settings::apply(&mut values, &writes.unit);
        match room.checked_sub(size(&values)) {
            Some(left) => room = left,
            None => drop(found.insert(*relation)),
        }
    }
    found
}

/// The refusal of a port range that conflicts with one that another unit of the machine has opened.
pub(super) fn port_conflict(
    draft: &mut Draft,
    model: Model,
    context: &CommitContext,
) -> Option<WriteRefusal> {
    let wanted: Vec<PortRange> = context.record.writes.ports.open.values().flatten().copied().collect();
    if wanted.is_empty() {
        return None;
    }
    let own = model.machine_port(context.doc.machine, context.id);
    for (key, other) in
        draft.page::<OpenPortsDoc>(&model.machine_ports_prefix(context.doc.machine), "", UNITS_MAX)
    {
        for &other_range in other.ports.values().flatten() {
            if let Some(range) = wanted.iter().find(|range| key != own.text() && range.conflicts(other_range))
            {
                let (unit, range, other) = (context.doc.name.clone(), *range, other.unit.clone());
                return Some(WriteRefusal::PortConflict { unit, range, other, other_range });
            }
        }
    }
    None
}
