//! Files that the hooks of a charm need and that are deleted on disk: by a person, or by the charm itself.

use super::{Agent, MODEL, World, view};
use crate::terms::operation::{CharmRef, Hook, Operation};
use crate::terms::required_file::RequiredFile;
use crate::terms::run_lock::{HeldLock, RunLock};
use crate::terms::start_reason::StartReason;
use crate::unit::decision::{Act, CharmOnDisk, Now};
use crate::unit::local::{Event, Local, Run, Step};
use crate::unit::outcome::{self, FinishedRun, HookResult, RunExit, RunTexts};
use crate::unit::pending_reports::PendingReports;
use crate::unit::record::Outcome;
use crate::unit::required_files::RequiredFiles;
use crate::unit::resolve::next;
use crate::unit::snapshot::Snapshot;

const TEXTS: RunTexts = RunTexts { omitted_lines: |_, _| String::new() };
const KEPT: [RequiredFile; 1] = [RequiredFile::Metadata];

/// A unit that has started, and its view.
pub(super) fn started() -> (Local, Snapshot) {
    let mut world = World::new();
    world.deploy("plain", "plain", 1);
    let mut agent = Agent::attach(&mut world, "plain/0");
    agent.start(&mut world);
    let view = view::full_view(world.reader(), MODEL, agent.unit).expect("there is a view");
    let mut view = Snapshot::from_full(view.delta).expect("a full view is complete");
    view.position.store_generation = agent.local.store_generation.unwrap_or_default();
    (agent.local, view)
}

fn charm(local: &Local) -> CharmRef {
    local.charm.clone().expect("it is installed")
}

fn files(existing: &[RequiredFile]) -> RequiredFiles {
    RequiredFiles { unpacked: RequiredFile::ALL.into(), existing: existing.iter().copied().collect() }
}

/// Starts a run of the hook and ends it like this, with these programs.
fn end(local: &mut Local, hook: Hook, attempt: u32, exit: RunExit, existing: &[RequiredFile]) {
    let run = Run::new(local.run + 1, Operation::Hook(hook), StartReason::IntervalPassed);
    let run = Run { attempt, ..run };
    local.apply(&Event::Started(run.clone()));
    let result = HookResult { files: Some(files(existing)), ..HookResult::without_writes(exit) };
    let pending_reports = &PendingReports::default();
    let finished = FinishedRun { run: &run, result, pending_reports, texts: TEXTS };
    let events = outcome::events(local, None, &Now::hypothetical(), finished);
    events.iter().for_each(|event| local.apply(event));
}

fn is_done(local: &Local) -> bool {
    local.step == Step::Idle
}

/// 1. `dispatch` and the program that it starts are deleted while it runs. 2. It finds nothing to start, and ends well.
#[test]
fn a_hook_that_ends_well_or_is_not_found_after_a_program_was_lost_runs_again_with_the_whole_charm() {
    for exit in [RunExit::Code(0), RunExit::Missing] {
        let (mut local, view) = started();
        end(&mut local, Hook::UpdateStatus, 1, exit.clone(), &KEPT);
        assert!(!is_done(&local), "{exit:?}");
        let now = Now { charm: CharmOnDisk::Missing, ..Now::hypothetical() };
        assert_eq!(next(&local, Some(&view), &now).act, Act::FetchCharm(charm(&local)));
        let Act::Start(again) = next(&local, Some(&view), &Now::hypothetical()).act else {
            panic!("it runs again")
        };
        assert_eq!((again.operation, again.attempt), (Operation::Hook(Hook::UpdateStatus), 2));
        end(&mut local, Hook::UpdateStatus, 2, RunExit::Code(0), &RequiredFile::ALL);
        assert!(is_done(&local) && local.deleted_files.is_empty(), "{exit:?}");
    }
}

/// The log of the agent has the end that counts.
#[test]
fn the_end_of_a_hook_that_lost_a_program_counts_as_an_interruption() {
    let (local, _) = started();
    let run = Run::new(1, Operation::Hook(Hook::UpdateStatus), StartReason::IntervalPassed);
    let counted = |files| {
        let ended = HookResult { files, ..HookResult::without_writes(RunExit::Code(0)) };
        outcome::counted_exit(&local, &run, &ended)
    };
    assert_eq!(counted(Some(files(&KEPT))), RunExit::Interrupted);
    assert_eq!(counted(Some(files(&RequiredFile::ALL))), RunExit::Code(0));
    assert_eq!(counted(None), RunExit::Code(0), "they were not observed");
}

