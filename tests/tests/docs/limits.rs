//! The bounds in docs/reference/limits.md are those of the code.
//!
//! Each row of its tables is listed here with the constants that it names and how it prints them. The constants are
//! read from the sources, so that private ones can be checked. A row that is not listed fails, and so does a constant
//! that is not found.

use std::fs;
use std::path::Path;

/// How a row prints the value of a constant.
#[derive(Clone, Copy)]
enum Print {
    /// `1,000`; small numbers may be words: `two`.
    Count,
    /// A number of bytes: `64 MiB`.
    Bytes,
    /// A time in milliseconds, or a [`std::time::Duration`]: `10 minutes`, `50 ms`, `512 s`.
    Time,
    /// A power of two: `2^20`.
    Power,
    /// A number of pages of 4 KiB, as bytes.
    Pages,
}
use Print::{Bytes, Count, Pages, Power, Time};

type Constant = (&'static str, &'static str, Print);

const TABLE: &str = "controller/src/server/connection_table.rs";
const BUDGET: &str = "controller/src/server/budget.rs";
const RATE: &str = "controller/src/server/minimum_rate.rs";
const BODY: &str = "controller/src/server/request_body.rs";
const SENDING: &str = "controller/src/server/sending.rs";
const HANDSHAKES: &str = "controller/src/server/handshake_limiter.rs";
const LIMITS: &str = "controller/src/server/connection_limits.rs";
const UPLOAD: &str = "controller/src/server/upload.rs";
const BOUNDS: &str = "state/src/agents/record_bounds.rs";
const PORTS: &str = "state/src/terms/port_range.rs";
const VALIDATION: &str = "state/src/agents/record_validation.rs";
const RESYNC: &str = "state/src/restore/resync.rs";
const SECRET: &str = "state/src/terms/secret.rs";
const STORAGE: &str = "state/src/terms/storage.rs";
const ETCD_OPEN: &str = "controller/src/store/etcd/open.rs";
const WRITER: &str = "controller/src/store/sqlite/writer.rs";
const BUNDLE: &str = "cli/src/bundle.rs";
const PARENT_WATCH: &str = "agent/src/hook_process/parent_watch.rs";
const LOG_FILE: &str = "host/src/log_file.rs";

