//! The charm that `deploy` and `refresh` name: read, checked as a whole, and brought to the controller.

use crate::command_error::Failure;
use crate::session::Session;
use api::{ArchiveInfo, FindArchive, UploadArchive, UserPort};
use charms::{CharmSource, ReadOptions, read};
use std::path::Path;

/// Reads the charm at `path`. All its problems are in one failure, one a line, before anything is sent.
pub fn load<A>(path: &str, force: bool, at: &Session<A>) -> Result<CharmSource, Failure> {
    // `local:./x` is what bundles and old scripts write.
    let place = Path::new(path.strip_prefix("local:").unwrap_or(path));
    if !place.exists() {
        let help =
            "give the path of a charm folder or of a .charm file, like ./web; there is no charm store here";
        return Err(Failure::new(format!("no charm at {path:?}")).hint(help));
    }
    let described = ["metadata.yaml", "charmcraft.yaml"];
    if place.is_dir() && !described.iter().any(|file| place.join(file).exists()) {
        let text = format!("{path:?} is no charm: it has neither {} nor {}", described[0], described[1]);
        return Err(Failure::new(text));
    }
    let options = ReadOptions { cache: at.charm_cache.clone(), force };
    let source = read(place, &options).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
        Failure::new(format!("cannot use charm {path:?}:\n{}", lines.join("\n")))
    })?;
    at.output.warn(&source.notes);
    let declares =
        [("storages", !source.charm.storage.is_empty()), ("resources", !source.charm.resources.is_empty())];
    for (what, _) in declares.iter().filter(|(_, declared)| *declared) {
        at.output.warn(&[format!("{what} are not supported yet: the charm's hooks run without")]);
    }
    Ok(source)
}

/// Sends the archive, unless the controller has it already.
pub async fn bring<A: UserPort>(source: CharmSource, at: &Session<A>) -> Result<ArchiveInfo, Failure> {
    if let Some(there) = at.api.handle(FindArchive { sha256: source.sha256.to_owned() }).await? {
        return Ok(there);
    }
    let uploaded = at.api.handle(UploadArchive(source.archive)).await?;
    if uploaded.sha256 != source.sha256 {
        return Err(Failure::new("the charm was changed on its way to the controller").hint("try again"));
    }
    Ok(uploaded)
}
