//! `add-machine [-n N] [manual]`: adds machines that the provider starts, or a manually provisioned machine.
//!
//! For a manually provisioned machine it prints the command with which the operator enrols it. The enrolment token
//! appears on stdout only, never in a log.

use crate::command_error::CommandError;
use crate::commands::{bases, constraints};
use crate::data_dir::DataDir;
use crate::session::{CommandSession, read_client_file};
use crate::supervisor::settings::UpSettings;
use api::{AddMachines, CreateEnrolmentToken, UserPort};
use clap::Args;
use state::charm::Base;

/// Arguments of `add-machine`.
#[derive(Debug, Args)]
pub struct AddMachineArgs {
    /// `manual` to enrol a manually provisioned machine: prints the command to run on it
    pub target: Option<String>,
    /// Number of machines
    #[arg(short = 'n', default_value_t = 1, allow_negative_numbers = true)]
    pub count: u32,
    /// Operating system of the machines, for example ubuntu@22.04
    #[arg(long, value_name = "BASE", value_parser = bases::parse)]
    pub base: Option<Base>,
    /// Constraints of the machines; only arch is enforced
    #[arg(long, value_name = "KEY=VALUE ...")]
    pub constraints: Vec<String>,
    #[arg(long, hide = true)]
    pub disks: Vec<String>,
    #[arg(long, hide = true)]
    pub private_key: Option<String>,
    #[arg(long, hide = true)]
    pub public_key: Option<String>,
}

impl AddMachineArgs {
    /// Refuses the flags of Juju that ask for what no machine has here.
    fn refuse_unsupported(&self) -> Result<(), CommandError> {
        if !self.disks.is_empty() {
            let text = "cannot use --disks: a machine has the disks of its host";
            return Err(CommandError::new(text).hint("a charm declares the storage that its units need"));
        }
        if self.private_key.is_some() || self.public_key.is_some() {
            let text = "cannot use --private-key or --public-key: the controller does not log in to machines";
            return Err(
                CommandError::new(text).hint("to enrol a machine of your own: pintle add-machine manual")
            );
        }
        Ok(())
    }
}

pub async fn run<A: UserPort>(
    args: &AddMachineArgs,
    session: &CommandSession<A>,
    dir: &DataDir,
) -> Result<(), CommandError> {
    args.refuse_unsupported()?;
    let manual = match args.target.as_deref() {
        None => false,
        Some("manual") => true,
        Some(other) => {
            let text = format!("invalid machine type {other:?}: expected manual or nothing");
            return Err(CommandError::usage(text).hint("pintle add-machine, or pintle add-machine manual"));
        }
    };
    let constraints = constraints::parse(&args.constraints, session)?;
    let add = AddMachines { count: args.count, manual, base: args.base.clone(), constraints };
    let added = session.api.handle(add).await?;
    session.record_write(added.revision);
    if !manual {
        let real = bases::of_new_machine(&session.dir, args.base.as_ref())?;
        session.output.warn(&Vec::from_iter(bases::warning(args.base.as_ref(), real.as_ref())));
    }
    for name in &added.answer {
        session.output.print_remark(&format!("created machine {name}\n"));
        if manual {
            session.output.print(&enrolment_command(session, dir, name).await?)?;
        }
    }
    Ok(())
}

/// The command that the operator runs on the machine to enrol it.
///
/// # Errors
/// If the request is refused, or the client file cannot be read.
async fn enrolment_command<A: UserPort>(
    session: &CommandSession<A>,
    dir: &DataDir,
    name: &str,
) -> Result<String, CommandError> {
    let file =
        read_client_file(dir)?.ok_or_else(|| CommandError::new("the client file does not exist yet"))?;
    let port = file.controller.rsplit(':').next().unwrap_or_default();
    let controller = match UpSettings::read(dir)?.listen {
        Some(address) => std::net::SocketAddr::new(address, port.parse().unwrap_or_default()).to_string(),
        None => {
            let text = "the controller listens on 127.0.0.1 only: machines on other hosts cannot reach it; to change \
                        that: pintle down, then pintle up --listen ADDRESS";
            session.output.warn(&[text.to_owned()]);
            file.controller.clone()
        }
    };
    let enrolment = session.api.handle(CreateEnrolmentToken { machine: name.to_owned() }).await?;
    let (ca, token) = (file.ca.replace('\n', "\\n"), enrolment.token);
    Ok(format!(
        "Run this command on the machine as root within 15 minutes. Install pintle-agent and pintle-hook there first, in \
         one folder.\n\
         printf '{token}\\n{ca}' | pintle-agent enrol {controller} {} {} {} {name}\n",
        file.server_name, enrolment.model, enrolment.machine
    ))
}
