//! One warm parent: a process that has imported the modules of a Python charm and forks its hooks
//! (docs/explanation/warm-dispatch.md). `warm_observer.py` and `warm_parent.py` are its program; this is the agent's end of
//! its socket.
//!
//! Dropping it kills the process. The runs that it has forked continue: their shims are not its children for long, and
//! write the outcomes.

use super::hand_off::FOLDER;
use super::memory_guard::MemoryGuard;
use super::parent_watch::{IMPORT_TIMEOUT, ParentEnd, ParentWatch};
use crate::folder::{UnitFolder, private_dir};
use crate::installed_programs::hook_program;
use hook_client::shim;
use host::file::{open_regular, read_regular, write_atomic_unsynced};
use host::lock::Lock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, recv, sendmsg};
use state::unit::warm_dispatch::PythonLaunch;
use std::fs;
use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// The file in it. Python imports a module of this name before it runs a program.
const FILE: &str = "sitecustomize.py";
const PROGRAM: &str = concat!(include_str!("warm_observer.py"), include_str!("warm_parent.py"));

/// How long an answer may take: the parent checks some hundred files and forks, within 10 ms.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest line that a warm parent sends, with its newline: the answers have 1,000 bytes at most.
const LINE_BYTES_MAX: usize = 4096;
/// The longest text that a warm parent has printed and that is logged, in bytes.
const PRINTED_BYTES_MAX: usize = 2000;

/// What a warm parent is asked for.
pub(super) struct ForkRequest<'a> {
    pub(super) run_folder: &'a Path,
    pub(super) program: &'a Path,
    pub(super) variables: &'a [(String, String)],
}

/// What a warm parent needs from the host: its place among those of the machine, and memory.
pub(super) struct ParentRoom {
    pub(super) place: Lock,
    pub(super) memory: Arc<MemoryGuard>,
}

/// Why a warm parent has not forked a run. No process of the run exists then, or it has neither a gate nor the hook lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It still imports the modules.
    Importing,
    /// A file on which the imported modules depend has changed.
    Stale(String),
    /// Its modules do this when they are imported, so that the charm must run without a warm parent.
    Unsuitable(String),
    /// It does not answer.
    Silent,
    /// It has ended.
    Lost,
}

/// A warm parent and the launch whose modules it has imported.
pub(super) struct WarmParent {
    pub(super) launch: PythonLaunch,
    /// Kills the process when it is dropped.
    watch: ParentWatch,
    control: Arc<UnixStream>,
    received: Vec<u8>,
    printed: io::PipeReader,
    is_ready: bool,
}

