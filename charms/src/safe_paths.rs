//! Decides which paths and links of a charm are safe to create on disk (spec/security.md S22, S24).
//!
//! The rules are the same for folders and archives, so a charm that can be packed can also be unpacked. Called by
//! `folder` before packing and by `archive_entries` before unpacking.

use std::collections::BTreeMap;

/// Longest name of one file or folder, in bytes: the limit of Linux file systems.
const NAME_BYTES_MAX: usize = 255;
/// Deepest nesting of folders.
const DEPTH_MAX: usize = 32;

/// The file type of a member of a charm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    File {
        /// Whether its execute bit is set.
        executable: bool,
    },
    /// A symbolic link with its target.
    Link(String),
    /// A folder.
    Folder,
}

/// Checks the path of a member; the path of a folder is passed without its closing slash.
///
/// # Errors
/// Why the path is unsafe.
pub fn check_path(path: &str) -> Result<(), String> {
    let refuse = |text: &str| Err(text.to_owned());
    if path.starts_with('/') {
        return refuse("is an absolute path");
    }
    if path.contains('\\') {
        return refuse("contains a backslash");
    }
    if path.chars().any(char::is_control) {
        return refuse("contains a control character");
    }
    let parts: Vec<&str> = path.split('/').collect();
    if parts.contains(&"..") {
        return refuse("points outside the charm");
    }
    if parts.iter().any(|part| part.is_empty() || *part == ".") {
        return refuse("has an empty part");
    }
    if parts.iter().any(|part| part.len() > NAME_BYTES_MAX) {
        return refuse("has a part longer than 255 bytes");
    }
    if parts.len() > DEPTH_MAX {
        return refuse("is more than 32 folders deep");
    }
    Ok(())
}

/// Checks the target of the link at `path`.
///
/// `..` is accepted only at the beginning of a target. There it leaves real folders only, because no member is below a
/// link, so counting the folders proves that the target stays inside the charm. After a name, `..` could leave the
/// target of another link.
///
/// # Errors
/// Why the target is unsafe.
pub fn check_target(path: &str, target: &str) -> Result<(), String> {
    let refuse = |text: &str| Err(format!("{text} (its target is {target:?})"));
    if target.is_empty() || target.contains('\\') || target.chars().any(char::is_control) {
        return refuse("is a link with an invalid target");
    }
    if target.starts_with('/') {
        return refuse("is a link to an absolute path");
    }
    let parts: Vec<&str> = target.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let climbs = parts.iter().take_while(|part| **part == "..").count();
    if climbs > path.matches('/').count() {
        return refuse("is a link that points outside the charm");
    }
    if parts[climbs..].contains(&"..") {
        return refuse("is a link with .. after a name");
    }
    Ok(())
}

/// Checks all members, each alone and against each other. Returns the path and the problem of each unsafe member.
pub fn check_all<'a>(
    members: impl Iterator<Item = (&'a str, &'a MemberKind)> + Clone,
) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let mut add = |path: &str, text: String| problems.push((path.to_owned(), text));
    let mut kinds: BTreeMap<&str, &MemberKind> = BTreeMap::new();
    let mut folded: BTreeMap<String, &str> = BTreeMap::new();
    for (path, kind) in members.clone() {
        if let Err(text) = check_path(path) {
            add(path, text);
        }
        if let MemberKind::Link(target) = kind
            && let Err(text) = check_target(path, target)
        {
            add(path, text);
        }
        if kinds.insert(path, kind).is_some() {
            add(path, "appears twice".to_owned());
        }
        match folded.insert(path.to_lowercase(), path) {
            Some(other) if other != path => add(path, format!("differs from {other} only in case")),
            _ => {}
        }
    }
    for (path, _) in members {
        for (end, _) in path.match_indices('/') {
            match kinds.get(&path[..end]) {
                Some(MemberKind::Link(_)) => add(path, format!("is below the link {}", &path[..end])),
                Some(MemberKind::File { .. }) => add(path, format!("is below the file {}", &path[..end])),
                _ => {}
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_charm_or_are_ambiguous_are_unsafe() {
        for good in ["a", "hooks/install", ".hidden", "a b/ä", "a..b/c..", "venv/x.py"] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        let deep = ["d"; 33].join("/");
        let long = "x".repeat(256);
        for bad in
            ["/etc/x", "../x", "a/../../x", "a/..", "", "a//b", "./a", "a\\b", "a\0b", "a\nb", &deep, &long]
        {
            assert!(check_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn links_that_leave_the_charm_are_unsafe() {
        for (path, target) in
            [("a", "b"), ("a/b", "../c"), ("a/b/c", "../../d/e"), ("a", "./b"), ("a/b", "c/d")]
        {
            assert_eq!(check_target(path, target), Ok(()), "{path} {target}");
        }
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", "../b"),
            ("a/b", "../../c"),
            ("a", "b/../../c"),
            ("a", "b/.."),
            ("a", ""),
        ] {
            assert!(check_target(path, target).is_err(), "{path} {target}");
        }
    }

    #[test]
    fn members_that_conflict_are_unsafe() {
        let (file, link) = (MemberKind::File { executable: false }, MemberKind::Link("x".to_owned()));
        let members = [
            ("a", &link),
            ("a/b", &file),
            ("f", &file),
            ("f/g", &file),
            ("README", &file),
            ("readme", &file),
        ];
        let problems: Vec<String> =
            check_all(members.into_iter()).iter().map(|(p, t)| format!("{p} {t}")).collect();
        let names = |line: &str, path: &str, other: &str| {
            line.split(' ').next() == Some(path) && line.split(' ').skip(1).any(|word| word == other)
        };
        let pairs = [("readme", "README"), ("a/b", "a"), ("f/g", "f")];
        assert!(
            problems.iter().zip(pairs).all(|(line, (path, other))| names(line, path, other)),
            "{problems:?}"
        );
        assert_eq!(problems.len(), pairs.len());
        assert_eq!(check_all([("f", &file), ("f", &file)].into_iter()).len(), 1);
    }
}
