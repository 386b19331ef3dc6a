//! Tests of `install`: revisions, files of the charm's own, and a crash at every step.

use super::*;
use crate::archive::pack;
use crate::folder::{CharmFileList, FileEntry};
use std::collections::BTreeMap;
use tempfile::TempDir;

fn files(members: &[(&str, &str)]) -> CharmFileList {
    members.iter().map(|(path, text)| (path.to_string(), FileEntry::from_bytes(*text, false))).collect()
}

struct Revision {
    archive: Vec<u8>,
    sha256: String,
    number: u32,
}

fn revision(number: u32, members: &[(&str, &str)]) -> Revision {
    let archive = pack(&files(members)).expect("packs");
    Revision { sha256: digest::sha256(&archive), archive, number }
}

impl Revision {
    fn install(&self, charm: &Path) -> Result<Installed, InstallError> {
        install(&self.archive, &self.sha256, charm, self.number)
    }
}

/// The content of every file below `root`, by path.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below").display().to_string();
                found.insert(name, fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    found
}

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root)
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().display().to_string())
        .collect();
    names.sort();
    names
}

const ONE: &[(&str, &str)] = &[("hooks/install", "one"), ("metadata.yaml", "name: a"), ("old/only", "x")];
const TWO: &[(&str, &str)] = &[("hooks/install", "two"), ("metadata.yaml", "name: a"), ("data/new", "y")];

#[test]
fn the_first_revision_is_installed_with_its_number() {
    let unit = TempDir::new().expect("tempdir");
    let charm = unit.path().join("charm");
    let one = revision(1, ONE);
    assert!(one.install(&charm).expect("installs").was_swapped);
    let tree = tree(&charm);
    assert_eq!(tree["hooks/install"], "one");
    assert_eq!(tree["revision"], "1\n");
    assert_eq!(verify(&charm), Some(Vec::new()));
    assert_eq!(one.install(&charm).expect("again"), Installed::default());
    let manifest = format!("charm.manifest-{}", &one.sha256[..16]);
    assert_eq!(names(unit.path()), ["charm".to_owned(), manifest]);
}

/// Others may not write in a charm, and its owner may always read it. What the agent starts can be executed by all.
#[test]
fn files_keep_the_permissions_of_the_archive() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, mode) in [("key", 0o600), ("open", 0o666), ("none", 0o040), ("run", 0o700), ("hooks/a", 0o600)]
    {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(mode);
        zip.start_file(path, options).expect("a new file");
    }
    let archive = zip.finish().expect("it is written").into_inner();
    let unit = TempDir::new().expect("tempdir");
    let charm = unit.path().join("charm");
    crate::unpack::unpack(&archive, &host::digest::sha256(&archive), &charm).expect("it is safe");
    let modes = ["key", "open", "none", "run", "hooks/a"]
        .map(|path| fs::metadata(charm.join(path)).expect("the file exists").permissions().mode() & 0o777);
    assert_eq!(modes, [0o600, 0o644, 0o640, 0o700, 0o755]);
}

/// The umask of agents is 077; it belongs to the whole process, so this test runs in one of its own.
#[test]
fn other_users_may_read_the_charm_whatever_the_umask_is() {
    const CHILD: &str = "PINTLE_TEST_UMASK";
    if std::env::var_os(CHILD).is_none() {
        let name = "install::tests::other_users_may_read_the_charm_whatever_the_umask_is";
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
        let ended = child.args(["--exact", name]).env(CHILD, "1").status().expect("it starts");
        assert!(ended.success());
        return;
    }
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let unit = TempDir::new().expect("tempdir");
    let charm = unit.path().join("charm");
    revision(1, ONE).install(&charm).expect("installs");
    for (path, mode) in [("", 0o755), ("hooks", 0o755), ("hooks/install", 0o755), ("metadata.yaml", 0o644)]
        .into_iter()
        .chain([("old", 0o755), ("revision", 0o644), (".juju-charm", 0o644)])
    {
        let found = fs::metadata(charm.join(path)).expect("the file exists").permissions().mode() & 0o777;
        assert_eq!(found, mode, "{path}: {found:o}");
    }
}

#[test]
fn files_the_charm_wrote_are_kept_and_files_of_the_old_revision_are_removed() {
    let unit = TempDir::new().expect("tempdir");
    let charm = unit.path().join("charm");
    revision(1, ONE).install(&charm).expect("installs");
    fs::write(charm.join(".unit-state.db"), "state").expect("write");
    fs::create_dir_all(charm.join("own/deep")).expect("mkdir");
    fs::write(charm.join("own/deep/file"), "mine").expect("write");
    fs::write(charm.join("old/mine"), "kept").expect("write");
    fs::create_dir(charm.join("__pycache__")).expect("mkdir");
    fs::write(charm.join("__pycache__/x.pyc"), "stale").expect("write");
    std::os::unix::fs::symlink("/nowhere", charm.join("link")).expect("link");
    let installed = revision(2, TWO).install(&charm).expect("upgrades");
    assert_eq!(installed, Installed { was_swapped: true, renamed_files: Vec::new() });
    let tree = tree(&charm);
    assert_eq!(tree["hooks/install"], "two");
    assert_eq!(tree["revision"], "2\n");
    assert_eq!(tree[".unit-state.db"], "state");
    assert_eq!(tree["own/deep/file"], "mine");
    assert_eq!(tree["old/mine"], "kept");
    assert!(!tree.contains_key("old/only") && !tree.contains_key("__pycache__/x.pyc"), "{tree:?}");
    assert_eq!(fs::read_link(charm.join("link")).expect("carried"), PathBuf::from("/nowhere"));
    assert_eq!(verify(&charm), Some(Vec::new()));
}

