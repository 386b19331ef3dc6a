//! The processes of a run: members of etcd, controllers and units, and how each is killed, stopped and cut off.
//!
//! The first controller and the machines are those of `pintle up`; its supervisor starts them again. Members and the other
//! controllers belong to the run, and each has a user of its own as root, so that a rule of the packet filter finds what it
//! sends. The run is in a network namespace of its own then, whose rules concern nothing else on this host.

use super::plan::{Sizes, Target};
use crate::host::{Host, programs};
use crate::scene::text;
use anyhow::{Context, Result, bail};
use api::ClientFile;
use host::file::write_atomic;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use test_support::etcd_cluster::EtcdCluster;

/// The user of the first member; those of the others follow.
const MEMBER_USER: u32 = 60_100;
/// The user of the second controller; those of the others follow.
const CONTROLLER_USER: u32 = 60_200;
/// The rules that drop what the users and the ports of the sets send.
const RULES: &str = "add table inet chaos; \
    add set inet chaos users { type uid; }; \
    add set inet chaos ports { type inet_service; }; \
    add chain inet chaos out { type filter hook output priority 0; }; \
    add rule inet chaos out meta skuid @users drop; \
    add rule inet chaos out tcp sport @ports drop";

/// Prepares the network namespace of this process. Returns whether processes can be cut off in it.
pub fn prepare_namespace() -> bool {
    run("ip", &["link", "set", "lo", "up"]).is_ok() && run("nft", &[RULES]).is_ok()
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// A controller beside the one of `pintle up`.
struct FurtherController {
    data: PathBuf,
    address: String,
    user: Option<u32>,
    process: Option<Child>,
    is_wanted: bool,
}

/// The processes of a run. Dropping it ends them.
pub struct System {
    // fields are dropped in order: processes end before their folders are deleted
    further: Vec<FurtherController>,
    /// The first controller, with the machines.
    pub host: Host,
    cluster: EtcdCluster,
    /// The folder in which the units write.
    pub trace: PathBuf,
    /// The folder of [`System::client_folders`].
    clients: PathBuf,
    /// The processes that are stopped.
    stopped: BTreeMap<Target, i32>,
    /// How often a controller has ended by itself, with its status.
    pub ended: Vec<String>,
    _scratch: TempDir,
}

impl System {
    /// Starts etcd and the controllers.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(sizes: Sizes) -> Result<System> {
        let scratch = TempDir::with_prefix("pintle-chaos-")?;
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711))?;
        let folder = scratch.path().canonicalize()?;
        let trace = folder.join("trace");
        std::fs::create_dir(&trace)?;
        let user = |first: u32| sizes.can_cut_off.then_some(first);
        let cluster = EtcdCluster::start_as(sizes.members, &["--max-txn-ops=2048"], user(MEMBER_USER));
        let host = Host::new(&folder.join("data"));
        host.ok(&["up", "--store", &format!("etcd://{}", cluster.addresses().join(","))]);
        let mut further = Vec::new();
        for number in 1..sizes.controllers {
            let data = folder.join(format!("controller-{number}"));
            let program = programs().join("pintle-controller");
            run(text(&program), &["add-controller", "--data", text(&host.dir), "--to", text(&data)])?;
            let user = user(CONTROLLER_USER + number as u32);
            if let Some(user) = user {
                run("chown", &["-R", &format!("{user}:{user}"), text(&data)])?;
            }
            further.push(FurtherController {
                data,
                address: free_address()?,
                user,
                process: None,
                is_wanted: true,
            });
        }
        let mut system = System {
            further,
            host,
            cluster,
            trace,
            clients: folder.join("clients"),
            stopped: BTreeMap::new(),
            ended: Vec::new(),
            _scratch: scratch,
        };
        let addresses: String = system.further.iter().map(|it| format!("- {}\n", it.address)).collect();
        if !addresses.is_empty() {
            let client = system.host.dir.join("client.yaml");
            let file = std::fs::read_to_string(&client)?;
            std::fs::write(&client, format!("{file}other_controllers:\n{addresses}"))?;
            // agents read the addresses when they start
            system.host.ok(&["down"]);
            system.host.ok(&["up"]);
        }
        system.start_missing()?;
        Ok(system)
    }

    /// The data folders of all controllers.
    pub fn data_folders(&self) -> Vec<PathBuf> {
        [self.host.dir.clone()].into_iter().chain(self.further.iter().map(|it| it.data.clone())).collect()
    }

    /// Starts each further controller that is to run and does not, also one that has ended by itself.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start_missing(&mut self) -> Result<()> {
        for (index, controller) in self.further.iter_mut().enumerate() {
            if let Some(process) = &mut controller.process {
                let Some(status) = process.try_wait()? else { continue };
                self.ended.push(format!("controller {}: {status}", index + 1));
                controller.process = None;
            }
            if controller.is_wanted {
                let log = std::fs::File::options()
                    .create(true)
                    .append(true)
                    .open(controller.data.join("own.log"))?;
                let mut command = Command::new(programs().join("pintle-controller"));
                command.args(["--data", text(&controller.data), "--listen", &controller.address]);
                command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).current_dir("/");
                if let Some(user) = controller.user {
                    command.uid(user).gid(user);
                }
                controller.process = Some(command.spawn()?);
            }
        }
        Ok(())
    }

    /// The process of a target, if it runs.
    pub fn pid(&self, target: Target) -> Option<i32> {
        match target {
            Target::Member(number) => self.cluster.pid(number),
            Target::Controller(0) => self.host.pid(&self.host.dir.join("controller.pid")),
            Target::Controller(number) => {
                self.further[number - 1].process.as_ref().and_then(|process| process.id().try_into().ok())
            }
            Target::Agent(number) => self.host.agent_pid(&unit(number)),
        }
    }

    /// Kills a process. A supervisor starts the first controller and agents again; the others stay down.
    pub fn kill(&mut self, target: Target) {
        match target {
            Target::Member(number) => self.cluster.kill(number),
            Target::Controller(number) if number > 0 => self.further[number - 1].kill(),
            Target::Controller(_) | Target::Agent(_) => {
                self.pid(target).into_iter().for_each(|pid| send("KILL", pid));
            }
        }
    }

    /// Stops a process.
    pub fn stop(&mut self, target: Target) {
        if let Some(pid) = self.pid(target) {
            send("STOP", pid);
            self.stopped.insert(target, pid);
        }
    }

    /// Continues a process that was stopped.
    pub fn go_on(&mut self, target: Target) {
        self.stopped.remove(&target).into_iter().for_each(|pid| send("CONT", pid));
    }

    /// Starts a process that was killed, unless a supervisor does.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_again(&mut self, target: Target) -> Result<()> {
        match target {
            Target::Member(number) => self.cluster.start_member(number),
            Target::Controller(number) if number > 0 => self.further[number - 1].is_wanted = true,
            Target::Controller(_) | Target::Agent(_) => {}
        }
        self.start_missing()
    }

    /// Begins or ends to drop what a member or a controller sends; of the first controller, what it answers.
    ///
    /// # Errors
    /// If the packet filter refuses.
    pub fn cut_off(&self, target: Target, begins: bool) -> Result<()> {
        let verb = if begins { "add" } else { "delete" };
        let element = match target {
            Target::Member(number) => format!("users {{ {} }}", MEMBER_USER + number as u32),
            Target::Controller(0) => {
                let file = std::fs::read_to_string(self.host.dir.join("client.yaml"))?;
                let address = file.lines().find_map(|line| line.strip_prefix("controller: "));
                let port = address.and_then(|address| address.trim_matches(['"', '\'']).rsplit(':').next());
                format!("ports {{ {} }}", port.context("the controller has an address")?)
            }
            Target::Controller(number) => format!("users {{ {} }}", CONTROLLER_USER + number as u32),
            Target::Agent(_) => bail!("an agent is not cut off"),
        };
        run("nft", &[&format!("{verb} element inet chaos {element}")])
    }

    /// Returns folders from which a command asks one of the controllers only: the data folder of a further one has the
    /// addresses of others, which would answer in its place.
    ///
    /// # Errors
    /// If a client file cannot be read or written.
    pub fn client_folders(&self) -> Result<Vec<PathBuf>> {
        let file: ClientFile =
            charms::yaml::from_str(&std::fs::read_to_string(self.host.dir.join("client.yaml"))?)?;
        let addresses = [&file.controller].into_iter().chain(self.further.iter().map(|it| &it.address));
        let single = |(number, address): (usize, &String)| {
            let single =
                ClientFile { controller: address.clone(), other_controllers: Vec::new(), ..file.clone() };
            let folder = self.clients.join(number.to_string());
            std::fs::create_dir_all(&folder)?;
            write_atomic(&folder.join("client.yaml"), charms::yaml::to_string(&single)?.as_bytes())?;
            Ok(folder)
        };
        addresses.enumerate().map(single).collect()
    }

    /// The files of the logs, with those that were rotated.
    pub fn logs_with(&self, word: &str) -> Result<String> {
        let mut command = Command::new("grep");
        command.args(["-rl", "--include=*.log*", word]).args(self.data_folders());
        Ok(String::from_utf8(command.output()?.stdout)?)
    }
}

impl FurtherController {
    fn kill(&mut self) {
        self.is_wanted = false;
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

impl Drop for FurtherController {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process that may have ended.
fn send(signal: &str, pid: i32) {
    // it has ended then
    Command::new("kill").args(["-s", signal, &pid.to_string()]).stderr(Stdio::null()).status().ok();
}

/// The unit of this number. Units 0 and 1 pass a ball to each other, and so on.
pub fn unit(number: usize) -> String {
    format!("ball-{}/0", letters(number))
}

/// The application of the unit of this number.
pub fn application(number: usize) -> String {
    format!("ball-{}", letters(number))
}

/// A name of two letters, because a number at its end would be that of a unit.
fn letters(number: usize) -> String {
    let letter = |value: usize| char::from(b'a' + (value % 26) as u8);
    [letter(number / 26), letter(number)].into_iter().collect()
}

/// Returns an address of this host on which nothing listens.
fn free_address() -> Result<String> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// The folder of the charm.
pub fn charm() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charms/pingpong")
}
