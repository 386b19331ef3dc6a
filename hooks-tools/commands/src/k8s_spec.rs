//! k8s-spec-set, k8s-raw-set, k8s-spec-get, k8s-raw-get and the older names pod-spec-set and pod-spec-get: tools of
//! charms that describe their pods (spec/hook-tools.md 2.8).
//!
//! They store and return no specification. Their arguments, their input and the leadership are checked as Juju checks
//! them, and then they fail, because no model of Pintle is on Kubernetes. Only the conformance suite of the tools, which has
//! contexts of models on Kubernetes, sees them succeed, without output or effect. Listed in `TOOLS` (`lib.rs`).

use crate::flags::{Flag, FlagKind};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};

pub const SPEC_SET: Tool = setter("k8s-spec-set", "Set k8s spec information.", SPEC_FLAGS, set_spec);
pub const POD_SPEC_SET: Tool =
    setter("pod-spec-set", "Set k8s spec information (deprecated).", SPEC_FLAGS, set_spec);
pub const RAW_SET: Tool =
    setter("k8s-raw-set", "Set k8s raw spec information.", &[file("file containing k8s raw spec")], set_raw);
pub const SPEC_GET: Tool = getter("k8s-spec-get", "Get k8s spec information.");
pub const POD_SPEC_GET: Tool = getter("pod-spec-get", "Get k8s spec information (deprecated).");
pub const RAW_GET: Tool = getter("k8s-raw-get", "Get k8s raw spec information.");

const SPEC_FLAGS: &[Flag] = &[
    file("file containing pod spec"),
    Flag {
        names: &[RESOURCES],
        kind: FlagKind::Text,
        help: "file containing k8s specific resources not yet modelled by Juju",
    },
];

const RESOURCES: &str = "k8s-resources";

const fn file(help: &'static str) -> Flag {
    Flag { names: &["file"], kind: FlagKind::Text, help }
}

type Run = fn(&mut Invocation) -> Result<ToolOutput, ToolError>;

const fn setter(name: &'static str, summary: &'static str, flags: &'static [Flag], run: Run) -> Tool {
    Tool {
        name,
        arguments: "--file <core spec file>",
        summary,
        details: "Without --file, the tool reads stdin. Has an effect in models on Kubernetes only.",
        flags,
        requires_utf8: false,
        is_confidential: false,
        run,
    }
}

const fn getter(name: &'static str, summary: &'static str) -> Tool {
    Tool {
        name,
        arguments: "",
        summary,
        details: "Has an effect in models on Kubernetes only.",
        flags: &[],
        requires_utf8: false,
        is_confidential: false,
        run: get,
    }
}

fn set_spec(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    set(call, "k8s spec")
}

fn set_raw(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    set(call, "k8s raw spec")
}

fn set(call: &mut Invocation, what: &str) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    let spec = call.content(call.parsed.text("file").unwrap_or("-"))?;
    if spec.is_empty() {
        return failed(format!("no {what} specified: pipe {what} to command, or specify a file with --file"));
    }
    if let Some(resources) = call.parsed.text(RESOURCES) {
        call.content(resources)?;
    }
    if !call.context.leader {
        return failed("this unit is not the leader");
    }
    require_kubernetes(call)
}

fn get(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    require_kubernetes(call)
}

fn require_kubernetes(call: &Invocation) -> Result<ToolOutput, ToolError> {
    match call.context.model.kubernetes {
        true => Ok(ToolOutput::silent()),
        false => failed("k8s specs are not supported: the model is not on Kubernetes"),
    }
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};
    use crate::{CallOutcome, Inputs, Need};
    use state::unit::hook_context::HookContext;

    fn set(context: &mut HookContext, name: &str, stdin: &str) -> (u8, String) {
        assert_eq!(
            crate::call(context, name, &[], &Inputs::default()),
            CallOutcome::Need(Need::Stdin),
            "{name} reads stdin without --file"
        );
        let inputs = Inputs { stdin: Some(stdin.as_bytes().to_vec()), ..Inputs::default() };
        match crate::call(context, name, &[], &inputs) {
            CallOutcome::Reply(reply) => (reply.code, String::from_utf8(reply.stderr).unwrap()),
            CallOutcome::Need(need) => panic!("{need:?}"),
        }
    }

    #[test]
    fn the_content_and_leadership_are_checked_before_the_model() {
        for (name, what) in
            [("k8s-spec-set", "k8s spec"), ("pod-spec-set", "k8s spec"), ("k8s-raw-set", "k8s raw spec")]
        {
            let empty =
                format!("ERROR no {what} specified: pipe {what} to command, or specify a file with --file\n");
            assert_eq!(set(&mut context(), name, ""), (1, empty));
            let mut follower = HookContext { leader: false, ..context() };
            let refused = "ERROR this unit is not the leader\n";
            assert_eq!(set(&mut follower, name, "a: 1"), (1, refused.to_owned()));
            let unsupported = "ERROR k8s specs are not supported: the model is not on Kubernetes\n";
            assert_eq!(set(&mut context(), name, "a: 1"), (1, unsupported.to_owned()));
        }
        for name in ["k8s-spec-get", "pod-spec-get", "k8s-raw-get"] {
            assert_eq!(call(&mut context(), name, &[]).code, 1);
            assert_eq!(call(&mut context(), name, &["x"]).code, 2);
        }
    }
}
