//! `resources APP` and `attach-resource APP NAME=FILE`: the resources of an application and their files.

use crate::command_error::CommandError;
use crate::commands::resource_files::ResourceFiles;
use crate::render::{self, StructuredFormat, resource};
use crate::session::CommandSession;
use api::{AttachResources, ListResources, UserPort};
use clap::Args;
use state::terms::names::UnitName;

/// Arguments of `resources`.
#[derive(Debug, Args)]
pub struct ResourcesArgs {
    /// The application, or one of its units
    pub application: String,
    /// Show the file, the size and the digest of each resource
    #[arg(long)]
    pub details: bool,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Arguments of `attach-resource`.
#[derive(Debug, Args)]
pub struct AttachResourceArgs {
    /// Name of the application
    pub application: String,
    /// Resource and file
    #[arg(value_name = "NAME=FILE", required = true)]
    pub resources: Vec<String>,
}

pub async fn list<A: UserPort>(
    args: &ResourcesArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let of_unit = args.application.parse::<UnitName>().map(|unit| unit.application);
    let application = of_unit.unwrap_or_else(|_| args.application.clone());
    let listed = session.api.handle(ListResources { application }).await?;
    match args.format {
        Some(format) => {
            session.output.print(&render::structured(&resource::document(&listed, args.details), format)?)
        }
        None if listed.resources.is_empty() => session.output.print("No resources to display.\n"),
        None => session.output.print(&resource::table(&listed, args.details).text()),
    }
}

/// Attaches files to an application that is deployed.
///
/// # Errors
/// If a name is not declared, a file cannot be used, or the request is refused.
pub async fn attach_to<A: UserPort>(
    application: &str,
    arguments: &[String],
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let listed = session.api.handle(ListResources { application: application.to_owned() }).await?;
    let declared = listed.resources.into_iter().map(|(name, info)| (name, info.declared)).collect();
    let resources = ResourceFiles::check(arguments, &declared)?.upload(session).await?;
    let attach = AttachResources { application: application.to_owned(), resources };
    session.record_write(session.api.handle(attach).await?.revision);
    Ok(())
}

pub async fn attach<A: UserPort>(
    args: &AttachResourceArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    attach_to(&args.application, &args.resources, session).await
}
