//! Tests the end of units and machines on a host: hooks are stopped, mounts are left alone, storage is released, services
//! and folders are removed.
//!
//! They would damage this host: each runs again in its own namespaces, where it is process 1 and root, and where its mounts
//! and kills affect nothing else.

use agent::config;
use agent::deployer::Deployer;
use agent::ports::StorageHost;
use agent::service::{Supervision, systemd, unit_files};
use agent::storage_pools::StoragePools;
use agent::uninstall;
use api::{AgentConfig, AgentKind};
use hook_client::shim::SHIM_PID;
use host::file::write_atomic_unsynced;
use host::process::Process;
use host::tree;
use state::charm::StorageType;
use state::terms::names::{UnitName, Uuid};
use state::terms::storage::{MachineAttachment, MachineStorage, StorageId, StoragePool};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The environment variable that names the test which runs inside its namespaces.
const INSIDE: &str = "PINTLE_TEST_INSIDE";
const AGENT: &str = env!("CARGO_BIN_EXE_pintle-agent");
/// The first folder of PATH inside the namespaces: the programs of [`fake_systemd`].
const PROGRAMS: &str = "/run/programs";

/// Runs the test of this name again in new namespaces. Inside them, runs `test`.
fn in_namespaces(name: &str, test: impl FnOnce()) {
    let this = std::env::current_exe().expect("the path of the program is available");
    in_namespaces_as(&this, name, None, test);
}

/// The same for this program under another path, with an argument.
fn in_namespaces_as(this: &Path, name: &str, argument: Option<&Path>, test: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        return test();
    }
    let again = Command::new("unshare")
        .args(namespaces())
        .arg(this)
        .args([name, "--exact", "--nocapture"])
        .args(argument) // another filter, which no test has
        .env(INSIDE, name)
        .env("PATH", format!("{PROGRAMS}:{}", std::env::var("PATH").unwrap_or_default()))
        .output()
        .expect("unshare is there: tests/prerequisites.sh");
    let (stdout, stderr) = (String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    assert!(again.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// The arguments of `unshare` that work here: those for root, or those with a user namespace.
fn namespaces() -> &'static [&'static str] {
    let variants: [&[&str]; 2] = [
        &["--mount", "--pid", "--fork", "--mount-proc"],
        &["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"],
    ];
    let works = |variant: &&&[&str]| {
        let tried = Command::new("unshare").args(**variant).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    variants.iter().find(works).expect("make test needs namespaces: be root, or allow user namespaces")
}

/// No process of a pid namespace can kill its process 1, which represents a hook that hangs in a system call.
#[test]
fn a_hook_that_cannot_be_killed_does_not_block_the_machine_agent() {
    let this = std::env::current_exe().expect("the path of the program is available");
    let beside = tempfile::tempdir_in(this.parent().expect("a folder")).expect("a folder");
    let shim = beside.path().join("pintle-hook");
    fs::hard_link(&this, &shim).expect("it is the same file system");
    let data = beside.path().join("data");
    let run = data.join("agents/unit-web-0/hooks/000001");
    let name = "a_hook_that_cannot_be_killed_does_not_block_the_machine_agent";
    in_namespaces_as(&shim, name, Some(&run), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let run = std::env::args().next_back().expect("the folder of the run");
            let machine = Path::new(&run).ancestors().nth(4).expect("the folder of the machine");
            fs::create_dir(machine).expect("made");
            let machine_config = config(AgentKind::Machine, "0");
            let deployer = Deployer::new(machine.to_path_buf(), machine_config, Supervision::Children);
            let name = UnitName::new("web", 0);
            deployer.prepare(Uuid(6), &name).expect("it is made");
            let folder = deployer.folder(&name);
            assert_eq!(folder.run(1), Path::new(&run));
            fs::create_dir_all(folder.run(1)).expect("made");
            Process::current().write(&folder.run(1).join(SHIM_PID)).expect("written");
            let stopped =
                tokio::time::timeout(std::time::Duration::from_secs(60), deployer.stop(&folder)).await;
            let error = stopped.expect("stop must not block other units").expect_err("it lives").to_string();
            assert!(error.contains(&folder.run(1).display().to_string()), "{error}");
            Process { pid: 1, start: 1 }.write(&folder.run(1).join(SHIM_PID)).expect("written");
            deployer.stop(&folder).await.expect("the hook has ended");
        });
    });
}

