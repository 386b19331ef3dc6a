//! The controller's data folder: identity, CA and certificates, store, archives, and the first user's client file.
//!
//! ```text
//! DIR/client.yaml              the first user's configuration: address, CA and token (0600)
//! DIR/controller/              0700
//!   identity.yaml              uuid and address; stored so that clients find a restarted controller
//!   ca.pem ca-key.pem server.pem server-key.pem
//!   secret-keys.yaml           what seals the contents of secrets; a backup of the store needs it
//!   store/ archives/
//! ```
//! Every step is idempotent and runs at each start. Existing files are never replaced, so the next start completes a
//! start that was interrupted. `program` opens the folder before it listens.

use crate::environment::{self, Environment};
use crate::session::Controller;
use crate::store::Store;
use crate::tokens;
use anyhow::{Context, Result, bail};
use api::ClientFile;
use host::digest::sha256;
use host::file::{create_private_folder, ignore_not_found, write_atomic};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use state::documents::prelude::{TokenHolder, UserRole};
use state::documents::token;
use state::terms::names::Uuid;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first user and model (design 16).
const FIRST_USER: &str = "admin";
const FIRST_MODEL: &str = "dev";

/// The content of `identity.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ControllerIdentity {
    controller: Uuid,
    /// None until the controller has listened for the first time.
    address: Option<SocketAddr>,
}

/// An opened data folder.
pub struct Installation {
    folder: PathBuf,
    identity: ControllerIdentity,
    /// The CA's certificate (PEM).
    pub ca: String,
    /// The server's certificate (PEM).
    pub certificate: String,
    /// The server's private key (PEM).
    pub key: String,
}

impl Installation {
    /// Opens a data folder; creates the files and folders that are missing in it. An error if other users can access
    /// the folder or if a file is damaged.
    pub fn open(data: &Path) -> Result<Installation> {
        let folder = data.join("controller");
        create_private_folder(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let open = fs::metadata(&folder)?.permissions().mode() & 0o077;
        if open != 0 {
            let path = folder.display();
            bail!("cannot use {path}: other users can access it\nhint: chmod 700 {path}");
        }
        create_private_folder(&folder.join("store"))?;
        let identity = folder.join("identity.yaml");
        let identity = match read_optional(&identity)? {
            Some(text) => {
                serde_yaml::from_str(&text).with_context(|| format!("{} is damaged", identity.display()))?
            }
            None => {
                let fresh = ControllerIdentity {
                    controller: environment::uuid_v4(host::random::random_u128()),
                    address: None,
                };
                write_atomic(&identity, yaml(&fresh).as_bytes())?;
                fresh
            }
        };
        let (ca, ca_key) = certificate_pair(&folder, "ca", || new_ca(identity.controller))?;
        let (certificate, key) =
            certificate_pair(&folder, "server", || new_certificate(identity.controller, &ca_key))?;
        Ok(Installation { folder: data.to_owned(), identity, ca, certificate, key })
    }

    /// The controller's uuid.
    pub fn controller(&self) -> Uuid {
        self.identity.controller
    }

    /// The folder of the charm archives.
    pub fn archives(&self) -> PathBuf {
        self.folder.join("controller/archives")
    }

    /// The folder of the store.
    pub fn store(&self) -> PathBuf {
        self.folder.join("controller/store")
    }

    /// The file of the keys of secrets. It is outside the store's folder, so that a copy of the store opens no secret.
    pub fn secret_keys(&self) -> PathBuf {
        Installation::secret_keys_in(&self.folder)
    }

    /// The file of the keys of secrets in a data folder.
    pub fn secret_keys_in(data: &Path) -> PathBuf {
        data.join("controller/secret-keys.yaml")
    }

    /// The address on which the controller listened last.
    pub fn address(&self) -> Option<SocketAddr> {
        self.identity.address
    }

    /// Stores the address on which the controller listens.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store_address(&mut self, address: SocketAddr) -> Result<()> {
        if self.identity.address != Some(address) {
            self.identity.address = Some(address);
            let file = self.folder.join("controller/identity.yaml");
            write_atomic(&file, yaml(&self.identity).as_bytes())?;
        }
        Ok(())
    }

