//! `model-config [key] [key=value…]`.

use crate::command_error::Failure;
use crate::commands::settings;
use crate::render::{self, Format, Table, application_config::bare, row};
use crate::session::Session;
use api::{ConfigChange, ConfigureModel, GetModelConfig, UserPort};
use clap::Args;
use serde_json::{Map, json};

#[derive(Debug, Args)]
pub struct ModelConfig {
    /// A key to show, or key=value to set
    pub words: Vec<String>,
    /// Back to the default; comma-separated
    #[arg(long)]
    pub reset: Vec<String>,
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

pub async fn run<A: UserPort>(args: &ModelConfig, at: &Session<A>) -> Result<(), Failure> {
    let (set, keys): (Vec<&String>, Vec<&String>) = args.words.iter().partition(|word| word.contains('='));
    match &keys[..] {
        [] => {}
        [_] if keys.len() == args.words.len() && args.reset.is_empty() => {}
        [key] => return Err(Failure::usage(format!("cannot show {key:?} and change settings at once"))),
        _ => return Err(Failure::usage("can only show a single key, or all of them")),
    }
    let change = ConfigChange { set: settings::pairs(set)?, reset: settings::reset_words(&args.reset) };
    if change != ConfigChange::default() {
        let changed = at.api.handle(ConfigureModel { change }).await?;
        at.note_write(changed.revision);
        at.output.warn(&changed.warnings);
        return Ok(());
    }
    let all = at.api.handle(GetModelConfig).await?;
    if let Some(key) = keys.first() {
        let setting =
            all.get(*key).ok_or_else(|| Failure::new(format!("key {key:?} not found in this model")))?;
        return at.output.say(&bare(&setting.value));
    }
    if let Some(format) = args.format {
        let all: Map<_, _> = all
            .iter()
            .map(|(key, setting)| {
                (key.clone(), json!({ "Value": setting.value, "Source": setting.source.as_str() }))
            })
            .collect();
        return at.output.say(&render::structured(&all.into(), format)?);
    }
    let mut rows = vec![row(["Attribute", "From", "Value"])];
    for (key, setting) in &all {
        rows.push(row([key, setting.source.as_str(), bare(&setting.value).trim_end()]));
    }
    at.output.say(&Table { right: &[], rows }.text())
}
