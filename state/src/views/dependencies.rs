//! The entities outside of a unit's own documents on which its view depends.
//!
//! A stream compares the keys of every commit with them: a commit that writes only actions, secrets or ports of other units,
//! or the status, the name or the life of a unit of an application that is not related, costs no read of a document. A
//! subordinate link and the life of another application do cost reads, because their keys do not show whether they are
//! related. They are computed with the parts of the view that depend on them, and change only with these.
//! Made by `views::view` and `views::secrets`; used by [`crate::views::delta`] and by the watches of the controller.

use crate::documents::prelude::UnitDoc;
use crate::terms::names::Uuid;
use crate::terms::secret::SecretId;
use crate::unit::snapshot::Change;
use std::collections::{BTreeMap, BTreeSet};

/// What the part [`UnitView`](crate::unit::snapshot::UnitView) of a view depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitDependencies {
    /// The machine of the unit.
    pub machine: Uuid,
    /// Its principal and its subordinates.
    pub units: BTreeSet<Uuid>,
}

/// What the secrets of a view depend on. A secret that the unit may not read at present counts, too, because a grant can
/// make it visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretDependencies {
    /// The secrets of the unit and its application, and those that the unit has read.
    pub secrets: BTreeSet<SecretId>,
    /// The owners of these secrets: a secret is shown while its owner exists.
    pub owners: BTreeSet<Uuid>,
    /// The relations of their grants: a grant ends with its relation.
    pub relations: BTreeSet<Uuid>,
}

/// What the life of a unit depends on besides its own application, and whether the view shows it as dying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHosts {
    machine: Uuid,
    principal: Option<Uuid>,
    is_dying: bool,
}

impl UnitHosts {
    /// Those of a unit with this document.
    pub(super) fn new(doc: &UnitDoc, is_dying: bool) -> UnitHosts {
        UnitHosts { machine: doc.machine, principal: doc.principal, is_dying }
    }
}

/// The units of the own application and of related ones: the view shows their statuses, and the members among them. 64
/// bytes each, in each stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelatedUnits(BTreeMap<Uuid, UnitHosts>);

/// The units that are related from now on, and those that are no longer (none).
pub(super) type RelatedUnitsChange = BTreeMap<Uuid, Option<UnitHosts>>;

impl RelatedUnits {
    /// Adds a unit.
    pub(super) fn insert(&mut self, unit: Uuid, hosts: UnitHosts) {
        self.0.insert(unit, hosts);
    }

    /// Whether this is one of the units.
    pub(super) fn contains(&self, unit: Uuid) -> bool {
        self.0.contains_key(&unit)
    }

    /// Whether this is one of the units and is not shown as dying.
    pub(super) fn contains_alive(&self, unit: Uuid) -> bool {
        self.0.get(&unit).is_some_and(|hosts| !hosts.is_dying)
    }

    /// Whether the life of one of the units depends on that of this unit or machine.
    pub(super) fn depend_on(&self, id: Uuid) -> bool {
        let is_host = |hosts: &UnitHosts| hosts.machine == id || hosts.principal == Some(id);
        self.contains(id) || self.0.values().any(is_host)
    }

    /// Adds and removes units.
    pub(super) fn apply(&mut self, change: &RelatedUnitsChange) {
        for (unit, hosts) in change {
            match hosts {
                Some(hosts) => self.0.insert(*unit, *hosts),
                None => self.0.remove(unit),
            };
        }
    }
}

/// What one or several revisions have changed for a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewUpdate {
    /// The changes of the view, which are sent.
    pub changes: Vec<Change>,
    /// What the view of the unit itself depends on, if that was computed.
    pub(super) unit_dependencies: Option<UnitDependencies>,
    /// What the secrets depend on, if that was computed.
    pub(super) secret_dependencies: Option<SecretDependencies>,
    /// The units that became related, and those that are no longer.
    pub(super) related_units: RelatedUnitsChange,
}
