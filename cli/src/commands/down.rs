//! `down`: stops every process of a data folder. The state is kept.
//!
//! Works also if the supervisor was killed: `supervisor::stop` finds processes by the locks that they hold and by their pid
//! files; `provider::nspawn` finds the containers, those of kept instances too, by their folders, and deletes their network;
//! and the loop devices of storage are detached.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::output::Output;
use crate::supervisor::provider::{loop_devices, nspawn};
use crate::supervisor::{identity, lock, stop};
use clap::Args;

/// Arguments of `down`.
#[derive(Debug, Args)]
pub struct DownArgs {}

pub async fn run(dir: &DataDir, output: &Output) -> Result<(), CommandError> {
    identity::check_for_stop(dir)?;
    lock::require_no_migration(dir)?;
    let name = dir.path().display();
    let stopped = stop::stop_all(dir).await;
    // The supervisor stops its containers itself, unless it was killed.
    let machines = nspawn::stop_all_containers(dir).await?;
    if let Some(process) = stopped.left.first() {
        return Err(CommandError::not_stopped(*process).hint("run pintle down again"));
    }
    let detached = loop_devices::detach_below(&dir.machines()).await;
    if stopped.ended + machines == 0 {
        output.print(&format!("Nothing is running for {name}.\n"))?;
        return detached;
    }
    let resume = output.complete("run \"pintle up\" to resume.");
    output.print(&format!("Stopped. State is kept in {name}; {resume}\n"))?;
    detached
}
