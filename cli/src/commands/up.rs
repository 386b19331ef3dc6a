//! `up`: starts a controller and its machines in the background.
//!
//! It stores its settings, starts the detached supervisor process, and waits until the controller answers. If the
//! controller does not answer, or ends at each start, the error says why, and everything that this command started is
//! stopped again. Running `up` twice is harmless: a supervisor that runs starts a controller that has ended at once.

use super::up_store::StoreArgs;
use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::{client, no_client_file, read_client_file};
use crate::supervisor::identity::{self, CopyPurpose};
use crate::supervisor::process_exits::{self, ProcessExits};
use crate::supervisor::provider::bases::{BaseSource, Bases};
use crate::supervisor::provider::{base_system, nspawn};
use crate::supervisor::settings::{BaseRoot, UpSettings};
use crate::supervisor::{local_etcd, lock, renewal, replaced_programs, second_controller, stop};
use api::error::ErrorCode;
use api::text::fault::not_started;
use api::{ClientFile, GetAbout, Handle};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use host::file::{exists, ignore_not_found};
use host::process::Process;
use host::restart::EXIT_REFUSED;
use host::{log_file, log_tail};
use nix::sys::signal::Signal;
use state::terms::provider_kind::ProviderKind;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Longest time until the controller answers. The first start creates keys and a store, which takes less than 1 s;
/// the rest is reserve for a busy host.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time until a running controller has written the client file. A controller that another `up` is starting
/// creates its keys and its store first.
const CLIENT_FILE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two requests to a controller that is starting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which a controller that has not started on a full disk is no longer waited for. How it ended cannot be
/// recorded there; a controller starts in less than 1 s.
const FULL_DISK_TIMEOUT: Duration = Duration::from_secs(3);

