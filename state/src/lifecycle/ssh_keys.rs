//! The ssh keys of a model, which users of Pintle add and remove. They are part of the view of each machine but those of
//! the local provider, which are folders on the controller's host; the machine's agent keeps them in `authorized_keys`.

use crate::documents::draft::Draft;
use crate::documents::prelude::Model;
use crate::documents::refusal::Refusal;
use crate::lifecycle::model;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::model::ModelRefusal;
use crate::terms::ssh_key::SshKey;

/// The most ssh keys of a model: with 4 KiB each, they add at most 256 KiB to the view of a machine.
const SSH_KEYS_MAX: usize = 64;

/// Adds keys to a model, all or none. Returns those that the model has already.
///
/// # Errors
/// If the model is not Alive, a text is not a public key, or there would be too many.
pub fn add(draft: &mut Draft, model: Model, texts: &[String]) -> Result<Vec<SshKey>, Refusal> {
    model::require_alive(draft, model)?;
    let mut keys = draft.get(&model.ssh_keys()).unwrap_or_default();
    let (before, mut duplicates) = (keys.len(), Vec::new());
    for (number, text) in (1..).zip(texts) {
        let key: SshKey = text.parse().map_err(|problem| ModelRefusal::InvalidSshKey { number, problem })?;
        if keys.iter().any(|known| known.content() == key.content()) {
            duplicates.push(key);
        } else if keys.len() == SSH_KEYS_MAX {
            return Err(ModelRefusal::TooManySshKeys { max: SSH_KEYS_MAX }.into());
        } else {
            keys.push(key);
        }
    }
    if keys.len() > before {
        draft.put(&model.ssh_keys(), &keys);
    }
    Ok(duplicates)
}

/// Removes keys of a model, all or none. Each is named as [`SshKey::is_named`] says.
///
/// # Errors
/// If the model does not exist, or a name fits no key.
pub fn remove(draft: &mut Draft, model: Model, ids: &[String]) -> Result<(), Refusal> {
    if draft.get(&model.model_life()).is_none() {
        return Err(Refusal::not_found(EntityKind::Model, model.0));
    }
    let mut keys = draft.get(&model.ssh_keys()).unwrap_or_default();
    for id in ids {
        if !keys.iter().any(|key| key.is_named(id)) {
            return Err(Refusal::not_found(EntityKind::SshKey, id));
        }
    }
    keys.retain(|key| !ids.iter().any(|id| key.is_named(id)));
    match keys.is_empty() {
        true => draft.remove(&model.ssh_keys()),
        false => draft.put(&model.ssh_keys(), &keys),
    }
    Ok(())
}
