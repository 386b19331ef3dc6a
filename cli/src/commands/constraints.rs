//! `constraints`, `set-constraints`, `model-constraints` and `set-model-constraints`, and the flag `--constraints`.
//!
//! Constraints are stored and shown. Every machine that a provider starts runs on the host of the controller, so the only
//! constraint that can be satisfied is the architecture of that host; a warning names the others. Test suites set it before
//! anything else (spec/clients.md 2.2, 2.6).

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat};
use crate::session::CommandSession;
use api::{Constraints, GetConstraints, SetConstraints, UserPort};
use clap::Args;
use host::hardware;
use serde_json::{Map, Value};
use state::terms::constraints::{ConstraintKey, ConstraintValue};

/// Arguments of `set-model-constraints`.
#[derive(Debug, Args)]
pub struct SetModelConstraintsArgs {
    /// All constraints as key=value, which replace those of before; only arch is enforced
    pub constraints: Vec<String>,
}

/// Arguments of `set-constraints`.
#[derive(Debug, Args)]
pub struct SetConstraintsArgs {
    /// Application
    pub application: String,
    /// All constraints as key=value, which replace those of before; only arch is enforced
    pub constraints: Vec<String>,
}

/// Arguments of `model-constraints`.
#[derive(Debug, Args)]
pub struct ModelConstraintsArgs {
    /// Output format
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Arguments of `constraints`.
#[derive(Debug, Args)]
pub struct ConstraintsArgs {
    /// Application
    pub application: String,
    /// Output format
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Parses constraints. Warns about those that have no effect.
///
/// # Errors
/// If they are not in the form of constraints, or name another architecture than that of this host.
pub fn parse<A>(words: &[String], session: &CommandSession<A>) -> Result<Constraints, CommandError> {
    let parsed = words.join(" ").parse::<Constraints>();
    let constraints = parsed.map_err(|bad| CommandError::usage(bad.to_string()))?;
    let is_other =
        |arch: &&ConstraintValue| **arch != ConstraintValue::Word(hardware::architecture().to_owned());
    if constraints.0.get(&ConstraintKey::Arch).filter(is_other).is_some() {
        let text = format!("cannot use constraints {constraints}: this host is {}", hardware::architecture());
        return Err(CommandError::new(text));
    }
    let without_effect = constraints.0.keys().filter(|key| **key != ConstraintKey::Arch);
    let warning = |key: &ConstraintKey| {
        format!("constraint \"{key}\" is stored and has no effect: every machine runs on this host")
    };
    session.output.warn(&without_effect.map(warning).collect::<Vec<_>>());
    Ok(constraints)
}

/// Replaces the constraints of an application, or of the model.
///
/// # Errors
/// As [`parse`], or if there is no such application.
pub async fn set<A: UserPort>(
    application: Option<&str>,
    constraints: Constraints,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let set = SetConstraints { application: application.map(str::to_owned), constraints };
    session.record_write(session.api.handle(set).await?.revision);
    Ok(())
}

/// Prints the constraints of an application, or of the model.
///
/// # Errors
/// If there is no such application, or stdout cannot be written.
pub async fn show<A: UserPort>(
    application: Option<&str>,
    format: Option<StructuredFormat>,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let constraints = effective(application, session).await?;
    match format {
        None => session.output.print(&format!("{constraints}\n")),
        Some(format) => session.output.print(&render::structured(&document(&constraints), format)?),
    }
}

/// The constraints of the model; or those of an application, with the architecture that all machines have. As in Juju, a
/// model has none until they are set.
pub async fn effective<A: UserPort>(
    application: Option<&str>,
    session: &CommandSession<A>,
) -> Result<Constraints, CommandError> {
    let get = GetConstraints { application: application.map(str::to_owned) };
    let mut constraints = session.api.handle(get).await?.constraints;
    if application.is_some() {
        constraints
            .0
            .entry(ConstraintKey::Arch)
            .or_insert(ConstraintValue::Word(hardware::architecture().to_owned()));
    }
    Ok(constraints)
}

/// The document of constraints, by their keys.
pub fn document(constraints: &Constraints) -> Value {
    let entries = constraints.0.iter();
    let entries = entries.map(|(key, value)| (key.to_string(), serde_json::json!(value)));
    Value::Object(entries.collect::<Map<String, Value>>())
}
