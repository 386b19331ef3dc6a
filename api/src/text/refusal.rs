//! Refusals in English: the message that states what is not possible and why, and the hint that states what helps.
//!
//! This is the only place where refusals become text; the texts are never parsed. There is one match per enum of
//! reasons: those of actions, models, scopes, transactions and units are here, the others in a file of their noun
//! (instances: `machine`; sessions, records and writes: `agent`). Called where errors of the API are created, and wherever a stored refusal is shown.

mod agent;
mod application;
mod machine;
mod problem;
mod refusal_text;
mod relation;
mod secret;
mod storage;

use refusal_text::{plain, with_hint};
use state::terms::failure_reason::FailureReason;
use state::terms::names::RelationEnds;
use state::terms::refusal::action::ActionRefusal;
use state::terms::refusal::model::ModelRefusal;
use state::terms::refusal::transaction::TransactionRefusal;
use state::terms::refusal::unit::UnitRefusal;
use state::terms::refusal::{EntityKind, RefusalReason, ScopeRefusal};
use state::unit::record::DroppedWrite;

pub use refusal_text::RefusalText;

/// The message and the hint of a refusal.
pub fn text(reason: &RefusalReason) -> RefusalText {
    match reason {
        RefusalReason::Action(reason) => action(reason),
        RefusalReason::Application(reason) => application::text(reason),
        RefusalReason::Instance(reason) => machine::instance(reason),
        RefusalReason::Machine(reason) => machine::text(reason),
        RefusalReason::Model(reason) => model(reason),
        RefusalReason::Record(reason) => agent::record(reason),
        RefusalReason::Relation(reason) => relation::text(reason),
        RefusalReason::Scope(reason) => scope(reason),
        RefusalReason::Secret(reason) => secret::text(reason),
        RefusalReason::Session(reason) => agent::session(reason),
        RefusalReason::Storage(reason) => storage::text(reason),
        RefusalReason::Transaction(reason) => plain(transaction(reason)),
        RefusalReason::Unit(reason) => unit(reason),
        RefusalReason::Write(reason) => plain(agent::write(reason)),
        RefusalReason::NotAuthorised => with_hint(
            "not authorised: this token may not do that",
            "use a token that this controller issued to this agent or user, with a sufficient role",
        ),
        RefusalReason::NotFound { kind, name } => not_found(*kind, name),
        RefusalReason::TooManyAdded { count, kind, max } => with_hint(
            format!("cannot add {count} {kind}: at most {max} per request"),
            format!("add the {kind} in several requests"),
        ),
        RefusalReason::TooManySimulated { count, max } => with_hint(
            format!("cannot simulate {count} removals: at most {max} per request"),
            "name fewer entities",
        ),
    }
}

fn not_found(kind: EntityKind, name: &str) -> RefusalText {
    match kind {
        EntityKind::Model => {
            with_hint(format!("model {name:?} not found"), "list the models with: pintle models")
        }
        EntityKind::Application => plain(format!("application {name:?} not found")),
        EntityKind::ApplicationCharm => plain(format!("charm of application {name} not found")),
        EntityKind::CharmArchive => plain(format!("charm archive {name} not found")),
        EntityKind::ResourceFile => plain(format!("resource file {name} not found")),
        EntityKind::MachineOrRelation => plain(format!("no machine or relation {name}")),
        EntityKind::SshKey => with_hint(
            format!("ssh key {name:?} not found"),
            "list the keys of the model with: pintle ssh-keys",
        ),
        EntityKind::Unit
        | EntityKind::Relation
        | EntityKind::Machine
        | EntityKind::Task
        | EntityKind::Operation
        | EntityKind::Storage => plain(format!("{kind} {name} not found")),
    }
}

/// The message of a refusal, without its hint.
pub fn message(reason: &RefusalReason) -> String {
    text(reason).message
}

