//! Stores contents of secrets that the janitor resealed after a key rotation, and samples contents for the check of the
//! keys at the start of the controller.
//!
//! `state` does not know the keys: a content is an opaque text here. The janitor (`controller::janitor::secrets`) chooses
//! the contents and seals them with the newest key; a content that has changed meanwhile is not replaced.

use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Key, Reader, read, read_all};
use crate::documents::prelude::{GLOBAL, Kind, Model, SecretContentDoc};
use crate::terms::names::Uuid;

/// One sealed content of each model that has one. The controller checks at its start that it has the keys of these.
pub fn sample_contents(reader: &dyn Reader) -> Vec<String> {
    let models = read_all::<Uuid>(reader, &GLOBAL.prefix(Kind::ModelName));
    let samples = models.into_iter().filter_map(|(_, model)| {
        let key = (&mut { reader }).keys(&Model(model).prefix(Kind::SecretContent), 1).pop()?;
        read(reader, &Key::<SecretContentDoc>::new(key)).map(|content| content.sealed)
    });
    samples.collect()
}

/// Replaces a sealed content by the same content under another key, unless it has changed since it was read.
pub fn replace_content(draft: &mut Draft, key: &str, read: &SecretContentDoc, sealed: &str) {
    let key = Key::new(key.to_owned());
    if draft.get(&key).as_ref() == Some(read) {
        draft.put(&key, &SecretContentDoc { sealed: sealed.to_owned(), ..read.clone() });
    }
}
