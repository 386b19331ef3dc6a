//! `remove-relation A[:endpoint] B[:endpoint]`, or `remove-relation NUMBER`: removes a relation.

use crate::arguments::ForceArguments;
use crate::command_error::CommandError;
use crate::commands::removal;
use crate::session::CommandSession;
use api::{Ends, RelationChoice, RemovalTarget, UserPort};
use clap::Args;

/// Arguments of `remove-relation`.
#[derive(Debug, Args)]
pub struct RemoveRelationArgs {
    /// The two ends of the relation, each application or application:endpoint, or its number
    #[arg(required = true, num_args = 1..=2)]
    pub ends: Vec<String>,
    #[command(flatten)]
    pub force: ForceArguments,
    /// Show what would be removed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[arg(long, hide = true)]
    pub no_prompt: bool,
}

pub async fn run<A: UserPort>(
    args: &RemoveRelationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let force = args.force.mode()?;
    let choice = match &args.ends[..] {
        [number] => RelationChoice::Number(number.parse().map_err(|_| {
            let text =
                format!("invalid relation {number:?}: expected the number of a relation, or its two ends");
            CommandError::usage(text).hint("see: pintle status --relations")
        })?),
        [a, b] => RelationChoice::Ends(Ends { a: a.clone(), b: b.clone() }),
        _ => return Err(CommandError::usage("expected the two ends of a relation, or its number")),
    };
    if args.dry_run {
        return removal::dry_run(vec![RemovalTarget::Relation(choice)], force, session).await;
    }
    let changed = session.api.handle(api::RemoveRelation { relation: choice, force }).await?;
    session.record_write(changed.revision);
    session.output.warn_of(&changed.warnings);
    Ok(())
}
