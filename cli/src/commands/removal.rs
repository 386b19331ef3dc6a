//! What removals have in common: saying what goes, asking, going on after a refusal.

use crate::arguments::Removal;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;
use crate::session::Session;
use api::error::ApiError;
use api::operator::{Changed, Force, OperatorApi, Removable};
use std::io::BufRead;

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
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(true);
    }
    Err(Failure::new("aborted: nothing was removed"))
}

/// Says what removing all these together would come to; refused like the removal itself.
pub async fn foretell<A: OperatorApi>(removed: Vec<Removable>, at: &Session<A>) -> Result<(), Failure> {
    let forecast = at.api.forecast(&at.model, removed).await?;
    at.output.say(&render::forecast::text(&forecast))
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
            at.wrote(changed.revision);
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
pub fn together(failures: Vec<Failure>) -> Result<(), Failure> {
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
