//! `show-unit UNIT…`: shows units and their relation data (spec/clients.md 3.5).

use crate::arguments::parse_units;
use crate::command_error::CommandError;
use crate::render::unit::{ShowUnitFilter, document};
use crate::render::{self, StructuredFormat};
use crate::session::CommandSession;
use api::UserPort;
use clap::Args;
use serde_json::Map;

/// Arguments of `show-unit`.
#[derive(Debug, Args)]
pub struct ShowUnitArgs {
    /// Names of units
    #[arg(required = true)]
    pub units: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
    /// Show only application data, no unit data
    #[arg(long)]
    pub app: bool,
    /// Show only relations of this endpoint
    #[arg(long)]
    pub endpoint: Option<String>,
    /// Show only data of this related unit
    #[arg(long)]
    pub related_unit: Option<String>,
}

pub async fn run<A: UserPort>(args: &ShowUnitArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let filter = ShowUnitFilter {
        endpoint: args.endpoint.clone(),
        related_unit: args.related_unit.clone(),
        application_only: args.app,
    };
    let mut units = Map::new();
    for unit in parse_units(&args.units)? {
        let unit = session.api.handle(api::ShowUnit { unit }).await?;
        units.insert(unit.name.to_string(), document(&unit, &filter));
    }
    session.output.print(&render::structured(&units.into(), args.format)?)
}
