//! The `nspawn` provider: a machine is a systemd-nspawn container with its own root file system, init system and
//! address.
//!
//! The root file system is an overlay over a base system that machines share (`bases`); the address is on the bridge of
//! the data folder.
//!
//! ```text
//! DIR/nspawn/network.yaml           the bridge
//! DIR/nspawn/base                   the default base system; others are in bases/NAME@RELEASE
//! DIR/nspawn/programs/              pintle-agent and pintle-hook, mounted in each machine as /usr/local/lib/pintle
//! DIR/machines/<uuid>/instance.yaml nonce and address; the instance exists once this file exists
//!                    /agent.yaml    configuration of the agent
//!                    /agent         a copy of agent.yaml and the names of the other machines, mounted in the machine
//!                                   as /etc/pintle
//!                    /furnished     exists once the machine is ready for its first boot
//!                    /upper /work   changes to the base system (overlay)
//!                    /root          the root file system, mounted while the machine runs (a copy of the base if
//!                                   overlays are not available)
//!                    /nspawn.pid    the process of the container on this host
//!                    /console.log   output of the container, bounded (`console`)
//! ```
//! A container keeps running when the supervisor dies; the next supervisor finds it by its pid file.
//!
//! After the first boot this host must never write below the root of the machine: a symbolic link created in the
//! machine would redirect a write of the host's root user to a file of this host.

use super::bases::{self, Bases, own_folder};
use super::console;
use super::instance::{CreatedInstance, Instance, InstanceSpec, host_hardware};
use super::loop_devices;
use super::machine_folder::{address, folders, hand_over, remove_folder};
use super::machine_names::{self, CONFIG_DIR};
use super::mounts::{is_mounted, mount_path};
use super::registration;
use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::network::Network;
use crate::supervisor::process;
use crate::supervisor::{agent_file, host_programs};
use api::AgentConfig;
use api::machine_folder::{CONSOLE_LOG, CONTAINER_PID, DATA_DIR};
use futures::stream::{StreamExt, iter};
use host::file::{create_private_folder, create_private_folder_in, exists, ignore_not_found, write_atomic};
use host::process::Process;
use host::program;
use nix::mount::{MsFlags, mount};
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The folder of the executables in a machine.
const PROGRAMS: &str = "/usr/local/lib/pintle";
/// The path in the machine at which [`CONFIG_DIR`] is mounted.
const CONFIG_IN_MACHINE: &str = "/etc/pintle";
/// Exists once the machine is ready for its first boot.
const READY_FILE: &str = "furnished";
/// Exit status of systemd-nspawn after a reboot from inside the container (systemd-nspawn(1), "Exit status").
const EXIT_REBOOTED: i32 = 133;
/// Longest time for a machine to stop its services during shutdown; after that it is killed.
const STOP_GRACE: Duration = Duration::from_secs(20);
/// Machines that are shut down at once. One takes 1.7 s, nearly all of it waiting: 16 take less than 5 s on two cores.
const STOPPED_AT_ONCE_MAX: usize = 16;
/// A container that cannot start exits at once; one that still runs after this time has started to boot.
const START_CHECK_AFTER: Duration = Duration::from_millis(300);
/// Shortest time between two starts of the same machine.
const RESTART_INTERVAL_MIN: Duration = Duration::from_secs(5);
/// Interval between two checks of a container that an earlier supervisor started.
const NON_CHILD_POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Shell script that writes `PID STARTTIME` of its own process and then becomes systemd-nspawn, so that the container
/// is found even if the supervisor dies directly after starting it.
const LAUNCH_SCRIPT: &str = r#"
file=$1; shift
read -r stat < /proc/$$/stat
field=2
for value in ${stat##*) }; do
    field=$((field + 1))
    if [ $field = 22 ]; then started=$value; fi
done
echo "$$ $started" > "$file.new" && mv "$file.new" "$file" && exec systemd-nspawn "$@"
"#;

/// The last start of a container, and how it exited.
#[derive(Clone, Copy, Debug)]
struct ContainerProcess {
    started: Instant,
    rebooted: bool,
}

/// The `nspawn` provider of a data folder.
pub struct Nspawn {
    pub(super) dir: DataDir,
    /// The executable `pintle-agent` of this host.
    agent: PathBuf,
    bases: Bases,
    network: Network,
    containers: Arc<Mutex<BTreeMap<Uuid, ContainerProcess>>>,
    /// Containers for whose exit a task waits.
    watched: BTreeSet<Uuid>,
    ended: Arc<Notify>,
}

/// Checks that this host has everything that the provider requires; the error lists what is missing.
pub fn require() -> Result<(), CommandError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(CommandError::new("cannot use provider nspawn: creating containers requires root"));
    }
    host_programs::require(&[
        ("systemd-nspawn", "systemd-container"),
        ("nft", "nftables"),
        ("ip", "iproute2"),
    ])
}

