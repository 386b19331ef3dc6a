//! What a simulated charm does in a hook: a few calls of the real tools, drawn by chance. Each hook that writes
//! counts in the charm's own state (`n`) and says the same number to its counterparts, so that a lost or doubled
//! effect shows as a hole or a repetition.

use crate::sim::charms::Process;
use crate::sim::checks::Fact;
use crate::sim::world::World;
use commands::ToolReply;
use state::terms::names::{RelationNumber, UnitName};
use state::unit::hook::{Cause, HookContext, Relation};
use state::unit::outcome::Exit;

/// The key no hook that fails may ever publish.
pub const FAILED_HOOK_KEY: &str = "poison";
/// The counter that every hook which writes moves by one.
pub const COUNTER: &str = "n";
/// All that a member says in a relation.
pub const SETTINGS: &str = "settings";
/// What people set of an application.
pub const LEVEL: &str = "level";

/// What a leader says of all units begins with this, and ends with its name.
pub const APPLICATION_STATUS_PREFIX: &str = "says for all: ";
/// What units open; some of it is also another's.
const PORTS: [&str; 4] = ["80", "8000-8010", "8005", "8005/udp"];

/// Charms here have no such hook.
pub fn is_missing(context: &HookContext) -> bool {
    matches!(context.cause.hook(), "leader-elected" | "update-status")
}

/// The hook's program, to its exit; and what it counted, if it came to that.
pub async fn run(world: &World, process: &Process, context: &HookContext) -> (Exit, Option<u64>) {
    let mut counted = None;
    let exit = work(world, process, context, &mut counted).await;
    let units_without_instance = if process.is_killed() { Exit::Signal(9) } else { Exit::Code(1) };
    (exit.unwrap_or(units_without_instance), counted)
}

/// None: killed, or nobody answers.
async fn work(
    world: &World,
    process: &Process,
    context: &HookContext,
    counted: &mut Option<u64>,
) -> Option<Exit> {
    world.sleep(world.below(30)).await;
    look(world, process, context).await?;
    let level = process.call("config-get", &[LEVEL]).await?;
    read(world, process, LEVEL.to_owned(), &level);
    let hangs = world.draws_variation(world.mix().hook_hangs);
    let first = hangs && world.chance_of(500);
    if first {
        world.sleep(1_000 + world.below(20_000)).await;
    }
    if world.chance_of(100) {
        return Some(Exit::Code(0)); // early
    }
    let count = process.call("state-get", &[COUNTER]).await?;
    let count: u64 = String::from_utf8_lossy(&count.stdout).trim().parse().unwrap_or(0);
    let next = format!("{COUNTER}={}", count + 1);
    process.call("state-set", &[&next]).await?;
    *counted = Some(count + 1);
    let (unit, reads_back) = (context.unit.to_string(), world.chance_of(250));
    for (number, _) in context.relations.iter().filter(|(_, relation)| !relation.is_broken()) {
        let about = context.cause.counterpart().is_none_or(|about| about.relation == *number);
        if !about {
            continue;
        }
        if let Some(relation) = context.relation_id(*number)
            && may_write(context)
        {
            process.call("relation-set", &["-r", &relation, &next]).await?;
            if reads_back {
                let own = process.call("relation-get", &["-r", &relation, COUNTER, &unit]).await?;
                let what = format!("{COUNTER} of {unit} in {relation}");
                let (folder, run, text) = (process.folder, process.run, (count + 1).to_string());
                world.note(Fact::HookWrote { folder, run, what: what.clone(), text });
                read(world, process, what, &own);
            }
            let leads = process.call("is-leader", &["--format", "json"]).await?;
            if leads.stdout.starts_with(b"true") && world.chance_of(300) {
                let other =
                    if world.chance_of(700) { format!("of={}", context.unit) } else { "of=".to_owned() };
                process.call("relation-set", &["-r", &relation, "--app", &next, &other]).await?;
            }
            if leads.stdout.starts_with(b"true") && world.chance_of(200) {
                let message = format!("{APPLICATION_STATUS_PREFIX}{}", context.unit);
                process.call("status-set", &["--application", "active", &message]).await?;
            }
        }
    }
    process.call("status-set", &["active", &next]).await?;
    world.note(Fact::HookSetStatus { folder: process.folder, run: process.run, message: next.clone() });
    if world.chance_of(100) {
        process.call("juju-log", &[&next]).await?;
    }
    if hangs && !first {
        // what it has said is told before it ends
        world.sleep(1_000 + world.below(20_000)).await;
    }
    if world.chance_of(world.mix().port) {
        let port = PORTS[world.below(PORTS.len() as u64) as usize];
        let tool = if world.chance_of(700) { "open-port" } else { "close-port" };
        process.call(tool, &[port]).await?;
    }
    if world.draws_variation(world.mix().hook_requests_reboot) && !matches!(context.cause, Cause::Action(_)) {
        let when: &[&str] = if world.chance_of(500) { &["--now"] } else { &[] };
        process.call("juju-reboot", when).await?;
    }
    look(world, process, context).await?;
    if world.strikes(world.mix().hook_fails) {
        for number in context.relations.keys() {
            if let Some(relation) = context.relation_id(*number) {
                process.call("relation-set", &["-r", &relation, &format!("{FAILED_HOOK_KEY}=1")]).await?;
            }
        }
        return Some(if world.chance_of(800) { Exit::Code(1) } else { Exit::Signal(11) });
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

/// What they say.
async fn look(world: &World, process: &Process, context: &HookContext) -> Option<()> {
    for (number, unit) in whom(context) {
        let Some(relation) = context.relation_id(number) else { continue };
        let reply = process.call("relation-get", &["-r", &relation, "-", &unit.to_string()]).await?;
        read(world, process, format!("{SETTINGS} of {unit} in {relation}"), &reply);
    }
    Some(())
}

/// It could be read.
fn read(world: &World, process: &Process, what: String, reply: &ToolReply) {
    if reply.code == 0 {
        let text = String::from_utf8_lossy(&reply.stdout).trim_end().to_owned();
        world.note(Fact::HookRead { folder: process.folder, run: process.run, what, text });
    }
}