/// The beginning of each row, and its constants. Rows without a constant state a bound that follows from others, or
/// from the host.
const ROWS: &[(&str, &[Constant])] = &[
    // Connections
    ("accepted connections that wait", &[(LIMITS, "WAITING_MAX", Count)]),
    ("of these, from one address", &[]),
    ("all connections", &[(LIMITS, "DESCRIPTORS_RESERVED", Count), (LIMITS, "CONNECTIONS_MAX", Count)]),
    (
        "connections that have not presented",
        &[
            (LIMITS, "UNAUTHENTICATED_MAX", Count),
            (TABLE, "SILENT_MS", Time),
            (TABLE, "HALF_HELLO_MS", Time),
            (TABLE, "PROGRESS_MS", Time),
            (TABLE, "UNANSWERED_MS", Time),
        ],
    ),
    ("handshakes that the server answers", &[(HANDSHAKES, "HANDSHAKES_MAX", Count)]),
    ("of these, those of one address", &[]),
    ("connections without a valid token from one address", &[]),
    ("connections of an agent", &[(LIMITS, "OF_AGENT_MAX", Count)]),
    ("connections of a user", &[(LIMITS, "OF_USER_MAX", Count)]),
    ("connections of all unit agents", &[]),
    // Uploads of charms
    ("an archive", &[("api/src/archives.rs", "ARCHIVE_BYTES_MAX", Bytes)]),
    ("the file of a resource", &[("api/src/archives.rs", "ARCHIVE_BYTES_MAX", Bytes)]),
    (
        "what git describes a charm folder by",
        &[
            ("charms/src/git_version.rs", "VERSION_BYTES_MAX", Bytes),
            ("charms/src/git_version.rs", "GIT_TIMEOUT", Time),
        ],
    ),
    ("resources of one request", &[("state/src/lifecycle/resource.rs", "RESOURCES_PER_REQUEST_MAX", Count)]),
    ("uploads of one user", &[(UPLOAD, "UPLOADS_PER_USER_MAX", Count), (BUDGET, "WAIT_MAX", Time)]),
    ("uploads of all users", &[(UPLOAD, "UPLOADS_MAX", Count)]),
    ("the rate of an upload", &[("api/src/lib.rs", "TRANSFER_RATE_MIN", Bytes), (RATE, "LATE_MAX", Time)]),
    ("the time for which the controller waits", &[(RATE, "TRANSFER_TIMEOUT", Time)]),
    // Other requests
    (
        "the body of a request that is no upload",
        &[(BODY, "BODY_BYTES_MAX", Bytes), (BODY, "RECORD_BYTES_MAX", Bytes)],
    ),
    ("the rate of such a body", &[]),
    (
        "bodies of one caller",
        &[
            (BODY, "BODIES_OF_UNIT_MAX", Bytes),
            (BODY, "BODIES_OF_MACHINE_MAX", Bytes),
            (BODY, "BODIES_OF_USER_MAX", Bytes),
            (BODY, "SMALL_BYTES_MAX", Bytes),
            (BUDGET, "WAIT_MAX", Time),
        ],
    ),
    (
        "bodies of all callers",
        &[
            (BODY, "BODIES_OF_UNITS_MAX", Bytes),
            (BODY, "BODIES_OF_MACHINES_MAX", Bytes),
            (BODY, "BODIES_OF_USERS_MAX", Bytes),
        ],
    ),
    // A store in etcd
    ("comparisons or operations of one transaction", &[(ETCD_OPEN, "TXN_OPS", Count)]),
    ("the prefix of the keys", &[(ETCD_OPEN, "PREFIX_MAX", Count)]),
    ("a connection to a member", &[("controller/src/store/etcd/client.rs", "CONNECT_TIMEOUT", Time)]),
    ("an answer of etcd", &[("controller/src/store/etcd/client.rs", "CALL_TIMEOUT", Time)]),
    (
        "the time until the outcome of a change is known",
        &[("controller/src/store/etcd/commit.rs", "OUTCOME_TIMEOUT", Time)],
    ),
    (
        "repetitions of a change after conflicts",
        &[("controller/src/store/etcd/commit.rs", "RETRIES_MAX", Count)],
    ),
    (
        "the delay of the watch",
        &[
            ("controller/src/store/etcd/shared.rs", "WATCH_TIMEOUT", Time),
            ("controller/src/store/etcd/shared.rs", "NEXT_WATCH_TIMEOUT", Time),
        ],
    ),
    ("fences of controllers that have ended", &[(ETCD_OPEN, "FENCES_MAX", Count)]),
    ("one chunk of a charm archive", &[("controller/src/store/etcd/files.rs", "CHUNK_BYTES", Bytes)]),
    (
        "uploads of a file that a janitor deletes",
        &[("controller/src/store/etcd/files.rs", "ATTEMPTS_MAX", Count)],
    ),
    ("files in `controller/archives/`", &[("controller/src/shared_files.rs", "CACHE_BYTES_MAX", Bytes)]),
    (
        "reads of the lease of a leader",
        &[("controller/src/store/etcd/leader_leases.rs", "ATTEMPTS_MAX", Count)],
    ),
    ("leases of leaders", &[("controller/src/store/etcd/leader_leases.rs", "TAKEN_AT_ONCE", Count)]),
    (
        "statements about agents",
        &[
            ("controller/src/store/etcd/statements.rs", "CHANGES_PER_TRANSACTION", Count),
            ("controller/src/store/etcd/statements.rs", "BYTES_PER_TRANSACTION", Bytes),
        ],
    ),
    ("attempts to state the boot", &[("controller/src/store/etcd/statements.rs", "ATTEMPTS_MAX", Count)]),
    ("the start of the etcd of", &[("cli/src/supervisor/local_etcd.rs", "START_TIMEOUT", Time)]),
    (
        "the start of the second controller",
        &[("cli/src/supervisor/second_controller.rs", "START_TIMEOUT", Time)],
    ),
    (
        "one batch of a migration",
        &[
            ("controller/src/migrate.rs", "BATCH_DOCUMENTS", Count),
            ("controller/src/migrate.rs", "BATCH_BYTES", Bytes),
        ],
    ),
    // Responses
    ("files that are sent to one agent", &[(SENDING, "OF_AGENT_MAX", Count), (BUDGET, "WAIT_MAX", Time)]),
    (
        "large responses to one caller",
        &[
            (SENDING, "OF_AGENT_BYTES_MAX", Bytes),
            (SENDING, "OF_USER_BYTES_MAX", Bytes),
            ("controller/src/archive_file.rs", "PIECE_BYTES", Bytes),
            (BUDGET, "WAIT_MAX", Time),
        ],
    ),
    (
        "large responses to all callers",
        &[
            (SENDING, "OF_UNITS_BYTES_MAX", Bytes),
            (SENDING, "OF_MACHINES_BYTES_MAX", Bytes),
            (SENDING, "OF_USERS_BYTES_MAX", Bytes),
        ],
    ),
    ("the rate of a file", &[]),
    // A host with many units
    ("open files of a process", &[]),
    ("open files of the host", &[]),
    ("processes", &[]),
    ("inotify instances and watches", &[("agent/src/file_watch.rs", "POLL", Time)]),
    ("size of one file", &[]),
    ("disk space, inodes, quota", &[("host/src/disk.rs", "FREE_BYTES_MIN", Bytes)]),
    ("memory", &[]),
    ("local ports", &[]),
    ("open files of one process", &[]),
    ("inotify instances of the user", &[]),
    ("inotify watches of the user", &[]),
    ("connections to the controller", &[]),
    ("tool sockets", &[]),
    // Warm parents
    ("the time for which a warm parent", &[(PARENT_WATCH, "IDLE_TIMEOUT", Time)]),
    ("the import of the modules", &[(PARENT_WATCH, "IMPORT_TIMEOUT", Time)]),
    ("the time from a fork", &[("agent/src/hook_process/hand_off.rs", "HAND_OFF_TIMEOUT", Time)]),
    (
        "the available memory of the host",
        &[
            ("state/src/unit/parent_memory.rs", "AVAILABLE_PERCENT_MIN", Count),
            ("agent/src/hook_process/memory_guard.rs", "MEMORY_INTERVAL", Time),
        ],
    ),
    ("warm parents of a machine", &[("agent/src/hook_process/memory_guard.rs", "PARENTS_MAX", Count)]),
    ("an answer of a warm parent", &[("agent/src/hook_process/warm_parent.rs", "ANSWER_TIMEOUT", Time)]),
    ("warm parents in a row", &[("agent/src/hook_process/warm_dispatch.rs", "STALE_MAX", Count)]),
    (
        "a dispatch script that may have",
        &[("agent/src/hook_process/warm_dispatch.rs", "SCRIPT_BYTES_MAX", Bytes)],
    ),
    // Names, settings and requests of users
    ("the name of a new application", &[("state/src/terms/names.rs", "NAME_LENGTH_MAX", Count)]),
    (
        "units or machines that one request adds",
        &[("state/src/lifecycle/creation.rs", "ADDED_PER_REQUEST_MAX", Count)],
    ),
    ("units of one application of a bundle", &[(BUNDLE, "UNITS_MAX", Count)]),
    ("relations of a bundle", &[(BUNDLE, "RELATIONS_MAX", Count)]),
    ("a file that a bundle includes", &[(BUNDLE, "INCLUDED_BYTES_MAX", Bytes)]),
    ("removals of one dry run", &[("state/src/transitions/dry_run.rs", "TARGETS_MAX", Count)]),
    (
        "filters of one `debug-log`",
        &[("api/src/log.rs", "LOG_FILTERS_MAX", Count), ("api/src/log.rs", "LOG_FILTER_BYTES_MAX", Count)],
    ),
    ("a duration", &[("state/src/lifecycle/model.rs", "INTERVAL_MS_MAX", Time)]),
    ("the value of a model setting", &[("state/src/lifecycle/model.rs", "SETTING_BYTES_MAX", Bytes)]),
    (
        "the ssh keys of a model",
        &[
            ("state/src/lifecycle/ssh_keys.rs", "SSH_KEYS_MAX", Count),
            ("state/src/terms/ssh_key.rs", "SSH_KEY_BYTES_MAX", Bytes),
        ],
    ),
    (
        "the leader settings of an application",
        &[("state/src/terms/leader_settings.rs", "LEADER_SETTINGS_BYTES_MAX", Bytes)],
    ),
    ("the values of a revision of a secret", &[(SECRET, "VALUES_BYTES_MAX", Bytes)]),
    ("secrets of one unit, one application, or the users of a model", &[(SECRET, "SECRETS_MAX", Count)]),
    ("the encrypted contents of all secrets of one unit", &[(SECRET, "OWNED_BYTES_MAX", Bytes)]),
    ("revisions of one secret", &[(SECRET, "REVISIONS_MAX", Count)]),
    ("grants of one secret", &[(SECRET, "GRANTS_MAX", Count)]),
    ("secrets that one unit reads", &[(SECRET, "CONSUMED_MAX", Count)]),
    (
        "the changes of one hook",
        &[
            ("state/src/unit/writes.rs", "HOOK_DOCUMENTS_MAX", Count),
            ("state/src/unit/writes.rs", "LARGE_HOOK_WRITES_BYTES_MAX", Bytes),
            ("state/src/unit/writes.rs", "HOOK_WRITES_BYTES_MAX", Bytes),
            ("state/src/unit/writes.rs", "LARGE_HOOK_SENT_BYTES_MAX", Bytes),
        ],
    ),
    (
        "the same, if the models are",
        &[
            ("state/src/unit/writes.rs", "HOOK_WRITES_BYTES_MAX", Bytes),
            ("state/src/unit/writes.rs", "HOOK_SENT_BYTES_MAX", Bytes),
        ],
    ),
    ("the settings of a unit or an application", &[("state/src/terms/settings.rs", "BAG_BYTES_MAX", Bytes)]),
    ("the name of a charm, and of a relation", &[("state/src/charm.rs", "DECLARED_NAME_BYTES_MAX", Count)]),
    ("the relations that a charm declares", &[("state/src/charm.rs", "ENDPOINTS_MAX", Count)]),
    ("the port ranges that a unit opens", &[(PORTS, "PORT_RANGES_MAX", Count)]),
    ("the parameters of an action", &[("state/src/unit/writes.rs", "PARAMS_BYTES_MAX", Bytes)]),
    ("the label or name of a secret", &[(SECRET, "LABEL_BYTES_MAX", Bytes)]),
    ("the description of a secret", &[(SECRET, "DESCRIPTION_BYTES_MAX", Bytes)]),
    ("instances of storage of one unit", &[(STORAGE, "STORAGE_OF_UNIT_MAX", Count)]),
    ("instances of storage of one machine", &[(STORAGE, "STORAGE_OF_MACHINE_MAX", Count)]),
    ("the location of storage", &[(STORAGE, "LOCATION_BYTES_MAX", Bytes)]),
    ("the error of storage", &[(STORAGE, "ERROR_BYTES_MAX", Bytes)]),
    (
        "the time of a program of the host",
        &[("host/src/program.rs", "QUICK", Time), ("host/src/program.rs", "COPY", Time)],
    ),
    ("the time in which `tar` or `debootstrap`", &[("host/src/program.rs", "COPY", Time)]),
    ("a setting of an application", &[]),
    ("a field of a user's request", &[]),
    // What an agent may send
    ("any number", &[(VALIDATION, "NUMBER_MAX", Power)]),
    ("the number of a run", &[(VALIDATION, "RUNS_AHEAD_MAX", Power)]),
    ("the resyncs of a unit with one store generation", &[(RESYNC, "RESYNC_INTERVAL_MS", Time)]),
    ("the numbers of a resync record", &[(VALIDATION, "RESYNC_AHEAD_MAX", Count)]),
    ("the number of an action", &[(VALIDATION, "ACTIONS_LOST_MAX", Power)]),
    ("the number of a session", &[(VALIDATION, "SESSIONS_LOST_MAX", Power)]),
    ("the maps and lists in one request", &[("controller/src/request_dispatch.rs", "CONTAINERS_MAX", Count)]),
    (
        "the outcome of an operation",
        &[(BOUNDS, "OUTCOME_BYTES_MAX", Bytes), (BOUNDS, "OUTCOME_DEPTH_MAX", Count)],
    ),
    ("the failure of the current operation", &[(BOUNDS, "OUTCOME_DEPTH_MAX", Count)]),
    ("a name, a digest or a boot id", &[(BOUNDS, "IDENTIFIER_BYTES_MAX", Count)]),
    ("the endpoints of a charm", &[("state/src/charm.rs", "ENDPOINTS_MAX", Count)]),
    ("the port ranges of a unit", &[(PORTS, "PORT_RANGES_MAX", Count)]),
    ("the hooks that are skipped", &[(BOUNDS, "SKIPPED_MAX", Count)]),
    ("the storage of a unit", &[]),
    ("the settings of a unit in one relation", &[]),
    ("a line or a status message", &[(BOUNDS, "REPORT_BYTES_MAX", Bytes)]),
    ("a workload status", &[]),
    // Disk use
    (
        "the statuses that a unit, an application or a machine has had",
        &[
            ("state/src/documents/status.rs", "STATUS_CHANGES_MAX", Count),
            ("state/src/documents/status.rs", "STATUS_CHANGE_MESSAGE_BYTES_MAX", Bytes),
        ],
    ),
    (
        "constraints of an application or a model",
        &[("state/src/terms/constraints.rs", "CONSTRAINTS_BYTES_MAX", Bytes)],
    ),
    (
        "the change log",
        &[
            ("controller/src/store/mod.rs", "CHANGES_KEPT", Count),
            ("controller/src/store/mod.rs", "CHANGES_BYTES_MAX", Bytes),
        ],
    ),
    (
        "free pages in",
        &[
            (WRITER, "FREE_PAGES_KEPT", Pages),
            (WRITER, "COMMITS_PER_VACUUM", Count),
            (WRITER, "PAGES_PER_VACUUM", Pages),
        ],
    ),
    ("`store.sqlite-wal`", &[]),
    ("the debug log of a model", &[("state/src/transitions/log_retention.rs", "DEBUG_LOG_BYTES_MAX", Bytes)]),
    ("lines of one unit until", &[("controller/src/debug_log_growth.rs", "UNIT_GROWTH_MAX", Bytes)]),
    (
        "lines that are logged while",
        &[
            ("controller/src/debug_log_growth.rs", "GROWTH_MAX", Bytes),
            ("controller/src/janitor.rs", "SWEEP_INTERVAL_MS", Time),
        ],
    ),
    (
        "completed actions",
        &[
            ("controller/src/janitor.rs", "ACTIONS_MAX", Count),
            ("controller/src/janitor.rs", "ACTIONS_BYTES_MAX", Bytes),
        ],
    ),
    ("unfinished actions", &[("state/src/lifecycle/action.rs", "ENQUEUED_MAX", Count)]),
    (
        "charm archives and files of resources",
        &[
            ("state/src/terms/unit_documents.rs", "PREVIOUS_ARCHIVES_MAX", Count),
            ("state/src/terms/resource.rs", "PREVIOUS_FILES_MAX", Count),
            ("controller/src/janitor/archives.rs", "ARCHIVE_GRACE_MS", Time),
        ],
    ),
    ("tombstones of a model", &[("state/src/transitions/tombstone_retention.rs", "TOMBSTONES_MAX", Count)]),
    ("tombstones that are evidence", &[]),
    ("tokens of machines", &[("state/src/documents/token.rs", "RETIRED_TOKENS_MAX", Count)]),
    ("counters of unit numbers", &[]),
    ("documents that are damaged", &[]),
    ("backups", &[]),
    (
        "`controller.log`",
        &[(LOG_FILE, "LOG_FILE_BYTES_MAX", Bytes), (LOG_FILE, "UNROTATED_BYTES_MAX", Bytes)],
    ),
    ("`etcd.log`", &[(LOG_FILE, "LOG_FILE_BYTES_MAX", Bytes)]),
    (
        "run folders of a unit",
        &[
            ("state/src/unit/run_retention.rs", "RUNS_KEPT", Count),
            ("state/src/unit/run_retention.rs", "RUN_BYTES_MAX", Bytes),
        ],
    ),
    (
        "tool calls of one run",
        &[
            ("agent/src/hook_session/calls_file.rs", "CALLS_BYTES_MAX", Bytes),
            ("agent/src/hook_session/calls_file.rs", "CALLS_WITH_EFFECT_BYTES_MAX", Bytes),
        ],
    ),
    ("files of resources of a unit", &[("api/src/archives.rs", "ARCHIVE_BYTES_MAX", Bytes)]),
    (
        "output of one run",
        &[
            ("hooks-tools/client/src/shim.rs", "OUTPUT_BYTES_MAX", Bytes),
            ("hooks-tools/client/src/shim.rs", "OUTPUT_TAIL_BYTES_MAX", Bytes),
        ],
    ),
    (
        "what a process prints that outlives its hook",
        &[("hooks-tools/client/src/bin/pintle-hook/shim.rs", "DISCARDED_BYTES_MAX", Bytes)],
    ),
    ("lines of it in the debug log", &[("agent/src/hook_process/printed.rs", "OUTPUT_LINES_MAX", Count)]),
    (
        "both streams of a task in its result",
        &[
            ("state/src/unit/writes.rs", "HOOK_WRITES_BYTES_MAX", Bytes),
            ("state/src/unit/writes.rs", "OUTPUT_BYTES_MIN", Bytes),
        ],
    ),
    ("a line of `juju-log`", &[("state/src/unit/writes.rs", "TEXT_BYTES_MAX", Bytes)]),
    ("lines of it that `pintle dev` shows", &[("agent/src/follow_runs.rs", "OUTPUT_LINES_MAX", Count)]),
    (
        "what `show-run` prints",
        &[
            ("agent/src/recorded_runs/page.rs", "VALUE_CHARS_MAX", Count),
            ("agent/src/recorded_runs/page.rs", "SECTION_LINES_MAX", Count),
            ("agent/src/recorded_runs/show.rs", "OUTPUT_LINES_MAX", Count),
        ],
    ),
    ("a replayed run", &[("agent/src/recorded_runs/replay.rs", "REPLAY_TIMEOUT", Time)]),
    ("`journal.yaml`", &[("agent/src/folder_port.rs", "JOURNAL_BYTES_MAX", Bytes)]),
    ("`context.yaml` of a run", &[("agent/src/hook_process/run_files.rs", "CONTEXT_BYTES_MAX", Bytes)]),
    ("`state.yaml`, `journal.yaml`", &[("agent/src/folder.rs", "FILE_BYTES_MAX", Bytes)]),
    ("`provided.yaml`", &[("agent/src/provided_storage.rs", "FILE_BYTES_MAX", Bytes)]),
    ("entries of a unit's folder", &[("agent/src/observation.rs", "ENTRIES_MAX", Count)]),
    ("`view/` of a unit", &[("state/src/views/inline_settings.rs", "INLINE_BYTES_MAX", Bytes)]),
    ("`charm/` of a unit", &[]),
    ("damaged files that were set aside", &[("agent/src/folder_port.rs", "SET_ASIDE_KEPT", Count)]),
    ("folders of units without a record", &[("agent/src/deployer.rs", "QUARANTINED_MAX", Count)]),
    ("`agent.log`, `machine.log`", &[(LOG_FILE, "LOG_FILE_BYTES_MAX", Bytes)]),
    ("`console.log`", &[(LOG_FILE, "LOG_FILE_BYTES_MAX", Bytes)]),
    (
        "installed Python packages",
        &[
            ("charms/src/package_cache.rs", "SETS_MAX", Count),
            ("charms/src/package_cache.rs", "WHEELS_BYTES_MAX", Bytes),
            ("charms/src/package_cache.rs", "IN_USE", Time),
        ],
    ),
];

