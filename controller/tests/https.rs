//! The HTTPS server on loopback with the SQLite store: authentication, the protocol, and what a restart keeps.

mod support;

use api::client::{self, Client};
use api::error::{ApiError, ErrorCode};
use api::list;
use api::request::{Caller, Method, Route};
use api::{
    AddUnits, Archive, Attach, Claim, ClientFile, ConfigureModel, Deploy, FetchArchive, FindArchive,
    GetAbout, GetOpenApi, GetStatus, Handle, InModel, ListMachines, ListModels, LogQuery, SetMachineToken,
    SetUnitToken, Stream, UploadArchive, Watch, WatchUnit,
};
use controller::Controller;
use controller::host::HostEnvironment;
use controller::installation::Installation;
use controller::server;
use controller::store::sqlite::{Options, Sqlite};
use controller::{Environment, authority, openapi, tokens};
use state::documents::draft::Draft;
use state::documents::keys::{TokenHolder, UserRole};
use state::lifecycle::creation::Creation;
use state::lifecycle::scope;
use state::terms::names::Uuid;
use state::terms::settings::Bag;
use state::unit::snapshot::Change;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use support::{Agent, Fixture, next_delta};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::{TlsConnector, rustls};

/// A controller that serves in this process.
struct TestServer {
    fixture: Fixture<Sqlite, HostEnvironment>,
    address: String,
    installation: Installation,
    _folder: TempDir,
}

impl TestServer {
    async fn new() -> TestServer {
        let folder = tempfile::tempdir().expect("a folder");
        let installation = Installation::open(folder.path()).expect("a new installation");
        let store = Sqlite::open(&installation.store(), Options::new(Uuid(9))).expect("a new store");
        let host = HostEnvironment::new(installation.archives()).expect("a folder for archives");
        let fixture = Fixture::new(Controller::new(store, host, installation.controller())).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let acceptor =
            server::acceptor(&installation.certificate, &installation.key).expect("its own certificate");
        let serving =
            server::serve(fixture.controller.clone(), vec![listener], acceptor, std::future::pending());
        tokio::spawn(serving);
        TestServer { fixture, address, installation, _folder: folder }
    }

    fn controller(&self, token: &str) -> client::Controller {
        client::Controller {
            address: self.address.clone(),
            server_name: self.installation.controller().to_string(),
            ca: self.installation.ca.clone(),
            token: token.to_owned(),
        }
    }

    async fn user(&self, name: u128, role: UserRole) -> Client {
        let token = self.user_token(name, role).await;
        Client::user(&self.controller(&token)).expect("a good file")
    }

    async fn user_token(&self, name: u128, role: UserRole) -> String {
        self.fixture.token(Uuid(name), TokenHolder::User { name: format!("{name}"), role }).await
    }

    async fn unit_token(&self, unit: Uuid) -> String {
        self.fixture.token(unit, TokenHolder::Unit { model: self.fixture.model, unit }).await
    }

    /// Returns the client of a unit's agent.
    async fn unit(&self, name: &str) -> Client {
        let unit = self.fixture.unit(name).await;
        let token = self.unit_token(unit).await;
        Client::agent(&self.controller(&token), self.fixture.model.0, unit).expect("a good file")
    }

    fn connector(&self) -> TlsConnector {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.installation.ca.as_bytes()).expect("PEM"))
            .expect("a CA");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the defaults")
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }

    fn name(&self) -> ServerName<'static> {
        ServerName::try_from(self.installation.controller().to_string()).expect("a uuid is a name")
    }

    /// Sends exactly these bytes and reads until the connection ends. Returns the status and everything received.
    async fn raw(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> (u16, String) {
        let stream = TcpStream::connect(&self.address).await.expect("it listens");
        let mut tls = self.connector().connect(self.name(), stream).await.expect("its CA is known");
        let token = token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{token}content-length: {length}\r\n\r\n"
        );
        tls.write_all(format!("{head}{body}").as_bytes()).await.expect("it is sent");
        let mut answer = Vec::new();
        // A stream never ends: its head is sufficient.
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut bytes = [0; 4096];
            match tls.read(&mut bytes).await {
                Ok(read) if read > 0 => answer.extend_from_slice(&bytes[..read]),
                _ => break,
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("an HTTP answer"), answer)
    }
}

