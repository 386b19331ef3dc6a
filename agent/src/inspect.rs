//! For people, from the local files alone: what a unit remembers, and what `next` says of it now and why. Needs no
//! controller and touches nothing.

use crate::deployer::{FINISHED, RECALLING};
use crate::folder::Folder;
use crate::journal;
use crate::service;
use crate::view_cache::ViewCache;
use anyhow::{Context, Result};
use api::text::cause::{Times, hint, sentence};
use charms::yaml;
use serde_json::json;
use state::terms::cause::{Actor, Cause, Duty, Entity};
use state::terms::names::UnitName;
use state::unit::local::{Local, Step};
use state::unit::resolve::{self, Act, Now};
use std::path::{Path, PathBuf};

async fn read(dir: &Path) -> Result<(Folder, Local)> {
    let folder = Folder::new(dir.to_path_buf());
    let local = journal::peek(&folder).await?;
    let local =
        local.with_context(|| format!("{} holds no unit's memory that can be read", dir.display()))?;
    Ok((folder, local))
}

/// The unit's memory, state and journal together, as YAML.
pub async fn show(dir: &Path) -> Result<String> {
    let (_, local) = read(dir).await?;
    let head = json!({ "unit": local.name, "workflow": local.workflow().to_string() });
    Ok(format!("{}{}", yaml::to_string(&head)?, yaml::to_string(&local)?))
}

/// Why the agent of a unit does not run.
fn absence(folder: &Folder, name: &UnitName, client: Result<PathBuf>) -> Vec<Cause> {
    let entity = Entity::Unit(name.clone());
    let missing = client.err().map(|error| {
        Cause::new(entity.clone(), Duty::InstallHookTools, Actor::Operator).last_error(error.to_string())
    });
    let ends = [FINISHED, RECALLING].iter().any(|mark| folder.file(mark).exists());
    let absent = (!ends).then(|| {
        let log = std::fs::read(folder.file("agent.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let last = log.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map(|line| line.replace(char::is_control, ""));
        let duty = Duty::StartUnitAgent { machine: None };
        Cause::new(entity, duty, Actor::OwnMachineAgent).last_error(last)
    });
    missing.into_iter().chain(absent).collect()
}

/// Two lines for each cause: its sentence and its hint.
fn text(causes: &[Cause], now: &Now) -> String {
    let times = Times { now_ms: now.wall_ms, time_of_day: None };
    let lines = |one| format!("{}\n  hint: {}\n", sentence(one, &times), hint(one, &times));
    causes.iter().map(lines).collect()
}

/// What the unit waits for, or what it would do next. `client`: the program behind the hook tools.
pub async fn why(dir: &Path, client: Result<PathBuf>) -> Result<String> {
    let (folder, local) = read(dir).await?;
    let view = ViewCache::load(&folder).await;
    let clock = crate::clock::HostClock::new(&folder.machine().join("boot"));
    let since_boot_ms = crate::clock::since_boot_ms();
    use crate::ports::Clock;
    let now = Now {
        boot: clock.boot(),
        since_boot_ms,
        wall_ms: crate::clock::wall_ms(),
        leads: local.leader,
        ..Now::hypothetical()
    };
    let name = &local.name;
    let runs = service::running(&folder).is_some();
    // what was begun and whose agent lives is running: only without one it was interrupted
    if let (true, Step::Started(run)) = (runs, &local.step) {
        return Ok(format!("{name}: runs {} (run {}): {}\n", run.operation, run.number, run.cause));
    }
    let absence = if runs { Vec::new() } else { absence(&folder, name, client) };
    if view.is_none() && !absence.is_empty() {
        return Ok(text(&absence, &now));
    }
    let machine = view.as_ref().map(|view| view.unit.machine.as_str());
    let next: String = match resolve::next(&local, view.as_ref(), &now).act {
        Act::Wait(wait) if wait.causes.is_empty() => format!("{name}: waits for nothing\n"),
        Act::Wait(wait) => text(&wait.causes, &now),
        Act::Start(run) => format!("{name}: next is {}: {}\n", run.operation, run.cause),
        Act::RecordOutcome(record) => format!("{name}: next is {}\n", record.operation),
        Act::Reattach(run) => format!("{name}: {} was begun by an agent that is gone\n", run.operation),
        Act::PersistEvent(event) => format!("{name}: next is to note {event:?}\n"),
        Act::AcquireHookLock => format!("{name}: next is a hook, once the machine's hook lock is free\n"),
        Act::FetchBag(asked) => text(&[resolve::fetching(name, &asked)], &now),
        Act::Reboot => text(&[resolve::rebooting(name, machine)], &now),
        Act::Finish => format!("{name}: is finished\n"),
    };
    Ok(text(&absence, &now) + &next)
}

#[cfg(test)]
mod tests {
    use crate::inspect::*;
    use crate::journal::Journal;
    use crate::ports::Memory;
    use crate::service::AGENT_PID;
    use host::process::Process;
    use state::terms::names::Uuid;
    use state::unit::local::{Event, Run};
    use state::unit::operation::{Hook, Operation};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_hook_that_was_begun_runs_as_long_as_its_agent_lives() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::new(dir.path().to_path_buf());
        let mut local = Local::new(Uuid(7), UnitName::new("web", 0));
        let journal = Journal::begin(folder.clone(), 0, &local, true).await.expect("it is written");
        let (operation, cause) = (Operation::Hook(Hook::Install), "the charm is deployed".to_owned());
        let run = Run { number: 1, operation, attempt: 1, cause, position: None, leads: None, episode: None };
        local.apply(&Event::Started(run.clone()));
        journal.append(&[Event::Started(run)], &Arc::new(local)).await.expect("it is appended");
        let (client, none) = (dir.path().join("pintle-hook"), Err(anyhow::anyhow!("it is missing")));
        let why = async |client| why(dir.path(), client).await.expect("readable");
        let runs = "web/0: runs hook install (run 1): the charm is deployed\n";

        std::fs::write(folder.file("agent.log"), "it begins\nERROR the disk is full\n").expect("written");
        let said = why(Ok(client.clone())).await;
        assert_eq!(
            said.lines().count(),
            2,
            "the controller is not asked for what only an agent could be shown"
        );
        assert!(said.contains("start the unit agent") && said.contains("ERROR the disk is full"), "{said}");
        let missing = why(none).await;
        assert_eq!(missing.lines().count(), 4);
        assert!(
            missing.starts_with("unit web/0 waits for the operator") && missing.contains("it is missing")
        );
        Process::this().write(&folder.file(AGENT_PID)).expect("written");
        assert_eq!(why(Ok(client)).await, runs);
    }
}
