//! Warnings about writes in English.

use crate::WriteWarning;

/// The text of a warning.
pub fn describe(warning: &WriteWarning) -> String {
    match warning {
        WriteWarning::UnknownModelSetting { name } => {
            format!("unknown model setting {name:?}: stored, but has no effect")
        }
        WriteWarning::DuplicateSshKey { fingerprint } => {
            format!("duplicate ssh key: the model has the key {fingerprint} already")
        }
    }
}
