//! juju-reboot: the machine reboots after the hook, or at once (spec/hook-tools.md 2, uniter.md A.10).

use crate::flags::{Flag, Kind};
use crate::tool::{Answer, Call, Stop, Tool, failed};
use state::unit::hook::{Cause, Reboot};

pub const TOOL: Tool = Tool {
    name: "juju-reboot",
    arguments: "",
    summary: "Reboot the host machine.",
    details: "Without --now the machine reboots once the hook has succeeded; if it fails, nothing happens. With --now \
              the hook is ended at once, what it has set is dropped, and it runs again after the reboot.",
    flags: &[Flag {
        names: &["now"],
        kind: Kind::Switch,
        help: "reboot immediately, killing the invoking process",
    }],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    call.words(0)?;
    if matches!(call.context.cause, Cause::Action(_)) {
        return failed("juju-reboot is not supported when running an action.");
    }
    let now = call.parsed.on("now");
    call.context.writes.reboot = Some(Reboot { now, boot: String::new() });
    Ok(Answer::silent())
}

#[cfg(test)]
mod tests {
    use crate::sample::{call, context};
    use state::unit::hook::Reboot;

    #[test]
    fn a_reboot_is_remembered_with_the_hook() {
        for (args, now) in [(&[][..], false), (&["--now"], true)] {
            let mut context = context();
            assert_eq!(call(&mut context, "juju-reboot", args).code, 0);
            assert_eq!(context.writes.reboot, Some(Reboot { now, boot: String::new() }));
        }
    }
}
