//! The tools of secrets (spec/hook-tools.md 2.6): what `calls.yaml` stores of their calls has sealed content
//! only, people are shown masked copies of later calls, and an agent that re-attaches to the hook has every change of the
//! calls before.

mod support;

use agent::hook_session::{CallsFile, ControllerRequest, HookSession};
use commands::SecretAnswer;
use state::terms::secret::SecretId;
use std::path::Path;
use support::{answered as printed, context, frame};

const CANARY: &str = "canary-77aa";

fn session(run: &Path) -> HookSession<'static> {
    support::session(context(), run)
}

fn id(number: u128) -> SecretId {
    SecretId::from_bits(number << 100)
}

/// Adds a secret, which the controller seals.
fn add(session: &mut HookSession, number: u32) {
    let pair = format!("value={CANARY}");
    let add = frame(number, "secret-add", &["--owner", "unit", &pair]);
    let asked = session.answer(&add, None).expect_err("the controller seals the content");
    assert!(matches!(asked, ControllerRequest::Secret(_)), "{asked:?}");
    let (secret, sealed) = (id(number.into()), "1.key.sealed".to_owned());
    session.insert_secret_response(Ok(SecretAnswer::Sealed { secret, sealed }));
    assert_eq!(printed(session.answer(&add, None)), (0, format!("secret:{secret}\n"), String::new()));
}

#[test]
fn the_next_agent_has_the_changes_of_secrets_and_no_content() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path());
    add(&mut first, 1);
    add(&mut first, 2);
    let remove = frame(3, "secret-remove", &[id(1).as_str()]);
    assert_eq!(printed(first.answer(&remove, None)).0, 0);
    let calls = std::fs::read_to_string(run.path().join("calls.yaml")).unwrap();
    assert!(calls.contains("1.key.sealed") && !calls.contains(CANARY), "{calls}");

    assert!(!first.has_unknown_contents, "it masks what it has read");
    let mut second = session(run.path());
    assert!(!second.has_unknown_contents);
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")));
    assert!(second.has_unknown_contents, "the output cannot be masked");
    let ids = format!("[\"{}\"]\n", id(2));
    let listed = frame(4, "secret-ids", &["--format", "json"]);
    assert_eq!(printed(second.answer(&listed, None)), (0, ids, String::new()));
}

/// People are shown the calls of a run after it. A later agent repeats them, so that they are stored unchanged beside it.
#[test]
fn a_content_in_a_later_call_is_stored_for_the_next_agent_and_masked_for_people() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path());
    add(&mut first, 1);
    let set = frame(2, "state-set", &[&format!("copy={CANARY}")]);
    assert_eq!(printed(first.answer(&set, None)).0, 0);
    let get = frame(3, "state-get", &["copy"]);
    assert_eq!(printed(first.answer(&get, None)), (0, format!("{CANARY}\n"), String::new()));
    let calls = std::fs::read_to_string(run.path().join("calls.yaml")).unwrap();
    let line = |number: usize| {
        serde_json::from_str::<serde_json::Value>(&calls.lines().nth(number).unwrap()[2..]).unwrap()
    };
    let placeholder = format!("SECRET({} value)", id(1));
    assert_eq!(line(0)["args"], serde_json::json!(["--owner", "unit", "value=*****"]));
    assert_eq!(line(1)["args"], serde_json::json!([format!("copy={CANARY}")]));
    assert_eq!(line(1)["masked"]["args"], serde_json::json!([format!("copy={placeholder}")]));
    assert_eq!(line(2)["masked"]["stdout"], serde_json::json!(format!("{placeholder}\n")));

    let mut second = session(run.path());
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")), "the answers are the same");
    assert_eq!(printed(second.answer(&frame(4, "state-get", &["copy"]), None)).1, format!("{CANARY}\n"));
    let calls = std::fs::read_to_string(run.path().join("calls.yaml")).unwrap();
    let hidden: serde_json::Value = serde_json::from_str(&calls.lines().nth(3).unwrap()[2..]).unwrap();
    assert_eq!(hidden["masked"]["stdout"], "*****", "this agent does not know what it has to mask");
}
