//! Connections do not affect other clients: revoked tokens, many connections, silent connections, and stalled uploads.

#[path = "https/fixture.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod fixture;
mod support;

use api::client::Client;
use api::error::{ApiError, ErrorCode};
use api::{
    AddUnits, ConfigChange, ConfigureModel, FindArchive, FindResource, GetAbout, GetStatus, Handle, InModel,
    Stream, UploadArchive, UploadResource, Watch, WatchMachine, WatchUnit,
};
use controller::Controller;
use controller::host_environment::HostEnvironment;
use controller::installation::Installation;
use controller::store::sqlite::{Options, Sqlite};
use fixture::{TestServer, write_executable};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use notify::{RecursiveMode, Watcher};
use state::documents::prelude::{TokenHolder, UserRole};
use state::lifecycle::{machine, unit};
use state::terms::names::Uuid;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Agent, Fixture, next_delta};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The time within which the connections of a revoked token must be closed.
const REVOKED_WITHIN: Duration = Duration::from_secs(1);

/// Waits until `done` returns a value; panics after `limit`.
async fn within<T>(limit: Duration, what: &str, done: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, done).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// Returns the error that ends a stream.
async fn end_of<T>(stream: &mut impl Stream<Item = T>) -> ApiError {
    loop {
        if let Err(error) = stream.next().await {
            return error;
        }
    }
}

/// A connection that has sent one request with a token, and read the head of its response.
async fn connect(
    served: &TestServer,
    connector: &TlsConnector,
    path: &str,
    token: &str,
) -> (TlsStream<TcpStream>, String) {
    let stream = TcpStream::connect(&served.address).await.expect("it listens");
    let mut tls = connector.connect(served.name(), stream).await.expect("its CA is known");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    tls.write_all(head.as_bytes()).await.expect("it is sent");
    let mut bytes = vec![0; 4096];
    let read = tls.read(&mut bytes).await.unwrap_or(0);
    (tls, String::from_utf8_lossy(&bytes[..read]).into_owned())
}

/// Waits until the peer has closed a connection.
async fn closed(mut tls: TlsStream<TcpStream>) {
    let mut bytes = [0; 4096];
    while tls.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

#[tokio::test]
async fn a_replaced_token_ends_its_stream_and_its_idle_connection() {
    let served = TestServer::new().await;
    served.fixture.deploy("web", 1).await;
    let web = served.fixture.unit("web/0").await;
    let old = served.unit_token(web).await;
    let model = served.fixture.model;
    let agent = Client::agent(&served.controller(&old), model.0, web).expect("a good file");
    let agent = Agent::attach(agent, 1).await;
    let mut stream =
        agent.api.watch(WatchUnit { epoch: agent.epoch, from: None }).await.expect("the stream opens");
    next_delta(&mut stream).await;
    let claim = format!("/v1/models/{}/unit-agents/{web}/claim", model.0);
    let (idle, answer) = connect(&served, &served.connector(), &claim, &old).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let other = served.user(1, UserRole::Read).await;
    other.handle(GetAbout).await.expect("readers may");

    let new = served.unit_token(web).await;
    let started = Instant::now();
    within(REVOKED_WITHIN, "the stream ends", end_of(&mut stream)).await;
    within(REVOKED_WITHIN.saturating_sub(started.elapsed()), "the idle connection ends", closed(idle)).await;
    // Other clients and the new token are not affected.
    let own = Client::agent(&served.controller(&new), model.0, web).expect("a good file");
    let own = Agent::attach(own, 2).await;
    let mut stream =
        own.api.watch(WatchUnit { epoch: own.epoch, from: None }).await.expect("the stream opens");
    next_delta(&mut stream).await;
    other.handle(GetAbout).await.expect("readers may");
}

#[tokio::test]
async fn the_token_of_a_removed_unit_ends_its_connections() {
    let served = TestServer::new().await;
    let fixture = &served.fixture;
    fixture.deploy("web", 1).await;
    let (web, model) = (fixture.unit("web/0").await, fixture.model);
    let token = served.unit_token(web).await;
    let claim = format!("/v1/models/{}/unit-agents/{web}/claim", model.0);
    let (idle, answer) = connect(&served, &served.connector(), &claim, &token).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let removed = fixture.controller.run(move |draft| {
        unit::destroy(draft, model, web, 60)?;
        unit::remove(draft, model, web, 60)
    });
    removed.await.expect("its agent never attached");
    within(REVOKED_WITHIN, "the connection ends", closed(idle)).await;
}

#[tokio::test]
async fn the_token_of_a_removed_machine_ends_its_stream_with_the_reason_and_its_connections() {
    let served = TestServer::new().await;
    let fixture = &served.fixture;
    fixture.deploy("web", 1).await;
    let (web, model) = (fixture.unit("web/0").await, fixture.model);
    let id = fixture.machine_of_unit(web).await;
    let token = fixture.token(id, TokenHolder::Machine { model, machine: id }).await;
    let agent = Client::agent(&served.controller(&token), model.0, id).expect("a good file");
    let mut stream = agent.watch(WatchMachine).await.expect("the stream opens");
    stream.next().await.expect("the view");
    let presence = format!("/v1/models/{}/machine-agents/{id}/token", model.0);
    let (idle, answer) = connect(&served, &served.connector(), &presence, &token).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    let removed = fixture.controller.run(move |draft| {
        unit::destroy(draft, model, web, 60)?;
        unit::remove(draft, model, web, 60)?;
        machine::destroy(draft, model, id)?;
        machine::set_dead(draft, model, id)?;
        machine::remove(draft, model, id)
    });
    removed.await.expect("nothing blocks it");
    let ended = within(REVOKED_WITHIN, "the stream ends", end_of(&mut stream)).await;
    assert_eq!(ended.code, ErrorCode::Removed, "{ended}");
    within(REVOKED_WITHIN, "the connection ends", closed(idle)).await;
}

#[tokio::test]
async fn a_connection_with_several_tokens_ends_with_the_first_that_is_revoked() {
    let served = TestServer::new().await;
    let (ann, ben) = (served.user_token(1, UserRole::Read).await, served.user_token(2, UserRole::Read).await);
    let (mut tls, answer) = connect(&served, &served.connector(), "/v1/archives/info", &ann).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let about = format!("GET /v1/about HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ben}\r\n\r\n");
    tls.write_all(about.as_bytes()).await.expect("it is sent");
    let mut bytes = [0; 4096];
    let read = tls.read(&mut bytes).await.expect("it is answered");
    assert!(bytes.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&bytes[..read]));
    served.user_token(1, UserRole::Read).await;
    within(REVOKED_WITHIN, "the connection ends", closed(tls)).await;
}