/// A charm has mounted something below its unit's folder, for example a share of a file server. The unit is recalled.
#[test]
fn what_is_mounted_in_the_folder_of_a_unit_is_not_deleted_with_it() {
    in_namespaces("what_is_mounted_in_the_folder_of_a_unit_is_not_deleted_with_it", || {
        let machine = tempfile::tempdir().expect("a folder");
        let machine_config = config(AgentKind::Machine, "0");
        let deployer = Deployer::new(machine.path().to_path_buf(), machine_config, Supervision::Children);
        let (name, unit) = (UnitName::new("web", 0), Uuid(6));
        deployer.prepare(unit, &name).expect("it is made");
        let folder = deployer.folder(&name);
        let share = machine.path().join("share");
        fs::create_dir_all(&share).expect("made");
        fs::write(share.join("file"), "precious").expect("written");
        let is_refused = |error: anyhow::Error, path: &Path| {
            let error = format!("{error:#}");
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert_eq!(fs::read_to_string(share.join("file")).expect("it is kept"), "precious");
        };
        let bind = |at: &Path| {
            fs::create_dir_all(at).expect("made");
            let mounted = Command::new("mount").arg("--bind").args([&share, at]).status();
            assert!(mounted.is_ok_and(|status| status.success()), "{}", at.display());
        };
        let unbind = |at: &Path| nix::mount::umount(at).expect("it is mounted");

        let mounted = folder.charm().join("mnt");
        bind(&mounted);
        is_refused(deployer.remove(unit, &folder).expect_err("it is mounted"), &mounted);
        assert!(folder.file(AgentConfig::FILE).exists(), "it is recalled later");
        unbind(&mounted);
        // mounted again between the check and the deletion
        let removed = machine.path().join("removed").join(format!("{}-{unit}-1", folder.tag()));
        fs::create_dir_all(removed.parent().expect("a folder")).expect("made");
        fs::rename(folder.root(), &removed).expect("moved");
        let mounted = removed.join("charm/mnt");
        bind(&mounted);
        tree::remove(&removed).expect_err("it is mounted");
        assert_eq!(fs::read_to_string(share.join("file")).expect("it is kept"), "precious");
        let left = deployer.removed_folders(Some(unit)).expect("listed");
        assert!(left.iter().eq([&removed]));
        assert!(deployer.removed_folders(Some(Uuid(7))).expect("listed").is_empty(), "of another unit");
        unbind(&mounted);
        tree::remove(&removed).expect("nothing is mounted");
        assert!(!removed.exists());
    });
}

fn config(kind: AgentKind, name: &str) -> AgentConfig {
    AgentConfig {
        kind,
        uuid: Uuid(6),
        name: name.to_owned(),
        model: Uuid(2),
        controllers: vec!["127.0.0.1:1".to_owned()],
        server_name: "here".to_owned(),
        ca: String::new(),
        token: "ab".repeat(32),
        machine: String::new(),
    }
}

fn mount(folder: &Path) {
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(folder).status();
    assert!(mounted.is_ok_and(|status| status.success()), "{}", folder.display());
}

/// Makes the host look as if systemd runs, with a `systemctl` that can stop only units that have a file.
fn fake_systemd() {
    mount(Path::new("/run"));
    mount(Path::new("/etc"));
    for folder in ["/run/systemd/system", "/etc/systemd/system/multi-user.target.wants", PROGRAMS] {
        fs::create_dir_all(folder).expect("made");
    }
    fake_systemctl(
        "if [ \"$1\" = stop ] && [ ! -e /run/systemd/system/pintle-unit@.service ]; then\n\
            echo \"Failed to stop $2: Unit $2 not loaded.\"; exit 5\n\
        fi\n",
    );
}

/// Replaces systemctl by a script, which logs its arguments to [`calls`] first.
fn fake_systemctl(script: &str) {
    let systemctl = Path::new(PROGRAMS).join("systemctl");
    fs::write(&systemctl, format!("#!/bin/sh\necho \"$@\" >> {PROGRAMS}/calls\n{script}")).expect("written");
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("it belongs to this test");
}

