//! `deploy CHARM [APP]` and `deploy BUNDLE`: deploys a charm (`deploy_charm`) or a bundle of charms (`deploy_bundle`).

use crate::bundle;
use crate::command_error::CommandError;
use crate::commands::{deploy_bundle, deploy_charm};
use crate::session::CommandSession;
use api::UserPort;
pub use deploy_charm::DeployArgs;
use std::collections::BTreeMap;
use std::path::Path;

pub async fn run<A: UserPort>(args: &DeployArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    match bundle::file_of(Path::new(&args.charm)) {
        Some(file) => deploy_bundle::run(&file, args, session).await,
        None => deploy_charm::run(args, BTreeMap::new(), session).await,
    }
}
