//! Sample answers of a controller for the tests of commands, one function for each kind of answer. The status, the unit and
//! the task are those of spec/clients.md 2.4, 3.3 and 3.5.
#![allow(dead_code)] // each test file uses what it needs

pub mod fake;
pub mod session;

use api::*;
use serde_json::json;
use state::charm::{Base, OptionType, Resource, ResourceType, Role, Scope, StorageType};
use state::terms::activity::Activity;
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::hardware::Hardware;
use state::terms::hook_name::HookName;
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::terms::process_result::ProcessResult;
use state::terms::resource::ResourceFile;
use state::terms::secret::{RotatePolicy, SecretId, SecretReader};
use state::terms::status::{ActionStatus, AgentStatus, ModelState};
use state::terms::status_message::StatusMessage;
use state::terms::storage::{StorageId, StoragePool};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

/// 10:00:09 UTC on the first day of the epoch.
pub const NOW_MS: i64 = 36_009_000;

pub fn info<S: FromStr<Err: Debug>>(current: &str, message: &str) -> StatusInfo<S> {
    info_of(current, StatusMessage::OfCharm(message.to_owned()))
}

pub fn info_of<S: FromStr<Err: Debug>>(current: &str, message: StatusMessage) -> StatusInfo<S> {
    let current = current.parse().expect("a status");
    StatusInfo { current, message, since_ms: Some(NOW_MS), data: BTreeMap::new() }
}

/// The agent status of a unit that runs this hook.
pub fn executing(hook: HookName) -> StatusInfo<AgentStatus> {
    info_of("executing", StatusMessage::Executing(Activity::hook(hook)))
}

fn base() -> Base {
    Base { name: "ubuntu".to_owned(), channel: "24.04".to_owned(), architectures: vec![] }
}

fn application(charm: &str, version: &str, message: &str) -> ApplicationStatus {
    ApplicationStatus {
        uuid: Uuid(1),
        life: Life::Alive,
        charm_name: charm.to_owned(),
        charm_url: format!("local:{charm}-0"),
        charm_revision: 0,
        charm_version: None,
        base: base(),
        exposed: false,
        fake: false,
        subordinate: false,
        bindings: vec!["db".to_owned()],
        subordinate_to: vec![],
        workload_version: version.to_owned(),
        status: info("active", message),
        relations: BTreeMap::new(),
        units: BTreeMap::new(),
    }
}

/// The model of the sample: `ledger/0` with the subordinate `auditor/0`, which runs config-changed.
pub fn sample() -> Status {
    let ledger_unit = UnitName::new("ledger", 0);
    let related = |application: &str, scope| RelatedApplication {
        application: application.to_owned(),
        interface: "audit".to_owned(),
        scope,
    };
    let mut ledger = application("ledger", "2.1", "epoch 1");
    ledger.relations = BTreeMap::from([("audit".to_owned(), vec![related("auditor", Scope::Container)])]);
    ledger.units.insert(
        ledger_unit.clone(),
        UnitStatus {
            uuid: Uuid(2),
            life: Life::Alive,
            machine: "0".to_owned(),
            principal: None,
            leader: true,
            workload: info("active", "ready"),
            agent: info("idle", ""),
            activity: None,
            address: "127.0.0.1".to_owned(),
            ports: vec!["8080/tcp".parse().expect("a range")],
        }
        .into(),
    );
    let mut auditor = application("auditor", "", "");
    auditor.subordinate = true;
    auditor.subordinate_to = vec!["ledger".to_owned()];
    auditor.units.insert(
        UnitName::new("auditor", 0),
        UnitStatus {
            uuid: Uuid(3),
            life: Life::Alive,
            machine: "0".to_owned(),
            principal: Some(ledger_unit),
            leader: true,
            workload: info("active", ""),
            agent: executing(HookName::ConfigChanged),
            activity: Some(Activity::hook(HookName::ConfigChanged)),
            address: "127.0.0.1".to_owned(),
            ports: vec![],
        }
        .into(),
    );
    let end = |application: &str, endpoint: &str, role| RelationEnd {
        application: application.to_owned(),
        endpoint: endpoint.to_owned(),
        role,
    };
    Status {
        damaged: Vec::new(),
        store: None,
        position: Position::default(),
        now_ms: NOW_MS,
        model: ModelStatus {
            name: "dev".to_owned(),
            uuid: Uuid(9),
            life: Life::Alive,
            controller: "here".to_owned(),
            cloud: "local".to_owned(),
            region: "local".to_owned(),
            version: "3.6.14".to_owned(),
            status: info("available", ""),
        },
        machines: BTreeMap::from([(
            "0".to_owned(),
            MachineStatus {
                uuid: Uuid(4),
                life: Life::Alive,
                agent: info("started", ""),
                instance: info_of("running", StatusMessage::InstanceRunning),
                address: "127.0.0.1".to_owned(),
                instance_id: Some("box-0".to_owned()),
                base: base(),
                constraints: "mem=8G".parse().expect("they are constraints"),
                hardware: Some(Hardware { arch: "amd64".to_owned(), cores: 2, mem_mib: 7934 }),
            }
            .into(),
        )]),
        applications: BTreeMap::from([("ledger".to_owned(), ledger), ("auditor".to_owned(), auditor)]),
        relations: vec![
            RelationStatus {
                uuid: Uuid(5),
                number: 1,
                life: Life::Alive,
                interface: "audit".to_owned(),
                scope: Scope::Container,
                ends: vec![end("ledger", "audit", Role::Provider), end("auditor", "book", Role::Requirer)],
                status: info("joined", ""),
            },
            RelationStatus {
                uuid: Uuid(6),
                number: 0,
                life: Life::Alive,
                interface: "ring".to_owned(),
                scope: Scope::Global,
                ends: vec![end("ledger", "ring", Role::Peer)],
                status: info("joining", ""),
            },
        ],
    }
}

