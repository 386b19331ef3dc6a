//! `integrate A[:endpoint] B[:endpoint]`: relates two applications.

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
    /// Networks of a cross-model relation; ignored
    #[arg(long, hide = true)]
    pub via: Option<String>,
}

pub async fn run<A: UserPort>(args: &IntegrateArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let ends = Ends { a: args.a.clone(), b: args.b.clone() };
    session.note_write(session.api.handle(api::Integrate(ends)).await?.revision);
    Ok(())
}
