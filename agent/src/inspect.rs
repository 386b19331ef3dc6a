//! The output of `pintle-agent show` and `pintle-agent why`: what a unit's folder stores, and what its agent
//! would do next and why.
//!
//! This module reads local files only. It needs no controller and changes nothing, so it can be used beside a running
//! agent.

use crate::config;
use crate::deployer::may_run;
use crate::folder::UnitFolder;
use crate::journal;
use crate::service;
use crate::unrestored_storage::UnrestoredStorage;
use crate::view_cache::ViewCache;
use crate::{observation, reboot_request};
use anyhow::{Context, Result};
use api::text::agent_act;
use api::text::cause::{Times, hint, sentence};
use charms::yaml;
use hook_client::shim;
use host::process::Process;
use serde_json::json;
use state::terms::cause::Cause;
use state::terms::health::{Fault, UnitHealth};
use state::terms::names::{UnitName, Uuid};
use state::terms::run_lock::HeldLock;
use state::unit::agent_causes;
use state::unit::local::{Local, Step};
use state::unit::resolve::{self, Act, Now};
use std::path::{Path, PathBuf};

async fn read(dir: &Path) -> Result<(UnitFolder, Local)> {
    let folder = UnitFolder::new(dir.to_path_buf());
    let local = journal::read_only_load(&folder).await?;
    let local =
        local.with_context(|| format!("cannot read the stored state of a unit in {}", dir.display()))?;
    Ok((folder, local))
}

/// The stored state of the unit in the folder `dir`, state and journal combined, as YAML.
///
/// # Errors
/// If there is no stored state that can be read.
pub async fn show(dir: &Path) -> Result<String> {
    let (_, local) = read(dir).await?;
    let head = json!({ "unit": local.name, "workflow": local.workflow().to_string() });
    Ok(format!("{}{}", yaml::to_string(&head)?, yaml::to_string(&local)?))
}

/// The causes why the unit agent does not run. `program` is the program behind the hook tools.
fn missing_agent_causes(folder: &UnitFolder, name: &UnitName, program: Result<PathBuf>) -> Vec<Cause> {
    let missing =
        program.err().map(|error| agent_causes::missing_hook_tools(name).last_error(error.to_string()));
    let not_running = may_run(folder)
        .unwrap_or(true)
        .then(|| agent_causes::not_started(name, None).last_error(observation::last_error_line(folder, 0)));
    missing.into_iter().chain(not_running).collect()
}

/// What prevents the agent of this unit from continuing, according to its folder and that of its machine.
async fn failed_agent(folder: &UnitFolder, unit: Uuid, name: &UnitName, is_running: bool) -> Option<Cause> {
    let is_to_be_started = !is_running && may_run(folder).unwrap_or(true);
    let unrestored = UnrestoredStorage::read(&folder.machine()).error_of(unit).filter(|_| is_to_be_started);
    let fault = match observation::observe(folder).fault {
        Some(fault) => Some(fault),
        // also while an agent runs: it has just been started, and will refuse the folder
        None if journal::other_format(folder).await.is_some() => Some(Fault::FolderFormat),
        None if is_running => None,
        None if unrestored.is_some() => Some(Fault::UnrestoredStorage),
        None => observation::foreign_socket_folder(folder),
    };
    // nothing is logged on a full disk, so the last line of the log is about something else
    let last = fault.filter(|fault| !is_running && !matches!(fault, Fault::Limit(_)));
    let last = last.and_then(|fault| match fault == Fault::UnrestoredStorage {
        true => unrestored,
        false => observation::last_error_line(folder, 0),
    });
    let health = UnitHealth { fault, ..UnitHealth::default() };
    Some(agent_causes::failed_agent(name, None, &health)?.last_error(last))
}

/// The cause that names damaged files which were set aside.
fn set_aside(folder: &UnitFolder, name: &UnitName) -> Option<Cause> {
    agent_causes::set_aside(name, None, observation::observe(folder).set_aside)
}

/// The cause of an agent that runs, and whose requests the controller does not accept.
fn refused_requests(folder: &UnitFolder, name: &UnitName, is_running: bool) -> Option<Cause> {
    let error = observation::controller_error(folder).filter(|_| is_running)?;
    Some(agent_causes::refused_requests(name).last_error(error))
}

/// The cause of a unit whose machine is to be rebooted.
fn rebooting(folder: &UnitFolder, name: &UnitName, machine: Option<&str>, now: &Now) -> Cause {
    let since_ms = reboot_request::requested_ms(&folder.machine());
    resolve::requested_reboot_cause(name, machine, since_ms, now.wall_ms)
}

