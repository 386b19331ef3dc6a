//! `up`: a controller and its machines, in the background.

use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::output::Output;
use crate::session::{client, no_client_file, read_client_file};
use crate::supervisor::daemon::open_log;
use crate::supervisor::provider::{Kind, nspawn};
use crate::supervisor::settings::Settings;
use crate::supervisor::{lock, stop};
use api::error::ErrorCode;
use api::{ClientFile, GetAbout, Handle};
use clap::Args;
use host::process::Process;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// A first start makes keys and a store, in well under a second; a busy machine is given this long.
const START_TAKES: Duration = Duration::from_secs(60);
/// A controller that was up already has written the client file long ago; one that another `up` is starting makes its
/// keys and its store first.
const FILE_TAKES: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How much of a log is shown when a start failed.
const LOG_LINES: usize = 5;

#[derive(Debug, Args)]
pub struct Up {
    /// What machines are made as; remembered
    #[arg(long, value_enum)]
    pub provider: Option<Kind>,
    /// Where the base system of nspawn's machines is, or is to be made; remembered
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    /// Where the controller listens beside 127.0.0.1, for machines of your own; remembered
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<IpAddr>,
}

pub async fn run(args: &Up, dir: &DataDir, output: &Output) -> Result<(), Failure> {
    dir.create()?;
    let already = lock::holder(dir).is_some();
    settle(args, dir, already, output)?;
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
    let model = if file.model.is_empty() { "none (pintle switch MODEL)" } else { &file.model };
    output.say(&format!(
        "{state}: controller {}, model {model}, data in {}\nnext: pintle{data} deploy CHARM-FOLDER\n",
        file.controller,
        dir.path().display()
    ))
}

/// Remembers what is new in the arguments, and sees that what it needs is there.
fn settle(args: &Up, dir: &DataDir, already: bool, output: &Output) -> Result<(), Failure> {
    let before = Settings::read(dir)?;
    let base = args.base.as_ref().map(std::path::absolute).transpose();
    let base = base.map_err(|error| Failure::new(format!("cannot use this base: {error}")))?;
    let settings = Settings {
        provider: args.provider.unwrap_or(before.provider),
        base: base.or_else(|| before.base.clone()),
        listen: args.listen.or(before.listen),
    };
    if settings != before && already {
        let name = dir.path().display();
        return Err(Failure::new(format!("{name} is up with other settings")).hint("pintle down first"));
    }
    if settings.provider != before.provider && dir.client_file().exists() {
        let text = format!("the machines here are made by provider {}", before.provider.name());
        return Err(Failure::new(text).hint("say --data DIR for a folder of its own"));
    }
    if args.base.is_some() && settings.provider != Kind::Nspawn {
        return Err(Failure::usage("--base is only for --provider nspawn"));
    }
    if let Some(address) = args.listen {
        listens_at(address)?;
    }
    if settings.provider == Kind::Nspawn && !already {
        nspawn::require()?;
        let base = settings.base.clone().unwrap_or_else(|| nspawn::default_base(dir));
        if !base.is_dir() {
            output.note("making the base system of machines, once: about two minutes\n");
            nspawn::make_base(&base)?;
        }
    }
    if settings == before { Ok(()) } else { settings.write(dir) }
}

/// Refuses an address that no controller could listen at, before it is remembered.
fn listens_at(address: IpAddr) -> Result<(), Failure> {
    if address.is_unspecified() || address.is_loopback() {
        let text = format!("cannot listen at {address}: machines of your own need one address of this host");
        return Err(Failure::usage(text).hint("see: ip address"));
    }
    match std::net::TcpListener::bind((address, 0)) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = format!("cannot listen at {address}: {error}");
            Err(Failure::new(text).hint("it is to be an address of this host: ip address"))
        }
    }
}

/// The controller comes back where it was: there agents and people look for it. One that an ended supervisor left is
/// there still, and makes way.
fn port_is_free(dir: &DataDir) -> Result<(), Failure> {
    let Some(address) = read_client_file(dir)?.map(|file| file.controller) else { return Ok(()) };
    if Process::read_alive(&dir.controller_pid()).is_some() {
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
    let mut runs_since = None;
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
            let since = *runs_since.get_or_insert_with(Instant::now);
            match ask(dir).await {
                Ok(Some(file)) => return Ok(file),
                Ok(None) if supervisor.is_none() && since.elapsed() > FILE_TAKES => {
                    return Err(no_client_file(dir));
                }
                Ok(None) => {}
                Err(failure) if failure.refusal == Some(ErrorCode::Unauthorised) => return Err(failure),
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
    let controller = Process::read_alive(&dir.controller_pid()).and_then(|process| process.stat());
    let supervisor = lock::holder(dir);
    controller.zip(supervisor).is_some_and(|(controller, supervisor)| controller.parent == supervisor.pid)
}

async fn ask(dir: &DataDir) -> Result<Option<ClientFile>, Failure> {
    let Some(file) = read_client_file(dir)? else {
        return Ok(None);
    };
    client(&file)?.handle(GetAbout).await?;
    Ok(Some(file))
}

fn tail(dir: &DataDir, log: &str) -> String {
    let text = std::fs::read_to_string(dir.log(log)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
