//! `integrate A[:endpoint] B[:endpoint]`: relates two applications.

use crate::arguments::ignored_flags;
use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{Ends, UserPort};
use clap::Args;

/// Arguments of `integrate`.
#[derive(Debug, Args)]
pub struct IntegrateArgs {
    /// Application, or application:endpoint
    pub a: String,
    /// Application, or application:endpoint
    pub b: String,
    #[arg(long, hide = true)]
    pub via: Option<String>,
}

pub async fn run<A: UserPort>(args: &IntegrateArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let via = ("--via", args.via.is_some(), "it is for relations of several models, and these are of one");
    session.output.warn(&ignored_flags([via]));
    let ends = Ends { a: args.a.clone(), b: args.b.clone() };
    session.record_write(session.api.handle(api::Integrate(ends)).await?.revision);
    session.output.print_hint("to see the relation: pintle status --relations");
    Ok(())
}
