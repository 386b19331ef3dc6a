//! The commands of the scripted cases, one per line (`tests/cases/README.md`).
//!
//! A command changes the [`World`] (the unit, its charm, the relations, the lease, faults of the agent's process)
//! or prints a part of it. It never decides what the agent does next: `state::unit::resolve::next` decides that.
//!
//! [`perform`] is called for each line of a block, and by the world for the commands of `during`.

use super::view;
use super::world::{RunEnd, World};
use api::text::activity::running;
use api::text::refusal::failure;
use state::charm::Scope;
use state::documents::prelude::ResolvedDoc;
use state::terms::cause::{Cause, Duty, Retry};
use state::terms::commands::{COMMAND, CommandsRequest, EXEC};
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::owner::Owner;
use state::terms::port_range::PortRange;
use state::terms::refusal::RefusalReason;
use state::terms::refusal::unit::UnitRefusal;
use state::terms::refusal::write::WriteRefusal;
use state::terms::secret::SecretEvent;
use state::terms::settings::BagChange;
use state::unit::hook_context::{Reboot, Writes};
use state::unit::local::Local;
use state::unit::outcome::RunExit;
use state::unit::relation_view::RelationView;
use state::unit::snapshot::{ActionView, LeaderView};
use std::collections::BTreeMap;

/// The error is a message for the author of the case.
type CommandResult = Result<(), String>;

/// The refusal of this name, for a unit.
fn refusal(name: &str, unit: &UnitName) -> Result<RefusalReason, String> {
    let unit = unit.clone();
    match name {
        "not-leader" => Ok(WriteRefusal::NotLeader { unit, leader: None }.into()),
        "alive" => Ok(UnitRefusal::Alive { unit }.into()),
        "has-subordinates" => Ok(UnitRefusal::HasSubordinates { unit }.into()),
        _ => Err("refuse not-leader, alive or has-subordinates".to_owned()),
    }
}

/// Performs the command of one line. Fails if the line is not a command or its arguments are invalid.
pub fn perform(world: &mut World, line: &str) -> CommandResult {
    world.view.position.revision += 1;
    if let Some(rest) = line.strip_prefix("during ") {
        let (name, command) = rest.split_once(": ").ok_or("during NAME: COMMAND")?;
        world.during.entry(name.to_owned()).or_default().push(command.to_owned());
        return Ok(());
    }
    // contains " exits " as well, hence before the general form
    if let Some(code) = line.strip_prefix("orphaned hook exits ") {
        world.orphan = Some(RunExit::Code(parse(code)?));
        return Ok(());
    }
    if let Some((name, how)) = line.split_once(" exits ") {
        world.run_ends.insert(key(name), run_end(how)?);
        return Ok(());
    }
    if let Some(command) = line.strip_prefix("silent ") {
        let before = world.take_trace();
        perform(world, command)?;
        world.take_trace();
        before.into_iter().for_each(|line| world.print(line));
        return Ok(());
    }
    if let Some((name, change)) = line.split_once(" sets ") {
        return sets(world.writes.entry(key(name)).or_default(), change);
    }
    if let Some((name, when)) = line.split_once(" reboots") {
        let when = match when {
            "" => Reboot::AfterHook,
            " --now" => Reboot::Now,
            _ => return Err("reboots [--now]".to_owned()),
        };
        world.writes.entry(key(name)).or_default().reboot = Some(when);
        return Ok(());
    }
    if let Some((name, range)) = line.split_once(" opens ") {
        let range: PortRange = range.parse()?;
        let writes = world.writes.entry(key(name)).or_default();
        writes.ports.open.entry("*".into()).or_default().insert(range);
        return Ok(());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["unit", "folder", "lost"] => {
            world.process = None;
            world.charm_lost = true;
            world.agent_view = None;
            world.local = Local::new(world.local.unit, world.local.name.clone());
            Ok(())
        }
        ["charm", "folder", "lost"] => {
            world.charm_lost = true;
            Ok(())
        }
        ["relation", number, rest @ ..] => relation(world, parse(number)?, rest),
        ["unit" | "model", ..] | ["charm", ..] | ["config" | "trust" | "address" | "resource", ..] => {
            request(world, &words)
        }
        ["resolved", mode @ ..] => resolved(world, mode),
        ["why"] => {
            if let Some(wait) = world.run_until_waiting() {
                let now_ms = world.wall_ms;
                wait.causes.iter().for_each(|cause| world.print(cause_text(cause, now_ms)));
                if wait.causes.is_empty() {
                    world.print("nothing");
                }
            }
            Ok(())
        }
        ["bag", number] => {
            world.run_until_waiting();
            let known = world.local.relations.get(&parse(number)?);
            let bag = known.map(|relation| relation.bag.clone()).unwrap_or_default();
            bag.iter().for_each(|(key, value)| world.print(format!("{key}={value}")));
            Ok(())
        }
        ["ports"] => {
            world.run_until_waiting();
            let open = world.local.ports.clone();
            for (endpoint, ranges) in open {
                ranges.iter().for_each(|range| world.print(format!("{endpoint} {range}")));
            }
            Ok(())
        }
        ["run"] => {
            world.run_until_waiting();
            Ok(())
        }
        ["advance", time] => {
            world.pass(milliseconds(time)?);
            Ok(())
        }
        ["advance", "to", "timer", time] => advance_to_timer(world, milliseconds(time)?),
        _ => machine(world, &words),
    }
}

