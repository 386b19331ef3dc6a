//! Warnings about writes in English.

use crate::WriteWarning;

/// The text of a warning.
pub fn describe(warning: &WriteWarning) -> String {
    match warning {
        WriteWarning::UnknownModelSetting { name } => {
            format!("unknown model setting {name:?}: stored, but has no effect")
        }
        WriteWarning::StorageKept { storage, machine } => {
            let ids: Vec<String> = storage.iter().map(ToString::to_string).collect();
            format!(
                "storage {} is detached and stays on machine {machine}, which is not removed: pintle remove-storage {} \
                 (with --destroy-storage it is removed with its unit)",
                ids.join(", "),
                ids.join(" ")
            )
        }
        WriteWarning::DuplicateSshKey { fingerprint } => {
            format!("duplicate ssh key: the model has the key {fingerprint} already")
        }
    }
}