fn executable(hook: &std::path::Path) {
    std::fs::write(hook, "#!/bin/sh\n").expect("written");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).expect("made executable");
}

#[tokio::test]
async fn one_bag_changed_among_a_hundred_sends_one_delta_of_one_bag() {
    let served = TestServer::new().await;
    let fixture = &served.fixture;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let ids = fixture.admin.handle(AddUnits { application: "db".into(), units: 99, to: None });
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
async fn every_request_is_allowed_for_exactly_its_callers() {
    let served = TestServer::new().await;
    let fixture = &served.fixture;
    fixture.deploy("web", 2).await;
    let (own, other) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let machine = fixture.machine_of_unit(own).await;
    let machine_token = fixture.token(machine, TokenHolder::Machine { model: fixture.model, machine }).await;
    let elsewhere = fixture.machine_of_unit(other).await;
    let elsewhere =
        fixture.token(elsewhere, TokenHolder::Machine { model: fixture.model, machine: elsewhere }).await;
    let invited = TokenHolder::EnrollingMachine { model: fixture.model, machine, expires_ms: i64::MAX };
    let invited = fixture.token(Uuid(99), invited).await;
    let principals = [
        ("nobody", None),
        ("unknown", Some("0".repeat(64))),
        ("reader", Some(served.user_token(11, UserRole::Read).await)),
        ("writer", Some(served.user_token(12, UserRole::Write).await)),
        ("admin", Some(served.user_token(13, UserRole::Admin).await)),
        ("unit", Some(served.unit_token(own).await)),
        ("other unit", Some(served.unit_token(other).await)),
        ("machine", Some(machine_token)),
        ("other machine", Some(elsewhere)),
        ("invited machine", Some(invited)),
    ];
    // The reviewed list of requests that only admins may send (spec/security.md S15).
    let admins = [
        "CreateModel",
        "DestroyModel",
        "CreateEnrolmentToken",
        "ReportInstance",
        "GetMachineExistence",
        "SetMachineToken",
        "RemoveDeadMachine",
    ];
    let declared = list::all().into_iter().filter(|entry| entry.caller == Caller::Admin);
    assert_eq!(declared.map(|entry| entry.name).collect::<Vec<_>>(), admins);
    for entry in &list::all() {
        let (name, route) = (entry.name, entry.route);
        let of_a_unit = route.path.contains("/unit-agents/");
        assert_eq!(of_a_unit, entry.caller == Caller::UnitAgent, "{name}");
        let agent = if route.path.contains("/machine-agents/") { machine } else { own };
        let path = path(route, &fixture.model.0.to_string(), &agent.to_string());
        for (who, token) in &principals {
            let may = match entry.caller {
                Caller::UnitAgent => *who == "unit",
                Caller::MachineAgent => *who == "machine",
                Caller::Enrolment => *who == "invited machine",
                Caller::Reader => ["reader", "writer", "admin"].contains(who),
                Caller::Writer => ["writer", "admin"].contains(who),
                Caller::Admin => *who == "admin",
            };
            // A body that is invalid for every route: authorised callers get that error, and nothing is changed.
            let (method, body) = match route.method {
                Method::Get => ("GET", ""),
                Method::Post => ("POST", "{"),
            };
            let (status, answer) = served.raw(method, &path, token.as_deref(), body).await;
            assert_eq!(status != 401, may, "{who} {method} {path}: {answer}");
        }
    }
    // Another unit, an unknown unit, another model, an unknown route: unauthorised callers get the same bytes.
    let token = served.unit_token(own).await;
    let attach = |model: Uuid, unit: Uuid| format!("/v1/models/{model}/unit-agents/{unit}/attach");
    let forbidden = served.raw("POST", &attach(fixture.model.0, other), Some(&token), "{}").await;
    assert_eq!(forbidden.0, 401);
    let body = |answer: &str| answer.split("\r\n\r\n").nth(1).map(str::to_owned);
    for path in
        [attach(fixture.model.0, Uuid(404)), attach(Uuid(404), own), "/v1/models/dev/machine-token".into()]
    {
        let answer = served.raw("POST", &path, Some(&token), "{}").await;
        assert_eq!((answer.0, body(&answer.1)), (401, body(&forbidden.1)), "{path}");
    }
    assert_eq!(served.raw("GET", "/v1/nothing", None, "").await.0, 401);
}

fn path(route: Route, model: &str, agent: &str) -> String {
    route.path.replace("{model}", model).replace("{agent}", agent)
}

#[tokio::test]
async fn the_refusal_of_another_protocol_version_names_both_versions() {
    let served = TestServer::new().await;
    let token = served.user_token(78, UserRole::Read).await;
    for version in ["v0", "v2"] {
        let (status, answer) = served.raw("GET", &format!("/{version}/about"), Some(&token), "").await;
        let text = format!("cannot serve protocol version {version}: this controller uses v1");
        assert!(status == 404 && answer.contains(&text), "{status} {answer}");
    }
}

#[tokio::test]
async fn a_request_with_the_token_of_another_unit_is_refused_with_a_hint() {
    let served = TestServer::new().await;
    served.fixture.deploy("web", 2).await;
    let (own, other) = (served.fixture.unit("web/0").await, served.fixture.unit("web/1").await);
    let token = served.unit_token(other).await;
    let mistaken =
        Client::agent(&served.controller(&token), served.fixture.model.0, own).expect("a good file");
    let error = mistaken
        .handle(Attach { nonce: Uuid(1), epoch: 0, store_generation: None })
        .await
        .expect_err("not its own");
    assert_eq!(error, authority::unauthorised());
    let web = Agent::attach(served.unit("web/0").await, 1).await;
    assert_eq!(web.epoch, 1, "nothing had happened to it");
    let claim = mistaken.handle(Claim { epoch: 1, release: false }).await.expect_err("not its own");
    assert_eq!(claim.code, ErrorCode::Unauthorised);
}

#[tokio::test]
async fn only_the_pinned_ca_and_tls_1_3_and_the_controllers_name_are_accepted() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Admin).await;
    let elsewhere = tempfile::tempdir().expect("a folder");
    let elsewhere = Installation::open(elsewhere.path()).expect("another installation");
    let wrong_ca = client::Controller { ca: elsewhere.ca.clone(), ..served.controller(&token) };
    let error = Client::user(&wrong_ca).expect("a CA").handle(GetAbout).await.expect_err("another CA");
    assert_eq!(error.code, ErrorCode::Unreachable);
    assert!(error.message.contains("is not the expected controller"), "{error}");
    let wrong_name =
        client::Controller { server_name: elsewhere.controller().to_string(), ..served.controller(&token) };
    let error = Client::user(&wrong_name).expect("a name").handle(GetAbout).await.expect_err("another name");
    assert!(error.message.contains("is not the expected controller"), "{error}");

    let mut plain = TcpStream::connect(&served.address).await.expect("it listens");
    plain.write_all(b"GET /v1/about HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await; // a reset is as good as an end
    assert!(
        answer.len() < 32 && !String::from_utf8_lossy(&answer).contains("HTTP"),
        "an alert at most: {answer:?}"
    );
}

