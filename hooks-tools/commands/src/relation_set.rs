//! relation-set: changes the settings of this unit or its application in a relation (spec/hook-tools.md 2.1).
//!
//! The change is buffered and published when the hook succeeds.

use crate::flags::{Flag, FlagKind, IGNORED_FORMAT, RELATION};
use crate::key_value;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};
use state::terms::owner::Owner;
use state::unit::hook_context::BagSide;

pub const TOOL: Tool = Tool {
    name: "relation-set",
    arguments: "<key>=<value> [<key>=<value> ...]",
    summary: "Set relation settings.",
    details: "Written when the hook succeeds. An empty value deletes the key.\n\
        Pairs in the arguments override those of --file, which contains one YAML or JSON mapping; \"-\" is stdin.",
    flags: &[FILE, IGNORED_FORMAT, RELATION, APP],
    requires_utf8: true,
    is_confidential: false,
    run,
};

/// `--file` of the tools that read settings from a file.
pub const FILE: Flag =
    Flag { names: &["file"], kind: FlagKind::Text, help: "file containing key-value pairs" };

const APP: Flag = Flag {
    names: &["app"],
    kind: FlagKind::Switch,
    help: "Change the settings of the overall application, not of the unit (leader only)",
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let (number, _) = call.relation()?;
    let pairs = key_value::parse(&call.parsed.positionals).map_err(ToolError::Usage)?;
    let mut change = call.file()?;
    change.extend(pairs);
    let side = if call.parsed.is_on("app") { BagSide::Application } else { BagSide::Unit };
    if side == BagSide::Application && !call.context.leader {
        return failed("cannot write relation settings");
    }
    if side == BagSide::Application {
        call.require_bag(number, &Owner::Application(call.context.unit.application.clone()))?;
    }
    call.context.write_bag(number, side, change)?;
    Ok(ToolOutput::silent())
}
