//! Shared steps of the commands that remove something: dry run, confirmation, report and combined error.
//!
//! A removal that the controller rejects does not stop the removals after it: each is tried and reported. [`remove_each`] is
//! called by the commands that remove units, applications or machines; the other functions also by `destroy-model`,
//! `remove-relation`, `cancel-task` and `retry-provisioning`.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::output::Output;
use crate::render;
use crate::session::CommandSession;
use crate::times::{Zone, now_ms};
use api::error::ApiError;
use api::{DRY_RUN_TARGETS_MAX, DryRunRemoval, Force, RemovalTarget, UserPort, WriteResponse};
use std::fmt::Display;
use std::io::BufRead;

/// Removes entities of one kind, one after the other, once the operator has confirmed it.
///
/// # Errors
/// Those of all removals that were rejected, or an error if the operator does not confirm.
pub async fn remove_each<A: UserPort, T: Clone + Display>(
    kind: &str,
    entities: &[T],
    target: fn(T) -> RemovalTarget,
    flags: &RemovalArguments,
    session: &CommandSession<A>,
    request: impl AsyncFn(T, Force) -> Result<WriteResponse, ApiError>,
) -> Result<(), CommandError> {
    let names: Vec<String> = entities.iter().map(|entity| format!("{kind} {entity}")).collect();
    let targets = entities.iter().cloned().map(target).collect();
    let Some(force) = confirm(&names, targets, flags, session).await? else {
        return Ok(());
    };
    let mut failures = Vec::new();
    for (entity, name) in entities.iter().zip(&names) {
        let failure = report(session, name, force, request(entity.clone(), force).await);
        // the error of a single removal needs no line of its own
        if failure.is_some() && names.len() > 1 {
            session.output.print_remark(&format!("not removing {name}\n"));
        }
        failures.extend(failure);
    }
    combine(failures)
}

/// Handles the flags that apply before a removal. With `--dry-run` it only prints the dry run. Without `--no-prompt`
/// it lists everything that would be removed and asks for confirmation.
///
/// Returns the force mode of the removal, or `None` with `--dry-run`.
///
/// # Errors
/// The same as the removal itself, and an error if the operator does not confirm.
async fn confirm<A: UserPort>(
    entities: &[String],
    removed: Vec<RemovalTarget>,
    flags: &RemovalArguments,
    session: &CommandSession<A>,
) -> Result<Option<Force>, CommandError> {
    let force = flags.force.mode()?;
    if flags.dry_run {
        dry_run(removed, force, session).await?;
        return Ok(None);
    }
    // Without a question there is no list either: each removal is reported once the controller has accepted it.
    if flags.no_prompt {
        return Ok(Some(force));
    }
    let mut all = entities.to_vec();
    all.extend(also_removed(entities, removed, force, session).await?);
    ask(&all, Confirmation::Yes, flags, &session.output)?;
    Ok(Some(force))
}

/// The entities that are removed together with `entities`. If a single entity cannot be removed, that is an error here;
/// if there are several, each removal is tried later.
async fn also_removed<A: UserPort>(
    entities: &[String],
    mut removed: Vec<RemovalTarget>,
    force: Force,
    session: &CommandSession<A>,
) -> Result<Vec<String>, CommandError> {
    let is_part = removed.len() > DRY_RUN_TARGETS_MAX;
    removed.truncate(DRY_RUN_TARGETS_MAX);
    let dry_run = match session.api.handle(DryRunRemoval { removed, force }).await {
        Ok(dry_run) => dry_run,
        Err(error) if entities.len() == 1 => return Err(error.into()),
        Err(_) => return Ok(vec!["everything that is removed with them".to_owned()]),
    };
    let flags = session.output.flags();
    session.output.print_remark(&render::dry_run::kept(&dry_run, now_ms(), &Zone::new(false), flags));
    let mut more = Vec::new();
    let all = [dry_run.removed_immediately, dry_run.dying, dry_run.removed_eventually].concat();
    for name in render::dry_run::entities(&all) {
        if !entities.contains(&name) && !more.contains(&name) {
            more.push(name);
        }
    }
    if is_part || dry_run.truncated {
        more.push("everything that is removed with the others".to_owned());
    }
    Ok(more)
}

/// The answer that a removal requires.
#[derive(Clone, Copy, Debug)]
pub enum Confirmation<'a> {
    /// `y` or `yes`.
    Yes,
    /// The name of the model that is destroyed, as in Juju.
    ModelName(&'a str),
}

/// Lists what will be removed and, unless `--no-prompt` is given, reads the confirmation from stdin, whether or not
/// stdin is a terminal.
///
/// # Errors
/// If the operator does not confirm, or stdin cannot be read.
pub fn ask(
    entities: &[String],
    confirmation: Confirmation<'_>,
    flags: &RemovalArguments,
    output: &Output,
) -> Result<(), CommandError> {
    for entity in entities {
        output.print_remark(&format!("will remove {entity}\n"));
    }
    if flags.no_prompt {
        return Ok(());
    }
    output.print_remark(match confirmation {
        Confirmation::Yes => "\nContinue [y/N]? ",
        Confirmation::ModelName(_) => "\nTo continue, enter the name of the model to be destroyed: ",
    });
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let read = read.map_err(|error| CommandError::new(format!("cannot read the answer: {error}")))?;
    let is_confirmed = match confirmation {
        Confirmation::Yes => matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"),
        Confirmation::ModelName(name) => answer.trim() == name,
    };
    if is_confirmed {
        return Ok(());
    }
    let aborted = CommandError::new("aborted: nothing was removed");
    Err(if read == 0 {
        aborted.hint("stdin is empty; to skip the confirmation: --no-prompt")
    } else {
        aborted
    })
}

/// Prints what removing all these entities together would change.
///
/// # Errors
/// If the removal would be refused.
pub async fn dry_run<A: UserPort>(
    removed: Vec<RemovalTarget>,
    force: Force,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let dry_run = session.api.handle(DryRunRemoval { removed, force }).await?;
    let (zone, flags) = (Zone::new(false), session.output.flags());
    session.output.print(&render::dry_run::text(&dry_run, force, now_ms(), &zone, flags))
}

/// Prints that a removal was accepted, before the next is tried. Returns the error of a rejected one.
fn report<A>(
    session: &CommandSession<A>,
    entity: &str,
    force: Force,
    answer: Result<WriteResponse, ApiError>,
) -> Option<CommandError> {
    match answer {
        Ok(changed) => {
            session.record_write(changed.revision);
            session.output.warn_of(&changed.warnings);
            let how = match force {
                Force::No => "",
                Force::AfterWait => " (by force after a minute)",
                Force::AtOnce => " (by force now)",
            };
            session.output.print_remark(&format!("removing {entity}{how}\n"));
            None
        }
        Err(error) => Some(CommandError::from(error)),
    }
}

/// Combines all errors into one; `Ok` if there are none.
pub fn combine(failures: Vec<CommandError>) -> Result<(), CommandError> {
    let mut failures = failures.into_iter();
    let Some(mut first) = failures.next() else {
        return Ok(());
    };
    for failure in failures {
        first.message += &format!("\n{}", failure.message);
        first.hint = first.hint.or(failure.hint);
    }
    Err(first)
}