impl Nspawn {
    /// Creates the network and copies the executables to the folder that machines mount.
    ///
    /// # Errors
    /// If a program is missing, or the network cannot be created.
    pub async fn open(dir: DataDir, agent: PathBuf, mut bases: Bases) -> Result<Nspawn, CommandError> {
        let folder = own_folder(&dir);
        let to_error =
            |error: io::Error| CommandError::new(format!("cannot write {}: {error}", folder.display()));
        create_private_folder(&folder).map_err(to_error)?;
        let dir = DataDir::choose(Some(&mount_path(dir.path())?))?;
        bases.default = mount_path(&bases.default)?;
        for other in &mut bases.others {
            other.root = mount_path(&other.root)?;
        }
        let folder = own_folder(&dir);
        let programs = folder.join("programs");
        fs::create_dir_all(&programs).map_err(to_error)?;
        for name in ["pintle-agent", "pintle-hook"] {
            let (from, temporary) = (agent.with_file_name(name), programs.join(format!(".{name}")));
            fs::copy(&from, &temporary)
                .map_err(|error| CommandError::new(format!("cannot copy {}: {error}", from.display())))?;
            fs::rename(temporary, programs.join(name)).map_err(to_error)?;
        }
        let network = Network::open(&folder).await?;
        network.create().await?;
        let (containers, ended) = (Arc::default(), Arc::new(Notify::new()));
        Ok(Nspawn { dir, agent, bases, network, containers, watched: BTreeSet::new(), ended })
    }

    /// The address of this host in the network of the machines.
    pub fn gateway(&self) -> String {
        self.network.gateway.to_string()
    }

    /// The addresses in use, in all models and by kept instances.
    fn addresses(&self) -> io::Result<BTreeSet<Ipv4Addr>> {
        let mut addresses = BTreeSet::new();
        for path in [self.dir.machines(), self.dir.kept_instances()] {
            for folder in folders(&path)? {
                let instance = Instance::read(&folder)?;
                addresses.extend(instance.and_then(|instance| instance.address.parse::<Ipv4Addr>().ok()));
            }
        }
        Ok(addresses)
    }

    pub(super) fn running_address(&self, machine: Uuid) -> Option<String> {
        let folder = self.folder(machine);
        let runs = self.watched.contains(&machine) && running_container(&folder).is_some();
        if runs { address(&folder) } else { None }
    }

