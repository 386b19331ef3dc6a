//! `add-secret NAME KEY=VALUE…` and `update-secret SECRET KEY=VALUE…`: secrets of users (spec/clients.md 3.2).
//!
//! A value in an argument is visible to other users of this host while the command runs: `KEY#file=PATH` and `--file`
//! are not. Errors never contain a value.

use crate::command_error::CommandError;
use crate::commands::settings;
use crate::session::CommandSession;
use api::{AddSecret, UpdateSecret, UserPort};
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::Args;
use state::terms::secret::{SecretContent, ValueSource, is_content_key, split_pair, value_source};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The content and the description of a secret.
#[derive(Debug, Args)]
pub struct ContentArguments {
    /// Values: key=value, key#base64=value, or key#file=path
    #[arg(value_name = "KEY[#base64|#file]=VALUE")]
    pub values: Vec<String>,
    /// A YAML file with keys and values
    #[arg(long)]
    pub file: Option<PathBuf>,
    /// What the secret is for
    #[arg(long)]
    pub info: Option<String>,
}

/// Arguments of `add-secret`.
#[derive(Debug, Args)]
pub struct AddSecretArgs {
    /// Name of the secret
    pub name: String,
    #[command(flatten)]
    pub content: ContentArguments,
}

/// Arguments of `update-secret`.
#[derive(Debug, Args)]
pub struct UpdateSecretArgs {
    /// Name or URI of the secret
    pub secret: String,
    #[command(flatten)]
    pub content: ContentArguments,
    /// New name of the secret
    #[arg(long)]
    pub name: Option<String>,
    /// Remove a revision as soon as no unit reads it and a newer one exists
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub auto_prune: Option<bool>,
}

pub async fn add<A: UserPort>(args: &AddSecretArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let content = content(&args.content)?;
    if content.0.is_empty() {
        return Err(CommandError::usage("missing secret value or filename"));
    }
    let (name, description) = (args.name.clone(), args.content.info.clone().unwrap_or_default());
    let added = session.api.handle(AddSecret { name, description, content }).await?;
    session.record_write(added.revision);
    session.output.print(&format!("secret:{}\n", added.secret))
}

pub async fn update<A: UserPort>(
    args: &UpdateSecretArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let content = Some(content(&args.content)?).filter(|content| !content.0.is_empty());
    let (name, description, auto_prune) = (args.name.clone(), args.content.info.clone(), args.auto_prune);
    if content.is_none() && name.is_none() && description.is_none() && auto_prune.is_none() {
        return Err(CommandError::usage(
            "nothing to update: expected values, --file, --info, --name or --auto-prune",
        ));
    }
    let secret = args.secret.clone();
    let updated = session.api.handle(UpdateSecret { secret, name, description, auto_prune, content }).await?;
    session.record_write(updated.revision);
    Ok(())
}

/// The values of the arguments and of `--file`, which takes precedence.
fn content(args: &ContentArguments) -> Result<SecretContent, CommandError> {
    let mut content = BTreeMap::new();
    for word in &args.values {
        let (key, value) = split_pair(word).ok_or_else(|| {
            CommandError::usage("invalid value: expected key=value, key#base64=value or key#file=path")
        })?;
        insert(&mut content, key, value)?;
    }
    if let Some(file) = &args.file {
        for (key, value) in settings::from_file(file, None)? {
            insert(&mut content, &key, &value)?;
        }
    }
    Ok(SecretContent(content))
}

fn insert(content: &mut BTreeMap<String, String>, key: &str, value: &str) -> Result<(), CommandError> {
    let (key, source) = value_source(key, value);
    if !is_content_key(key) {
        let message = format!("key {key:?} not valid");
        return Err(CommandError::usage(message)
            .hint("a key has lower-case letters, digits and inner hyphens, and at least 3 characters"));
    }
    let encoded = match source {
        ValueSource::Text(value) => BASE64_STANDARD.encode(value),
        ValueSource::Base64(value) => value.to_owned(),
        ValueSource::File(path) => BASE64_STANDARD
            .encode(std::fs::read(path).map_err(|error| {
                CommandError::new(format!("cannot read {path} for key {key:?}: {error}"))
            })?),
    };
    content.insert(key.to_owned(), encoded);
    Ok(())
}
