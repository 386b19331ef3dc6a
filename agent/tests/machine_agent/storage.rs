//! The storage of the machine: what the agent reports, and what it repeats.

use crate::{FakeController, Tokens, machine_agent, view};
use api::error::ApiError;
use api::{Handle, ReportStorage};
use state::charm::StorageType;
use state::terms::names::Uuid;
use state::terms::storage::{MachineAttachment, MachineStorage, StorageId, StoragePool, StorageReport};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

impl Handle<ReportStorage> for FakeController {
    async fn handle(&self, report: ReportStorage) -> Result<(), ApiError> {
        self.storage.lock().expect("one thread").push(report);
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

/// What an agent reports that runs for a while in this folder.
async fn reports(folder: &Path, tokens: Tokens, storage: MachineStorage) -> Vec<StorageReport> {
    let mut view = view(BTreeMap::new());
    view.storage.insert(id(), storage);
    let controller = FakeController { view: Some(view), tokens, ..FakeController::default() };
    let agent = machine_agent(folder, &controller);
    let while_running = tokio::time::timeout(Duration::from_secs(30), agent.run());
    assert!(while_running.await.is_err(), "the agent continues");
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
