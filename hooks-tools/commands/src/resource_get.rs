//! resource-get: prints the path of a resource's file (spec/hook-tools.md 2.5).
//!
//! The agent fetches the file when the tool asks for it, unless it has that file already. The path is printed without a
//! newline, because charm-helpers uses the output as it is.

use crate::quote::quote;
use crate::tool::{Invocation, Need, ResourceRequest, Tool, ToolError, ToolOutput, failed, usage};

pub const TOOL: Tool = Tool {
    name: "resource-get",
    arguments: "<resource name>",
    summary: "Get the path to the locally cached resource file.",
    details: "Fetches the file from the controller if it is not on this machine, or has changed since.\n\
        Prints the path without a newline. Fails if no file is attached to the resource.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let Some(name) = call.parsed.positionals.first() else {
        return usage("missing required resource name");
    };
    call.positionals(1)?;
    let not_available = |why: String| failed(format!("could not download resource: {why}"));
    let Some(resource) = call.context.resources.get(name) else {
        return not_available(format!("the charm does not declare resource {}", quote(name)));
    };
    let Some(sha256) = &resource.sha256 else {
        let application = &call.context.unit.application;
        return not_available(format!(
            "resource {} of application {} has no file",
            quote(name),
            quote(application)
        ));
    };
    match &call.inputs.resource {
        None => Err(ToolError::Need(Need::Resource(ResourceRequest {
            name: name.clone(),
            filename: resource.filename.clone(),
            sha256: sha256.clone(),
        }))),
        Some(Err(why)) => not_available(why.clone()),
        Some(Ok(path)) => Ok(ToolOutput { unterminated: Some(path.clone()), ..ToolOutput::default() }),
    }
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};
    use crate::{CallOutcome, Inputs, Need, ResourceRequest, ToolReply};
    use state::unit::hook_context::{HookContext, HookResource};
    use std::collections::BTreeMap;

    fn with_resources() -> HookContext {
        let resource = |sha256: Option<&str>| HookResource {
            filename: "app.zip".to_owned(),
            sha256: sha256.map(str::to_owned),
        };
        let resources = BTreeMap::from([
            ("software".to_owned(), resource(Some("abc"))),
            ("missing".to_owned(), resource(None)),
        ]);
        HookContext { resources, ..context() }
    }

    #[test]
    fn the_path_is_printed_without_a_newline_once_the_file_is_there() {
        let args = [b"software".to_vec()];
        let get = |inputs: &Inputs| crate::call(&mut with_resources(), "resource-get", &args, inputs);
        let need =
            ResourceRequest { name: "software".into(), filename: "app.zip".into(), sha256: "abc".into() };
        assert_eq!(get(&Inputs::default()), CallOutcome::Need(Need::Resource(need)));
        let path = "/u/resources/software/app.zip".to_owned();
        let found = Inputs { resource: Some(Ok(path.clone())), ..Inputs::default() };
        assert_eq!(get(&found), CallOutcome::Reply(ToolReply::printed(path)));
        let failed = Inputs { resource: Some(Err("no answer".to_owned())), ..Inputs::default() };
        let expected = ToolReply::error(1, "could not download resource: no answer");
        assert_eq!(get(&failed), CallOutcome::Reply(expected));
    }

    #[test]
    fn a_resource_without_a_file_fails_and_a_missing_name_is_a_usage_error() {
        let reply = |words: &[&str]| {
            let reply = call(&mut with_resources(), "resource-get", words);
            assert!(reply.stdout.is_empty());
            (reply.code, String::from_utf8(reply.stderr).unwrap())
        };
        assert_eq!(reply(&[]), (2, "ERROR missing required resource name\n".to_owned()));
        assert_eq!(reply(&["a", "b"]), (2, "ERROR unrecognized args: [\"b\"]\n".to_owned()));
        for name in ["missing", "nope"] {
            let (code, stderr) = reply(&[name]);
            let is_named = stderr.contains(&format!("\"{name}\""));
            assert!(
                code == 1 && is_named && stderr.starts_with("ERROR could not download resource: "),
                "{stderr}"
            );
        }
    }
}