/// The unit of spec/clients.md 3.5.
pub fn sample_unit() -> UnitInfo {
    let bag = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    UnitInfo {
        name: UnitName::new("ledger", 0),
        uuid: Uuid(2),
        machine: "0".to_owned(),
        life: Life::Alive,
        leader: true,
        charm_url: "local:ledger-0".to_owned(),
        address: "127.0.0.1".to_owned(),
        ports: vec!["8080/tcp".parse().expect("a range")],
        workload_version: "2.1".to_owned(),
        relations: vec![UnitRelation {
            number: 1,
            endpoint: "ledger".to_owned(),
            related_endpoint: "bank".to_owned(),
            application_data: bag("greeting", "hi"),
            local_unit: MemberInfo { in_scope: true, data: bag("address", "127.0.0.1") },
            related_units: BTreeMap::from([(
                UnitName::new("teller", 0),
                MemberInfo { in_scope: true, data: bag("request", "[]") },
            )]),
        }],
    }
}

pub fn sample_config() -> ApplicationConfig {
    let setting = |kind, value: Option<serde_json::Value>, user| Setting {
        kind,
        description: "what it is for".to_owned(),
        value,
        default: None,
        user,
    };
    ApplicationConfig {
        application: "ledger".to_owned(),
        charm: "ledger".to_owned(),
        trusted: false,
        settings: BTreeMap::from([
            ("port".to_owned(), setting(OptionType::Int, Some(json!(8080)), true)),
            ("rate".to_owned(), setting(OptionType::Float, Some(json!(0.5)), false)),
            ("debug".to_owned(), setting(OptionType::Boolean, Some(json!(true)), false)),
            ("title".to_owned(), setting(OptionType::String, Some(json!("yes")), true)),
            ("unset".to_owned(), setting(OptionType::String, None, false)),
        ]),
    }
}

/// Task 7 of spec/clients.md 2.4.
pub fn sample_task() -> ActionDoc {
    ActionDoc {
        id: 7,
        operation: 7,
        unit: Uuid(70),
        unit_name: UnitName::new("ledger", 0),
        machine: None,
        name: "post".to_owned(),
        params: BTreeMap::new(),
        status: ActionStatus::Completed,
        failure: None,
        results: BTreeMap::from([
            ("balance".to_owned(), json!("30")),
            ("nested".to_owned(), json!({ "a": "1" })),
        ]),
        process: Some(ProcessResult::default()),
        log: vec![ActionLogLine { report: 1, at_ms: NOW_MS, text: "posting".to_owned() }],
        enqueued_ms: NOW_MS,
        started_ms: Some(NOW_MS),
        completed_ms: Some(NOW_MS),
    }
}

