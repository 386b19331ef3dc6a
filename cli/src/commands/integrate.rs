//! `integrate A[:endpoint] B[:endpoint]`.

use crate::command_error::Failure;
use crate::session::Session;
use api::{Ends, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct Integrate {
    /// application or application:endpoint
    pub a: String,
    /// application or application:endpoint
    pub b: String,
    /// Networks of a cross-model relation: no meaning here
    #[arg(long, hide = true)]
    pub via: Option<String>,
}

pub async fn run<A: UserPort>(args: &Integrate, at: &Session<A>) -> Result<(), Failure> {
    let ends = Ends { a: args.a.clone(), b: args.b.clone() };
    at.note_write(at.api.handle(api::Integrate(ends)).await?.revision);
    Ok(())
}
