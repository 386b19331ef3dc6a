//! payload-register, payload-status-set and payload-unregister: tools of Juju 2.0 to 3.x (spec/hook-tools.md 2.8).
//!
//! Their arguments are checked as Juju checks them, and nothing is stored: nothing in Pintle shows payloads.

use crate::quote::quote;
use crate::settings_file;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};

pub const REGISTER: Tool = Tool {
    name: "payload-register",
    arguments: "<type> <class> <id> [labels...]",
    summary: "Register a charm payload.",
    details: "The class must be one of the payloads in the charm's metadata.yaml. Payloads are accepted and not stored.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run: register,
};

pub const STATUS_SET: Tool = Tool {
    name: "payload-status-set",
    arguments: "<class> <id> <status>",
    summary: "Update the status of a payload.",
    details: "The status is one of running, starting, stopped and stopping. Payloads are accepted and not stored.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run: set_status,
};

pub const UNREGISTER: Tool = Tool {
    name: "payload-unregister",
    arguments: "<class> <id>",
    summary: "Stop tracking a payload.",
    details: "Payloads are accepted and not stored.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run: unregister,
};

const STATUSES: [&str; 4] = ["running", "starting", "stopped", "stopping"];

/// The file that declares the classes, in the working directory of the client, which is the charm's folder in hooks.
const METADATA: &str = "metadata.yaml";

/// Requires at least `count` arguments.
fn require(call: &Invocation, count: usize) -> Result<(), ToolError> {
    match call.parsed.positionals.len() < count {
        true => usage("missing required arguments"),
        false => Ok(()),
    }
}

fn register(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    require(call, 3)?;
    let (kind, class) = (&call.parsed.positionals[0], &call.parsed.positionals[1]);
    let metadata = call.content(METADATA)?;
    let declared = settings_file::payload_type(metadata, class).map_err(ToolError::Failed)?;
    match declared {
        None => failed(format!("payload {} not found in metadata.yaml", quote(class))),
        Some(expected) if expected != *kind => failed(format!(
            "incorrect type {} for payload {}, expected {}",
            quote(kind),
            quote(class),
            quote(&expected)
        )),
        Some(_) => Ok(ToolOutput::silent()),
    }
}

fn set_status(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    require(call, 3)?;
    let status = &call.positionals(3)?[2];
    if !STATUSES.contains(&status.as_str()) {
        let expected = STATUSES.map(quote).join(", ");
        return failed(format!("status {} not supported; expected one of [{expected}]", quote(status)));
    }
    Ok(ToolOutput::silent())
}

fn unregister(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    require(call, 2)?;
    call.positionals(2)?;
    Ok(ToolOutput::silent())
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};
    use crate::{CallOutcome, Inputs, Need};

    fn register(kind: &str, class: &str, metadata: Result<&str, &str>) -> (u8, String) {
        let args = [kind, class, "abc"].map(|word| word.as_bytes().to_vec());
        let mut inputs = Inputs::default();
        let needed = crate::call(&mut context(), "payload-register", &args, &inputs);
        assert_eq!(needed, CallOutcome::Need(Need::File("metadata.yaml".to_owned())));
        let found = metadata.map(|text| text.as_bytes().to_vec()).map_err(str::to_owned);
        inputs.files.insert("metadata.yaml".to_owned(), found);
        match crate::call(&mut context(), "payload-register", &args, &inputs) {
            CallOutcome::Reply(reply) => (reply.code, String::from_utf8(reply.stderr).unwrap()),
            CallOutcome::Need(need) => panic!("{need:?}"),
        }
    }

    #[test]
    fn a_payload_is_registered_with_the_type_of_its_class() {
        let metadata = "name: web\npayloads:\n  monitoring: {type: docker}\n  other:\n    type: kvm\n";
        assert_eq!(register("docker", "monitoring", Ok(metadata)), (0, String::new()));
        let text = "ERROR incorrect type \"kvm\" for payload \"monitoring\", expected \"docker\"\n";
        assert_eq!(register("kvm", "monitoring", Ok(metadata)), (1, text.to_owned()));
        let text = "ERROR payload \"x\" not found in metadata.yaml\n";
        for metadata in [metadata, "name: web\n", "payloads: []\n", "payloads: {x: docker}\n", ""] {
            assert_eq!(register("docker", "x", Ok(metadata)), (1, text.to_owned()), "{metadata}");
        }
        let missing = "open /charm/metadata.yaml: no such file or directory";
        assert_eq!(register("kvm", "x", Err(missing)), (1, format!("ERROR {missing}\n")));
    }

    #[test]
    fn missing_and_surplus_arguments_are_usage_errors() {
        for (name, count) in [("payload-register", 2), ("payload-status-set", 2), ("payload-unregister", 1)] {
            let reply = call(&mut context(), name, &["a", "b"][..count]);
            assert_eq!((reply.code, reply.stderr), (2, b"ERROR missing required arguments\n".to_vec()));
        }
        assert_eq!(call(&mut context(), "payload-status-set", &["a", "b", "running", "x"]).code, 2);
        assert_eq!(call(&mut context(), "payload-status-set", &["a", "b", "running"]).code, 0);
        assert_eq!(call(&mut context(), "payload-unregister", &["a", "b", "c"]).code, 2);
        assert_eq!(call(&mut context(), "payload-unregister", &["a", "b"]).code, 0);
    }
}
