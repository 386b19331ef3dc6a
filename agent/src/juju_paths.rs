//! Creates and removes the paths of Juju that charms expect on a machine (and the script that runs the agent): `/var/lib/juju`, `jujud version` in its
//! tools, and `/usr/bin/juju-exec`.
//!
//! A local machine, which is a folder of another host, has no paths outside this folder. On other machines (containers
//! and manually provisioned ones), whose folder is [`DATA_DIR`], `/var/lib/juju` is a link to that folder, because both
//! have the same layout. A `/var/lib/juju` that exists already belongs to Juju and is not changed.
//!
//! Called by `machine_program` and `uninstall`; `unit_program`, `authorized_keys` and `recorded_runs` read which paths exist.

use crate::folder::{UnitFolder, public_dir};
use anyhow::{Context, Result};
use api::machine_folder::{AGENT_SCRIPT, DATA_DIR};
use host::file::{ignore_not_found, read_regular_text, write_atomic};
use host::shell;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The folder that charms expect.
const JUJU_DIR: &str = "/var/lib/juju";
/// The folder in which a process outside of a hook finds `juju-exec`.
const PROGRAMS_DIR: &str = "/usr/bin";
/// The programs that run commands in the context of a unit; `juju-run` is the name up to Juju 2.9.
pub const EXEC_NAMES: [&str; 2] = ["juju-exec", "juju-run"];

/// Stands for `sudo` on a local machine, where a program of `pintle ssh` runs as the user of all its programs.
const SUDO: &str = r#"#!/bin/sh
# Provided by Pintle: the programs of this machine run as the user of "pintle up", and sudo changes nothing.
while [ $# -gt 0 ]; do
    case $1 in
        --) shift; break ;;
        -u|--user|-g|--group) shift; [ $# = 0 ] || shift ;;
        -*) shift ;;
        *) break ;;
    esac
done
if [ $# = 0 ]; then exec "${SHELL:-/bin/sh}"; fi
exec env "$@"
"#;

/// Provides the paths for the machine of this name in the folder `data`. May be repeated.
///
/// # Errors
/// If a file cannot be written.
pub fn provide(data: &Path, machine: &str) -> Result<()> {
    let tools = data.join("tools");
    let folder = tools.join(format!("machine-{}", machine.replace('/', "-")));
    public_dir(&tools).and_then(|()| public_dir(&folder)).with_context(|| folder.display().to_string())?;
    write_script(&folder.join("jujud"), &jujud_script())?;
    write_exec_scripts(&tools, data)?;
    write_script(&data.join(AGENT_SCRIPT), &agent_script())?;
    if data != Path::new(DATA_DIR) {
        let stand_ins = tools.join("login");
        public_dir(&stand_ins)?;
        write_script(&stand_ins.join("sudo"), SUDO)?;
    }
    if data == Path::new(DATA_DIR) {
        public_dir(data)?;
        create_link(Path::new(JUJU_DIR), data)?;
        for name in EXEC_NAMES {
            create_link(&Path::new(PROGRAMS_DIR).join(name), &exec_link_target(name))?;
        }
    }
    Ok(())
}

/// Writes `juju-exec` and `juju-run` of the machine in the folder `data` into a folder of tools.
///
/// # Errors
/// If a file cannot be written.
pub fn write_exec_scripts(tools: &Path, data: &Path) -> Result<()> {
    let text = |path: &Path| path.display().to_string();
    let start = ["exec".to_owned(), text(crate::installed_programs::agent_program()), "juju-exec".to_owned()];
    let line = shell::line(&[&start[..], &["--data".to_owned(), text(data), "--".to_owned()]].concat());
    for name in EXEC_NAMES {
        let script = format!(
            "#!/bin/sh\n# Provided by Pintle: runs commands in the context of a unit.\n{line} \"$@\"\n"
        );
        write_script(&tools.join(name), &script)?;
    }
    Ok(())
}

/// The program through which commands of a person reach the agent of a machine: its path differs between machines.
fn agent_script() -> String {
    let program = crate::installed_programs::agent_program().display().to_string();
    format!(
        "#!/bin/sh\n# Provided by Pintle: the agent of this machine.\nexec {} \"$@\"\n",
        shell::quote(&program)
    )
}

/// Writes a program that every user may run.
fn write_script(program: &Path, script: &str) -> Result<()> {
    if read_regular_text(program, script.len() as u64).ok().as_deref() != Some(script) {
        write_atomic(program, script.as_bytes()).with_context(|| program.display().to_string())?;
    }
    Ok(fs::set_permissions(program, fs::Permissions::from_mode(0o755))?)
}

/// The target of a link in [`PROGRAMS_DIR`]: a path without the name of the machine.
fn exec_link_target(name: &str) -> PathBuf {
    Path::new(DATA_DIR).join("tools").join(name)
}

/// Removes the links to the folder of a machine that is uninstalled.
///
/// # Errors
/// If a link cannot be removed.
pub fn withdraw(data: &Path) -> io::Result<()> {
    for name in EXEC_NAMES {
        withdraw_link(&Path::new(PROGRAMS_DIR).join(name), &exec_link_target(name))?;
    }
    withdraw_link(Path::new(JUJU_DIR), data)
}

/// The folder of a unit by the path that its hooks see: below `/var/lib/juju` if that is a link to its machine's
/// folder.
pub fn shown_folder(folder: &UnitFolder) -> UnitFolder {
    match is_link_to(Path::new(JUJU_DIR), &folder.machine()) {
        true => UnitFolder::in_machine(Path::new(JUJU_DIR), &folder.tag()),
        false => folder.clone(),
    }
}

/// The program that charm-helpers runs to determine the version of Juju (spec/hook-tools.md 7).
fn jujud_script() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = api::JUJU_VERSION;
    format!(
        "#!/bin/sh\n# Provided by Pintle: charms ask for the version of Juju here.\n\
         if [ \"$1\" = version ]; then echo {version}-ubuntu-{architecture}; exit 0; fi\n\
         echo \"ERROR jujud: only \\\"jujud version\\\" is available\" >&2\nexit 1\n"
    )
}

