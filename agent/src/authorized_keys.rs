//! Adds the ssh keys of the model to `authorized_keys` of the machine, and removes those that the model no longer has.
//!
//! The user is `ubuntu`, with whom people log in to machines of Juju, or the user of the agent if the machine has no such
//! user. As in Juju, the comment of each key of the model begins with `Juju:`; all other lines are kept as they are. The
//! file is replaced as a whole, and only if a key is added or removed.
//!
//! The file is read and written by a process of its user, so that no link in the user's folder leads the agent, which may
//! be root, to a file of another user.

use crate::juju_paths;
use anyhow::{Context, Result, anyhow, ensure};
use api::machine_folder::DATA_DIR;
use host::program::{self, HostProgram};
use nix::unistd::{User, geteuid};
use state::terms::ssh_key::SshKey;
use std::path::Path;

/// The user of the machines of Juju.
const LOGIN_USER: &str = "ubuntu";
/// Before the comment of each key of the model.
const PREFIX: &str = "Juju:";

/// Prints the file of the home in the argument; nothing if there is none.
const READ: &str = r#"file=$1/.ssh/authorized_keys; if [ -e "$file" ]; then cat -- "$file"; fi"#;

/// Replaces the file of the home in the argument by stdin.
const WRITE: &str = r#"
umask 077
mkdir -p -- "$1/.ssh" || exit 1
new=$(mktemp "$1/.ssh/.authorized_keys-XXXXXX") || exit 1
trap 'rm -f "$new"' EXIT
cat > "$new" && sync "$new" && mv -fT -- "$new" "$1/.ssh/authorized_keys" && sync "$1/.ssh"
"#;

/// The content of the file with these keys of the model, from its content before; none if it has them already.
fn with_keys(before: &str, keys: &[SshKey]) -> Option<String> {
    let of_model: Vec<String> = keys.iter().map(line).collect();
    let (present, others): (Vec<&str>, Vec<&str>) = before.lines().partition(|line| is_of_model(line));
    if present == of_model {
        return None;
    }
    let lines = others.into_iter().chain(of_model.iter().map(String::as_str));
    Some(lines.map(|line| format!("{line}\n")).collect())
}

/// The line of a key of the model.
fn line(key: &SshKey) -> String {
    let comment = match key.comment() {
        "" => format!("{PREFIX}sshkey"),
        comment if comment.starts_with(PREFIX) => comment.to_owned(),
        comment => format!("{PREFIX}{comment}"),
    };
    format!("{} {} {comment}", key.kind(), key.content())
}

/// Whether a line is a key of the model. A key of another person with options in front of its type is none.
fn is_of_model(line: &str) -> bool {
    line.parse::<SshKey>().is_ok_and(|key| key.comment().starts_with(PREFIX))
}

/// The user in whose home the file is.
struct LoginUser {
    home: String,
    /// The program that becomes this user, if the agent is another one.
    switch: Vec<String>,
}

impl LoginUser {
    fn find() -> Result<LoginUser> {
        let agent = geteuid();
        let named = User::from_name(LOGIN_USER)?.filter(|user| agent.is_root() || user.uid == agent);
        let user = match named {
            Some(user) => user,
            None => User::from_uid(agent)?.with_context(|| format!("user {agent} has no home"))?,
        };
        let ids = [format!("--reuid={}", user.uid), format!("--regid={}", user.gid)];
        let switch = ids.into_iter().chain(["--clear-groups".to_owned()]);
        let switch = if user.uid == agent { Vec::new() } else { switch.collect() };
        let home = user.dir.into_os_string().into_string().ok().context("the home is not UTF-8")?;
        Ok(LoginUser { home, switch })
    }

    /// Runs a script with the home as its argument, and returns its stdout.
    async fn run(&self, script: &str, input: &str) -> Result<String> {
        let shell = ["sh", "-c", script, "sh", &self.home].map(str::to_owned);
        let (name, words) = match self.switch.is_empty() {
            true => ("sh", shell[1..].to_vec()),
            false => ("setpriv", [&self.switch[..], &shell].concat()),
        };
        let ran = HostProgram::new(name, words, program::QUICK).input(input).run().await;
        ran.map_err(|error| anyhow!("{}/.ssh/authorized_keys: {}", self.home, error.without_arguments()))
    }

    async fn reconcile(&self, keys: &[SshKey]) -> Result<()> {
        let before = self.run(READ, "").await?;
        let Some(text) = with_keys(&before, keys) else { return Ok(()) };
        // bytes that are not UTF-8 were replaced when the file was read, and would be lost
        ensure!(
            !before.contains(char::REPLACEMENT_CHARACTER),
            "{}/.ssh/authorized_keys is not UTF-8",
            self.home
        );
        self.run(WRITE, &text).await.map(drop)
    }
}

/// Makes these keys the keys of the model in the file of the machine in the folder `data`. Does nothing unless `data` is
/// the folder of an installed machine and `/var/lib/juju` is a link to it: the file of a local machine belongs to a person
/// of the host, and that of a host which Juju manages to Juju.
///
/// # Errors
/// If the file cannot be read or written or is not UTF-8, or neither the user `ubuntu` nor that of the agent is known to
/// the host.
pub async fn reconcile(data: &Path, keys: &[SshKey]) -> Result<()> {
    match data == Path::new(DATA_DIR) && juju_paths::is_provided(data) {
        true => LoginUser::find()?.reconcile(keys).await,
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ";

    fn key(comment: &str) -> SshKey {
        format!("{KEY} {comment}").parse().expect("it is a key")
    }

    #[tokio::test]
    async fn keys_of_the_model_come_and_go_and_lines_of_other_people_stay() {
        let home = tempfile::tempdir().unwrap();
        let user = LoginUser { home: home.path().display().to_string(), switch: Vec::new() };
        let file = home.path().join(".ssh/authorized_keys");
        user.reconcile(&[]).await.unwrap();
        assert!(!home.path().join(".ssh").exists(), "nothing is made for no key");
        user.reconcile(&[key("me@host")]).await.unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{KEY} Juju:me@host\n"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));

        let others = format!("# mine\n\ncommand=\"x\" {KEY} Juju:me\n{KEY} you@host\n");
        fs::write(&file, format!("{KEY} Juju:old\n{others}").trim_end()).unwrap();
        user.reconcile(&[key("Juju:a"), key("")]).await.unwrap();
        let expected = format!("{others}{KEY} Juju:a\n{KEY} Juju:sshkey\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        user.reconcile(&[]).await.unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), others);
        let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file: {left:?}");
    }

    #[tokio::test]
    async fn a_file_that_would_be_damaged_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let user = LoginUser { home: home.path().display().to_string(), switch: Vec::new() };
        fs::create_dir(home.path().join(".ssh")).unwrap();
        let file = home.path().join(".ssh/authorized_keys");
        fs::write(&file, b"# caf\xe9\n").unwrap();
        user.reconcile(&[key("me")]).await.unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"# caf\xe9\n");
    }
}
