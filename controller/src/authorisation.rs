//! Authorisation: which principal may send which request (S13).
//!
//! Each request type declares its caller in `requests!` of `api/src/NOUN.rs`; the roles of users are in
//! `state::documents::token_holder`. The principal is always taken from the caller's token, never from a
//! request body (S14). A caller without a token, with an unknown token, or with an insufficient token always gets the
//! same error, so that the error does not reveal whether an entity exists (S15). The only exception is the agent of a removed
//! machine, whose token is known until it has confirmed the removal: it is informed that it must uninstall itself.
//!
//! `server` calls it before it reads a body, `callers` before each handler, and the agents' handlers to find the
//! calling unit or machine.

use api::error::{ApiError, ErrorCode};
use api::request::Caller;
use state::documents::prelude::{Model, TokenHolder, UserRole};
use state::terms::names::Uuid;
use state::terms::refusal::RefusalReason;

/// The error for every caller that is not authorised. It is the same for all of them (S15).
pub fn unauthorised() -> ApiError {
    RefusalReason::NotAuthorised.into()
}

/// The error for the agent of a removed machine.
pub fn machine_removed() -> ApiError {
    ApiError::new(ErrorCode::Removed, "the machine was removed")
}

/// Checks that the principal may send requests that declare this caller.
///
/// # Errors
/// If it may not. The agent of a removed machine receives [`ErrorCode::Removed`]: it must uninstall itself.
pub fn check(principal: &TokenHolder, caller: Caller) -> Result<(), ApiError> {
    let is_removed = matches!(principal, TokenHolder::RemovedMachine { .. });
    if is_removed && caller != Caller::UninstallingMachineAgent {
        return Err(machine_removed());
    }
    let has_role = |role: UserRole| matches!(principal, TokenHolder::User { role: own, .. } if *own >= role);
    let is_allowed = match caller {
        Caller::UnitAgent => matches!(principal, TokenHolder::Unit { .. }),
        Caller::MachineAgent => matches!(principal, TokenHolder::Machine { .. }),
        Caller::UninstallingMachineAgent => is_removed || matches!(principal, TokenHolder::Machine { .. }),
        Caller::Enrolment => matches!(principal, TokenHolder::EnrollingMachine { .. }),
        Caller::Reader => has_role(UserRole::Read),
        Caller::Writer => has_role(UserRole::Write),
        Caller::Admin => has_role(UserRole::Admin),
    };
    if is_allowed { Ok(()) } else { Err(unauthorised()) }
}

/// Checks that the agent named in the request's path is the caller.
///
/// # Errors
/// If it is not.
pub fn check_agent(principal: &TokenHolder, model: Uuid, agent: Uuid) -> Result<(), ApiError> {
    let is_caller = match principal {
        TokenHolder::Unit { model: own, unit } => (*own, *unit) == (Model(model), agent),
        TokenHolder::Machine { model: own, machine }
        | TokenHolder::RemovedMachine { model: own, machine }
        | TokenHolder::EnrollingMachine { model: own, machine, .. } => {
            (*own, *machine) == (Model(model), agent)
        }
        TokenHolder::User { .. } => false,
    };
    if is_caller { Ok(()) } else { Err(unauthorised()) }
}

/// Returns the calling unit and its model; an error if the caller is not a unit agent.
pub fn unit(principal: &TokenHolder) -> Result<(Model, Uuid), ApiError> {
    match principal {
        TokenHolder::Unit { model, unit } => Ok((*model, *unit)),
        TokenHolder::Machine { .. }
        | TokenHolder::RemovedMachine { .. }
        | TokenHolder::EnrollingMachine { .. }
        | TokenHolder::User { .. } => Err(unauthorised()),
    }
}

/// Returns the calling machine and its model; an error if the caller is not a machine agent.
pub fn machine(principal: &TokenHolder) -> Result<(Model, Uuid), ApiError> {
    match principal {
        TokenHolder::Machine { model, machine } => Ok((*model, *machine)),
        TokenHolder::RemovedMachine { .. } => Err(machine_removed()),
        TokenHolder::Unit { .. } | TokenHolder::EnrollingMachine { .. } | TokenHolder::User { .. } => {
            Err(unauthorised())
        }
    }
}

/// Returns the machine that enrols and its model (S19); an error if the caller has no valid enrolment token.
pub fn enrolling(principal: &TokenHolder, now_ms: i64) -> Result<(Model, Uuid), ApiError> {
    match principal {
        TokenHolder::EnrollingMachine { model, machine, expires_ms } if now_ms < *expires_ms => {
            Ok((*model, *machine))
        }
        TokenHolder::EnrollingMachine { .. }
        | TokenHolder::Unit { .. }
        | TokenHolder::Machine { .. }
        | TokenHolder::RemovedMachine { .. }
        | TokenHolder::User { .. } => Err(unauthorised()),
    }
}
