//! `suspend-relation RELATION...` and `resume-relation RELATION...`.
//!
//! Relations are selected by number, as `show-unit` and `why` print them, or one relation by its ends.

use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{GetStatus, RelationEnd, RelationStatus, UserPort};
use clap::Args;
use state::terms::names::RelationNumber;

/// Arguments of `suspend-relation`.
#[derive(Debug, Args)]
pub struct SuspendRelationArgs {
    /// Numbers of relations, separated by spaces or commas; or one or two ends of a relation, each application or
    /// application:endpoint
    #[arg(required = true, value_delimiter = ',', value_name = "RELATION")]
    pub relations: Vec<String>,
    /// Reason, shown in the status
    #[arg(long, default_value = "")]
    pub message: String,
}

/// Arguments of `resume-relation`.
#[derive(Debug, Args)]
pub struct ResumeRelationArgs {
    /// Numbers of relations, separated by spaces or commas; or one or two ends of a relation, each application or
    /// application:endpoint
    #[arg(required = true, value_delimiter = ',', value_name = "RELATION")]
    pub relations: Vec<String>,
}

/// Suspends the relations, one request each.
pub async fn suspend<A: UserPort>(
    args: &SuspendRelationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    for relation in numbers(&args.relations, session).await? {
        session.record_write(
            session
                .api
                .handle(api::SuspendRelation { relation, message: args.message.to_owned() })
                .await?
                .revision,
        );
    }
    Ok(())
}

/// Resumes the relations, one request each.
pub async fn resume<A: UserPort>(
    args: &ResumeRelationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    for relation in numbers(&args.relations, session).await? {
        session.record_write(session.api.handle(api::ResumeRelation { relation }).await?.revision);
    }
    Ok(())
}

/// The numbers of the relations that the words select.
async fn numbers<A: UserPort>(
    words: &[String],
    session: &CommandSession<A>,
) -> Result<Vec<RelationNumber>, CommandError> {
    if let Ok(numbers) = words.iter().map(|word| word.parse()).collect() {
        return Ok(numbers);
    }
    if words.len() > 2 {
        return Err(CommandError::usage("expected relation numbers, or at most two ends of one relation"));
    }
    let all = session.api.handle(GetStatus).await?.relations;
    let mut named: Vec<&RelationStatus> =
        all.iter().filter(|relation| is_between(&relation.ends, words)).collect();
    named.sort_by_key(|relation| relation.number);
    let words = words.join(" and ");
    match named[..] {
        [] => {
            Err(CommandError::new(format!("no relation between {words}"))
                .hint("see: pintle status --relations"))
        }
        [one] => Ok(vec![one.number]),
        _ => {
            let several: Vec<String> = named.into_iter().map(text).collect();
            let message = format!("{words} is in several relations: {}", several.join(", "));
            Err(CommandError::new(message).hint("give the number of the relation, or both of its ends"))
        }
    }
}

/// Whether each word names a different end of the relation.
fn is_between(ends: &[RelationEnd], words: &[String]) -> bool {
    let names = |word: &String, end: &RelationEnd| *word == end.application || *word == named(end);
    match (words, ends) {
        ([word], ends) => ends.iter().any(|end| names(word, end)),
        ([a, b], [one, other]) => names(a, one) && names(b, other) || names(a, other) && names(b, one),
        _ => false,
    }
}

fn named(end: &RelationEnd) -> String {
    format!("{}:{}", end.application, end.endpoint)
}

/// `1 (ledger:audit auditor:book)`.
fn text(relation: &RelationStatus) -> String {
    let ends: Vec<String> = relation.ends.iter().map(named).collect();
    format!("{} ({})", relation.number, ends.join(" "))
}