#[test]
fn a_hook_that_was_not_found_again_has_not_run_either() {
    let (mut local, _) = started();
    end(&mut local, Hook::UpdateStatus, 2, RunExit::Missing, &KEPT);
    assert!(!is_done(&local) && local.deleted_files.is_empty());
}

#[test]
fn failed_hooks_last_hooks_and_actions_end_as_they_do_with_their_programs() {
    let (mut local, _) = started();
    end(&mut local, Hook::UpdateStatus, 1, RunExit::Code(1), &KEPT);
    assert!(local.episode().is_some());
    let (mut local, _) = started();
    end(&mut local, Hook::Stop, 1, RunExit::Code(0), &[]);
    assert!(is_done(&local) && files(&[]).is_any_lost(&local), "the charm is fetched for its last hook");
    let action = Run::new(1, Operation::Action { id: 1, name: "backup".into() }, StartReason::Requested);
    assert_eq!(RunExit::Missing.with_required_files(&local, &action, &files(&KEPT)), RunExit::Missing);
}

/// The record of the hook stores it, so that it is the same for the next agent and for the replica.
#[test]
fn a_program_that_a_hook_deletes_each_time_is_not_lost_until_a_charm_is_unpacked() {
    let (mut local, _) = started();
    end(&mut local, Hook::UpgradeCharm, 1, RunExit::Code(0), &KEPT);
    assert!(!is_done(&local) && files(&KEPT).is_any_lost(&local), "a person may have deleted it");
    end(&mut local, Hook::UpgradeCharm, 2, RunExit::Code(0), &KEPT);
    let stored = local.outbox.last().expect("its record").deleted_files.clone();
    assert_eq!(stored, [RequiredFile::Dispatch].into());
    assert!(!files(&KEPT).is_any_lost(&local));
    assert!(files(&[]).is_any_lost(&local), "another one is");
    end(&mut local, Hook::UpdateStatus, 1, RunExit::Code(0), &KEPT);
    assert!(is_done(&local), "nothing more is lost");
    let installed = local.record(Operation::InstallCharm(charm(&local)), Outcome::Ok, 0);
    local.apply(&Event::Finished(installed));
    assert!(files(&KEPT).is_any_lost(&local));
}

/// 1. The agent is restarted while a hook runs, which is run again. 2. A person deletes programs meanwhile. 3. The hook ends
///    well. Nothing shows that the charm has deleted them, and no later hook is skipped for it.
#[test]
fn only_the_install_and_upgrade_hooks_delete_a_program_and_only_dispatch() {
    for (hook, existing) in
        [(Hook::UpdateStatus, &KEPT[..]), (Hook::Stop, &KEPT[..]), (Hook::UpgradeCharm, &[])]
    {
        let (mut local, _) = started();
        end(&mut local, hook, 2, RunExit::Code(0), existing);
        assert!(is_done(&local) && files(existing).is_any_lost(&local), "{existing:?}");
    }
}

#[test]
fn a_lost_charm_is_fetched_before_the_hook_lock_is_acquired() {
    let (mut local, view) = started();
    let run = Run::new(local.run + 1, Operation::Hook(Hook::UpdateStatus), StartReason::IntervalPassed);
    local.apply(&Event::Started(run));
    let act = |charm, holds_lock| {
        let held_lock = if holds_lock { HeldLock::One(RunLock::Machine) } else { HeldLock::None };
        let now = Now { charm, held_lock, ..Now::hypothetical() };
        next(&local, Some(&view), &now).act
    };
    let fetch = Act::FetchCharm(charm(&local));
    assert_eq!(act(CharmOnDisk::Missing, false), fetch);
    assert_eq!(act(CharmOnDisk::Missing, true), fetch, "it was lost while the lock was waited for");
    assert_eq!(act(CharmOnDisk::Complete, false), Act::AcquireLock(RunLock::Machine));
    assert_eq!(act(CharmOnDisk::Unavailable, false), Act::AcquireLock(RunLock::Machine), "the run fails");
}
