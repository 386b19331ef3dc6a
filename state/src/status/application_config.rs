//! The settings of an application as people are shown them: all options of its charm, with the values in effect.

use crate::charm::{ConfigOption, OptionType};
use crate::documents::draft::{Reader, read};
use crate::documents::prelude::Model;
use crate::documents::refusal::Refusal;
use crate::lifecycle::application;
use crate::terms::refusal::EntityKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One option of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// The type of the option.
    #[serde(rename = "type")]
    pub kind: OptionType,
    /// The description of the option.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The value in effect: that of the user, otherwise the default; none if the option is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The default of the charm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether a user set the value in effect.
    pub user: bool,
}

impl Setting {
    fn new(declared: &ConfigOption, user: Option<&Value>) -> Setting {
        Setting {
            kind: declared.kind,
            description: declared.description.clone(),
            value: user.or(declared.default.as_ref()).cloned(),
            default: declared.default.clone(),
            user: user.is_some(),
        }
    }
}

/// The settings of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApplicationConfig {
    /// The application.
    pub application: String,
    /// The name of its charm.
    pub charm: String,
    /// Whether the application is trusted with the credential of its cloud.
    pub trusted: bool,
    /// All options of the charm, by name.
    pub settings: BTreeMap<String, Setting>,
}

/// The settings of the application of this name.
///
/// # Errors
/// If there is no such application.
pub fn application_config(
    reader: &dyn Reader,
    model: Model,
    name: &str,
) -> Result<ApplicationConfig, Refusal> {
    let mut documents = reader;
    let id = application::find(&mut documents, model, name)?;
    let (_, charm) = application::charm_of(&mut documents, model, id)
        .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, name))?;
    let set = read(reader, &model.application_config(id)).unwrap_or_default();
    let setting = |(option, declared): (&String, &ConfigOption)| {
        (option.clone(), Setting::new(declared, set.get(option)))
    };
    Ok(ApplicationConfig {
        application: name.to_owned(),
        charm: charm.name.clone(),
        trusted: read(reader, &model.application_trust(id)).unwrap_or_default(),
        settings: charm.config.iter().map(setting).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_user_is_in_effect_and_otherwise_the_default() {
        let declared = ConfigOption { default: Some(Value::from(5)), ..ConfigOption::default() };
        let of_user = Value::from(0);
        let set = Setting::new(&declared, Some(&of_user));
        assert_eq!((set.value, set.default, set.user), (Some(of_user), declared.default.clone(), true));
        let unset = Setting::new(&declared, None);
        assert_eq!((unset.value, unset.user), (declared.default, false));
    }
}
