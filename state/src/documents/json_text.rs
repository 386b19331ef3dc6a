//! The JSON text of one stored document.
//!
//! Clones share the text and the value that was parsed from it, so that a document is parsed once however often
//! it is read: a transition and the views after it read the same few documents repeatedly.

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A type that can be stored as a document.
pub trait Document: DeserializeOwned + Clone + Send + Sync + 'static {}

impl<T: DeserializeOwned + Clone + Send + Sync + 'static> Document for T {}

struct Shared {
    json: Box<str>,
    /// The value of the first type as which the text was parsed; nearly always the only type.
    parsed: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// The JSON text of a document. Clones share the text and its parsed value.
#[derive(Clone)]
pub struct Text(Arc<Shared>);

impl Text {
    /// The text of `document`, with the parsed value set already.
    ///
    /// # Panics
    /// If the document cannot be written as JSON.
    pub fn of<T: Document + Serialize>(document: &T) -> Text {
        let text = Text::from(serde_json::to_string(document).expect("documents are plain data"));
        text.0.parsed.set(Box::new(document.clone())).ok();
        text
    }

    /// The document. Fails if the text is not JSON of type `T`.
    pub fn parse<T: Document>(&self) -> serde_json::Result<T> {
        self.with(T::clone)
    }

    /// Calls `look` with the document, which is not copied, and returns its result. Fails if the text is not JSON of
    /// type `T`.
    pub fn with<T: Document, R>(&self, look: impl FnOnce(&T) -> R) -> serde_json::Result<R> {
        if let Some(parsed) = self.0.parsed.get().and_then(|parsed| parsed.downcast_ref::<T>()) {
            return Ok(look(parsed));
        }
        let parsed: T = serde_json::from_str(&self.0.json)?;
        let result = look(&parsed);
        self.0.parsed.set(Box::new(parsed)).ok();
        Ok(result)
    }
}

impl From<String> for Text {
    fn from(json: String) -> Text {
        Text(Arc::new(Shared { json: json.into(), parsed: OnceLock::new() }))
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0.json
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.0.json == other.0.json
    }
}

impl Eq for Text {}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
