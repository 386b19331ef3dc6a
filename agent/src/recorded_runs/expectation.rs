//! What the exported test of a recorded run expects, according to how the run has ended.
//!
//! A run that has not ended is not exported: its test would expect a part of what the run sets. Called by `ops_test`.

use super::recorded_run::RunEnd;
use host::escape::one_line;
use state::unit::outcome::RunExit;

/// What the test expects of the run, from how the recorded one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// The run sets what the recorded one has set.
    Same,
    /// The run succeeds, which the recorded one did not.
    Success,
    /// The run succeeds; the recorded one was cut short by something other than its charm.
    SuccessAfterInterruption,
}

impl Expectation {
    /// None for a run that has not ended.
    pub(super) fn of(end: &RunEnd) -> Option<Expectation> {
        match end {
            RunEnd::Exited(RunExit::Code(0)) => Some(Expectation::Same),
            RunEnd::Exited(RunExit::Cancelled | RunExit::Interrupted) | RunEnd::Interrupted => {
                Some(Expectation::SuccessAfterInterruption)
            }
            RunEnd::Exited(_) => Some(Expectation::Success),
            RunEnd::Running => None,
        }
    }

    /// Why the test asserts nothing of what the run sets; none if it asserts that.
    pub(super) fn comment(self, end: &RunEnd) -> Option<String> {
        let end = one_line(&end.text());
        match self {
            Expectation::Same => None,
            Expectation::Success => Some(format!(
                "# The recorded run did not succeed ({end}): neither does this test, until the charm is repaired."
            )),
            Expectation::SuccessAfterInterruption => Some(format!(
                "# The recorded run was cut short ({end}): what it would have set is not known."
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test of a run that has not ended would assert half of what it sets.
    #[test]
    fn only_a_run_that_has_ended_is_exported_and_only_a_success_is_asserted() {
        let expectation = |end: RunEnd| {
            let expectation = Expectation::of(&end)?;
            Some((expectation, expectation.comment(&end).is_some()))
        };
        assert_eq!(expectation(RunEnd::Running), None);
        assert_eq!(expectation(RunEnd::Exited(RunExit::Code(0))), Some((Expectation::Same, false)));
        assert_eq!(expectation(RunEnd::Exited(RunExit::Code(1))), Some((Expectation::Success, true)));
        let cut_short = Some((Expectation::SuccessAfterInterruption, true));
        assert_eq!(expectation(RunEnd::Exited(RunExit::Cancelled)), cut_short);
        assert_eq!(expectation(RunEnd::Interrupted), cut_short);
    }
}
