//! Who may send which request (S13): each request type declares its caller. Who calls is the session's principal,
//! never something in a body (S14).
//!
//! A caller without a token, with an unknown one, or with one that may not do this gets the same answer, whether what
//! was asked about exists or not (S15).

use api::error::{ApiError, ErrorCode};
use api::request::Caller;
use state::documents::keys::{Model, Principal, UserRole};
use state::terms::names::Uuid;

/// The one answer to everybody who may not.
pub fn unauthorised() -> ApiError {
    ApiError::new(ErrorCode::Unauthorised, "not authorised: this token may not do that")
        .hint("check that the token is of this controller, of this agent, and of a sufficient role")
}

/// This principal may send requests of this caller.
pub fn check(principal: &Principal, caller: Caller) -> Result<(), ApiError> {
    let least = |role: UserRole| matches!(principal, Principal::User { role: own, .. } if *own >= role);
    let may = match caller {
        Caller::UnitAgent => matches!(principal, Principal::Unit { .. }),
        Caller::MachineAgent => matches!(principal, Principal::Machine { .. }),
        Caller::Enrolment => matches!(principal, Principal::Enrolment { .. }),
        Caller::Reader => least(UserRole::Read),
        Caller::Writer => least(UserRole::Write),
        Caller::Admin => least(UserRole::Admin),
    };
    if may { Ok(()) } else { Err(unauthorised()) }
}

/// The agent the path names is the one that calls.
pub fn check_agent(principal: &Principal, model: Uuid, agent: Uuid) -> Result<(), ApiError> {
    let own = match principal {
        Principal::Unit { model: own, unit } => (*own, *unit) == (Model(model), agent),
        Principal::Machine { model: own, machine } | Principal::Enrolment { model: own, machine, .. } => {
            (*own, *machine) == (Model(model), agent)
        }
        Principal::User { .. } => false,
    };
    if own { Ok(()) } else { Err(unauthorised()) }
}

/// The unit that calls.
pub fn unit(principal: &Principal) -> Result<(Model, Uuid), ApiError> {
    match principal {
        Principal::Unit { model, unit } => Ok((*model, *unit)),
        Principal::Machine { .. } | Principal::Enrolment { .. } | Principal::User { .. } => {
            Err(unauthorised())
        }
    }
}

/// The machine that calls.
pub fn machine(principal: &Principal) -> Result<(Model, Uuid), ApiError> {
    match principal {
        Principal::Machine { model, machine } => Ok((*model, *machine)),
        Principal::Unit { .. } | Principal::Enrolment { .. } | Principal::User { .. } => Err(unauthorised()),
    }
}

/// The machine that enrols, in time (S19). A token that has expired authorises nobody.
pub fn enrolling(principal: &Principal, now_ms: i64) -> Result<(Model, Uuid), ApiError> {
    match principal {
        Principal::Enrolment { model, machine, expires_ms } if now_ms < *expires_ms => Ok((*model, *machine)),
        Principal::Enrolment { .. }
        | Principal::Unit { .. }
        | Principal::Machine { .. }
        | Principal::User { .. } => Err(unauthorised()),
    }
}
