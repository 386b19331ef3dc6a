//! Who may call what: one row a route (S13). Who calls is the session's principal, never something in a body (S14).
//!
//! A caller without a token, with an unknown one, or with one that may not do this gets the same answer, whether
//! what it asked about exists or not (S15).

use api::error::{ApiError, ErrorCode};
use api::routes::Route;
use state::model::keys::{Model, Principal, UserRole};
use state::names::Uuid;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// The unit the path names.
    Unit,
    /// The machine the path names. What is on it is the handler's question.
    Machine,
    /// A machine that may introduce itself; the path names it.
    Enrolment,
    /// Users of this role or a higher one.
    Users(UserRole),
}

/// The table.
pub fn callers(route: Route) -> Callers {
    match route {
        Route::Attach
        | Route::Commit
        | Route::Report
        | Route::Claim
        | Route::WatchUnit
        | Route::Bag
        | Route::Archive => Callers::Unit,
        Route::WatchMachine
        | Route::Fate
        | Route::UnitToken
        | Route::RemoveDeadUnit
        | Route::Here
        | Route::MachineGone
        | Route::MachineDead => Callers::Machine,
        Route::Enrol => Callers::Enrolment,
        Route::About
        | Route::OpenApi
        | Route::Models
        | Route::ModelConfig
        | Route::ArchiveInfo
        | Route::Config
        | Route::Status
        | Route::ShowUnit
        | Route::DebugLog
        | Route::Why
        | Route::Forecast
        | Route::ForecastForce
        | Route::Action
        | Route::Actions
        | Route::Machines
        | Route::Changes => Callers::Users(UserRole::Read),
        Route::UploadArchive
        | Route::ConfigureModel
        | Route::Deploy
        | Route::AddUnits
        | Route::Refresh
        | Route::Integrate
        | Route::Configure
        | Route::Resolved
        | Route::Run
        | Route::AddMachines
        | Route::RemoveMachine
        | Route::RemoveMachineOnly
        | Route::RetryProvisioning
        | Route::RemoveUnit
        | Route::RemoveApplication
        | Route::RemoveRelation
        | Route::SuspendRelation
        | Route::ResumeRelation => Callers::Users(UserRole::Write),
        Route::CreateModel
        | Route::DestroyModel
        | Route::ForceModel
        | Route::Invite
        | Route::Provisioned
        | Route::MachineFate
        | Route::MachineToken
        | Route::MachineRemoved => Callers::Users(UserRole::Admin),
    }
}

/// The one answer to everybody who may not.
pub fn unauthorised() -> ApiError {
    ApiError::new(ErrorCode::Unauthorised, "not authorised: this token may not do that")
        .hint("check that the token is of this controller, of this agent, and of a sufficient role")
}

/// This principal may call this route.
pub fn check(principal: &Principal, route: Route) -> Result<(), ApiError> {
    let may = match (callers(route), principal) {
        (Callers::Unit, Principal::Unit { .. })
        | (Callers::Machine, Principal::Machine { .. })
        | (Callers::Enrolment, Principal::Enrolment { .. }) => true,
        (Callers::Users(least), Principal::User { role, .. }) => *role >= least,
        (Callers::Unit | Callers::Machine | Callers::Enrolment | Callers::Users(_), _) => false,
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
pub fn unit(principal: &Principal, route: Route) -> Result<(Model, Uuid), ApiError> {
    check(principal, route)?;
    match principal {
        Principal::Unit { model, unit } => Ok((*model, *unit)),
        Principal::Machine { .. } | Principal::Enrolment { .. } | Principal::User { .. } => {
            Err(unauthorised())
        }
    }
}

/// The machine that calls.
pub fn machine(principal: &Principal, route: Route) -> Result<(Model, Uuid), ApiError> {
    check(principal, route)?;
    match principal {
        Principal::Machine { model, machine } => Ok((*model, *machine)),
        Principal::Unit { .. } | Principal::Enrolment { .. } | Principal::User { .. } => Err(unauthorised()),
    }
}

/// The machine that introduces itself, in time (S19). A token that has expired is nobody's.
pub fn invited(principal: &Principal, route: Route, now_ms: i64) -> Result<(Model, Uuid), ApiError> {
    check(principal, route)?;
    match principal {
        Principal::Enrolment { model, machine, expires_ms } if now_ms < *expires_ms => Ok((*model, *machine)),
        Principal::Enrolment { .. }
        | Principal::Unit { .. }
        | Principal::Machine { .. }
        | Principal::User { .. } => Err(unauthorised()),
    }
}
