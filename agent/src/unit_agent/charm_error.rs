//! Why a lost charm could not be fetched again, for the run that needs it: that run fails for this reason.
//!
//! The reason is valid for that run only. It is dropped once the charm is complete again or nothing has to run, so that the
//! next loss is followed by another attempt to fetch the charm. Used by the decision loop.

use state::terms::failure_reason::FailureReason;
use state::unit::decision::CharmOnDisk;
use std::cell::RefCell;

/// The reason of the last attempt to fetch a lost charm, if it failed.
#[derive(Default)]
pub(super) struct CharmError(RefCell<Option<FailureReason>>);

impl CharmError {
    /// The charm for the next decision. A complete charm drops the reason.
    pub(super) fn observe(&self, is_missing: bool) -> CharmOnDisk {
        if !is_missing {
            self.clear();
            return CharmOnDisk::Complete;
        }
        match self.0.borrow().is_some() {
            true => CharmOnDisk::Unavailable,
            false => CharmOnDisk::Missing,
        }
    }

    /// Stores how an attempt has ended.
    pub(super) fn set(&self, failed: Option<FailureReason>) {
        self.0.replace(failed);
    }

    /// The reason for which a run fails now.
    pub(super) fn take(&self) -> Option<FailureReason> {
        self.0.take()
    }

    /// Drops the reason: the charm was installed, or no run needs it.
    pub(super) fn clear(&self) {
        self.0.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1. The file of a charm is missing in the controller. 2. A person puts it back, and the charm is complete, before a run
    ///    has failed. 3. The charm is lost again.
    #[test]
    fn the_reason_of_one_loss_does_not_fail_a_run_after_another_loss() {
        let error = CharmError::default();
        assert_eq!(error.observe(true), CharmOnDisk::Missing);
        error.set(Some(FailureReason::CharmMissing));
        assert_eq!(error.observe(true), CharmOnDisk::Unavailable);
        assert_eq!(error.observe(false), CharmOnDisk::Complete);
        assert_eq!(error.observe(true), CharmOnDisk::Missing, "it is fetched");
        error.set(Some(FailureReason::CharmMissing));
        error.clear();
        assert_eq!(error.observe(true), CharmOnDisk::Missing, "no run has needed it");
        error.set(Some(FailureReason::CharmMissing));
        assert_eq!(error.take(), Some(FailureReason::CharmMissing));
        assert_eq!(error.observe(true), CharmOnDisk::Missing, "the next run needs it, too");
    }
}
