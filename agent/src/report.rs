//! For people, from the local files alone: what a unit remembers, and what `next` says of it now and why. Needs no
//! controller and touches nothing.

use crate::folder::Folder;
use crate::journal;
use crate::process::Process;
use crate::service::AGENT_PID;
use crate::view_cache::ViewCache;
use anyhow::{Context, Result};
use charms::yaml;
use serde_json::json;
use state::unit::local::{Local, Step};
use state::unit::resolve::{self, Act, Now};
use std::path::Path;

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

/// One line for each thing the unit waits for, or what it would do next.
pub async fn why(dir: &Path) -> Result<String> {
    let (folder, local) = read(dir).await?;
    let view = ViewCache::load(&folder).await;
    let clock = crate::clock::RealClock::new(&folder.machine().join("boot"));
    let since_boot_ms = crate::clock::since_boot_ms();
    use crate::ports::Clock;
    let now = Now {
        boot: clock.boot(),
        since_boot_ms,
        wall_ms: crate::clock::wall_ms(),
        leads: local.leader,
        ..Now::of_a_question()
    };
    let name = &local.name;
    // what was begun and whose agent lives is running: only without one it was interrupted
    if let Step::Started(run) = &local.step
        && Process::read(&folder.file(AGENT_PID)).is_some_and(|agent| agent.is_alive())
    {
        return Ok(format!("{name}: runs {} (run {}): {}\n", run.operation, run.number, run.cause));
    }
    Ok(match resolve::next(&local, view.as_ref(), &now).act {
        Act::Wait(wait) => wait
            .causes
            .iter()
            .map(|cause| {
                let since = cause.since_ago_ms.map_or(String::new(), |ago| format!(", for {} s", ago / 1000));
                format!("{name}: {} (owner: {}{since}); {}\n", cause.what, cause.owner, cause.help)
            })
            .collect(),
        Act::Begin(run) => format!("{name}: next is {}: {}\n", run.operation, run.cause),
        Act::Settle(record) => format!("{name}: next is {}\n", record.operation),
        Act::Adopt(run) => format!("{name}: {} was begun by an agent that is gone\n", run.operation),
        Act::Note(event) => format!("{name}: next is to note {event:?}\n"),
        Act::Lock => format!("{name}: next is a hook, once the machine's hook lock is free\n"),
        Act::Fetch(asked) => format!("{name}: next is a hook: {}\n", resolve::fetching(&asked).what),
        Act::Reboot => format!("{name}: {}\n", resolve::rebooting().what),
        Act::Stop => format!("{name}: is finished\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::ports::Memory;
    use state::names::{UnitName, Uuid};
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
        local.apply(&Event::Began(run.clone()));
        journal.append(&[Event::Began(run)], &Arc::new(local)).await.expect("it is appended");
        let runs = "web/0: runs hook install (run 1): the charm is deployed\n";

        assert_ne!(why(dir.path()).await.expect("readable"), runs, "no agent is there");
        Process::this().write(&folder.file(AGENT_PID)).expect("written");
        assert_eq!(why(dir.path()).await.expect("readable"), runs);
    }
}
