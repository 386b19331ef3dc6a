//! Tests of the commands that show the controller, and of `show-application`.

mod samples;

use api::ClientFile;
use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{Arguments, Verb, controllers, show_application};
use samples::fake::FakeController;
use samples::session::FakeSession;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    match Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line").verb {
        Verb::Controllers(args) => controllers::list(&args, session).await,
        Verb::ShowController(args) => controllers::show(&args, session).await,
        Verb::Whoami(args) => controllers::whoami(&args, session),
        Verb::ShowApplication(args) => show_application::run(&args, session).await,
        verb => panic!("{verb:?} is not tested here"),
    }
}

/// A session whose client file names this current model.
fn session(model: &str) -> FakeSession {
    let session = FakeSession::new(FakeController::default());
    let file = ClientFile {
        other_controllers: Vec::new(),
        controller: "127.0.0.1:7".to_owned(),
        server_name: "name".to_owned(),
        ca: "PEM".to_owned(),
        user: "admin".to_owned(),
        token: "canary".to_owned(),
        model: model.to_owned(),
    };
    let path = session.dir.client_file();
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
    fs::write(&path, serde_json::to_vec(&file).expect("plain data")).expect("there is room");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    session
}

async fn printed(words: &[&str], model: &str) -> String {
    let session = session(model);
    run_command(words, &session).await.expect("it is shown");
    let (stdout, _) = session.printed();
    assert!(!stdout.contains("canary"), "the token is shown: {stdout}");
    stdout
}

async fn document(words: &[&str], model: &str) -> Value {
    serde_json::from_str(&printed(words, model).await).expect("JSON")
}

#[tokio::test(flavor = "current_thread")]
async fn the_controller_of_the_folder_is_the_only_one() {
    let all = document(&["controllers", "--format", "json"], "dev").await;
    assert_eq!(all["current-controller"], "here");
    let shown = &all["controllers"]["here"];
    assert_eq!((&shown["current-model"], &shown["user"]), (&json!("admin/dev"), &json!("admin")));
    assert_eq!((&shown["model-count"], &shown["machine-count"]), (&json!(1), &json!(1)));
    assert!(
        document(&["controllers", "--format", "json"], "").await["controllers"]["here"]["current-model"]
            .is_null()
    );
    let shown = &document(&["show-controller", "--format", "json"], "dev").await["here"];
    assert_eq!(shown["details"]["api-endpoints"], json!(["127.0.0.1:7"]));
    assert!(shown["models"]["admin/dev"]["model-uuid"].is_string(), "{shown}");
    let unknown = run_command(&["show-controller", "elsewhere"], &session("dev")).await;
    assert_eq!(unknown.expect_err("there is one controller").code, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn whoami_names_controller_model_and_user() {
    let words: Vec<String> =
        printed(&["whoami"], "dev").await.split_whitespace().map(str::to_owned).collect();
    assert_eq!(words, ["Controller:", "here", "Model:", "admin/dev", "User:", "admin"]);
    let none = document(&["whoami", "--format", "json"], "").await;
    assert_eq!(none, json!({ "controller": "here", "model": "", "user": "admin" }));
}

#[tokio::test(flavor = "current_thread")]
async fn applications_are_shown_by_name_and_an_unknown_one_is_an_error() {
    let shown = document(&["show-application", "ledger", "auditor", "--format", "json"], "dev").await;
    let ledger = &shown["ledger"];
    assert_eq!((&ledger["charm"], &ledger["base"]), (&json!("ledger"), &json!("ubuntu@24.04")));
    assert_eq!((&ledger["principal"], &shown["auditor"]["principal"]), (&json!(true), &json!(false)));
    assert_eq!(ledger["endpoint-bindings"][""], "alpha");
    let session = session("dev");
    let unknown = run_command(&["show-application", "ledger", "missing"], &session).await;
    assert_eq!(unknown.expect_err("it does not exist").code, 1);
    assert_eq!(session.printed().0, "");
}