    /// Creates the first model, the first user and the user's client file. The file is written before the token is
    /// stored: if the controller dies in between, no stored token is unknown to the user.
    ///
    /// # Errors
    /// If `client.yaml` is damaged or cannot be written, or the transaction fails.
    pub async fn create_first_user<S: Store, E: Environment>(
        &self,
        controller: &Controller<S, E>,
    ) -> Result<()> {
        let path = self.folder.join("client.yaml");
        let before: Option<ClientFile> = match read_optional(&path)? {
            Some(text) => {
                Some(serde_yaml::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?)
            }
            None => None,
        };
        let file = ClientFile {
            controller: self.identity.address.context("the controller does not listen yet")?.to_string(),
            server_name: self.identity.controller.to_string(),
            ca: self.ca.clone(),
            user: FIRST_USER.to_owned(),
            token: before
                .as_ref()
                .map_or_else(|| tokens::random_token(&controller.environment), |f| f.token.clone()),
            model: before.as_ref().map_or_else(|| FIRST_MODEL.to_owned(), |f| f.model.clone()),
        };
        if before.as_ref() != Some(&file) {
            write_atomic(&path, yaml(&file).as_bytes())?;
        }
        let (now_ms, model) =
            (controller.environment.wall_ms(), environment::random_uuid(&controller.environment));
        let sha256 = sha256(file.token.as_bytes());
        let created = controller.run(move |draft| {
            let admin = TokenHolder::User { name: FIRST_USER.to_owned(), role: UserRole::Admin };
            token::set(draft, user_id(FIRST_USER), &admin, &sha256);
            state::lifecycle::model::create_first(draft, model, FIRST_MODEL, now_ms)
        });
        created.await?;
        Ok(())
    }
}

/// Returns the uuid that identifies a user in the documents `token-of`. Users have no documents of their own.
fn user_id(name: &str) -> Uuid {
    let hash = sha256(format!("user {name}").as_bytes());
    Uuid(u128::from_str_radix(&hash[..32], 16).expect("hex"))
}

fn yaml(document: &impl Serialize) -> String {
    serde_yaml::to_string(document).expect("plain data")
}

fn read_optional(file: &Path) -> Result<Option<String>> {
    ignore_not_found(fs::read_to_string(file)).with_context(|| format!("cannot read {}", file.display()))
}

/// Returns the certificate and key of this name (PEM); creates them if they do not exist. The key is written first, so
/// that a certificate never exists without its key.
fn certificate_pair(
    folder: &Path,
    name: &str,
    make: impl FnOnce() -> Result<(String, String)>,
) -> Result<(String, String)> {
    let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
    if let Some(text) = read_optional(&certificate)? {
        let key = read_optional(&key)?.with_context(|| format!("{} is missing", key.display()))?;
        return Ok((text, key));
    }
    let new_pair = make()?;
    write_atomic(&key, new_pair.1.as_bytes())?;
    write_atomic(&certificate, new_pair.0.as_bytes())?;
    Ok(new_pair)
}

/// Returns the parameters of the CA's certificate. They are always the same, so that the issuer can be rebuilt from
/// the key alone.
fn ca_params(controller: Uuid) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, format!("Pintle CA of {controller}"));
    params
}

fn new_ca(controller: Uuid) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((ca_params(controller).self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Creates the server's certificate. Its name is the controller's uuid, so it stays valid when the address changes.
fn new_certificate(controller: Uuid, ca_key: &str) -> Result<(String, String)> {
    let issuer = Issuer::new(ca_params(controller), KeyPair::from_pem(ca_key)?);
    let mut params = CertificateParams::new(vec![controller.to_string()])?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.distinguished_name.push(DnType::CommonName, controller.to_string());
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}