/// Two lines for each cause: the sentence and the hint.
fn text(causes: &[Cause], now: &Now) -> String {
    let times = Times { now_ms: now.wall_ms, time_of_day: None };
    let lines = |cause| format!("{}\n  hint: {}\n", sentence(cause, &times), hint(cause, &times));
    causes.iter().map(lines).collect()
}

/// What the unit in the folder `dir` waits for, or what its agent would do next. `program` is the program behind
/// the hook tools.
///
/// # Errors
/// If there is no stored state that can be read.
pub async fn why(dir: &Path, program: Result<PathBuf>) -> Result<String> {
    let folder = UnitFolder::new(dir.to_path_buf());
    let is_running = service::running(&folder).is_some();
    let wall_now = Now { wall_ms: crate::clock::wall_ms(), ..Now::hypothetical() };
    // the state of another version cannot be read; the configuration has the name
    let config = config::read(dir).ok();
    let configured = config.and_then(|config| Some((config.uuid, config.name.parse::<UnitName>().ok()?)));
    let failed_agent = match &configured {
        Some((unit, name)) => failed_agent(&folder, *unit, name, is_running).await,
        None => None,
    };
    let damaged = configured.as_ref().and_then(|(_, name)| set_aside(&folder, name));
    let (first, last) = (text(failed_agent.as_slice(), &wall_now), text(damaged.as_slice(), &wall_now));
    if failed_agent.is_some() && (!is_running || journal::read_only_load(&folder).await?.is_none()) {
        return Ok(first + &last);
    }
    let (folder, local) = read(dir).await?;
    let view = ViewCache::load(&folder).await;
    let clock = crate::clock::HostClock::new(&folder.machine().join(reboot_request::BOOT_FILE));
    let since_boot_ms = crate::clock::since_boot_ms();
    use crate::ports::Clock;
    let now = Now {
        boot: clock.boot(),
        since_boot_ms,
        wall_ms: crate::clock::wall_ms(),
        leader_generation: local.elected_generation,
        // an agent that runs and has not started its next operation does not hold the lock yet
        held_lock: if is_running { HeldLock::None } else { HeldLock::Any },
        ..Now::hypothetical()
    };
    let name = &local.name;
    let first = first + &text(refused_requests(&folder, name, is_running).as_slice(), &now);
    // a started run is running if the agent is alive; without an agent it was interrupted
    if let (true, Step::Started(run)) = (is_running, &local.step) {
        let running = agent_act::running(name, run);
        return Ok(format!("{first}{running}\n{}{last}", process_lines(&folder, run.number)));
    }
    let agent_causes = if is_running { Vec::new() } else { missing_agent_causes(&folder, name, program) };
    if view.is_none() && !agent_causes.is_empty() {
        return Ok(text(&agent_causes, &now) + &last);
    }
    let machine = view.as_ref().map(|view| view.unit.machine.as_str());
    let act = resolve::next(&local, view.as_ref(), &now).act;
    let causes = match &act {
        Act::Wait(wait) => wait.causes.clone(),
        Act::FetchBag(request) => vec![resolve::fetch_cause(name, request)],
        Act::FetchCharm(charm) => vec![resolve::fetch_charm_cause(name, charm)],
        Act::Reboot => vec![rebooting(&folder, name, machine, &now)],
        Act::Start(_)
        | Act::RecordOutcome(_)
        | Act::Reattach(_)
        | Act::ChangeLeadership(_)
        | Act::AcquireLock(_)
        | Act::Finish => Vec::new(),
    };
    let next = agent_act::next(name, &act).map_or_else(|| text(&causes, &now), |line| line + "\n");
    Ok(first + &text(&agent_causes, &now) + &next + &last)
}

/// Two lines about the process of a run: where it is, and what ends it. Empty if it has no process.
fn process_lines(folder: &UnitFolder, run: u64) -> String {
    let run_folder = folder.run(run);
    let Some(process) = Process::read_alive(&run_folder.join(shim::HOOK_PID)) else { return String::new() };
    let (run_folder, unit) = (run_folder.display(), folder.root().display());
    format!(
        "  process: {}, run folder: {run_folder}\n  hint: what it has called so far: pintle-agent show-run {unit} {run}; to end it: \
         pintle-agent stop-hook {unit}\n",
        process.pid
    )
}

