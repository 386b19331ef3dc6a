//! The storage of the machine: what the agent reports, and what it repeats.

use crate::health::{controller_with, until_reported};
use crate::{FakeController, Tokens, machine_agent, view};
use api::error::ApiError;
use api::{EXAMINATION_INTERVAL_MS, Handle, ReportStorage};
use state::charm::StorageType;
use state::terms::health::{Fault, ProcessEnd, UnitHealth};
use state::terms::names::Uuid;
use state::terms::storage::{MachineAttachment, MachineStorage, StorageId, StoragePool, StorageReport};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Handle<ReportStorage> for FakeController {
    async fn handle(&self, report: ReportStorage) -> Result<(), ApiError> {
        self.storage.lock().expect("one thread").push(report);
        self.storage_reported.notify_one();
        Ok(())
    }
}

fn id() -> StorageId {
    StorageId { name: "data".into(), number: 0 }
}

fn shown(removed: bool) -> MachineStorage {
    let attachment =
        MachineAttachment { unit: Uuid(5), wanted_location: None, read_only: false, location: None };
    MachineStorage {
        instance: Uuid(9),
        kind: StorageType::Filesystem,
        pool: StoragePool::Rootfs,
        size_mib: 1,
        removed,
        attachment: (!removed).then_some(attachment),
    }
}

/// Until just before the 13th report of presence.
const RUNS_FOR: Duration = Duration::from_millis(12 * EXAMINATION_INTERVAL_MS - 1);

/// What an agent reports that runs for a while in this folder.
async fn reports(folder: &Path, tokens: Tokens, storage: MachineStorage) -> Vec<StorageReport> {
    let mut view = view(BTreeMap::new());
    view.storage.insert(id(), storage);
    let controller = FakeController { view: Some(view), tokens, ..FakeController::default() };
    let agent = machine_agent(folder, &controller);
    let while_running = tokio::time::timeout(RUNS_FOR, agent.run());
    assert!(while_running.await.is_err(), "the agent continues");
    assert_eq!(controller.heartbeats.load(Ordering::Relaxed), 12, "its presence continues");
    let reports = controller.storage.lock().expect("one thread").clone();
    assert!(reports.iter().all(|report| (&report.id, report.instance) == (&id(), Uuid(9))));
    reports.into_iter().map(|report| report.report).collect()
}

#[tokio::test(start_paused = true)]
async fn storage_is_provided_once_with_its_content_and_deleted_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = reports(folder.path(), Tokens::AcceptedOnce, shown(false)).await;
    let [StorageReport::Provisioned { unit: Uuid(5), location }] = &first[..] else { panic!("{first:?}") };
    fs::write(Path::new(location).join("file"), "content").expect("it is a folder");
    let again = reports(folder.path(), Tokens::AcceptedOnce, shown(false)).await;
    assert_eq!(again, first, "another agent provides the same");
    assert_eq!(fs::read_to_string(Path::new(location).join("file")).expect("it is kept"), "content");
    let removed = reports(folder.path(), Tokens::AcceptedOnce, shown(true)).await;
    assert_eq!(removed, [StorageReport::Removed]);
    assert!(!Path::new(location).exists());
}

#[tokio::test(start_paused = true)]
async fn an_error_is_reported_once_while_it_lasts() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("storage"), "no folder").expect("the file is written");
    let failed = reports(folder.path(), Tokens::AcceptedOnce, shown(false)).await;
    assert!(matches!(&failed[..], [StorageReport::Failed { .. }]), "{failed:?}");
}

/// The next watch may be that of a restored store, which lacks the error.
#[tokio::test(start_paused = true)]
async fn an_error_is_reported_again_in_each_watch() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("storage"), "no folder").expect("the file is written");
    let mut view = view(BTreeMap::new());
    view.storage.insert(id(), shown(false));
    let controller =
        FakeController { view: Some(view), tokens: Tokens::Accepted, ..FakeController::default() };
    let agent = machine_agent(folder.path(), &controller);
    assert!(tokio::time::timeout(RUNS_FOR, agent.run()).await.is_err(), "the agent continues");
    let (reports, watches) =
        (controller.storage.lock().expect("one thread").len(), controller.watches.load(Ordering::Relaxed));
    assert!(
        watches > 1 && (watches - 1..=watches).contains(&u32::try_from(reports).expect("few")),
        "{reports} in {watches} watches"
    );
}

