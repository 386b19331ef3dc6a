//! The enrolment of a manually provisioned machine: an enrolment token is exchanged for the machine's own token
//! (spec/security.md S19).
//!
//! The machine's own token is stored, in a file of its own, before the controller receives it. If the reply of
//! the exchange is lost, the same command completes the enrolment. The folder belongs to the machine only once
//! the controller has accepted it; until then another enrolment token may use it.
//!
//! Called by `pintle-agent enrol`.

use crate::config;
use crate::folder;
use anyhow::{Context, Result, bail};
use api::error::ErrorCode;
use api::{AgentConfig, AgentKind, Enrol, Handle, ReportPresence};
use host::file::{create_private_folder, exists, write_atomic};
use host::hardware;
use state::charm::Base;
use state::terms::hardware::Hardware;
use std::net::UdpSocket;
use std::path::Path;

/// The file that holds the configuration until the controller has accepted the machine.
const PENDING: &str = "enrolling.yaml";

/// The arguments of `pintle-agent enrol`, and what it reads from stdin.
#[derive(Clone)]
pub struct EnrolmentRequest {
    /// The address of the controller as `host:port`.
    pub controller: String,
    /// The name in the controller's certificate.
    pub server_name: String,
    /// The id of the model.
    pub model: String,
    /// The id of the machine.
    pub machine: String,
    /// The name of the machine, such as `0`.
    pub name: String,
    /// The enrolment token, a line end, and the CA as PEM. They are read from stdin, because other users can
    /// read a command line.
    pub token_and_ca: String,
}

/// Enrols this host as the machine of the request, with `data` as its folder. It may be repeated after any
/// error.
///
/// # Errors
/// If the folder belongs to another machine, or the controller is unreachable or refuses the token.
pub async fn enrol(data: &Path, request: EnrolmentRequest) -> Result<()> {
    let (token, ca) = request.token_and_ca.split_once('\n').context(
        "cannot read the enrolment token and the CA from stdin\nhint: pintle add-machine manual prints the \
             whole command",
    )?;
    let requested = AgentConfig {
        kind: AgentKind::Machine,
        uuid: request.machine.parse().ok().context("invalid machine id: expected a UUID")?,
        name: request.name,
        model: request.model.parse().ok().context("invalid model id: expected a UUID")?,
        controllers: vec![request.controller],
        server_name: request.server_name,
        ca: ca.to_owned(),
        token: token.trim().to_owned(),
        machine: String::new(),
    };
    // the uninstallation of an earlier machine may have been interrupted, and its agent may still be running
    let _lock = crate::uninstall::clear_dead(data)?;
    let enrolled = enrolled_config(data, &requested)?;
    // An agent creates no folder above its own, because a person may have moved it. An enrolment creates the first ones.
    let created = data.parent().map_or(Ok(()), create_private_folder);
    created.and_then(|()| folder::private_dir(data)).with_context(|| data.display().to_string())?;
    write_atomic(&data.join(PENDING), config::to_yaml(&enrolled).as_bytes())?;
    let address = own_address(&enrolled.controllers[0])?;
    let base = Base::of_os_release(&std::fs::read_to_string("/etc/os-release").unwrap_or_default());
    let hardware = Some(Hardware {
        arch: hardware::architecture().to_owned(),
        cores: hardware::processors(),
        mem_mib: hardware::memory_mib(),
    });
    match requested.client()?.handle(Enrol { token: enrolled.token.clone(), address, base, hardware }).await {
        Ok(()) => {}
        // the token may have been used by an earlier attempt of this machine whose reply was lost
        Err(error) if error.code == ErrorCode::Unauthorised => {
            match enrolled.client()?.handle(ReportPresence::default()).await.map(drop) {
                Err(error) if error.code == ErrorCode::Unauthorised => {
                    bail!(
                        "the enrolment token is invalid, has expired or was used\nhint: create a new one with: pintle \
                         add-machine manual"
                    )
                }
                answer => answer?,
            }
        }
        Err(error) => return Err(error.into()),
    }
    write_atomic(&data.join(AgentConfig::FILE), config::to_yaml(&enrolled).as_bytes())?;
    std::fs::remove_file(data.join(PENDING))?;
    Ok(())
}

/// The configuration of the enrolled machine. The controller's address is that of the request. A token that
/// this machine has in the folder is kept, because the controller may have accepted it already.
fn enrolled_config(data: &Path, requested: &AgentConfig) -> Result<AgentConfig> {
    let known = match config::read(data) {
        Ok(known) if known.uuid != requested.uuid => {
            let (data, name) = (data.display(), known.name);
            bail!(
                "cannot enrol: {data} is the folder of machine {name} ({})\nhint: pintle remove-machine {name}, then \
                 wait until its agent has ended",
                known.uuid
            );
        }
        Ok(known) => Some(known),
        Err(error) if exists(&data.join(AgentConfig::FILE))? => return Err(error),
        Err(_) => match config::read_file(&data.join(PENDING)) {
            Ok(pending) => Some(pending).filter(|pending| pending.uuid == requested.uuid),
            Err(error) if config::is_absent_or_damaged(&error) => None,
            Err(error) => return Err(error),
        },
    };
    let token = known.map_or_else(host::random::token, |known| known.token);
    Ok(AgentConfig { token, ..requested.clone() })
}

