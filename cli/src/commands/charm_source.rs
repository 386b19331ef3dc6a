//! Reads, validates and uploads the charm of `deploy` and `refresh`.
//!
//! All problems of a charm are reported together, before anything is sent to the controller.

use crate::arguments::ignored_flags;
use crate::command_error::CommandError;
use crate::progress::Progress;
use crate::session::CommandSession;
use api::{ArchiveInfo, FindArchive, Status, UploadArchive, UserPort};
use charms::read::{METADATA_FILES, TargetHost, read_for_host};
use charms::{CharmSource, ReadOptions};
use clap::Args;
use state::transitions::instance::is_enrolled;
use std::path::Path;

/// Flags of Juju's `deploy` and `refresh` that are answered with a warning.
#[derive(Debug, Default, Args)]
pub struct IgnoredSourceArgs {
    #[arg(long, hide = true)]
    pub bind: Option<String>,
    #[arg(long, hide = true)]
    pub channel: Option<String>,
    #[arg(long, hide = true)]
    pub revision: Option<String>,
}

impl IgnoredSourceArgs {
    /// The warnings about the flags that were given.
    pub fn warnings(&self) -> Vec<String> {
        ignored_flags([
            ("--bind", self.bind.is_some(), "all machines are in one network, which the host provides"),
            ("--channel", self.channel.is_some(), "the charm comes from a path, which has no channels"),
            ("--revision", self.revision.is_some(), "each changed charm from a path gets the next revision"),
        ])
    }
}

/// The hosts of these machines. New machines and those of the provider are on this host; an enrolled one may be on any.
pub fn target_host<'a>(machines: impl IntoIterator<Item = &'a String>, status: &Status) -> TargetHost {
    let is_enrolled = |name: &String| {
        let instance = status.machines.get(name).and_then(|machine| machine.instance_id.as_deref());
        instance.is_some_and(is_enrolled)
    };
    let mut machines = machines.into_iter().peekable();
    match machines.peek().is_some() && machines.all(is_enrolled) {
        true => TargetHost::Other,
        false => TargetHost::This,
    }
}

/// Reads and validates the charm at `place`, for machines on these hosts. The error lists all problems, one per line.
pub fn load<A>(
    place: &Path,
    force: bool,
    target: TargetHost,
    session: &CommandSession<A>,
) -> Result<CharmSource, CommandError> {
    if place.is_dir() && !charms::is_charm_folder(place) {
        let [metadata, charmcraft] = METADATA_FILES;
        let text = format!("{place:?} is not a charm: it has neither {metadata} nor {charmcraft}");
        return Err(CommandError::new(text));
    }
    let options = ReadOptions { cache: session.dir.charm_cache(), force };
    let progress = Progress::new(&session.output);
    let source = read_for_host(place, &options, target, &|step| progress.show(step));
    let done = if source.is_ok() { "Installed" } else { "Could not install" };
    progress.finish(&format!("{done} the charm's Python packages"));
    let source = source.map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
        CommandError::new(format!("cannot use charm {place:?}:\n{}", lines.join("\n")))
    })?;
    session.output.warn(&source.notes);
    Ok(source)
}

/// Uploads the archive, unless the controller already has it.
///
/// # Errors
/// If the upload is refused, or arrives damaged.
pub async fn upload<A: UserPort>(
    source: CharmSource,
    session: &CommandSession<A>,
) -> Result<ArchiveInfo, CommandError> {
    if let Some(known) = session.api.handle(FindArchive { sha256: source.sha256.to_owned() }).await? {
        return Ok(known);
    }
    let uploaded = session.api.handle(UploadArchive(source.archive)).await?;
    if uploaded.sha256 != source.sha256 {
        let text =
            format!("charm upload corrupted: expected sha256 {}, got {}", source.sha256, uploaded.sha256);
        return Err(CommandError::new(text).hint("try again"));
    }
    Ok(uploaded)
}
