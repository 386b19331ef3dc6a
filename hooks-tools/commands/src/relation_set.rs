//! relation-set: changes this unit's or application's settings in a relation (spec/hook-tools.md 2.1).

use crate::flags::{Flag, IGNORED_FORMAT, Kind, RELATION};
use crate::key_value;
use crate::tool::{Answer, Call, Stop, Tool, failed};
use state::unit::hook::Side;
use state::unit::snapshot::Owner;

pub const TOOL: Tool = Tool {
    name: "relation-set",
    arguments: "<key>=<value> [<key>=<value> ...]",
    summary: "Set relation settings.",
    details: "Written when the hook succeeds. An empty value deletes the key.\n\
        Pairs in the arguments win over those of --file, which holds one YAML or JSON mapping; \"-\" is stdin.",
    flags: &[FILE, IGNORED_FORMAT, RELATION, APP],
    run,
};

pub const FILE: Flag = Flag { names: &["file"], kind: Kind::Text, help: "file containing key-value pairs" };

const APP: Flag = Flag {
    names: &["app"],
    kind: Kind::Switch,
    help: "Change the settings of the overall application, not of the unit (leader only)",
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    let (number, _) = call.relation()?;
    let pairs = key_value::parse(&call.parsed.words).map_err(Stop::Usage)?;
    let mut change = call.file()?;
    change.extend(pairs);
    let side = if call.parsed.on("app") { Side::Application } else { Side::Unit };
    if side == Side::Application && !call.context.leader {
        return failed("cannot write relation settings");
    }
    if side == Side::Application {
        call.have(number, &Owner::Application(call.context.unit.application.clone()))?;
    }
    call.context.write_bag(number, side, change)?;
    Ok(Answer::silent())
}
