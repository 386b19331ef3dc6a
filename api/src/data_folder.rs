//! The names in a data folder by which `pintle up` and `pintle-controller` recognise it: neither starts in a folder of
//! something else.
//!
//! Both look for them with `host::foreign_files`. The names in the folder of a machine are in `machine_folder`.

/// A folder that has one of these files is a data folder. Copies and restored backups have them as well.
pub const MARKS: &[&str] = &[
    "client.yaml",
    "up.yaml",
    "supervisor.pid",
    "controller/identity.yaml",
    "controller/store/store.sqlite",
    "controller/store/generation.yaml",
    "controller/store/etcd.yaml",
];

/// The file that `pintle-controller add-controller` writes: the machines of the system run on the hosts of other data folders.
/// `pintle up` would start them again here, and the agents there would be refused.
pub const FURTHER_CONTROLLER: &str = "controller/further-controller";

/// The first word in the lock of a store's folder while a migration holds it, before its process id. A controller and a
/// migration hold the same lock; commands that stop a controller must not stop a migration.
pub const MIGRATION_LOCK: &str = "migration";

/// What is created before the first of the [`MARKS`], so that a start which was interrupted can be repeated; and the file
/// of the log level, which a person may create before the first start. Folders end with a slash.
pub const CREATED_FIRST: &[&str] = &[
    "identity.yaml",
    "log/",
    "log/supervisor.log",
    "log/controller.log",
    "machines/",
    "controller/",
    "controller/log-level",
    "controller/store/",
    "controller/archives/",
];
