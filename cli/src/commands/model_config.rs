//! `model-config [key] [key=value…]`: shows or changes the settings of the model (spec/clients.md 3.2).

use crate::command_error::CommandError;
use crate::commands::settings::{SettingsArgs, SettingsRequest};
use crate::render::{self, Table, application_config::unquoted, row};
use crate::session::CommandSession;
use api::{ConfigureModel, GetModelConfig, UserPort};
use serde_json::{Map, json};

pub async fn run<A: UserPort>(args: &SettingsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let key = match args.request()? {
        SettingsRequest::Show(key) => key,
        SettingsRequest::Change(change) => {
            let changed = session.api.handle(ConfigureModel { change }).await?;
            session.record_write(changed.revision);
            session.output.warn_of(&changed.warnings);
            return Ok(());
        }
    };
    let all = session.api.handle(GetModelConfig).await?;
    if let Some(key) = key {
        let setting =
            all.get(key).ok_or_else(|| CommandError::new(format!("key {key:?} not found in this model")))?;
        return session.output.print(&unquoted(&setting.value));
    }
    if let Some(format) = args.format {
        let all: Map<_, _> = all
            .iter()
            .map(|(key, setting)| {
                (key.clone(), json!({ "Value": setting.value, "Source": setting.source.as_str() }))
            })
            .collect();
        return session.output.print(&render::structured(&all.into(), format)?);
    }
    let mut rows = vec![row(["Attribute", "From", "Value"])];
    for (key, setting) in &all {
        rows.push(row([key, setting.source.as_str(), unquoted(&setting.value).trim_end()]));
    }
    session.output.print(&Table { right: &[], rows }.text())
}
