//! Resources as `resources` prints them (spec/clients.md 3.3, row 33).
//!
//! The revision of an uploaded file is the time of its upload, as in Juju.

use super::{Table, row};
use crate::times;
use api::{ApplicationResources, ResourceInfo};
use serde_json::{Map, Value, json};
use state::charm::ResourceType;
use state::terms::resource::IMAGE_FILE;

/// How files are supplied: there is no charm store.
const ORIGIN: &str = "upload";

fn filename(info: &ResourceInfo) -> &str {
    match info.declared.kind {
        ResourceType::File => &info.declared.filename,
        ResourceType::OciImage => IMAGE_FILE,
    }
}

/// The time of the upload to the minute, in UTC.
fn revision(info: &ResourceInfo) -> String {
    info.file.as_ref().map_or_else(|| "-".to_owned(), |file| times::upload_time(file.attached_ms))
}

/// The table of `resources`.
pub fn table(listed: &ApplicationResources, details: bool) -> Table<'static> {
    let mut rows = vec![match details {
        true => row(["Resource", "Supplied by", "Revision", "File", "Size", "Fingerprint"]),
        false => row(["Resource", "Supplied by", "Revision"]),
    }];
    for (name, info) in &listed.resources {
        let mut cells = row([name, ORIGIN, &revision(info)]);
        if details {
            let file = info.file.as_ref();
            let size = file.map_or_else(|| "-".to_owned(), |file| file.bytes.to_string());
            let digest = file.map_or("-", |file| file.sha256.as_str());
            cells.extend(row([filename(info), &size, digest]));
        }
        rows.push(cells);
    }
    Table { right: if details { &[4] } else { &[] }, rows }
}

/// The document of `resources --format`.
pub fn document(listed: &ApplicationResources, details: bool) -> Value {
    let resource = |(name, info): (&String, &ResourceInfo)| {
        let mut document = Map::from_iter([
            ("resourceid".to_owned(), json!(format!("{}/{name}", listed.application))),
            ("name".to_owned(), json!(name)),
            ("type".to_owned(), json!(info.declared.kind)),
            ("path".to_owned(), json!(filename(info))),
            ("description".to_owned(), json!(info.declared.description)),
            ("revision".to_owned(), json!(revision(info))),
            ("origin".to_owned(), json!(ORIGIN)),
        ]);
        if let Some(file) = &info.file {
            document.insert("size".to_owned(), json!(file.bytes));
            document.insert("fingerprint".to_owned(), json!(file.sha256));
            if details {
                let time = times::Zone::new(true).iso(file.attached_ms);
                document.insert("timestamp".to_owned(), json!(time));
            }
        }
        Value::Object(document)
    };
    json!({ "resources": listed.resources.iter().map(resource).collect::<Vec<_>>() })
}
