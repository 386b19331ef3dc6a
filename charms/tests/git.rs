//! Test of the file `version` of a charm folder in a git work tree, with the real git.

use charms::{ReadOptions, read};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn git(folder: &Path, words: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]);
    let done = git.args(words).current_dir(folder).env_remove("GIT_DIR").output().expect("git is there");
    assert!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What the charm declares, and what its archive contains.
fn versions(charm: &Path) -> (Option<String>, Option<String>) {
    let source = read(charm, &ReadOptions { cache: "unused".into(), force: false }).expect("a good charm");
    let unit = TempDir::new().expect("tempdir");
    let installed = unit.path().join("charm");
    charms::install(&source.archive, &source.sha256, &installed, 0).expect("it can be installed");
    (source.charm.version, fs::read_to_string(installed.join("version")).ok())
}

#[test]
fn a_charm_folder_in_a_work_tree_gets_the_version_that_git_describes() {
    let tree = TempDir::new().expect("tempdir");
    let charm = tree.path().join("charms/web");
    fs::create_dir_all(&charm).expect("mkdir");
    fs::write(charm.join("metadata.yaml"), "name: web\nsummary: s\ndescription: d\n").expect("write");
    fs::write(charm.join("dispatch"), "#!/bin/sh\n").expect("write");
    assert_eq!(versions(&charm), (None, None), "a folder without git");

    git(tree.path(), &["init", "--quiet"]);
    assert_eq!(versions(&charm), (None, None), "there is no commit to describe");
    git(tree.path(), &["add", "."]);
    git(tree.path(), &["commit", "--quiet", "-m", "first"]);
    git(tree.path(), &["tag", "-a", "v1.2", "-m", "first"]);
    let of = |version: &str, file: &str| (Some(version.to_owned()), Some(file.to_owned()));
    assert_eq!(versions(&charm), of("v1.2", "v1.2\n"));
    fs::write(charm.join("dispatch"), "#!/bin/bash\n").expect("write");
    assert_eq!(versions(&charm), of("v1.2-dirty", "v1.2-dirty\n"));
    fs::write(charm.join("version"), "packed by hand\n").expect("write");
    assert_eq!(versions(&charm), of("packed by hand", "packed by hand\n"), "an existing file decides");
}
