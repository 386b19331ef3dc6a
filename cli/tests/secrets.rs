//! Tests of the commands about secrets: what they send, and what they print (spec/clients.md 2.4, 3.2).

mod samples;

use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{Arguments, Verb, add_secret, grant_secret, remove_secret, secrets};
use samples::fake::FakeController;
use samples::session::FakeSession;
use serde_json::{Value, json};
use std::fs;

async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    match Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line").verb {
        Verb::AddSecret(args) => add_secret::add(&args, session).await,
        Verb::UpdateSecret(args) => add_secret::update(&args, session).await,
        Verb::GrantSecret(args) => grant_secret::grant(&args, session).await,
        Verb::RevokeSecret(args) => grant_secret::revoke(&args, session).await,
        Verb::RemoveSecret(args) => remove_secret::run(&args, session).await,
        Verb::Secrets(args) => secrets::list(&args, session).await,
        Verb::ShowSecret(args) => secrets::show(&args, session).await,
        verb => panic!("{verb:?} is not tested here"),
    }
}

fn session() -> FakeSession {
    FakeSession::new(FakeController::default())
}

/// The requests as (name, JSON).
fn requests(session: &FakeSession) -> Vec<(String, Value)> {
    let split = |request: String| {
        let (name, body) = request.split_once(' ').expect("two words");
        (name.to_owned(), serde_json::from_str(body).expect("JSON"))
    };
    session.api.requests().into_iter().map(split).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn add_secret_encodes_its_values_and_prints_the_uri_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (value, yaml) = (folder.path().join("value"), folder.path().join("values.yaml"));
    fs::write(&value, [0xff, 0x00]).expect("it is ours");
    fs::write(&yaml, "second: 's3cret'\ndata#base64: 'AA=='\n").expect("it is ours");
    let session = session();
    let from_file = format!("first#file={}", value.display());
    let yaml = yaml.display().to_string();
    let words =
        ["add-secret", "token", "plain=a=b", "pad#base64=AA==", &from_file, "--file", &yaml, "--info", "why"];
    assert_eq!(run_command(&words, &session).await, Ok(()));
    assert_eq!(session.printed(), ("secret:00000000000000000000\n".to_owned(), String::new()));
    let content =
        json!({"plain": "YT1i", "pad": "AA==", "first": "/wA=", "second": "czNjcmV0", "data": "AA=="});
    let expected = json!({"name": "token", "description": "why", "content": content});
    assert_eq!(requests(&session), [("AddSecret".to_owned(), expected)]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_refused_value_is_not_repeated() {
    let session = session();
    for words in [
        &["add-secret", "token"][..],
        &["add-secret", "token", "s3cret"],
        &["add-secret", "token", "ab=s3cret"],
        &["add-secret", "token", "=s3cret"],
        &["update-secret", "token"],
    ] {
        let error = run_command(words, &session).await.expect_err("it is refused");
        assert_eq!(error.code, 2, "{error:?}");
        assert!(!error.text().contains("s3cret"), "{error:?}");
    }
    assert!(session.api.requests().is_empty());
}

#[tokio::test(flavor = "current_thread")]
async fn changes_name_the_secret_and_print_nothing() {
    let session = session();
    for words in [
        &["update-secret", "token", "--auto-prune"][..],
        &["update-secret", "token", "key=x", "--name", "other", "--auto-prune=false"],
        &["grant-secret", "token", "web,ledger"],
        &["revoke-secret", "secret:x", "web"],
        &["remove-secret", "token", "--revision", "4"],
    ] {
        assert_eq!(run_command(words, &session).await, Ok(()), "{words:?}");
    }
    assert_eq!(session.printed(), (String::new(), String::new()));
    let update = |name: Value, prune: bool, content: Value| json!({"secret": "token", "name": name, "description": null, "auto_prune": prune, "content": content});
    let expected = [
        ("UpdateSecret", update(Value::Null, true, Value::Null)),
        ("UpdateSecret", update(json!("other"), false, json!({"key": "eA=="}))),
        ("GrantSecret", json!({"secret": "token", "applications": ["web", "ledger"]})),
        ("RevokeSecret", json!({"secret": "secret:x", "applications": ["web"]})),
        ("RemoveSecret", json!({"secret": "token", "revision": 4})),
    ];
    assert_eq!(requests(&session), expected.map(|(name, body)| (name.to_owned(), body)));
}

#[tokio::test(flavor = "current_thread")]
async fn secrets_are_listed_by_owner() {
    let listed = session();
    assert_eq!(run_command(&["secrets"], &listed).await, Ok(()));
    let expected = [
        "ID                    Name   Owner    Rotation  Revision  Last updated",
        "00000000000000000000  token  <model>  never            2  1970-01-01",
        "vvvvvvvvvvvvvvvvvvvg  -      ledger   hourly           1  1970-01-01",
    ];
    assert_eq!(listed.printed().0.lines().collect::<Vec<_>>(), expected);
    for owner in ["application-ledger", "ledger"] {
        let of_ledger = session();
        assert_eq!(run_command(&["secrets", "--owner", owner, "--format", "json"], &of_ledger).await, Ok(()));
        let document: Value = serde_json::from_str(&of_ledger.printed().0).expect("JSON");
        let expected = json!({"vvvvvvvvvvvvvvvvvvvg": {
            "revision": 1, "owner": "ledger", "label": "login", "rotation": "hourly",
            "rotates": "1970-01-01T01:00:00Z", "expires": "1970-01-01T02:00:00Z",
            "created": "1970-01-01T00:00:00Z", "updated": "1970-01-01T00:01:00Z",
        }});
        assert_eq!(document, expected);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_content_of_a_secret_is_shown_with_reveal_only() {
    let shown = session();
    assert_eq!(
        run_command(&["show-secret", "token", "--format", "json", "--revisions"], &shown).await,
        Ok(())
    );
    let document: Value = serde_json::from_str(&shown.printed().0).expect("JSON");
    let times = |created: &str| json!({"created": created, "updated": created});
    let revision = |number: u64, created: &str| {
        let mut revision = times(created);
        revision["revision"] = number.into();
        revision
    };
    let access = json!([{
        "target": "application-web", "scope": "model-00000000-0000-0000-0000-000000000007", "role": "view",
    }]);
    let mut expected = json!({
        "revision": 2, "owner": "<model>", "name": "token", "description": "of the mailer",
        "created": "1970-01-01T00:00:00Z", "updated": "1970-01-01T00:01:00Z", "access": access,
        "revisions": [revision(1, "1970-01-01T00:00:00Z"), revision(2, "1970-01-01T00:01:00Z")],
    });
    assert_eq!(document, json!({ "00000000000000000000": expected }));
    let revealed = session();
    let words = ["show-secret", "token", "--format", "json", "--reveal", "-r", "1"];
    assert_eq!(run_command(&words, &revealed).await, Ok(()));
    let document: Value = serde_json::from_str(&revealed.printed().0).expect("JSON");
    expected.as_object_mut().expect("a map").remove("revisions");
    expected["content"] = json!({"Data": {"password": "s3cret"}});
    assert_eq!(document, json!({ "00000000000000000000": expected }));
    let yaml = session();
    assert_eq!(run_command(&["show-secret", "token", "--reveal"], &yaml).await, Ok(()));
    assert!(yaml.printed().0.contains("\n  content:\n    password: s3cret\n"), "{}", yaml.printed().0);
    let missing = session();
    let error = run_command(&["show-secret", "token", "--revision", "3"], &missing).await;
    assert_eq!(error.map_err(|error| error.code), Err(1));
}