#[cfg(test)]
mod tests {
    use crate::inspect::*;
    use crate::journal::{Journal, JournalEnd};
    use crate::ports::UnitStorage;
    use api::machine_folder::AGENT_PID;
    use api::{AgentConfig, AgentKind};
    use state::terms::cause::{Actor, Duty, Entity};
    use state::terms::operation::{Hook, Operation};
    use state::terms::start_reason::StartReason;
    use state::unit::decision::REBOOT_DEADLINE_MS;
    use state::unit::local::{Event, Run};
    use std::sync::Arc;

    fn of_web(duty: Duty, actor: Actor) -> Cause {
        Cause::new(Entity::Unit(UnitName::new("web", 0)), duty, actor)
    }

    #[tokio::test]
    async fn a_started_hook_is_running_only_while_its_agent_is_alive() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(dir.path().to_path_buf());
        let mut local = Local::new(Uuid(7), UnitName::new("web", 0));
        let journal = Journal::create(folder.clone(), &local).await.expect("it is written");
        let (operation, reason) = (Operation::Hook(Hook::Install), StartReason::CharmInstalled);
        let run = Run::new(1, operation, reason);
        local.apply(&Event::Started(run.clone()));
        journal.append(&[Event::Started(run.clone())], &Arc::new(local)).await.expect("it is appended");
        let (program, none) = (dir.path().join("pintle-hook"), Err(anyhow::anyhow!("it is missing")));
        let why = async |program| why(dir.path(), program).await.expect("readable");
        let expected = agent_act::running(&UnitName::new("web", 0), &run) + "\n";

