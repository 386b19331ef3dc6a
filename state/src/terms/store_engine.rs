//! The engine of a store, which decides how much one transaction and one hook may write.
//!
//! SQLite has no bound of its own, and etcd accepts 1.5 MiB in one request by default. A unit is shown the engine in its
//! view, so that a tool call that writes too much fails, and not the record of its hook (`unit::writes`). The store tells
//! it to transitions (`documents::draft`).

use serde::{Deserialize, Serialize};

/// The engine of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StoreEngine {
    /// A database of the controller.
    Sqlite,
    /// etcd. The default has the smaller bounds, which every engine can hold.
    #[default]
    Etcd,
}

impl StoreEngine {
    /// Whether this is the default.
    pub fn is_default(&self) -> bool {
        *self == StoreEngine::default()
    }
}