#[tokio::test]
async fn silent_connections_do_not_delay_a_new_client() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Read).await;
    let mut silent = Vec::new();
    for n in 0..600 {
        let mut stream = TcpStream::connect(&served.address).await.expect("the kernel accepts it");
        if n % 2 == 0 {
            stream.write_all(&[22]).await.ok(); // the first byte of a handshake that never continues
        }
        silent.push(stream);
    }
    let client = Client::user(&served.controller(&token)).expect("a good file");
    within(Duration::from_secs(4), "a new client", client.handle(GetAbout)).await.expect("it is answered");
    for _ in 0..5 {
        let client = Client::user(&served.controller(&token)).expect("a good file");
        within(Duration::from_secs(1), "a new client", client.handle(GetAbout))
            .await
            .expect("it is answered");
    }
    drop(silent);
}

/// Returns the archive of a small charm.
fn archive(folder: &Path) -> Vec<u8> {
    std::fs::write(folder.join("metadata.yaml"), "name: tiny\nsummary: s\ndescription: d\n")
        .expect("written");
    std::fs::create_dir(folder.join("hooks")).expect("made");
    write_executable(&folder.join("hooks/install"));
    let options = charms::ReadOptions { cache: folder.join("cache"), force: false };
    charms::read(folder, &options).expect("a good charm").archive
}

/// Starts an upload that never continues.
async fn stalled_upload(served: &TestServer, token: &str, path: &str) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(&served.address).await.expect("it listens");
    let mut tls = served.connector().connect(served.name(), stream).await.expect("its CA is known");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 4096\r\n\r\npart"
    );
    tls.write_all(head.as_bytes()).await.expect("it is sent");
    tls
}

/// Returns the files of uploads that have not ended.
fn unfinished(archives: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(archives).expect("it exists").map(|entry| entry.expect("readable").path());
    let is_hidden =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    entries.filter(is_hidden).collect()
}

/// Waits until there are `expected` files of unfinished uploads.
async fn until_unfinished(archives: &Path, expected: usize) {
    let changed = Arc::new(Notify::new());
    let notifier = Arc::clone(&changed);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // listing the folder is an event, too
        if event.map_or(true, |event| !event.kind.is_access()) {
            notifier.notify_one();
        }
    })
    .expect("inotify is available");
    watcher.watch(archives, RecursiveMode::NonRecursive).expect("the folder exists");
    within(Duration::from_secs(4), &format!("{expected} unfinished uploads"), async {
        while unfinished(archives).len() != expected {
            changed.notified().await;
        }
    })
    .await;
}

