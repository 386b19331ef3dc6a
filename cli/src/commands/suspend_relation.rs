//! `suspend-relation RELATION...` and `resume-relation RELATION...`: by number, as `show-unit` and `why` show them, or by
//! the ends of one relation.

use crate::command_error::Failure;
use crate::session::Session;
use api::{GetStatus, RelationEnd, RelationStatus, UserPort};
use clap::Args;
use state::terms::names::RelationNumber;

#[derive(Debug, Args)]
pub struct SuspendRelation {
    /// Numbers of relations, with spaces or commas between; or one or two ends of one: application or
    /// application:endpoint
    #[arg(required = true, value_delimiter = ',', value_name = "RELATION")]
    pub relations: Vec<String>,
    /// Why, for whoever reads the status
    #[arg(long, default_value = "")]
    pub message: String,
}

#[derive(Debug, Args)]
pub struct ResumeRelation {
    /// Numbers of relations, with spaces or commas between; or one or two ends of one: application or
    /// application:endpoint
    #[arg(required = true, value_delimiter = ',', value_name = "RELATION")]
    pub relations: Vec<String>,
}

pub async fn suspend<A: UserPort>(args: &SuspendRelation, at: &Session<A>) -> Result<(), Failure> {
    for relation in numbers(&args.relations, at).await? {
        at.note_write(
            at.api
                .handle(api::SuspendRelation { relation, message: args.message.to_owned() })
                .await?
                .revision,
        );
    }
    Ok(())
}

pub async fn resume<A: UserPort>(args: &ResumeRelation, at: &Session<A>) -> Result<(), Failure> {
    for relation in numbers(&args.relations, at).await? {
        at.note_write(at.api.handle(api::ResumeRelation { relation }).await?.revision);
    }
    Ok(())
}

/// The relations that these words name.
async fn numbers<A: UserPort>(words: &[String], at: &Session<A>) -> Result<Vec<RelationNumber>, Failure> {
    if let Ok(numbers) = words.iter().map(|word| word.parse()).collect() {
        return Ok(numbers);
    }
    if words.len() > 2 {
        return Err(Failure::usage("these are no numbers, and a relation has two ends"));
    }
    let all = at.api.handle(GetStatus).await?.relations;
    let mut named: Vec<&RelationStatus> =
        all.iter().filter(|relation| is_between(&relation.ends, words)).collect();
    named.sort_by_key(|relation| relation.number);
    let words = words.join(" and ");
    match named[..] {
        [] => {
            Err(Failure::new(format!("no relation is between {words}")).hint("see pintle status --relations"))
        }
        [one] => Ok(vec![one.number]),
        _ => {
            let several: Vec<String> = named.into_iter().map(text).collect();
            let message = format!("{words} is in several relations: {}", several.join(", "));
            Err(Failure::new(message).hint("say its number, or both of its ends"))
        }
    }
}

/// Each word names an end of its own.
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