impl WarmParent {
    /// Starts a warm parent, which imports the modules in the background. `variables` are those of every run of the unit.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(
        folder: &UnitFolder,
        launch: PythonLaunch,
        variables: Vec<(String, String)>,
        room: ParentRoom,
    ) -> io::Result<WarmParent> {
        let (program_folder, missing) = (folder.file(FOLDER), || io::Error::from(io::ErrorKind::NotFound));
        private_dir(&program_folder)?;
        let file = program_folder.join(FILE);
        let found = read_regular(&file, PROGRAM.len() as u64).ok();
        if found.is_none_or(|(found, _)| found != PROGRAM.as_bytes()) {
            write_atomic_unsynced(&file, PROGRAM.as_bytes())?;
        }
        let path = variables.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let path = path.unwrap_or_default();
        let executable = executable(&launch.command, path).ok_or_else(missing)?;
        // a script in place of Python may start it without the variable with which it finds the program of the parent
        let started = folder.charm().join(&executable);
        if !is_machine_code(&interpreter(&started, path).ok_or_else(missing)?)? {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // the parent removes the first folder again before it imports anything
        let first = program_folder.to_str().filter(|text| !text.contains(':')).ok_or_else(missing)?;
        let python_path = match launch.variables.get("PYTHONPATH") {
            Some(rest) => format!("{first}:{rest}"),
            None => first.to_owned(),
        };
        let (control, other_end) = std::os::unix::net::UnixStream::pair()?;
        control.set_nonblocking(true)?;
        let (printed, printer) = io::pipe()?;
        let mut command = Command::new(hook_program());
        command
            .arg(shim::WARM_PARENT_ARGUMENT)
            .arg(&file)
            .arg(executable)
            .args(&launch.arguments)
            .env_clear()
            .envs(variables)
            .envs(&launch.variables)
            .env("PYTHONPATH", python_path)
            .current_dir(folder.charm())
            .stdin(OwnedFd::from(other_end))
            .stdout(printer.try_clone()?)
            .stderr(printer);
        let mut command = tokio::process::Command::from(command);
        let process = command.process_group(0).kill_on_drop(true).spawn()?;
        let control = Arc::new(UnixStream::from_std(control)?);
        let watch = ParentWatch::start(process, Arc::clone(&control), Some(room.place), room.memory);
        Ok(WarmParent { launch, watch, control, received: Vec::new(), printed, is_ready: false })
    }

    /// It was used: the process is killed when it is idle from now on. The next request finds it lost then.
    pub(super) fn restart_idle_timer(&mut self) {
        if self.is_ready {
            self.watch.restart_idle_timer();
        }
    }

    /// Waits until it has imported the modules.
    ///
    /// # Errors
    /// If the charm is unsuitable, or the process has ended.
    pub(super) async fn until_ready(&mut self) -> Result<(), Refusal> {
        while !self.is_ready {
            let line = self.next_line().await.map_err(|_| self.lost_at_import())?;
            self.accept_imports(&line)?;
        }
        Ok(())
    }

    /// Forks the shim and the hook of a run, which get this end of its socket.
    ///
    /// # Errors
    /// If nothing was forked, or it is not known whether something was.
    pub(super) async fn fork(&mut self, request: &ForkRequest<'_>, run: OwnedFd) -> Result<(), Refusal> {
        if !self.is_ready {
            match self.received_line() {
                Ok(Some(line)) => self.accept_imports(&line)?,
                Ok(None) => return Err(Refusal::Importing),
                Err(_) => return Err(self.lost_at_import()),
            }
        }
        let exchange = async {
            self.send(&self.message(request), &run).await?;
            // the parent has a duplicate
            drop(run);
            self.next_line().await
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, exchange).await {
            Ok(Ok(line)) if line == "started" => Ok(()),
            Ok(Ok(line)) => Err(refusal(&line)),
            Ok(Err(_)) => Err(self.lost()),
            Err(_) => Err(Refusal::Silent),
        }
    }

    /// Whether the modules are imported, and nothing was printed meanwhile, which every run would have printed.
    fn accept_imports(&mut self, line: &str) -> Result<(), Refusal> {
        if line != "ready" {
            return Err(refusal(line));
        }
        if self.has_printed() {
            return Err(Refusal::Unsuitable("prints".to_owned()));
        }
        self.is_ready = true;
        self.watch.restart_idle_timer();
        Ok(())
    }

    fn has_printed(&self) -> bool {
        let mut files = [PollFd::new(self.printed.as_fd(), PollFlags::POLLIN)];
        let is_polled = poll(&mut files, PollTimeout::ZERO).is_ok();
        is_polled && files[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN))
    }

    /// The process has ended before it had imported the modules: it would end again.
    fn lost_at_import(&mut self) -> Refusal {
        self.lost();
        match self.watch.end() {
            None => Refusal::Unsuitable("end the process".to_owned()),
            Some(ParentEnd::LongImport) => {
                Refusal::Unsuitable(format!("take longer than {} seconds", IMPORT_TIMEOUT.as_secs()))
            }
            Some(ParentEnd::Idle | ParentEnd::LittleMemory) => Refusal::Lost,
        }
    }

    /// The process has ended. The beginning of what it has printed is logged.
    fn lost(&mut self) -> Refusal {
        let mut text = [0; PRINTED_BYTES_MAX];
        let read = if self.has_printed() { self.printed.read(&mut text).unwrap_or(0) } else { 0 };
        let text = String::from_utf8_lossy(&text[..read]);
        tracing::debug!("the warm parent has ended: {}", text.trim().escape_debug());
        Refusal::Lost
    }

    /// The fields of a request, with their length before them.
    fn message(&self, request: &ForkRequest<'_>) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt;
        let shell = self.launch.waiting_shell.as_deref().unwrap_or_default();
        let mut message = vec![0; 4];
        let mut add = |pieces: &[&[u8]]| {
            pieces.iter().for_each(|piece| message.extend_from_slice(piece));
            message.push(0);
        };
        add(&[hook_program().as_os_str().as_bytes()]);
        add(&[request.run_folder.as_os_str().as_bytes()]);
        add(&[request.program.as_os_str().as_bytes()]);
        add(&[shell.as_bytes()]);
        let own = self.launch.variables.iter();
        let of_run = request.variables.iter().map(|(name, value)| (name, value));
        for (name, value) in of_run.chain(own) {
            add(&[name.as_bytes(), b"=", value.as_bytes()]);
        }
        let length = u32::try_from(message.len() - 4).expect("an environment is below 4 GiB");
        message[..4].copy_from_slice(&length.to_le_bytes());
        message
    }

    async fn send(&self, message: &[u8], run: &OwnedFd) -> io::Result<()> {
        let descriptors = [run.as_raw_fd()];
        let attached = [ControlMessage::ScmRights(&descriptors)];
        let send = || {
            let content = [IoSlice::new(message)];
            let flags = MsgFlags::MSG_NOSIGNAL;
            Ok(sendmsg::<()>(self.control.as_raw_fd(), &content, &attached, flags, None)?)
        };
        let mut sent = self.control.async_io(Interest::WRITABLE, send).await?;
        while sent < message.len() {
            self.control.writable().await?;
            match self.control.try_write(&message[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next line, if it has been received.
    fn received_line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(line.trim_ascii_end()).into_owned()));
            }
            // a module of the charm may write to any descriptor, without an end
            if self.received.len() >= LINE_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut bytes = [0; 1024];
            match recv(self.control.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    async fn next_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(line) = self.received_line()? {
                return Ok(line);
            }
            // clears the readiness, because the socket was read past tokio
            let empty = || match recv(
                self.control.as_raw_fd(),
                &mut [0],
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK,
            ) {
                Ok(_) => Ok(()),
                Err(errno) => Err(io::Error::from(errno)),
            };
            self.control.async_io(Interest::READABLE, empty).await?;
        }
    }
}

