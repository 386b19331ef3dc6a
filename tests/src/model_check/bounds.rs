//! The bounds of the exhaustive search, and its results: the size of the searched space, and a violation.
//!
//! The bounds limit the number of units, and the requests of users and the crashes that a path may contain.

/// A request of the user, which is made once, at any moment, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRequest {
    RemoveRelation,
    RemoveUnit(&'static str),
    RemoveApplication(&'static str),
    /// remove-unit --force --no-wait: the controller performs the pending steps of the unit's agent while that agent
    /// runs.
    ForceUnit(&'static str),
}

/// The bounds of the space.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Units of each of the two applications.
    pub units: u32,
    pub user_requests: Vec<UserRequest>,
    /// Whether one agent may crash, once.
    pub crash: bool,
}

/// The size of the searched space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Different states.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// States in which no agent and no controller acts: only a user request is possible.
    pub at_rest: usize,
}

/// A violated property, and a shortest path to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The property, and how the state violates it.
    pub what: String,
    /// The steps of the path from the initial state.
    pub steps: Vec<String>,
}
