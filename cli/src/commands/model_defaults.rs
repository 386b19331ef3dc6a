//! `model-defaults [key] [key=value…]`: shows or changes the settings with which new models begin (spec/clients.md 3.2).

use crate::command_error::CommandError;
use crate::commands::settings;
use crate::render::{self, StructuredFormat, Table, application_config::unquoted, row};
use crate::session::CommandSession;
use api::{ConfigChange, ConfigureModelDefaults, GetModelDefaults, ModelDefault, UserPort};
use clap::Args;
use serde_json::{Map, Value, json};

/// Arguments of `model-defaults`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  pintle model-defaults\n  pintle model-defaults update-status-hook-interval=1m\n  \
                        pintle model-defaults --reset update-status-hook-interval\n\nSee also: model-config, add-model"
)]
pub struct ModelDefaultsArgs {
    /// A key to show, or key=value to set
    pub words: Vec<String>,
    /// Keys to reset to the defaults of Pintle; comma-separated
    #[arg(long)]
    pub reset: Vec<String>,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Shows or changes the defaults.
///
/// # Errors
/// If the arguments contradict each other, or the controller refuses a value.
pub async fn run<A: UserPort>(
    args: &ModelDefaultsArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let key = settings::key_to_show(&args.words, &args.reset)?;
    let set = args.words.iter().filter(|word| word.contains('='));
    let change = ConfigChange { set: settings::parse_pairs(set)?, reset: settings::reset_words(&args.reset) };
    if change != ConfigChange::default() {
        let changed = session.api.handle(ConfigureModelDefaults { change }).await?;
        session.output.warn_of(&changed.warnings);
        return Ok(());
    }
    let mut all = session.api.handle(GetModelDefaults).await?;
    if let Some(key) = key {
        all.retain(|name, _| name == key);
        if all.is_empty() {
            return Err(CommandError::new(format!("there are no default model values for [{key:?}]")));
        }
    }
    if let Some(format) = args.format {
        let all: Map<_, _> = all.iter().map(|(key, value)| (key.clone(), structured(value))).collect();
        return session.output.print(&render::structured(&all.into(), format)?);
    }
    let cell = |value: &Option<Value>| {
        value.as_ref().map_or("-".to_owned(), |value| unquoted(value).trim_end().to_owned())
    };
    let mut rows = vec![row(["Attribute", "Default", "Controller"])];
    for (key, value) in &all {
        rows.push(row([key, &cell(&value.default), &cell(&value.controller)]));
    }
    session.output.print(&Table { right: &[], rows }.text())
}

fn structured(ModelDefault { default, controller }: &ModelDefault) -> Value {
    let mut value = Map::new();
    value.extend(default.as_ref().map(|default| ("default".to_owned(), default.clone())));
    value.extend(controller.as_ref().map(|set| ("controller".to_owned(), json!(set))));
    value.into()
}