/// What a line of the parent means that is neither `ready` nor `started`.
fn refusal(line: &str) -> Refusal {
    match line.split_once(' ') {
        Some(("stale", path)) => Refusal::Stale(path.to_owned()),
        Some(("differs", variable)) => Refusal::Unsuitable(format!("reads {variable}")),
        Some(("cold", reason)) => Refusal::Unsuitable(reason.to_owned()),
        Some(_) | None => Refusal::Lost,
    }
}

/// The path of a command: itself, or the first executable file of this name in a folder of PATH.
fn executable(command: &str, path: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(command.into());
    }
    let is_executable = |file: &PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    path.split(':').map(|folder| Path::new(folder).join(command)).find(is_executable)
}

/// The program that executes a file of a charm: the interpreter of a Python file
/// ([`state::unit::warm_dispatch::is_python_file`]), or the file itself.
fn interpreter(file: &Path, path: &str) -> Option<PathBuf> {
    let mut beginning = Vec::new();
    open_regular(file).ok()?.0.take(PRINTED_BYTES_MAX as u64).read_to_end(&mut beginning).ok()?;
    let Some(rest) = beginning.strip_prefix(b"#!") else { return Some(file.to_owned()) };
    let line = String::from_utf8_lossy(rest.split(|byte| *byte == b'\n').next()?).into_owned();
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["/usr/bin/env", name] => executable(name, path),
        [path] => Some(path.into()),
        _ => None,
    }
}

/// Whether a file is a program of the processor, and no script (`elf(5)`).
fn is_machine_code(file: &Path) -> io::Result<bool> {
    let mut beginning = [0; 4];
    open_regular(file)?.0.read_exact(&mut beginning)?;
    Ok(beginning == *b"\x7fELF")
}
