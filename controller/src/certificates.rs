//! The certificates of the controller: the CA that clients and agents trust, and the certificate of its server.
//!
//! Each is a file with its key beside it. A pair is made once; the pair of the server is made again if one of its files
//! is missing. What exists is verified at each start, because clients refuse a server whose certificate does not match the
//! CA, and the log of the controller would not show that. An empty file, or one of another controller, is an error that names
//! the file ([`UnusableFile`]). Nothing that exists is replaced.
//!
//! Called by `installation`.

use crate::required_file::{FROM_A_BACKUP, UnusableFile, read_optional};
use anyhow::{Context, Result};
use host::file::{ignore_not_found, write_atomic};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use state::terms::names::Uuid;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What helps for a certificate of the server that cannot be used: the CA makes another one.
const MADE_AGAIN: &str =
    "delete server.pem and server-key.pem beside it: they are made again at the next start";

/// One certificate and its key, with their files.
struct Pair {
    certificate: String,
    key: String,
    certificate_file: PathBuf,
    key_file: PathBuf,
    remedy: &'static str,
}

/// Returns the CA's certificate, the server's certificate and the server's key (PEM). Makes those that do not exist.
///
/// # Errors
/// If a file cannot be read or written, or cannot be used ([`UnusableFile`]).
pub fn open(folder: &Path, controller: Uuid) -> Result<(String, String, String)> {
    let ca = Pair::open(folder, "ca", FROM_A_BACKUP, || new_ca(controller))?;
    ca.verify()?;
    let server = Pair::open(folder, "server", MADE_AGAIN, || new_certificate(controller, &ca.key))?;
    server.verify()?;
    verify_issued(&ca, &server, controller)?;
    Ok((ca.certificate, server.certificate, server.key))
}

impl Pair {
    /// Reads the pair of this name; makes both files if one does not exist. The key is written first, so that a start
    /// that is interrupted leaves no certificate without its key.
    fn open(
        folder: &Path,
        name: &str,
        remedy: &'static str,
        make: impl FnOnce() -> Result<(String, String)>,
    ) -> Result<Pair> {
        let (certificate_file, key_file) =
            (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
        if let (Some(certificate), Some(key)) = (read_optional(&certificate_file)?, read_optional(&key_file)?)
        {
            return Ok(Pair { certificate, key, certificate_file, key_file, remedy });
        }
        let (certificate, key) =
            make().with_context(|| format!("cannot make {}", certificate_file.display()))?;
        let write = |file: &Path, text: &str| {
            write_atomic(file, text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
        };
        // an old certificate does not fit the new key
        ignore_not_found(fs::remove_file(&certificate_file))
            .with_context(|| format!("cannot remove {}", certificate_file.display()))?;
        write(&key_file, &key)?;
        write(&certificate_file, &certificate)?;
        Ok(Pair { certificate, key, certificate_file, key_file, remedy })
    }

    fn unusable(&self, file: &Path, why: impl Into<String>) -> UnusableFile {
        UnusableFile { file: file.to_owned(), why: why.into(), remedy: self.remedy.to_owned() }
    }

    fn certificate(&self) -> Result<CertificateDer<'static>, UnusableFile> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|_| self.unusable(&self.certificate_file, "it has no certificate in PEM format"))
    }

    /// Refuses files that are no certificate and no key, and a key that is not that of the certificate.
    fn verify(&self) -> Result<(), UnusableFile> {
        let certificate = self.certificate()?;
        let key = KeyPair::from_pem(&self.key)
            .map_err(|_| self.unusable(&self.key_file, "it has no private key in PEM format"))?;
        // a certificate contains the bytes of its public key
        let public = key.public_key_raw();
        if certificate.windows(public.len()).any(|part| part == public) {
            return Ok(());
        }
        let other = self.certificate_file.display();
        Err(self.unusable(&self.key_file, format!("it is not the key of {other}")))
    }
}

/// Refuses a certificate of the server that clients of this controller would refuse.
fn verify_issued(ca: &Pair, server: &Pair, controller: Uuid) -> Result<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.certificate()?).map_err(|error| {
        ca.unusable(&ca.certificate_file, format!("it is no certificate of a CA ({error})"))
    })?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    let name = ServerName::try_from(controller.to_string()).context("a uuid is a name")?;
    let certificate = server.certificate()?;
    verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now()).map_err(|error| {
        let why = format!(
            "it is not the certificate of this controller, issued by {}: {error}",
            ca.certificate_file.display()
        );
        server.unusable(&server.certificate_file, why)
    })?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::Installation;
    use api::CONTROLLER_DIR;

    const FILES: [&str; 4] = ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"];

    /// The name of the file that a start refuses.
    fn refused(data: &Path) -> Option<String> {
        let refused = Installation::open(data, false).err()?;
        let unusable: UnusableFile = refused.downcast().expect("a file");
        Some(unusable.file.file_name().expect("a name").to_string_lossy().into_owned())
    }

    fn new_folder() -> tempfile::TempDir {
        let data = tempfile::tempdir().expect("a folder");
        Installation::open(data.path(), false).expect("a new controller");
        data
    }

    #[test]
    fn each_file_that_is_empty_is_refused_by_name() {
        for name in FILES {
            let data = new_folder();
            fs::write(data.path().join(CONTROLLER_DIR).join(name), "").expect("written");
            assert_eq!(refused(data.path()).as_deref(), Some(name));
        }
    }

    /// Copies files of another controller, and returns the file that is refused.
    fn with_files_of_another(names: &[&str]) -> Option<String> {
        let (data, other) = (new_folder(), new_folder());
        for name in names {
            let [from, to] = [&other, &data].map(|folder| folder.path().join(CONTROLLER_DIR).join(name));
            fs::copy(from, to).expect("copied");
        }
        refused(data.path())
    }

    #[test]
    fn each_file_of_another_controller_is_refused() {
        let keys = ["ca-key.pem", "server-key.pem"];
        assert_eq!(keys.map(|key| with_files_of_another(&[key])), keys.map(|key| Some(key.to_owned())));
        // a certificate beside its own key: it is the key that does not fit
        assert_eq!(with_files_of_another(&["ca.pem"]).as_deref(), Some("ca-key.pem"));
        assert_eq!(with_files_of_another(&["server.pem"]).as_deref(), Some("server-key.pem"));
        assert_eq!(with_files_of_another(&["server.pem", "server-key.pem"]).as_deref(), Some("server.pem"));
        assert_eq!(with_files_of_another(&["ca.pem", "ca-key.pem"]).as_deref(), Some("server.pem"));
    }

    #[test]
    fn the_remedy_for_the_certificate_of_the_server_makes_another_one() {
        let data = new_folder();
        let folder = data.path().join(CONTROLLER_DIR);
        fs::write(folder.join("server.pem"), "").expect("written");
        assert!(refused(data.path()).is_some());
        for name in ["server.pem", "server-key.pem"] {
            fs::remove_file(folder.join(name)).expect("it exists");
        }
        assert_eq!(refused(data.path()), None);
    }
}
