//! `config APP [key] [key=value…]`.

use crate::command_error::Failure;
use crate::commands::settings;
use crate::render::{self, Format, application_config};
use crate::session::Session;
use api::{ConfigChange, Configure, GetConfig, UserPort};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Config {
    pub application: String,
    /// A key to show, or key=value (key=@FILE) to set
    pub words: Vec<String>,
    /// Back to the default; comma-separated
    #[arg(long)]
    pub reset: Vec<String>,
    /// A YAML file of settings
    #[arg(long)]
    pub file: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Format,
}

pub async fn run<A: UserPort>(args: &Config, at: &Session<A>) -> Result<(), Failure> {
    let (set, keys): (Vec<&String>, Vec<&String>) = args.words.iter().partition(|word| word.contains('='));
    let mut change = ConfigChange { set: Default::default(), reset: settings::reset_words(&args.reset) };
    if let Some(file) = &args.file {
        change.set = settings::from_file(file, Some(&args.application))?;
    }
    change.set.extend(settings::pairs(set)?);
    if change == ConfigChange::default() {
        return show(args, keys, at).await;
    }
    if let Some(key) = keys.first() {
        return Err(Failure::usage(format!("cannot show {key:?} and change settings at once")));
    }
    let changed = at.api.handle(Configure { application: args.application.to_owned(), change }).await?;
    at.note_write(changed.revision);
    at.output.warn(&changed.warnings);
    Ok(())
}

async fn show<A: UserPort>(args: &Config, keys: Vec<&String>, at: &Session<A>) -> Result<(), Failure> {
    let config = at.api.handle(GetConfig { application: args.application.to_owned() }).await?;
    match keys[..] {
        [] => at.output.say(&render::structured(&application_config::document(&config), args.format)?),
        [key] => {
            let setting = config.settings.get(key).ok_or_else(|| {
                Failure::new(format!("key {key:?} not found in {:?} application config", args.application))
            })?;
            let value = setting.value.as_ref().map(application_config::bare);
            at.output.say(&value.unwrap_or_else(|| "\n".to_owned()))
        }
        _ => Err(Failure::usage("can only show a single key, or all of them")),
    }
}
