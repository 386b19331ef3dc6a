//! The problems that validators find, in English: in settings of charms and models, and in parameters of actions.

use state::charm::options::OptionProblem;
use state::charm::params::{ParameterProblem, ParameterRule};
use state::terms::refusal::model::SettingValues;
use state::terms::ssh_key::{SSH_KEY_BYTES_MAX, SshKeyProblem};

/// Several problems in one line.
pub(super) fn joined<T>(problems: &[T], text: impl FnMut(&T) -> String) -> String {
    problems.iter().map(text).collect::<Vec<_>>().join("; ")
}

pub(super) fn option(problem: &OptionProblem) -> String {
    match problem {
        OptionProblem::Unknown { option } => format!("unknown option {option:?}"),
        OptionProblem::ContainsNul { option } => {
            format!("option {option:?} contains NUL, which no setting may contain")
        }
        OptionProblem::WrongType { option, expected, value } => {
            format!("option {option:?} expected {}, got {value:?}", expected.name())
        }
    }
}

/// The values that a setting accepts, as the text after `expected`.
pub(super) fn setting_values(expected: SettingValues) -> &'static str {
    match expected {
        SettingValues::Text => "a text without NUL",
        SettingValues::Logging => {
            "LOGGER=LEVEL, separated by semicolons; a level is TRACE, DEBUG, INFO, WARNING, ERROR or CRITICAL"
        }
        SettingValues::HarvestMode => "none, unknown, destroyed or all",
        SettingValues::Boolean => "true or false",
        SettingValues::Retries => "a number or \"unlimited\"",
        SettingValues::Interval => "a duration like 5m, or 0 for never",
        SettingValues::Budget => "a duration like 10m, or off",
        SettingValues::BelowOneYear => "a duration below 8760h (a year)",
    }
}

pub(super) fn ssh_key(problem: SshKeyProblem) -> String {
    match problem {
        SshKeyProblem::Type => "it must begin with its type, like ssh-ed25519".to_owned(),
        SshKeyProblem::Content => "after its type, it must have a key of that type in base64".to_owned(),
        SshKeyProblem::Line => "it must be one line without control characters".to_owned(),
        SshKeyProblem::TooLong => format!("it must have at most {SSH_KEY_BYTES_MAX} bytes"),
    }
}

pub(super) fn parameter(problem: &ParameterProblem) -> String {
    let ParameterProblem { path, rule, given } = problem;
    format!("{path} : {}, given {given}", parameter_rule(rule))
}

fn parameter_rule(rule: &ParameterRule) -> String {
    let number = |bound: &serde_json::Value| bound.as_f64().unwrap_or_default();
    let subject = |items: bool| if items { "number of items" } else { "length" };
    match rule {
        ParameterRule::Depth => "is nested too deeply".to_owned(),
        ParameterRule::Comparisons => "takes too long to compare with the schema".to_owned(),
        ParameterRule::Type(types) => {
            format!("must be of type {}", types.as_str().map_or_else(|| types.to_string(), str::to_owned))
        }
        ParameterRule::Enum(choices) => {
            let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
            format!("must match one of the enum values [{}]", choices.join(", "))
        }
        ParameterRule::Minimum { bound, exclusive: true } => {
            format!("must be greater than {}", number(bound))
        }
        ParameterRule::Minimum { bound, exclusive: false } => {
            format!("must be greater than or equal to {}", number(bound))
        }
        ParameterRule::Maximum { bound, exclusive: true } => format!("must be less than {}", number(bound)),
        ParameterRule::Maximum { bound, exclusive: false } => {
            format!("must be less than or equal to {}", number(bound))
        }
        ParameterRule::LengthMin { bound, items } => {
            format!("{} must be greater than or equal to {}", subject(*items), number(bound))
        }
        ParameterRule::LengthMax { bound, items } => {
            format!("{} must be less than or equal to {}", subject(*items), number(bound))
        }
        ParameterRule::AnyOf => "must validate at least one schema (anyOf)".to_owned(),
        ParameterRule::OneOf => "must validate one and only one schema (oneOf)".to_owned(),
        ParameterRule::Required { property } => format!("{property:?} property is missing and required"),
        ParameterRule::NoAdditional { property } => {
            format!("additional property {property:?} is not allowed")
        }
    }
}
