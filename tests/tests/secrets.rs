//! Secrets through the hooks of real charms (spec/hook-tools.md 2.6): one application owns a secret and grants it in a
//! relation, another one reads it. No file of the data folder but the charms contains the content.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tests::host::Host;
use tests::scene::{Scene, hooks, scene, text};

/// Contents that occur nowhere else. The second one is written by a hook that reads the first one.
const FIRST: &str = "canary-4b1d-first";
const SECOND: &str = "canary-4b1d-second";

/// The owner: the content comes from a file beside the data folder, so that no charm contains it.
const OWNER: &str = r#"#!/bin/sh -e
case "$JUJU_DISPATCH_PATH" in
hooks/install)
    id=$(secret-add --owner application --label login "password#file=@FILES@/first")
    test "$(secret-get "$id" password)" = "$(cat @FILES@/first)"
    state-set "id=$id"
    ;;
hooks/db-relation-created)
    id=$(state-get id)
    relation-set --app "secret=$id"
    secret-grant "$id"
    ;;
hooks/update-status|actions/rotate)
    secret-set "$(state-get id)" "password#file=@FILES@/second"
    ;;
hooks/secret-remove)
    secret-remove "$JUJU_SECRET_ID" --revision "$JUJU_SECRET_REVISION"
    status-set active "removed $JUJU_SECRET_REVISION of $JUJU_SECRET_LABEL"
    ;;
esac
"#;

/// The reader: it compares, and reports only whether the content is the expected one.
const READER: &str = r#"#!/bin/sh -e
case "$JUJU_DISPATCH_PATH" in
hooks/db-relation-changed)
    id=$(relation-get --app secret owner 2>/dev/null || relation-get secret owner)
    test -n "$id" || exit 0
    test "$(secret-get "$id" --label remote password)" = "$(cat @FILES@/first)"
    status-set active "read the first"
    ;;
hooks/secret-changed)
    test "$(secret-get --label remote)" = "password: $(cat @FILES@/first)"
    test "$(secret-get --label remote --peek)" = "password: $(cat @FILES@/second)"
    test "$(secret-get --label remote --refresh)" = "password: $(cat @FILES@/second)"
    status-set active "read the second after $JUJU_SECRET_LABEL"
    ;;
esac
"#;

fn charm(host: &Scene, name: &str, dispatch: &str, endpoint: &str) -> String {
    let folder = host.beside(name);
    fs::create_dir(&folder).expect("it is a new folder");
    let metadata = format!(
        "name: {name}\nsummary: a test\ndescription: a test\n{endpoint}:\n  db:\n    interface: pair\n"
    );
    fs::write(folder.join("metadata.yaml"), metadata).expect("the folder is ours");
    fs::write(folder.join("actions.yaml"), "rotate:\n  description: writes another content\n")
        .expect("it is ours");
    let files = host.beside("files");
    fs::write(folder.join("dispatch"), dispatch.replace("@FILES@", text(&files))).expect("it is ours");
    fs::set_permissions(folder.join("dispatch"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    text(&folder).to_owned()
}

fn until_message(host: &Host, unit: &str, message: &str) {
    host.until_status(unit, "active", message);
}

/// The files below a folder that contain the content as text or as base64.
fn files_with_content(folder: &Path, found: &mut Vec<String>) {
    // base64 of the text that both contents begin with
    let needles: [&[u8]; 2] = [b"canary-4b1d", b"Y2FuYXJ5LTRiMWQ"];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("it is listed");
        if kind.is_dir() {
            files_with_content(&entry.path(), found);
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if needles.iter().any(|needle| bytes.windows(needle.len()).any(|window| window == *needle)) {
                found.push(entry.path().display().to_string());
            }
        }
    }
}

#[test]
fn a_secret_is_read_by_those_it_was_granted_to_and_its_content_is_stored_nowhere() {
    let host = scene();
    let files = host.beside("files");
    fs::create_dir(&files).expect("it is a new folder");
    fs::write(files.join("first"), FIRST).expect("it is ours");
    fs::write(files.join("second"), SECOND).expect("it is ours");
    host.ok(&["deploy", &charm(&host, "owner", OWNER, "provides")]);
    host.ok(&["deploy", &charm(&host, "reader", READER, "requires")]);
    host.ok(&["integrate", "owner", "reader"]);
    until_message(&host, "reader/0", "read the first");
    host.ok(&["run", "owner/0", "rotate"]);
    until_message(&host, "reader/0", "read the second after remote");
    until_message(&host, "owner/0", "removed 1 of login");
    for unit in ["owner/0", "reader/0"] {
        let failed = host.unit(unit).is_some_and(|unit| unit["workload-status"]["current"] == "error");
        assert!(!failed, "{unit}: {:?}", hooks(&host, unit));
    }
    host.ok(&["down"]);
    let mut found = Vec::new();
    files_with_content(&host.beside("data"), &mut found);
    assert_eq!(found, Vec::<String>::new());
}