#[tokio::test]
async fn the_error_for_an_unreachable_controller_has_its_address() {
    let served = TestServer::new().await;
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    let unreachable = client::Controller { address: free.to_string(), ..served.controller(&"0".repeat(64)) };
    let error = Client::user(&unreachable)
        .expect("a good file")
        .handle(GetAbout)
        .await
        .expect_err("no server listens");
    assert_eq!(error.code, ErrorCode::Unreachable);
    assert_eq!(error.message, format!("cannot reach controller {free}: connection refused"));
}

#[tokio::test]
async fn idle_unauthenticated_connections_do_not_block_authenticated_ones() {
    let served = TestServer::new().await;
    let user = served.user(1, UserRole::Read).await;
    user.handle(GetAbout).await.expect("it is known now");
    let mut unauthenticated = Vec::new();
    for _ in 0..200 {
        unauthenticated.push(TcpStream::connect(&served.address).await.expect("the kernel accepts it"));
    }
    tokio::time::timeout(Duration::from_secs(2), user.handle(ListModels))
        .await
        .expect("at once")
        .expect("the request succeeds");
    drop(unauthenticated);
}

#[tokio::test]
async fn oversized_and_invalid_bodies_are_refused_in_one_line() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Admin).await;
    let (status, answer) = served.raw("POST", "/v1/models/dev/deploy", Some(&token), "{\"sha256\": 1}").await;
    assert_eq!(status, 400);
    assert!(answer.contains("invalid request body"), "{answer}");
    let large = "x".repeat(5 << 20);
    let deploy = Deploy {
        application: Some(large),
        sha256: String::new(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
    };
    let error =
        served.user(2, UserRole::Admin).await.in_model("dev").handle(deploy).await.expect_err("too large");
    assert!(matches!(error.code, ErrorCode::Invalid | ErrorCode::Unreachable), "{error}");
}

