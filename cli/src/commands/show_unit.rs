//! `show-unit UNIT…`.

use crate::command_error::Failure;
use crate::render::unit::{Parts, document};
use crate::render::{self, Format};
use crate::session::Session;
use api::UserPort;
use clap::Args;
use serde_json::Map;

#[derive(Debug, Args)]
pub struct ShowUnit {
    #[arg(required = true)]
    pub units: Vec<String>,
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Format,
    /// Only the applications' data, not the units'
    #[arg(long)]
    pub app: bool,
    /// Only relations of this endpoint
    #[arg(long)]
    pub endpoint: Option<String>,
    /// Only data of this related unit
    #[arg(long)]
    pub related_unit: Option<String>,
}

pub async fn run<A: UserPort>(args: &ShowUnit, at: &Session<A>) -> Result<(), Failure> {
    let parts = Parts {
        endpoint: args.endpoint.clone(),
        related_unit: args.related_unit.clone(),
        application_only: args.app,
    };
    let mut units = Map::new();
    for unit in &args.units {
        let unit = at.api.handle(api::ShowUnit { unit: unit.to_owned() }).await?;
        units.insert(unit.name.to_string(), document(&unit, &parts));
    }
    at.output.say(&render::structured(&units.into(), args.format)?)
}
