//! The entities outside of a unit's own documents on which its view depends.
//!
//! A stream compares the keys of every commit with them: a commit that writes only actions, secrets or ports of other units
//! costs no read of a document. The status or name of another unit, a subordinate link, and the life of another unit,
//! machine, application or relation do cost reads, because their keys do not show whether they are related. They are computed with the parts of the view that depend on them, and change only with these.
//! Used by [`crate::views::delta`].

use crate::terms::names::Uuid;
use crate::terms::secret::SecretId;
use crate::unit::snapshot::Change;
use std::collections::BTreeSet;

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

/// What one revision has changed for a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewUpdate {
    /// The changes of the view, which are sent.
    pub changes: Vec<Change>,
    /// What the view of the unit itself depends on, if that was computed.
    pub(super) unit_dependencies: Option<UnitDependencies>,
    /// What the secrets depend on, if that was computed.
    pub(super) secret_dependencies: Option<SecretDependencies>,
}
