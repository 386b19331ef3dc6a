//! `dev CHARM`: deploys a charm from its folder again whenever a file of it is saved, and shows its hooks as they run.
//!
//! The application is in a model of its own, which stays when the command ends. A unit in error takes each new revision
//! and runs its failed hook again at once. A charm that cannot be used is reported, and the next save is waited for.

use crate::arguments::GlobalArguments;
use crate::command_error::CommandError;
use crate::commands::resource_files::ResourceFiles;
use crate::commands::{bases, charm_source, settings, up};
use crate::data_dir::DataDir;
use crate::development::file_watch::FileWatch;
use crate::development::run_display::RunDisplay;
use crate::development::{fake_applications, fakes_file, typed_lines};
use crate::needed_flags::needed_flags;
use crate::output::Output;
use crate::session::{CommandSession, chosen_model, explain};
use crate::supervisor::identity;
use crate::supervisor::settings::UpSettings;
use crate::times::now_ms;
use api::client::Client;
use api::error::ErrorCode;
use api::{AdvanceClock, CreateModel, Deploy, GetStatus, Handle, InModel, ListModels, Refresh, ResolveUnit};
use charms::CharmSource;
use charms::read::TargetHost;
use clap::Args;
use state::charm::Charm;
use state::terms::duration;
use state::terms::names::Uuid;
use state::terms::provider_kind::ProviderKind;
use state::terms::status::WorkloadStatus;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

/// How the name of a model begins that this command creates; the name of the application follows.
const MODEL_PREFIX: &str = "dev-";

/// The pause before fake applications are applied again because an earlier fake application is still being removed.
const FAKES_RETRY: Duration = Duration::from_millis(500);

/// Arguments of `dev`.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// Path of a charm folder
    #[arg(required_unless_present = "advance")]
    pub charm: Option<PathBuf>,
    /// Name of the application; by default the name of the charm
    pub application: Option<String>,
    /// A setting, key=value or key=@FILE, or a YAML file of settings; may be repeated
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub config: Vec<String>,
    /// A file for a resource of the charm; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub resource: Vec<String>,
    /// Let the charm read the credential of its cloud
    #[arg(long)]
    pub trust: bool,
    /// A YAML file with fake applications: what the charm is related to
    #[arg(long, alias = "scenario", value_name = "FILE")]
    pub fakes: Option<PathBuf>,
    /// Advance the clock of the model, for example by 5m: update-status, retries of hooks, and rotations and expiries of
    /// secrets become due. Without a charm, the clock of a running dev is advanced
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    pub advance: Option<u64>,
}

/// Parses a duration in the syntax of Go; returns milliseconds.
fn duration_ms(text: &str) -> Result<u64, String> {
    let ns = duration::parse_ns(text).ok_or("expected a duration, for example 5m or 1h30m")?;
    Ok((ns / 1e6) as u64)
}

