//! The settings that the leader of an application stores (leader-set), as the units of the application see them.
//!
//! The controller stores them before the tool returns, not with the record of the hook: they remain stored even if the
//! hook fails later (spec/hook-tools.md 3). Every unit reads them from its view (leader-get), and the
//! other units run leader-settings-changed when their version differs from the one that they have observed.

use super::hook_context::{HookContext, HookWriteError};
use super::snapshot::Snapshot;
use super::writes::size;
use crate::terms::leader_settings::{LEADER_SETTINGS_BYTES_MAX, LeaderSettingsView};
use crate::terms::refusal::write::LeaderSettingsProblem;
use crate::terms::settings::{self, Bag, BagChange};

/// Checks that `values` with `change` applied can be stored.
///
/// # Errors
/// If a key or a value contains a NUL character, or the settings would be larger than [`LEADER_SETTINGS_BYTES_MAX`] and
/// larger than they are.
pub fn check_change(values: &Bag, change: &BagChange) -> Result<(), LeaderSettingsProblem> {
    if let Some(key) = settings::key_with_nul(change) {
        return Err(LeaderSettingsProblem::ContainsNul { key: key.to_owned() });
    }
    let mut after = values.clone();
    settings::apply(&mut after, change);
    let bytes = size(&after);
    // settings above the limit can shrink, and a change that changes nothing is accepted: a leader that deletes an absent
    // key has not made them larger
    if bytes > LEADER_SETTINGS_BYTES_MAX && bytes > size(values) {
        return Err(LeaderSettingsProblem::TooLarge { bytes, max: LEADER_SETTINGS_BYTES_MAX });
    }
    Ok(())
}

impl HookContext {
    /// Checks that a change of the leader settings can be stored.
    ///
    /// # Errors
    /// [`HookWriteError::LeaderSettings`] if it cannot.
    pub fn check_leader_settings(&self, change: &BagChange) -> Result<(), HookWriteError> {
        check_change(&self.leader_settings, change).map_err(HookWriteError::LeaderSettings)
    }

    /// Applies a change that the controller has stored, so that this hook reads it.
    pub fn apply_leader_settings(&mut self, change: &BagChange) {
        settings::apply(&mut self.leader_settings, change);
    }
}

impl Snapshot {
    /// The newest leader settings that the unit has received: those of the view, or those that it has stored since.
    pub fn newest_leader_settings(&self) -> &LeaderSettingsView {
        match &self.written_leader_settings {
            Some(written) if written.version > self.leader_settings.version => written,
            Some(_) | None => &self.leader_settings,
        }
    }

    /// Keeps the settings that the unit itself has just stored, until a view contains them:
    ///
    /// 1. A hook of the leader calls leader-set, and the controller stores the change.
    /// 2. The hook ends, and the next one starts before the view contains the change.
    /// 3. The second hook must read the settings that the first one has written.
    pub fn store_written_leader_settings(&mut self, written: LeaderSettingsView) {
        if written.version > self.newest_leader_settings().version {
            self.written_leader_settings = Some(written);
        }
    }

    /// Takes over the settings that the unit has stored from the view `before` this one, unless this view contains
    /// them: the controller may have sent a full view before the unit wrote.
    pub fn keep_written_leader_settings(&mut self, before: &Snapshot) {
        if let Some(written) = &before.written_leader_settings
            && before.position.store_generation == self.position.store_generation
        {
            self.store_written_leader_settings(written.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: &str) -> BagChange {
        BagChange::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn settings_at_the_limit_are_accepted_and_deleting_is_always_possible() {
        // {"a":"xxx"} has 8 bytes around the value
        let largest = "x".repeat(LEADER_SETTINGS_BYTES_MAX - 8);
        assert_eq!(check_change(&Bag::new(), &change("a", &largest)), Ok(()));
        let too_much = LeaderSettingsProblem::TooLarge { bytes: 262_145, max: LEADER_SETTINGS_BYTES_MAX };
        assert_eq!(check_change(&Bag::new(), &change("a", &(largest.clone() + "x"))), Err(too_much));
        let mut too_large = Bag::from([("a".to_owned(), largest + "x"), ("b".to_owned(), "1".to_owned())]);
        assert_eq!(check_change(&too_large, &change("b", "")), Ok(()));
        assert_eq!(
            check_change(&too_large, &change("absent", "")),
            Ok(()),
            "an absent key can be deleted, too"
        );
        assert!(check_change(&too_large, &change("c", "1")).is_err());
        settings::apply(&mut too_large, &change("a", ""));
        assert_eq!(check_change(&too_large, &change("c", "1")), Ok(()));
        assert!(check_change(&Bag::new(), &change("a", "\0")).is_err());
    }
}
