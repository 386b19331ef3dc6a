//! `add-machine [-n N] [manual]`.

use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::session::{Session, read_client_file};
use crate::supervisor::settings::Settings;
use api::{AddMachines, CreateEnrolmentToken, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct AddMachine {
    /// `manual` for a machine of your own: answers the command to run on it
    pub target: Option<String>,
    /// How many
    #[arg(short = 'n', default_value_t = 1)]
    pub count: u32,
    #[arg(long, hide = true)]
    pub base: Option<String>,
    #[arg(long, hide = true)]
    pub constraints: Option<String>,
}

pub async fn run<A: UserPort>(args: &AddMachine, at: &Session<A>, dir: &DataDir) -> Result<(), Failure> {
    let manual = match args.target.as_deref() {
        None => false,
        Some("manual") => true,
        Some(other) => {
            let text = format!("{other:?} is no kind of machine");
            return Err(Failure::usage(text).hint("say nothing, or manual"));
        }
    };
    let added = at.api.handle(AddMachines { count: args.count, manual }).await?;
    at.note_write(added.revision);
    for name in &added.names {
        at.output.note(&format!("created machine {name}\n"));
        if manual {
            at.output.say(&invitation(at, dir, name).await?)?;
        }
    }
    Ok(())
}

/// What a person pastes on their machine.
pub async fn invitation<A: UserPort>(at: &Session<A>, dir: &DataDir, name: &str) -> Result<String, Failure> {
    let file = read_client_file(dir)?.ok_or_else(|| Failure::new("no controller yet"))?;
    let port = file.controller.rsplit(':').next().unwrap_or_default();
    let controller = match Settings::read(dir)?.listen {
        Some(address) => std::net::SocketAddr::new(address, port.parse().unwrap_or_default()).to_string(),
        None => {
            let text = "the controller listens on 127.0.0.1 only: a machine elsewhere does not reach it; to change that: \
                        pintle down, pintle up --listen ADDRESS";
            at.output.warn(&[text.to_owned()]);
            file.controller.clone()
        }
    };
    let invitation = at.api.handle(CreateEnrolmentToken { machine: name.to_owned() }).await?;
    let (ca, token) = (file.ca.replace('\n', "\\n"), invitation.token);
    Ok(format!(
        "run this on the machine as root, within 15 minutes; pintle-agent and pintle-hook must be there, in one folder:\n\
         printf '{token}\\n{ca}' | pintle-agent enrol {controller} {} {} {} {name}\n",
        file.server_name, invitation.model, invitation.machine
    ))
}
