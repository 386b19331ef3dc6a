//! Replaces the sealed contents of secrets after the controller received a newer key.
//!
//! `state` does not know the keys: a content is an opaque text here. Called at the start of the controller, which looks
//! for a missing key, and by the janitor, which seals again what an older key has sealed.

use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Key, Reader, read, read_all};
use crate::documents::prelude::{GLOBAL, Kind, Model, SecretContentDoc};
use crate::terms::names::Uuid;

/// One sealed content of each model that has one: what a start looks at to find that a key is missing.
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