/// Deploys the charm, and again on each save, until SIGINT or SIGTERM.
///
/// # Errors
/// If no controller can be started, the machines are not folders of this host, or the folder cannot be watched.
pub async fn run(args: &DevArgs, global: &GlobalArguments) -> Result<(), CommandError> {
    let started = Instant::now();
    let Some(charm) = &args.charm else { return advance_other(args, global).await };
    let dir = DataDir::choose(global.data.as_deref())?;
    let folder = charm.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
        CommandError::new(format!("no charm folder at {}", charm.display()))
            .hint("give the path of a charm folder, for example ./web")
    })?;
    let charm_watch = FileWatch::of_charm(&folder)?;
    let fakes = args.fakes.as_deref().map(absolute).transpose()?;
    let fakes_watch = fakes.as_deref().map(FileWatch::of_file).transpose()?;
    let output = Arc::new(Output::of_process(global));
    start_controller(&dir, &output).await?;
    let to_error = |error: std::io::Error| CommandError::new(format!("cannot catch signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(to_error)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(to_error)?;

    let mut development = Development {
        args,
        global,
        dir: &dir,
        output: Arc::clone(&output),
        folder,
        fakes,
        since_ms: now_ms(),
        deployed: None,
        display: None,
        needs_fakes: true,
    };
    // a signal ends a request that is being made; the next `dev` repeats it
    let working = async {
        development.deploy(started).await;
        if let Some(by_ms) = args.advance {
            development.advance(by_ms).await;
        }
        let (mut typed, mut reads_typed) = (typed_lines::receive(), true);
        loop {
            development.apply_fakes().await;
            let fakes_changed = async {
                match &fakes_watch {
                    Some(watch) => watch.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                saved = charm_watch.changed() => development.deploy(saved).await,
                _ = fakes_changed => development.needs_fakes = true,
                () = sleep(FAKES_RETRY), if development.retries_fakes() => {}
                line = typed.recv(), if reads_typed => match line {
                    Some(line) => development.run_typed_command(&line).await,
                    None => reads_typed = false,
                },
            }
        }
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = working => {}
    }
    development.print_end()
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path)
        .map_err(|error| CommandError::new(format!("cannot use {}: {error}", path.display())))
}

/// Advances the clock of the model of `-m`, else of the only model in which charms are developed.
async fn advance_other(args: &DevArgs, global: &GlobalArguments) -> Result<(), CommandError> {
    let by_ms = args.advance.expect("clap requires a charm or this");
    let dir = DataDir::choose(global.data.as_deref())?;
    identity::check(&dir)?;
    let session = CommandSession::open(global)?;
    let models = session.api.handle(ListModels).await.map_err(|error| explain(error.into(), &dir))?;
    let for_development: Vec<String> =
        models.into_iter().filter(|model| model.development).map(|model| model.name).collect();
    let model = match (&chosen_model(global)?, &for_development[..]) {
        (Some(_), _) => session.model.clone(),
        (None, [only]) => only.clone(),
        (None, []) => {
            let error = CommandError::new("cannot advance the clock: no model has the setting development");
            return Err(error.hint("start with: pintle dev CHARM-FOLDER"));
        }
        (None, several) => {
            let error = CommandError::new(format!(
                "cannot advance the clock: several models: {}",
                several.join(", ")
            ));
            return Err(error.hint("name the model: -m MODEL"));
        }
    };
    let advanced = session.api.in_model(&model).handle(AdvanceClock { by_ms }).await?;
    let text = advanced_text(&model, advanced.answer.advanced_ms);
    session.output.print(&text)
}

fn advanced_text(model: &str, advanced_ms: u64) -> String {
    let seconds = Duration::from_millis(advanced_ms).as_secs_f64();
    format!("-- the clock of model {model} is advanced by {seconds} s altogether\n")
}

/// Starts the controller of the data folder if it does not run, and waits until it answers.
async fn start_controller(dir: &DataDir, output: &Output) -> Result<(), CommandError> {
    if UpSettings::read(dir)?.provider != ProviderKind::Local {
        let text = format!("the machines of {} are not folders of this host", dir.path().display());
        return Err(CommandError::new(format!("cannot show hooks: {text}"))
            .hint("to use another data folder: --data DIR"));
    }
    up::start(&up::UpArgs::default(), dir, output).await.map(drop)
}

/// The charm that is deployed.
struct Deployed {
    application: String,
    /// The digest of its archive.
    sha256: String,
    /// What the charm declares.
    charm: Charm,
    session: CommandSession<Client>,
}

/// A charm under development.
struct Development<'a> {
    args: &'a DevArgs,
    global: &'a GlobalArguments,
    dir: &'a DataDir,
    output: Arc<Output>,
    folder: PathBuf,
    /// The file of the fake applications.
    fakes: Option<PathBuf>,
    /// When the command began.
    since_ms: i64,
    /// None until the charm could be deployed for the first time.
    deployed: Option<Deployed>,
    /// The display of the hooks, and the model and the application that it shows.
    display: Option<((Uuid, String), RunDisplay)>,
    /// Whether the fake applications are to be applied.
    needs_fakes: bool,
}