/// Performs a command about the agent's process, its machine, its link to the controller, or the lease.
fn machine(world: &mut World, words: &[&str]) -> CommandResult {
    match words {
        ["stop", "agent"] => world.process = None,
        ["restart"] => world.start(),
        ["reboot"] => {
            world.boot += 1;
            // the clock since boot restarts
            world.clock_ms = 20_000;
            world.start();
        }
        ["crash", "after", "event"] => world.crash_after_event = true,
        ["crash", "before", name] => world.crash_before_start = Some((*name).to_owned()),
        ["link", "down"] => world.link = false,
        ["link", "up"] => world.link = true,
        ["view", "cached"] => world.agent_view = Some(world.view.clone()),
        ["reply", "lost"] => world.reply_lost = true,
        ["refuse", name] => world.refusal = Some(refusal(name, &world.local.name)?),
        ["lease", "expired"] => world.lease = None,
        ["leader", unit] => {
            let holder = unit.parse::<UnitName>().map_err(|error| error.to_string())?;
            world.leases += 1;
            world.view.leader = Some(LeaderView { holder, generation: world.leases });
        }
        ["leader-settings", "changed"] => world.view.leader_settings.version += 1,
        ["lease", "granted"] => {
            world.leases += 1;
            world.lease = Some(world.leases);
        }
        ["action", id, name, status @ ..] if matches!(status, [] | ["running"] | ["aborting"]) => {
            let (name, running, aborting) = ((*name).to_owned(), !status.is_empty(), *status == ["aborting"]);
            let action = ActionView { name, running, aborting, params: BTreeMap::new() };
            world.view.actions.insert(parse(id)?, action);
        }
        ["exec", id, status @ ..] if matches!(status, [] | ["aborting"]) => {
            let (name, aborting) = (EXEC.to_owned(), *status == ["aborting"]);
            let params = BTreeMap::from([(COMMAND.to_owned(), "true".into())]);
            let action = ActionView { name, running: aborting, aborting, params };
            world.view.actions.insert(parse(id)?, action);
        }
        ["secret", event, "due", owner @ ..] if matches!(owner, [] | ["of", "the", "application"]) => {
            let event: SecretEvent = event.parse().map_err(|_| "secret EVENT due")?;
            view::mark_secret(&mut world.view, event, !owner.is_empty());
        }
        ["storage", id, state] => view::set_storage(&mut world.view, id, state)?,
        ["secret", "removed"] if world.view.secrets.is_empty() => return Err("no such secret".to_owned()),
        ["secret", "removed"] => world.view.secrets.clear(),
        ["commands", "requested"] => {
            world.commands_requested += 1;
            world.commands = Some(CommandsRequest { id: Uuid(world.commands_requested), about: None });
        }
        ["remove", "action", id] => {
            world.view.actions.remove(&parse(id)?).ok_or("no such action")?;
        }
        ["subordinate", name] => {
            world.view.unit.subordinates.insert(unit(name)?);
        }
        ["subordinate", name, "dying"] => {
            world.view.unit.departing_subordinates.insert(unit(name)?);
        }
        ["remove", "subordinate", name] => {
            let unit = unit(name)?;
            let (was_departing, was_there) = (
                world.view.unit.departing_subordinates.remove(&unit),
                world.view.unit.subordinates.remove(&unit),
            );
            if !was_there && !was_departing {
                return Err("no such subordinate".to_owned());
            }
        }
        ["principal", name] => world.view.unit.principal = Some(unit(name)?),
        ["machine", "full"] => world.view.unit.machine_full = true,
        ["machine", "not", "full"] => world.view.unit.machine_full = false,
        ["save"] => world.saved = Some(Box::new((world.controller.clone(), world.local.clone()))),
        ["restore", "unit", "folder"] => {
            world.process = None;
            world.local = world.saved.as_ref().ok_or("nothing was saved")?.1.clone();
        }
        ["restore", "controller"] => {
            world.process = None;
            world.controller = world.saved.as_ref().ok_or("nothing was saved")?.0.clone();
        }
        ["other", "digest"] => world.controller.replica.digest = "0".repeat(64),
        ["other", "store", "generation"] => world.view.position.store_generation = Uuid(0xb),
        _ => return Err("no such command".to_owned()),
    }
    Ok(())
}

