//! A real etcd of three members on the loopback interface, for tests.
//!
//! The members are those of the host's package `etcd-server` (tests/prerequisites.sh). Their folders and processes end with
//! the last handle, also when a test panics. Tests that do not harm the members share one cluster, each with a prefix of
//! its own, since a start takes seconds.

use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the members may take to elect a leader, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A port may be taken by another process before its member listens: so often a cluster is started again.
const START_ATTEMPTS: usize = 3;

/// One member.
struct Member {
    name: String,
    port: u16,
    arguments: Vec<String>,
    /// The user that runs it; that of the test if none.
    user: Option<u32>,
    process: Mutex<Option<Child>>,
}

/// The files of TLS connections, which a test has made.
#[derive(Clone)]
pub struct ServerTls {
    /// The certificate of the members, which names 127.0.0.1.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// The CA of the certificates that clients must have.
    pub client_ca: String,
}

/// A running cluster.
pub struct EtcdCluster {
    members: Vec<Member>,
    _folder: TempDir,
}

static SHARED: Mutex<Weak<EtcdCluster>> = Mutex::new(Weak::new());

impl EtcdCluster {
    /// Returns the cluster that is shared by the tests of this process.
    pub fn shared() -> Arc<EtcdCluster> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(EtcdCluster::start(&["--max-txn-ops=2048"]));
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    /// Starts a cluster of three members with these flags.
    pub fn start(flags: &[&str]) -> EtcdCluster {
        EtcdCluster::start_members(3, flags, None)
    }

