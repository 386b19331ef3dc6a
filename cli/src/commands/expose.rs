//! `expose APP` and `unexpose APP`: set whether an application is shown as exposed.
//!
//! Pintle manages no firewall, so both change the status only, and whatever limits the exposure in Juju has no effect:
//! the command says so.

use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{SetExposed, UserPort};
use clap::Args;

/// Arguments of `expose`.
#[derive(Debug, Args)]
pub struct ExposeArgs {
    /// Name of the application
    pub application: String,
    /// Endpoints to expose; without effect, the whole application is exposed
    #[arg(long, value_delimiter = ',')]
    pub endpoints: Vec<String>,
    /// Networks that may reach the application; without effect
    #[arg(long, value_delimiter = ',')]
    pub to_cidrs: Vec<String>,
    /// Spaces that may reach the application; without effect
    #[arg(long, value_delimiter = ',')]
    pub to_spaces: Vec<String>,
}

/// Arguments of `unexpose`.
#[derive(Debug, Args)]
pub struct UnexposeArgs {
    /// Name of the application
    pub application: String,
    /// Endpoints that are no longer exposed; without effect, the whole application is unexposed
    #[arg(long, value_delimiter = ',')]
    pub endpoints: Vec<String>,
}

pub async fn expose<A: UserPort>(args: &ExposeArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let limits =
        [("--endpoints", &args.endpoints), ("--to-cidrs", &args.to_cidrs), ("--to-spaces", &args.to_spaces)];
    warn(&limits, session);
    set(&args.application, true, session).await
}

pub async fn unexpose<A: UserPort>(
    args: &UnexposeArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    warn(&[("--endpoints", &args.endpoints)], session);
    set(&args.application, false, session).await
}

/// Warns of flags that have no effect.
fn warn<A: UserPort>(limits: &[(&str, &Vec<String>)], session: &CommandSession<A>) {
    let given = limits.iter().filter(|(_, values)| !values.is_empty());
    let text = |(flag, _): &(&str, &Vec<String>)| {
        format!(
            "{flag} has no effect: Pintle manages no firewall, and shows the whole application as exposed or not"
        )
    };
    session.output.warn(&given.map(text).collect::<Vec<_>>());
}

async fn set<A: UserPort>(
    application: &str,
    exposed: bool,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let set = SetExposed { application: application.to_owned(), exposed };
    session.record_write(session.api.handle(set).await?.revision);
    Ok(())
}
