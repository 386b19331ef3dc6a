//! application-version-set: sets the version of the workload that this unit runs (spec/hook-tools.md 2.2).

use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use state::unit::hook_context::ReportContent;

pub const TOOL: Tool = Tool {
    name: "application-version-set",
    arguments: "<new-version>",
    summary: "Specify which version of the application is deployed.",
    details: "The empty string clears it.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    match call.positionals(1)? {
        [version, ..] => Ok(ToolOutput::report(ReportContent::WorkloadVersion(version.clone()))),
        [] => usage("no version specified"),
    }
}
