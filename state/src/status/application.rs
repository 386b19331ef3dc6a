//! The status of an application whose leader has set none.

use crate::terms::status::WorkloadStatus;
use crate::terms::status_info::StatusInfo;

/// Returns the worst of these statuses; of equal ones the first.
pub fn worst<'a>(
    statuses: impl Iterator<Item = &'a StatusInfo<WorkloadStatus>>,
) -> Option<&'a StatusInfo<WorkloadStatus>> {
    statuses.min_by_key(|status| status.current)
}
