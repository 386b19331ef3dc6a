//! What removals have in common: saying what goes, asking, going on after a refusal.

use crate::arguments::Removal;
use crate::failure::Failure;
use crate::output::Output;
use std::io::BufRead;

/// Says what will go, and asks, unless `--no-prompt`: what is read is the answer, at a terminal or not. False = nothing
/// is to be done.
pub fn agreed(things: &[String], flags: &Removal, output: &Output) -> Result<bool, Failure> {
    let verb = if flags.dry_run { "would remove" } else { "will remove" };
    for thing in things {
        output.note(&format!("{verb} {thing}\n"));
    }
    if flags.force {
        output.warn(&["--force is not offered yet: this is a removal like any other".to_owned()]);
    }
    if flags.dry_run {
        return Ok(false);
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