/// Arguments of `up`. The settings are stored and used by the next `up`.
#[derive(Debug, Default, Args)]
pub struct UpArgs {
    /// Provider of machines; stored for the next start
    #[arg(long, value_parser = provider_kinds())]
    pub provider: Option<ProviderKind>,
    /// Folder of the base system of nspawn machines, created if it does not exist; stored for the next start
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    /// Another base system of nspawn machines, for deploy --base: a root folder, a tarball or the URL of an archive
    /// mirror; stored for the next start; may be repeated
    #[arg(long, value_name = "NAME@RELEASE=PATH", value_parser = BaseSource::parse)]
    pub base_root: Vec<BaseSource>,
    /// Address, in addition to 127.0.0.1, on which the controller listens for manually provisioned machines; stored
    /// for the next start
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<IpAddr>,
    /// Directory in which deploy NAME finds charms; stored, also while the controller runs; may be repeated
    #[arg(long, value_name = "DIR")]
    pub charms: Vec<PathBuf>,
    /// Make this copy of a data folder a system of its own, with new certificates, port and tokens
    #[arg(long, conflicts_with = "moved")]
    pub new_identity: bool,
    /// Continue a system in this copy of its data folder, which was restored from a backup or moved to another disk
    #[arg(long)]
    pub moved: bool,
    /// Start a new store generation: the controller's store was restored from a backup, or is to start empty. Agents
    /// report again what the store lacks
    #[arg(long)]
    pub restored: bool,
    /// Where the models are stored.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// The providers with their descriptions.
fn provider_kinds() -> impl TypedValueParser<Value = ProviderKind> {
    let described = |kind: &ProviderKind| {
        let about = match kind {
            ProviderKind::Local => "Machines are folders and processes on this host",
            ProviderKind::Nspawn => "Machines are systemd-nspawn containers (requires root)",
        };
        PossibleValue::new(kind.as_str()).help(about)
    };
    let values = PossibleValuesParser::new(ProviderKind::ALL.iter().map(described));
    values.try_map(|text| text.parse::<ProviderKind>())
}

pub async fn run(args: &UpArgs, dir: &DataDir, output: &Output) -> Result<(), CommandError> {
    let is_running = lock::holder(dir).is_some();
    let file = start(args, dir, output).await?;
    let state = if is_running { "already up" } else { "up" };
    let model = if file.model.is_empty() { "none" } else { &file.model };
    output.warn(&warnings(dir, is_running)?);
    let is_charm = charms::is_charm_folder(Path::new("."));
    let next = match (file.model.is_empty(), is_charm) {
        (true, _) => "to create a model: pintle add-model dev",
        (false, true) => "to deploy the charm of this folder: pintle deploy .",
        (false, false) => "to see the model: pintle status",
    };
    output.print(&output.complete(&format!(
        "{state}: controller {}, model {model}, data in {}\n{next}\n",
        file.controller,
        dir.path().display()
    )))
}

/// What a person should know about the system: who runs charms, and whether older programs run.
fn warnings(dir: &DataDir, is_running: bool) -> Result<Vec<String>, CommandError> {
    let mut warnings = Vec::new();
    let is_local = UpSettings::read(dir)?.provider == ProviderKind::Local;
    if is_local && !is_running && nix::unistd::geteuid().is_root() {
        warnings.push(
            "charms run as root on this host itself; to run them in containers, use another data folder: \
             pintle up --data DIR --provider nspawn"
                .to_owned(),
        );
    }
    let replaced = replaced_programs::replaced(dir);
    if is_running && !replaced.is_empty() {
        let names = replaced.join(" and ");
        warnings.push(format!(
            "the running {names} is older than this command; to use the new one: pintle down, then pintle up"
        ));
    }
    Ok(warnings)
}

/// Starts the controller and its machines, unless they run, and returns the client file once the controller answers.
///
/// # Errors
/// If a setting cannot be used, or the controller does not start; then the supervisor and the controller
/// are stopped again; machine agents that a former supervisor has left running continue.
pub async fn start(args: &UpArgs, dir: &DataDir, output: &Output) -> Result<ClientFile, CommandError> {
    identity::require_no_foreign_files(dir)?;
    lock::require_no_migration(dir)?;
    args.store.check(dir, lock::holder(dir).is_some())?;
    dir.create()?;
    let purpose = match (args.new_identity, args.moved) {
        (true, _) => CopyPurpose::NewSystem,
        (false, true) => CopyPurpose::Moved,
        (false, false) => CopyPurpose::Unknown,
    };
    // what was started before the folder was moved ends, but may still run
    if identity::was_moved(dir) {
        stop::stop_all(dir).await;
    }
    identity::establish(dir, purpose)?;
    let is_running = lock::holder(dir).is_some();
    store_settings(args, dir, is_running, output)?;
    let variables = args.store.variables(dir, is_running)?;
    let is_marked = args.restored && mark_restored(dir, is_running)?;
    let exits = dir.controller_exits();
    ProcessExits::forget(&exits)
        .map_err(|error| CommandError::new(format!("cannot delete {}: {error}", exits.display())))?;
    let start = |variables| {
        check_port_free(dir)?;
        Supervisor::start(dir, variables)
    };
    let mut supervisor = match is_running {
        true => {
            resume(dir);
            None
        }
        false => Some(start(variables)?),
    };
    // the running supervisor may end now, because of a `pintle down` that has not ended yet
    let replace = || start(args.store.variables(dir, false)?);
    let file = match wait_for_controller(dir, &mut supervisor, replace).await {
        Ok(file) => file,
        Err(failure) => {
            // A controller that does not answer must not be left running.
            if supervisor.is_some() {
                stop::stop_failed_start(dir).await;
            }
            // The next `up` may find another store.
            if is_marked {
                forget_restored(dir).ok(); // otherwise the next one starts an unnecessary store generation
            }
            return Err(failure);
        }
    };
    forget_restored(dir)?;
    match local_etcd::is_used(dir)? {
        true => wait_for_second_controller(dir, output, file).await,
        false => Ok(file),
    }
}

/// Waits until the second controller answers, and returns the client file with its address. A system that has only the
/// first one is up.
async fn wait_for_second_controller(
    dir: &DataDir,
    output: &Output,
    file: ClientFile,
) -> Result<ClientFile, CommandError> {
    let end = Instant::now() + second_controller::START_TIMEOUT;
    while second_controller::listed_address(dir).await?.is_none() {
        if Instant::now() > end {
            // its own log is missing if its data folder could not be made
            let [log, supervisor] = ["controller-2", "supervisor"].map(|name| dir.log(name));
            let (log, supervisor) = (log.display(), supervisor.display());
            output.warn(&[format!("the second controller does not answer; see {log} and {supervisor}")]);
            break;
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(read_client_file(dir)?.unwrap_or(file))
}

/// Makes the controller start a new store generation. Returns whether this was not requested before.
fn mark_restored(dir: &DataDir, is_running: bool) -> Result<bool, CommandError> {
    if is_running {
        let text = format!("cannot start a new store generation: {} is running", dir.path().display());
        return Err(CommandError::new(text).hint("pintle down, then pintle up --restored"));
    }
    let mark = dir.restored_mark();
    let is_new = !exists(&mark).map_err(|error| CommandError::new(error.to_string()))?;
    renewal::start_store_generation(dir)
        .map_err(|error| CommandError::new(format!("cannot write {}: {error}", mark.display())))?;
    Ok(is_new)
}

/// Deletes the mark of a restored store. Without it, the next controller continues the store generation.
fn forget_restored(dir: &DataDir) -> Result<(), CommandError> {
    let mark = dir.restored_mark();
    let forgotten = ignore_not_found(std::fs::remove_file(&mark));
    forgotten
        .map(drop)
        .map_err(|error| CommandError::new(format!("cannot remove {}: {error}", mark.display())))
}

/// Stores the settings of the arguments after checking that they can be used on this host.
fn store_settings(
    args: &UpArgs,
    dir: &DataDir,
    is_running: bool,
    output: &Output,
) -> Result<(), CommandError> {
    let before = UpSettings::read(dir)?;
    let root = args.base.as_ref().map(std::path::absolute).transpose();
    let root = root.map_err(|error| CommandError::new(format!("cannot use this base folder: {error}")))?;
    let mut settings = UpSettings {
        provider: args.provider.unwrap_or(before.provider),
        default_root: root.or_else(|| before.default_root.clone()),
        base_roots: before.base_roots.clone(),
        listen: args.listen.or(before.listen),
        charms: before.charms.clone(),
        local_etcd: args.store.is_local_etcd() || (local_etcd::is_used(dir)? && !args.store.is_other_etcd()),
    };
    let cannot_change = || {
        let text = format!("cannot change settings: {} is running", dir.path().display());
        CommandError::new(text).hint("pintle down, then pintle up")
    };
    if settings != before && is_running {
        return Err(cannot_change());
    }
    if !args.charms.is_empty() {
        let charms: std::io::Result<_> = args.charms.iter().map(std::path::absolute).collect();
        settings.charms = charms
            .map_err(|error| CommandError::new(format!("cannot use this directory of charms: {error}")))?;
    }
    if settings.provider != before.provider
        && exists(&dir.client_file()).map_err(|error| CommandError::new(error.to_string()))?
    {
        let text = format!(
            "cannot change the provider: the machines of this data folder use provider {}",
            before.provider
        );
        return Err(CommandError::new(text).hint("to use another data folder: --data DIR"));
    }
    let has_base = args.base.is_some() || !args.base_root.is_empty();
    if has_base && settings.provider != ProviderKind::Nspawn {
        return Err(CommandError::usage("--base and --base-root require --provider nspawn"));
    }
    if !args.base_root.is_empty() && is_running {
        return Err(cannot_change());
    }
    if let Some(address) = args.listen {
        check_listen_address(address)?;
    }
    if settings.provider == ProviderKind::Nspawn && !is_running {
        nspawn::require()?;
        let progress = Progress::new(output);
        for source in &args.base_root {
            let made = source.make(dir, &|step| progress.show(step))?;
            settings.base_roots.retain(|known: &BaseRoot| known.base != made.base);
            settings.base_roots.push(made);
        }
        let base = Bases::of_settings(&settings, dir).default;
        if !base.is_dir() {
            output
                .print_remark(&format!("Creating the base system of machines. {}\n", base_system::ESTIMATE));
            base_system::make_default(&base, &|step| progress.show(step))?;
        }
        progress.finish("Created the base systems");
    }
    if settings == before { Ok(()) } else { settings.write(dir) }
}

/// Rejects an address that the controller cannot listen on, before it is stored.
fn check_listen_address(address: IpAddr) -> Result<(), CommandError> {
    if address.is_unspecified() || address.is_loopback() {
        let text = format!("cannot listen on {address}: other machines cannot reach this address");
        return Err(CommandError::usage(text).hint("use an address of this host; see: ip address"));
    }
    match std::net::TcpListener::bind((address, 0)) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = format!("cannot listen on {address}: {error}");
            Err(CommandError::new(text).hint("use an address of this host; see: ip address"))
        }
    }
}

/// Checks that the controller can listen on its stored address, which agents and commands use. A controller that a
/// killed supervisor left running may still use it: the new supervisor stops that controller.
fn check_port_free(dir: &DataDir) -> Result<(), CommandError> {
    let Some(address) = read_client_file(dir)?.map(|file| file.controller) else { return Ok(()) };
    if Process::read_alive(&dir.controller_pid()).is_some() {
        return Ok(());
    }
    match std::net::TcpListener::bind(&address) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let text =
                format!("cannot start: the controller's address {address} is in use by another program");
            let port = address.rsplit(':').next().unwrap_or_default();
            Err(CommandError::new(text)
                .hint(format!("stop that program first; to find it: ss -ltnp sport = :{port}")))
        }
        // The controller reports any other error.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Continues a supervisor that was stopped (SIGSTOP), and makes it start at once a controller or an etcd that has ended.
fn resume(dir: &DataDir) {
    let Some(supervisor) = lock::holder(dir) else { return };
    // An error means that it has ended meanwhile: the controller does not answer then.
    let _ = supervisor.signal(Signal::SIGCONT);
    let lacks_one = || lock::etcd(dir).is_none() || lock::controller(&dir.second_controller()).is_none();
    let has_local_etcd = local_etcd::is_used(dir).unwrap_or_default();
    if lock::controller(dir).is_none() || (has_local_etcd && lacks_one()) {
        let _ = supervisor.signal(Signal::SIGHUP);
    }
}

/// The supervisor that this command has started.
struct Supervisor {
    process: Child,
    /// The lengths of the logs of the supervisor and the controller before it was started.
    log_bytes: [u64; 2],
}

/// The logs that name the reason of a failed start.
const LOGS: [&str; 2] = ["supervisor", "controller"];

impl Supervisor {
    /// Starts the supervisor process, which detaches itself by starting a new session.
    fn start(dir: &DataDir, variables: Vec<(&'static str, OsString)>) -> Result<Supervisor, CommandError> {
        let to_error = |error: std::io::Error| {
            CommandError::new(format!("cannot start the supervisor: {}", not_started(&error)))
        };
        let path = dir.log("supervisor");
        let log_bytes = LOGS.map(|log| log_tail::bytes(&dir.log(log)));
        let log = log_file::open(&path)
            .map_err(|error| CommandError::new(format!("cannot open {}: {error}", path.display())))?;
        let process = Command::new(std::env::current_exe().map_err(to_error)?)
            .arg("supervise")
            .arg("--data")
            .arg(dir.path())
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(to_error)?)
            .stderr(log)
            .current_dir("/")
            .spawn()
            .map_err(to_error)?;
        Ok(Supervisor { process, log_bytes })
    }