/// A row of the tables: its first cell, and all of its cells.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_head = |n: usize| lines.get(n + 1).is_some_and(|next| next.starts_with("|---"));
    let cells = |(n, line): (usize, &&'_ str)| -> Option<(usize, usize)> {
        let is_row = line.starts_with("| ") && !line.starts_with("| **") && !is_head(n);
        is_row.then(|| (n, line[2..].find('|').unwrap_or(0) + 2))
    };
    let found = lines.iter().enumerate().filter_map(cells);
    found.map(|(n, end)| (lines[n][2..end].trim(), lines[n])).collect()
}

/// The value of a constant in a source file; of a time in milliseconds.
fn value(root: &Path, file: &str, name: &str) -> Option<u128> {
    let text = fs::read_to_string(root.join(file)).ok()?;
    let start = text.find(&format!("const {name}: "))?;
    let (_, expression) = text[start..].split_once('=')?;
    let (expression, _) = expression.split_once(';')?;
    evaluate(root, file, expression.trim())
}

/// Evaluates differences, products and shifts of literals and of constants in the same file or named with `use`.
fn evaluate(root: &Path, file: &str, expression: &str) -> Option<u128> {
    let of = |part: &str| evaluate(root, file, part.trim());
    let seconds = expression.strip_prefix("Duration::from_secs(").and_then(|rest| rest.strip_suffix(')'));
    let millis = expression.strip_prefix("Duration::from_millis(").and_then(|rest| rest.strip_suffix(')'));
    if let Some(seconds) = seconds {
        return Some(of(seconds)? * 1_000);
    }
    if let Some(millis) = millis {
        return of(millis);
    }
    if let Some((left, right)) = expression.rsplit_once(" - ") {
        return Some(of(left)? - of(right)?);
    }
    if let Some(inner) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return of(inner);
    }
    if let Some((left, right)) = expression.split_once(" * (") {
        return Some(of(left)? * of(right.strip_suffix(')')?)?);
    }
    if let Some((left, right)) = expression.split_once("<<") {
        return Some(of(left)? << of(right)?);
    }
    if let Some((left, right)) = expression.split_once('*') {
        return Some(of(left)? * of(right)?);
    }
    match expression.replace('_', "").parse() {
        Ok(number) => Some(number),
        // such as REPORT_BYTES_MAX, twice a constant of another file
        Err(_) if expression == "TEXT_BYTES_MAX" => value(root, "state/src/unit/writes.rs", expression),
        Err(_) => value(root, file, expression),
    }
}

