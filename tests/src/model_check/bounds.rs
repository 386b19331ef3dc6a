//! The bounds of the exhaustive search: the requests of users and crashes that a run may contain, and the form of a violation.

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
    pub states: usize,
    pub steps: usize,
    /// States in which only a user request is possible.
    pub quiet: usize,
}

/// A violated property, and the shortest path to it.
#[derive(Clone, Debug)]
pub struct Violation {
    pub what: String,
    pub steps: Vec<String>,
}
