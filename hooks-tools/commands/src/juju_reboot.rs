//! juju-reboot: requests a reboot of the machine, after the hook or at once (spec/hook-tools.md 2.3, spec/uniter.md
//! A.10).

use crate::flags::{Flag, FlagKind};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};
use state::unit::hook_context::{HookTrigger, Reboot};

pub const TOOL: Tool = Tool {
    name: "juju-reboot",
    arguments: "",
    summary: "Reboot the host machine.",
    details: "The machine is rebooted when the hook has succeeded. With --now the hook is ended at once, its changes\n\
        are discarded, and it runs again after the reboot.",
    flags: &[Flag {
        names: &["now"],
        kind: FlagKind::Switch,
        help: "reboot immediately, killing the invoking process",
    }],
    requires_utf8: false,
    is_confidential: false,
    run: reboot,
};

fn reboot(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    if matches!(call.context.trigger, HookTrigger::Action { .. }) {
        return failed("juju-reboot is not supported when running an action.");
    }
    let now = call.parsed.is_on("now") || call.context.writes.reboot == Some(Reboot::Now);
    call.context.writes.reboot = Some(if now { Reboot::Now } else { Reboot::AfterHook });
    Ok(ToolOutput::silent())
}
