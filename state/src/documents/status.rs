//! Documents of the statuses that charms and agents set.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use crate::terms::status::AgentStatus;
use crate::terms::unit_documents::StatusDoc;

impl Model {
    /// The workload status of a unit, which its charm sets.
    pub fn unit_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::UnitStatus, &[id])
    }
    /// The agent status of a unit.
    pub fn agent_status(&self, id: Uuid) -> Key<StatusDoc<AgentStatus>> {
        self.key(Kind::AgentStatus, &[id])
    }
    /// The status of an application, which the leader sets.
    pub fn application_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::ApplicationStatus, &[id])
    }
}
