//! `storage`, `show-storage ID` and `storage-pools`: the storage of a model.

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, storage};
use crate::session::CommandSession;
use api::{GetStorage, ListStorage, UserPort};
use clap::Args;
use serde_json::Map;
use state::terms::storage::StorageId;

/// Arguments of `storage`.
#[derive(Debug, Args)]
pub struct StorageArgs {
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Arguments of `show-storage`.
#[derive(Debug, Args)]
pub struct ShowStorageArgs {
    /// Ids of storage, for example data/0
    #[arg(required = true, value_name = "ID")]
    pub storage: Vec<StorageId>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
}

/// Arguments of `storage-pools`.
#[derive(Debug, Args)]
pub struct StoragePoolsArgs {
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

pub async fn list<A: UserPort>(args: &StorageArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let all = session.api.handle(ListStorage).await?;
    let Some(format) = args.format else {
        if all.is_empty() {
            session.output.print_remark("No storage to display.\n");
            return Ok(());
        }
        return session.output.print(&storage::table(&all).text());
    };
    let document = match all.is_empty() {
        true => Map::new().into(),
        false => storage::documents(&all),
    };
    session.output.print(&render::structured(&document, format)?)
}

pub async fn show<A: UserPort>(
    args: &ShowStorageArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let mut documents = Map::new();
    for id in &args.storage {
        let info = session.api.handle(GetStorage { storage: id.clone() }).await?;
        documents.insert(id.to_string(), storage::document(&info));
    }
    session.output.print(&render::structured(&documents.into(), args.format)?)
}

pub fn pools<A: UserPort>(args: &StoragePoolsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let Some(format) = args.format else {
        return session.output.print(&storage::pools_table().text());
    };
    session.output.print(&render::structured(&storage::pools_document(), format)?)
}