    /// The error if the supervisor has ended: its own one, or that of a controller that refuses its store.
    fn ended(&mut self, dir: &DataDir) -> Option<CommandError> {
        let status = self.process.try_wait().ok()??;
        let is_refused = status.code() == Some(EXIT_REFUSED.into());
        let of = usize::from(is_refused);
        let error = log_tail::error_lines(&dir.log(LOGS[of]), self.log_bytes[of]);
        let error = error.map(|error| format!(":\n{error}")).unwrap_or_default();
        let text = format!("the {} exited ({status}){error}", LOGS[of]);
        Some(process_exits::with_remedy(CommandError::new(text), dir, LOGS[of]))
    }
}

/// Waits until the controller that the supervisor of this folder started answers, and returns its client file. `supervisor`
/// is the one of this command; none if another one ran. `start` starts one of this command when that one has ended.
async fn wait_for_controller(
    dir: &DataDir,
    supervisor: &mut Option<Supervisor>,
    start: impl Fn() -> Result<Supervisor, CommandError>,
) -> Result<ClientFile, CommandError> {
    let started = Instant::now();
    let mut running_since = None;
    let mut last_error = CommandError::new("the controller does not answer");
    while started.elapsed() < START_TIMEOUT {
        if let Some(failure) = supervisor.as_mut().and_then(|supervisor| supervisor.ended(dir)) {
            // If another `up` started a supervisor first, this command waits for that one.
            if lock::holder(dir).is_none() {
                return Err(failure);
            }
            *supervisor = None;
        }
        if supervisor.is_none() && lock::holder(dir).is_none() {
            *supervisor = Some(start()?);
            running_since = None;
        }
        let is_failing =
            || ProcessExits::read(&dir.controller_exits()).is_some_and(|exits| exits.is_failing());
        if (is_failing() || started.elapsed() > FULL_DISK_TIMEOUT)
            && let Some(failure) = process_exits::why_no_controller(dir)
        {
            return Err(failure);
        }
        if is_own_controller(dir) {
            let since = *running_since.get_or_insert_with(Instant::now);
            match request_about(dir).await {
                Ok(Some(file)) => return Ok(file),
                Ok(None) if supervisor.is_none() && since.elapsed() > CLIENT_FILE_TIMEOUT => {
                    return Err(no_client_file(dir));
                }
                Ok(None) => {}
                Err(failure) if failure.api_code == Some(ErrorCode::Unauthorised) => return Err(failure),
                Err(failure) => last_error = failure,
            }
        }
        sleep(POLL_INTERVAL).await;
    }
    Err(process_exits::with_remedy(last_error, dir, "controller"))
}

/// Whether the running controller is a child of the current supervisor, not one that a killed supervisor left.
fn is_own_controller(dir: &DataDir) -> bool {
    let controller = lock::controller(dir).and_then(|process| process.stat());
    let supervisor = lock::holder(dir);
    controller.zip(supervisor).is_some_and(|(controller, supervisor)| controller.parent == supervisor.pid)
}

/// Reads the client file and sends one request to the controller. `None` if there is no client file yet.
async fn request_about(dir: &DataDir) -> Result<Option<ClientFile>, CommandError> {
    let Some(file) = read_client_file(dir)? else {
        return Ok(None);
    };
    client(&file)?.handle(GetAbout).await?;
    Ok(Some(file))
}
