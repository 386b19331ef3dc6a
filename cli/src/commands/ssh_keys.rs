//! `add-ssh-key`, `remove-ssh-key` and `ssh-keys`: the keys with which people log in to the machines of a model, with the output of Juju (spec/clients.md 2.2).
//!
//! `pintle ssh` needs no key for a machine of this host. A manually provisioned machine has its own ssh server, and a
//! container may have one.

use crate::command_error::CommandError;
use crate::render;
use crate::session::CommandSession;
use api::{AddSshKeys, ListSshKeys, RemoveSshKeys, SshKeyInfo, UserPort};
use clap::Args;
use std::fmt::Write;

/// Arguments of `add-ssh-key`.
#[derive(Debug, Args)]
pub struct AddSshKeyArgs {
    /// Public keys, each the content of a file like ~/.ssh/id_ed25519.pub
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<String>,
}

/// Arguments of `remove-ssh-key`.
#[derive(Debug, Args)]
pub struct RemoveSshKeyArgs {
    /// Fingerprints, comments, or whole keys
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

/// Arguments of `ssh-keys`.
#[derive(Debug, Args)]
pub struct SshKeysArgs {
    /// Show the keys instead of their fingerprints
    #[arg(long)]
    pub full: bool,
}

pub async fn add<A: UserPort>(args: &AddSshKeyArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let added = session.api.handle(AddSshKeys { keys: args.keys.clone() }).await?;
    session.record_write(added.revision);
    session.output.warn_of(&added.warnings);
    Ok(())
}

pub async fn remove<A: UserPort>(
    args: &RemoveSshKeyArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let removed = session.api.handle(RemoveSshKeys { keys: args.ids.clone() }).await?;
    session.record_write(removed.revision);
    Ok(())
}

pub async fn list<A: UserPort>(args: &SshKeysArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let keys = session.api.handle(ListSshKeys).await?;
    if keys.is_empty() {
        session.output.print_remark("No keys to display.\n");
        return Ok(());
    }
    let mut text = format!("Keys used in model: {}\n", render::owned_name(&session.model));
    for SshKeyInfo { key, fingerprint, comment } in &keys {
        match (args.full, comment.as_str()) {
            (true, _) => writeln!(text, "{key}"),
            (false, "") => writeln!(text, "{fingerprint}"),
            (false, comment) => writeln!(text, "{fingerprint} ({comment})"),
        }
        .expect("a string takes everything");
    }
    session.output.print(&text)
}
