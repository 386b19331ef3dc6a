//! The files that users attach to resources: `NAME=FILE` arguments, read, verified and uploaded.
//!
//! All arguments are checked before the first upload, so that a mistyped name creates nothing. The controller checks
//! them again when it attaches the files.

use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{FindResource, RESOURCE_BYTES_MAX, UploadResource, UserPort};
use state::charm::{Resource, ResourceType};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What is attached to a resource.
#[derive(Debug, PartialEq)]
enum Source {
    File(PathBuf),
    /// The name of an image in a registry, which the charm reads from the file of the resource.
    Image(String),
}

/// The sources of `NAME=FILE` arguments, by resource. Nothing is uploaded yet.
#[derive(Debug, Default, PartialEq)]
pub struct ResourceFiles(BTreeMap<String, Source>);

impl ResourceFiles {
    /// Checks the arguments against the resources that the charm declares. The error names all problems, one per line.
    ///
    /// # Errors
    /// If an argument is not `NAME=FILE`, a name is not declared or given twice, or a file cannot be used.
    pub fn check(
        arguments: &[String],
        declared: &BTreeMap<String, Resource>,
    ) -> Result<ResourceFiles, CommandError> {
        let (mut sources, mut problems) = (BTreeMap::new(), Vec::new());
        for argument in arguments {
            match source(argument, declared) {
                Ok((name, _)) if sources.contains_key(&name) => {
                    problems.push(format!("resource {name:?} is given more than once"));
                }
                Ok((name, source)) => drop(sources.insert(name, source)),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            return Ok(ResourceFiles(sources));
        }
        let names: Vec<&str> = declared.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let text = format!("cannot attach resources: {}", problems.join("; "));
        Err(CommandError::new(text).hint(format!("give NAME=FILE; resources of the charm: {names}")))
    }

    /// Uploads the files that the controller does not have yet. Returns their digests, by resource.
    ///
    /// # Errors
    /// If a file cannot be read, or an upload is refused or arrives damaged.
    pub async fn upload<A: UserPort>(
        self,
        session: &CommandSession<A>,
    ) -> Result<BTreeMap<String, String>, CommandError> {
        let mut digests = BTreeMap::new();
        for (name, source) in self.0 {
            let content = match source {
                Source::File(path) => fs::read(&path).map_err(|error| {
                    CommandError::new(format!("cannot attach resource {name:?}: {}: {error}", path.display()))
                })?,
                Source::Image(image) => format!("registrypath: {image}\n").into_bytes(),
            };
            let sha256 = host::digest::sha256(&content);
            if session.api.handle(FindResource { sha256: sha256.clone() }).await?.is_none() {
                let stored = session.api.handle(UploadResource(content)).await?;
                if stored.sha256 != sha256 {
                    let text =
                        format!("resource upload corrupted: expected sha256 {sha256}, got {}", stored.sha256);
                    return Err(CommandError::new(text).hint("try again"));
                }
            }
            digests.insert(name, sha256);
        }
        Ok(digests)
    }
}

fn source(argument: &str, declared: &BTreeMap<String, Resource>) -> Result<(String, Source), String> {
    let (name, value) = argument
        .split_once('=')
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("{argument:?} is not NAME=FILE"))?;
    let resource =
        declared.get(name).ok_or_else(|| format!("the charm does not declare resource {name:?}"))?;
    let path = Path::new(value);
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(_) if resource.kind == ResourceType::OciImage => {
            return Ok((name.to_owned(), Source::Image(value.to_owned())));
        }
        Err(error) => return Err(format!("{value}: {error}")),
    };
    if !found.is_file() {
        return Err(format!("{value} is not a file"));
    }
    if found.len() > RESOURCE_BYTES_MAX as u64 {
        return Err(format!("{value} has {} bytes, at most {RESOURCE_BYTES_MAX}", found.len()));
    }
    Ok((name.to_owned(), Source::File(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_found_before_anything_is_uploaded() {
        let resource = |kind| Resource { kind, ..Resource::default() };
        let declared = BTreeMap::from([
            ("app".to_owned(), resource(ResourceType::File)),
            ("image".to_owned(), resource(ResourceType::OciImage)),
        ]);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a=b");
        fs::write(&file, "x").expect("written");
        let check = |words: &[String]| ResourceFiles::check(words, &declared);
        let given = [format!("app={}", file.display()), "image=here/nginx:1".to_owned()];
        let expected = BTreeMap::from([
            ("app".to_owned(), Source::File(file)),
            ("image".to_owned(), Source::Image("here/nginx:1".to_owned())),
        ]);
        assert_eq!(check(&given).expect("declared"), ResourceFiles(expected));
        let bad = ["app", "nope=x", "app=/none/such", &format!("app={}", folder.path().display())];
        let error = check(&bad.map(str::to_owned)).expect_err("four problems");
        assert_eq!(error.message.split("; ").count(), 4, "{error:?}");
        let twice = [given[0].clone(), given[0].clone()];
        assert!(check(&twice).is_err());
    }
}
