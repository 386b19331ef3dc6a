//! `secrets` and `show-secret SECRET`: the secrets of users, applications and units.
//!
//! A content is shown with `--reveal` only, and only to admins.

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, secret};
use crate::session::CommandSession;
use crate::times;
use api::error::ApiError;
use api::{GetSecret, GetSecretResponse, ListSecrets, RevealSecret, UserPort};
use clap::Args;
use serde_json::{Map, Value};
use state::documents::refusal::Refusal;
use state::terms::refusal::secret::SecretRefusal;

/// Arguments of `secrets`.
#[derive(Debug, Args)]
pub struct SecretsArgs {
    /// Show only secrets of this owner: application-NAME, unit-NAME-NUMBER, or the name itself
    #[arg(long)]
    pub owner: Option<String>,
    /// Show the revisions, in JSON and YAML
    #[arg(long)]
    pub revisions: bool,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Arguments of `show-secret`.
#[derive(Debug, Args)]
pub struct ShowSecretArgs {
    /// Name or URI of the secret
    pub secret: String,
    /// Show the content
    #[arg(long, conflicts_with = "revisions")]
    pub reveal: bool,
    /// Show the revisions
    #[arg(long, conflicts_with = "revision")]
    pub revisions: bool,
    /// Revision whose content is shown; by default the newest
    #[arg(long, short = 'r', value_parser = clap::value_parser!(u64).range(1..))]
    pub revision: Option<u64>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
}

pub async fn list<A: UserPort>(args: &SecretsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let mut all = session.api.handle(ListSecrets).await?;
    if let Some(owner) = &args.owner {
        all.retain(|_, info| secret::is_owner(info, owner));
    }
    let Some(format) = args.format else {
        return session.output.print(&secret::table(&all, times::now_ms()).text());
    };
    let documents: Map<String, Value> = all
        .iter()
        .map(|(id, info)| (id.to_string(), secret::document(info, args.revisions).into()))
        .collect();
    session.output.print(&render::structured(&documents.into(), format)?)
}

pub async fn show<A: UserPort>(
    args: &ShowSecretArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let GetSecretResponse { id, secret: info } =
        session.api.handle(GetSecret { secret: args.secret.clone() }).await?;
    if let Some(revision) = args.revision.filter(|revision| !info.revisions.contains_key(revision)) {
        return Err(ApiError::from(Refusal::from(SecretRefusal::RevisionNotFound { id, revision })).into());
    }
    let mut document = secret::document(&info, args.revisions);
    secret::insert_access(&mut document, &info);
    if args.reveal {
        let reveal = RevealSecret { secret: id.to_string(), revision: args.revision };
        let content = session.api.handle(reveal).await?;
        document.insert("content".to_owned(), secret::content(&content, args.format));
    }
    let documents = Map::from_iter([(id.to_string(), document.into())]);
    session.output.print(&render::structured(&documents.into(), args.format)?)
}
