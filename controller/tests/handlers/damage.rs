//! A store with damaged documents: status and why name them; they stay, and the janitor deletes the others that must be
//! deleted.

use crate::log::{large_report, stored_lines, write_lines};
use crate::support::*;
use api::{EntityChoice, GetStatus, GetWhy, Handle, InModel};
use controller::Controller;
use controller::environment::uuid_v4;
use controller::janitor::Janitor;
use controller::store::Store;
use controller::store::sqlite::{Options, Sqlite};
use state::documents::draft::{Draft, read};
use state::documents::prelude::{ArchiveUse, GLOBAL, Kind};
use state::terms::cause::Duty;
use state::terms::names::{UnitName, Uuid};
use state::transitions::log_retention::DEBUG_LOG_BYTES_MAX;

type DiskFixture = Fixture<Sqlite, FakeEnvironment>;

async fn on_disk(folder: &tempfile::TempDir) -> DiskFixture {
    let store = Sqlite::open(folder.path(), Options::new(uuid_v4(77))).expect("opens");
    Fixture::new(Controller::new(store, FakeEnvironment::new(), uuid_v4(1))).await
}

/// Damages one document of the store and opens it again.
async fn damage(fixture: DiskFixture, folder: &tempfile::TempDir, key: &str) -> DiskFixture {
    let Fixture { controller, model, admin } = fixture;
    let (environment, principal) = (controller.environment.clone(), admin.principal.clone());
    drop((controller, admin));
    let connection = rusqlite::Connection::open(folder.path().join("store.sqlite")).expect("a database");
    let damaged = connection.execute("UPDATE documents SET value = '6' WHERE key = ?1", [key]);
    assert_eq!(damaged, Ok(1));
    drop(connection);
    let store = Sqlite::open(folder.path(), Options::new(uuid_v4(77))).expect("opens");
    let controller = Controller::new(store, environment, uuid_v4(1));
    let admin = controller.caller(principal).in_model("dev");
    Fixture { controller, model, admin }
}

#[tokio::test]
async fn a_damaged_line_does_not_keep_the_lines_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = on_disk(&folder).await;
    fixture.deploy("web", 1).await;
    let unit = fixture.unit("web/0").await;
    write_lines(&fixture, unit, 1..=175).await;
    let oldest = fixture.model.log(unit, 1, 0).text().to_owned();
    let fixture = damage(fixture, &folder, &oldest).await;
    let agent = fixture.attach_agent("web/0").await;
    for run in 200..206 {
        agent.api.handle(large_report(run)).await.expect("the request is accepted");
    }
    let mut janitor = Janitor::default();
    let mut sweeps = 0;
    while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {
        sweeps += 1;
        assert!(sweeps < 100, "the sweeps follow each other without an end");
    }
    assert!(stored_lines(&fixture, unit).await.0 <= DEBUG_LOG_BYTES_MAX);
}

#[tokio::test]
async fn a_damaged_charm_of_an_application_does_not_keep_the_ended_uses_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = on_disk(&folder).await;
    fixture.deploy("web", 1).await;
    let model = fixture.model;
    let end = move |draft: &mut Draft<'_>| {
        for owner in 1..=5 {
            let ended = ArchiveUse { sha256: "web".to_owned(), model, owner: Uuid(owner) };
            draft.put(&GLOBAL.archive_use(&ended), &());
        }
        Ok(())
    };
    fixture.controller.run(end).await.expect("written");
    let id = move |reader: &dyn state::documents::draft::Reader| read(reader, &model.application_name("web"));
    let web = fixture.controller.read(id).await.expect("it is deployed");
    let fixture = damage(fixture, &folder, model.application_charm(web).text()).await;
    Janitor::default().sweep(&fixture.controller).await.expect("the sweep succeeds");
    let uses = fixture
        .controller
        .store
        .read_available(|reader| reader.scan(&GLOBAL.prefix(Kind::ArchiveUse), "", 9));
    let uses: Vec<_> = uses.await.0.iter().filter_map(|stored| ArchiveUse::of_key(&stored.key)).collect();
    assert_eq!(uses.iter().map(|archive_use| archive_use.owner).collect::<Vec<_>>(), [web]);
}

#[tokio::test]
async fn the_damaged_status_of_a_unit_is_named_by_status_and_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = on_disk(&folder).await;
    fixture.deploy("web", 1).await;
    let unit = fixture.unit("web/0").await;
    assert_eq!(fixture.admin.handle(GetStatus).await.expect("a status").damaged, Vec::<String>::new());
    let key = fixture.model.unit_status(unit).text().to_owned();
    let fixture = damage(fixture, &folder, &key).await;
    for _ in 0..2 {
        let status = fixture.admin.handle(GetStatus).await.expect("what is left");
        assert_eq!(status.damaged, [key.as_str()]);
    }
    let entity = EntityChoice::Unit(UnitName::new("web", 0));
    let why = fixture.admin.handle(GetWhy { entity }).await.expect("what is left");
    let named = Duty::RestoreDocument { document: key };
    assert!(why.causes.iter().any(|cause| cause.duty == named), "{why:?}");
}

/// Nothing is concluded from the absence of a damaged document: the stream of the running agent still counts, and keeps a
/// second agent of the unit out.
#[tokio::test]
async fn the_janitor_does_not_forget_the_agents_of_a_model_whose_name_is_damaged() {
    for damages_unit in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let fixture = on_disk(&folder).await;
        fixture.deploy("web", 1).await;
        let unit = fixture.unit("web/0").await;
        let name = GLOBAL.model_name("dev").text().to_owned();
        let key = if damages_unit { fixture.model.unit(unit).text().to_owned() } else { name };
        let fixture = damage(fixture, &folder, &key).await;
        fixture.controller.presence.record_request(unit, 1);
        Janitor::default().sweep(&fixture.controller).await.expect("the sweep succeeds");
        assert!(fixture.controller.presence.after(None, 9).contains(&unit), "{key}");
    }
}
