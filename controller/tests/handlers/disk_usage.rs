//! `GetDiskUsage`: the bytes of each model in the store, the reports of machine agents, and the users of archives.

use crate::support::*;
use api::{ArchiveUser, GetDiskUsage, Handle, MachineDisk, ReportDiskUsage};
use state::documents::draft::{Draft, Reader};
use state::documents::prelude::{LogDoc, LogSource, TokenHolder};
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::names::UnitName;
use state::terms::owner::Owner;
use state::unit::hook_context::Level;
use std::collections::BTreeMap;

#[tokio::test]
async fn disk_usage_names_who_uses_what() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 11).await;
    let (model, unit, other) = (fixture.model, fixture.unit("web/0").await, fixture.unit("web/1").await);
    let line = LogDoc {
        at_ms: 1,
        level: Level::Info,
        unit: UnitName::new("web", 0),
        source: LogSource::JujuLog,
        text: "t".repeat(1_000),
    };
    let write = move |draft: &mut Draft<'_>| {
        draft.put(&model.log(unit, 1, 1), &line);
        Ok(())
    };
    fixture.controller.run(write).await.expect("written");
    let machine = fixture.machine_of_unit(unit).await;
    let caller = fixture.controller.caller(TokenHolder::Machine { model, machine });
    let reported = UnitDiskUsage { runs_bytes: 5, charm_bytes: u64::MAX, ..UnitDiskUsage::default() };
    let units = BTreeMap::from([(unit, reported), (other, reported)]);
    caller.handle(ReportDiskUsage { units, quarantined_bytes: 7 }).await.expect("the request is accepted");

    let usage = fixture.admin.handle(GetDiskUsage).await.expect("an answer");
    let [dev] = &usage.models[..] else { panic!("one model: {usage:?}") };
    let units: Vec<_> = dev.units.iter().map(|unit| (unit.unit.clone(), unit.on_machine)).collect();
    // a machine reports its own units only
    let expected: Vec<_> = (0..11).map(|n| (format!("web/{n}"), Some(reported).filter(|_| n == 0))).collect();
    assert_eq!(units, expected);
    for unit in &dev.units {
        assert_eq!(unit.measured_ago_ms.is_some(), unit.on_machine.is_some(), "{unit:?}");
    }
    assert_eq!(dev.machines, [MachineDisk { machine: "0".to_owned(), quarantined_bytes: 7 }]);
    let logged = dev.units.iter().map(|unit| unit.log_bytes).sum::<u64>();
    assert!((1_000..1_400).contains(&logged) && dev.log_bytes == logged, "{dev:?}");
    let all = fixture.controller.read(move |reader: &dyn Reader| reader.scan("", "", usize::MAX)).await;
    let all: u64 = all.iter().map(|stored| (stored.key.len() + stored.value.len()) as u64).sum();
    assert_eq!(dev.documents_bytes + usage.store.global_bytes, all, "every document is counted once");
    let archives: Vec<_> = usage
        .archives
        .iter()
        .map(|of| (of.charm.as_deref().unwrap_or_default(), of.used_by.as_slice()))
        .collect();
    let web = ArchiveUser { model: "dev".to_owned(), owner: Owner::Application("web".to_owned()) };
    assert_eq!(archives, [("db", &[][..]), ("web", &[web][..])]);
}
