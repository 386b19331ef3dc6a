//! `pintle-controller check DIR`: verifies the database of a controller that is not running. A store in etcd is refused.
//!
//! It reports everything for which a start would refuse the store, and verifies the checksum and the type of every
//! document, the charm archives and files of resources, and the invariants of every model. It changes nothing. Called by
//! `program`, and in part by `migrate`.

use crate::installation::Installation;
use crate::store::sqlite::LOCK;
use crate::store::sqlite::inspection::Inspection;
use api::CONTROLLER_DIR;
use api::etcd_file::ETCD_FILE;
use host::digest::sha256_of;
use state::documents::draft::{Reader, StoredDocument, read_all};
use state::documents::invariants::violations;
use state::documents::prelude::{ArchiveDoc, GLOBAL, KeyParts, Kind, Model};
use state::documents::typed;
use state::terms::names::Uuid;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    /// One line for each finding.
    pub findings: Vec<String>,
    /// What a start demands of an intact copy, such as an unpacked backup.
    pub note: Option<String>,
    /// The number of documents with a correct checksum.
    pub documents: usize,
}

/// Verifies the store in a data folder, or in a folder that contains `store.sqlite`. An error if it cannot be verified,
/// for example because a controller has it open.
pub fn check(data: &Path) -> Result<Report, String> {
    let is_data = data.join(CONTROLLER_DIR).is_dir();
    let store = if is_data { Installation::store_in(data) } else { data.to_owned() };
    if !store.is_dir() {
        return Err(format!("{} contains no store", data.display()));
    }
    if is_data && data.join(ETCD_FILE).exists() {
        return Err(
            "its documents are in etcd; to check them, move them into a database: pintle-controller migrate"
                .into(),
        );
    }
    if host::lock::is_held(&store.join(LOCK)) {
        return Err(format!(
            "the store in {} is in use; stop its controller first: pintle down",
            store.display()
        ));
    }
    examine(data).map(|(report, _)| report)
}

/// Like [`check`], for a process that has the lock of the store. Also returns the documents with a correct checksum.
pub(crate) fn examine(data: &Path) -> Result<(Report, Inspection), String> {
    let is_data = data.join(CONTROLLER_DIR).is_dir();
    let store = if is_data { Installation::store_in(data) } else { data.to_owned() };
    let copy = std::env::temp_dir().join(format!("pintle-check-{:032x}", host::random::random_u128()));
    let made = fs::DirBuilder::new().mode(0o700).create(&copy);
    made.map_err(|error| format!("cannot create {}: {error}", copy.display()))?;
    let inspection = Inspection::read(&store, &copy, is_data);
    let removed = fs::remove_dir_all(&copy);
    let mut inspection = inspection?;
    removed.map_err(|error| format!("cannot remove {}: {error}", copy.display()))?;

    let mut findings = std::mem::take(&mut inspection.faults);
    findings.extend(type_errors(inspection.documents.values()));
    if is_data {
        findings.extend(archives(&inspection, &Installation::archives_in(data)));
    }
    findings.extend(violated_invariants(&inspection));
    let (note, documents) = (inspection.note.take(), inspection.documents.len());
    Ok((Report { findings, note, documents }, inspection))
}

/// One line for each document that is not of its type.
pub(crate) fn type_errors<'d>(
    documents: impl Iterator<Item = &'d StoredDocument>,
) -> impl Iterator<Item = String> {
    documents.filter_map(|stored| typed::type_error(stored).map(|why| format!("{}: {why}", stored.key)))
}

/// One line for each violated invariant of a model.
pub(crate) fn violated_invariants(reader: &dyn Reader) -> Vec<String> {
    let models = read_all::<Uuid>(reader, &GLOBAL.prefix(Kind::ModelName)).into_iter();
    let in_model = |(_, model): (String, Uuid)| {
        let violations = violations(reader, Model(model)).into_iter();
        violations.map(move |violation| format!("model {model}: {violation}"))
    };
    models.flat_map(in_model).collect()
}

/// Verifies the files of charm archives and resources.
fn archives(inspection: &Inspection, folder: &Path) -> Vec<String> {
    let registered = read_all::<ArchiveDoc>(inspection, &GLOBAL.prefix(Kind::Archive));
    let fault = |(key, _): (String, ArchiveDoc)| {
        let sha256 = KeyParts::of(&key)?.rest.to_owned();
        match File::open(folder.join(&sha256)).and_then(sha256_of) {
            Ok(found) if found == sha256 => None,
            Ok(_) => Some(format!("archive {sha256}: damaged")),
            Err(error) => Some(format!("archive {sha256}: {error}")),
        }
    };
    registered.into_iter().filter_map(fault).collect()
}

/// Checks a store and prints the report. Returns the exit code: 0 without findings, 1 with findings, 2 if the store
/// cannot be verified.
pub fn run(data: &Path) -> u8 {
    match check(data) {
        Err(why) => {
            eprintln!("ERROR cannot check the store: {why}");
            2
        }
        Ok(report) => {
            report.note.iter().for_each(|note| println!("note: {note}"));
            report.findings.iter().for_each(|finding| println!("{finding}"));
            println!(
                "{} documents with a correct checksum; findings: {}",
                report.documents,
                report.findings.len()
            );
            u8::from(!report.findings.is_empty())
        }
    }
}
