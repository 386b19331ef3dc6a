//! Proves that a process belongs to a run: only such a process is signalled.
//!
//! Every hook of a unit can write any number and any context into the folder of a run, also those of another unit's hook. A
//! pid file is therefore only a hint. Evidence is what no process can change of another one: the arguments of a shim, the
//! parent of a hook, its working folder, and the environment with which it was started. A process can make itself look like
//! one of another run, and is then signalled with it; it cannot make another process look so.

use super::run_files::read_run_file;
use crate::installed_programs::HOOK_PROGRAM;
use api::machine_folder::{AGENTS_DIR, RUNS_DIR};
use host::process::Process;
use state::unit::environment::MACHINE_RUN_ID;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What proves that processes belong to one run.
pub(super) struct OwnProcesses {
    run_folder: PathBuf,
    /// The folder of the unit; none if the run is not in one.
    unit: Option<PathBuf>,
    /// The digest of the id of the hook's context; none if it is not known.
    context_digest: Option<String>,
}

impl OwnProcesses {
    /// The evidence for the run of this folder.
    pub(super) fn of(run_folder: &Path) -> OwnProcesses {
        let runs = run_folder.parent().filter(|runs| runs.file_name() == Some(OsStr::new(RUNS_DIR)));
        let unit = runs.and_then(Path::parent).map(canonical);
        let context_digest = read_run_file(run_folder).map(|run_file| run_file.context_digest);
        OwnProcesses { run_folder: run_folder.to_owned(), unit, context_digest }
    }

    /// Whether this is the shim of the run, and runs. An upgrade may have given the program another ending.
    pub(super) fn is_shim(&self, process: &Process) -> bool {
        let is_name = |name: &OsStr| name.as_encoded_bytes().starts_with(HOOK_PROGRAM.as_bytes());
        process.is_alive()
            && process.program().is_some_and(|path| path.file_name().is_some_and(is_name))
            && process.has_argument(&self.run_folder)
    }

    /// Whether the process is the hook of the run that the pid file names, or one that it has started. `shim` is the process
    /// that the pid file of the shim names.
    pub(super) fn is_hook(&self, process: &Process, shim: Option<Process>) -> bool {
        let parent = || process.stat().map(|stat| stat.parent);
        let is_child = || shim.is_some_and(|shim| parent() == Some(shim.pid) && self.is_shim(&shim));
        let is_in_unit = || process.working_folder().is_some_and(|folder| self.is_below_unit(&folder));
        self.has_context(process) || is_child() || is_in_unit()
    }

    /// Whether the process was started with the context of the run, and not as a hook of another unit whose context the
    /// folder of the run claims to have.
    pub(super) fn has_context(&self, process: &Process) -> bool {
        let ids = ["JUJU_CONTEXT_ID", MACHINE_RUN_ID].into_iter().filter_map(|name| process.variable(name));
        let mut digests = ids.map(|id| host::digest::sha256(&id));
        let charm = process.variable("CHARM_DIR").map(|path| PathBuf::from(OsString::from_vec(path)));
        digests.any(|digest| Some(&digest) == self.context_digest.as_ref())
            && charm.is_none_or(|charm| self.is_own_charm(&charm))
    }

    /// Whether this may be the folder of the unit's charm. Its path can lead through the link `/var/lib/juju`, which may have
    /// been removed or replaced since the hook was started; it then has the name of the unit at least.
    fn is_own_charm(&self, charm: &Path) -> bool {
        let Some(unit) = &self.unit else { return true };
        let found = charm.canonicalize().ok();
        let is_named = || charm.parent().and_then(Path::file_name) == unit.file_name();
        match found {
            Some(found) => self.is_below_unit(&found) || !is_charm_of_unit(&found) && is_named(),
            None => is_named(),
        }
    }

    fn is_below_unit(&self, folder: &Path) -> bool {
        self.unit.as_ref().is_some_and(|unit| folder.starts_with(unit))
    }
}

/// Whether a path is that of the charm of a unit.
fn is_charm_of_unit(path: &Path) -> bool {
    path.parent().and_then(Path::parent).and_then(Path::file_name) == Some(OsStr::new(AGENTS_DIR))
}

