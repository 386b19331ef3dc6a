//! How a machine that a person brings comes in: an invitation is exchanged for a token of its own
//! (spec/security.md S19).
//!
//! The machine's own token is on disk, in a file of its own, before the controller hears of it: an exchange whose
//! answer was lost is finished by giving the same command again. The folder becomes the machine's when it is accepted;
//! until then another invitation may take it.

use crate::config::{Config, FILE, Kind};
use crate::folder;
use anyhow::{Context, Result, anyhow, bail};
use api::error::ErrorCode;
use api::{Enrol, Handle, ReportPresence};
use host::file::write_atomic;
use std::net::UdpSocket;
use std::path::Path;

/// The configuration to be, until the controller has accepted it.
const PENDING: &str = "enrolling.yaml";

/// What the command says, and what it is given to read: the token and the CA, which no command line holds.
#[derive(Clone)]
pub struct Invitation {
    pub controller: String,
    pub server_name: String,
    pub model: String,
    pub machine: String,
    pub name: String,
    /// The token, a line end, the CA as PEM.
    pub read: String,
}

/// Makes `data` this machine's folder.
pub async fn enrol(data: &Path, invitation: Invitation) -> Result<()> {
    let (token, ca) =
        invitation.read.split_once('\n').context("nothing to read: a token and a CA belong there")?;
    let invited = Config {
        kind: Kind::Machine,
        uuid: invitation.machine.parse().ok().context("the machine's id is no uuid")?,
        name: invitation.name,
        model: invitation.model.parse().ok().context("the model's id is no uuid")?,
        controllers: vec![invitation.controller],
        server_name: invitation.server_name,
        ca: ca.to_owned(),
        token: token.trim().to_owned(),
        machine: String::new(),
    };
    // what an earlier machine left of itself when it was removed and died on the way; its agent may not be through
    let _lock = crate::uninstall::clear_dead(data)?;
    let own = own(data, &invited)?;
    folder::private_dir(data).with_context(|| data.display().to_string())?;
    write_atomic(&data.join(PENDING), own.text().as_bytes())?;
    let address = own_address(&own.controllers[0])?;
    match invited.client()?.handle(Enrol { token: own.token.clone(), address }).await {
        Ok(()) => {}
        // an earlier exchange took effect and used the invitation up
        Err(error) if error.code == ErrorCode::Unauthorised => {
            match own.client()?.handle(ReportPresence).await {
                Err(error) if error.code == ErrorCode::Unauthorised => {
                    bail!(
                        "this invitation was used, has expired, or was never made: pintle add-machine manual"
                    )
                }
                here => here.map_err(|error| anyhow!("{}", error.message))?,
            }
        }
        Err(error) => bail!("{}", error.message),
    }
    write_atomic(&data.join(FILE), own.text().as_bytes())?;
    std::fs::remove_file(data.join(PENDING))?;
    Ok(())
}

/// The machine's configuration to be. Where the controller is, this invitation says; a token of this machine that is
/// in the folder may be known there already.
fn own(data: &Path, invited: &Config) -> Result<Config> {
    let known = match Config::read(data) {
        Ok(known) if known.uuid != invited.uuid => {
            let (data, name) = (data.display(), known.name);
            bail!(
                "{data} is the folder of machine {name} ({}): pintle remove-machine {name}, and let its agent end",
                known.uuid
            );
        }
        Ok(known) => Some(known),
        Err(_) if data.join(FILE).exists() => bail!("{} cannot be read", data.join(FILE).display()),
        Err(_) => Config::from(&data.join(PENDING)).ok().filter(|begun| begun.uuid == invited.uuid),
    };
    let token = known.map_or_else(host::random::token, |known| known.token);
    Ok(Config { token, ..invited.clone() })
}

