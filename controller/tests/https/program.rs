//! The controller program: what remains the same after a restart, and a second program on the same folder.

use crate::fixture::write_executable;
use crate::support::{Agent, next_delta};
use api::client::{self, Client};
use api::error::{ApiError, ErrorCode};
use api::{
    AddSecret, ClientFile, ConfigureModel, Deploy, GetStatus, Handle, InModel, ListMachines, ListModels,
    ListSecrets, LogQuery, RevealSecret, SetMachineToken, SetUnitToken, Stream, UploadArchive, Watch,
    WatchUnit,
};
use state::terms::secret::SecretContent;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// The controller program, started as the supervisor starts it.
struct Program(Child, Vec<String>);

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
                return Program(program, output);
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
    charms::yaml::from_str(&std::fs::read_to_string(place).expect("text")).expect("YAML")
}

#[tokio::test]
async fn a_killed_controller_restarts_at_the_same_address_and_watches_resume() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::start(folder.path());
    let before = file(folder.path());
    let admin =
        Client::user(&client::ControllerConnection::from(&before)).expect("a good file").in_model("dev");
    let models = admin.handle(ListModels).await.expect("the request succeeds");
    assert_eq!(models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["dev"]);
    let charm = tempfile::tempdir().expect("a folder");
    std::fs::write(charm.path().join("metadata.yaml"), "name: tiny\nsummary: s\ndescription: d\n")
        .expect("written");
    std::fs::create_dir(charm.path().join("hooks")).expect("made");
    write_executable(&charm.path().join("hooks/install"));
    let options = charms::ReadOptions { cache: charm.path().join("cache"), force: false };
    let source = charms::read(charm.path(), &options).expect("a good charm");
    admin.handle(UploadArchive(source.archive)).await.expect("the archive is stored");
    let deploy = Deploy {
        application: None,
        sha256: source.sha256,
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    admin.handle(deploy).await.expect("the deployment succeeds");

    // The supervisor stores the machine's token, the machine agent stores the unit's token.
    let machine = admin.handle(ListMachines).await.expect("the request succeeds")[0].uuid;
    let (machine_token, unit_token) = ("ab".repeat(32), "cd".repeat(32));
    admin.handle(SetMachineToken { machine, token: machine_token.to_owned() }).await.expect("set");
    let door = |token: &str| client::ControllerConnection {
        token: token.to_owned(),
        local_address: None,
        ..client::ControllerConnection::from(&before)
    };
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
        set: [("default-series".into(), "of no effect".into())].into(),
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
    let record =
        agent.record(state::terms::operation::Operation::Hook(state::terms::operation::Hook::Install));
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
    assert!(output.contains("in use") && output.contains(&program.0.id().to_string()), "{output}");
    let stopped = program.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(stopped.success(), "{stopped}");
}

#[tokio::test]
async fn a_missing_key_of_secrets_is_named_at_start_and_everything_else_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("controller/secret-keys.yaml");
    let program = Program::start(folder.path());
    let names_keys = |program: &Program| program.1.iter().any(|line| line.contains("secret-keys.yaml"));
    assert!(!names_keys(&program));
    let mode = std::fs::metadata(&keys).expect("it was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!keys.starts_with(folder.path().join("controller/store")), "a copy of the store has no key");
    // a client of its own for each process: the connections of the others are closed
    let admin = || {
        let door = client::ControllerConnection::from(&file(folder.path()));
        Client::user(&door).expect("a good file").in_model("dev")
    };
    let content = SecretContent(BTreeMap::from([("password".to_owned(), "czNjcmV0".to_owned())]));
    let add = |name: &str| AddSecret {
        name: name.to_owned(),
        description: String::new(),
        content: content.clone(),
    };
    admin().handle(add("first")).await.expect("it is added");
    let reveal = || RevealSecret { secret: "first".to_owned(), revision: None };

    let kept = std::fs::read(&keys).expect("it exists");
    program.signal(nix::sys::signal::Signal::SIGKILL);
    std::fs::remove_file(&keys).expect("it exists");
    let program = Program::start(folder.path());
    assert!(names_keys(&program), "{:?}", program.1);
    let user = admin();
    assert_eq!(user.handle(ListSecrets).await.expect("metadata is served").len(), 1);
    for error in [
        user.handle(add("second")).await.expect_err("nothing can be sealed"),
        user.handle(reveal()).await.expect_err("nothing can be opened"),
    ]
    .map(|error| error.code)
    {
        assert_eq!(error, ErrorCode::Unavailable);
    }
    assert!(!keys.exists(), "no new key takes the place of the lost one");

    program.signal(nix::sys::signal::Signal::SIGKILL);
    std::fs::write(&keys, "keys: [{id: a, key: c2hvcnQ}]").expect("it is ours");
    let damaged =
        Command::new(env!("CARGO_BIN_EXE_pintle-controller")).arg("--data").arg(folder.path()).output();
    let damaged = damaged.expect("it ran");
    let text = String::from_utf8_lossy(&damaged.stderr);
    assert!(!damaged.status.success() && text.contains("secret-keys.yaml"), "{text}");
    assert!(!text.contains("c2hvcnQ"), "{text}");

    std::fs::write(&keys, kept).expect("it is ours");
    let rotate = || {
        Command::new(env!("CARGO_BIN_EXE_pintle-controller"))
            .arg("rotate-secret-key")
            .arg(folder.path())
            .output()
    };
    assert!(rotate().expect("it ran").status.success());
    let program = Program::start(folder.path());
    assert!(!names_keys(&program), "{:?}", program.1);
    assert_eq!(admin().handle(reveal()).await, Ok(content.clone()));
    program.signal(nix::sys::signal::Signal::SIGTERM);
}

/// A controller of another host may serve the models of an etcd that this one cannot reach.
#[cfg(feature = "etcd")]
#[test]
fn a_key_is_not_rotated_while_an_etcd_that_others_may_use_cannot_be_reached() {
    let folder = tempfile::tempdir().expect("a folder");
    Program::start(folder.path()).signal(nix::sys::signal::Signal::SIGTERM);
    let keys = || std::fs::read(folder.path().join("controller/secret-keys.yaml")).expect("it exists");
    let before = keys();
    let recorded = "cluster: '1'\nstore_generation: 00000000-0000-4000-8000-000000000001\nrevision: 1\n";
    let connection = "connection:\n  address: etcd://127.0.0.1:1\n  prefix: /pintle\n";
    for (text, reason) in
        [(recorded.to_owned() + connection, "127.0.0.1:1"), (recorded.to_owned(), "etcd.yaml")]
    {
        std::fs::write(folder.path().join("controller/store/etcd.yaml"), text).expect("written");
        let rotate = Command::new(env!("CARGO_BIN_EXE_pintle-controller"))
            .arg("rotate-secret-key")
            .arg(folder.path())
            .output();
        let rotate = rotate.expect("it ran");
        let stderr = String::from_utf8_lossy(&rotate.stderr);
        assert!(!rotate.status.success() && stderr.contains(reason), "{stderr}");
        assert_eq!(keys(), before);
    }
}

/// A member without a majority accepts connections, too, and so does another program.
#[cfg(feature = "etcd")]
#[test]
fn a_program_that_accepts_connections_is_no_etcd_that_is_ready() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || while listener.accept().is_ok() {});
    let ready = Command::new(env!("CARGO_BIN_EXE_pintle-controller"))
        .args(["etcd-ready", "--store", &format!("etcd://{address}")])
        .output();
    assert_eq!(ready.expect("it ran").status.code(), Some(1));
}
