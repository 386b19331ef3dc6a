//! Checks `assumes` and `min-juju-version`: the features and the Juju version that a charm requires (spec/clients.md 4.3).
//!
//! Called by `declaration`, unless the user forces the deployment.

use crate::problem::Checker;
use serde_json::Value;

/// The version of Juju whose charm contract Pintle implements (spec/clients.md, finding 6). Charms switch features on by
/// this version, and Juju 4 changed parts of the contract. Hooks see the same version in JUJU_VERSION.
pub const JUJU_VERSION: [u32; 3] = [3, 6, 14];

/// Reports every requirement in `metadata` that is not met.
pub fn check(metadata: &Value, checker: &mut Checker) {
    match metadata.get("assumes") {
        None | Some(Value::Null) => {}
        Some(Value::Array(needs)) => {
            for need in needs.iter().filter(|need| !is_met(need)) {
                checker.add("assumes", format!("{} is not met", requirement_text(need)));
            }
        }
        Some(_) => checker.add("assumes", "expected a list"),
    }
    let minimum = metadata.get("min-juju-version").filter(|minimum| !minimum.is_null());
    if let Some(minimum) = minimum {
        let text = minimum.as_str().map_or_else(|| minimum.to_string(), str::to_owned);
        match parse(&text) {
            Some(version) if version <= JUJU_VERSION => {}
            Some(_) => {
                let text = format!("{text} is not met: Pintle implements Juju {}", version());
                checker.add("min-juju-version", text);
            }
            None => {
                let text =
                    format!("invalid version {text:?}: expected numbers with dots, for example 3.6.14");
                checker.add("min-juju-version", text);
            }
        }
    }
}

fn version() -> String {
    JUJU_VERSION.map(|part| part.to_string()).join(".")
}

/// Parses `3`, `3.1` or `3.1.4`. A hyphen and the text after it are ignored.
fn parse(text: &str) -> Option<[u32; 3]> {
    let mut version = [0; 3];
    let mut parts = text.split('-').next()?.split('.');
    for number in &mut version {
        match parts.next() {
            Some(part) => *number = part.parse().ok()?,
            None => break,
        }
    }
    parts.next().is_none().then_some(version)
}

/// Whether one entry of `assumes` is met: `juju`, with or without a version bound, or a combination of entries.
fn is_met(need: &Value) -> bool {
    let entries = |key: &str| need.get(key).and_then(Value::as_array);
    if let Some(choices) = entries("any-of") {
        return choices.iter().any(is_met);
    }
    if let Some(all) = entries("all-of") {
        return all.iter().all(is_met);
    }
    let Some(text) = need.as_str() else { return false };
    // "juju >= 3.1" and "juju>=3.1".
    let end = text.find(['<', '>', '=', ' ']).unwrap_or(text.len());
    let (feature, bound) = text.split_at(end);
    if feature != "juju" {
        return false;
    }
    let bound = bound.trim();
    let version = |text: &str| parse(text.trim());
    match bound {
        "" => true,
        _ if bound.starts_with(">=") => version(&bound[2..]).is_some_and(|bound| JUJU_VERSION >= bound),
        _ if bound.starts_with("<=") => version(&bound[2..]).is_some_and(|bound| JUJU_VERSION <= bound),
        _ if bound.starts_with('<') => version(&bound[1..]).is_some_and(|bound| JUJU_VERSION < bound),
        _ if bound.starts_with('>') => version(&bound[1..]).is_some_and(|bound| JUJU_VERSION > bound),
        _ => false,
    }
}

/// One entry of `assumes` as text, for a problem.
fn requirement_text(need: &Value) -> String {
    let combination = |key: &str, needs: &Value| {
        let needs: Vec<String> = needs.as_array().into_iter().flatten().map(requirement_text).collect();
        format!("{}({})", key, needs.join(", "))
    };
    match need {
        Value::String(text) => format!("{text:?}"),
        Value::Object(map) => {
            map.iter().map(|(key, needs)| combination(key, needs)).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut checker = Checker::new("metadata.yaml");
        check(&crate::yaml::from_str(text).expect("yaml"), &mut checker);
        checker.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requirements_that_juju_3_6_meets_are_accepted() {
        for text in [
            "assumes: [juju]",
            "assumes: [juju >= 3.1, 'juju < 4.0']",
            "assumes: [{any-of: [k8s-api, juju >= 2.9]}]",
            "assumes: [{all-of: [juju, juju>=3.6]}]",
            "min-juju-version: 2.9.0",
            "{}",
        ] {
            assert_eq!(problems(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn every_requirement_that_is_not_met_is_reported() {
        let both = problems("assumes: [k8s-api, juju >= 4.0]");
        let names = |line: &str, requirement: &str| {
            line.starts_with(&format!("metadata.yaml: assumes: {requirement} "))
        };
        assert!(names(&both[0], "\"k8s-api\"") && names(&both[1], "\"juju >= 4.0\""), "{both:?}");
        let either = problems("assumes: [{any-of: [k8s-api, juju >= 9]}]");
        assert!(names(&either[0], "any-of(\"k8s-api\", \"juju >= 9\")"), "{either:?}");
        assert_eq!((both.len(), either.len()), (2, 1));
        assert_eq!(problems("min-juju-version: '4.0'").len(), 1);
    }
}
