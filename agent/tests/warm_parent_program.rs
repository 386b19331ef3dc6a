//! The program of the warm parent (`warm_observer.py` and `warm_parent.py`) with a real Python: what it answers to the modules of a charm. How it
//! forks hooks is tested with the whole product (`tests/tests/warm_dispatch`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = concat!(
    include_str!("../src/hook_process/warm_observer.py"),
    include_str!("../src/hook_process/warm_parent.py")
);

/// A charm and its warm parent, which is killed when this is dropped.
struct Parent {
    folder: TempDir,
    process: Child,
    control: BufReader<UnixStream>,
}

impl Drop for Parent {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Starts the parent of a charm whose program begins with this text, and whose module `library` is this.
fn start(program: &str, library: &str) -> Parent {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["src", "lib", "warm"] {
        fs::create_dir(path(name)).expect("a new folder");
    }
    let program = format!("#!/usr/bin/env python3\n{program}\nopen('ran', 'w')\n");
    fs::write(path("program"), program).expect("written");
    fs::write(path("lib/library.py"), library).expect("written");
    fs::write(path("lib/data"), "1").expect("written");
    fs::write(path("warm/sitecustomize.py"), PROGRAM).expect("written");
    let (control, other_end) = UnixStream::pair().expect("sockets");
    // As `pintle-hook --warm-parent` does. The program is written by another process: a child that another test forks
    // meanwhile would keep it open, and an open file cannot be executed.
    // Whoever runs the tests may have left further files open.
    let script = "exec 3<&0 </dev/null; cp program src/charm.py && chmod 755 src/charm.py && exec python3 -I -S -c \
                  'import os; os.closerange(4, 256); os.execv(\"./src/charm.py\", [\"./src/charm.py\"])'";
    let process = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("PYTHONPATH", format!("{}:lib", path("warm").display()))
        .env("LANG", "C.UTF-8")
        .env("COMMON", "1")
        .stdin(OwnedFd::from(other_end))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    Parent { folder, process, control: BufReader::new(control) }
}

impl Parent {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.control.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    /// The answer to a request that it refuses. No files come with it, because it needs none then.
    fn refusal(&mut self, variables: &[&str]) -> String {
        // a variable that is given twice has the last value
        let common = ["PATH=/usr/bin:/bin", "PYTHONPATH=lib", "LANG=C.UTF-8"];
        let fields = [&["/bin/false", "/", "./src/charm.py", ""], &common[..], variables].concat();
        let body: String = fields.iter().map(|field| format!("{field}\0")).collect();
        let length = u32::try_from(body.len()).expect("it is short");
        self.control.get_mut().write_all(&length.to_le_bytes()).expect("it reads");
        self.control.get_mut().write_all(body.as_bytes()).expect("it reads");
        self.answer()
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

#[test]
fn a_charm_whose_modules_only_define_things_has_a_warm_parent_which_never_runs_the_charm() {
    for program in [
        "import library",
        "from library import *",
        "'''doc'''\nfrom __future__ import annotations\nimport library",
    ] {
        let mut parent =
            start(program, "import os\nX = os.environ.get('COMMON')\nY = open('lib/data').read()");
        assert_eq!(parent.answer(), "ready", "{program}");
        drop(parent.control.get_mut().shutdown(std::net::Shutdown::Both));
        assert!(parent.process.wait().expect("it ends with the socket").success());
        assert!(!parent.path().join("ran").exists(), "{program}");
    }
}

#[test]
fn what_a_module_does_that_a_fork_would_not_repeat_is_named() {
    let table = [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
            "changes threads",
        ),
        ("import socket\ns = socket.socket()", "changes open files"),
        ("import os\nf = os.pipe()", "changes open files"),
        ("import os\nos.chdir('/')", "changes the working directory"),
        ("import os\nos.umask(0)", "changes the umask"),
        ("import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)", "changes signal handlers"),
        ("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)", "changes signal handlers"),
        (
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
            "changes blocked signals",
        ),
        ("import signal\nsignal.alarm(100)", "changes timers"),
        ("import os\nos.environ['A'] = 'b'", "changes environment variables"),
        ("import sys\nsys.path.append('/')", "changes sys.path"),
        ("import sys\nsys.path.insert(0, '/')", "changes sys.path"),
        ("import sys\nsys.argv.append('x')", "changes sys.argv"),
        ("import sys, io\nsys.stdout = io.StringIO()", "changes standard streams"),
        ("import subprocess\nsubprocess.run(['true'])", "starts a process"),
        ("import os\nos.system('true')", "starts a process"),
        ("open('lib/new', 'w').close()", "writes lib/new"),
        ("open('/proc/self/stat').close()", "reads /proc/self/stat"),
        ("import os\nX = os.path.exists('/proc/1')", "reads /proc/1"),
        ("import os\nos.makedirs('lib', exist_ok=True)", "changes lib"),
        ("import os\nos.chmod('lib', 0o755)", "changes lib"),
        ("import os\nos.remove('lib/data')", "changes lib/data"),
        (
            "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9)).close()\nexcept OSError:\n    pass",
            "calls socket.getaddrinfo",
        ),
        ("import random\nR = random.Random()", "make random numbers of their own"),
        ("import random\nclass C:\n    R = [random.Random(1)]", "make random numbers of their own"),
        ("import random\nR = random.random()", "make random numbers of their own"),
        ("import os\nX = os.urandom(4)", "makes random numbers"),
        ("import uuid\nX = uuid.uuid4()", "makes random numbers"),
        ("import os\nX = os.getpid()", "reads the number of its process"),
        ("from os import getppid\nX = getppid()", "reads the number of its process"),
        ("import time\nX = time.time()", "notes the time"),
        ("from time import monotonic_ns\nX = monotonic_ns()", "notes the time"),
        ("import os\nos.register_at_fork(after_in_child=print)", "registers a handler of forks"),
        ("import sys\nsys.addaudithook(lambda event, args: None)", "observes what Python does"),
        ("import mmap\nM = mmap.mmap(-1, 4096)", "changes shared memory"),
        ("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (900, 900))", "changes limits"),
        ("import os\nos.nice(1)", "changes priorities"),
        ("import ctypes\nctypes.CDLL(None).prctl(15, b'other')", "changes the process"),
        ("import ctypes\nctypes.CDLL(None).signal(15, 1)", "changes the process"),
        ("import os\nos.dup2(3, 1)", "changes open files"),
    ];
    for (library, reason) in table {
        let mut parent = start("import library", library);
        assert_eq!(parent.answer(), format!("cold {reason}"), "{library}");
        parent.process.wait().expect("it ends");
        assert!(!parent.path().join("ran").exists(), "{library}");
    }
}

/// A socket that was closed again leaves nothing: urllib3 looks whether the host has IPv6.
#[test]
fn what_a_module_undoes_is_allowed() {
    let mut parent = start("import library", "import socket\nsocket.socket().close()");
    assert_eq!(parent.answer(), "ready");
}

/// The modules of Python itself register handlers of forks and note the time of their import; both are known.
#[test]
fn the_modules_of_python_are_allowed() {
    let library = "import asyncio, concurrent.futures, ctypes, email.message, http.client, logging.handlers, mmap\n\
                   import multiprocessing.pool, queue, random, secrets, socketserver, sqlite3, ssl, subprocess, tempfile\n\
                   import threading, typing, unittest.mock, urllib.request, uuid, xml.etree.ElementTree, zipfile";
    assert_eq!(start("import library", library).answer(), "ready");
}

#[test]
fn only_the_imports_before_any_other_statement_are_executed() {
    let program = "import sys\nsys.path.append('lib')\nimport library";
    assert_eq!(start(program, "import os\nos.umask(0)").answer(), "ready");
}

#[test]
fn a_module_that_cannot_be_imported_is_left_to_the_charm() {
    assert_eq!(start("import absent\nimport library", "import os\nos.umask(0)").answer(), "ready");
    assert_eq!(start("this is no Python", "").answer(), "ready");
}

#[test]
fn a_request_with_another_value_of_a_variable_that_was_read_is_refused() {
    for (library, variables, answer) in [
        (
            "X = os.environ.get('JUJU_HOOK_NAME')",
            &["COMMON=1", "JUJU_HOOK_NAME=start"][..],
            "differs JUJU_HOOK_NAME",
        ),
        ("X = os.getenv('COMMON')", &["COMMON=2"], "stale COMMON"),
        ("", &["COMMON=1", "LANG=C"], "stale LANG"),
        ("", &["COMMON=1", "PATH=/bin"], "stale PATH"),
        ("X = 'JUJU_UNIT_NAME' in os.environ", &["COMMON=1", "JUJU_UNIT_NAME=u/0"], "differs JUJU_UNIT_NAME"),
        ("X = dict(os.environ)", &["COMMON=1", "A=b"], "differs os.environ"),
        ("X = os.environ.copy()", &["COMMON=1", "A=b"], "differs os.environ"),
    ] {
        let mut parent = start("import library", &format!("import os\n{library}"));
        assert_eq!(parent.answer(), "ready", "{library}");
        assert_eq!(parent.refusal(variables), answer, "{library}");
    }
}

/// A part of the path that is named, and what changes it.
type Change = (&'static str, fn(&Path));

#[test]
fn a_request_after_a_change_of_a_file_that_was_read_is_refused() {
    let changes: [Change; 8] = [
        ("lib/later", |charm| fs::write(charm.join("lib/later"), "").expect("written")),
        ("lib/data", |charm| {
            fs::set_permissions(charm.join("lib/data"), fs::Permissions::from_mode(0o600))
                .expect("it is ours");
        }),
        ("lib/library.py", |charm| fs::write(charm.join("lib/library.py"), "X = 2").expect("written")),
        ("lib/data", |charm| fs::write(charm.join("lib/data"), "23").expect("written")),
        ("lib", |charm| fs::write(charm.join("lib/json.py"), "").expect("written")),
        ("src", |charm| fs::write(charm.join("src/library.py"), "").expect("written")),
        ("src/charm.py", |charm| fs::write(charm.join("src/charm.py"), "").expect("written")),
        ("lib/library.py", |charm| fs::remove_file(charm.join("lib/library.py")).expect("it exists")),
    ];
    for (changed, change) in changes {
        let library = "import os, shutil\nX = open('lib/data').read()\nY = os.path.exists('lib/later')";
        let mut parent = start("import library", library);
        assert_eq!(parent.answer(), "ready");
        change(parent.path());
        let answer = parent.refusal(&["COMMON=1"]);
        assert!(answer.starts_with("stale ") && answer.contains(changed), "{changed}: {answer}");
    }
}

/// A hook that runs meanwhile may change what the import has read.
#[test]
fn a_file_that_changes_during_the_import_is_noticed() {
    // the module of the kernel's calls is not observed
    let library = "import posix\nf = open('lib/data')\nX = f.read()\nwaits = True\nwhile waits:\n    try:\n        \
                   posix.stat('warm/go')\n        waits = False\n    except OSError:\n        pass\nf.close()";
    let mut parent = start("import library", library);
    let data = parent.path().join("lib/data");
    let files = format!("/proc/{}/fd", parent.process.id());
    let is_open = || {
        let mut links = fs::read_dir(&files).expect("it runs").flatten();
        links.any(|link| fs::read_link(link.path()).is_ok_and(|file| file.ends_with("lib/data")))
    };
    while !is_open() {
        std::thread::yield_now();
    }
    fs::write(&data, "2").expect("written");
    fs::write(parent.path().join("warm/go"), "").expect("written");
    assert_eq!(parent.answer(), "ready");
    let answer = parent.refusal(&["COMMON=1"]);
    assert!(answer.starts_with("stale ") && answer.ends_with("lib/data"), "{answer}");
}

/// A refresh puts another folder in the place of the charm's.
#[test]
fn a_request_after_the_charm_was_replaced_is_refused() {
    let mut parent = start("import library", "");
    assert_eq!(parent.answer(), "ready");
    let (charm, old) = (parent.path().to_owned(), parent.path().with_extension("old"));
    fs::rename(&charm, &old).expect("renamed");
    let copied = Command::new("cp").arg("-a").arg(&old).arg(&charm).status();
    assert!(copied.expect("cp").success());
    assert!(parent.refusal(&["COMMON=1"]).starts_with("stale "));
    fs::remove_dir_all(old).expect("it is ours");
}
