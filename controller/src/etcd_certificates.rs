//! The certificates of an etcd that `pintle up` starts on this host, and of its clients.
//!
//! The etcd listens on the loopback interface, which every user of this host reaches: it accepts only clients that have a
//! certificate of its CA, and they accept only a server that has one. The private key of the CA is not stored, so that no
//! further certificate can be made. The files are in a folder that only its owner can access.
//!
//! Called by the hidden command `etcd-certificates`, which the supervisor runs before etcd starts.

use anyhow::{Context, Result};
use api::etcd_file::local_etcd::{CA, CLIENT, CLIENT_KEY, SERVER, SERVER_KEY};
use host::file::{create_private_folder, exists, ignore_not_found, write_atomic};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::path::Path;

/// Runs the command. Returns the exit code.
pub fn run(folder: &Path) -> i32 {
    match make(folder) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ERROR cannot make the certificates of etcd: {error:#}");
            1
        }
    }
}

/// Makes the certificates, unless all of them exist. A set that is incomplete is replaced: the CA can sign no missing one. Its
/// certificate is deleted first and written last, so that no mixture of two sets is complete.
///
/// # Errors
/// If a file cannot be read or written.
pub fn make(folder: &Path) -> Result<()> {
    let mut missing = false;
    for name in [CA, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY] {
        let file = folder.join(name);
        missing |= !exists(&file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    if !missing {
        return Ok(());
    }
    create_private_folder(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "Pintle CA of etcd");
    let ca = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    // etcd connects to itself with the certificate of its server
    let server = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let server = signed(&issuer, &["127.0.0.1"], "etcd", &server)?;
    let client = signed(&issuer, &[], "pintle-controller", &[ExtendedKeyUsagePurpose::ClientAuth])?;
    let file = folder.join(CA);
    ignore_not_found(std::fs::remove_file(&file))
        .with_context(|| format!("cannot delete {}", file.display()))?;
    for (name, text) in [
        (SERVER, &server.0),
        (SERVER_KEY, &server.1),
        (CLIENT, &client.0),
        (CLIENT_KEY, &client.1),
        (CA, &ca),
    ] {
        let file = folder.join(name);
        write_atomic(&file, text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Returns a certificate for these addresses and its private key (PEM).
fn signed(
    issuer: &Issuer<'_, KeyPair>,
    addresses: &[&str],
    name: &str,
    usages: &[ExtendedKeyUsagePurpose],
) -> Result<(String, String)> {
    let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
    let mut params = CertificateParams::new(addresses)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages.to_vec();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_set_is_kept_and_an_incomplete_one_is_replaced_as_a_whole() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("etcd");
        make(&folder).expect("made");
        let read = || {
            [CA, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY].map(|name| {
                let file = folder.join(name);
                assert_eq!(file.metadata().expect("made").permissions().mode() & 0o077, 0, "{name}");
                fs::read_to_string(file).expect("readable")
            })
        };
        let first = read();
        make(&folder).expect("kept");
        assert_eq!(read(), first);
        for name in [CA, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY] {
            let before = read();
            fs::remove_file(folder.join(name)).expect("it exists");
            make(&folder).expect("made again");
            assert!(read().iter().zip(&before).all(|(new, old)| new != old), "{name}");
        }
        // a replacement that ends after the files of the server
        let (before, client) = (read(), folder.join(CLIENT));
        fs::remove_file(folder.join(SERVER)).expect("it exists");
        fs::remove_file(&client).expect("it exists");
        fs::create_dir(&client).expect("made");
        make(&folder).expect_err("a folder is in the way");
        fs::remove_dir(&client).expect("it is empty");
        write_atomic(&client, before[3].as_bytes()).expect("written");
        make(&folder).expect("made again");
        assert!(read().iter().zip(&before).all(|(new, old)| new != old), "no mixture");
        assert_eq!(folder.metadata().expect("made").permissions().mode() & 0o077, 0);
    }
}
