//! Lines of the debug log.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogDoc {
    pub at_ms: i64,
    pub level: String,
    /// `unit.web/0.juju-log`.
    pub module: String,
    /// `unit-web-0`.
    pub entity: String,
    pub text: String,
}

impl Model {
    /// `hook` and `call` number the line within its unit, so that a line sent twice is stored once.
    pub fn log(&self, unit: Uuid, hook: u64, call: u32) -> Key<LogDoc> {
        self.other(Kind::Log, format_args!("{unit}/{hook:010}/{call:06}"))
    }
    pub fn logs(&self) -> String {
        self.below(Kind::Log, &[])
    }
}
