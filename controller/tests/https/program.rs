//! The controller program: what a restart keeps, and a second program on the same folder.

use crate::fixture::executable;
use crate::support::{Agent, next_delta};
use api::client::{self, Client};
use api::error::{ApiError, ErrorCode};
use api::{
    ClientFile, ConfigureModel, Deploy, GetStatus, Handle, InModel, ListMachines, ListModels, LogQuery,
    SetMachineToken, SetUnitToken, Stream, UploadArchive, Watch, WatchUnit,
};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

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