#[tokio::test]
async fn an_invalid_charm_is_refused_with_all_problems_and_a_valid_one_is_stored() {
    let served = TestServer::new().await;
    let user = served.user(1, UserRole::Write).await;
    let error = user.handle(UploadArchive(b"no archive".to_vec())).await.expect_err("not an archive");
    assert_eq!(error.code, ErrorCode::Invalid);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("metadata.yaml"), "name: tiny\nsummary: s\ndescription: d\n")
        .expect("written");
    std::fs::create_dir(folder.path().join("hooks")).expect("made");
    let hook = folder.path().join("hooks/install");
    executable(&hook);
    let options = charms::ReadOptions { cache: folder.path().join("cache"), force: false };
    let source = charms::read(folder.path(), &options).expect("a good charm");
    assert_eq!(user.handle(FindArchive { sha256: source.sha256.to_owned() }).await, Ok(None));
    let uploaded = user.handle(UploadArchive(source.archive.clone())).await.expect("the action is kept");
    assert_eq!((uploaded.sha256.as_str(), uploaded.charm.name.as_str()), (source.sha256.as_str(), "tiny"));
    assert_eq!(
        user.handle(FindArchive { sha256: source.sha256.to_owned() }).await,
        Ok(Some(uploaded.clone()))
    );
    let again = user.handle(UploadArchive(source.archive.clone())).await.expect("twice is once");
    assert_eq!(again, uploaded);
    let deploy = Deploy {
        application: None,
        sha256: source.sha256.clone(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
    };
    let deployed = user.in_model("dev").handle(deploy).await.expect("the deployment succeeds");
    assert_eq!(deployed.charm_url, "local:tiny-0");
    let unit = served.unit("tiny/0").await;
    assert_eq!(
        unit.handle(FetchArchive { sha256: source.sha256.to_owned() }).await.expect("the view is full"),
        Archive(source.archive)
    );
}

#[tokio::test]
async fn the_openapi_document_has_every_route_with_its_callers() {
    let document = openapi::document();
    for entry in &list::all() {
        let operation = &document["paths"][entry.route.path][openapi::method(entry)];
        assert!(operation["x-callers"].is_string(), "{}", entry.name);
    }
    let served = TestServer::new().await;
    let over_the_wire = served.user(1, UserRole::Read).await.handle(GetOpenApi).await.expect("readers may");
    assert_eq!(over_the_wire, document);
}

/// The controller program, started like the supervisor does.
struct Program(Child);

impl Program {
    /// Starts the program and waits until it serves.
    fn start(data: &std::path::Path) -> Program {
        let program = Command::new(env!("CARGO_BIN_EXE_pintle-controller"))
            .arg("--data")
            .arg(data)
            .stderr(Stdio::piped())
            .spawn();
        let mut program = program.expect("it starts");
        let lines = BufReader::new(program.stderr.take().expect("it is piped")).lines();
        let mut output = Vec::new();
        for line in lines {
            output.push(line.expect("text"));
            if output.last().is_some_and(|line| line.contains("serving")) {
                return Program(program);
            }
        }
        panic!("it exited with {:?}: {output:?}", program.wait());
    }

    fn signal(mut self, signal: nix::sys::signal::Signal) -> std::process::ExitStatus {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).expect("a pid"));
        nix::sys::signal::kill(pid, signal).expect("it runs");
        self.0.wait().expect("it ends")
    }
}

fn file(data: &std::path::Path) -> ClientFile {
    let place = data.join("client.yaml");
    let mode = std::fs::metadata(&place).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    serde_yaml::from_str(&std::fs::read_to_string(place).expect("text")).expect("YAML")
}

