//! Unit agents as child processes of the machine agent, in process groups of their own.

use super::{Ended, running};
use crate::folder::{EXIT_DISK, Folder};
use anyhow::Result;
use host::process::Process;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// An agent's log begins anew beyond this, keeping one older.
const LOG_BYTES_MAX: u64 = 10 << 20;
/// An agent that is told to end has this long: 5 s, half of it before it is killed.
const END_LOOK: Duration = Duration::from_millis(20);
const END_LOOKS_MAX: u32 = 250;

pub fn start(folder: &Folder) -> Result<Ended> {
    let log = folder.file("agent.log");
    if fs::metadata(&log).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
        fs::rename(&log, folder.file("agent.log.1"))?;
    }
    let log = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    let mut command = Command::new(crate::program::path());
    command
        .arg("unit")
        .arg("--dir")
        .arg(folder.root())
        .current_dir(folder.root())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    let (mut child, tag) = (tokio::process::Command::from(command).spawn()?, folder.tag());
    Ok(Box::pin(async move {
        // reaped here; how it ended is in its log, unless there was no room for that
        let status = child.wait().await;
        if status.is_ok_and(|status| status.code() == Some(EXIT_DISK.into())) {
            tracing::error!("the agent of {tag} ended: its disk failed or is full; it is started again");
        }
    }))
}

pub async fn end(folder: &Folder) {
    let Some(agent) = running(folder) else { return };
    signal(agent, Signal::SIGTERM);
    for look in 0..END_LOOKS_MAX {
        if !agent.is_alive() {
            break;
        }
        if look == END_LOOKS_MAX / 2 {
            signal(agent, Signal::SIGKILL);
        }
        tokio::time::sleep(END_LOOK).await;
    }
}

fn signal(agent: Process, signal: Signal) {
    if let Err(error) = agent.signal(signal) {
        tracing::warn!("cannot send {signal} to the unit agent with pid {}: {error}", agent.pid);
    }
}
