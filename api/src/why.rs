//! What an entity waits for.

use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::life::Life;

requests! { WhyRequests {
    GetWhy = post "/v1/models/{model}/why", Reader => Why;
} }

/// Everything that holds an entity up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetWhy {
    /// A unit, an application, a machine's name, a relation's number or its two ends with a space between; empty = the
    /// model.
    pub entity: String,
}

/// One thing that an entity waits for, computed when it was asked for (design 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Who is held up: `unit web/0`.
    pub entity: String,
    /// What is owed: `run db-relation-broken for relation 3`.
    pub duty: String,
    /// Who owes it: `unit agent of web/0`, `machine agent 0`, `you`.
    pub owner: String,
    #[serde(default)]
    pub since_ms: Option<i64>,
    #[serde(default)]
    pub last_error: Option<String>,
    /// A command that moves it on, or what it will pass by itself with; may be empty.
    #[serde(default)]
    pub help: String,
}

/// Everything that holds an entity up; empty = nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// `unit web/0`, `application web`, `relation 3`, `machine 0`.
    pub entity: String,
    pub life: Life,
    /// What it does now, in words: `idle`, `running config-changed hook`.
    pub now: String,
    pub causes: Vec<Cause>,
    /// There are more causes than these.
    #[serde(default)]
    pub more: bool,
}
