//! Tests compatibility with samples of every stored and transmitted document, for each version of each form
//! (ARCHITECTURE.md, Compatibility).
//!
//! `tests/compat/FORM/VERSION/` contains the samples. There must be samples of every version from 1 on, and those of
//! the supported versions must load. The samples of the newest version must equal those that the current code makes: a
//! form that changed fails until it has a new version, or, while the newest version is not released, until its samples
//! are written again: `UPDATE=1 cargo test -p tests --test compat`. Samples of a released version are never changed.

mod documents;
mod named;
mod protocol;
mod read_types;
mod samples;
mod unit_folder;
mod values;

use samples::{Samples, read, write};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// A group of documents with a version of its own.
struct Form {
    name: &'static str,
    version: u32,
    /// The newest version that was released; 0 = none.
    released: u32,
    /// The oldest version that the current programs load; they refuse older ones.
    oldest: u32,
    make: fn() -> Samples,
    /// Loads the samples of one version as the programs do, and panics if they would refuse or lose something.
    load: fn(&Samples),
}

fn forms() -> Vec<Form> {
    let store = u32::try_from(controller::store::sqlite::VERSION).expect("a small number");
    let protocol_version = api::API_VERSION.strip_prefix('v').and_then(|number| number.parse().ok());
    vec![
        Form {
            name: "unit-folder",
            version: agent::journal::FORMAT,
            released: 0,
            oldest: 1,
            make: unit_folder::make,
            load: unit_folder::load,
        },
        Form {
            name: "store",
            version: store,
            released: 0,
            oldest: 1,
            make: documents::make,
            load: documents::load,
        },
        Form {
            name: "protocol",
            version: protocol_version.expect("the version is v and a number"),
            released: 0,
            oldest: 1,
            make: protocol::make,
            load: protocol::load,
        },
    ]
}

fn folder(form: &Form, version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("compat").join(form.name).join(version.to_string())
}

/// Writes the samples of versions that are not released, once, before anything reads them.
fn update() {
    static WRITTEN: Once = Once::new();
    WRITTEN.call_once(|| {
        let is_asked_for = std::env::var_os("UPDATE").is_some();
        for form in forms().iter().filter(|form| is_asked_for && form.version > form.released) {
            write(&folder(form, form.version), &(form.make)());
        }
    });
}

#[test]
fn every_sample_of_every_version_loads() {
    update();
    for form in forms() {
        for version in 1..=form.version {
            let samples = read(&folder(&form, version));
            if version >= form.oldest {
                (form.load)(&samples);
            }
        }
    }
}

#[test]
fn the_newest_samples_are_what_the_code_makes_today() {
    update();
    for form in forms() {
        let (folder, made) = (folder(&form, form.version), (form.make)());
        assert_eq!(made, (form.make)(), "{}: samples are made the same each time", form.name);
        let kept = read(&folder);
        assert_eq!(
            made.keys().collect::<Vec<_>>(),
            kept.keys().collect::<Vec<_>>(),
            "{}: there is one sample per document",
            form.name
        );
        for (name, text) in &made {
            assert!(
                text == &kept[name],
                "{}/{name}: the form has changed. If version {} was released, give it a new version (ARCHITECTURE.md, \
                 Compatibility); else: UPDATE=1 cargo test -p tests --test compat",
                form.name,
                form.version
            );
        }
    }
}