impl Development<'_> {
    /// Deploys the charm if it has changed since `saved`; prints why if that fails.
    async fn deploy(&mut self, saved: Instant) {
        if let Err(failure) = self.refresh_or_deploy(saved).await {
            self.report(failure);
            self.output.print_remark("-- waiting for the next save\n");
        }
    }

    fn report(&self, failure: CommandError) {
        let model = self.deployed.as_ref().map(|deployed| deployed.session.model.clone());
        let flags = needed_flags(&GlobalArguments { model, ..self.global.clone() });
        self.output.print_remark(&explain(failure, self.dir).complete(&flags).text());
    }

    /// Applies the fake applications if their file or the charm has changed; prints why if that fails.
    async fn apply_fakes(&mut self) {
        let (Some(path), Some(deployed), true) = (&self.fakes, &self.deployed, self.needs_fakes) else {
            return;
        };
        let applied = match fakes_file::read(path, &deployed.charm) {
            Ok(fakes) => fake_applications::apply(&fakes, &deployed.application, &deployed.session).await,
            Err(failure) => Err(failure),
        };
        self.needs_fakes = applied == Ok(false);
        if let Err(failure) = applied {
            self.report(failure);
        }
    }

    /// Whether the fake applications could not be applied as a whole yet.
    fn retries_fakes(&self) -> bool {
        self.needs_fakes && self.fakes.is_some() && self.deployed.is_some()
    }

    /// Advances the clock of the model; prints why if that fails.
    async fn advance(&self, by_ms: u64) {
        let Some(Deployed { session, .. }) = &self.deployed else {
            self.report(CommandError::new("cannot advance the clock: the charm is not deployed yet"));
            return;
        };
        match session.api.handle(AdvanceClock { by_ms }).await {
            Ok(advanced) => {
                let text = advanced_text(&session.model, advanced.answer.advanced_ms);
                self.output.print(&text).ok(); // a remark
            }
            Err(error) => self.report(error.into()),
        }
    }

    /// Executes a line that was typed.
    async fn run_typed_command(&self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["advance" | "--advance", duration] => match duration_ms(duration) {
                Ok(by_ms) => self.advance(by_ms).await,
                Err(text) => self.report(CommandError::new(text)),
            },
            _ => self.output.print_remark("-- type: advance DURATION, for example: advance 5m\n"),
        }
    }

    async fn refresh_or_deploy(&mut self, saved: Instant) -> Result<(), CommandError> {
        let any_model = CommandSession::open(self.global)?;
        let source = charm_source::load(&self.folder, false, TargetHost::This, &any_model)?;
        if self.deployed.as_ref().is_some_and(|deployed| deployed.sha256 == source.sha256) {
            return Ok(());
        }
        let application = self.args.application.clone().unwrap_or_else(|| source.charm.name.clone());
        let model = match chosen_model(self.global)? {
            Some(name) => name,
            None => format!("{MODEL_PREFIX}{application}"),
        };
        let uuid = find_or_create_model(&any_model, &model).await?;
        let session = CommandSession::open(&GlobalArguments { model: Some(model), ..self.global.clone() })?;
        let of = (uuid, application.clone());
        if self.display.as_ref().is_none_or(|(shown, _)| *shown != of) {
            let output = Arc::clone(&self.output);
            let display = RunDisplay::start(self.dir, uuid, &application, self.since_ms, output)?;
            self.display = Some((of, display));
        }
        let (sha256, charm) = (source.sha256.clone(), source.charm.clone());
        let url = self.upload_and_apply(source, &application, &session).await?;
        self.output.print(&format!(
            "-- {application} is deployed from {url} in model {} ({:.2} s)\n",
            session.model,
            saved.elapsed().as_secs_f64()
        ))?;
        self.deployed = Some(Deployed { application, sha256, charm, session });
        self.needs_fakes = true;
        Ok(())
    }

    /// Refreshes the application, or deploys it if it does not exist. Returns the URL of its charm.
    async fn upload_and_apply(
        &self,
        source: CharmSource,
        application: &str,
        session: &CommandSession<Client>,
    ) -> Result<String, CommandError> {
        let flags = settings::from_flags(&self.args.config, Some(application))?;
        let resources = ResourceFiles::check(&self.args.resource, &source.charm.resources)?;
        let base = bases::requested(self.dir, None, &source.charm)?;
        let sha256 = charm_source::upload(source, session).await?.sha256;
        let resources = resources.upload(session).await?;
        let refresh = Refresh {
            application: application.to_owned(),
            sha256: sha256.clone(),
            forced: true,
            only_if_changed: true,
            // what the user changes with `config` meanwhile is kept
            config: if self.deployed.is_none() { flags.clone() } else { BTreeMap::new() },
            trusted: self.args.trust,
            resources: resources.clone(),
        };
        let refreshed = match session.api.handle(refresh).await {
            Err(error) if error.code == ErrorCode::NotFound => None,
            answer => Some(answer?),
        };
        if let Some(refreshed) = refreshed {
            session.record_write(refreshed.revision);
            resolve_all(application, session).await?;
            return Ok(refreshed.answer.charm.url);
        }
        let deploy = Deploy {
            application: Some(application.to_owned()),
            sha256,
            units: 1,
            config: flags,
            trusted: self.args.trust,
            base,
            resources,
            ..Deploy::default()
        };
        let deployed = session.api.handle(deploy).await?;
        session.record_write(deployed.revision);
        Ok(deployed.answer.charm.url)
    }

    /// Prints what stays, and how it is removed.
    fn print_end(self) -> Result<(), CommandError> {
        drop(self.display);
        let Some(Deployed { application, session, .. }) = self.deployed else { return Ok(()) };
        let text = format!(
            "\n{application} stays in model {model}; to remove it: pintle destroy-model {model}\n",
            model = session.model
        );
        self.output.print(&self.output.complete(&text))
    }
}

/// The model of this name, which is created if it does not exist.
async fn find_or_create_model(session: &CommandSession<Client>, name: &str) -> Result<Uuid, CommandError> {
    let models = session.api.handle(ListModels).await?;
    if let Some(model) = models.into_iter().find(|model| model.name == name) {
        return Ok(model.uuid);
    }
    let config = BTreeMap::from([("development".to_owned(), "true".to_owned())]);
    let created = session.api.handle(CreateModel { name: name.to_owned(), config }).await?;
    Ok(created.uuid)
}

/// Lets the units of the application that are in error run their failed hook again, with the new revision.
async fn resolve_all(application: &str, session: &CommandSession<Client>) -> Result<(), CommandError> {
    let status = session.api.handle(GetStatus).await?;
    let units = status.applications.get(application).map(|found| found.units.clone()).unwrap_or_default();
    for (unit, _) in units.iter().filter(|(_, unit)| unit.workload.current == WorkloadStatus::Error) {
        match session.api.handle(ResolveUnit { unit: unit.clone().into(), retry: true }).await {
            // its error has ended meanwhile
            Err(error) if error.code == ErrorCode::Invalid => {}
            answer => session.record_write(answer?.revision),
        }
    }
    Ok(())
}
