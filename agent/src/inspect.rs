//! The output of `pintle-agent show` and `pintle-agent why`: what a unit's folder stores, and what its agent
//! would do next and why.
//!
//! Reads local files only: needs no controller and changes nothing, so it can be used beside a running agent.

use crate::deployer::{FINISHED, RECALLING};
use crate::folder::UnitFolder;
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

async fn read(dir: &Path) -> Result<(UnitFolder, Local)> {
    let folder = UnitFolder::new(dir.to_path_buf());
    let local = journal::read_only_load(&folder).await?;
    let local = local.with_context(|| format!("cannot read the memory of a unit in {}", dir.display()))?;
    Ok((folder, local))
}

/// The memory of the unit in the folder `dir`, state and journal combined, as YAML.
///
/// # Errors
/// If there is no memory that can be read.
pub async fn show(dir: &Path) -> Result<String> {
    let (_, local) = read(dir).await?;
    let head = json!({ "unit": local.name, "workflow": local.workflow().to_string() });
    Ok(format!("{}{}", yaml::to_string(&head)?, yaml::to_string(&local)?))
}

/// The causes why the unit agent does not run. `client` is the program behind the hook tools.
fn missing_agent_causes(folder: &UnitFolder, name: &UnitName, client: Result<PathBuf>) -> Vec<Cause> {
    let entity = Entity::Unit(name.clone());
    let missing = client.err().map(|error| {
        Cause::new(entity.clone(), Duty::InstallHookTools, Actor::Operator).last_error(error.to_string())
    });
    let is_ending = [FINISHED, RECALLING].iter().any(|mark| folder.file(mark).exists());
    let not_running = (!is_ending).then(|| {
        let log = std::fs::read(folder.file("agent.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let last = log.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map(|line| line.replace(char::is_control, ""));
        let duty = Duty::StartUnitAgent { machine: None };
        Cause::new(entity, duty, Actor::OwnMachineAgent).last_error(last)
    });
    missing.into_iter().chain(not_running).collect()
}

/// Two lines for each cause: the sentence and the hint.
fn text(causes: &[Cause], now: &Now) -> String {
    let times = Times { now_ms: now.wall_ms, time_of_day: None };
    let lines = |cause| format!("{}\n  hint: {}\n", sentence(cause, &times), hint(cause, &times));
    causes.iter().map(lines).collect()
}

/// What the unit in the folder `dir` waits for, or what its agent would do next. `client` is the program behind
/// the hook tools.
///
/// # Errors
/// If there is no memory that can be read.
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
        leader_generation: local.elected_generation,
        ..Now::hypothetical()
    };
    let name = &local.name;
    let is_running = service::running(&folder).is_some();
    // a started run is running if the agent is alive; without an agent it was interrupted
    if let (true, Step::Started(run)) = (is_running, &local.step) {
        return Ok(format!("{name}: running {} (run {}): {}\n", run.operation, run.number, run.cause));
    }
    let agent_causes = if is_running { Vec::new() } else { missing_agent_causes(&folder, name, client) };
    if view.is_none() && !agent_causes.is_empty() {
        return Ok(text(&agent_causes, &now));
    }
    let machine = view.as_ref().map(|view| view.unit.machine.as_str());
    let next: String = match resolve::next(&local, view.as_ref(), &now).act {
        Act::Wait(wait) if wait.causes.is_empty() => format!("{name}: idle, waits for nothing\n"),
        Act::Wait(wait) => text(&wait.causes, &now),
        Act::Start(run) => format!("{name}: next operation: {}: {}\n", run.operation, run.cause),
        Act::RecordOutcome(record) => format!("{name}: next operation: {}\n", record.operation),
        Act::Reattach(run) => format!("{name}: {} was started by an agent that has ended\n", run.operation),
        Act::PersistEvent(event) => format!("{name}: next: store the event {event:?}\n"),
        Act::AcquireHookLock => format!("{name}: next: a hook, once the hook lock is free\n"),
        Act::FetchBag(request) => text(&[resolve::fetch_reason(name, &request)], &now),
        Act::Reboot => text(&[resolve::reboot_reason(name, machine)], &now),
        Act::Finish => format!("{name}: finished\n"),
    };
    Ok(text(&agent_causes, &now) + &next)
}

#[cfg(test)]
mod tests {
    use crate::inspect::*;
    use crate::journal::Journal;
    use crate::ports::UnitMemory;
    use crate::service::AGENT_PID;
    use host::process::Process;
    use state::terms::names::Uuid;
    use state::unit::local::{Event, Run};
    use state::unit::operation::{Hook, Operation};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_started_hook_is_running_only_while_its_agent_is_alive() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(dir.path().to_path_buf());
        let mut local = Local::new(Uuid(7), UnitName::new("web", 0));
        let journal = Journal::open(folder.clone(), 0, &local, true).await.expect("it is written");
        let (operation, cause) = (Operation::Hook(Hook::Install), "the charm is deployed".to_owned());
        let run = Run {
            number: 1,
            operation,
            attempt: 1,
            cause,
            position: None,
            leader_generation: None,
            episode: None,
        };
        local.apply(&Event::Started(run.clone()));
        journal.append(&[Event::Started(run)], &Arc::new(local)).await.expect("it is appended");
        let (client, none) = (dir.path().join("pintle-hook"), Err(anyhow::anyhow!("it is missing")));
        let why = async |client| why(dir.path(), client).await.expect("readable");
        let expected = "web/0: running hook install (run 1): the charm is deployed\n";

        std::fs::write(folder.file("agent.log"), "started\nERROR the disk is full\n").expect("written");
        let output = why(Ok(client.clone())).await;
        assert_eq!(
            output.lines().count(),
            2,
            "without a view and an agent, only the absent agent is reported"
        );
        assert!(
            output.contains("start the unit agent") && output.contains("ERROR the disk is full"),
            "{output}"
        );
        let missing = why(none).await;
        assert_eq!(missing.lines().count(), 4);
        assert!(
            missing.starts_with("unit web/0 waits for the operator") && missing.contains("it is missing")
        );
        Process::this().write(&folder.file(AGENT_PID)).expect("written");
        assert_eq!(why(Ok(client)).await, expected);
    }
}
