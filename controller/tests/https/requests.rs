//! Requests and their bodies: versions, bounds, charm archives, streams and the OpenAPI document.

use crate::fixture::{TestServer, write_executable};
use crate::support::{Agent, next_delta};
use api::error::ErrorCode;
use api::{
    AddUnits, Archive, Attach, Deploy, FetchArchive, FindArchive, GetOpenApi, GetStatus, Handle, InModel,
    UploadArchive, Watch, WatchUnit, all_requests,
};
use controller::openapi;
use state::documents::draft::Draft;
use state::documents::prelude::UserRole;
use state::lifecycle::creation::Creation;
use state::lifecycle::scope;
use state::terms::names::{UnitName, Uuid};
use state::terms::settings::Bag;
use state::terms::status_message::StatusMessage;
use state::unit::snapshot::Change;
use std::collections::BTreeMap;

#[tokio::test]
async fn one_bag_changed_among_a_hundred_sends_one_delta_of_one_bag() {
    let served = TestServer::new().await;
    let fixture = &served.fixture;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let ids = fixture.admin.handle(AddUnits {
        attach_storage: Vec::new(),
        application: "db".into(),
        units: 99,
        to: None,
    });
    ids.await.expect("the units are added");
    let (number, id) = fixture.integrate().await;
    let model = fixture.model;
    for n in 0..100 {
        let unit = fixture.unit(&format!("db/{n}")).await;
        let settings = Bag::from([("value".to_owned(), "x".repeat(200))]);
        let enter = move |draft: &mut Draft<'_>| {
            let ids = &mut || unreachable!("no subordinate");
            scope::enter(draft, model, unit, id, &settings, Creation { now_ms: 1, ids })
        };
        fixture.controller.run(enter).await.expect("it enters");
    }
    let web = Agent::attach(served.unit("web/0").await, 1).await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    let whole = next_delta(&mut watch).await;
    let bags = whole.changes.iter().filter(|change| matches!(change, Change::Bag { .. })).count();
    assert!(whole.full && bags >= 100, "{bags} bags");

    let mut db = Agent::attach(served.unit("db/42").await, 1).await;
    // The unit has entered the relation with these settings.
    db.enter((number, id), "server", "web").await;
    next_delta(&mut watch).await;
    let record = db.settings_record(number, "value", "y");
    let committed = db.commit(record).await;
    let next = next_delta(&mut watch).await;
    assert_eq!(next.position.revision, committed.revision, "one message, for that revision");
    assert!(matches!(&next.changes[..], [Change::Bag { .. }]), "{:?}", next.changes);
    let bytes = serde_json::to_vec(&next).expect("plain data").len();
    assert!(bytes < 500, "{bytes} bytes: one bag, not a hundred");
}

#[tokio::test]
async fn the_refusal_of_another_protocol_version_names_both_versions() {
    let served = TestServer::new().await;
    let token = served.user_token(78, UserRole::Read).await;
    for version in ["v0", "v2"] {
        let (status, answer) =
            served.send_request("GET", &format!("/{version}/about"), Some(&token), "").await;
        assert!(status == 404 && answer.contains(version) && answer.contains("v1"), "{status} {answer}");
    }
}

#[tokio::test]
async fn oversized_and_invalid_bodies_are_refused_in_one_line() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Admin).await;
    let (status, answer) =
        served.send_request("POST", "/v1/models/dev/deploy", Some(&token), "{\"sha256\": 1}").await;
    assert_eq!(status, 400);
    assert!(answer.contains("integer `1`"), "the reason of serde: {answer}");
    let large = "x".repeat(5 << 20);
    let deploy = Deploy {
        application: Some(large),
        sha256: String::new(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    let error =
        served.user(2, UserRole::Admin).await.in_model("dev").handle(deploy).await.expect_err("too large");
    assert!(matches!(error.code, ErrorCode::Invalid | ErrorCode::Unreachable), "{error}");
}

fn tiny_charm() -> charms::CharmSource {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("metadata.yaml"), "name: tiny\nsummary: s\ndescription: d\n")
        .expect("written");
    std::fs::create_dir(folder.path().join("hooks")).expect("made");
    write_executable(&folder.path().join("hooks/install"));
    let options = charms::ReadOptions { cache: folder.path().join("cache"), force: false };
    charms::read(folder.path(), &options).expect("a good charm")
}

