//! add-metric: checks its arguments as Juju does, then fails, because Pintle does not run the hook collect-metrics
//! (spec/hook-tools.md 2.8).

use crate::flags::{Flag, FlagKind};
use crate::key_value;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};

pub const TOOL: Tool = Tool {
    name: "add-metric",
    arguments: "<key>=<value> [<key>=<value> ...]",
    summary: "Add metrics.",
    details: "Fails outside the hook collect-metrics, which does not run any more.",
    flags: &[Flag {
        names: &["labels", "l"],
        kind: FlagKind::Text,
        help: "labels to be associated with metric values",
    }],
    requires_utf8: false,
    is_confidential: false,
    run,
};

/// The prefix of the metrics that Juju itself collects.
const RESERVED_PREFIX: &str = "juju-";

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let words = &call.parsed.positionals;
    if words.is_empty() {
        return usage("no metrics specified");
    }
    let of = |what: &str, error: String| ToolError::Usage(format!("invalid {what}: {error}"));
    let metrics = key_value::parse_nonempty(words).map_err(|error| of("metrics", error))?;
    if let Some(labels) = call.parsed.text("labels") {
        let labels: Vec<String> = labels.split(',').map(str::to_owned).collect();
        key_value::parse_nonempty(&labels).map_err(|error| of("labels", error))?;
    }
    match metrics.keys().next() {
        None => Ok(ToolOutput::silent()),
        Some(key) if key.starts_with(RESERVED_PREFIX) => failed(format!("{key} uses a reserved prefix")),
        Some(_) => failed("cannot record metric: metrics not allowed in this context"),
    }
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};

    #[test]
    fn arguments_are_checked_before_the_metric_is_refused() {
        let cases: [(&[&str], u8, &str); 7] = [
            (&[], 2, "no metrics specified"),
            (&["pings"], 2, "invalid metrics: expected \"key=value\", got \"pings\""),
            (&["pings="], 2, "invalid metrics: expected \"key=value\", got \"pings=\""),
            (&["-l", "a=1,b", "pings=1"], 2, "invalid labels: expected \"key=value\", got \"b\""),
            (&["--labels", "a=1", "pings=1"], 1, "cannot record metric: metrics not allowed in this context"),
            (&["juju-units=1"], 1, "juju-units uses a reserved prefix"),
            (&["a=1"], 1, "cannot record metric: metrics not allowed in this context"),
        ];
        for (words, code, text) in cases {
            let reply = call(&mut context(), "add-metric", words);
            let stderr = String::from_utf8(reply.stderr).unwrap();
            assert_eq!((reply.code, stderr), (code, format!("ERROR {text}\n")), "{words:?}");
        }
    }
}
