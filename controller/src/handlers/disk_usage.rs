//! Handlers of disk usage: what the controller stores, and what the machine agents report about their units.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::presence::MeasuredDisk;
use crate::store::Store;
use crate::store::usage::StoreUsage;
use api::error::ApiError;
use api::{
    ArchiveDiskUsage, ArchiveUser, DiskUsage, GetDiskUsage, Handle, MachineDisk, ModelDiskUsage,
    ReportDiskUsage, StoreDiskUsage, UnitDisk,
};
use state::documents::draft::{Reader, parse, read, read_all};
use state::documents::prelude::{
    ApplicationDoc, ArchiveDoc, ArchiveUse, GLOBAL, KeyParts, Kind, Model, UnitDoc, last_id,
};
use state::terms::names::{UnitName, Uuid};
use state::terms::owner::Owner;
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl<S: Store, E: Environment> Handle<GetDiskUsage> for Authorised<S, E> {
    async fn handle(&self, _: GetDiskUsage) -> Result<DiskUsage, ApiError> {
        let usage = self.controller.store.usage().await;
        let presence = &self.controller.presence;
        let reported =
            Reported { units: presence.disk_usage(), quarantined_bytes: presence.quarantined_bytes() };
        let now_ms = self.controller.environment.monotonic_ms();
        let read =
            self.controller.read_available(move |reader| disk_usage(reader, &usage, &reported, now_ms));
        Ok(read.await)
    }
}

impl<S: Store, E: Environment> Handle<ReportDiskUsage> for Authorised<S, E> {
    async fn handle(&self, report: ReportDiskUsage) -> Result<(), ApiError> {
        let ReportDiskUsage { units, quarantined_bytes } = report;
        let (_, machine) = self.authenticate_machine()?;
        self.controller.presence.set_quarantined_bytes(machine, quarantined_bytes);
        let reported_ms = self.controller.environment.monotonic_ms();
        for (unit, usage) in self.reports_of_assigned_units(units).await? {
            self.controller.presence.set_disk_usage(unit, MeasuredDisk { usage, reported_ms });
        }
        Ok(())
    }
}

/// What the machine agents have reported.
struct Reported {
    units: BTreeMap<Uuid, MeasuredDisk>,
    quarantined_bytes: BTreeMap<Uuid, u64>,
}

fn disk_usage(reader: &dyn Reader, usage: &StoreUsage, reported: &Reported, now_ms: u64) -> DiskUsage {
    let store = StoreDiskUsage {
        database_bytes: usage.database_bytes,
        wal_bytes: usage.wal_bytes,
        change_log_bytes: usage.change_log_bytes,
        global_bytes: usage.of_model(GLOBAL.0),
        retired_tokens_bytes: usage.of_kind(GLOBAL.0, Kind::RetiredToken),
    };
    let names = read_all::<Uuid>(reader, &GLOBAL.prefix(Kind::ModelName));
    let model = |(key, id): &(String, Uuid)| {
        let units = read_all::<UnitDoc>(reader, &Model(*id).prefix(Kind::Unit));
        let unit = |(key, doc): &(String, UnitDoc)| {
            let unit = last_id(key)?;
            let measured = reported.units.get(&unit);
            let disk = UnitDisk {
                unit: doc.name.to_string(),
                machine: read(reader, &Model(*id).machine(doc.machine))
                    .map_or_else(String::new, |doc| doc.name),
                log_bytes: usage.log_bytes.get(&(*id, unit)).copied().unwrap_or(0),
                on_machine: measured.map(|measured| measured.usage),
                measured_ago_ms: measured.map(|measured| now_ms.saturating_sub(measured.reported_ms)),
            };
            Some((doc.name.clone(), disk))
        };
        let mut units: Vec<(UnitName, UnitDisk)> = units.iter().filter_map(unit).collect();
        units.sort_by(|(a, _), (b, _)| a.cmp(b));
        let machine = |(machine, quarantined_bytes): (&Uuid, &u64)| {
            let machine = read(reader, &Model(*id).machine(*machine))?.name;
            Some(MachineDisk { machine, quarantined_bytes: *quarantined_bytes })
        };
        let mut machines: Vec<MachineDisk> = reported.quarantined_bytes.iter().filter_map(machine).collect();
        machines.sort_by(|a, b| a.machine.cmp(&b.machine));
        ModelDiskUsage {
            model: KeyParts::of(key).map_or_else(String::new, |parts| parts.rest.to_owned()),
            documents_bytes: usage.of_model(*id),
            log_bytes: usage.of_kind(*id, Kind::Log),
            actions_bytes: usage.of_kind(*id, Kind::Action),
            tombstones_bytes: usage.of_kind(*id, Kind::Tombstone),
            units: units.into_iter().map(|(_, disk)| disk).collect(),
            machines,
        }
    };
    let mut archives: Vec<ArchiveDiskUsage> = reader
        .scan(&GLOBAL.prefix(Kind::Archive), "", usize::MAX)
        .iter()
        .filter_map(|stored| {
            let doc: ArchiveDoc = parse(reader, stored)?;
            let sha256 = KeyParts::of(&stored.key)?.rest.to_owned();
            let used_by = users(reader, &sha256, &names);
            let charm = doc.charm.map(|charm| charm.name.clone());
            Some(ArchiveDiskUsage { charm, bytes: doc.bytes, sha256, used_by })
        })
        .collect();
    archives.sort_by_key(|archive| Reverse(archive.bytes));
    DiskUsage { store, models: names.iter().map(model).collect(), archives }
}

/// The applications and units that use an archive. Uses that have ended are left out.
fn users(reader: &dyn Reader, sha256: &str, models: &[(String, Uuid)]) -> Vec<ArchiveUser> {
    let user = |archive_use: &ArchiveUse| {
        let ArchiveUse { model, owner, .. } = archive_use;
        let (key, _) = models.iter().find(|(_, id)| *id == model.0)?;
        let application: Option<ApplicationDoc> = read(reader, &model.application(*owner));
        let unit = || read(reader, &model.unit(*owner)).map(|unit| Owner::Unit(unit.name));
        let owner = application.map(|application| Owner::Application(application.name)).or_else(unit)?;
        Some(ArchiveUser { model: KeyParts::of(key)?.rest.to_owned(), owner })
    };
    let uses = reader.scan(&GLOBAL.archive_uses(sha256), "", usize::MAX);
    let mut users: Vec<ArchiveUser> =
        uses.iter().filter_map(|stored| user(&ArchiveUse::of_key(&stored.key)?)).collect();
    users.sort();
    users
}