/// The address of this machine on the route to its controller. No packet is sent.
fn own_address(controller: &str) -> Result<String> {
    let socket = UdpSocket::bind(if controller.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(controller).with_context(|| format!("cannot find a route to {controller}"))?;
    Ok(socket.local_addr()?.ip().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::names::Uuid;

    #[tokio::test]
    async fn a_machine_that_enrols_again_keeps_its_token_and_uses_the_new_controller_address() {
        let dir = tempfile::tempdir().expect("a folder");
        let known = AgentConfig {
            kind: AgentKind::Machine,
            uuid: "00000000-0000-4000-8000-000000000005".parse().expect("a uuid"),
            name: "0".to_owned(),
            model: "00000000-0000-4000-8000-000000000007".parse().expect("a uuid"),
            controllers: vec!["127.0.0.1:1".to_owned()],
            server_name: "before".to_owned(),
            ca: "the CA before".to_owned(),
            token: "cd".repeat(32),
            machine: String::new(),
        };
        write_atomic(&dir.path().join(AgentConfig::FILE), config::to_yaml(&known).as_bytes())
            .expect("written");
        let again = EnrolmentRequest {
            controller: "127.0.0.1:2".to_owned(),
            server_name: "now".to_owned(),
            model: known.model.to_string(),
            machine: known.uuid.to_string(),
            name: "0".to_owned(),
            token_and_ca: format!("{}\nthe CA now", "ab".repeat(32)),
        };
        enrol(dir.path(), again.clone()).await.expect_err("there is no controller");
        assert_eq!(
            config::read(dir.path()).expect("the configuration exists"),
            known,
            "not accepted: nothing is changed"
        );
        let moved = AgentConfig {
            controllers: vec!["127.0.0.1:2".to_owned()],
            server_name: "now".to_owned(),
            ca: "the CA now".to_owned(),
            ..known
        };
        assert_eq!(enrolled_config(dir.path(), &moved).expect("the same machine"), moved);
    }

    #[tokio::test]
    async fn a_failed_enrolment_can_be_repeated_or_replaced_by_another() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = outer.path().join("srv/pintle"); // the folder above does not exist either
        let request = |machine: u128, port: u16| EnrolmentRequest {
            controller: format!("127.0.0.1:{port}"),
            server_name: "x".to_owned(),
            model: Uuid(1).to_string(),
            machine: Uuid(machine).to_string(),
            name: "0".to_owned(),
            token_and_ca: "token\nno CA".to_owned(),
        };
        let pending = || config::read_file(&dir.join(PENDING)).expect("it is stored");
        enrol(&dir, request(7, 1)).await.expect_err("no controller listens there");
        assert!(config::read(&dir).is_err(), "the machine is not enrolled yet");
        let first = pending();
        enrol(&dir, request(7, 2)).await.expect_err("no controller listens there either");
        assert_eq!(pending(), AgentConfig { controllers: vec!["127.0.0.1:2".to_owned()], ..first.clone() });
        enrol(&dir, request(8, 1)).await.expect_err("no controller listens there");
        assert_eq!(pending().uuid, Uuid(8));
        assert_ne!(pending().token, first.token);
    }

    #[tokio::test]
    async fn enrolment_replaces_the_folder_of_a_removed_machine() {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("pintle");
        folder::private_dir(&data).unwrap();
        crate::uninstall::mark_dead(&data).unwrap();
        let request = EnrolmentRequest {
            controller: "127.0.0.1:1".to_owned(),
            server_name: "x".to_owned(),
            model: Uuid(1).to_string(),
            machine: Uuid(7).to_string(),
            name: "0".to_owned(),
            token_and_ca: "token\nno CA".to_owned(),
        };
        let lock = data.join(api::machine_folder::MACHINE_LOCK);
        let agent = host::lock::Lock::take(&lock, "pid 1").unwrap().expect("it is free");
        let error =
            enrol(&data, request.clone()).await.expect_err("the agent would delete the new machine's folder");
        assert!(error.to_string().contains("pid 1"), "{error}");
        drop(agent);
        enrol(&data, request).await.expect_err("no controller listens there");
        assert!(!crate::uninstall::is_dead(&data).expect("it is readable"), "its agent must run");
        assert_eq!(config::read_file(&data.join(PENDING)).unwrap().uuid, Uuid(7));
    }
}