/// Why an operation of a unit has failed: `exit status 1`.
pub fn failure(reason: &FailureReason) -> String {
    match reason {
        FailureReason::Exit { code, last_line } => {
            with_line(format!("exit status {code}"), last_line.as_ref())
        }
        FailureReason::Signal { signal, last_line } => {
            with_line(format!("killed by signal {signal}"), last_line.as_ref())
        }
        FailureReason::ActionMissing { unit } => format!("action not implemented on unit \"{unit}\""),
        FailureReason::CharmMissing => "charm missing from disk".to_owned(),
        FailureReason::NotExecutable { file } => format!("fork/exec {file}: permission denied"),
        FailureReason::IsDirectory { file } => format!("{file} is a directory: permission denied"),
        FailureReason::Interrupted => "the agent stopped while it ran".to_owned(),
        FailureReason::InterruptedAgain { count } => format!("interrupted {count} times in a row"),
        FailureReason::StateLost => "the unit's stored state was lost while the action ran".to_owned(),
        FailureReason::ControllerRestored => {
            "the controller was restored while the action started".to_owned()
        }
        FailureReason::RelationNotShown => "the relation is not in the unit's view".to_owned(),
        FailureReason::Text(text) => text.clone(),
        FailureReason::Refused { refusal } => message(refusal),
        FailureReason::OfOperation { operation, reason } => format!("{operation}: {}", failure(reason)),
    }
}

fn with_line(end: String, last_line: Option<&String>) -> String {
    match last_line {
        Some(line) => format!("{end}: {line}"),
        None => end,
    }
}

/// What was dropped, and why: `settings of relation 3: the relation is removed`.
pub fn dropped(write: &DroppedWrite) -> String {
    match write {
        DroppedWrite::SettingsOfRemovedRelation { relation } => {
            format!("settings of relation {relation}: the relation is removed")
        }
        DroppedWrite::SettingsOutOfScope { relation } => {
            format!("settings of relation {relation}: the unit is not in its scope")
        }
        DroppedWrite::SettingsTooLarge { relation } => {
            format!("settings of relation {relation}: they are too large beside those of the other relations")
        }
        DroppedWrite::RemovedSecret { secret } => format!("secret {secret} is removed"),
        DroppedWrite::ApplicationStatus { unit } => format!("application status: {unit} is not the leader"),
        DroppedWrite::Entry { relation, refusal } => format!("relation {relation}: {}", message(refusal)),
    }
}

fn action(reason: &ActionRefusal) -> RefusalText {
    match reason {
        ActionRefusal::Unknown { action, unit, charm, known } => with_hint(
            format!("action {action:?} on unit {unit} (not found)"),
            match known.is_empty() {
                true => format!("charm {charm} has no actions"),
                false => format!("charm {charm} has: {}", known.join(", ")),
            },
        ),
        ActionRefusal::InvalidParameters { problems } => {
            plain(format!("validation failed: {}", problem::joined(problems, problem::parameter)))
        }
        ActionRefusal::ParametersTooLarge { action, bytes, max } => plain(format!(
            "cannot enqueue action {action:?}: its parameters take {bytes} bytes, at most {max}"
        )),
        ActionRefusal::TooManyEnqueued { action, unit, max } => {
            plain(format!("cannot enqueue action {action:?}: {max} actions wait for unit {unit} already"))
        }
        ActionRefusal::Finished { id, status } => {
            plain(format!("cannot cancel task {id}: it has {status} already"))
        }
    }
}

