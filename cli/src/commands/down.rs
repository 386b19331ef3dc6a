//! `down`: ends every process of a data folder. Its state stays.

use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::output::Output;
use crate::supervisor::provider::nspawn;
use crate::supervisor::stop;
use clap::Args;

#[derive(Debug, Args)]
pub struct Down {}

pub async fn run(dir: &DataDir, output: &Output) -> Result<(), Failure> {
    let name = dir.path().display();
    let stopped = stop::everything(dir).await;
    // should the supervisor have been killed before
    let machines = nspawn::halt_all(dir).await?;
    if let Some(process) = stopped.left.first() {
        return Err(
            Failure::new(format!("process {} does not end", process.pid)).hint("run pintle down again")
        );
    }
    if stopped.ended + machines == 0 {
        return output.say(&format!("nothing is running for {name}\n"));
    }
    output.say(&format!("stopped; the state stays in {name}, and pintle up goes on from there\n"))
}