/// Whether `/var/lib/juju` is the link to this machine's folder, and not a folder of Juju.
pub fn is_provided(data: &Path) -> bool {
    is_link_to(Path::new(JUJU_DIR), data)
}

fn is_link_to(link: &Path, data: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target == data)
}

/// Creates the link unless something else has this name.
fn create_link(link: &Path, data: &Path) -> Result<()> {
    if fs::symlink_metadata(link).is_ok() {
        if !is_link_to(link, data) {
            tracing::warn!("{} exists and belongs to another program: it is left alone", link.display());
        }
        return Ok(());
    }
    symlink(data, link).with_context(|| format!("cannot create {}", link.display()))
}

fn withdraw_link(link: &Path, data: &Path) -> io::Result<()> {
    match is_link_to(link, data) {
        true => ignore_not_found(fs::remove_file(link)).map(drop),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn jujud_prints_its_version_and_nothing_else_is_offered() {
        let machine = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            provide(machine.path(), "0/lxd/1").unwrap();
        }
        let jujud = machine.path().join("tools/machine-0-lxd-1/jujud");
        let printed = Command::new(&jujud).arg("version").output().unwrap();
        let version = String::from_utf8(printed.stdout).unwrap();
        assert!(version.starts_with(&format!("{}-ubuntu-", api::JUJU_VERSION)), "{version}");
        assert!(version.ends_with('\n') && printed.status.success());
        let other = Command::new(&jujud).arg("machine").output().unwrap();
        assert_eq!(other.status.code(), Some(1));
        let refused = String::from_utf8(other.stderr).unwrap();
        assert!(refused.starts_with("ERROR jujud: ") && refused.contains("\"jujud version\""), "{refused}");
    }

    #[test]
    fn sudo_of_a_local_machine_runs_the_program_with_its_arguments() {
        let machine = tempfile::tempdir().unwrap();
        provide(machine.path(), "0").unwrap();
        // a copy that another process writes: a child of a parallel test may hold the original open for writing
        let sudo = machine.path().join("sudo");
        let copied = Command::new("cp").arg(machine.path().join("tools/login/sudo")).arg(&sudo).status();
        assert!(copied.is_ok_and(|status| status.success()));
        for words in [
            &["A=1", "printf", "%s|", "a b", "-u"][..],
            &["-i", "printf", "%s|", "a b", "-u"],
            &["-nE", "-u", "root", "--", "printf", "%s|", "a b", "-u"],
            &["--user=root", "printf", "%s|", "a b", "-u"],
        ] {
            let ran = Command::new(&sudo).args(words).output().unwrap();
            assert_eq!(String::from_utf8(ran.stdout).unwrap(), "a b|-u|", "{words:?}");
        }
        let ended = Command::new(&sudo).args(["sh", "-c", "exit 7"]).status().unwrap();
        assert_eq!(ended.code(), Some(7));
    }

    #[test]
    fn a_folder_of_juju_is_left_alone_and_a_link_is_withdrawn() {
        let lib = tempfile::tempdir().unwrap();
        let (data, juju) = (lib.path().join("pintle"), lib.path().join("juju"));
        create_link(&juju, &data).unwrap();
        create_link(&juju, &data).unwrap();
        assert_eq!(fs::read_link(&juju).unwrap(), data);
        withdraw_link(&juju, &lib.path().join("other")).unwrap();
        assert!(is_link_to(&juju, &data), "it is the link of another machine");
        withdraw_link(&juju, &data).unwrap();
        assert!(fs::symlink_metadata(&juju).is_err());
        fs::create_dir(&juju).unwrap();
        create_link(&juju, &data).unwrap();
        withdraw_link(&juju, &data).unwrap();
        assert!(juju.is_dir());
    }

    #[test]
    fn every_user_may_enter_the_folders_down_to_the_charm_and_none_of_the_private_ones() {
        let outer = tempfile::tempdir().unwrap();
        let folder = UnitFolder::new(outer.path().join("agents/unit-web-0"));
        public_dir(&outer.path().join("agents")).and_then(|()| public_dir(folder.root())).unwrap();
        [folder.runs(), folder.run(1)].iter().for_each(|path| crate::folder::private_dir(path).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.root()), mode(&folder.run(1)), mode(&folder.runs())), (0o755, 0o700, 0o700));
    }
}