    pub(super) async fn create(&mut self, spec: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError> {
        let folder = self.folder(spec.machine.uuid);
        let to_error =
            |error: io::Error| CommandError::new(format!("cannot make {}: {error}", folder.display()));
        create_private_folder_in(&self.dir.machines(), spec.machine.uuid.to_string().as_ref())
            .map_err(to_error)?;
        let instance = match Instance::read(&folder).map_err(to_error)? {
            Some(instance) => instance,
            None => {
                let address =
                    self.network.lowest_free_address(&self.addresses().map_err(to_error)?)?.to_string();
                let root = self.bases.choose(spec.machine.requested_base.as_ref()).to_owned();
                let (model, nonce) = (spec.model.uuid, spec.nonce);
                let instance = Instance { model, nonce, address, hostname: hostname(spec), root: Some(root) };
                instance.write(&folder).map_err(to_error)?;
                instance
            }
        };
        let token =
            agent_file::write(&folder, spec.machine, spec.model.uuid, spec.client).map_err(to_error)?;
        copy_agent_config(&folder).map_err(to_error)?;
        machine_names::write(&self.dir).map_err(to_error)?;
        let base = instance.root.as_deref().unwrap_or(&self.bases.default);
        mount_root(base, &folder).await?;
        let name = hostname(spec);
        if !exists(&folder.join(READY_FILE)).map_err(to_error)? {
            self.prepare_root(&folder.join("root"), &name, &instance.address).await?;
            write_atomic(&folder.join(READY_FILE), b"").map_err(to_error)?;
        }
        let base = bases::of_root(base);
        Ok(CreatedInstance {
            instance_id: format!("nspawn-{name}"),
            address: instance.address,
            base,
            hardware: Some(host_hardware()),
            token,
        })
    }

    /// Prepares the root of a machine before its first boot: writes its files and installs the agent.
    async fn prepare_root(&self, root: &Path, name: &str, address: &str) -> Result<(), CommandError> {
        let to_error =
            |error: io::Error| CommandError::new(format!("cannot prepare {}: {error}", root.display()));
        self.write_files(root, name, address).map_err(to_error)?;
        let (root, program) = (root.display().to_string(), format!("{PROGRAMS}/pintle-agent"));
        let install = ["install", "--data", DATA_DIR, "--root", &root, "--program", &program];
        host_programs::run(&self.agent.display().to_string(), &install, program::QUICK).await.map(drop)
    }

    fn write_files(&self, root: &Path, name: &str, address: &str) -> io::Result<()> {
        let etc = root.join("etc");
        let network = format!(
            "[Match]\nName=host0\n\n[Network]\nAddress={}\nGateway={}\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n",
            self.network.with_prefix(address.parse().map_err(io::Error::other)?),
            self.network.gateway
        );
        write_public_file(&etc.join("systemd/network/10-pintle.network"), &network)?;
        write_public_file(&etc.join("hostname"), &format!("{name}\n"))?;
        write_public_file(
            &etc.join("hosts"),
            &format!("127.0.0.1 localhost\n{}", machine_names::line(address, name)),
        )?;
        for (unit, text) in machine_names::UNITS {
            write_public_file(&etc.join("systemd/system").join(unit), text)?;
            let wanted = etc.join("systemd/system/multi-user.target.wants").join(unit);
            link(&format!("/etc/systemd/system/{unit}"), &wanted)?;
        }
        // systemd generates the machine ID at the first boot.
        write_public_file(&etc.join("machine-id"), "")?;
        let wanted = etc.join("systemd/system/multi-user.target.wants/systemd-networkd.service");
        link("/lib/systemd/system/systemd-networkd.service", &wanted)?;
        let data = root.join(DATA_DIR.trim_start_matches('/'));
        create_private_folder(&data)?;
        link(&format!("{CONFIG_IN_MACHINE}/{}", AgentConfig::FILE), &data.join(AgentConfig::FILE))
    }

    pub(super) async fn start(&mut self, spec: &InstanceSpec<'_>) -> Result<Option<Duration>, CommandError> {
        let machine = spec.machine.uuid;
        let folder = self.folder(machine);
        if let Some(running) = running_container(&folder) {
            self.watch_running(machine, running);
            return Ok(None);
        }
        if let Some(process) = self.containers().get(&machine)
            && !process.rebooted
            && process.started.elapsed() < RESTART_INTERVAL_MIN
        {
            return Ok(Some(RESTART_INTERVAL_MIN - process.started.elapsed()));
        }
        kill_container_processes(&folder).await?;
        let to_error = |error: io::Error| CommandError::new(format!("cannot start the container: {error}"));
        let console_log = folder.join(CONSOLE_LOG);
        fs::remove_file(&console_log).ok();
        let (console, recording) = console::record(&console_log).map_err(to_error)?;
        let short = &machine.to_string()[..8];
        let host_resolver = match Path::new("/run/systemd/resolve/resolv.conf").exists() {
            true => "copy-uplink",
            false => "copy-host",
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", LAUNCH_SCRIPT, "sh"])
            .arg(folder.join(CONTAINER_PID))
            .args(["--quiet", "--boot", "--link-journal=no"])
            .args(registration::arguments(registration::is_possible().await))
            .args(["--console=pipe", "--directory"])
            .arg(folder.join("root"))
            .arg(format!("--machine=m{short}"))
            .arg(format!("--network-bridge={}", self.network.bridge))
            .arg(format!("--resolv-conf={host_resolver}"))
            .arg(format!("--bind-ro={}:{PROGRAMS}", own_folder(&self.dir).join("programs").display()))
            .arg(format!("--bind-ro={}:{CONFIG_IN_MACHINE}", folder.join(CONFIG_DIR).display()))
            .arg(format!("--hostname={}", hostname(spec)))
            .stdin(Stdio::null())
            .stdout(console.try_clone().map_err(to_error)?)
            .stderr(console)
            .process_group(0);
        let mut child = tokio::process::Command::from(command).spawn().map_err(to_error)?;
        self.containers().insert(machine, ContainerProcess { started: Instant::now(), rebooted: false });
        if let Ok(ended) = tokio::time::timeout(START_CHECK_AFTER, child.wait()).await {
            tokio::time::timeout(START_CHECK_AFTER, recording).await.ok();
            let output = fs::read_to_string(&console_log).unwrap_or_default();
            let last = output.trim().lines().last().unwrap_or("no output").to_owned();
            let status = ended.map_err(to_error)?;
            return Err(CommandError::new(format!("the container exited at once: {status}: {last}")));
        }
        self.watched.insert(machine);
        let (containers, ended) = (self.containers.clone(), self.ended.clone());
        tokio::spawn(async move {
            let status = child.wait().await;
            let rebooted = status.is_ok_and(|status| status.code() == Some(EXIT_REBOOTED));
            if let Some(process) = containers.lock().expect("no holder panics").get_mut(&machine) {
                process.rebooted = rebooted;
            }
            ended.notify_one();
        });
        Ok(None)
    }

    /// Watches a container that an earlier supervisor started.
    fn watch_running(&mut self, machine: Uuid, running: Process) {
        if self.watched.insert(machine) {
            let ended = self.ended.clone();
            tokio::spawn(async move {
                while running.is_alive() {
                    tokio::time::sleep(NON_CHILD_POLL_INTERVAL).await;
                }
                ended.notify_one();
            });
        }
    }

    pub(super) async fn terminate(&mut self, machine: Uuid) -> Result<(), CommandError> {
        self.watched.remove(&machine);
        self.containers().remove(&machine);
        let folder = self.folder(machine);
        stop_container(&folder).await?;
        let removed = remove_folder(&folder).and_then(|()| machine_names::write(&self.dir));
        removed.map_err(|error| CommandError::new(format!("cannot remove {}: {error}", folder.display())))
    }

    /// Hands the machine over. Its container keeps running.
    pub(super) fn hand_over(&mut self, machine: Uuid) -> Result<(), CommandError> {
        self.watched.remove(&machine);
        self.containers().remove(&machine);
        hand_over(&self.dir, machine)
    }

    pub(super) async fn wait_for_change(&self) {
        self.ended.notified().await;
    }

    fn containers(&self) -> std::sync::MutexGuard<'_, BTreeMap<Uuid, ContainerProcess>> {
        self.containers.lock().expect("no holder panics")
    }

    fn folder(&self, machine: Uuid) -> PathBuf {
        self.dir.machines().join(machine.to_string())
    }
}

/// Mounts the root file system of a machine over `base`, or copies `base` if overlays are not available.
async fn mount_root(base: &Path, folder: &Path) -> Result<(), CommandError> {
    let root = folder.join("root");
    if is_mounted(&root)? || root.join("etc").is_dir() {
        return Ok(());
    }
    let make = |name: &str| fs::create_dir_all(folder.join(name)).map(|()| folder.join(name));
    let made = make("root").and_then(|_| Ok((make("upper")?, make("work")?)));
    let to_error = |error: io::Error| CommandError::new(format!("cannot make {}: {error}", root.display()));
    let (upper, work) = made.map_err(to_error)?;
    let options =
        format!("lowerdir={},upperdir={},workdir={}", base.display(), upper.display(), work.display());
    let mounted = mount(Some("overlay"), &root, Some("overlay"), MsFlags::empty(), Some(options.as_str()));
    let Err(error) = mounted else { return Ok(()) };
    tracing::warn!("{}: cannot mount an overlay ({error}); copying the base system", root.display());
    let temporary = folder.join("root.new");
    if temporary.exists() {
        fs::remove_dir_all(&temporary).map_err(to_error)?;
    }
    let (from, to) = (base.display().to_string(), temporary.display().to_string());
    host_programs::run("cp", &["-a", "--reflink=auto", &from, &to], program::COPY).await?;
    fs::rename(&temporary, &root).map_err(to_error)
}

fn hostname(spec: &InstanceSpec<'_>) -> String {
    format!("{}-{}", spec.model.name, spec.machine.name)
}

/// Copies `agent.yaml` to the folder that the machine mounts. Root in the machine can write to that folder, so this
/// host never reads files in it or follows links.
fn copy_agent_config(folder: &Path) -> io::Result<()> {
    let text = fs::read_to_string(folder.join(AgentConfig::FILE))?;
    create_private_folder(&folder.join(CONFIG_DIR))?;
    write_atomic(&folder.join(CONFIG_DIR).join(AgentConfig::FILE), text.as_bytes())
}

/// Writes a file that all users can read, and replaces the one of the base system.
fn write_public_file(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
    ignore_not_found(fs::remove_file(path))?;
    let mut file = fs::File::create_new(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn link(to: &str, path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
    ignore_not_found(fs::remove_file(path))?;
    symlink(to, path)
}

/// The running container process of a machine's folder.
fn running_container(folder: &Path) -> Option<Process> {
    Process::read_alive(&folder.join(CONTAINER_PID))
}

/// Kills the processes of a container. A container keeps running if systemd-nspawn itself was killed.
async fn kill_container_processes(folder: &Path) -> Result<(), CommandError> {
    let left = process::stop(&process::processes_in_container(folder), Duration::ZERO).await;
    match left.first() {
        None => Ok(()),
        Some(left) => Err(CommandError::not_stopped(*left)),
    }
}

/// Shuts one machine down and unmounts its root.
async fn stop_container(folder: &Path) -> Result<(), CommandError> {
    if let Some(running) = running_container(folder) {
        // systemd-nspawn translates SIGTERM to an orderly power-off of the container.
        let left = process::stop(&[running], STOP_GRACE).await;
        if let Some(left) = left.first() {
            return Err(CommandError::not_stopped(*left));
        }
    }
    kill_container_processes(folder).await?;
    let root = folder.join("root");
    if is_mounted(&root)? {
        if Path::new("/dev/loop-control").exists() {
            loop_devices::detach(&root).await?;
        }
        // it writes back what the machine has written
        host_programs::run("umount", &[&root.display().to_string()], program::COPY).await?;
    }
    Ok(())
}

/// Shuts down all machines of a data folder, including kept instances, and deletes their network. Returns the number
/// of machines that were running.
///
/// # Errors
/// If a container does not stop, or the network cannot be deleted.
pub async fn stop_all_containers(dir: &DataDir) -> Result<usize, CommandError> {
    let mut all = Vec::new();
    for path in [dir.machines(), dir.kept_instances()] {
        // The path is not checked with `mount_path`: the data folder of another provider can have any name.
        let path = path.canonicalize().unwrap_or(path);
        let listed = folders(&path);
        all.extend(listed.map_err(|error| CommandError::new(format!("cannot list the machines: {error}")))?);
    }
    let ran = all.iter().filter(|folder| running_container(folder).is_some()).count();
    // A machine that does not stop must not keep the others running: each is stopped, then the first error is returned.
    let results = iter(&all).map(|folder| stop_container(folder)).buffered(STOPPED_AT_ONCE_MAX);
    results.collect::<Vec<_>>().await.into_iter().collect::<Result<(), CommandError>>()?;
    Network::delete(&own_folder(dir)).await?;
    Ok(ran)
}
