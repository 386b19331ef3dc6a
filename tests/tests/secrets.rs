//! Secrets through the hooks of real charms (spec/hook-tools.md 2.6): one application owns a secret and grants it in a
//! relation, another one reads it; and an application reads a secret of a user through a setting. No file of the data
//! folder, no argument or environment of a process, and nothing that a user is shown contains a content, unless it is
//! revealed.

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

/// An application that is granted a secret of a user. It tells whether it may read it, and what processes show.
const CONSUMER: &str = r#"#!/bin/sh -e
uri=$(config-get token)
test -n "$uri" || exit 0
if value=$(secret-get "$uri" password 2>@FILES@/refusal); then
    case $JUJU_DISPATCH_PATH in hooks/*) echo "printed: $value"; echo "printed: $value" >&2 ;; esac
    cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >@FILES@/processes 2>/dev/null || true
    test "$value" = "$(cat @FILES@/first)" && status-set active "read the first"
    test "$(secret-get "$uri" password --peek)" = "$(cat @FILES@/first)" || status-set active "peeked at another"
else
    status-set blocked "$(cat @FILES@/refusal)"
fi
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
    fs::write(folder.join("config.yaml"), "options: {token: {type: secret}}").expect("it is ours");
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
    files_with(folder, &["canary-4b1d", "Y2FuYXJ5LTRiMWQ"], found);
}

/// The files below a folder that contain one of these texts.
fn files_with(folder: &Path, needles: &[&str], found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("it is listed");
        if kind.is_dir() {
            files_with(&entry.path(), needles, found);
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            let has = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
            if needles.iter().any(|needle| has(needle)) {
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

#[test]
fn a_secret_of_a_user_is_read_while_it_is_granted_and_shown_only_when_it_is_revealed() {
    let host = scene();
    let files = host.beside("files");
    fs::create_dir(&files).expect("it is a new folder");
    fs::write(files.join("first"), FIRST).expect("it is ours");
    fs::write(files.join("second"), SECOND).expect("it is ours");
    let from = |name: &str| format!("password#file={}", text(&files.join(name)));
    let uri = host.ok(&["add-secret", "token", &from("first"), "--info", "for a test"]);
    let uri = uri.trim();
    host.ok(&["deploy", &charm(&host, "consumer", CONSUMER, "requires")]);
    host.refused(&["config", "consumer", "token=plain"]);
    host.ok(&["config", "consumer", &format!("token={uri}")]);
    host.until_status("consumer/0", "blocked", "ERROR permission denied");
    host.refused(&["grant-secret", "token", "consumer,missing"]);
    host.ok(&["grant-secret", "token", "consumer"]);
    host.ok(&["run", "consumer/0", "rotate"]);
    until_message(&host, "consumer/0", "read the first");
    let processes = fs::read(files.join("processes")).expect("the hook has written it");
    let processes = String::from_utf8_lossy(&processes);
    assert!(processes.contains("pintle-controller"), "the hook sees other processes");
    assert!(!processes.contains("canary-4b1d") && !processes.contains("Y2FuYXJ5LTRiMWQ"));
    // secret-changed runs, and the unit keeps the revision that it reads
    host.ok(&["update-secret", uri, &from("second"), "--auto-prune"]);
    until_message(&host, "consumer/0", "peeked at another");
    let shown = [
        host.ok(&["status", "--format", "json"]),
        host.ok(&["show-unit", "consumer/0", "--format", "json"]),
        host.ok(&["operations", "--format", "json"]),
        host.ok(&["show-task", "1", "--format", "json"]),
        host.ok(&["config", "consumer", "--format", "json"]),
        host.ok(&["secrets", "--format", "json"]),
        host.ok(&["show-secret", "token", "--format", "json"]),
        host.ok(&["debug-log", "--replay", "--no-tail"]),
    ];
    for text in shown {
        assert!(!text.contains("canary-4b1d") && !text.contains("Y2FuYXJ5LTRiMWQ"), "{text}");
    }
    let revealed = host.ok(&["show-secret", "token", "--format", "json", "--reveal"]);
    assert!(revealed.contains(SECOND) && !revealed.contains(FIRST), "{revealed}");
    host.ok(&["revoke-secret", "token", "consumer"]);
    host.ok(&["run", "consumer/0", "rotate"]);
    host.until_status("consumer/0", "blocked", "ERROR permission denied");
    host.ok(&["down"]);
    let (data, mut found) = (host.beside("data"), Vec::new());
    files_with_content(&data, &mut found);
    assert_eq!(found, Vec::<String>::new());
    // the search finds what is there: the id of the secret is in the store and in the calls of hooks
    files_with(&data, &[uri.trim_start_matches("secret:")], &mut found);
    for place in ["controller/store", "calls.yaml"] {
        assert!(found.iter().any(|file| file.contains(place)), "{place}: {found:?}");
    }
}
