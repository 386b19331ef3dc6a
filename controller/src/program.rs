//! The program `pintle-controller`: parses the arguments, opens the data folder, and serves until it is stopped.
//!
//! It exits on SIGTERM and SIGINT, and with an error when the store is broken. On SIGHUP it reads the log level again.

use crate::environment::{Environment, uuid_v4};
#[cfg(feature = "etcd")]
use crate::etcd_arguments::{self, EtcdArguments};
use crate::host_environment::HostEnvironment;
use crate::installation::{Installation, MissingFile, StorePlace};
#[cfg(feature = "etcd")]
use crate::migrate::{self, MigrateArguments};
use crate::required_file::UnusableFile;
use crate::secret_keys::SecretKeys;
use crate::shared_files::CACHE_BYTES_MAX;
use crate::store::engine::Engine;
use crate::store::sqlite::{OpenError, Options, Sqlite};
use crate::store::unavailable::is_damage;
use crate::store::{Store, StoreError};
use crate::{Controller, check, janitor, secret_key_rotation, server, shared_presence};
#[cfg(feature = "etcd")]
use crate::{etcd_certificates, further_controller};
use anyhow::{Context, Result, anyhow};
use api::CONTROLLER_DIR;
use api::error::ApiError;
use clap::{Parser, Subcommand};
use host::logging::{LEVEL_FILE, LogFilter};
use host::restart::EXIT_REFUSED;
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{GLOBAL, KeyParts, Kind, LeaderDoc, Model, last_id};
use state::terms::names::Uuid;
use state::transitions::secret_resealing;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long a stop waits until the other controllers know it.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const LOG_LEVEL_POLL: Duration = Duration::from_secs(5);