/// A number with and without separators.
fn grouped(value: u128) -> Vec<String> {
    let digits = value.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits"));
    let grouped = groups.collect::<Vec<_>>().join(",");
    Some(grouped).filter(|text| *text != digits).into_iter().chain([digits.clone()]).collect()
}

/// The texts with which a row may print a value.
fn texts(value: u128, print: Print) -> Vec<String> {
    let bytes = |bytes: u128| {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")];
        let (unit, name) =
            units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).expect("one is the smallest");
        grouped(bytes / unit).into_iter().map(|number| format!("{number} {name}")).collect()
    };
    match print {
        Count => {
            let words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];
            let word = usize::try_from(value).ok().and_then(|value| words.get(value));
            grouped(value).into_iter().chain(word.map(|word| (*word).to_owned())).collect()
        }
        Bytes => bytes(value),
        Pages => bytes(value * 4_096),
        Power => {
            vec![format!("2^{}", value.ilog2())].into_iter().filter(|_| value.is_power_of_two()).collect()
        }
        Time => {
            let units = [(3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond")];
            let short = [(3_600_000, "h"), (1_000, " s"), (1, " ms")];
            let long = units.iter().filter(|(ms, _)| value.is_multiple_of(*ms)).flat_map(|(ms, unit)| {
                match value / ms {
                    1 => vec![format!("a {unit}"), format!("an {unit}"), format!("last {unit}")],
                    n => vec![format!("{n} {unit}s")],
                }
            });
            let short = short
                .iter()
                .filter(|(ms, _)| value.is_multiple_of(*ms))
                .map(|(ms, unit)| format!("{}{unit}", value / ms));
            long.chain(short).collect()
        }
    }
}