/// What systemctl was called with since the last call of this function.
fn calls() -> Vec<String> {
    let log = Path::new(PROGRAMS).join("calls");
    let logged = fs::read_to_string(&log).unwrap_or_default();
    fs::remove_file(log).ok();
    logged.lines().map(str::to_owned).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

fn dead_machine(parent: &Path) -> PathBuf {
    let data = parent.join("pintle");
    let unit = data.join("agents/unit-web-0");
    fs::create_dir_all(&unit).expect("made");
    write_atomic_unsynced(
        &data.join(AgentConfig::FILE),
        config::to_yaml(&config(AgentKind::Machine, "0")).as_bytes(),
    )
    .expect("written");
    write_atomic_unsynced(
        &unit.join(AgentConfig::FILE),
        config::to_yaml(&config(AgentKind::Unit, "web/0")).as_bytes(),
    )
    .expect("written");
    uninstall::mark_dead(&data).expect("written");
    data
}

fn agent() -> Command {
    let mut agent = Command::new(AGENT);
    agent.stdin(Stdio::null()).stderr(Stdio::piped());
    agent
}

/// Runs the agent of a Dead machine until it has uninstalled its units, or ends. Returns the line that states which: the
/// controller is unreachable, which is logged after the units are removed.
fn uninstall_units(data: &Path, options: &[&str]) -> String {
    let mut agent = agent().args(["machine", "--data"]).arg(data).args(options).spawn().expect("it runs");
    let mut lines = BufReader::new(agent.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let last = lines.find(|line| line.contains(" WARN ") || line.contains("ERROR"));
    agent.kill().and_then(|()| agent.wait()).expect("it belongs to this test");
    last.expect("it ends with an error, or goes on")
}

/// 1. A machine is Dead, and its unit agents are services.
/// 2. The host reboots, which deletes the template of these services.
#[test]
fn uninstalling_resumes_after_a_reboot() {
    in_namespaces("uninstalling_resumes_after_a_reboot", || {
        let parent = tempfile::tempdir().expect("a folder");
        fake_systemd();
        let data = dead_machine(parent.path());
        let last = uninstall_units(&data, &["--systemd"]);
        assert!(last.contains(" WARN "), "{last}");
        assert!(!data.join("agents/unit-web-0").exists(), "{last}");
    });
}

/// A process that runs until it is killed.
fn process(folder: &Path) -> (Child, Process) {
    process_of("sleep", folder)
}

/// A process whose program has the name of the shim's, with the run in its arguments.
fn shim(run: &Path) -> (Child, Process) {
    let program = Path::new(PROGRAMS).join("pintle-hook");
    if !program.exists() {
        fs::copy("/bin/sh", &program).expect("copied");
    }
    let mut shim = Command::new(program);
    let child = shim.args(["-c", "read line"]).arg(run).stdin(Stdio::piped()).spawn().expect("it runs");
    let process = Process::find(i32::try_from(child.id()).expect("a pid")).expect("it runs");
    (child, process)
}

fn process_of(program: &str, folder: &Path) -> (Child, Process) {
    let child = Command::new(program).arg("1000000").current_dir(folder).spawn().expect("it runs");
    let process = Process::find(i32::try_from(child.id()).expect("a pid")).expect("it runs");
    (child, process)
}

/// 1. web/0 runs a hook, and its configuration is damaged. The folder of db/0 was quarantined.
/// 2. The machine is removed by force.
#[test]
fn no_hook_survives_the_uninstallation_whatever_its_folder_holds() {
    in_namespaces("no_hook_survives_the_uninstallation_whatever_its_folder_holds", || {
        let parent = tempfile::tempdir().expect("a folder");
        fake_systemd();
        let data = dead_machine(parent.path());
        fs::write(data.join("agents/unit-web-0").join(AgentConfig::FILE), "\0").expect("written");
        for options in [&[][..], &["--systemd"]] {
            // no service has the last name
            let folders = ["agents/unit-web-0", "quarantine/unit-db-0-7", "agents/a copy"];
            let mut hooks = folders.map(|folder| {
                let run = data.join(folder).join("hooks/000001");
                fs::create_dir_all(&run).expect("made");
                let (child, process) = shim(&run);
                process.write(&run.join(SHIM_PID)).expect("written");
                (child, folder, process)
            });
            let last = uninstall_units(&data, options);
            assert!(last.contains(" WARN "), "{last}");
            for (child, folder, hook) in &mut hooks {
                assert!(!hook.is_alive(), "{folder}: it would run in a folder that is deleted");
                child.wait().expect("it belongs to this test");
            }
        }
    });
}

fn attached(pool: StoragePool, instance: u128, location: &str) -> MachineStorage {
    MachineStorage {
        instance: Uuid(instance << 100),
        kind: StorageType::Filesystem,
        pool,
        size_mib: 1,
        removed: false,
        attachment: Some(MachineAttachment {
            unit: Uuid(6),
            wanted_location: Some(location.to_owned()),
            read_only: false,
            location: None,
        }),
    }
}

/// The mount points in these folders.
fn mounts_below(folders: &[&Path]) -> Vec<PathBuf> {
    let mut mounted = host::mounts::mount_points().expect("a list");
    mounted.retain(|path| folders.iter().any(|folder| path.starts_with(folder)));
    mounted
}

/// 1. A machine becomes Dead while a service of a charm uses its storage, and its agent dies.
/// 2. The next agent uninstalls it.
#[test]
fn storage_in_use_is_released_before_the_folder_of_a_dead_machine_is_deleted() {
    in_namespaces("storage_in_use_is_released_before_the_folder_of_a_dead_machine_is_deleted", || {
        mount(Path::new("/var/lib"));
        mount(Path::new("/srv"));
        let data = dead_machine(Path::new("/var/lib"));
        let locations = ["/srv/a", "/srv/b", "/srv/c"].map(Path::new);
        let pools = [StoragePool::Rootfs, StoragePool::Tmpfs, StoragePool::Rootfs];
        for (number, (location, pool)) in (1u32..).zip(locations.iter().zip(pools)) {
            let id = StorageId { name: "data".into(), number };
            let storage = attached(pool, u128::from(number), &location.display().to_string());
            let provided = block_on(StoragePools::new(&data).provide_storage(&id, &storage));
            assert_eq!(Path::new(&provided.expect("it is mounted")), *location);
        }
        let mut users = locations.map(|location| process(location).0);
        let last = uninstall_units(&data, &[]);
        assert!(last.contains(" WARN "), "{last}");
        assert_eq!(mounts_below(&[Path::new("/srv"), &data]), ["/srv"].map(PathBuf::from));
        for user in &mut users {
            user.kill().and_then(|()| user.wait()).expect("it belongs to this test");
        }
    });
}

/// What prevents the release of one instance is named, after the others were released.
#[test]
fn storage_that_cannot_be_released_delays_the_uninstallation_and_no_other_storage() {
    in_namespaces("storage_that_cannot_be_released_delays_the_uninstallation_and_no_other_storage", || {
        mount(Path::new("/var/lib"));
        mount(Path::new("/srv"));
        let data = dead_machine(Path::new("/var/lib"));
        let id = StorageId { name: "data".into(), number: 1 };
        let storage = attached(StoragePool::Tmpfs, 1, "/srv/a");
        block_on(StoragePools::new(&data).provide_storage(&id, &storage)).expect("it is mounted");
        for name in ["a-0-0", "z-0-0"] {
            // a link that refers to itself stands for any file that cannot be read
            let folder = data.join("storage").join(name);
            fs::create_dir_all(&folder).expect("made");
            std::os::unix::fs::symlink("provided.yaml", folder.join("provided.yaml")).expect("linked");
        }
        let last = uninstall_units(&data, &[]);
        assert!(last.contains("storage/a-0-0") && last.contains("storage/z-0-0"), "{last}");
        assert!(data.join("agents/unit-web-0").exists(), "nothing is deleted yet");
        assert_eq!(mounts_below(&[Path::new("/srv"), &data]), ["/srv"].map(PathBuf::from));
    });
}

/// 1. The folder of the machine was moved, and a link was left.
/// 2. A charm has mounted a file system in it.
/// 3. The machine is removed, and its agent dies.
/// 4. Another machine is enrolled.
#[test]
fn no_enrolment_deletes_the_files_behind_a_link() {
    in_namespaces("no_enrolment_deletes_the_files_behind_a_link", || {
        let parent = tempfile::tempdir().expect("a folder");
        let data = dead_machine(parent.path());
        let export = data.join("agents/unit-web-0/export");
        fs::create_dir(&export).expect("made");
        mount(&export);
        fs::write(export.join("file"), "of others").expect("written");
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&data, &link).expect("linked");
        uninstall::clear_dead(&link).expect_err("a link is refused");
        assert!(export.join("file").exists());
        let opened = fs::File::open(&export).expect("it is held");
        let above = parent.path().join("above");
        std::os::unix::fs::symlink(parent.path(), &above).expect("linked");
        uninstall::clear_dead(&above.join("pintle")).expect("a folder below a link is not refused");
        assert!(!export.exists());
        let inside = format!("/proc/self/fd/{}/file", std::os::fd::AsRawFd::as_raw_fd(&opened));
        assert_eq!(fs::read_to_string(inside).expect("it was detached, not emptied"), "of others");
    });
}

/// The disk of the folder is one of its own.
#[test]
fn a_folder_that_is_a_mount_point_is_emptied_and_its_service_is_deleted() {
    in_namespaces("a_folder_that_is_a_mount_point_is_emptied_and_its_service_is_deleted", || {
        let parent = tempfile::tempdir().expect("a folder");
        fake_systemd();
        let data = parent.path().join("pintle");
        fs::create_dir(&data).expect("made");
        mount(&data);
        dead_machine(parent.path());
        unit_files::install(Path::new("/"), Path::new(AGENT), &data).expect("installed");
        block_on(uninstall::uninstall(&data)).expect("it is emptied");
        assert_eq!(fs::read_dir(&data).expect("it stays").count(), 0);
        assert!(!Path::new("/etc/systemd/system/pintle-machine.service").exists());
        dead_machine(parent.path());
        uninstall::clear_dead(&data).expect("it is cleared");
        fs::write(data.join("enrolling.yaml"), "another machine's").expect("written");
        block_on(uninstall::uninstall(&data)).expect_err("another machine is enrolled in it");
        assert!(data.join("enrolling.yaml").exists());
    });
}

/// A crash after any deletion must leave a service that is resumed at the next boot, or no unit file.
#[test]
fn the_link_that_starts_the_removal_at_boot_is_deleted_last() {
    in_namespaces("the_link_that_starts_the_removal_at_boot_is_deleted_last", || {
        fake_systemd();
        let link = Path::new("/etc/systemd/system/multi-user.target.wants/pintle-machine.service");
        for file in ["/etc/systemd/system/pintle-machine.service", "/run/systemd/system/pintle-unit@.service"]
        {
            unit_files::install(Path::new("/"), Path::new(AGENT), Path::new("/var/lib/pintle"))
                .expect("installed");
            fs::remove_file(file).ok();
            // a folder of this name cannot be deleted as a file
            fs::create_dir(file).expect("made");
            block_on(systemd::uninstall()).expect_err("it is cut off there");
            assert!(link.is_symlink(), "{file}");
            fs::remove_dir(file).expect("it is empty");
        }
        block_on(systemd::uninstall()).expect("nothing is in its way");
        assert!(!link.is_symlink());
    });
}

/// 1. The template was written, and the agent died before systemd had read it.
/// 2. The agent starts again.
#[test]
fn systemd_reads_the_template_of_the_services_at_each_start_of_the_machine_agent() {
    in_namespaces("systemd_reads_the_template_of_the_services_at_each_start_of_the_machine_agent", || {
        fake_systemd();
        fake_systemctl("exit 1");
        block_on(systemd::prepare(Path::new("/var/lib/pintle"))).expect_err("systemd does not answer");
        fake_systemctl("");
        calls();
        block_on(systemd::prepare(Path::new("/var/lib/pintle"))).expect("it answers");
        assert_eq!(calls(), ["--version", "daemon-reload"]);
    });
}

/// The service of the next machine is installed only if no agent of the earlier one runs.
#[test]
fn only_a_service_that_is_not_loaded_counts_as_stopped_if_it_cannot_be_stopped() {
    in_namespaces("only_a_service_that_is_not_loaded_counts_as_stopped_if_it_cannot_be_stopped", || {
        fake_systemd();
        for (script, is_stopped) in [("", true), ("exit 5", true), ("exit 1", false), ("kill $$", false)] {
            fake_systemctl(script);
            assert_eq!(block_on(systemd::stop_machine()).is_ok(), is_stopped, "{script}");
        }
    });
}

/// 1. A machine is uninstalled until only its folder is left.
/// 2. The host reboots.
#[test]
fn the_removal_service_deletes_the_remaining_folder_and_itself() {
    in_namespaces("the_removal_service_deletes_the_remaining_folder_and_itself", || {
        let parent = tempfile::tempdir().expect("a folder");
        fake_systemd();
        let data = dead_machine(parent.path());
        unit_files::install(Path::new("/"), Path::new(AGENT), &data).expect("installed");
        let file = Path::new("/etc/systemd/system/pintle-machine.service");
        let uninstall = || agent().args(["uninstall", "--data"]).arg(&data).output();
        assert!(!uninstall().expect("it runs").status.success(), "the removal was not started");
        assert!(file.exists() && data.join(AgentConfig::FILE).exists());
        unit_files::replace_with_removal(Path::new("/"), Path::new(AGENT), &data).expect("replaced");
        uninstall::clear_dead(&data).expect("only the lock is left");
        assert!(file.exists() && !data.join(AgentConfig::FILE).exists());
        let line = fs::read_to_string(file).expect("the file exists");
        let line = line.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a program");
        let ran = agent().args(line.split(' ').skip(1)).output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(!data.exists() && !file.exists());
        assert_eq!(fs::read_dir("/etc/systemd/system/multi-user.target.wants").expect("there").count(), 0);
    });
}
