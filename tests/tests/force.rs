//! Tests removal by force with the real programs: a unit whose agent and machine agent are stopped is removed, related
//! units observe its departure, and the machine agent deletes the folder when it continues.

use std::path::Path;
use tests::host::sample;
use tests::scene::{hooks, scene, text};

#[test]
fn force_removes_a_unit_whose_agents_are_stopped_and_its_folder_when_the_machine_agent_continues() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    let has = |unit: &str, hook: &str| hooks(&host, unit).iter().any(|name| name.ends_with(hook));
    for unit in ["web/0", "db/0"] {
        host.until(format_args!("{unit} ran relation-changed"), |_| {
            has(unit, "relation-changed").then_some(())
        });
    }
    let folder = host.unit_folder("web/0").expect("it is deployed");
    let machine = folder.parent().and_then(Path::parent).expect("two up").join("machine.pid");
    let machine = host.pid(&machine).expect("it runs");
    let agent = host.agent_pid("web/0").expect("it runs");
    host.signal("STOP", machine);
    host.signal("STOP", agent);
    let refused = host.refused(&["remove-unit", "web/0", "--no-prompt", "--no-wait"]);
    assert!(refused.contains("--no-wait ") && refused.ends_with(" --force\n"), "{refused}");
    host.ok(&["remove-unit", "web/0", "--no-prompt", "--force", "--no-wait"]);
    host.until("its record is gone", |host| host.unit("web/0").is_none().then_some(()));
    host.until("the remaining unit ran relation-departed", |_| {
        has("db/0", "relation-departed").then_some(())
    });
    assert!(folder.is_dir(), "the folder still exists");
    host.signal("CONT", machine);
    host.until("its folder is gone", |host| host.unit_folder("web/0").is_none().then_some(()));
    host.until("its agent is gone", |host| {
        host.processes().iter().all(|process| !process.contains("unit-web-0")).then_some(())
    });
    assert!(!has("db/0", "relation-broken"), "the relation is kept");
}