/// Whether a text occurs in a line as whole words.
fn contains(line: &str, text: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '^');
    line.match_indices(text).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + text.len()..]);
        let goes_on = after.starts_with([',', '.']) && after[1..].starts_with(|c: char| c.is_ascii_digit());
        !is_part(before.chars().last())
            && !before.ends_with([',', '.'])
            && !is_part(after.chars().next())
            && !goes_on
    })
}

#[test]
fn each_bound_of_the_page_is_that_of_the_code() {
    let root = super::root();
    let text = fs::read_to_string(root.join("docs/reference/limits.md")).expect("the page exists");
    let (mut wrong, mut used) = (Vec::new(), vec![false; ROWS.len()]);
    for (name, line) in rows(&text) {
        // the longest, because one beginning may be a prefix of another
        let listed = ROWS.iter().enumerate().filter(|(_, (begin, _))| name.starts_with(begin));
        let Some((n, (_, constants))) = listed.max_by_key(|(_, (begin, _))| begin.len()) else {
            wrong.push(format!("{name}: the row is not listed in tests/tests/docs/limits.rs"));
            continue;
        };
        used[n] = true;
        for (file, constant, print) in *constants {
            match value(&root, file, constant).map(|value| texts(value, *print)) {
                Some(texts) if texts.iter().any(|text| contains(line, text)) => {}
                Some(texts) => {
                    wrong.push(format!("{name}: does not name {constant}, which is {}", texts.join(" or ")))
                }
                None => wrong.push(format!("{name}: {constant} is not found in {file}")),
            }
        }
    }
    let unused = ROWS
        .iter()
        .zip(&used)
        .filter(|(_, used)| !**used)
        .map(|((begin, _), _)| format!("no row begins with {begin:?}"));
    wrong.extend(unused);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_bound_is_found() {
    assert_eq!(texts(8 << 20, Bytes), ["8 MiB"]);
    assert_eq!(texts(8_192, Count), ["8,192", "8192"]);
    assert!(
        contains("| at most 8192 |", "8192")
            && !contains("| 18192 |", "8192")
            && !contains("| 1,000,000 |", "1,000")
    );
    assert_eq!(rows("| what | bound |\n|---|---|\n| a | 1 |\n| **On** | |\n"), [("a", "| a | 1 |")]);
    assert!(texts(600_000, Time).contains(&"10 minutes".to_owned()));
}