/// The controller may have an error from before, which only a report ends.
#[tokio::test(start_paused = true)]
async fn storage_is_reported_by_each_agent_also_if_the_controller_knows_its_location() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = reports(folder.path(), Tokens::AcceptedOnce, shown(false)).await;
    let [StorageReport::Provisioned { location, .. }] = &first[..] else { panic!("{first:?}") };
    let mut known = shown(false);
    known.attachment.as_mut().expect("it is attached").location = Some(location.clone());
    assert_eq!(reports(folder.path(), Tokens::AcceptedOnce, known).await, first);
    let released = MachineStorage { removed: false, ..shown(true) };
    assert_eq!(reports(folder.path(), Tokens::AcceptedOnce, released).await, [StorageReport::Released]);
}

/// 1. A unit has storage, and its agent was started.
/// 2. The host is booted, and the storage cannot be provided again.
/// 3. It can be.
#[tokio::test]
async fn an_agent_is_not_started_before_its_storage_is_restored() {
    let (machine, unit) = (tempfile::tempdir().expect("a folder"), Uuid(5));
    let mut controller = controller_with(unit);
    controller.view.as_mut().expect("it has one").storage.insert(id(), shown(false));
    let has_ended = |health: &UnitHealth| health.exit.is_some();
    let until_storage_is = |passes: fn(&StorageReport) -> bool| {
        let (agent, controller) = (machine_agent(machine.path(), &controller), &controller);
        async move {
            let last =
                || controller.storage.lock().expect("one thread").last().map(|last| last.report.clone());
            let reported = async {
                while !last().is_some_and(|report| passes(&report)) {
                    controller.storage_reported.notified().await;
                }
            };
            tokio::select! {
                end = agent.run() => panic!("{end:?}"),
                () = reported => last().expect("it is reported"),
            }
        }
    };
    let provided = until_storage_is(|report| matches!(report, StorageReport::Provisioned { .. })).await;
    let StorageReport::Provisioned { location, .. } = provided else { unreachable!("it was waited for") };
    until_reported(machine.path(), &controller, unit, has_ended).await;
    let log = machine.path().join("agents/unit-web-0/agent.log");
    fs::remove_file(&log).expect("each start of an agent opens it");
    fs::remove_dir(&location).expect("it is empty");
    fs::write(&location, "no folder").expect("written");
    controller.health.lock().expect("one thread").clear();

    until_storage_is(|report| matches!(report, StorageReport::Failed { .. })).await;
    assert!(!log.exists(), "two plans were executed until the storage was reported");
    let held_back = until_reported(machine.path(), &controller, unit, has_ended).await;
    assert!(!log.exists(), "it was not started");
    let exit = held_back.exit.clone().expect("it was waited for");
    assert_eq!((exit.end, held_back.fault()), (ProcessEnd::NotStarted, Some(Fault::UnrestoredStorage)));
    assert!(exit.last_error.is_some_and(|error| error.contains("data-0")), "it names the storage");
    fs::remove_file(&location).expect("removed");
    let is_started =
        |health: &UnitHealth| health.exit.as_ref().is_some_and(|exit| exit.end == ProcessEnd::Code(101));
    until_reported(machine.path(), &controller, unit, is_started).await;
    assert!(log.exists());
}

/// PATH is that of the process, so the test runs itself again in a process of its own.
#[test]
fn a_program_that_never_ends_is_killed_and_named_while_the_presence_continues() {
    const THIS: &str = "storage::a_program_that_never_ends_is_killed_and_named_while_the_presence_continues";
    let programs = tempfile::tempdir().expect("a folder");
    if std::env::var_os("PINTLE_TEST_PROGRAMS").is_none() {
        let losetup = programs.path().join("losetup");
        fs::write(&losetup, "#!/bin/sh\necho the disk hangs >&2\nexec sleep 100000\n").expect("written");
        fs::set_permissions(&losetup, fs::Permissions::from_mode(0o755)).expect("executable");
        let path = std::env::var("PATH").expect("a process has it");
        let this = std::env::current_exe().expect("a process knows its program");
        let again = std::process::Command::new(this)
            .args([THIS, "--exact", "--nocapture"])
            .envs([("PINTLE_TEST_PROGRAMS", "1"), ("PATH", &format!("{}:{path}", programs.path().display()))])
            .output()
            .expect("it runs");
        assert!(again.status.success(), "{again:?}");
        return;
    }
    // The clock is paused: the time limit passes as soon as nothing else can happen.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = MachineStorage { pool: StoragePool::Loop, ..shown(false) };
        let failed = reports(folder.path(), Tokens::AcceptedOnce, storage).await;
        let [StorageReport::Failed { error }] = &failed[..] else { panic!("{failed:?}") };
        assert!(error.contains("losetup") && error.contains("30 s"), "{error}");
    });
}
