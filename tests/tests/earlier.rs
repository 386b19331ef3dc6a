//! What earlier versions left on disk, or would speak, is taken up by this one (issue 4: upgrade of the programs;
//! I49). `tests/earlier/README.md` says how a sample is made.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::host::Host;

/// Samples of a whole installation, the oldest first.
fn samples() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("earlier");
    let entries = fs::read_dir(all).expect("samples are in the repository").flatten();
    let is_whole = |path: &PathBuf| path.join("store.sql").exists();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_whole).collect();
    found.sort();
    assert!(!found.is_empty(), "there is a sample");
    found
}

/// A copy as the programs keep it: nobody else may read it.
fn copy(from: &Path, to: &Path) {
    fs::DirBuilder::new().mode(0o700).create(to).expect("its parent was made");
    for entry in fs::read_dir(from).expect("a folder of the sample").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
            continue;
        }
        let program = fs::metadata(&from).expect("it is there").permissions().mode() & 0o100;
        let bytes = fs::read(&from).expect("it is there");
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600 | program).open(&to).expect("it is new");
        std::io::Write::write_all(&mut file, &bytes).expect("there is room for a test");
    }
}

/// The installation of a sample, with its database made of the statements that are kept.
fn installed(sample: &Path, dir: &Path) -> Host {
    let data = dir.canonicalize().expect("it was just made").join("data");
    copy(sample, &data);
    let statements = fs::read_to_string(data.join("store.sql")).expect("a sample has a store");
    let store = data.join("controller/store/store.sqlite");
    let database = rusqlite::Connection::open(store).expect("a new database");
    database.execute_batch(&statements).expect("they were dumped from a database");
    Host::new(&data)
}

/// 1. The machine goes down while `config-changed` runs on web/0. 2. All programs are replaced. 3. It comes up: the
///    hook that was cut off is run again, and no other but `start`, where this is another boot (spec A.5).
#[test]
fn an_installation_of_an_earlier_version_goes_on_where_it_was() {
    for sample in samples() {
        let dir = TempDir::with_prefix("pintle-test-").expect("there is room for a test");
        let host = installed(&sample, dir.path());
        let before = |unit: &str| if unit == "web/0" { 14 } else { 0 };
        host.ok(&["up"]);
        let run = |unit: &str| {
            let runs = host.runs(unit).into_iter().filter(|(number, _)| *number > before(unit));
            runs.map(|(_, operation)| operation).filter(|name| name != "hook start").collect::<Vec<_>>()
        };
        host.until_logged("done after 2 seconds");
        host.until_status("web/0", "active", "connected to 127.0.1.1");
        assert_eq!(run("web/0"), ["hook config-changed"], "{}", sample.display());

        host.ok(&["config", "web", "color=blue"]);
        for unit in ["db/0", "db/1"] {
            host.until_status(unit, "active", "web likes blue");
            assert_eq!(run(unit), ["hook db-relation-changed db:0 web/0"], "{}", sample.display());
        }
        assert_eq!(run("peer/0"), [""; 0], "{}", sample.display());
        host.until("broken/0 rests in its error", |host| {
            let unit = host.unit("broken/0")?;
            (unit["workload-status"]["message"] == "hook failed: \"install\"").then_some(())
        });
        host.ok(&["resolved", "broken/0"]);
        host.until("its hook ran again", |_| (run("broken/0") == ["hook install"]).then_some(()));
    }
}

/// Every file below a folder, with what is in it.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("it is a folder").flatten();
    let read = |path: PathBuf| match path.is_dir() {
        true => contents(&path).into_iter().collect::<Vec<_>>(),
        false => vec![(path.clone(), fs::read(&path).expect("it is there"))],
    };
    entries.flat_map(|entry| read(entry.path())).collect()
}

#[test]
fn an_agent_refuses_a_folder_that_a_newer_one_has_written_and_touches_nothing() {
    let dir = TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    let host = installed(&samples()[0], dir.path());
    let folder = host.unit_folder("db/0").expect("the sample has it");
    let state = fs::read_to_string(folder.join("state.yaml")).expect("it is there");
    let (_, body) = state.split_once('\n').expect("a checksum comes first");
    let body = body.replace("format: 1\n", "format: 99\nunheard-of: yes\n");
    let sum = &host::digest::sha256(body.as_bytes())[..16];
    fs::write(folder.join("state.yaml"), format!("# checksum {sum}\n{body}")).expect("it is the test's");
    let before = contents(&folder);
    let agent =
        Command::new(host.programs.join("pintle-agent")).args(["unit", "--dir"]).arg(&folder).output();
    let agent = agent.expect("programs were built");
    let said =
        format!("{}{}", String::from_utf8_lossy(&agent.stderr), String::from_utf8_lossy(&agent.stdout));
    assert!(
        !agent.status.success() && said.contains("was written by a newer pintle-agent (format 99"),
        "{said}"
    );
    let mut after = contents(&folder);
    // whose it is, while it looked
    after.retain(|path, _| !path.ends_with("agent.lock") && !path.ends_with("agent.pid"));
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(after == before, "its files are as they were");
}
