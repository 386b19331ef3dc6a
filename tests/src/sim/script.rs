//! The script of a simulated hook: a few calls of the production hook tools, chosen at random.
//!
//! Each hook that writes increments a counter in the charm's own state (`n`) and publishes the same number to its
//! relations, so that a lost effect shows as a gap and a repeated effect as a repetition.

use crate::sim::charms::hook_process::HookProcess;
use crate::sim::fact::Fact;
use crate::sim::operator::{DISK, RESOURCE};
use crate::sim::secret_script;
use crate::sim::world::World;
use commands::ToolReply;
use state::terms::hook_name::{HookName, RelationEventName};
use state::terms::names::{RelationNumber, UnitName};
use state::unit::hook_context::{HookContext, HookRelation, HookTrigger};
use state::unit::outcome::RunExit;

/// The key that only failing hooks write: it must never become visible.
pub const FAILED_HOOK_KEY: &str = "poison";
/// The counter that every writing hook increments.
pub const COUNTER: &str = "n";
/// Names a read of all settings of a member.
pub const SETTINGS: &str = "settings";
/// The leader setting that leaders write: the name of the leader and a random number.
pub const LEADER_KEY: &str = "lead";
/// The configuration option that operators set.
pub const LEVEL: &str = "level";

/// The prefix of the application status that a leader sets; the rest is the name of the leader.
pub const APPLICATION_STATUS_PREFIX: &str = "set by leader ";
/// The port ranges that units open; some overlap.
const PORTS: [&str; 4] = ["80", "8000-8010", "8005", "8005/udp"];

/// Hooks that the simulated charms do not have.
pub fn is_missing(context: &HookContext) -> bool {
    matches!(context.trigger, HookTrigger::Hook(HookName::LeaderElected | HookName::UpdateStatus))
}

/// Runs the script of a hook and returns its exit and the counter that it wrote, if it wrote one.
pub async fn run(world: &World, process: &HookProcess, context: &HookContext) -> (RunExit, Option<u64>) {
    let mut counted = None;
    let exit = work(world, process, context, &mut counted).await;
    let interrupted = if process.is_killed() { RunExit::Signal(9) } else { RunExit::Code(1) };
    (exit.unwrap_or(interrupted), counted)
}