    /// Starts a cluster. With `tls`, clients must have a certificate.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_members(count: usize, flags: &[&str], tls: Option<&ServerTls>) -> EtcdCluster {
        EtcdCluster::try_to_start(|| EtcdCluster::try_start(count, flags, tls, None))
    }

    /// Starts a cluster, each member as a user of its own from `first_user` on.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_as(count: usize, flags: &[&str], first_user: Option<u32>) -> EtcdCluster {
        EtcdCluster::try_to_start(|| EtcdCluster::try_start(count, flags, None, first_user))
    }

    fn try_to_start(start: impl Fn() -> Option<EtcdCluster>) -> EtcdCluster {
        let started = (0..START_ATTEMPTS).find_map(|_| start());
        started.expect("etcd starts: is the package etcd-server installed?")
    }

    fn try_start(
        count: usize,
        flags: &[&str],
        tls: Option<&ServerTls>,
        first_user: Option<u32>,
    ) -> Option<EtcdCluster> {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = free_ports(2 * count);
        let names: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
        let peer = |number: usize| format!("http://127.0.0.1:{}", ports[count + number]);
        let cluster: Vec<String> =
            (0..count).map(|number| format!("{}={}", names[number], peer(number))).collect();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut tls_flags = Vec::new();
        if let Some(tls) = tls {
            let file = |name: &str, content: &str| {
                let path = folder.path().join(name);
                std::fs::write(&path, content).expect("it is written");
                path.display().to_string()
            };
            tls_flags.push(format!("--cert-file={}", file("server.pem", &tls.certificate)));
            tls_flags.push(format!("--key-file={}", file("server-key.pem", &tls.key)));
            tls_flags.push(format!("--trusted-ca-file={}", file("client-ca.pem", &tls.client_ca)));
            tls_flags.push("--client-cert-auth".to_owned());
        }
        let member = |number: usize| {
            let client = format!("{scheme}://127.0.0.1:{}", ports[number]);
            let mut arguments: Vec<String> = [
                format!("--name={}", names[number]),
                format!("--data-dir={}", folder.path().join(&names[number]).display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={}", peer(number)),
                format!("--initial-advertise-peer-urls={}", peer(number)),
                format!("--initial-cluster={}", cluster.join(",")),
                "--initial-cluster-state=new".to_owned(),
                // Elections take half a second instead of one, so that a killed member costs less time.
                "--heartbeat-interval=50".to_owned(),
                "--election-timeout=500".to_owned(),
                "--log-level=error".to_owned(),
            ]
            .into();
            arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
            arguments.extend(tls_flags.iter().cloned());
            let user = first_user.map(|first| first + number as u32);
            if let Some(user) = user {
                let data = folder.path().join(&names[number]);
                std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o711))
                    .expect("own folder");
                std::fs::DirBuilder::new().mode(0o700).create(&data).expect("a new folder");
                std::os::unix::fs::chown(data, Some(user), Some(user)).expect("root may do it");
            }
            let (name, port) = (names[number].clone(), ports[number]);
            Member { name, port, arguments, user, process: Mutex::new(None) }
        };
        let members = (0..count).map(member).collect();
        let started = EtcdCluster { members, _folder: folder };
        (0..count).for_each(|number| started.start_member(number));
        started.waits_until_it_serves().then_some(started)
    }

    /// The members, as `HOST:PORT`.
    pub fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect()
    }

    /// Starts a member, also one that was killed.
    pub fn start_member(&self, number: usize) {
        let member = &self.members[number];
        let mut command = Command::new("etcd");
        command.args(&member.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(user) = member.user {
            command.uid(user).gid(user).current_dir("/");
        }
        let process = command.spawn().unwrap_or_else(|error| panic!("{} starts: {error}", member.name));
        *member.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
    }

    /// Returns the process of a member, unless it was killed.
    pub fn pid(&self, number: usize) -> Option<i32> {
        let process = self.members[number].process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_ref().and_then(|process| process.id().try_into().ok())
    }

    /// Kills a member with SIGKILL.
    pub fn kill(&self, number: usize) {
        let mut process = self.members[number].process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut process) = process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }

    /// Runs etcdctl against the members that run, and returns whether it succeeds.
    pub fn etcdctl(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.addresses().join(",")));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("etcdctl starts: is the package etcd-client installed?").success()
    }

    /// Returns the keys that begin with a prefix.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        self.get(&["--prefix", "--keys-only", prefix])
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> String {
        self.get(&["--print-value-only", key]).concat()
    }

    /// Returns the keys that begin with a prefix, each with its revision.
    pub fn revisions(&self, prefix: &str) -> Vec<String> {
        let fields = self.get(&["--prefix", "--write-out=fields", prefix]);
        let kept = |line: &&String| line.starts_with("\"Key\"") || line.starts_with("\"ModRevision\"");
        fields.iter().filter(kept).cloned().collect()
    }

    /// Returns the lease with which a key ends: its id in hexadecimal, and its whole length in seconds.
    pub fn lease(&self, key: &str) -> (String, String) {
        let fields = self.get(&["--write-out=fields", key]);
        let lease = fields.iter().find_map(|line| line.strip_prefix("\"Lease\" : "));
        let lease: i64 = lease.and_then(|lease| lease.parse().ok()).expect("the key exists");
        let id = format!("{lease:x}");
        let printed = self.run(&["lease", "timetolive", &id]).concat();
        let seconds = printed.split("TTL(").nth(1).and_then(|rest| rest.split("s)").next());
        (id, seconds.unwrap_or_default().to_owned())
    }

    /// Returns the lines that etcdctl prints about keys.
    fn get(&self, arguments: &[&str]) -> Vec<String> {
        self.run(&[&["get"], arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.addresses().join(",")));
        let printed = command.args(arguments).output();
        let printed = printed.expect("etcdctl starts: is the package etcd-client installed?");
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let lines = String::from_utf8_lossy(&printed.stdout);
        lines.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Waits until all members accept connections. With a leader the first request is served; a client waits for it.
    fn waits_until_it_serves(&self) -> bool {
        let deadline = Instant::now() + START_TIMEOUT;
        for member in &self.members {
            loop {
                let has_ended = |process: &mut Child| process.try_wait().is_ok_and(|status| status.is_some());
                let mut process = member.process.lock().unwrap_or_else(PoisonError::into_inner);
                if process.as_mut().is_none_or(has_ended) || Instant::now() > deadline {
                    return false;
                }
                drop(process);
                // A member listens for clients only when it has joined a cluster with a leader.
                if std::net::TcpStream::connect(("127.0.0.1", member.port)).is_ok() {
                    break;
                }
                std::thread::yield_now();
            }
        }
        true
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|number| self.kill(number));
    }
}

/// Returns ports that no process listens on.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}