/// Four times as many handshakes are started as an address may have, and none continues. Each one is protected for a
/// tenth of a second. If it were protected for a second, as a handshake that continues, the client would wait for three
/// seconds.
#[tokio::test]
async fn handshakes_that_were_started_delay_a_new_client_of_the_address_only_shortly() {
    let served = TestServer::new().await;
    let reader = served.user(1, UserRole::Read).await;
    let mut started = Vec::new();
    for _ in 0..512 {
        let mut stream = TcpStream::connect(&served.address).await.expect("it listens");
        // the head of a handshake message of 512 bytes, and its first bytes
        stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).await.expect("it is sent");
        started.push(stream);
    }
    within(Duration::from_secs(2), "a new client", reader.handle(GetAbout)).await.expect("readers may");
}

#[tokio::test]
async fn stalled_uploads_block_only_their_user_and_leave_nothing_behind() {
    let served = TestServer::new().await;
    let archives = served.installation.archives();
    let ann = served.user_token(1, UserRole::Write).await;
    let mut stalled = Vec::new();
    for path in ["/v1/resources", "/v1/archives", "/v1/resources"] {
        stalled.push(stalled_upload(&served, &ann, path).await);
    }
    until_unfinished(&archives, 2).await; // the third waits for a slot of its user
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    let ben = served.user(2, UserRole::Write).await;
    let uploaded =
        within(Duration::from_secs(4), "an upload", ben.handle(UploadArchive(archive.clone()))).await;
    let uploaded = uploaded.expect("a good charm");
    let found = ben.handle(FindArchive { sha256: uploaded.sha256.clone() }).await.expect("readers may");
    assert_eq!(found, Some(uploaded.clone()));
    assert_eq!(std::fs::read(archives.join(&uploaded.sha256)).expect("it is stored"), archive);
    ben.handle(UploadArchive(b"no archive".to_vec())).await.expect_err("not an archive");
    let file = ben.handle(UploadResource(b"no archive".to_vec())).await.expect("a resource is any file");
    assert_eq!(std::fs::read(archives.join(&file.sha256)).expect("it is stored"), b"no archive");
    assert_eq!(ben.handle(FindResource { sha256: file.sha256.clone() }).await, Ok(Some(file)));
    until_unfinished(&archives, 2).await; // both are ann's
    // A stalled upload ends with its connection, and the next one of its user begins.
    stalled.drain(..2);
    until_unfinished(&archives, 1).await;
    drop(stalled);
    until_unfinished(&archives, 0).await;
}

#[tokio::test]
async fn a_start_removes_unfinished_uploads() {
    let folder = tempfile::tempdir().expect("a folder");
    let archives = folder.path().join("archives");
    HostEnvironment::new(archives.clone()).expect("a folder");
    for name in [".upload.1", "finished"] {
        std::fs::write(archives.join(name), "x").expect("written");
    }
    HostEnvironment::new(archives.clone()).expect("a folder");
    let left: Vec<_> =
        std::fs::read_dir(&archives).expect("it exists").map(|e| e.expect("one").file_name()).collect();
    assert_eq!(left, ["finished"]);
}

/// The controller program under a limit of descriptors.
struct Limited(Child);

