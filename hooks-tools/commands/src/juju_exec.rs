//! juju-exec and juju-run: run commands in the context of a unit, outside of its hooks (spec/hook-tools.md 6).
//!
//! The program behind these names is `pintle-agent`, which passes the commands to the unit agent, and refuses a caller
//! within a running hook by the files of the run (`agent::juju_exec`), because the commands would wait for that hook to
//! end. This tool answers a call that nevertheless reaches the hook's session, in the same words.

use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};

pub const EXEC: Tool = Tool {
    name: "juju-exec",
    arguments: "[<unit-name>] <commands>",
    summary: "Run commands in a unit's hook context.",
    details: "The commands run after the running hook of the unit, and cannot be run from within it.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run: |call| refuse(call, "juju-exec"),
};

pub const RUN: Tool = Tool { name: "juju-run", run: |call| refuse(call, "juju-run"), ..EXEC };

fn refuse(call: &mut Invocation, name: &str) -> Result<ToolOutput, ToolError> {
    let id = quote(&call.context.id);
    Err(ToolError::Usage(format!("{name} cannot be called from within a hook, have context {id}")))
}

#[cfg(test)]
mod tests {
    use crate::test_context;
    use crate::{CallOutcome, Inputs, call};

    #[test]
    fn a_caller_within_the_hook_is_refused() {
        let mut context = test_context::context();
        let CallOutcome::Reply(reply) = call(&mut context, "juju-exec", &[], &Inputs::default()) else {
            panic!("it needs nothing")
        };
        let text = String::from_utf8(reply.stderr).expect("a text");
        let expected =
            format!("ERROR juju-exec cannot be called from within a hook, have context \"{}\"\n", context.id);
        assert_eq!((reply.code, text), (2, expected));
    }
}