/// Performs a command about the unit's life, its model, its charm or its configuration: the user's requests.
fn request(world: &mut World, words: &[&str]) -> CommandResult {
    let view = &mut world.view;
    match words {
        ["unit", "alive"] => view.unit.life = Life::Alive,
        ["unit", "dying"] => view.unit.life = Life::Dying,
        ["unit", "dead"] => view.unit.life = Life::Dead,
        ["unit", "removed"] => view.removed = true,
        ["model", "retries", "unlimited"] => view.model.hook_retries_max = None,
        ["model", "retries", max] => view.model.hook_retries_max = Some(parse(max)?),
        ["model", "update-status", time] => view.model.update_status_ms = milliseconds(time)?,
        ["charm", revision, "forced", endpoints @ ..] => {
            view::refresh(view, parse(revision)?, true, &texts(endpoints));
        }
        ["charm", revision, endpoints @ ..] => {
            view::refresh(view, parse(revision)?, false, &texts(endpoints));
        }
        ["resource", content] => view::attach_resource(&mut view.charm, content),
        ["config", pair] => {
            let (key, value) = pair.split_once('=').ok_or("config KEY=VALUE")?;
            view.config.insert(key.to_owned(), value.into());
        }
        ["trust"] => view.trusted = true,
        ["trust", "remove"] => view.trusted = false,
        ["address", address] => view.unit.address = (*address).to_owned(),
        _ => return Err("no such command".to_owned()),
    }
    Ok(())
}

/// Performs a command about one relation: its life, scope, members and bags.
fn relation(world: &mut World, number: RelationNumber, words: &[&str]) -> CommandResult {
    let relations = &mut world.view.relations;
    if let ["added", endpoint, application] = words {
        relations.insert(number, view::relation(number, endpoint, application));
        return Ok(());
    }
    if let ["replaced", endpoint, application] = words {
        let mut other = view::relation(number, endpoint, application);
        other.head.uuid.0 += 1 << 64;
        relations.insert(number, other);
        return Ok(());
    }
    if words == ["removed"] {
        relations.remove(&number).ok_or("no such relation")?;
        return Ok(());
    }
    let relation = relations.get_mut(&number).ok_or("no such relation")?;
    match words {
        ["dying"] => relation.head.life = Life::Dying,
        ["container"] => relation.head.scope = Scope::Container,
        ["creates", "subordinate"] => {
            relation.head.scope = Scope::Container;
            relation.head.creates_subordinate = true;
        }
        ["suspended"] => relation.head.suspended = true,
        ["resumed"] => relation.head.suspended = false,
        ["entered", names @ ..] => {
            for name in names {
                // the transaction's revision is the incarnation; entering rewrites the bag
                let incarnation = world.view.position.revision;
                relation.members.insert(unit(name)?, incarnation);
                write_address(relation, unit(name)?);
            }
        }
        ["left", names @ ..] => {
            for name in names {
                relation.members.remove(&unit(name)?).ok_or("no such member")?;
            }
        }
        // a controller restored from a backup counts from a lower number
        ["counter", name, counter] => {
            let owner = Owner::Unit(unit(name)?);
            let at = relation.bags.iter().position(|(o, _)| *o == owner).ok_or("no such bag")?;
            relation.bags[at].1.counter = parse(counter)?;
        }
        // the bag exceeds the bound of the view, so its values are not inlined (design 9)
        ["omit", name] => {
            let owner = Owner::Unit(unit(name)?);
            let at = relation.bags.iter().position(|(o, _)| *o == owner).ok_or("no such bag")?;
            relation.bags[at].1.values = None;
        }
        ["write", owner, pairs @ ..] => {
            let owner = unit(owner).map_or_else(|_| Owner::Application((*owner).to_owned()), Owner::Unit);
            view::write(relation, owner, &change(pairs)?);
        }
        _ => return Err("no such command".to_owned()),
    }
    Ok(())
}

/// Writes the address that the controller stores in the bag of a unit that enters the scope.
fn write_address(relation: &mut RelationView, unit: UnitName) {
    let address = BagChange::from([("private-address".to_owned(), "10.0.0.9".to_owned())]);
    view::write(relation, Owner::Unit(unit), &address);
}

/// Shows the mark of the user's `resolved`, for the error episode of the replica. This is a fixture: what the controller
/// does is `state::lifecycle::unit::resolved`, which state/src/tests/commits/records.rs tests.
fn resolved(world: &mut World, mode: &[&str]) -> CommandResult {
    let retry = match mode {
        [] => true,
        ["--no-retry"] => false,
        _ => return Err("resolved [--no-retry]".to_owned()),
    };
    match world.controller.replica.episode() {
        Some(episode) => world.view.resolved = Some(ResolvedDoc { episode: episode.id, retry }),
        None => world.print("refused: the unit is not in an error state"),
    }
    Ok(())
}

