//! Resources: a unit fetches the files of its own application only, and a file is kept while it is used.

use crate::support::*;
use api::error::ErrorCode;
use api::{
    Archive, AttachResources, Deploy, FetchArchive, FetchResource, FindArchive, FindResource, Force, Handle,
    ListResources, RemoveApplication, UploadArchive, UploadResource,
};
use controller::Environment;
use controller::janitor::{ARCHIVE_GRACE_MS, Janitor};
use state::charm::{Charm, Resource};
use std::collections::BTreeMap;
use test_support::memory_store::MemoryStore;

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

async fn upload(fixture: &MemoryFixture, content: &str) -> String {
    let stored = fixture.admin.handle(UploadResource(content.as_bytes().to_vec())).await.expect("stored");
    assert_eq!(stored.bytes, content.len() as u64);
    stored.sha256
}

/// Deploys an application whose charm declares the resource `file`, with this file.
async fn deploy(fixture: &MemoryFixture, name: &str, sha256: &str) {
    let resource = Resource { filename: "f".to_owned(), ..Resource::default() };
    let resources = BTreeMap::from([("file".to_owned(), resource)]);
    let charm = Charm { name: name.to_owned(), resources, ..Charm::default() };
    let archive = fixture.admin.handle(UploadArchive(archive_bytes(&charm))).await.expect("stored");
    let resources = BTreeMap::from([("file".to_owned(), sha256.to_owned())]);
    let deploy = Deploy { sha256: archive.sha256, units: 1, resources, ..Deploy::default() };
    fixture.admin.handle(deploy).await.expect("deployed");
}

fn fetch(sha256: &str) -> FetchResource {
    FetchResource { resource: "file".to_owned(), sha256: sha256.to_owned() }
}

#[tokio::test]
async fn a_unit_fetches_the_files_of_its_own_application_only() {
    let fixture = Fixture::in_memory().await;
    let (one, two) = (upload(&fixture, "one").await, upload(&fixture, "two").await);
    deploy(&fixture, "first", &one).await;
    deploy(&fixture, "second", &two).await;
    let (first, second) = (fixture.attach_agent("first/0").await, fixture.attach_agent("second/0").await);
    assert_eq!(first.api.handle(fetch(&one)).await, Ok(Archive(b"one".to_vec())));
    let other = first.api.handle(fetch(&two)).await.expect_err("that of another application");
    let none = first.api.handle(fetch("none")).await.expect_err("it does not exist");
    assert_eq!((other.code, none.code), (ErrorCode::NotFound, ErrorCode::NotFound));
    assert_eq!(other.message.replace(&two, "none"), none.message, "indistinguishable");
    let renamed = FetchResource { resource: "x".to_owned(), sha256: one.clone() };
    assert_eq!(first.api.handle(renamed).await.map_err(|error| error.code), Err(ErrorCode::NotFound));
    let as_charm = first.api.handle(FetchArchive { sha256: one.clone() }).await;
    assert_eq!(as_charm.map_err(|error| error.code), Err(ErrorCode::NotFound), "it is no charm");

    let resources = BTreeMap::from([("file".to_owned(), one.clone())]);
    let attach = AttachResources { application: "second".to_owned(), resources };
    fixture.admin.handle(attach).await.expect("declared");
    assert_eq!(second.api.handle(fetch(&one)).await, Ok(Archive(b"one".to_vec())));
    assert_eq!(second.api.handle(fetch(&two)).await, Ok(Archive(b"two".to_vec())), "a hook may need it");
    let list = ListResources { application: "second".to_owned() };
    let listed = fixture.admin.handle(list).await.expect("it exists").resources;
    let file = listed["file"].file.as_ref().expect("attached");
    assert_eq!((file.sha256.as_str(), file.bytes), (one.as_str(), 3));
}

#[tokio::test]
async fn a_file_is_removed_once_nothing_uses_it() {
    let fixture = Fixture::in_memory().await;
    let (used, unused) = (upload(&fixture, "used").await, upload(&fixture, "unused").await);
    deploy(&fixture, "first", &used).await;
    let found = fixture.admin.handle(FindResource { sha256: unused.clone() }).await.expect("an answer");
    assert_eq!(found.map(|found| found.bytes), Some(6));
    assert_eq!(
        fixture.admin.handle(FindArchive { sha256: unused.clone() }).await,
        Ok(None),
        "it is no charm"
    );
    let mut janitor = Janitor::default();
    let sweep = async |janitor: &mut Janitor| {
        for _ in 0..4 {
            while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
            fixture.advance(ARCHIVE_GRACE_MS);
        }
        let files = fixture.controller.environment.stored_files().await;
        [&used, &unused].map(|sha256| files.contains_key(sha256))
    };
    assert_eq!(sweep(&mut janitor).await, [true, false]);
    let remove =
        RemoveApplication { application: "first".to_owned(), force: Force::AtOnce, destroy_storage: false };
    fixture.admin.handle(remove).await.expect("accepted");
    assert_eq!(sweep(&mut janitor).await, [false, false]);
}
