//! `config APP [key] [key=value…]`: shows or changes the settings of an application (spec/clients.md 3.2).
//!
//! Changes and resets of one command are sent as one request, so that agents never see half of them.

use crate::command_error::CommandError;
use crate::commands::settings;
use crate::render::{self, StructuredFormat, application_config};
use crate::session::CommandSession;
use api::{ConfigChange, Configure, GetConfig, UserPort};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Name of the application
    pub application: String,
    /// A key to show, or key=value (key=@FILE) to set
    pub words: Vec<String>,
    /// Keys to reset to their defaults; comma-separated
    #[arg(long)]
    pub reset: Vec<String>,
    /// A YAML file of settings
    #[arg(long)]
    pub file: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
}

pub async fn run<A: UserPort>(args: &ConfigArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let (set, keys): (Vec<&String>, Vec<&String>) = args.words.iter().partition(|word| word.contains('='));
    let mut change = ConfigChange { set: Default::default(), reset: settings::reset_words(&args.reset) };
    if let Some(file) = &args.file {
        change.set = settings::from_file(file, Some(&args.application))?;
    }
    change.set.extend(settings::parse_pairs(set)?);
    if let Some(key) = change.reset.iter().find(|key| change.set.contains_key(*key)) {
        return Err(CommandError::usage(format!("cannot set and reset key {key:?} simultaneously")));
    }
    if change == ConfigChange::default() {
        return show(args, keys, session).await;
    }
    if let Some(key) = keys.first() {
        return Err(CommandError::usage(format!("cannot show {key:?} and change settings in one command")));
    }
    let changed = session.api.handle(Configure { application: args.application.to_owned(), change }).await?;
    session.record_write(changed.revision);
    session.output.warn_of(&changed.warnings);
    Ok(())
}

async fn show<A: UserPort>(
    args: &ConfigArgs,
    keys: Vec<&String>,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let config = session.api.handle(GetConfig { application: args.application.to_owned() }).await?;
    match keys[..] {
        [] => session.output.print(&render::structured(&application_config::document(&config), args.format)?),
        [key] if key == "trust" && !config.settings.contains_key(key) => {
            session.output.print(&format!("{}\n", config.trusted))
        }
        [key] => {
            let setting = config.settings.get(key).ok_or_else(|| {
                CommandError::new(format!(
                    "key {key:?} not found in {:?} application config",
                    args.application
                ))
            })?;
            let value = setting.value.as_ref().map(application_config::unquoted);
            session.output.print(&value.unwrap_or_else(|| "\n".to_owned()))
        }
        _ => Err(CommandError::usage("cannot show several keys: give one key, or none to show all")),
    }
}