/// The path without links; the path itself if it does not exist.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    fn process(child: &Child) -> Process {
        Process::find(child.id().try_into().expect("a pid")).expect("it runs")
    }

    /// A hook writes the pids and the context of another unit's run into the folder of its own run.
    #[test]
    fn the_shim_and_the_hook_of_another_unit_belong_to_its_run_only() {
        let machine = tempfile::tempdir().expect("a folder");
        let units = ["unit-evil-0", "unit-victim-0"].map(|unit| machine.path().join("agents").join(unit));
        let runs = units.clone().map(|unit| unit.join("hooks/000001-install"));
        let charm = units[1].join("charm");
        for folder in [&runs[0], &runs[1], &charm] {
            fs::create_dir_all(folder).expect("made");
        }
        let program = machine.path().join("pintle-hook");
        fs::copy("/bin/sh", &program).expect("copied");
        let waits = |command: &mut Command| command.stdin(Stdio::piped()).spawn().expect("it starts");
        let mut shim = waits(Command::new(&program).args(["-c", "read line"]).arg(&runs[1]));
        let hook = |folder: &Path| {
            let mut hook = Command::new("/bin/sh");
            hook.args(["-c", "read line"]).env("JUJU_CONTEXT_ID", "the victim's").env("CHARM_DIR", &charm);
            waits(hook.current_dir(folder).process_group(0))
        };
        let mut hooks = [hook(&charm), hook(Path::new("/"))];
        let context_digest = Some(host::digest::sha256(b"the victim's"));
        let [evil, victim] =
            runs.map(|run| OwnProcesses { context_digest: context_digest.clone(), ..OwnProcesses::of(&run) });
        let shim_process = process(&shim);
        assert!(victim.is_shim(&shim_process) && !evil.is_shim(&shim_process));
        for hook in hooks.iter().map(process) {
            assert!(victim.is_hook(&hook, Some(shim_process)));
            assert!(!evil.is_hook(&hook, Some(shim_process)) && !evil.has_context(&hook));
        }
        for child in [&mut shim].into_iter().chain(&mut hooks) {
            child.kill().and_then(|()| child.wait()).expect("it is a child");
        }
    }

    /// `CHARM_DIR` leads through a link that is removed, or replaced, while the hook runs.
    #[test]
    fn a_hook_whose_charm_path_leads_nowhere_any_more_belongs_to_the_run_of_its_unit() {
        let machine = tempfile::tempdir().expect("a folder");
        let units = ["unit-web-0", "unit-web-1"].map(|unit| machine.path().join("agents").join(unit));
        for unit in &units {
            fs::create_dir_all(unit.join("hooks/000001-install")).expect("made");
            fs::create_dir_all(unit.join("charm")).expect("made");
        }
        let link = machine.path().join("juju");
        let relink = |to: Option<&Path>| {
            fs::remove_file(&link).ok();
            if let Some(to) = to {
                std::os::unix::fs::symlink(to, &link).expect("made");
            }
        };
        let mut hook = Command::new("/bin/sh");
        hook.args(["-c", "read line"]).env("JUJU_CONTEXT_ID", "an id").current_dir("/").stdin(Stdio::piped());
        let mut hook =
            hook.env("CHARM_DIR", link.join("agents/unit-web-0/charm")).spawn().expect("it starts");
        let context_digest = Some(host::digest::sha256(b"an id"));
        let [own, other] = units.map(|unit| {
            let own = OwnProcesses::of(&unit.join("hooks/000001-install"));
            OwnProcesses { context_digest: context_digest.clone(), ..own }
        });
        let found = process(&hook);
        let (elsewhere, replaced) = (tempfile::tempdir().expect("a folder"), machine.path().join("m2"));
        fs::create_dir_all(replaced.join("agents/unit-web-0/charm")).expect("made");
        for to in [Some(machine.path()), None, Some(elsewhere.path())] {
            relink(to);
            assert!(own.has_context(&found) && !other.has_context(&found), "{to:?}");
        }
        relink(Some(&replaced));
        assert!(!own.has_context(&found), "a unit of this name on another machine");
        hook.kill().and_then(|()| hook.wait()).expect("it is a child");
    }

    /// Its environment is cleared, as by `env -i`, and it is in another folder.
    #[test]
    fn a_hook_without_an_environment_belongs_to_the_run_of_its_shim() {
        let unit = tempfile::tempdir().expect("a folder");
        let run = unit.path().join("hooks/000001-install");
        fs::create_dir_all(&run).expect("made");
        let program = unit.path().join("pintle-hook");
        fs::copy("/bin/sh", &program).expect("copied");
        let script = "cd /; env -i sleep 100 >/dev/null & echo $!; wait";
        let mut shim = Command::new(&program);
        let shim = shim.args(["-c", script]).arg(&run).stdout(Stdio::piped());
        let mut shim = shim.spawn().expect("it starts");
        let mut line = String::new();
        let output = shim.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a line");
        let hook = Process::find(line.trim().parse().expect("a pid")).expect("it runs");
        let own = OwnProcesses::of(&run);
        assert!(own.is_hook(&hook, Some(process(&shim))));
        assert!(!own.is_hook(&hook, None), "nothing shows it");
        hook.signal(nix::sys::signal::Signal::SIGKILL).expect("it can be signalled");
        shim.wait().expect("it is a child");
    }
}
