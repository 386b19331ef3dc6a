//! The paths of Juju in what `ssh` and `scp` send to a local machine, which has no paths outside its folder.
//!
//! Tools like jhack name `/var/lib/juju/agents/…` and `/usr/bin/juju-exec` in their commands. On a machine with a root of
//! its own these paths exist. Here they are replaced in the text of the command, by the folder of the machine and its
//! programs: the commands that `juju-exec` requests are run by the agent of the unit, so that no namespace of the `ssh`
//! process would give them other paths.
//!
//! A process of a local machine runs as the user of this host, so that `sudo` has nothing to change. Where root has no
//! `sudo`, or a user has none, one of the machine's own programs stands for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of Juju on a machine.
const JUJU_DIR: &str = "/var/lib/juju";
/// The programs of Juju on a machine, which are in the folder `tools` of a local one.
const PROGRAMS: [&str; 2] = ["/usr/bin/juju-exec", "/usr/bin/juju-run"];

/// The folder of the programs of a machine.
fn tools(machine: &Path) -> PathBuf {
    machine.join("tools")
}

/// A path of the machine as a path of this host.
pub fn path(machine: &Path, path: &str) -> String {
    match Path::new(path).strip_prefix(JUJU_DIR) {
        Ok(rest) if rest.as_os_str().is_empty() => machine.display().to_string(),
        Ok(rest) => machine.join(rest).display().to_string(),
        Err(_) => path.to_owned(),
    }
}

/// A line for a shell, with the paths of Juju replaced. It is returned as it is if the folder has a name that a shell would
/// take apart, because a path may be inside of quotes.
pub fn line(machine: &Path, line: &str) -> String {
    let folder = machine.display().to_string();
    if !folder.chars().all(is_part_of_path) {
        return line.to_owned();
    }
    let tools = tools(machine);
    let programs = PROGRAMS.map(|program| (program, tools.join(&program["/usr/bin/".len()..])));
    let mut text = replaced(line, JUJU_DIR, &folder, |next| next == '/');
    for (program, own) in programs {
        text = replaced(&text, program, &own.display().to_string(), |_| false);
    }
    text
}

/// Whether a character continues a path for a reader who does not know where it ends.
fn is_part_of_path(c: char) -> bool {
    c.is_alphanumeric() || "/._-+".contains(c)
}

/// The text with each whole path `from` replaced; a path may be followed by characters that `continues` accepts.
fn replaced(text: &str, from: &str, to: &str, continues: impl Fn(char) -> bool) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(from) {
        let last = before.chars().next_back().or_else(|| done.chars().next_back());
        let starts = !last.is_some_and(is_part_of_path);
        let ends = after.chars().next().is_none_or(|next| continues(next) || !is_part_of_path(next));
        done += before;
        done += if starts && ends { to } else { from };
        rest = after;
    }
    done + rest
}

/// The PATH of a program in the machine: that of this process, with the programs of the machine after it. Those that stand
/// for others of the host come before it if they are needed.
pub fn search_path(machine: &Path, before: Option<OsString>) -> OsString {
    let before: Vec<PathBuf> = before.map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let has_sudo = before.iter().any(|folder| folder.join("sudo").exists());
    let tools = tools(machine);
    let stand_ins = (!has_sudo || nix::unistd::geteuid().is_root()).then(|| tools.join("login"));
    let all = stand_ins.into_iter().chain(before).chain([tools]);
    std::env::join_paths(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_paths_of_juju_are_replaced_and_nothing_else() {
        let machine = Path::new("/home/me/m");
        for (before, after) in [
            ("ls /var/lib/juju/agents/unit-s1-0/charm", "ls /home/me/m/agents/unit-s1-0/charm"),
            ("ls /var/lib/juju; ls '/var/lib/juju'", "ls /home/me/m; ls '/home/me/m'"),
            ("A=/var/lib/juju/x cat", "A=/home/me/m/x cat"),
            ("sudo /usr/bin/juju-exec -u s1/0 true", "sudo /home/me/m/tools/juju-exec -u s1/0 true"),
            ("/usr/bin/juju-run x", "/home/me/m/tools/juju-run x"),
            (
                "/usr/bin/juju-exec2 /var/lib/juju-2 /x/var/lib/juju",
                "/usr/bin/juju-exec2 /var/lib/juju-2 /x/var/lib/juju",
            ),
            ("/var/lib/juju/var/lib/juju", "/home/me/m/var/lib/juju"),
            ("juju-exec true", "juju-exec true"),
        ] {
            assert_eq!(line(machine, before), after);
        }
        assert_eq!(line(Path::new("/my data/m"), "ls /var/lib/juju"), "ls /var/lib/juju");
    }

    #[test]
    fn a_path_of_juju_is_one_of_the_folder_of_the_machine() {
        let machine = Path::new("/my data/m");
        assert_eq!(path(machine, "/var/lib/juju/agents/x"), "/my data/m/agents/x");
        assert_eq!(path(machine, "/var/lib/juju/"), "/my data/m");
        for other in ["agents/x", "/var/lib/juju2", "."] {
            assert_eq!(path(machine, other), other);
        }
    }

    #[test]
    fn the_programs_of_the_machine_are_found_after_those_of_the_host() {
        let host = tempfile::tempdir().expect("a folder");
        let before = std::env::join_paths([host.path()]).expect("a path");
        let found = |before: &OsString| -> Vec<PathBuf> {
            std::env::split_paths(&search_path(Path::new("/m"), Some(before.clone()))).collect()
        };
        let [login, own] = ["/m/tools/login", "/m/tools"].map(PathBuf::from);
        assert_eq!(found(&before), [login.clone(), host.path().to_owned(), own.clone()]);
        std::fs::write(host.path().join("sudo"), "").expect("written");
        let expected = match nix::unistd::geteuid().is_root() {
            true => vec![login, host.path().to_owned(), own],
            false => vec![host.path().to_owned(), own],
        };
        assert_eq!(found(&before), expected);
    }
}
