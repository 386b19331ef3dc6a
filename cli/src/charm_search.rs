//! Finds the charm that `deploy` or `refresh` names.
//!
//! A charm is named by a path, or by its name if it is in a charm directory: those of `PINTLE_CHARMS`, then those of
//! `up --charms`.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::settings::UpSettings;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable with charm directories, separated by colons.
pub const VARIABLE: &str = "PINTLE_CHARMS";

/// Finds the charm that a command names: any path that exists, whether or not it is a charm, else a charm of this name. The
/// prefixes `local:` and `ch:` of bundles and older clients are ignored, and so are the architecture and the
/// series of a charm of the store (`ch:amd64/jammy/web`).
///
/// # Errors
/// If there is none, or the settings of `up` cannot be read. The error about a name lists the directories that were searched.
pub fn find(charm: &str, dir: &DataDir) -> Result<PathBuf, CommandError> {
    let path = Path::new(charm.strip_prefix("local:").unwrap_or(charm));
    match path.exists() {
        true => Ok(path.to_owned()),
        false => named(charm, dir, Some(Path::new("."))),
    }
}

/// Finds the charm of this name in the charm directories, whatever the current folder has.
///
/// # Errors
/// As [`find`].
pub fn find_named(charm: &str, dir: &DataDir) -> Result<PathBuf, CommandError> {
    named(charm, dir, None)
}

/// The charm of this name. `searched` is the folder in which it was searched before, for the error.
fn named(charm: &str, dir: &DataDir, searched: Option<&Path>) -> Result<PathBuf, CommandError> {
    let of_store = charm.strip_prefix("ch:").map(|url| url.rsplit('/').next().unwrap_or(url));
    let name = of_store.unwrap_or_else(|| charm.strip_prefix("local:").unwrap_or(charm));
    let unknown = CommandError::new(format!("no charm at {charm:?}"));
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if !is_name {
        return Err(unknown.hint(
            "give the path of a charm folder or a .charm file, for example ./web; charm stores are not supported",
        ));
    }
    let directories = directories(std::env::var_os(VARIABLE), dir)?;
    if let Some(found) = directories.iter().find_map(|directory| in_directory(directory, name)) {
        return Ok(found);
    }
    let searched = searched.map(Path::to_path_buf).into_iter().chain(directories);
    let searched: Vec<String> = searched.map(|directory| directory.display().to_string()).collect();
    let unknown = match searched.is_empty() {
        true => unknown,
        false => CommandError::new(format!("no charm {name:?} in {}", searched.join(", "))),
    };
    Err(unknown.hint(format!(
        "give the path of a charm folder or a .charm file, or name the directories of charms: {VARIABLE}=DIR:DIR, or \
         pintle up --charms DIR; charm stores are not supported"
    )))
}

/// The charm directories of the environment, then those of the data folder.
fn directories(variable: Option<std::ffi::OsString>, dir: &DataDir) -> Result<Vec<PathBuf>, CommandError> {
    let given: Vec<PathBuf> = variable.iter().flat_map(std::env::split_paths).collect();
    let given = given.into_iter().filter(|directory| !directory.as_os_str().is_empty());
    Ok(given.chain(UpSettings::read(dir)?.charms).collect())
}

/// The charm of this name in a directory: a charm folder, or the newest file `NAME.charm`, `NAME_BASE.charm` or
/// `NAME-NUMBER.charm`.
fn in_directory(directory: &Path, name: &str) -> Option<PathBuf> {
    let folder = directory.join(name);
    if charms::is_charm_folder(&folder) {
        return Some(folder);
    }
    let is_named = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let rest = file.strip_suffix(".charm").and_then(|stem| stem.strip_prefix(name));
        // the charm web-admin is another one
        rest.is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with('_')
                || rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let files = fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let modified = |path: &PathBuf| path.metadata().and_then(|found| found.modified()).ok();
    files.filter(is_named).max_by_key(|path| (modified(path), path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charm_is_found_by_its_name_in_the_charm_directories() {
        let outer = tempfile::tempdir().expect("a folder");
        let directory = outer.path();
        let write = |file: &str| {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, "").expect("written");
            path
        };
        let web = write("web_ubuntu-24.04-amd64.charm");
        write("web-admin_ubuntu-24.04-amd64.charm");
        let log = write("log/metadata.yaml");
        let db = write("db-3.charm");
        write("empty/notes.txt");
        let found = |name: &str| in_directory(directory, name);
        assert_eq!(found("web"), Some(web));
        assert_eq!(found("log").as_deref(), log.parent());
        assert_eq!(found("db"), Some(db));
        assert_eq!((found("empty"), found("other")), (None, None));
    }

    #[test]
    fn directories_of_the_environment_precede_those_of_up() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(outer.path())).expect("a path");
        UpSettings { charms: vec!["/c".into()], ..UpSettings::default() }.write(&dir).expect("written");
        let all = directories(Some("/a::/b".into()), &dir).expect("readable");
        assert_eq!(all, ["/a", "/b", "/c"].map(PathBuf::from));
    }
}