#[test]
fn an_own_file_in_the_way_gets_another_name() {
    let unit = TempDir::new().expect("tempdir");
    let charm = unit.path().join("charm");
    revision(1, ONE).install(&charm).expect("installs");
    // The new revision contains data/new, and the charm itself wrote a file where that needs a folder.
    fs::write(charm.join("data"), "mine").expect("write");
    let installed = revision(2, TWO).install(&charm).expect("upgrades");
    assert_eq!(installed.renamed_files, ["data"]);
    assert_eq!(tree(&charm)["data.juju-orig"], "mine");
    assert_eq!(tree(&charm)["data/new"], "y");
    fs::create_dir(charm.join("old")).expect("mkdir");
    fs::write(charm.join("old/only"), "mine").expect("write");
    let installed = revision(3, ONE).install(&charm).expect("downgrades");
    assert_eq!(installed.renamed_files, ["old/only"]);
    assert_eq!((&*tree(&charm)["old/only"], &*tree(&charm)["old/only.juju-orig"]), ("x", "mine"));
}

/// Invariant I50: after a crash at any point the folder is one complete revision, and the next call finishes.
#[test]
fn after_a_crash_at_any_point_one_complete_revision_is_installed() {
    use CrashPoint::*;
    for first in [true, false] {
        for crash in [Unpacked, ManifestWritten, CarriedOver, Synced, Swapped, OldRemoved] {
            let unit = TempDir::new().expect("tempdir");
            let charm = unit.path().join("charm");
            let (one, two) = (revision(1, ONE), revision(2, TWO));
            if !first {
                one.install(&charm).expect("installs");
                fs::write(charm.join(".unit-state.db"), "state").expect("write");
            }
            let mut crash_at = |step| {
                if step == crash { Err(io::Error::other("crash")) } else { Ok(()) }
            };
            let result = install_until(&two.archive, &two.sha256, &charm, 2, &mut crash_at);
            assert!(result.is_err(), "{crash:?}");
            let swapped = matches!(crash, Swapped | OldRemoved);
            match (first, swapped) {
                (true, false) => assert!(!charm.exists(), "{crash:?}"),
                (false, false) => {
                    assert_eq!(verify(&charm), Some(Vec::new()), "{crash:?}");
                    assert_eq!(tree(&charm)["hooks/install"], "one");
                }
                (_, true) => {
                    assert_eq!(verify(&charm), Some(Vec::new()), "{crash:?}");
                    assert_eq!(tree(&charm)["hooks/install"], "two");
                }
            }
            two.install(&charm).expect("finishes");
            assert_eq!(verify(&charm), Some(Vec::new()), "{crash:?}");
            assert_eq!(tree(&charm)["revision"], "2\n");
            assert_eq!(tree(&charm).contains_key(".unit-state.db"), !first, "{crash:?}");
            assert_eq!(names(unit.path()).len(), 2, "{crash:?}: {:?}", names(unit.path()));
        }
    }
}

#[test]
fn a_failed_installation_leaves_the_old_revision_unchanged() {
    let unit = TempDir::new().expect("tempdir");
    let charm = unit.path().join("charm");
    revision(1, ONE).install(&charm).expect("installs");
    let before = names(unit.path());
    let two = revision(2, TWO);
    for damaged in
        [&two.archive[1..], &two.archive[..two.archive.len() - 1], b"", &[&*two.archive, b"x"].concat()]
    {
        let refused = install(damaged, &two.sha256, &charm, 2).expect_err("another digest");
        assert!(refused.to_string().contains(&two.sha256), "{refused}");
    }
    // A name that cannot be carried over fails the installation after unpacking.
    let not_utf8: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    fs::write(charm.join(not_utf8), "mine").expect("write");
    let refused = two.install(&charm).expect_err("cannot be carried over");
    assert!(refused.to_string().contains("rename it"), "{refused}");
    assert_eq!(names(unit.path()), before);
    assert_eq!(verify(&charm), Some(Vec::new()));
}

#[test]
fn verify_returns_the_paths_that_differ() {
    let unit = TempDir::new().expect("tempdir");
    let charm = unit.path().join("charm");
    assert_eq!(verify(&charm), None);
    revision(1, ONE).install(&charm).expect("installs");
    fs::write(charm.join("hooks/install"), "other").expect("write");
    fs::remove_file(charm.join("old/only")).expect("remove");
    assert_eq!(verify(&charm), Some(vec!["hooks/install".to_owned(), "old/only".to_owned()]));
}