/// The controller of a data folder: stores its models and serves users and agents over HTTPS.
#[derive(Parser)]
#[command(name = "pintle-controller", version)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The data folder
    #[arg(long, value_name = "DIR", required = true)]
    data: Option<PathBuf>,
    /// The address to listen on; port 0 selects the port of the last run, or a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// An additional address to listen on, with the same port; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    also_listen: Vec<IpAddr>,
    /// The store was restored from a backup, or is to start empty: starts a new store generation, and agents report
    /// again what the store lacks
    #[arg(long)]
    restored: bool,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: EtcdArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Verify the store of a controller that does not run; changes nothing. Exits with 0 if all is well, 1 if there are
    /// findings, 2 if the store cannot be verified
    Check {
        /// The data folder, or a folder with a copy of the store
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Add a key for the contents of secrets, of a controller that does not run. The next start seals new contents with
    /// it, and older ones again; the older keys stay in the file, because a unit may have sent what they sealed
    RotateSecretKey {
        /// The data folder
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Move the models of a controller that does not run from the data folder to etcd, or back. Units continue meanwhile.
    /// The old store is kept
    #[cfg(feature = "etcd")]
    Migrate(MigrateArguments),
    /// Make the data folder of one more controller of this system, whose models are in etcd: a copy of the identity, the
    /// certificates and the keys of secrets. The controller may run
    #[cfg(feature = "etcd")]
    AddController {
        /// The data folder
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The new data folder, to be moved to the host of the new controller
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
    },
    /// Make the certificates of the etcd that `pintle up` starts, in this folder
    #[cfg(feature = "etcd")]
    #[command(hide = true)]
    EtcdCertificates {
        /// The folder
        folder: PathBuf,
    },
    /// Exit with 0 if etcd answers
    #[cfg(feature = "etcd")]
    #[command(hide = true)]
    EtcdReady(EtcdArguments),
}

/// Runs the program. It is part of the library, so that it is compiled only once.
pub fn main() {
    // This must run before the runtime opens its descriptors.
    host::inherited::protect();
    let arguments = Arguments::parse();
    if let Some(Command::Check { dir }) = &arguments.command {
        std::process::exit(check::run(dir).into());
    }
    if let Some(Command::RotateSecretKey { dir }) = &arguments.command {
        std::process::exit(secret_key_rotation::run(dir));
    }
    #[cfg(feature = "etcd")]
    if let Some(Command::Migrate(arguments)) = &arguments.command {
        std::process::exit(migrate::run(arguments));
    }
    #[cfg(feature = "etcd")]
    if let Some(Command::AddController { data, to }) = &arguments.command {
        std::process::exit(further_controller::run(data, to));
    }
    #[cfg(feature = "etcd")]
    if let Some(Command::EtcdCertificates { folder }) = &arguments.command {
        std::process::exit(etcd_certificates::run(folder));
    }
    #[cfg(feature = "etcd")]
    if let Some(Command::EtcdReady(arguments)) = &arguments.command {
        std::process::exit(etcd_arguments::run_ready(arguments));
    }
    let started = server::descriptors::raise_limit();
    if let Err(error) = started.and_then(|()| run(arguments, host::logging::start())) {
        eprintln!("ERROR {error:#}");
        // A restart would find the same files, so the exit code makes the supervisor not restart it.
        let is_refused = error.downcast_ref().is_some_and(|why: &OpenError| why.needs_operator())
            || error.is::<MissingFile>()
            || error.is::<UnusableFile>()
            || is_refused_by_etcd(&error);
        std::process::exit(if is_refused { EXIT_REFUSED.into() } else { 1 });
    }
}

#[cfg(feature = "etcd")]
fn is_refused_by_etcd(error: &anyhow::Error) -> bool {
    error.is::<migrate::LeftStoreInUse>()
        || error.downcast_ref().is_some_and(|why: &crate::store::etcd::OpenError| why.needs_operator())
}

#[cfg(not(feature = "etcd"))]
fn is_refused_by_etcd(_: &anyhow::Error) -> bool {
    false
}

/// Opens the keys of secrets, and makes the first one. If a key is missing, the log names the file, and
/// everything but the secrets is served.
async fn open_secret_keys(installation: &Installation, store: &Engine) -> Result<SecretKeys> {
    let keys = SecretKeys::open(installation.secret_keys())?;
    let samples = store.read(|reader| secret_resealing::sample_contents(reader)).await;
    if keys.is_empty() && samples.is_empty() {
        keys.rotate()?;
    }
    if keys.lacks_key_of_any(&samples) {
        let file = keys.path().display();
        tracing::error!(
            "cannot open the secrets: the key of this store is not in {file}; restore the file from a backup"
        );
    }
    Ok(keys)
}

#[tokio::main(flavor = "current_thread")]
async fn run(arguments: Arguments, log_filter: LogFilter) -> Result<()> {
    let data = arguments.data.as_deref().context("--data is required")?;
    #[cfg(feature = "etcd")]
    if let Some(connection) = arguments.etcd.connection(data)? {
        let installation = Installation::open_with_store(data, arguments.restored, StorePlace::Etcd)?;
        let (store, _lock) =
            etcd_arguments::open(connection, data, &installation, arguments.restored).await?;
        return serve(&arguments, installation, Engine::Etcd(store), log_filter).await;
    }
    let installation = Installation::open_with_store(data, arguments.restored, StorePlace::Folder)?;
    #[cfg(feature = "etcd")]
    migrate::complete_at_start(data, installation.controller()).await?;
    let options =
        Options { restored: arguments.restored, ..Options::new(uuid_v4(host::random::random_u128())) };
    let store = Sqlite::open(&installation.store(), options)?;
    serve(&arguments, installation, Engine::Sqlite(store), log_filter).await
}

/// Returns the digests of all charm archives and files of resources.
async fn registered_files(store: &Engine) -> BTreeSet<String> {
    let registered = |reader: &dyn Reader| {
        let stored = reader.scan(&GLOBAL.prefix(Kind::Archive), "", usize::MAX);
        stored.iter().filter_map(|stored| Some(KeyParts::of(&stored.key)?.rest.to_owned())).collect()
    };
    store.read_available(registered).await.0
}

/// Returns the leader of each application that has one: the application and the unit.
async fn leaders(store: &Engine) -> Vec<(Uuid, Uuid)> {
    let leaders = |reader: &dyn Reader| {
        let models = read_all::<Uuid>(reader, &GLOBAL.prefix(Kind::ModelName));
        let of_model =
            |(_, model): (String, Uuid)| read_all::<LeaderDoc>(reader, &Model(model).prefix(Kind::Leader));
        let grants = models.into_iter().flat_map(of_model);
        grants.filter_map(|(key, grant)| Some((last_id(&key)?, grant.holder))).collect()
    };
    store.read_available(leaders).await.0
}

/// Serves users and agents until the process is stopped, or the store cannot be used any more.
async fn serve(
    arguments: &Arguments,
    mut installation: Installation,
    store: Engine,
    log_filter: LogFilter,
) -> Result<()> {
    let opened = store.clone();
    let data = arguments.data.as_deref().context("--data is required")?;
    let keys = open_secret_keys(&installation, &store).await?;
    let mut host = HostEnvironment::new(installation.archives())?.with_secret_keys(keys);
    let mut completing = None;
    if let Some(files) = store.files() {
        host = host.with_shared_files(files, CACHE_BYTES_MAX);
        completing = Some(host.complete_shared_files(registered_files(&store).await));
    }
    let statements = store.statements();
    let controller = Controller::new(store, host, installation.controller());
    let mut listen = arguments.listen;
    if let (0, Some(before)) = (listen.port(), installation.address()) {
        listen.set_port(before.port());
    }
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let (served_at, mut listeners) = (listener.local_addr()?, Vec::new());
    for address in &arguments.also_listen {
        let listen = SocketAddr::new(*address, listener.local_addr()?.port());
        let bound = TcpListener::bind(listen).await;
        listeners.push(bound.with_context(|| format!("cannot listen on {listen}"))?);
    }
    installation.store_address(served_at)?;
    if let Some(leases) = opened.leader_leases() {
        let taken = leases.take_for_leaders(leaders(&opened).await).await;
        taken.map_err(|outage| {
            anyhow!("cannot take the leases of leaders: {outage}\nhint: {}", outage.hint())
        })?;
    }
    if let Some(statements) = &statements {
        let served = statements.renew(&served_at.to_string()).await;
        served.map_err(|outage| anyhow!("cannot use the store: {outage}\nhint: {}", outage.hint()))?;
    }
    if let Err(error) = installation.create_first_user(&controller).await {
        // A damaged document of the first user does not prevent the start: the other users can be served.
        match error.downcast_ref::<ApiError>() {
            Some(damage) if is_damage(damage) => tracing::error!("cannot verify the first user: {damage}"),
            _ => return Err(error),
        }
    }
    completing.map(tokio::spawn); // it may take minutes, in which agents are served
    let acceptor = server::acceptor(&installation.certificate, &installation.key)
        .context("cannot use server.pem and server-key.pem")?;
    // The handlers are installed before the log line below, because a reader of that line may send a signal.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tracing::info!(address = %listener.local_addr()?, controller = %installation.controller(), "serving");
    listeners.push(listener);
    let stating = tokio::spawn(shared_presence::run(controller.clone(), served_at));
    if controller.store.statements().is_some() {
        let controller = controller.clone();
        tokio::spawn(async move { controller.follow_commits().await });
    }
    tokio::spawn(run_janitor(controller.clone()));
    tokio::spawn(follow_log_level(
        data.join(CONTROLLER_DIR).join(LEVEL_FILE),
        log_filter,
        signal(SignalKind::hangup())?,
    ));
    let served = controller.clone();
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::select! {
        () = server::serve(controller, listeners, acceptor, stop) => {
            stating.abort();
            if let Some(statements) = statements {
                let end = async {
                    // agents that have moved already keep what they have ended since
                    served.state_presence().await.ok();
                    statements.end().await.ok();
                };
                tokio::time::timeout(END_TIMEOUT, end).await.ok(); // else they end by themselves
            }
            Ok(())
        }
        error = opened.broken() => match error {
            StoreError::Broken(why) => {
                served.environment.on_store_failure(&why);
                Ok(())
            }
            error => Err(error.into()),
        }
    }
}

/// Applies the log level of the file, on SIGHUP and every few seconds.
async fn follow_log_level(file: PathBuf, log_filter: LogFilter, mut hangup: Signal) {
    loop {
        log_filter.read(&file);
        tokio::time::timeout(LOG_LEVEL_POLL, hangup.recv()).await.ok();
    }
}

async fn run_janitor(controller: Arc<Controller<Engine, HostEnvironment>>) {
    let mut janitor = janitor::Janitor::default();
    let mut next_ms = 0;
    loop {
        let now_ms = controller.environment.monotonic_ms();
        // An error is not handled here: the next sweep repeats what failed.
        let more = match now_ms >= next_ms {
            true => {
                let more = janitor.sweep(&controller).await;
                next_ms = if matches!(more, Ok(true)) { now_ms } else { now_ms + janitor::SWEEP_INTERVAL_MS };
                more
            }
            false => janitor.sweep_urgent(&controller).await,
        };
        if !matches!(more, Ok(true)) {
            controller.wait_for_sweep(next_ms.min(now_ms + janitor.interval_ms())).await;
        }
    }
}
