//! Trust as a setting of applications.

use crate::charm::{ConfigOption, OptionType};
use crate::documents::draft::read;
use crate::documents::refusal::Code;
use crate::lifecycle::application_settings::configure;
use crate::terms::names::Uuid;
use crate::tests::{MODEL, World, web};
use serde_json::Value;
use std::collections::BTreeMap;

fn set(world: &mut World, app: Uuid, value: &str) -> Result<(), Code> {
    let set = BTreeMap::from([("trust".to_owned(), value.to_owned())]);
    world.run(|draft, _| configure(draft, MODEL, app, &set, &[])).map_err(|refusal| refusal.code())
}

fn is_trusted(world: &World, app: Uuid) -> bool {
    read(world.reader(), &MODEL.application_trust(app)).unwrap_or_default()
}

fn options(world: &World, app: Uuid) -> BTreeMap<String, Value> {
    read(world.reader(), &MODEL.application_config(app)).expect("the application exists")
}

#[test]
fn trust_is_a_setting_of_every_application() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    assert_eq!(set(&mut world, app, "true"), Ok(()));
    assert_eq!((is_trusted(&world, app), options(&world, app)), (true, BTreeMap::new()));
    assert_eq!(set(&mut world, app, "perhaps"), Err(Code::Invalid));
    assert!(is_trusted(&world, app));
    let reset = ["trust".to_owned()];
    world.run(|draft, _| configure(draft, MODEL, app, &BTreeMap::new(), &reset)).expect("it is a setting");
    assert!(!is_trusted(&world, app));
}

#[test]
fn a_charm_that_declares_an_option_named_trust_has_its_own() {
    let mut world = World::new();
    let mut charm = web();
    let option = ConfigOption { kind: OptionType::String, default: None, description: String::new() };
    charm.config.insert("trust".to_owned(), option);
    world.upload("own", charm);
    let app = world.deploy("own", "own", 1);
    assert_eq!(set(&mut world, app, "perhaps"), Ok(()));
    assert_eq!(options(&world, app), BTreeMap::from([("trust".to_owned(), "perhaps".into())]));
    assert!(!is_trusted(&world, app));
}
