//! What a simulated charm does in a hook: a few calls of the real tools, drawn by chance. Each hook that writes
//! counts in the charm's own state (`n`) and says the same number to its counterparts, so that a lost or doubled
//! effect shows as a hole or a repetition.

use crate::sim::charms::Process;
use crate::sim::checks::Fact;
use crate::sim::world::World;
use state::names::{RelationNumber, UnitName};
use state::unit::hook::{Cause, HookContext, Relation};
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
    let before = look(world, process, context).await?;
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
    if world.strikes(world.mix().asks_reboot) && !matches!(context.cause, Cause::Action(_)) {
        let when: &[&str] = if world.hits(500) { &["--now"] } else { &[] };
        process.call("juju-reboot", when).await?;
    }
    let after = look(world, process, context).await?;
    if before.iter().zip(&after).any(|(a, b)| a.is_some() && b.is_some() && a != b) {
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

/// The hook's remote unit, and another member.
fn whom(context: &HookContext) -> Vec<(RelationNumber, UnitName)> {
    let about = context.cause.counterpart();
    let own = about.and_then(|about| Some((about.relation, about.unit.clone()?)));
    let of = |(number, relation): (&RelationNumber, &Relation)| {
        relation.members.iter().map(|member| (*number, member.clone())).collect::<Vec<_>>()
    };
    let other = context.relations.iter().flat_map(of).find(|member| own.as_ref() != Some(member));
    own.into_iter().chain(other).collect()
}

/// What they say; of each nothing if it cannot be read.
async fn look(world: &World, process: &Process, context: &HookContext) -> Option<Vec<Option<Vec<u8>>>> {
    let mut seen = Vec::new();
    for (number, unit) in whom(context) {
        let Some(relation) = context.relation_id(number) else { continue };
        let reply = process.call("relation-get", &["-r", &relation, "-", &unit.to_string()]).await?;
        let read = (reply.code == 0).then_some(reply.stdout);
        if let Some(text) = &read
            && !String::from_utf8_lossy(text).contains("private-address")
        {
            // nobody is a member without its initial settings (I13)
            let what = format!("{} reads nothing of {unit}'s in {relation}", context.unit);
            world.note(Fact::Broken("snapshot", what));
        }
        seen.push(read);
    }
    Some(seen)
}
