//! The settings of a model.

use crate::lifecycle::model;
use crate::terms::proxy::{Proxies, Proxy};
use crate::tests::*;
use crate::unit::snapshot::Change;

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
    assert_eq!(proxies(&world), Proxies::default());
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
    assert_eq!((reset, proxies(&world)), (Ok(vec![]), Proxies::default()));
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
