//! `destroy-model NAME`.

use crate::arguments::Removal;
use crate::commands::removal;
use crate::failure::Failure;
use crate::session::{Session, model_name};
use api::operator::{FORETOLD_MAX, OperatorApi, Removable};
use clap::Args;

#[derive(Debug, Args)]
pub struct DestroyModel {
    pub name: String,
    #[command(flatten)]
    pub removal: Removal,
    #[arg(long, hide = true)]
    pub release_storage: bool,
    #[arg(long, hide = true)]
    pub timeout: Option<String>,
}

pub async fn run<A: OperatorApi>(args: &DestroyModel, at: &Session<A>) -> Result<(), Failure> {
    args.removal.force.chosen()?;
    let name = model_name(&args.name)?;
    if args.removal.dry_run {
        let applications = at.api.status(name).await?.applications;
        let is_part = applications.len() > FORETOLD_MAX;
        let removed = applications.into_keys().map(Removable::Application).take(FORETOLD_MAX).collect();
        let mut forecast = at.api.forecast(name, removed).await?;
        forecast.more |= is_part;
        return at.output.say(&crate::render::forecast::text(&forecast));
    }
    if !removal::agreed(&[format!("model {name}")], &args.removal, &at.output)? {
        return Ok(());
    }
    let changed = at.api.destroy_model(name).await?;
    at.output.warn(&changed.warnings);
    Ok(())
}
