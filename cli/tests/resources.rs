//! The commands about resources, with a fake controller.

mod samples;

use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{Arguments, Verb, refresh, resources};
use samples::fake::FakeController;
use samples::session::FakeSession;
use test_support::golden::compare;

/// Runs the command line `words`.
async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    let arguments = Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a command");
    match arguments.verb {
        Verb::Resources(args) => resources::list(&args, session).await,
        Verb::AttachResource(args) => resources::attach(&args, session).await,
        Verb::Refresh(args) => refresh::run(&args, session).await,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn resources_are_listed_with_the_time_of_their_upload() {
    for (words, golden) in [
        (&["resources", "web"][..], "resources.txt"),
        (&["resources", "web", "--details"], "resources-details.txt"),
        (&["resources", "web", "--details", "--format", "yaml"], "resources.yaml"),
    ] {
        let session = FakeSession::new(FakeController::default());
        run_command(words, &session).await.expect("listed");
        compare(&format!("commands/{golden}"), &session.printed().0);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_resource_is_attached_after_all_names_were_checked() {
    let session = FakeSession::new(FakeController::default());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "content").expect("written");
    let app = format!("app={}", file.display());
    let refused = run_command(&["attach-resource", "web", &app, "nope=x"], &session).await;
    assert!(refused.is_err() && session.api.requests().is_empty(), "{:?}", session.api.requests());
    run_command(&["attach-resource", "web", &app, "image=nginx:1"], &session).await.expect("attached");
    let digest = |text: &str| host::digest::sha256(text.as_bytes());
    let image = "registrypath: nginx:1\n";
    let attached =
        format!("attach dev/web {{\"app\": {:?}, \"image\": {:?}}}", digest("content"), digest(image));
    assert_eq!(session.api.requests(), ["upload content".to_owned(), format!("upload {image}"), attached]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_refresh_without_a_charm_attaches_its_resources() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["refresh", "web", "--resource", "image=nginx:1"], &session).await.expect("attached");
    let requests = session.api.requests();
    assert!(requests.len() == 2 && requests[1].starts_with("attach dev/web"), "{requests:?}");
    let refused = run_command(&["refresh", "web"], &session).await;
    let read_status = requests.into_iter().chain(["status".to_owned()]).collect::<Vec<_>>();
    assert!(refused.is_err() && session.api.requests() == read_status, "{:?}", session.api.requests());
}
