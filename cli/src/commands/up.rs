//! `up`: a controller and its machines, in the background.

use crate::data_dir::DataDir;
use crate::failure::Failure;
use crate::output::Output;
use crate::session::{client, read_client_file};
use crate::supervisor::daemon::open_log;
use crate::supervisor::process::Process;
use crate::supervisor::{lock, stop};
use api::operator::{ClientFile, OperatorApi};
use clap::Args;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// A first start makes keys and a store, in well under a second; a busy machine is given this long.
const START_TAKES: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How much of a log is shown when a start failed.
const LOG_LINES: usize = 5;

#[derive(Debug, Args)]
pub struct Up {}

pub async fn run(dir: &DataDir, output: &Output) -> Result<(), Failure> {
    dir.create()?;
    let already = lock::holder(dir).is_some();
    let mut supervisor = match already {
        true => None,
        false => {
            port_is_free(dir)?;
            Some(detach(dir)?)
        }
    };
    let file = match answering(dir, &mut supervisor).await {
        Ok(file) => file,
        Err(failure) => {
            // what this command started and does not answer is not left behind
            if supervisor.is_some() {
                stop::everything(dir).await;
            }
            return Err(failure);
        }
    };
    let state = if already { "already up" } else { "up" };
    let default = DataDir::choose(std::env::var_os("PINTLE_DATA").as_deref().map(std::path::Path::new))?;
    let data = if *dir == default { String::new() } else { format!(" --data {}", dir.path().display()) };
    output.say(&format!(
        "{state}: controller {}, model {}, data in {}\nnext: pintle{data} deploy CHARM-FOLDER\n",
        file.controller,
        file.model,
        dir.path().display()
    ))
}

/// The controller comes back where it was: there agents and people look for it. One that an ended supervisor left is
/// there still, and makes way.
fn port_is_free(dir: &DataDir) -> Result<(), Failure> {
    let Some(address) = read_client_file(dir)?.map(|file| file.controller) else { return Ok(()) };
    if Process::named_by(&dir.controller_pid()).is_some() {
        return Ok(());
    }
    match std::net::TcpListener::bind(&address) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let text =
                format!("cannot start: the controller's address {address} is in use by another program");
            let port = address.rsplit(':').next().unwrap_or_default();
            Err(Failure::new(text).hint(format!("end that program first: ss -ltnp sport = :{port}")))
        }
        // anything else is the controller's to find and to say
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Starts the supervisor; it goes into a session of its own first thing.
fn detach(dir: &DataDir) -> Result<Child, Failure> {
    let broken = |error: std::io::Error| Failure::new(format!("cannot start the supervisor: {error}"));
    let log = open_log(&dir.log("supervisor")).map_err(broken)?;
    Command::new(std::env::current_exe().map_err(broken)?)
        .arg("supervise")
        .arg("--data")
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(broken)?)
        .stderr(log)
        .current_dir("/")
        .spawn()
        .map_err(broken)
}

/// Waits until the controller that this folder's supervisor started answers.
async fn answering(dir: &DataDir, supervisor: &mut Option<Child>) -> Result<ClientFile, Failure> {
    let end = Instant::now() + START_TAKES;
    let mut why = Failure::new("the controller does not answer");
    while Instant::now() < end {
        if let Some(Ok(Some(status))) = supervisor.as_mut().map(Child::try_wait) {
            // Another `up` was faster: its supervisor is as good.
            if lock::holder(dir).is_none() {
                let text = format!("the supervisor ended ({status}):\n{}", tail(dir, "supervisor"));
                return Err(Failure::new(text).hint(format!("see {}", dir.log("supervisor").display())));
            }
            *supervisor = None;
        }
        if own_controller(dir) {
            match ask(dir).await {
                Ok(Some(file)) => return Ok(file),
                Ok(None) => {}
                Err(failure) => why = failure,
            }
        }
        sleep(LOOK_EVERY).await;
    }
    let log = dir.log("controller");
    why.message += &format!("\n{}", tail(dir, "controller"));
    Err(why.hint(format!("see {}", log.display())))
}

/// The controller that runs is this supervisor's, not one that a killed supervisor left.
fn own_controller(dir: &DataDir) -> bool {
    let controller = Process::named_by(&dir.controller_pid()).and_then(|process| process.stat());
    let supervisor = lock::holder(dir);
    controller.zip(supervisor).is_some_and(|(controller, supervisor)| controller.parent == supervisor.pid)
}

async fn ask(dir: &DataDir) -> Result<Option<ClientFile>, Failure> {
    let Some(file) = read_client_file(dir)? else {
        return Ok(None);
    };
    client(&file)?.about().await?;
    Ok(Some(file))
}

fn tail(dir: &DataDir, log: &str) -> String {
    let text = std::fs::read_to_string(dir.log(log)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
