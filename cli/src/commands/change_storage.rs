//! `add-storage`, `attach-storage`, `detach-storage` and `remove-storage`: changes of the storage of units.

use crate::arguments::ignored_flags;
use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{AddStorage, AttachStorage, DetachStorage, RemoveStorage, UserPort};
use clap::Args;
use state::terms::names::{BadName, UnitName};
use state::terms::storage::{StorageDirective, StorageId};
use std::collections::BTreeMap;

/// Arguments of `add-storage`.
#[derive(Debug, Args)]
pub struct AddStorageArgs {
    /// Name of the unit
    pub unit: UnitName,
    /// Storage of the charm, with the pool, the number and the size of what is added; by default one instance
    #[arg(required = true, value_name = "NAME[=[POOL,][COUNT,][SIZE]]")]
    pub storage: Vec<String>,
}

/// Arguments of `attach-storage`.
#[derive(Debug, Args)]
pub struct AttachStorageArgs {
    /// Name of the unit
    pub unit: UnitName,
    /// Ids of storage that no unit has, for example data/0
    #[arg(required = true, value_name = "ID")]
    pub storage: Vec<StorageId>,
}

/// Arguments of `detach-storage`.
#[derive(Debug, Args)]
pub struct DetachStorageArgs {
    /// Ids of storage, for example data/0
    #[arg(required = true, value_name = "ID")]
    pub storage: Vec<StorageId>,
    #[arg(long, hide = true)]
    pub force: bool,
    #[arg(long, hide = true)]
    pub no_wait: bool,
}

/// Arguments of `remove-storage`.
#[derive(Debug, Args)]
pub struct RemoveStorageArgs {
    /// Ids of storage, for example data/0
    #[arg(required = true, value_name = "ID")]
    pub storage: Vec<StorageId>,
    /// Remove storage that a unit has; the unit detaches it first
    #[arg(long)]
    pub force: bool,
    /// Keep the content; refused for the pools rootfs, tmpfs and loop, as in Juju
    #[arg(long)]
    pub no_destroy: bool,
}

/// Parses `NAME=DIRECTIVE`; without a directive, one instance is requested.
fn parse(word: &str) -> Result<(String, StorageDirective), CommandError> {
    let (name, text) = word.split_once('=').unwrap_or((word, "1"));
    let directive = StorageDirective::parse(text).map_err(|bad| {
        CommandError::usage(format!("cannot parse the directive for storage {name:?}: {bad}"))
    })?;
    Ok((name.to_owned(), directive))
}

/// Parses the values of `--attach-storage`.
pub fn ids(words: &[String]) -> Result<Vec<StorageId>, CommandError> {
    words
        .iter()
        .map(|word| word.parse().map_err(|bad: BadName| CommandError::usage(bad.to_string())))
        .collect()
}

/// Parses the values of `--storage`.
pub fn directives(words: &[String]) -> Result<BTreeMap<String, StorageDirective>, CommandError> {
    let mut directives = BTreeMap::new();
    for word in words {
        let (name, directive) = parse(word)?;
        if directives.insert(name.clone(), directive).is_some() {
            return Err(CommandError::usage(format!("storage {name:?} specified more than once")));
        }
    }
    Ok(directives)
}

pub async fn add<A: UserPort>(
    args: &AddStorageArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    for (name, directive) in directives(&args.storage)? {
        let add = AddStorage { unit: args.unit.clone(), name, directive };
        let added = session.api.handle(add).await?;
        session.record_write(added.revision);
        for id in added.answer {
            session.output.print_remark(&format!("added storage {id} to {}\n", args.unit));
        }
    }
    Ok(())
}

pub async fn attach<A: UserPort>(
    args: &AttachStorageArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    for storage in &args.storage {
        let attach = AttachStorage { unit: args.unit.clone(), storage: storage.clone() };
        session.record_write(session.api.handle(attach).await?.revision);
        session.output.print_remark(&format!("attaching {storage} to {}\n", args.unit));
    }
    Ok(())
}

pub async fn detach<A: UserPort>(
    args: &DetachStorageArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let instead =
        "the unit detaches it in its hook storage-detaching; to end a hook that hangs: pintle stop-hook UNIT";
    let ignored = [("--force", args.force, instead), ("--no-wait", args.no_wait, instead)];
    session.output.warn(&ignored_flags(ignored));
    for storage in &args.storage {
        let detach = DetachStorage { storage: storage.clone() };
        session.record_write(session.api.handle(detach).await?.revision);
        session.output.print_remark(&format!("detaching {storage}\n"));
    }
    Ok(())
}

pub async fn remove<A: UserPort>(
    args: &RemoveStorageArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    for storage in &args.storage {
        let remove =
            RemoveStorage { storage: storage.clone(), force: args.force, keep_content: args.no_destroy };
        session.record_write(session.api.handle(remove).await?.revision);
        session.output.print_remark(&format!("removing {storage}\n"));
    }
    Ok(())
}
