//! Tests a controller with another CA, and the tokens of other agents: each is refused with a message that states the
//! reason, and nothing changes.

use crate::proxy::reconfigure_and_restart;
use crate::raw_client::{RawClient, client_file, reconfigure, unit_routes};
use agent::config;
use api::AgentConfig;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tests::host::Host;
use tests::scene::{Scene, scene};
use tests::tally::{STARTED, deploy, results, until_ran};

fn folder(host: &Host, unit: &str) -> PathBuf {
    host.unit_folder(unit).expect("it is deployed")
}

/// Waits for a line of a log that contains `words`, which must be logged once.
fn logged_once(host: &Host, log: &Path, words: &str) {
    let count = || fs::read_to_string(log).unwrap_or_default().matches(words).count();
    host.until(format_args!("{words:?} in {}", log.display()), |_| (count() > 0).then_some(()));
    assert_eq!(count(), 1, "{}", fs::read_to_string(log).unwrap_or_default());
}

/// A scene with one unit that has started.
fn with_a_unit() -> Scene {
    let scene = scene();
    deploy(&scene, "db", &[]);
    until_ran(&scene, "db/0", &STARTED);
    scene
}

#[test]
fn a_controller_of_another_ca_is_refused_by_the_command() {
    let scene = with_a_unit();
    let old = scene.beside("old");
    fs::create_dir(&old).expect("a new folder");
    fs::copy(scene.dir.join("client.yaml"), old.join("client.yaml")).expect("it is up");
    // the controller gets another CA under the same name; the older copy of the client file contains the old CA
    scene.ok(&["down"]);
    let (own, other) = (scene.dir.join("controller"), scene.beside("other"));
    host::file::create_private_folder(&other.join("controller")).expect("a new folder");
    let identity = fs::read_to_string(own.join("identity.yaml")).expect("it was up");
    let uuid = identity.lines().find(|line| line.starts_with("controller:")).expect("it has a uuid");
    fs::write(other.join("controller/identity.yaml"), format!("{uuid}\naddress: null\n")).expect("written");
    controller::installation::Installation::open(&other, false).expect("a new CA");
    for name in ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"] {
        fs::copy(other.join("controller").join(name), own.join(name)).expect("it exists");
    }
    scene.ok(&["up"]);
    let output = Host::new(&old).pintle(&["config", "db", "say=stranger"]);
    let address = client_file(&scene.dir)["controller"].as_str().expect("text").to_owned();
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output:?}");
    assert!(output.stderr.starts_with("ERROR ") && output.stderr.contains(&address), "{output:?}");
    assert!(output.stderr.contains("client file"), "the hint: {output:?}");
    // the agents use the CA of their own data folder, and the refused command changed nothing
    scene.ok(&["config", "db", "say=own"]);
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed"]].concat());
}

#[test]
fn a_controller_of_another_ca_is_refused_by_the_agents_which_come_back() {
    let scene = with_a_unit();
    let other = tests::scene::scene();
    let other_client = client_file(&other.dir);
    let machine = folder(&scene, "db/0").parent().and_then(Path::parent).expect("two up").to_path_buf();
    // another controller answers at the configured address
    let known = reconfigure_and_restart(&scene, &machine, |config: &mut AgentConfig| {
        config.controllers = vec![other_client["controller"].as_str().expect("text").to_owned()];
    });
    let words = "is not the expected controller";
    logged_once(&scene, &machine.join("machine.log"), words);
    logged_once(&scene, &folder(&scene, "db/0").join("agent.log"), words);
    scene.ok(&["config", "db", "say=meanwhile"]);
    reconfigure_and_restart(&scene, &machine, |config| config.controllers = known.controllers);
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed"]].concat());
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "5");
}

#[test]
fn a_token_is_refused_for_another_unit() {
    let scene = with_a_unit();
    deploy(&scene, "web", &[]);
    until_ran(&scene, "web/0", &STARTED);
    let client = RawClient::of(&scene);
    let config = |unit| config::read(&folder(&scene, unit)).expect("an agent's folder");
    let (db, web) = (config("db/0"), config("web/0"));
    let machine = config::read(&folder(&scene, "web/0").join("../..")).expect("an agent's folder");
    let pid = scene.agent_pid("web/0");
    let refused = |who: &str, token: Option<&str>, path: &str, body| {
        let (status, answer) = client.post_json(token, path, &body);
        assert_eq!(status, 401, "{who}: {path}: {answer}");
        // one answer for all cases, which does not reveal which entities exist
        let message = "not authorised: this token may not do that";
        assert_eq!(answer["message"], message, "{who}: {path}: {answer}");
    };
    for (route, body) in unit_routes() {
        let path = format!("/v1/models/{}/unit-agents/{}/{route}", web.model, web.uuid);
        refused("another unit", Some(&db.token), &path, body.clone());
        refused("its machine", Some(&machine.token), &path, body.clone());
        refused("nobody", None, &path, body.clone());
        refused("a guess", Some("0123456789abcdef"), &path, body.clone());
    }
    let own = format!("/v1/models/{}", web.model);
    let machines = format!("{own}/machine-agents/{}", machine.uuid);
    let id = serde_json::json!({ "id": web.uuid });
    refused("a unit as machine", Some(&web.token), &format!("{machines}/remove-unit"), id.clone());
    refused("a unit as user", Some(&web.token), &format!("{own}/remove-unit"), serde_json::json!({}));
    // an accepted attach would have fenced the agent, and an accepted release would have ended its leadership
    scene.ok(&["config", "web", "say=still here"]);
    until_ran(&scene, "web/0", &[&STARTED[..], &["config-changed"]].concat());
    assert_eq!(scene.agent_pid("web/0"), pid, "the agent was not disturbed");
}

#[test]
fn an_agent_with_another_units_token_reports_it_and_continues_with_its_own() {
    let scene = with_a_unit();
    deploy(&scene, "web", &[]);
    until_ran(&scene, "web/0", &STARTED);
    let (db, web) = (folder(&scene, "db/0"), folder(&scene, "web/0"));
    let token = config::read(&web).expect("an agent's folder").token;
    let own = reconfigure(&db, |config| config.token = token);
    logged_once(&scene, &db.join("agent.log"), "not authorised: this token may not do that");
    scene.ok(&["config", "db", "say=meanwhile"]);
    scene.ok(&["config", "web", "say=other"]);
    until_ran(&scene, "web/0", &[&STARTED[..], &["config-changed"]].concat());
    reconfigure(&db, |config| config.token = own.token);
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed"]].concat());
    let mode = fs::metadata(db.join("agent.yaml")).expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "5");
}
