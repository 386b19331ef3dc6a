//! The generated tree: a copy of the workspace in which the product contains all mutants.
//!
//! A file is written only if its content differs, so that cargo builds again only what changed.

use crate::schemata;
use crate::table::mutants;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Brings the tree up to date with the repository.
pub fn generate(repository: &Path, tree: &Path) -> Result<()> {
    let names: Vec<PathBuf> = sources(repository)?;
    for name in &names {
        let from = repository.join(name);
        let original = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let content = changed(name, &original)?.unwrap_or(original);
        let to = tree.join(name);
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(to.parent().expect("files of the tree are in folders"))?;
        fs::write(&to, content).with_context(|| format!("cannot write {}", to.display()))?;
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
    }
    let names = BTreeSet::from_iter(names);
    for name in sources(tree)?.into_iter().filter(|name| !names.contains(name)) {
        fs::remove_file(tree.join(name))?;
    }
    Ok(())
}

/// The source of a product file with its mutants.
pub fn mutated(file: &str, original: &str) -> Result<String> {
    let rows: Vec<_> = mutants().iter().enumerate().filter(|(_, mutant)| mutant.file == file).collect();
    schemata::source(original, &rows).context(file.to_owned())
}

/// The content of a file in the generated tree; `None` if it is the same as in the repository.
fn changed(name: &Path, original: &[u8]) -> Result<Option<Vec<u8>>> {
    let file = name.to_str().context("names are UTF-8")?;
    if file == "Cargo.toml" {
        // Cargo identifies a crate's build by name, version and path in the workspace. With the same version, it would
        // confuse a crate of this tree with the one of the repository, which has the same target folder.
        let version = "[workspace.package]\nversion = \"0.1.0\"";
        let text = std::str::from_utf8(original)?;
        anyhow::ensure!(text.matches(version).count() == 1, "Cargo.toml has {version:?} not exactly once");
        return Ok(Some(
            text.replacen(version, "[workspace.package]\nversion = \"0.1.0-mutants\"", 1).into(),
        ));
    }
    let member =
        |mutant: &crate::table::Mutant| mutant.file.split_once("/src/").map(|(member, _)| member.to_owned());
    let members: BTreeSet<String> = mutants().iter().filter_map(member).collect();
    let is = |what: &str| members.iter().any(|member| file == format!("{member}/{what}"));
    if is("Cargo.toml") {
        let depends = "[dependencies]\nmutants = { workspace = true, features = [\"generated\"] }\n";
        return Ok(Some(std::str::from_utf8(original)?.replacen("[dependencies]\n", depends, 1).into()));
    }
    let has_mutants = mutants().iter().any(|mutant| mutant.file == file);
    if !has_mutants && !is("src/lib.rs") {
        return Ok(None);
    }
    let source = mutated(file, std::str::from_utf8(original)?)?;
    // a replacement may leave a variable unused or code unreachable
    let allow = if is("src/lib.rs") { "#![allow(unused)]\n" } else { "" };
    Ok(Some(format!("{allow}{source}").into()))
}

/// All files below a folder, relative to it, without hidden entries and build output; none if the folder is missing.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        if !path.exists() {
            continue;
        }
        for entry in fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))? {
            let entry = entry?;
            let name = folder.join(entry.file_name());
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_hidden || name == Path::new("target") {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(name);
            } else {
                found.push(name);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_does_not_take_a_crate_of_the_tree_for_one_of_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let original = fs::read(root.join("Cargo.toml")).expect("the workspace has one");
        let generated = changed(Path::new("Cargo.toml"), &original).expect("generated");
        let version = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            text.lines().find(|line| line.starts_with("version = ")).map(str::to_owned)
        };
        assert_ne!(version(&generated.expect("it differs")), version(&original));
    }
}