/// The address from which this machine reaches its controller. Nothing is sent.
fn own_address(controller: &str) -> Result<String> {
    let socket = UdpSocket::bind(if controller.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(controller).with_context(|| format!("no way leads to {controller}"))?;
    Ok(socket.local_addr()?.ip().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::names::Uuid;

    #[tokio::test]
    async fn a_machine_invited_again_keeps_its_token_and_goes_where_the_invitation_says() {
        let dir = tempfile::tempdir().expect("a folder");
        let known = Config {
            kind: Kind::Machine,
            uuid: "00000000-0000-4000-8000-000000000005".parse().expect("a uuid"),
            name: "0".to_owned(),
            model: "00000000-0000-4000-8000-000000000007".parse().expect("a uuid"),
            controllers: vec!["127.0.0.1:1".to_owned()],
            server_name: "before".to_owned(),
            ca: "the CA before".to_owned(),
            token: "cd".repeat(32),
            machine: String::new(),
        };
        write_atomic(&dir.path().join(FILE), known.text().as_bytes()).expect("written");
        let again = Invitation {
            controller: "127.0.0.1:2".to_owned(),
            server_name: "now".to_owned(),
            model: known.model.to_string(),
            machine: known.uuid.to_string(),
            name: "0".to_owned(),
            read: format!("{}\nthe CA now", "ab".repeat(32)),
        };
        enrol(dir.path(), again.clone()).await.expect_err("there is no controller");
        assert_eq!(Config::read(dir.path()).expect("it is there"), known, "not accepted: nothing is changed");
        let moved = Config {
            controllers: vec!["127.0.0.1:2".to_owned()],
            server_name: "now".to_owned(),
            ca: "the CA now".to_owned(),
            ..known
        };
        assert_eq!(own(dir.path(), &moved).expect("the same machine"), moved);
    }

    #[tokio::test]
    async fn an_invitation_that_came_to_nothing_is_given_again_or_makes_way_for_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let invitation = |machine: u128, port: u16| Invitation {
            controller: format!("127.0.0.1:{port}"),
            server_name: "x".to_owned(),
            model: Uuid(1).to_string(),
            machine: Uuid(machine).to_string(),
            name: "0".to_owned(),
            read: "token\nno CA".to_owned(),
        };
        let pending = || Config::from(&dir.path().join(PENDING)).expect("it is kept");
        enrol(dir.path(), invitation(7, 1)).await.expect_err("nobody listens there");
        assert!(Config::read(dir.path()).is_err(), "no machine's folder yet");
        let first = pending();
        enrol(dir.path(), invitation(7, 2)).await.expect_err("nor there");
        assert_eq!(pending(), Config { controllers: vec!["127.0.0.1:2".to_owned()], ..first.clone() });
        let error = enrol(dir.path(), invitation(8, 1)).await.expect_err("nobody listens there");
        assert!(!error.to_string().contains("folder of machine"), "{error}");
        assert_eq!(pending().uuid, Uuid(8));
        assert_ne!(pending().token, first.token);
    }

    #[tokio::test]
    async fn the_folder_of_a_machine_that_was_removed_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("pintle");
        folder::private_dir(&data).unwrap();
        crate::uninstall::note_dead(&data).unwrap();
        let invitation = Invitation {
            controller: "127.0.0.1:1".to_owned(),
            server_name: "x".to_owned(),
            model: Uuid(1).to_string(),
            machine: Uuid(7).to_string(),
            name: "0".to_owned(),
            read: "token\nno CA".to_owned(),
        };
        let lock = data.join(crate::uninstall::LOCK);
        let agent = host::lock::Lock::take(&lock, "pid 1").unwrap().expect("it is free");
        let error =
            enrol(&data, invitation.clone()).await.expect_err("it would delete the new machine's folder");
        assert!(error.to_string().contains("the earlier machine's agent is still ending"), "{error}");
        drop(agent);
        enrol(&data, invitation).await.expect_err("nobody listens there");
        assert!(!crate::uninstall::is_dead(&data), "its agent is to run");
        assert_eq!(Config::from(&data.join(PENDING)).unwrap().uuid, Uuid(7));
    }
}
