//! `assumes` and `min-juju-version`: what a charm needs of the system it runs on (spec/clients.md 4.3).

use crate::problem::Checker;
use serde_json::Value;

/// The Juju whose contract is spoken: what it switches on in charms is wanted, what Juju 4 changed is not
/// (spec/clients.md, finding 6). Charms see the same numbers in JUJU_VERSION.
pub const JUJU_VERSION: [u32; 3] = [3, 6, 14];

/// Says what of `metadata` is not met.
pub fn check(metadata: &Value, checker: &mut Checker) {
    match metadata.get("assumes") {
        None | Some(Value::Null) => {}
        Some(Value::Array(needs)) => {
            for need in needs.iter().filter(|need| !met(need)) {
                checker.say("assumes", format!("{} is not met", words(need)));
            }
        }
        Some(_) => checker.say("assumes", "expected a list"),
    }
    let least = metadata.get("min-juju-version").filter(|least| !least.is_null());
    if let Some(least) = least {
        let text = least.as_str().map_or_else(|| least.to_string(), str::to_owned);
        match parse(&text) {
            Some(version) if version <= JUJU_VERSION => {}
            Some(_) => {
                checker.say("min-juju-version", format!("{text} is not met: this speaks {}", version()))
            }
            None => checker.say("min-juju-version", format!("{text:?} is no version")),
        }
    }
}

fn version() -> String {
    JUJU_VERSION.map(|part| part.to_string()).join(".")
}

/// `3`, `3.1`, `3.1.4`; what follows a dash is left out.
fn parse(text: &str) -> Option<[u32; 3]> {
    let mut version = [0; 3];
    let mut parts = text.split('-').next()?.split('.');
    for place in &mut version {
        match parts.next() {
            Some(part) => *place = part.parse().ok()?,
            None => break,
        }
    }
    parts.next().is_none().then_some(version)
}

fn met(need: &Value) -> bool {
    let each = |key: &str| need.get(key).and_then(Value::as_array);
    if let Some(choices) = each("any-of") {
        return choices.iter().any(met);
    }
    if let Some(all) = each("all-of") {
        return all.iter().all(met);
    }
    let Some(text) = need.as_str() else { return false };
    // "juju >= 3.1" and "juju>=3.1".
    let end = text.find(['<', '>', '=', ' ']).unwrap_or(text.len());
    let (feature, bound) = text.split_at(end);
    if feature != "juju" {
        return false;
    }
    let bound = bound.trim();
    let wanted = |text: &str| parse(text.trim());
    match bound {
        "" => true,
        _ if bound.starts_with(">=") => wanted(&bound[2..]).is_some_and(|least| JUJU_VERSION >= least),
        _ if bound.starts_with("<=") => wanted(&bound[2..]).is_some_and(|most| JUJU_VERSION <= most),
        _ if bound.starts_with('<') => wanted(&bound[1..]).is_some_and(|beyond| JUJU_VERSION < beyond),
        _ if bound.starts_with('>') => wanted(&bound[1..]).is_some_and(|below| JUJU_VERSION > below),
        _ => false,
    }
}

fn words(need: &Value) -> String {
    let each = |key: &str, needs: &Value| {
        let needs: Vec<String> = needs.as_array().into_iter().flatten().map(words).collect();
        format!("{}({})", key, needs.join(", "))
    };
    match need {
        Value::String(text) => format!("{text:?}"),
        Value::Object(map) => map.iter().map(|(key, needs)| each(key, needs)).collect::<Vec<_>>().join(", "),
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
    fn what_a_3_6_has_is_met() {
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
    fn what_is_not_met_is_named() {
        assert_eq!(
            problems("assumes: [k8s-api, juju >= 4.0]"),
            [
                "metadata.yaml: assumes: \"k8s-api\" is not met",
                "metadata.yaml: assumes: \"juju >= 4.0\" is not met",
            ]
        );
        let either = problems("assumes: [{any-of: [k8s-api, juju >= 9]}]");
        assert_eq!(either, ["metadata.yaml: assumes: any-of(\"k8s-api\", \"juju >= 9\") is not met"]);
        assert_eq!(problems("min-juju-version: '4.0'").len(), 1);
    }
}
