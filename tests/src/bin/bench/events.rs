//! Measures the time from a changed setting to the start of its hook, compared with a handler of `etcdctl watch`, and
//! the CPU time of a hook.
//!
//! Hook and handler are the same static program, which reports its start. The writers are connected before the clock
//! starts: a client of the controller, and an `etcdctl txn` that waits for its input. The systems take turns, so that
//! other load affects both alike.

use super::{at, report};
use api::client::{Client, ControllerConnection};
use api::{ClientFile, ConfigChange, Configure, Handle, InModel};
use std::fs;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::host::Host;

const ROUNDS: usize = 300;
/// Rounds before the measurement.
const WARM_UP_ROUNDS: usize = 20;
/// Pause between two events, after which every process is idle again.
const PAUSE: Duration = Duration::from_millis(30);
/// Units that run a hook for each setting while the CPU time is measured: the request itself counts little.
const UNITS: usize = 20;
/// Settings that each of these units runs a hook for.
const SETTINGS: usize = 30;
/// The longest wait for a hook.
const DEADLINE: Duration = Duration::from_secs(60);
/// Milliseconds of a clock tick in `/proc/PID/stat`.
const TICK_MS: f64 = 10.0;

/// Prints both figures.
pub fn settings(dir: &Path) {
    let name = format!("pintle-bench-{}", std::process::id());
    let handler = compile(dir, &name);
    let starts = Starts::bind(&name);
    let host = Host::up(&dir.join("events"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let writer = SettingWriter { client: client(&host), runtime };
    deploy(&host, &charm(dir, "single", &handler), 1, &starts);
    let mut etcd = Etcd::start(dir, &handler);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP_ROUNDS + ROUNDS {
        std::thread::sleep(PAUSE);
        let latency = starts.after(1, || writer.set("single", round));
        if round >= WARM_UP_ROUNDS {
            ours.push(latency);
        }
        if let Some(etcd) = &mut etcd {
            std::thread::sleep(PAUSE);
            let latency = starts.after(1, || etcd.put(round));
            if round >= WARM_UP_ROUNDS {
                theirs.push(latency);
            }
            etcd.next_writer();
        }
    }
    report("setting to hook", &mut ours);
    if etcd.is_some() {
        report("etcdctl transaction to the handler of etcdctl watch", &mut theirs);
        let ratio = |percent| at(&ours, percent) / at(&theirs, percent);
        println!("ratio p10 {:.2}, p50 {:.2} (wanted: 1.2)", ratio(10), ratio(50));
    }
    drop(etcd);

    deploy(&host, &charm(dir, "many", &handler), UNITS, &starts);
    let agents: Vec<i32> = (0..UNITS).filter_map(|n| host.agent_pid(&format!("many/{n}"))).collect();
    let controller = super::agents::controller(&host);
    let cpu_ms = || [agents.iter().map(|pid| used_ms(*pid)).sum::<f64>(), used_ms(controller)];
    let before = cpu_ms();
    for round in 0..SETTINGS {
        starts.after(UNITS, || writer.set("many", round));
        std::thread::sleep(PAUSE * 4);
    }
    let after = cpu_ms();
    let hooks = (UNITS * SETTINGS) as f64;
    let [of_agents, of_controller] = [0, 1].map(|of| (after[of] - before[of]) / hooks);
    println!(
        "CPU of one hook of a static program: {:.2} ms (wanted: 4.5): agents, shims and hooks {of_agents:.2}, \
         controller {of_controller:.2}, over {hooks}",
        of_agents + of_controller
    );
}

/// Receives a datagram at each start of the handler.
struct Starts(UnixDatagram);

impl Starts {
    fn bind(name: &str) -> Starts {
        let address = SocketAddr::from_abstract_name(name).expect("a short name");
        let socket = UnixDatagram::bind_addr(&address).expect("a new name");
        socket.set_read_timeout(Some(DEADLINE)).expect("longer than nothing");
        Starts(socket)
    }

    /// Returns the milliseconds from the beginning of `write` until the handler has started this many times.
    fn after(&self, starts: usize, write: impl FnOnce()) -> f64 {
        std::thread::scope(|threads| {
            let received = threads.spawn(|| {
                for _ in 0..starts {
                    self.0.recv(&mut [0]).expect("the handler starts");
                }
                Instant::now()
            });
            let begin = Instant::now();
            write();
            let received = received.join().expect("it was received");
            received.duration_since(begin).as_secs_f64() * 1000.0
        })
    }
}

struct SettingWriter {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl SettingWriter {
    fn set(&self, application: &str, value: usize) {
        let change =
            ConfigChange { set: [("n".to_owned(), value.to_string())].into(), ..ConfigChange::default() };
        let configure = Configure { application: application.to_owned(), change };
        self.runtime.block_on(self.client.handle(configure)).expect("the setting is declared");
    }
}

fn client(host: &Host) -> Client {
    let text = fs::read_to_string(host.dir.join("client.yaml")).expect("it is up");
    let file: ClientFile = charms::yaml::from_str(&text).expect("the client's file");
    Client::user(&ControllerConnection::from(&file)).expect("the client's file").in_model(&file.model)
}

/// Compiles the handler. `name`: the socket to which it reports.
fn compile(dir: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches-src/stamp.c");
    let program = dir.join("stamp");
    let name = format!("-DNAME=\"{name}\"");
    let status = Command::new("cc").args(["-O2", "-static", &name, "-o"]).arg(&program).arg(source).status();
    assert!(status.expect("cc is there").success());
    program
}

/// A charm whose hooks are the handler.
fn charm(dir: &Path, name: &str, handler: &Path) -> PathBuf {
    let folder = dir.join(name);
    fs::create_dir_all(&folder).expect("it is our folder");
    let write = |file: &str, text: &str| fs::write(folder.join(file), text).expect("it is our folder");
    write("metadata.yaml", &format!("name: {name}\nsummary: bench\ndescription: bench\n"));
    write("config.yaml", "options:\n  n: {type: string, default: \"\"}\n");
    fs::copy(handler, folder.join("dispatch")).expect("it is our folder");
    fs::set_permissions(folder.join("dispatch"), PermissionsExt::from_mode(0o755)).expect("it is our file");
    folder
}

/// Deploys units and waits until their first hooks have run: install, config-changed and start, and leader-elected of
/// the first unit.
fn deploy(host: &Host, charm: &Path, units: usize, starts: &Starts) {
    let folder = charm.to_str().expect("text");
    starts.after(3 * units + 1, || drop(host.ok(&["deploy", folder, "-n", &units.to_string()])));
    std::thread::sleep(Duration::from_secs(1));
}

/// A server of etcd with a watch that starts the handler.
struct Etcd {
    address: String,
    processes: Vec<Child>,
    writer: Child,
}

impl Etcd {
    /// Starts the server, the watch and a writer. `None` if etcd is not installed.
    fn start(dir: &Path, handler: &Path) -> Option<Etcd> {
        let [client, peer] = [36_790, 36_791].map(|port| format!("http://127.0.0.1:{port}"));
        let mut server = Command::new("etcd");
        server.arg("--data-dir").arg(dir.join("etcd")).args(["--listen-client-urls", &client]);
        server.args(["--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
        server.args(["--initial-advertise-peer-urls", &peer, "--log-level", "error"]);
        server.args(["--initial-cluster", &format!("default={peer}")]);
        let Ok(server) = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            println!("etcd is not installed: apt-get install etcd-server etcd-client");
            return None;
        };
        std::thread::sleep(Duration::from_secs(3));
        let mut watch = etcdctl(&client);
        let watch = watch.args(["watch", "k", "--"]).arg(handler).stdout(Stdio::null()).spawn();
        let processes = vec![watch.expect("etcdctl is there"), server];
        std::thread::sleep(Duration::from_secs(1));
        let writer = writer(&client);
        Some(Etcd { address: client, processes, writer })
    }

    fn put(&mut self, value: usize) {
        let input = self.writer.stdin.as_mut().expect("it is a pipe");
        input.write_all(format!("\nput k \"{value}\"\n\n\n").as_bytes()).expect("it reads");
    }

    fn next_writer(&mut self) {
        let mut written = std::mem::replace(&mut self.writer, writer(&self.address));
        written.wait().expect("it is our child");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for process in std::iter::once(&mut self.writer).chain(&mut self.processes) {
            process.kill().and_then(|()| process.wait()).expect("it is our child");
        }
    }
}

fn etcdctl(address: &str) -> Command {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", address]);
    command
}

/// A connected client that waits for the value to write.
fn writer(address: &str) -> Child {
    let mut command = etcdctl(address);
    command.arg("txn").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("etcdctl is there")
}

/// Returns the milliseconds of CPU that a process and its children that have ended have used.
fn used_ms(pid: i32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // the name of the program, in parentheses, may contain spaces
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(4).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * TICK_MS
}
