//! `remove-relation A[:endpoint] B[:endpoint]`, or by number.

use crate::arguments::ForceArguments;
use crate::command_error::Failure;
use crate::commands::removal;
use crate::session::Session;
use api::{Ends, RelationChoice, RemovalTarget, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct RemoveRelation {
    /// Its two ends, application or application:endpoint, or its number
    #[arg(required = true, num_args = 1..=2)]
    pub ends: Vec<String>,
    #[command(flatten)]
    pub force: ForceArguments,
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
    #[arg(long, hide = true)]
    pub no_prompt: bool,
}

pub async fn run<A: UserPort>(args: &RemoveRelation, at: &Session<A>) -> Result<(), Failure> {
    let force = args.force.chosen()?;
    let choice = match &args.ends[..] {
        [number] => RelationChoice::Number(number.parse().map_err(|_| {
            Failure::usage(format!("{number:?} is not the number of a relation")).hint("or name its two ends")
        })?),
        [a, b] => RelationChoice::Ends(Ends { a: a.clone(), b: b.clone() }),
        _ => return Err(Failure::usage("a relation has two ends")),
    };
    if args.dry_run {
        return removal::dry_run(vec![RemovalTarget::Relation(choice)], force, at).await;
    }
    let changed = at.api.handle(api::RemoveRelation { relation: choice, force }).await?;
    at.note_write(changed.revision);
    at.output.warn(&changed.warnings);
    Ok(())
}
