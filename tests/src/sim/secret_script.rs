//! The secrets of simulated hooks: units own at most one each, publish its id to their relations, and read those of
//! others, whether or not they were granted.
//!
//! The id is published before and without a grant, so that a unit asks for what it may not read.

use crate::sim::charms::hook_process::HookProcess;
use crate::sim::fact::Fact;
use crate::sim::world::World;
use state::terms::secret::{RotatePolicy, SecretEvent, SecretId};
use state::unit::hook_context::{HookContext, HookTrigger};
use state::unit::hook_context_builder::utc;

/// The configuration option that names a secret of a user.
pub const TOKEN: &str = "token";
/// The setting with the id of a unit's secret.
const SECRET: &str = "secret";
/// The key of the content.
const KEY: &str = "value";

/// The longest time in milliseconds until a revision expires: less than the system needs to rest after the chaos.
const EXPIRY_MAX_MS: u64 = 60_000;

/// The flags with which a secret is added or changed: it may expire, and be rotated as often as Juju permits.
fn timers(world: &World) -> Vec<String> {
    let mut flags = Vec::new();
    if world.is_calm() {
        return flags;
    }
    if world.chance_of(400) {
        let at_ms = world.wall_ms() + 1_000 + i64::try_from(world.below(EXPIRY_MAX_MS)).expect("minutes");
        flags.push(format!("--expire={}", utc(at_ms).replace(' ', "T")));
    }
    if world.chance_of(400) {
        flags.push(format!("--rotate={}", RotatePolicy::Hourly));
    }
    flags
}

/// Adds, changes, grants, revokes or removes the secret of the unit, and publishes its id.
pub async fn change_own(world: &World, process: &HookProcess, context: &HookContext) -> Option<()> {
    let content = format!("{}={}", context.unit, world.below(1_000_000));
    let pair = format!("{KEY}={content}");
    let ids = process.call("secret-ids", &["--format", "json"]).await?;
    let ids: Option<Vec<SecretId>> = serde_json::from_slice(&ids.stdout).unwrap_or_default();
    let id = match ids.unwrap_or_default().first() {
        None => {
            let timers = timers(world);
            let words =
                ["--owner", "unit"].into_iter().chain(timers.iter().map(String::as_str)).chain([&*pair]);
            let added = process.call("secret-add", &words.collect::<Vec<_>>()).await?;
            let uri = String::from_utf8_lossy(&added.stdout).trim().to_owned();
            let Some(id) = uri.strip_prefix("secret:").and_then(|id| id.parse().ok()) else {
                return Some(());
            };
            world.note(Fact::SecretWritten { secret: Some(id), content });
            id
        }
        Some(id) if world.chance_of(500) => {
            let timers = timers(world);
            let words = timers.iter().map(String::as_str).chain([id.as_str(), &pair]);
            process.call("secret-set", &words.collect::<Vec<_>>()).await?;
            world.note(Fact::SecretWritten { secret: Some(*id), content });
            *id
        }
        Some(id) if world.chance_of(100) => {
            process.call("secret-remove", &[id.as_str()]).await?;
            return Some(());
        }
        Some(id) => *id,
    };
    for (number, _) in context.relations.iter().filter(|(_, relation)| !relation.is_broken()) {
        let Some(relation) = context.relation_id(*number) else { continue };
        process.call("relation-set", &["-r", &relation, &format!("{SECRET}={id}")]).await?;
        let access = if world.chance_of(700) { "secret-grant" } else { "secret-revoke" };
        if world.chance_of(500) {
            process.call(access, &[id.as_str(), "-r", &relation]).await?;
        }
    }
    Some(())
}

/// Does what a secret hook is for: reads the newest revision, removes the one that nobody reads or that has expired, or
/// writes a new one. In the calm, rotations end.
pub async fn follow_hook(world: &World, process: &HookProcess, context: &HookContext) -> Option<()> {
    let HookTrigger::Secret { event, id, revision, .. } = &context.trigger else { return Some(()) };
    if *event == SecretEvent::Rotate {
        let content = format!("{}={}", context.unit, world.below(1_000_000));
        world.note(Fact::SecretWritten { secret: Some(*id), content: content.clone() });
        let policy = if world.is_calm() { RotatePolicy::Never } else { RotatePolicy::Hourly };
        let (policy, pair) = (format!("--rotate={policy}"), format!("{KEY}={content}"));
        process.call("secret-set", &[&policy, id.as_str(), &pair]).await?;
    }
    let ends = *event == SecretEvent::Remove || *event == SecretEvent::Expired && world.chance_of(500);
    if let Some(revision) = revision.filter(|_| ends) {
        process.call("secret-remove", &[id.as_str(), "--revision", &revision.to_string()]).await?;
    }
    if *event == SecretEvent::Changed {
        read(world, process, context, *id).await?;
    }
    Some(())
}

/// Reads the secret of a user that the configuration names, if there is one.
pub async fn read_of_user(world: &World, process: &HookProcess, context: &HookContext) -> Option<()> {
    let uri = process.call("config-get", &[TOKEN]).await?;
    match String::from_utf8_lossy(&uri.stdout).trim().trim_start_matches("secret:").parse() {
        Ok(id) => read(world, process, context, id).await,
        Err(_) => Some(()),
    }
}

/// Reads the secret that a member of a relation has published, if there is one.
pub async fn read_of_member(
    world: &World,
    process: &HookProcess,
    context: &HookContext,
    relation: &str,
    unit: &str,
) -> Option<()> {
    let published = process.call("relation-get", &["-r", relation, SECRET, unit]).await?;
    match String::from_utf8_lossy(&published.stdout).trim().parse() {
        Ok(id) => read(world, process, context, id).await,
        Err(_) => Some(()),
    }
}

async fn read(world: &World, process: &HookProcess, context: &HookContext, secret: SecretId) -> Option<()> {
    let (folder, unit) = (process.folder, context.unit.clone());
    world.note(Fact::SecretRequested { folder, secret });
    let mut words = vec!["--format", "json", secret.as_str(), KEY];
    if world.chance_of(500) {
        words.push("--refresh");
    }
    let reply = process.call("secret-get", &words).await?;
    if let Ok(content) = serde_json::from_slice(&reply.stdout)
        && reply.code == 0
    {
        world.note(Fact::SecretRead { folder, unit, secret, content });
    }
    Some(())
}