        std::fs::write(folder.file("agent.log"), "started\nERROR the disk is full\n").expect("written");
        let output = why(Ok(program.clone())).await;
        let absent = of_web(Duty::StartUnitAgent { machine: None }, Actor::OwnMachineAgent)
            .last_error("ERROR the disk is full".to_owned());
        let expected_absent = text(std::slice::from_ref(&absent), &Now::hypothetical());
        assert_eq!(output, expected_absent, "without a view, only the absent agent is reported");
        let missing = of_web(Duty::InstallHookTools, Actor::Operator).last_error("it is missing".to_owned());
        assert_eq!(why(none).await, text(&[missing, absent], &Now::hypothetical()));
        Process::current().write(&folder.file(AGENT_PID)).expect("written");
        assert_eq!(why(Ok(program)).await, expected);
    }

    /// The folder of web/0 with its configuration and an idle state, two levels below that of its machine.
    async fn configured() -> (tempfile::TempDir, UnitFolder) {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("agents/unit-web-0");
        std::fs::create_dir_all(&root).expect("created");
        let folder = UnitFolder::new(root);
        let config = AgentConfig {
            kind: AgentKind::Unit,
            uuid: Uuid(7),
            name: "web/0".to_owned(),
            model: Uuid(2),
            controllers: Vec::new(),
            server_name: String::new(),
            ca: String::new(),
            token: String::new(),
            machine: "0".to_owned(),
        };
        let file = folder.file(AgentConfig::FILE);
        host::file::write_atomic_unsynced(&file, config::to_yaml(&config).as_bytes()).expect("written");
        let local = Local::new(Uuid(7), UnitName::new("web", 0));
        Journal::create(folder.clone(), &local).await.expect("it is written");
        (dir, folder)
    }

    fn no_program() -> Result<PathBuf> {
        Ok(PathBuf::from("pintle-hook"))
    }

    #[tokio::test]
    async fn a_state_of_another_format_is_named_although_it_cannot_be_read() {
        let (_dir, folder) = configured().await;
        let state = std::fs::read_to_string(folder.file(journal::STATE)).expect("the file exists");
        let document = state.strip_prefix(journal::STATE_HEAD).expect("it says what it is");
        let body = document.split_once('\n').expect("a checksum").1.replacen("format: 1", "format: 2", 1);
        let newer = format!("{}{}", journal::STATE_HEAD, host::digest::with_checksum(&body));
        std::fs::write(folder.file(journal::STATE), newer).expect("written");
        std::fs::write(folder.file("agent.log"), "ERROR its format is 2\nhint: update\n").expect("written");
        let fault = Fault::FolderFormat;
        let cause = of_web(Duty::ClearFault { fault, machine: None }, Actor::Operator);
        let why = async || why(folder.root(), no_program()).await.expect("the state is explained");
        let ended = cause.clone().last_error("ERROR its format is 2".to_owned());
        assert_eq!(why().await, text(&[ended], &Now::hypothetical()));
        Process::current().write(&folder.file(AGENT_PID)).expect("written");
        assert_eq!(why().await, text(&[cause], &Now::hypothetical()), "the next agent has just been started");
    }

    #[tokio::test]
    async fn storage_that_was_not_restored_is_named_while_the_agent_does_not_run() {
        let (machine, folder) = configured().await;
        let why = async || why(folder.root(), no_program()).await.expect("the state is explained");
        let mut unrestored = UnrestoredStorage::default();
        unrestored.add(Uuid(8), "of another unit".to_owned());
        unrestored.store(machine.path());
        let before = why().await;
        unrestored.add(Uuid(7), "the disk is missing".to_owned());
        unrestored.store(machine.path());
        let fault = Fault::UnrestoredStorage;
        let cause = of_web(Duty::ClearFault { fault, machine: None }, Actor::Operator)
            .last_error("the disk is missing".to_owned());
        assert_eq!(why().await, text(&[cause], &Now::hypothetical()));
        let finished = folder.file(api::machine_folder::FINISHED);
        std::fs::write(&finished, "").expect("written");
        assert!(!why().await.contains("the disk is missing"), "it is not started again");
        std::fs::remove_file(finished).expect("it exists");
        UnrestoredStorage::default().store(machine.path());
        assert_eq!(why().await, before);
    }

    #[tokio::test]
    async fn files_that_were_set_aside_are_named_until_they_are_deleted() {
        let (_dir, folder) = configured().await;
        Process::current().write(&folder.file(AGENT_PID)).expect("written");
        let file = folder.file("journal.yaml.corrupt-1");
        std::fs::write(&file, "damaged").expect("written");
        let named = why(folder.root(), no_program()).await.expect("the state is explained");
        std::fs::remove_file(file).expect("the damaged file exists");
        let after = why(folder.root(), no_program()).await.expect("the state is explained");
        let files = vec!["journal.yaml.corrupt-1".to_owned()];
        let cause = of_web(Duty::InspectSetAside { files, machine: None }, Actor::Operator);
        assert_eq!(named, after + &text(&[cause], &Now::hypothetical()));
    }

    #[tokio::test]
    async fn the_last_error_of_the_controller_is_named_while_the_agent_runs_and_gets_it() {
        let (_dir, folder) = configured().await;
        let why = async || why(folder.root(), no_program()).await.expect("the state is explained");
        let pid = folder.file(AGENT_PID);
        Process::current().write(&pid).expect("written");
        let before = why().await;
        let journal = Journal::after(folder.clone(), JournalEnd::default());
        journal.store_controller_error(Some("cannot store; its disk is full"));
        let cause = of_web(Duty::AcceptRequests, Actor::Controller)
            .last_error("cannot store; its disk is full".to_owned());
        assert_eq!(why().await, text(&[cause], &Now::hypothetical()) + &before);
        let ended = refused_requests(&folder, &UnitName::new("web", 0), false);
        assert_eq!(ended, None, "of an agent that has ended, nothing is known");
        journal.store_controller_error(None);
        assert_eq!(why().await, before);
    }

    #[tokio::test]
    async fn a_reboot_is_overdue_after_its_deadline_and_a_repeated_request_keeps_its_time() {
        let (dir, folder) = configured().await;
        let now = |after_ms| {
            let since_ms = reboot_request::requested_ms(dir.path()).expect("it is requested");
            Now { wall_ms: since_ms + after_ms, ..Now::hypothetical() }
        };
        reboot_request::request(dir.path(), "boot").expect("written");
        let name = UnitName::new("web", 0);
        assert_eq!(rebooting(&folder, &name, None, &now(REBOOT_DEADLINE_MS)).duty, Duty::Reboot);
        let overdue = Duty::RebootByHand { machine: None };
        assert_eq!(rebooting(&folder, &name, None, &now(REBOOT_DEADLINE_MS + 1)).duty, overdue);
        let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        let request =
            std::fs::File::options().write(true).open(dir.path().join("reboot")).expect("the file exists");
        request.set_modified(past).expect("it is ours");
        let before = reboot_request::requested_ms(dir.path());
        reboot_request::request(dir.path(), "boot").expect("written");
        assert_eq!(reboot_request::requested_ms(dir.path()), before);
        reboot_request::request(dir.path(), "another boot").expect("written");
        assert_ne!(reboot_request::requested_ms(dir.path()), before);
    }
}
