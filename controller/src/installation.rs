//! What a controller finds in, or first puts into, its data folder: identity, CA and certificate, the archives'
//! and the store's places, the first user's file.
//!
//! ```text
//! DIR/client.yaml              how a person's command finds and trusts this controller (0600)
//! DIR/controller/              0700
//!   identity.yaml              uuid, address; kept, so that a restarted controller is found again
//!   ca.pem ca-key.pem server.pem server-key.pem
//!   store/ archives/
//! ```
//! Everything is done again at each start and changes nothing that is there: a start that was cut short is finished
//! by the next.

use crate::environment::{self, Environment};
use crate::session::Controller;
use crate::store::Store;
use crate::tokens;
use anyhow::{Context, Result, bail};
use api::ClientFile;
use host::digest::sha256;
use host::file::{ignore_not_found, write_atomic};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use state::documents::keys::{GLOBAL, Kind, TokenHolder, UserRole};
use state::terms::names::Uuid;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The first user and model (design 16).
const FIRST_USER: &str = "admin";
const FIRST_MODEL: &str = "dev";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ControllerIdentity {
    controller: Uuid,
    /// None until it first listened.
    address: Option<SocketAddr>,
}

/// An opened data folder.
pub struct Installation {
    folder: PathBuf,
    identity: ControllerIdentity,
    /// PEM: the CA, and the server's certificate and key.
    pub ca: String,
    pub certificate: String,
    pub key: String,
}

impl Installation {
    /// Opens a data folder, or makes one of it.
    pub fn open(data: &Path) -> Result<Installation> {
        let own = data.join("controller");
        let make = |folder: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        make(&own).with_context(|| format!("cannot create {}", own.display()))?;
        let open = fs::metadata(&own)?.permissions().mode() & 0o077;
        if open != 0 {
            bail!("{} is open to other users; its mode must be 0700", own.display());
        }
        make(&own.join("store"))?;
        let identity = own.join("identity.yaml");
        let identity = match read_optional(&identity)? {
            Some(text) => {
                serde_yaml::from_str(&text).with_context(|| format!("{} is damaged", identity.display()))?
            }
            None => {
                let fresh =
                    ControllerIdentity { controller: environment::version_4(host::random::bits()), address: None };
                write_atomic(&identity, yaml(&fresh).as_bytes())?;
                fresh
            }
        };
        let (ca, ca_key) = certificate_pair(&own, "ca", || new_ca(identity.controller))?;
        let (certificate, key) = certificate_pair(&own, "server", || new_certificate(identity.controller, &ca_key))?;
        Ok(Installation { folder: data.to_owned(), identity, ca, certificate, key })
    }

    pub fn controller(&self) -> Uuid {
        self.identity.controller
    }

    pub fn archives(&self) -> PathBuf {
        self.folder.join("controller/archives")
    }

    pub fn store(&self) -> PathBuf {
        self.folder.join("controller/store")
    }

    /// Where it listened last.
    pub fn address(&self) -> Option<SocketAddr> {
        self.identity.address
    }

    /// Remembers where it listens.
    pub fn store_address(&mut self, address: SocketAddr) -> Result<()> {
        if self.identity.address != Some(address) {
            self.identity.address = Some(address);
            let place = self.folder.join("controller/identity.yaml");
            write_atomic(&place, yaml(&self.identity).as_bytes())?;
        }
        Ok(())
    }

    /// The first model and user, and the user's file. The file is written first: a token that is lost on the way is
    /// nobody's.
    pub async fn create_first_user<S: Store, O: Environment>(&self, controller: &Controller<S, O>) -> Result<()> {
        let place = self.folder.join("client.yaml");
        let before: Option<ClientFile> = match read_optional(&place)? {
            Some(text) => {
                Some(serde_yaml::from_str(&text).with_context(|| format!("{} is damaged", place.display()))?)
            }
            None => None,
        };
        let file = ClientFile {
            controller: self.identity.address.context("it listens before it is announced")?.to_string(),
            server_name: self.identity.controller.to_string(),
            ca: self.ca.clone(),
            user: FIRST_USER.to_owned(),
            token: before
                .as_ref()
                .map_or_else(|| tokens::random_token(&controller.environment), |f| f.token.clone()),
            model: before.as_ref().map_or_else(|| FIRST_MODEL.to_owned(), |f| f.model.clone()),
        };
        if before.as_ref() != Some(&file) {
            write_atomic(&place, yaml(&file).as_bytes())?;
        }
        let (now_ms, model) = (controller.environment.wall_ms(), environment::random_uuid(&controller.environment));
        let token = file.token;
        let created = controller.run(move |draft| {
            let admin = TokenHolder::User { name: FIRST_USER.to_owned(), role: UserRole::Admin };
            tokens::set(draft, user_id(FIRST_USER), &admin, &token);
            if draft.first(&GLOBAL.all(Kind::ModelName), &[]).is_none() {
                state::lifecycle::model::create(draft, model, FIRST_MODEL, now_ms)?;
            }
            Ok(())
        });
        created.await?;
        Ok(())
    }
}

/// Users have no documents of their own yet: what names them in `token-of`.
pub fn user_id(name: &str) -> Uuid {
    let hash = sha256(format!("user {name}").as_bytes());
    Uuid(u128::from_str_radix(&hash[..32], 16).expect("hex"))
}

fn yaml(document: &impl Serialize) -> String {
    serde_yaml::to_string(document).expect("plain data")
}

fn read_optional(place: &Path) -> Result<Option<String>> {
    ignore_not_found(fs::read_to_string(place)).with_context(|| format!("cannot read {}", place.display()))
}

/// The certificate and key of this name, PEM. The key is written first: a certificate is there only with its key.
fn certificate_pair(own: &Path, name: &str, make: impl FnOnce() -> Result<(String, String)>) -> Result<(String, String)> {
    let (certificate, key) = (own.join(format!("{name}.pem")), own.join(format!("{name}-key.pem")));
    if let Some(text) = read_optional(&certificate)? {
        let key = read_optional(&key)?.with_context(|| format!("{} is missing", key.display()))?;
        return Ok((text, key));
    }
    let made = make()?;
    write_atomic(&key, made.1.as_bytes())?;
    write_atomic(&certificate, made.0.as_bytes())?;
    Ok(made)
}

/// What the CA's certificate says; the same each time, so that an issuer is made from the key alone.
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

/// The server's certificate: its name is the controller's uuid, whatever its address is.
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