/// One unit of the charm in this archive.
fn deploy(sha256: &str) -> Deploy {
    Deploy {
        application: None,
        sha256: sha256.to_owned(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    }
}

/// A link that refers to itself stands for any file that cannot be opened: a limit of open files, or a disk that fails.
#[tokio::test]
async fn an_archive_that_cannot_be_opened_is_not_shown_as_missing() {
    let served = TestServer::new().await;
    let user = served.user(1, UserRole::Write).await;
    let sha256 = user.handle(UploadArchive(tiny_charm().archive)).await.expect("it is stored").sha256;
    let user = user.in_model("dev");
    user.handle(deploy(&sha256)).await.expect("it is deployed");
    let unit = served.unit("tiny/0").await;
    let attach = Attach {
        nonce: Uuid(1),
        epoch: 0,
        store_generation: None,
        teardown_started: false,
        boot: String::new(),
    };
    unit.handle(attach).await.expect("it is the first agent");
    let name = UnitName::new("tiny", 0);
    let is_shown = async || {
        let status = user.handle(GetStatus).await.expect("a status");
        let agent = &status.applications["tiny"].units[&name].agent;
        agent.message == StatusMessage::FileMissing { unit: name.clone() }
    };
    let fetch =
        async || unit.handle(FetchArchive { sha256: sha256.clone() }).await.expect_err("not readable").code;
    let file = served.installation.archives().join(&sha256);
    std::fs::remove_file(&file).expect("it was stored");
    std::os::unix::fs::symlink(&file, &file).expect("linked");
    assert_eq!((fetch().await, is_shown().await), (ErrorCode::Unavailable, false));
    std::fs::remove_file(&file).expect("the link");
    assert_eq!((fetch().await, is_shown().await), (ErrorCode::Unavailable, true));
    std::os::unix::fs::symlink(&file, &file).expect("linked");
    assert_eq!((fetch().await, is_shown().await), (ErrorCode::Unavailable, true), "it may still be missing");
}

#[tokio::test]
async fn an_invalid_charm_is_refused_with_all_problems_and_a_valid_one_is_stored() {
    let served = TestServer::new().await;
    let user = served.user(1, UserRole::Write).await;
    let error = user.handle(UploadArchive(b"no archive".to_vec())).await.expect_err("not an archive");
    assert_eq!(error.code, ErrorCode::Invalid);
    let source = tiny_charm();
    assert_eq!(user.handle(FindArchive { sha256: source.sha256.to_owned() }).await, Ok(None));
    let uploaded = user.handle(UploadArchive(source.archive.clone())).await.expect("the archive is stored");
    assert_eq!((uploaded.sha256.as_str(), uploaded.charm.name.as_str()), (source.sha256.as_str(), "tiny"));
    assert_eq!(
        user.handle(FindArchive { sha256: source.sha256.to_owned() }).await,
        Ok(Some(uploaded.clone()))
    );
    let again =
        user.handle(UploadArchive(source.archive.clone())).await.expect("a repeated request is accepted");
    assert_eq!(again, uploaded);
    let deployed = user.in_model("dev").handle(deploy(&source.sha256)).await.expect("it is deployed");
    assert_eq!(deployed.answer.charm.url, "local:tiny-0");
    let unit = served.unit("tiny/0").await;
    assert_eq!(
        unit.handle(FetchArchive { sha256: source.sha256.to_owned() })
            .await
            .expect("the unit may fetch its charm"),
        Archive(source.archive)
    );
}

#[tokio::test]
async fn the_openapi_document_has_every_route_with_its_callers() {
    let document = openapi::document();
    for entry in &all_requests::all() {
        let operation = &document["paths"][entry.route.path][openapi::method(entry)];
        assert!(operation["x-callers"].is_string(), "{}", entry.name);
    }
    let served = TestServer::new().await;
    let over_the_wire = served.user(1, UserRole::Read).await.handle(GetOpenApi).await.expect("readers may");
    assert_eq!(over_the_wire, document);
}
