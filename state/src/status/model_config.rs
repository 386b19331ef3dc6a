//! The settings of a model as people are shown them: those that a user set, and the defaults of the others.
//!
//! Which settings exist, and their defaults, are in `lifecycle::model`. A setting that this version does not
//! support is shown as it was set, and has no effect.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{GLOBAL, Model};
use crate::lifecycle::model::defaults;
use crate::terms::status::SettingSource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The value of a model setting, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelSetting {
    /// The value that was set, or the default.
    pub value: Value,
    /// Where it comes from.
    pub source: SettingSource,
}

/// All settings of a model, by name.
pub fn model_settings(reader: &dyn Reader, model: Model) -> BTreeMap<String, ModelSetting> {
    settings(read(reader, &model.model_config()).unwrap_or_default())
}

/// A setting with which new models begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelDefault {
    /// The default of this version; none for a setting that it does not support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The value that a user has set for new models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<Value>,
}

/// The settings with which new models begin, by name.
pub fn model_defaults(reader: &dyn Reader) -> BTreeMap<String, ModelDefault> {
    let default = |value| ModelDefault { default: Some(value), controller: None };
    let mut all: BTreeMap<_, _> =
        defaults().clone().into_iter().map(|(name, value)| (name, default(value))).collect();
    for (name, value) in read(reader, &GLOBAL.model_config()).unwrap_or_default() {
        all.entry(name).or_default().controller = Some(value);
    }
    all
}

/// All settings if a user has set these: the defaults of the others, and these.
fn settings(set: BTreeMap<String, Value>) -> BTreeMap<String, ModelSetting> {
    let from = |source: SettingSource| move |(name, value)| (name, ModelSetting { value, source });
    let defaults = defaults().clone().into_iter().map(from(SettingSource::Default));
    defaults.chain(set.into_iter().map(from(SettingSource::Model))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_the_model_replaces_its_default() {
        let set = settings(BTreeMap::from([("parallel".to_owned(), Value::from(true))]));
        let parallel = ModelSetting { value: Value::from(true), source: SettingSource::Model };
        assert_eq!(set.get("parallel"), Some(&parallel));
        assert_eq!(set.len(), defaults().len());
        let others = set.iter().filter(|(name, _)| *name != "parallel");
        assert!(others.into_iter().all(|(_, setting)| setting.source == SettingSource::Default));
    }
}
