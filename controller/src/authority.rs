//! Who may send which request (S13): each request type declares its caller. Who calls is the session's principal,
//! never something in a body (S14).
//!
//! A caller without a token, with an unknown one, or with one that may not do this gets the same answer, whether what
//! was asked about exists or not (S15).

use api::error::{ApiError, ErrorCode};
use api::request::Caller;
use state::documents::keys::{Model, TokenHolder, UserRole};
use state::terms::names::Uuid;

/// The one answer to everybody who may not.
pub fn unauthorised() -> ApiError {
    ApiError::new(ErrorCode::Unauthorised, "not authorised: this token may not do that")
        .hint("check that the token is of this controller, of this agent, and of a sufficient role")
}

/// This principal may send requests of this caller.
pub fn check(principal: &TokenHolder, caller: Caller) -> Result<(), ApiError> {
    let least = |role: UserRole| matches!(principal, TokenHolder::User { role: own, .. } if *own >= role);
    let may = match caller {
        Caller::UnitAgent => matches!(principal, TokenHolder::Unit { .. }),
        Caller::MachineAgent => matches!(principal, TokenHolder::Machine { .. }),
        Caller::Enrolment => matches!(principal, TokenHolder::EnrollingMachine { .. }),
        Caller::Reader => least(UserRole::Read),
        Caller::Writer => least(UserRole::Write),
        Caller::Admin => least(UserRole::Admin),
    };
    if may { Ok(()) } else { Err(unauthorised()) }
}

/// The agent the path names is the one that calls.
pub fn check_agent(principal: &TokenHolder, model: Uuid, agent: Uuid) -> Result<(), ApiError> {
    let own = match principal {
        TokenHolder::Unit { model: own, unit } => (*own, *unit) == (Model(model), agent),
        TokenHolder::Machine { model: own, machine }
        | TokenHolder::EnrollingMachine { model: own, machine, .. } => {
            (*own, *machine) == (Model(model), agent)
        }
        TokenHolder::User { .. } => false,
    };
    if own { Ok(()) } else { Err(unauthorised()) }
}

/// The unit that calls.
pub fn unit(principal: &TokenHolder) -> Result<(Model, Uuid), ApiError> {
    match principal {
        TokenHolder::Unit { model, unit } => Ok((*model, *unit)),
        TokenHolder::Machine { .. } | TokenHolder::EnrollingMachine { .. } | TokenHolder::User { .. } => {
            Err(unauthorised())
        }
    }
}

/// The machine that calls.
pub fn machine(principal: &TokenHolder) -> Result<(Model, Uuid), ApiError> {
    match principal {
        TokenHolder::Machine { model, machine } => Ok((*model, *machine)),
        TokenHolder::Unit { .. } | TokenHolder::EnrollingMachine { .. } | TokenHolder::User { .. } => {
            Err(unauthorised())
        }
    }
}

/// The machine that enrols, in time (S19). A token that has expired authorises nobody.
pub fn enrolling(principal: &TokenHolder, now_ms: i64) -> Result<(Model, Uuid), ApiError> {
    match principal {
        TokenHolder::EnrollingMachine { model, machine, expires_ms } if now_ms < *expires_ms => {
            Ok((*model, *machine))
        }
        TokenHolder::EnrollingMachine { .. }
        | TokenHolder::Unit { .. }
        | TokenHolder::Machine { .. }
        | TokenHolder::User { .. } => Err(unauthorised()),
    }
}
