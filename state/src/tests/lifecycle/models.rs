//! The settings of a model.

use crate::lifecycle::model;
use crate::terms::proxy::{Proxies, Proxy};
use crate::tests::*;
use crate::unit::snapshot::Change;
use serde_json::Value;

/// Sets one setting. Returns the settings without an effect.
fn set(world: &mut World, key: &str, value: &str) -> Result<Vec<String>, Refusal> {
    let set = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    world.run(|draft, _| model::configure(draft, MODEL, &set, &[]))
}

#[test]
fn model_settings_have_defaults_and_types() {
    let mut world = World::new();
    let view = |world: &World| {
        let view = model::model_view(&mut world.reader(), MODEL).expect("there is a view");
        (view.update_status_ms, view.hook_retries_max)
    };
    assert_eq!(view(&world), (300_000, Some(10)));
    assert_eq!(set(&mut world, "update-status-hook-interval", "10s"), Ok(vec![]));
    assert_eq!(set(&mut world, "max-hook-retries", "unlimited"), Ok(vec![]));
    assert_eq!(view(&world), (10_000, None));
    assert_eq!(set(&mut world, "automatically-retry-hooks", "false"), Ok(vec![]));
    assert_eq!(view(&world), (10_000, Some(0)));
    assert_eq!(set(&mut world, "test-mode", "true"), Ok(vec!["test-mode".to_owned()]));
    assert_eq!(refused(set(&mut world, "update-status-hook-interval", "soon")).0, Code::Invalid);
}

#[test]
fn units_see_the_proxies_of_the_model_as_they_are_set_and_reset() {
    let mut world = World::new();
    world.deploy("plain", "plain", 1);
    let proxies =
        |world: &World| model::model_view(&mut world.reader(), MODEL).expect("there is a view").proxies;
    let this_host = || Proxy { no_proxy: "127.0.0.1,localhost,::1".into(), ..Proxy::default() };
    let by_default = Proxies { legacy: this_host(), charm: this_host() };
    assert_eq!(proxies(&world), by_default);
    let names = Proxies::SETTINGS.into_iter();
    let set = names.map(|name| (name.to_owned(), format!("to-{name}"))).collect();
    assert_eq!(world.run(|draft, _| model::configure(draft, MODEL, &set, &[])), Ok(vec![]), "all are known");
    let expected = Proxies {
        legacy: Proxy {
            http: "to-http-proxy".into(),
            https: "to-https-proxy".into(),
            ftp: "to-ftp-proxy".into(),
            no_proxy: "to-no-proxy".into(),
        },
        charm: Proxy {
            http: "to-juju-http-proxy".into(),
            https: "to-juju-https-proxy".into(),
            ftp: "to-juju-ftp-proxy".into(),
            no_proxy: "to-juju-no-proxy".into(),
        },
    };
    assert_eq!(proxies(&world), expected);
    let shown = world.sent[&world.unit("plain/0")].last().cloned();
    assert!(
        matches!(shown, Some(Change::Model(view)) if view.proxies == expected),
        "the change is sent in the same commit"
    );
    let all = Proxies::SETTINGS.map(str::to_owned);
    let reset = world.run(|draft, _| model::configure(draft, MODEL, &BTreeMap::new(), &all));
    assert_eq!((reset, proxies(&world)), (Ok(vec![]), by_default));
}

#[test]
fn a_setting_that_no_variable_could_hold_is_refused() {
    let mut world = World::new();
    let max = 64 << 10;
    let no_warning = Ok(vec![]);
    assert_eq!(set(&mut world, "no-proxy", &"a".repeat(max)), no_warning);
    let too_long = ModelRefusal::SettingTooLong { setting: "no-proxy".to_owned(), bytes: max + 1, max };
    assert_eq!(refused(set(&mut world, "no-proxy", &"b".repeat(max + 1))), reason(too_long));
    let kept =
        model::model_view(&mut world.reader(), MODEL).expect("there is a view").proxies.legacy.no_proxy;
    assert_eq!(kept, "a".repeat(max), "the refusal changed nothing");
}

#[test]
fn warm_parents_fork_hooks_only_if_the_model_allows_it() {
    let mut world = World::new();
    let is_warm =
        |world: &World| model::model_view(&mut world.reader(), MODEL).expect("there is a view").warm_dispatch;
    assert!(!is_warm(&world));
    for (text, expected) in [("true", true), ("false", false)] {
        let set = BTreeMap::from([("warm-dispatch".to_owned(), text.to_owned())]);
        assert_eq!(world.run(|draft, _| model::configure(draft, MODEL, &set, &[])), Ok(vec![]));
        assert_eq!(is_warm(&world), expected);
    }
    let invalid = BTreeMap::from([("warm-dispatch".to_owned(), "perhaps".to_owned())]);
    assert!(world.run(|draft, _| model::configure(draft, MODEL, &invalid, &[])).is_err());
}

#[test]
fn a_new_model_begins_with_the_defaults_of_the_controller_and_existing_ones_keep_theirs() {
    let mut world = World::new();
    let settings = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let config =
        |world: &World, model: Model| read(world.reader(), &model.model_config()).expect("the model exists");
    let before = config(&world, MODEL);
    let set = settings(&[("max-hook-retries", "2"), ("parallel", "true")]);
    assert_eq!(world.run(|draft, _| model::configure_defaults(draft, &set, &[])), Ok(vec![]));
    assert_eq!(config(&world, MODEL), before);
    let own = settings(&[("parallel", "false")]);
    world
        .run(|draft, _| model::create_configured(draft, Uuid(8), "other", &own, 1))
        .expect("the name is free");
    let expected = BTreeMap::from([
        ("max-hook-retries".to_owned(), Value::from(2)),
        ("parallel".to_owned(), Value::from(false)),
    ]);
    assert_eq!(config(&world, Model(Uuid(8))), expected);
    let invalid = settings(&[("parallel", "perhaps")]);
    assert!(world.run(|draft, _| model::configure_defaults(draft, &invalid, &[])).is_err());
    let reset = ["parallel".to_owned(), "max-hook-retries".to_owned()];
    assert_eq!(world.run(|draft, _| model::configure_defaults(draft, &BTreeMap::new(), &reset)), Ok(vec![]));
    world.run(|draft, _| model::create(draft, Uuid(9), "third", 1)).expect("the name is free");
    assert_eq!(config(&world, Model(Uuid(9))), BTreeMap::new());
}