#[tokio::test]
async fn a_killed_controller_restarts_at_the_same_address_and_watches_resume() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::start(folder.path());
    let before = file(folder.path());
    let admin = Client::user(&client::Controller::from(&before)).expect("a good file").in_model("dev");
    let models = admin.handle(ListModels).await.expect("the request succeeds");
    assert_eq!(models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["dev"]);
    let charm = tempfile::tempdir().expect("a folder");
    std::fs::write(charm.path().join("metadata.yaml"), "name: tiny\nsummary: s\ndescription: d\n")
        .expect("written");
    std::fs::create_dir(charm.path().join("hooks")).expect("made");
    executable(&charm.path().join("hooks/install"));
    let options = charms::ReadOptions { cache: charm.path().join("cache"), force: false };
    let source = charms::read(charm.path(), &options).expect("a good charm");
    admin.handle(UploadArchive(source.archive)).await.expect("the action is kept");
    let deploy =
        Deploy { application: None, sha256: source.sha256, units: 1, to: None, config: BTreeMap::new() };
    admin.handle(deploy).await.expect("the deployment succeeds");

    // The supervisor stores the machine's token, the machine agent stores the unit's token.
    let machine = admin.handle(ListMachines).await.expect("the request succeeds")[0].uuid;
    let (machine_token, unit_token) = ("ab".repeat(32), "cd".repeat(32));
    admin.handle(SetMachineToken { machine, token: machine_token.to_owned() }).await.expect("set");
    let door =
        |token: &str| client::Controller { token: token.to_owned(), ..client::Controller::from(&before) };
    let model = models[0].uuid;
    let machine_agent = Client::agent(&door(&machine_token), model, machine).expect("a good file");
    let unit = admin.handle(GetStatus).await.expect("the request succeeds").applications["tiny"]
        .units
        .values()
        .next()
        .expect("one")
        .uuid;
    machine_agent.handle(SetUnitToken { unit, token: unit_token.to_owned() }).await.expect("set");
    let mut agent =
        Agent::attach(Client::agent(&door(&unit_token), model, unit).expect("a good file"), 1).await;
    let mut watch =
        agent.api.watch(WatchUnit { epoch: agent.epoch, from: None }).await.expect("the stream opens");
    let position = next_delta(&mut watch).await.position;

    let killed = program.signal(nix::sys::signal::Signal::SIGKILL);
    assert!(!killed.success());
    let ended: ApiError = loop {
        if let Err(error) = watch.next().await {
            break error;
        }
    };
    assert_eq!(ended.code, ErrorCode::Unreachable);
    let program = Program::start(folder.path());
    assert_eq!(file(folder.path()), before, "address, CA and token are the same");
    let change = api::ConfigChange {
        set: [("logging-config".into(), "<root>=DEBUG".into())].into(),
        reset: Vec::new(),
    };
    admin.handle(ConfigureModel { change }).await.expect("the client finds it again");
    let interval = [("update-status-hook-interval".to_owned(), "10s".to_owned())];
    let change = api::ConfigChange { set: interval.into(), reset: Vec::new() };
    let revision = admin.handle(ConfigureModel { change }).await.expect("set").revision;
    let mut watch = agent
        .api
        .watch(WatchUnit { epoch: agent.epoch, from: Some(position) })
        .await
        .expect("the session stands");
    let next = next_delta(&mut watch).await;
    assert!(!next.full, "the watch resumes at its position");
    assert_eq!((next.position.revision, next.changes.len()), (revision, 1), "{:?}", next.changes);
    let record = agent.record(state::unit::operation::Operation::Hook(state::unit::operation::Hook::Install));
    agent.commit(record).await;
    assert_eq!(admin.handle(LogQuery::default()).await.expect("a page").lines.len(), 0);
    drop(watch);
    let stopped = program.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(stopped.success(), "{stopped}");
}

#[tokio::test]
async fn a_second_controller_on_the_same_folder_is_refused_and_the_holder_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::start(folder.path());
    let second =
        Command::new(env!("CARGO_BIN_EXE_pintle-controller")).arg("--data").arg(folder.path()).output();
    let second = second.expect("it runs");
    assert_eq!(second.status.code(), Some(1));
    let output = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(output.contains("is in use by") && output.contains(&program.0.id().to_string()), "{output}");
    let stopped = program.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(stopped.success(), "{stopped}");
}

#[test]
fn random_tokens_are_valid_and_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = HostEnvironment::new(folder.path().join("archives")).expect("a folder");
    let (a, b) = (tokens::random_token(&host), tokens::random_token(&host));
    assert!(tokens::is_token(&a) && tokens::is_token(&b) && a != b);
    assert!(host.monotonic_ms() < 60_000, "it counts from its own start");
}