impl Limited {
    fn start(data: &Path, limit: &str) -> (Limited, String) {
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        let program = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_pintle-controller"), "--data"])
            .arg(data)
            .stderr(Stdio::piped())
            .spawn();
        let mut program = program.expect("it starts");
        let mut output = String::new();
        for line in BufReader::new(program.stderr.take().expect("it is piped")).lines() {
            output += &line.expect("text");
            output.push('\n');
            if output.contains("serving") {
                break;
            }
        }
        (Limited(program), output)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test]
async fn a_thousand_idle_connections_of_one_token_do_not_stop_a_write() {
    let hard = getrlimit(Resource::RLIMIT_NOFILE).expect("it is known").1;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("up to the hard limit");
    let served = TestServer::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let installation = Installation::open(folder.path(), false).expect("a new installation");
    let store = Sqlite::open(&installation.store(), Options::new(Uuid(9))).expect("a new store");
    let host = HostEnvironment::new(installation.archives()).expect("a folder for archives");
    let fixture = Fixture::new(Controller::new(store, host, installation.controller())).await;
    fixture.deploy("web", 1).await;
    let web = fixture.unit("web/0").await;
    let token = fixture.token(web, TokenHolder::Unit { model: fixture.model, unit: web }).await;
    let user = TokenHolder::User { name: "ann".to_owned(), role: UserRole::Write };
    let user = fixture.token(Uuid(1), user).await;
    let claim = format!("/v1/models/{}/unit-agents/{web}/claim", fixture.model.0);
    drop(fixture);

    let (mut program, output) = Limited::start(folder.path(), "-n 1024");
    assert!(output.contains("serving"), "{output}");
    let address =
        Installation::open(folder.path(), false).expect("it serves").address().expect("stored").to_string();
    let mut door = served;
    (door.address, door.installation) = (address, installation);
    let (mut idle, connector) = (Vec::new(), door.connector());
    let connect = || connect(&door, &connector, &claim, &token);
    for _ in 0..250 {
        let (a, b, c, d) = tokio::join!(connect(), connect(), connect(), connect());
        for (tls, answer) in [a, b, c, d] {
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
            idle.push(tls);
        }
    }
    let user = Client::user(&door.controller(&user)).expect("a good file").in_model("dev");
    let interval = [("update-status-hook-interval".to_owned(), "10s".to_owned())];
    let change = ConfigChange { set: interval.into(), reset: Vec::new() };
    user.handle(ConfigureModel { change }).await.expect("a write");
    let add = AddUnits { attach_storage: Vec::new(), application: "web".to_owned(), units: 1, to: None };
    user.handle(add).await.expect("a write");
    let reads =
        (0..20).map(|_| user.clone()).map(|user| tokio::spawn(async move { user.handle(GetStatus).await }));
    for read in reads.collect::<Vec<_>>() {
        read.await.expect("it does not panic").expect("a read");
    }
    assert_eq!(program.0.try_wait().expect("it can be asked"), None, "it runs");
    let mut open = 0;
    for mut tls in idle {
        let mut byte = [0; 1];
        // The rest of a response may be unread; after it, an open connection has nothing more.
        let ended = async { while tls.read(&mut byte).await.is_ok_and(|read| read > 0) {} };
        open += usize::from(tokio::time::timeout(Duration::from_millis(1), ended).await.is_err());
    }
    assert!((1..=16).contains(&open), "{open} of one agent are open");
}

#[tokio::test]
async fn the_soft_limit_is_raised_and_a_limit_that_is_too_low_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, output) = Limited::start(folder.path(), "-Sn 64");
    assert!(output.contains("serving"), "{output}");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.0.id())).expect("it runs");
    let files: Vec<_> = limits
        .lines()
        .find(|line| line.starts_with("Max open"))
        .expect("a limit")
        .split_whitespace()
        .collect();
    assert_eq!(files[3], files[4], "{files:?}");
    drop(program);
    let (mut program, output) = Limited::start(folder.path(), "-n 64");
    let errors: Vec<&str> = output.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(matches!(errors[..], [one] if one.contains("open files") && one.contains("64")), "{output}");
    assert_eq!(program.0.wait().expect("it ends").code(), Some(1));
}

/// 1. The host or the user has as many threads as it may have (`ulimit -u`, `TasksMax=`). 2. Requests arrive. The
///    runtime ends the process if it cannot start the first thread of its pool, so no request may need a new thread.
#[tokio::test]
async fn requests_start_no_thread() {
    let mut door = TestServer::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let installation = Installation::open(folder.path(), false).expect("a new installation");
    let store = Sqlite::open(&installation.store(), Options::new(Uuid(9))).expect("a new store");
    let host = HostEnvironment::new(installation.archives()).expect("a folder for archives");
    let fixture = Fixture::new(Controller::new(store, host, installation.controller())).await;
    let user = TokenHolder::User { name: "ann".to_owned(), role: UserRole::Write };
    let user = fixture.token(Uuid(1), user).await;
    drop(fixture);
    let (mut program, output) = Limited::start(folder.path(), "-n 1024");
    assert!(output.contains("serving"), "{output}");
    let address = Installation::open(folder.path(), false).expect("it serves").address().expect("stored");
    (door.address, door.installation) = (address.to_string(), installation);
    let pid = program.0.id().to_string();
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").count();
    let before = threads();
    // For a user other than root, no further thread can start.
    let limited = Command::new("prlimit").args(["--pid", &pid, "--nproc=1"]).status();
    assert!(limited.expect("prlimit is part of util-linux").success());
    let user = Client::user(&door.controller(&user)).expect("a good file").in_model("dev");
    let reads =
        (0..20).map(|_| user.clone()).map(|user| tokio::spawn(async move { user.handle(GetStatus).await }));
    for read in reads.collect::<Vec<_>>() {
        read.await.expect("it does not panic").expect("a read");
    }
    let file = user.handle(UploadResource(b"some file".to_vec())).await.expect("it is stored");
    assert_eq!(user.handle(FindResource { sha256: file.sha256.clone() }).await, Ok(Some(file)));
    assert_eq!(threads(), before);
    assert_eq!(program.0.try_wait().expect("it can be asked"), None, "it runs");
}