pub fn sample_disk_usage() -> DiskUsage {
    let unit = |unit: &str, runs_bytes: u64| UnitDisk {
        unit: unit.to_owned(),
        machine: "0".to_owned(),
        log_bytes: 300,
        on_machine: Some(UnitDiskUsage {
            runs_bytes,
            charm_bytes: 20 << 20,
            logs_bytes: 4096,
            state_bytes: 0,
        }),
        measured_ago_ms: Some(90_000),
    };
    let unreported = UnitDisk { unit: "web/2".to_owned(), machine: "1".to_owned(), ..UnitDisk::default() };
    let model = ModelDiskUsage {
        model: "dev".to_owned(),
        documents_bytes: 70_000,
        log_bytes: 600,
        actions_bytes: 0,
        tombstones_bytes: 200,
        units: vec![unit("web/0", 1 << 20), unit("web/1", 60 << 20), unreported],
        machines: vec![MachineDisk { machine: "1".to_owned(), quarantined_bytes: 6 << 20 }],
    };
    let archive = |sha256: &str, used_by: &[Owner]| ArchiveDiskUsage {
        sha256: sha256.repeat(64),
        charm: Some("web".to_owned()),
        bytes: 3_000_000,
        used_by: used_by
            .iter()
            .map(|owner| ArchiveUser { model: "dev".to_owned(), owner: owner.clone() })
            .collect(),
    };
    DiskUsage {
        store: StoreDiskUsage {
            database_bytes: 5 << 20,
            wal_bytes: 4 << 20,
            change_log_bytes: 2 << 20,
            global_bytes: 900,
            retired_tokens_bytes: 300,
        },
        models: vec![model],
        archives: vec![
            archive("a", &[Owner::Application("web".to_owned()), Owner::Unit(UnitName::new("web", 1))]),
            archive("b", &[]),
        ],
    }
}

/// The resources of an application: a file that is attached, and an image that is not.
pub fn sample_resources(application: String) -> ApplicationResources {
    let declared = |kind, filename: &str| Resource {
        kind,
        filename: filename.to_owned(),
        description: "of the charm".to_owned(),
    };
    let file =
        ResourceFile { sha256: "c".repeat(64), bytes: 2_500, attached_ms: NOW_MS, ..ResourceFile::default() };
    let app = ResourceInfo { declared: declared(ResourceType::File, "app.zip"), file: Some(file) };
    let image = ResourceInfo { declared: declared(ResourceType::OciImage, ""), file: None };
    let resources = BTreeMap::from([("app".to_owned(), app), ("image".to_owned(), image)]);
    ApplicationResources { application, resources }
}

pub fn sample_model() -> ModelInfo {
    ModelInfo {
        uuid: Uuid(9),
        name: "dev".to_owned(),
        life: Life::Alive,
        state: ModelState::Available,
        controller: Uuid(8),
        created_ms: NOW_MS,
        has_machines: true,
        development: false,
    }
}

/// Storage of a unit, and storage that it has left.
pub fn sample_storage() -> BTreeMap<StorageId, StorageInfo> {
    let info = |size_mib, unit: Option<&str>, location: Option<&str>, status| StorageInfo {
        kind: StorageType::Filesystem,
        pool: StoragePool::Rootfs,
        size_mib,
        persistent: true,
        life: Life::Alive,
        status,
        since_ms: NOW_MS,
        message: String::new(),
        machine: "0".to_owned(),
        unit: unit.map(|unit| unit.parse().expect("a unit")),
        location: location.map(str::to_owned),
    };
    let id = |id: &str| id.parse().expect("an id");
    BTreeMap::from([
        (id("books/0"), info(1024, Some("ledger/0"), Some("/srv/books"), StorageStatus::Attached)),
        (id("books/1"), info(512, None, None, StorageStatus::Detached)),
    ])
}

/// A secret of users and one of an application.
pub fn sample_secrets() -> BTreeMap<SecretId, SecretInfo> {
    let access = |scope| SecretAccess { reader: SecretReader::Application("web".to_owned()), scope };
    let users = SecretInfo {
        owner: None,
        label: "token".to_owned(),
        description: "of the mailer".to_owned(),
        rotate: None,
        rotate_at_ms: None,
        expire_at_ms: None,
        created_ms: 0,
        updated_ms: 60_000,
        revision: 2,
        revisions: BTreeMap::from([(1, 0), (2, 60_000)]),
        access: vec![access(SecretScope::Model(Uuid(7)))],
    };
    let charm = SecretInfo {
        owner: Some(Owner::Application("ledger".to_owned())),
        label: "login".to_owned(),
        description: String::new(),
        rotate: Some(RotatePolicy::Hourly),
        rotate_at_ms: Some(3_600_000),
        expire_at_ms: Some(7_200_000),
        revision: 1,
        revisions: BTreeMap::from([(1, 0)]),
        access: vec![access(SecretScope::Relation("ledger:db web:db".parse().expect("ends")))],
        ..users.clone()
    };
    BTreeMap::from([(SecretId::from_bits(0), users), (SecretId::from_bits(u128::MAX), charm)])
}
