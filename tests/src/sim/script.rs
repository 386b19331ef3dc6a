//! What a simulated charm does in a hook: a few calls of the real tools, drawn by chance. Each hook that writes
//! counts in the charm's own state (`n`) and says the same number to its counterparts, so that a lost or doubled
//! effect shows as a hole or a repetition.

use crate::sim::charms::Process;
use crate::sim::checks::Fact;
use crate::sim::world::World;
use state::unit::hook::{Cause, HookContext};
use state::unit::outcome::Exit;

/// The key no hook that fails may ever publish.
pub const POISON: &str = "poison";
/// The counter that every hook which writes moves by one.
pub const COUNTER: &str = "n";

/// Charms here have no such hook.
pub fn is_missing(context: &HookContext) -> bool {
    matches!(context.cause.hook(), "leader-elected" | "update-status")
}

/// The hook's program, to its exit; and what it counted, if it came to that.
pub async fn run(world: &World, process: &Process, context: &HookContext) -> (Exit, Option<u64>) {
    let mut counted = None;
    let exit = work(world, process, context, &mut counted).await;
    let unserved = if process.is_killed() { Exit::Signal(9) } else { Exit::Code(1) };
    (exit.unwrap_or(unserved), counted)
}

/// None: killed, or nobody answers.
async fn work(
    world: &World,
    process: &Process,
    context: &HookContext,
    counted: &mut Option<u64>,
) -> Option<Exit> {
    world.sleep(world.below(30)).await;
    let before = look(process, context).await?;
    if world.strikes(world.mix().hook_hangs) {
        world.sleep(1_000 + world.below(20_000)).await;
    }
    if world.hits(100) {
        return Some(Exit::Code(0)); // early
    }
    let count = process.call("state-get", &[COUNTER]).await?;
    let count: u64 = String::from_utf8_lossy(&count.stdout).trim().parse().unwrap_or(0);
    let next = format!("{COUNTER}={}", count + 1);
    process.call("state-set", &[&next]).await?;
    *counted = Some(count + 1);
    for (number, _) in context.relations.iter().filter(|(_, relation)| !relation.is_broken()) {
        let about = context.cause.counterpart().is_none_or(|about| about.relation == *number);
        if !about {
            continue;
        }
        if let Some(relation) = context.relation_id(*number)
            && may_write(context)
        {
            process.call("relation-set", &["-r", &relation, &next]).await?;
            let leads = process.call("is-leader", &["--format", "json"]).await?;
            if leads.stdout.starts_with(b"true") && world.hits(300) {
                process.call("relation-set", &["-r", &relation, "--app", &next]).await?;
            }
        }
    }
    process.call("status-set", &["active", &next]).await?;
    if world.hits(100) {
        process.call("juju-log", &[&next]).await?;
    }
    if world.hits(50) {
        process.call("open-port", &["80"]).await?;
    }
    let after = look(process, context).await?;
    if before != after {
        let what = format!("{} read {before:?} and later in the same hook {after:?}", context.unit);
        world.note(Fact::Broken("snapshot", what));
    }
    if world.strikes(world.mix().hook_fails) {
        for number in context.relations.keys() {
            if let Some(relation) = context.relation_id(*number) {
                process.call("relation-set", &["-r", &relation, &format!("{POISON}=1")]).await?;
            }
        }
        return Some(if world.hits(800) { Exit::Code(1) } else { Exit::Signal(11) });
    }
    Some(Exit::Code(0))
}

/// Two charms that answer every word of the other with a word of their own never rest: only requirers and those
/// whose hook is no answer to a word write.
fn may_write(context: &HookContext) -> bool {
    match &context.cause {
        Cause::Relation { hook, .. } => !hook.ends_with("-changed") || hook.starts_with("echo-"),
        Cause::Hook(_)
        | Cause::Storage { .. }
        | Cause::Secret { .. }
        | Cause::Workload { .. }
        | Cause::Action(_)
        | Cause::Commands(_) => true,
    }
}

/// What the remote unit says.
async fn look(process: &Process, context: &HookContext) -> Option<Vec<u8>> {
    let Some(about) = context.cause.counterpart() else { return Some(Vec::new()) };
    let (Some(unit), Some(relation)) = (&about.unit, context.relation_id(about.relation)) else {
        return Some(Vec::new());
    };
    let reply = process.call("relation-get", &["-r", &relation, "-", &unit.to_string()]).await?;
    Some(reply.stdout)
}
