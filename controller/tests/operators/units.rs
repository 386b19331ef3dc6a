//! Requests that add many units: they are added in batches, and each batch is committed as a whole.

use crate::support::*;
use api::error::ErrorCode;
use api::{AddUnits, Deploy, Handle};
use controller::Controller;
use controller::environment::uuid_v4;
use controller::store::StoreError;
use controller::store::sqlite::{Options, Sqlite};
use state::documents::draft::read_all;
use state::documents::invariants::violations;
use state::documents::prelude::{Kind, UnitDoc};
use std::collections::BTreeMap;

fn web(units: u32) -> AddUnits {
    AddUnits { attach_storage: Vec::new(), application: "web".to_owned(), units, to: None }
}

#[tokio::test]
async fn one_request_adds_59_units_in_each_transaction() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let before = newest_position(&fixture.controller).await.revision;
    let added = fixture.admin.handle(web(130)).await.expect("they are added");
    assert_eq!(added.revision - before, 3, "59 + 59 + 12");
    let names: Vec<String> = added.answer.iter().map(ToString::to_string).collect();
    let expected: Vec<String> = (1..131).map(|number| format!("web/{number}")).collect();
    assert_eq!(names, expected);
    let deploy = Deploy {
        application: Some("more".to_owned()),
        sha256: "web".to_owned(),
        units: 130,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    let deployed = fixture.admin.handle(deploy).await.expect("it is deployed");
    assert_eq!((deployed.answer.units.len(), deployed.revision - added.revision), (130, 3), "58 + 59 + 13");
}

#[tokio::test]
async fn a_request_that_fails_in_between_leaves_whole_units() {
    let folder = tempfile::tempdir().expect("a folder");
    // An empty store takes ten pages. A unit takes some 5 KiB, with its entries in the change log.
    let options = Options { pages_max: Some(800), ..Options::new(uuid_v4(77)) };
    let store = Sqlite::open(folder.path(), options).expect("a new store");
    let fixture = Fixture::new(Controller::new(store, FakeEnvironment::new(), uuid_v4(1))).await;
    fixture.deploy("web", 1).await;
    let error = fixture.admin.handle(web(1_000)).await.expect_err("the disk is full");
    assert_eq!((error.code, error.message), (ErrorCode::Unavailable, StoreError::Full.to_string()));
    let model = fixture.model;
    let (units, violations) = fixture
        .controller
        .read(move |reader| {
            let units = read_all::<UnitDoc>(reader, &model.prefix(Kind::Unit));
            (units.into_iter().map(|(_, unit)| unit.name.number).collect(), violations(reader, model))
        })
        .await;
    let mut units: Vec<u32> = units;
    units.sort_unstable();
    assert!(units.len() > 10, "{}", units.len());
    assert_eq!(units, (0..units.len() as u32).collect::<Vec<_>>());
    assert_eq!(violations, Vec::<String>::new());
}
