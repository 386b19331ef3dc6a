//! What removals have in common: saying what goes, asking, going on after a refusal.

use crate::arguments::Removal;
use crate::command_error::Failure;
use crate::output::Output;
use crate::render;
use crate::session::Session;
use crate::times::{Zone, now_ms};
use api::error::ApiError;
use api::{Changed, DRY_RUN_TARGETS_MAX, DryRunRemoval, Force, RemovalTarget, UserPort};
use std::io::BufRead;

/// What the flags say before anything goes. `--dry-run`: it is only told. Without `--no-prompt` a person is asked, and
/// told what else goes; refused like the removal itself. None: nothing is to be removed.
pub async fn begin<A: UserPort>(
    things: &[String],
    removed: Vec<RemovalTarget>,
    flags: &Removal,
    at: &Session<A>,
) -> Result<Option<Force>, Failure> {
    let force = flags.force.chosen()?;
    if flags.dry_run {
        dry_run(removed, force, at).await?;
        return Ok(None);
    }
    let mut all = things.to_vec();
    if !flags.no_prompt {
        all.extend(along(things, removed, force, at).await?);
    }
    agreed(&all, flags, &at.output).map(|agreed| agreed.then_some(force))
}

/// What goes along with `things`. One thing that cannot be removed is refused at once; of several each is tried.
async fn along<A: UserPort>(
    things: &[String],
    mut removed: Vec<RemovalTarget>,
    force: Force,
    at: &Session<A>,
) -> Result<Vec<String>, Failure> {
    let is_part = removed.len() > DRY_RUN_TARGETS_MAX;
    removed.truncate(DRY_RUN_TARGETS_MAX);
    let forecast = match at.api.handle(DryRunRemoval { removed, force }).await {
        Ok(forecast) => forecast,
        Err(error) if things.len() == 1 => return Err(error.into()),
        Err(_) => return Ok(vec!["what goes along with them".to_owned()]),
    };
    let mut more = Vec::new();
    for name in [forecast.at_once, forecast.dying, forecast.gone].concat() {
        if !things.contains(&name) && !more.contains(&name) {
            more.push(name);
        }
    }
    if is_part || forecast.more {
        more.push("what goes along with the rest".to_owned());
    }
    Ok(more)
}

/// Says what will go, and asks, unless `--no-prompt`: what is read is the answer, at a terminal or not.
pub fn agreed(things: &[String], flags: &Removal, output: &Output) -> Result<bool, Failure> {
    for thing in things {
        output.note(&format!("will remove {thing}\n"));
    }
    if flags.no_prompt {
        return Ok(true);
    }
    output.note("\nContinue [y/N]? ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let read = read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(true);
    }
    let aborted = Failure::new("aborted: nothing was removed");
    Err(if read == 0 { aborted.hint("nobody answered: --no-prompt does not ask") } else { aborted })
}

/// Says what removing all these together would come to; refused like the removal itself.
pub async fn dry_run<A: UserPort>(
    removed: Vec<RemovalTarget>,
    force: Force,
    at: &Session<A>,
) -> Result<(), Failure> {
    let forecast = at.api.handle(DryRunRemoval { removed, force }).await?;
    at.output.say(&render::dry_run::text(&forecast, force, (now_ms(), &Zone::new(false))))
}

/// What became of one removal, before the next is tried: one that is refused does not hide what was done.
pub fn told<A>(
    at: &Session<A>,
    thing: &str,
    force: Force,
    answer: Result<Changed, ApiError>,
) -> Option<Failure> {
    match answer {
        Ok(changed) => {
            at.note_write(changed.revision);
            at.output.warn(&changed.warnings);
            let how = match force {
                Force::No => "",
                Force::AfterWait => ": by force, in a minute",
                Force::AtOnce => ": by force, now",
            };
            at.output.note(&format!("removing {thing}{how}\n"));
            None
        }
        Err(error) => {
            at.output.note(&format!("not removing {thing}\n"));
            Some(Failure::from(error))
        }
    }
}

/// All refusals as one failure; none if there were none.
pub fn combine(failures: Vec<Failure>) -> Result<(), Failure> {
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
