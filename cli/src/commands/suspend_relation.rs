//! `suspend-relation ID...` and `resume-relation ID...`, by the numbers that `show-unit` shows.

use crate::failure::Failure;
use crate::session::Session;
use api::operator::OperatorApi;
use clap::Args;
use state::names::RelationNumber;

#[derive(Debug, Args)]
pub struct SuspendRelation {
    /// Numbers of relations, with spaces or commas between
    #[arg(required = true, value_delimiter = ',', value_name = "ID")]
    pub ids: Vec<RelationNumber>,
    /// Why, for whoever reads the status
    #[arg(long, default_value = "")]
    pub message: String,
}

#[derive(Debug, Args)]
pub struct ResumeRelation {
    /// Numbers of relations, with spaces or commas between
    #[arg(required = true, value_delimiter = ',', value_name = "ID")]
    pub ids: Vec<RelationNumber>,
}

pub async fn suspend<A: OperatorApi>(args: &SuspendRelation, at: &Session<A>) -> Result<(), Failure> {
    for id in &args.ids {
        at.wrote(at.api.suspend_relation(&at.model, *id, &args.message).await?.revision);
    }
    Ok(())
}

pub async fn resume<A: OperatorApi>(args: &ResumeRelation, at: &Session<A>) -> Result<(), Failure> {
    for id in &args.ids {
        at.wrote(at.api.resume_relation(&at.model, *id).await?.revision);
    }
    Ok(())
}