/// Runs the tool calls of the script. `None`: the hook was killed, or no agent replied.
async fn work(
    world: &World,
    process: &HookProcess,
    context: &HookContext,
    counted: &mut Option<u64>,
) -> Option<RunExit> {
    world.sleep(world.below(30)).await;
    read_settings(world, process, context).await?;
    let level = process.call("config-get", &[LEVEL]).await?;
    note_read(world, process, LEVEL.to_owned(), &level);
    let hangs = world.draws_variation(world.profile().hook_hangs);
    let first = hangs && world.chance_of(500);
    if first {
        world.sleep(1_000 + world.below(20_000)).await;
    }
    if world.chance_of(100) {
        return Some(RunExit::Code(0)); // a hook that exits without writing
    }
    let uses_secrets = world.chance_of(world.profile().hook_uses_secrets);
    if uses_secrets {
        secret_script::follow_hook(world, process, context).await?;
        secret_script::read_of_user(world, process, context).await?;
    }
    let has_file = context.resources.values().any(|resource| resource.sha256.is_some());
    if has_file && world.chance_of(300) {
        // it fails if the file was replaced more often than older ones are kept
        process.call("resource-get", &[RESOURCE]).await?;
    }
    let led = process.call("leader-get", &[LEADER_KEY]).await?;
    note_read(world, process, LEADER_KEY.to_owned(), &led);
    let count = process.call("state-get", &[COUNTER]).await?;
    let count: u64 = String::from_utf8_lossy(&count.stdout).trim().parse().unwrap_or(0);
    let next = format!("{COUNTER}={}", count + 1);
    process.call("state-set", &[&next]).await?;
    *counted = Some(count + 1);
    let (unit, reads_back) = (context.unit.to_string(), world.chance_of(250));
    for (number, _) in context.relations.iter().filter(|(_, relation)| !relation.is_broken()) {
        let about = context.trigger.relation_context().is_none_or(|about| about.relation == *number);
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
                note_read(world, process, what, &own);
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
    if may_write(context) && world.chance_of(world.profile().hook_sets_leader_settings) {
        set_leader_settings(world, process, &unit).await?;
    }
    if uses_secrets && may_write(context) {
        secret_script::change_own(world, process, context).await?;
    }
    process.call("status-set", &["active", &next]).await?;
    world.note(Fact::HookSetStatus { folder: process.folder, run: process.run, message: next.clone() });
    if world.chance_of(100) {
        process.call("juju-log", &[&next]).await?;
    }
    if hangs && !first {
        // the reports are sent before the hook ends
        world.sleep(1_000 + world.below(20_000)).await;
    }
    if world.chance_of(world.profile().hook_changes_port) {
        let port = PORTS[world.below(PORTS.len() as u64) as usize];
        let tool = if world.chance_of(700) { "open-port" } else { "close-port" };
        process.call(tool, &[port]).await?;
    }
    let may_add_storage = !world.is_calm() && context.storage.keys().any(|id| id.name == DISK);
    if may_add_storage && world.chance_of(world.profile().storage / 2) {
        // it fails if the unit has all that its charm permits
        process.call("storage-add", &[DISK]).await?;
    }
    if world.draws_variation(world.profile().hook_requests_reboot)
        && !matches!(context.trigger, HookTrigger::Action(_))
    {
        let when: &[&str] = if world.chance_of(500) { &["--now"] } else { &[] };
        process.call("juju-reboot", when).await?;
    }
    read_settings(world, process, context).await?;
    if world.draws_fault(world.profile().hook_fails) {
        for number in context.relations.keys() {
            if let Some(relation) = context.relation_id(*number) {
                process.call("relation-set", &["-r", &relation, &format!("{FAILED_HOOK_KEY}=1")]).await?;
            }
        }
        return Some(if world.chance_of(800) { RunExit::Code(1) } else { RunExit::Signal(11) });
    }
    Some(RunExit::Code(0))
}

/// Changes the leader setting, if the unit leads, and reads it back.
async fn set_leader_settings(world: &World, process: &HookProcess, unit: &str) -> Option<()> {
    let text = format!("{unit}={}", world.below(1_000_000));
    let set = process.call("leader-set", &[&format!("{LEADER_KEY}={text}")]).await?;
    if set.code == 0 {
        let (folder, run, what) = (process.folder, process.run, LEADER_KEY.to_owned());
        world.note(Fact::HookWrote { folder, run, what: what.clone(), text });
        let own = process.call("leader-get", &[LEADER_KEY]).await?;
        note_read(world, process, what, &own);
    }
    Some(())
}

/// Whether the hook may publish settings. Two charms that answer every change of the other with a change never
/// rest: in relation-changed hooks only requirers write.
fn may_write(context: &HookContext) -> bool {
    match &context.trigger {
        HookTrigger::Relation { hook: HookName::Relation { endpoint, event }, .. } => {
            *event != RelationEventName::Changed || endpoint == "echo"
        }
        // or the leader would answer its followers for ever
        HookTrigger::Hook(hook) => *hook != HookName::LeaderSettingsChanged,
        // or two units that read secrets of each other would
        HookTrigger::Secret { .. } => false,
        HookTrigger::Relation { .. }
        | HookTrigger::Storage { .. }
        | HookTrigger::Workload { .. }
        | HookTrigger::Action(_)
        | HookTrigger::Commands(_) => true,
    }
}

/// The remote unit of the hook, and one other member.
fn observed_members(context: &HookContext) -> Vec<(RelationNumber, UnitName)> {
    let about = context.trigger.relation_context();
    let own = about.and_then(|about| Some((about.relation, about.unit.clone()?)));
    let of = |(number, relation): (&RelationNumber, &HookRelation)| {
        relation.members.iter().map(|member| (*number, member.clone())).collect::<Vec<_>>()
    };
    let other = context.relations.iter().flat_map(of).find(|member| own.as_ref() != Some(member));
    own.into_iter().chain(other).collect()
}

/// Reads the settings of the observed members.
async fn read_settings(world: &World, process: &HookProcess, context: &HookContext) -> Option<()> {
    for (number, unit) in observed_members(context) {
        let Some(relation) = context.relation_id(number) else { continue };
        let reply = process.call("relation-get", &["-r", &relation, "-", &unit.to_string()]).await?;
        note_read(world, process, format!("{SETTINGS} of {unit} in {relation}"), &reply);
        if world.chance_of(world.profile().hook_uses_secrets) {
            let unit = unit.to_string();
            secret_script::read_of_member(world, process, context, &relation, &unit).await?;
        }
    }
    Some(())
}

/// Records the value if the tool succeeded.
fn note_read(world: &World, process: &HookProcess, what: String, reply: &ToolReply) {
    if reply.code == 0 {
        let text = String::from_utf8_lossy(&reply.stdout).trim_end().to_owned();
        world.note(Fact::HookRead { folder: process.folder, run: process.run, what, text });
    }
}
