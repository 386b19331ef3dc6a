//! Tests of the sample charms: they can be installed, and declare what the demo and the end-to-end tests use.

use charms::{ReadOptions, install, read};
use state::charm::{IntegrateEnd, Role, endpoints};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn sample(name: &str) -> charms::CharmSource {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name);
    let options = ReadOptions { cache: PathBuf::from("unused"), force: false };
    read(&path, &options).unwrap_or_else(|problems| panic!("{name}: {problems:#?}"))
}

const SHELL: [&str; 7] = ["hello", "pair-db", "pair-web", "peer", "broken", "any", "subordinate"];

#[test]
fn every_shell_sample_can_be_installed_and_its_programs_parse() {
    for name in SHELL {
        let source = sample(name);
        assert_eq!(source.charm.name, name);
        let unit = TempDir::new().expect("tempdir");
        let charm = unit.path().join("charm");
        install(&source.archive, &source.sha256, &charm, 0).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut programs: Vec<PathBuf> = vec![charm.join("dispatch")];
        for folder in ["hooks", "actions"] {
            let found = fs::read_dir(charm.join(folder)).into_iter().flatten();
            programs.extend(found.map(|entry| entry.expect("an entry").path()));
        }
        programs.retain(|program| program.exists());
        assert!(!programs.is_empty(), "{name}");
        for program in programs {
            assert_eq!(
                fs::metadata(&program).expect("a file").permissions().mode() & 0o111,
                0o111,
                "{program:?}"
            );
            assert!(
                Command::new("sh").arg("-n").arg(&program).status().expect("sh").success(),
                "{program:?}"
            );
        }
    }
}

#[test]
fn the_pair_can_be_related_without_naming_endpoints() {
    let (web, db) = (sample("pair-web").charm, sample("pair-db").charm);
    let web = IntegrateEnd { application: "web", charm: &web, endpoint: None };
    let db = IntegrateEnd { application: "db", charm: &db, endpoint: None };
    let found = endpoints::infer(web, db).expect("one pair fits");
    assert_eq!((found.left.name.as_str(), found.right.name.as_str()), ("db", "db"));
    assert_eq!((found.left.role, found.right.role), (Role::Requirer, Role::Provider));
}

#[test]
fn the_samples_declare_the_options_and_actions_that_the_demo_uses() {
    assert!(sample("pair-web").charm.config.contains_key("color"));
    assert!(sample("pair-web").charm.config.contains_key("slow-seconds"));
    assert!(sample("pair-db").charm.actions.contains_key("get-units"));
    assert!(sample("broken").charm.config.contains_key("fail-in"));
    assert_eq!(sample("peer").charm.endpoints["ring"].role, Role::Peer);
}
