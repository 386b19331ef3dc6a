//! `model-defaults [key] [key=value…]`: shows or changes the settings with which new models begin (spec/clients.md 3.2).

use crate::command_error::CommandError;
use crate::commands::settings::{SettingsArgs, SettingsRequest};
use crate::render::{self, Table, application_config::unquoted, row};
use crate::session::CommandSession;
use api::{ConfigureModelDefaults, GetModelDefaults, ModelDefault, UserPort};
use serde_json::{Map, Value, json};

/// Shows or changes the defaults.
///
/// # Errors
/// If the arguments contradict each other, or the controller refuses a value.
pub async fn run<A: UserPort>(args: &SettingsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let key = match args.request()? {
        SettingsRequest::Show(key) => key,
        SettingsRequest::Change(change) => {
            let changed = session.api.handle(ConfigureModelDefaults { change }).await?;
            session.output.warn_of(&changed.warnings);
            return Ok(());
        }
    };
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
