//! application-version-set: which version of its workload this unit runs (spec/hook-tools.md 2.2).

use crate::tool::{Answer, Call, Stop, Tool, usage};
use state::unit::hook::Immediate;

pub const TOOL: Tool = Tool {
    name: "application-version-set",
    arguments: "<new-version>",
    summary: "Specify which version of the application is deployed.",
    details: "The empty string clears it.",
    flags: &[],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    match call.words(1)? {
        [version, ..] => Ok(Answer::immediate(Immediate::WorkloadVersion(version.clone()))),
        [] => usage("no version specified"),
    }
}