fn model(reason: &ModelRefusal) -> RefusalText {
    let removal = |name: &str| format!("see what it waits for: pintle why model -m {name}");
    match reason {
        ModelRefusal::InvalidName { name } => {
            let rule = "use lower-case letters, digits and hyphens; do not start with a hyphen";
            with_hint(format!("invalid model name {name:?}"), rule)
        }
        ModelRefusal::NameTooLong { length, max } => with_hint(
            format!("invalid model name of {length} characters: at most {max}"),
            "use a shorter name",
        ),
        ModelRefusal::AlreadyExists { name } => plain(format!("model {name:?} already exists")),
        ModelRefusal::PredecessorExists { name } => {
            with_hint(format!("model {name:?} already exists and is being removed"), removal(name))
        }
        ModelRefusal::InvalidSetting { setting, value, expected } => {
            let expected = problem::setting_values(*expected);
            plain(format!("option {setting:?} expected {expected}, got {value:?}"))
        }
        ModelRefusal::SettingTooLong { setting, bytes, max } => with_hint(
            format!("cannot set option {setting:?}: its value takes {bytes} bytes, at most {max}"),
            "use a shorter value",
        ),
        ModelRefusal::NotForDevelopment { name } => with_hint(
            format!("model {name} is not for the development of charms"),
            format!("use a model for development, or: pintle model-config -m {name} development=true"),
        ),
        ModelRefusal::AdvancedTooFar => {
            plain("cannot advance the clock by a year or more at once".to_owned())
        }
        ModelRefusal::InvalidSshKey { number, problem } => with_hint(
            format!("invalid ssh key number {number}: {}", problem::ssh_key(*problem)),
            "use the content of a file of a public key, for example: pintle add-ssh-key \"$(cat ~/.ssh/id_ed25519.pub)\"",
        ),
        ModelRefusal::TooManySshKeys { max } => with_hint(
            format!("cannot add ssh keys: a model has at most {max}"),
            "remove keys that nobody uses: pintle remove-ssh-key FINGERPRINT",
        ),
        ModelRefusal::BeingRemoved { name } => {
            with_hint(format!("cannot add to model {name}: it is being removed"), removal(name))
        }
    }
}

fn scope(reason: &ScopeRefusal) -> RefusalText {
    let cannot = |unit, ends: &RelationEnds, why: String| {
        plain(format!("unit {unit} cannot enter the scope of {ends}: {why}"))
    };
    match reason {
        ScopeRefusal::NotMember { unit, ends } => {
            plain(format!("unit {unit} has no part in relation {ends}"))
        }
        ScopeRefusal::UnitNotAlive { unit, ends, life } => cannot(unit, ends, format!("the unit is {life}")),
        ScopeRefusal::RelationNotAlive { unit, ends, life } => {
            cannot(unit, ends, format!("the relation is {life}"))
        }
        ScopeRefusal::Suspended { unit, ends } => cannot(unit, ends, "the relation is suspended".to_owned()),
        ScopeRefusal::SubordinateRefused { unit, ends, reason } => cannot(unit, ends, message(reason)),
    }
}

fn transaction(reason: &TransactionRefusal) -> String {
    let bound = match reason {
        TransactionRefusal::TooManyReads { count, max } => format!("{count} reads, at most {max}"),
        TransactionRefusal::TooManyWrites { count, max } => format!("{count} writes, at most {max}"),
        TransactionRefusal::TooLarge { bytes, max } => format!("{bytes} bytes, at most {max}"),
    };
    format!("transaction too large: {bound}")
}

fn unit(reason: &UnitRefusal) -> RefusalText {
    match reason {
        UnitRefusal::SubordinateApplication { application } => with_hint(
            format!("cannot add a unit to {application}: it is a subordinate application"),
            "integrate it with a principal application: each principal unit gets a subordinate",
        ),
        UnitRefusal::SubordinateNotRemoved { unit, life } => {
            plain(format!("unit {unit} has a subordinate of this application that is {life}"))
        }
        UnitRefusal::Subordinate { unit } => with_hint(
            format!("cannot remove unit {unit}: it is a subordinate"),
            "remove its principal or the relation between them",
        ),
        UnitRefusal::Alive { unit } => plain(format!("unit {unit} is alive: it cannot be dead")),
        UnitRefusal::HasSubordinates { unit } => {
            plain(format!("unit {unit} cannot be dead: it has subordinates"))
        }
        UnitRefusal::InScope { unit, ends } => {
            plain(format!("unit {unit} cannot be dead: it is in the scope of relation {ends}"))
        }
        UnitRefusal::NotDead { unit } => plain(format!("cannot remove unit {unit}: it is not dead")),
        UnitRefusal::AgentNotFinished { unit } => {
            plain(format!("cannot remove unit {unit}: its agent has not finished"))
        }
        UnitRefusal::Dead { unit } => plain(format!("unit {unit} is dead")),
        UnitRefusal::NoError { unit } => plain(format!("unit {unit} is not in an error state")),
    }
}