/// Advances the clock to the agent's next timer, which must expire `ms` from now or at most a tenth later (the
/// jitter of retries). Otherwise the clock stays, and the time to the timer is printed.
fn advance_to_timer(world: &mut World, ms: u64) -> CommandResult {
    let until = world.run_until_waiting().and_then(|wait| wait.until_ms);
    let left = until.map(|until| until.checked_sub(world.clock_ms).ok_or("the timer has expired"));
    match left.transpose()?.filter(|left| is_on_time(*left, ms)) {
        Some(left) => world.set_clock(world.clock_ms + left),
        None => world.print(match until {
            Some(until) => format!("the next timer expires in {} ms", until - world.clock_ms),
            None => "no timer runs".to_owned(),
        }),
    }
    Ok(())
}

/// Whether a timer that expires in `left` ms does so in `ms`, or at most a tenth later.
fn is_on_time(left: u64, ms: u64) -> bool {
    (ms..=ms + ms / 10).contains(&left)
}

/// Reads the change after `hook H sets`, which H then writes on every run.
fn sets(writes: &mut Writes, change_text: &str) -> CommandResult {
    let words: Vec<&str> = change_text.split_whitespace().collect();
    let [number, bag, pairs @ ..] = words.as_slice() else {
        return Err("sets RELATION unit|app K=V".to_owned());
    };
    let bags = writes.bags.entry(parse(number)?).or_default();
    let into = if *bag == "app" { &mut bags.application } else { &mut bags.unit };
    into.extend(change(pairs)?);
    Ok(())
}

/// Reads how a run ends, the words after `exits`.
fn run_end(how: &str) -> Result<RunEnd, String> {
    let words: Vec<&str> = how.split_whitespace().collect();
    Ok(match words.as_slice() {
        ["crash"] => RunEnd::Crash,
        ["interrupted"] => RunEnd::RunExit(RunExit::Interrupted),
        ["missing"] => RunEnd::RunExit(RunExit::Missing),
        ["signal", signal] => RunEnd::RunExit(RunExit::Signal(parse(signal)?)),
        ["failed", text @ ..] => RunEnd::RunExit(RunExit::Failed(text.join(" ").into())),
        [code] => RunEnd::RunExit(RunExit::Code(parse(code)?)),
        _ => return Err("no such end".to_owned()),
    })
}

/// The name under which the world stores what a hook does: the operation without `hook`.
fn key(name: &str) -> String {
    name.strip_prefix("hook ").unwrap_or(name).to_owned()
}

fn change(pairs: &[&str]) -> Result<BagChange, String> {
    let pair = |text: &&str| {
        let (key, value) = text.split_once('=').ok_or("settings are KEY=VALUE")?;
        Ok((key.to_owned(), value.to_owned()))
    };
    pairs.iter().map(pair).collect()
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn unit(name: &str) -> Result<UnitName, String> {
    name.parse().map_err(|error| format!("{error}"))
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

fn milliseconds(text: &str) -> Result<u64, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    let found = units.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, ms)));
    let (number, ms) = found.ok_or("a time is 5s, 20ms or 5m")?;
    Ok(parse::<u64>(number)? * ms)
}

/// The fields of a cause: `Charm: Recover(running start hook, failures 2, retry in 6 s), for 9 s: exit status 1`.
fn cause_text(cause: &Cause, now_ms: i64) -> String {
    let duty = match &cause.duty {
        Duty::Recover { activity, failures, retry } => {
            let retry = match retry {
                Retry::At(at_ms) => format!("retry in {} s", (at_ms - now_ms + 999) / 1000),
                other => format!("retry {other:?}"),
            };
            format!("Recover({}, failures {failures}, {retry})", running(activity))
        }
        other => format!("{other:?}"),
    };
    let error = cause.last_error.as_ref().map_or(String::new(), |error| format!(": {}", failure(error)));
    let waited_s = cause.since_ms.map_or(0, |since_ms| (now_ms - since_ms) / 1000);
    let waited = if waited_s > 0 { format!(", for {waited_s} s") } else { String::new() };
    format!("{:?}: {duty}{waited}{error}", cause.actor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_on_time_or_at_most_a_tenth_later() {
        assert_eq!([4, 5, 6].map(|left| is_on_time(left, 5)), [false, true, false]);
        assert_eq!([99, 100, 110, 111].map(|left| is_on_time(left, 100)), [false, true, true, false]);
    }

    #[test]
    fn each_request_of_commands_has_an_id_of_its_own() {
        let mut world = World::new(perform);
        let mut requested = || {
            perform(&mut world, "commands requested").expect("it is a command");
            world.commands.take().expect("they were requested").id
        };
        assert_ne!(requested(), requested());
    }
}
