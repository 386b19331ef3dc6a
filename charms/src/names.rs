//! Names inside a charm: which are safe to create on disk. The same rules for archives and folders, so that a charm
//! that can be packed can be unpacked (spec/security.md S22, S24).

use std::collections::BTreeMap;

/// Longest name of one file or folder, in bytes: what Linux file systems take.
const NAME_BYTES_MAX: usize = 255;
/// Most folders inside each other.
const DEPTH_MAX: usize = 32;

/// What a member of a charm is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File {
        executable: bool,
    },
    /// A symbolic link and its target.
    Link(String),
    Folder,
}

/// Says what is unsafe about the path of a member, a folder's without its closing slash.
pub fn check_path(path: &str) -> Result<(), String> {
    let wrong = |text: &str| Err(text.to_owned());
    if path.starts_with('/') {
        return wrong("is an absolute path");
    }
    if path.contains('\\') {
        return wrong("contains a backslash");
    }
    if path.chars().any(char::is_control) {
        return wrong("contains a control character");
    }
    let parts: Vec<&str> = path.split('/').collect();
    if parts.contains(&"..") {
        return wrong("leads out of the charm");
    }
    if parts.iter().any(|part| part.is_empty() || *part == ".") {
        return wrong("has an empty part");
    }
    if parts.iter().any(|part| part.len() > NAME_BYTES_MAX) {
        return wrong("has a part longer than 255 bytes");
    }
    if parts.len() > DEPTH_MAX {
        return wrong("lies more than 32 folders deep");
    }
    Ok(())
}

/// Says what is unsafe about the target of the link at `path`. `..` is taken only at the beginning: there it climbs
/// real folders only (no member lies below a link), so counting them proves that the target stays inside; after a
/// name it could climb out of wherever another link led.
pub fn check_target(path: &str, target: &str) -> Result<(), String> {
    let wrong = |text: &str| Err(format!("{text} (its target is {target:?})"));
    if target.is_empty() || target.contains('\\') || target.chars().any(char::is_control) {
        return wrong("is a link with a bad target");
    }
    if target.starts_with('/') {
        return wrong("is a link to an absolute path");
    }
    let parts: Vec<&str> = target.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let climbs = parts.iter().take_while(|part| **part == "..").count();
    if climbs > path.matches('/').count() {
        return wrong("is a link that leads out of the charm");
    }
    if parts[climbs..].contains(&"..") {
        return wrong("is a link with .. after a name");
    }
    Ok(())
}

/// Checks all members together: what two of them could do to each other. Returns (path, what is wrong).
pub fn check_all<'a>(members: impl Iterator<Item = (&'a str, &'a Kind)> + Clone) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut say = |path: &str, text: String| wrong.push((path.to_owned(), text));
    let mut kinds: BTreeMap<&str, &Kind> = BTreeMap::new();
    let mut folded: BTreeMap<String, &str> = BTreeMap::new();
    for (path, kind) in members.clone() {
        if let Err(text) = check_path(path) {
            say(path, text);
        }
        if let Kind::Link(target) = kind
            && let Err(text) = check_target(path, target)
        {
            say(path, text);
        }
        if kinds.insert(path, kind).is_some() {
            say(path, "is there twice".to_owned());
        }
        match folded.insert(path.to_lowercase(), path) {
            Some(other) if other != path => say(path, format!("differs from {other} only in case")),
            _ => {}
        }
    }
    for (path, _) in members {
        for (end, _) in path.match_indices('/') {
            match kinds.get(&path[..end]) {
                Some(Kind::Link(_)) => say(path, format!("lies below the link {}", &path[..end])),
                Some(Kind::File { .. }) => say(path, format!("lies below the file {}", &path[..end])),
                _ => {}
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_charm_or_confuse_are_unsafe() {
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
    fn links_stay_inside() {
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
    fn members_must_not_stand_in_each_others_way() {
        let (file, link) = (Kind::File { executable: false }, Kind::Link("x".to_owned()));
        let members = [
            ("a", &link),
            ("a/b", &file),
            ("f", &file),
            ("f/g", &file),
            ("README", &file),
            ("readme", &file),
        ];
        let wrong: Vec<String> =
            check_all(members.into_iter()).iter().map(|(p, t)| format!("{p} {t}")).collect();
        assert_eq!(
            wrong,
            [
                "readme differs from README only in case",
                "a/b lies below the link a",
                "f/g lies below the file f",
            ]
        );
        assert_eq!(check_all([("f", &file), ("f", &file)].into_iter()).len(), 1);
    }
}
