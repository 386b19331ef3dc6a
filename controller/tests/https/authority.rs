//! Authorisation: every principal sends every request; and tokens.

use crate::fixture::TestServer;
use crate::support::Agent;
use api::client::Client;
use api::error::ErrorCode;
use api::request::{Caller, Method, Route};
use api::{Attach, Claim, Handle, all_requests};
use controller::host_environment::HostEnvironment;
use controller::{Environment, authorisation, tokens};
use state::documents::prelude::{TokenHolder, UserRole};
use state::terms::names::Uuid;

#[tokio::test]
async fn every_request_is_allowed_for_exactly_its_callers() {
    let served = TestServer::new().await;
    let fixture = &served.fixture;
    fixture.deploy("web", 2).await;
    let (own, other) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let machine = fixture.machine_of_unit(own).await;
    let machine_token = fixture.token(machine, TokenHolder::Machine { model: fixture.model, machine }).await;
    let elsewhere = fixture.machine_of_unit(other).await;
    let elsewhere =
        fixture.token(elsewhere, TokenHolder::Machine { model: fixture.model, machine: elsewhere }).await;
    let enrolling = TokenHolder::EnrollingMachine { model: fixture.model, machine, expires_ms: i64::MAX };
    let enrolling = fixture.token(Uuid(99), enrolling).await;
    let removed = TokenHolder::RemovedMachine { model: fixture.model, machine };
    let removed = fixture.token(Uuid(98), removed).await;
    let principals = [
        ("nobody", None),
        ("unknown", Some("0".repeat(64))),
        ("reader", Some(served.user_token(11, UserRole::Read).await)),
        ("writer", Some(served.user_token(12, UserRole::Write).await)),
        ("admin", Some(served.user_token(13, UserRole::Admin).await)),
        ("unit", Some(served.unit_token(own).await)),
        ("other unit", Some(served.unit_token(other).await)),
        ("machine", Some(machine_token)),
        ("other machine", Some(elsewhere)),
        ("enrolling machine", Some(enrolling)),
        ("removed machine", Some(removed)),
    ];
    // The reviewed list of requests that only admins may send (spec/security.md S15).
    let admins = [
        "CreateModel",
        "DestroyModel",
        "ConfigureModelDefaults",
        "EnqueueExec",
        "EnqueueMachineExec",
        "RevealSecret",
        "CreateEnrolmentToken",
        "SetFakeSettings",
        "AdvanceClock",
        "AddSshKeys",
        "RemoveSshKeys",
        "ReportInstance",
        "GetMachineExistence",
        "SetMachineToken",
        "ReportMachineAgentExits",
        "RemoveDeadMachine",
    ];
    let declared = all_requests::all().into_iter().filter(|entry| entry.caller == Caller::Admin);
    assert_eq!(declared.map(|entry| entry.name).collect::<Vec<_>>(), admins);
    for entry in &all_requests::all() {
        let (name, route) = (entry.name, entry.route);
        let of_a_unit = route.path.contains("/unit-agents/");
        assert_eq!(of_a_unit, entry.caller == Caller::UnitAgent, "{name}");
        let agent = if route.path.contains("/machine-agents/") { machine } else { own };
        let path = path(route, &fixture.model.0.to_string(), &agent.to_string());
        for (who, token) in &principals {
            let may = match entry.caller {
                Caller::UnitAgent => *who == "unit",
                Caller::MachineAgent => *who == "machine",
                Caller::UninstallingMachineAgent => ["machine", "removed machine"].contains(who),
                Caller::Enrolment => *who == "enrolling machine",
                Caller::Reader => ["reader", "writer", "admin"].contains(who),
                Caller::Writer => ["writer", "admin"].contains(who),
                Caller::Admin => *who == "admin",
            };
            // A body that is invalid for every route: authorised callers get that error, and nothing is changed.
            let (method, body) = match route.method {
                Method::Get => ("GET", ""),
                Method::Post => ("POST", "{"),
            };
            let (status, answer) = served.send_request(method, &path, token.as_deref(), body).await;
            // The agent of a removed machine receives only the error that its machine was removed.
            let is_refused = status == 401 || *who == "removed machine" && status == 410;
            assert_eq!(!is_refused, may, "{who} {method} {path}: {answer}");
        }
    }
    // Another unit, an unknown unit, another model, an unknown route: unauthorised callers get the same bytes.
    let token = served.unit_token(own).await;
    let attach = |model: Uuid, unit: Uuid| format!("/v1/models/{model}/unit-agents/{unit}/attach");
    let forbidden = served.send_request("POST", &attach(fixture.model.0, other), Some(&token), "{}").await;
    assert_eq!(forbidden.0, 401);
    let body = |answer: &str| {
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
        assert_ne!(body, "");
        body
    };
    for path in
        [attach(fixture.model.0, Uuid(404)), attach(Uuid(404), own), "/v1/models/dev/machine-token".into()]
    {
        let answer = served.send_request("POST", &path, Some(&token), "{}").await;
        assert_eq!((answer.0, body(&answer.1)), (401, body(&forbidden.1)), "{path}");
    }
    assert_eq!(served.send_request("GET", "/v1/nothing", None, "").await.0, 401);
}

fn path(route: Route, model: &str, agent: &str) -> String {
    route.path.replace("{model}", model).replace("{agent}", agent)
}

#[tokio::test]
async fn a_request_with_the_token_of_another_unit_is_refused_with_a_hint() {
    let served = TestServer::new().await;
    served.fixture.deploy("web", 2).await;
    let (own, other) = (served.fixture.unit("web/0").await, served.fixture.unit("web/1").await);
    let token = served.unit_token(other).await;
    let mistaken =
        Client::agent(&served.controller(&token), served.fixture.model.0, own).expect("a good file");
    let error = mistaken
        .handle(Attach {
            nonce: Uuid(1),
            epoch: 0,
            store_generation: None,
            teardown_started: false,
            boot: String::new(),
        })
        .await
        .expect_err("not its own");
    assert_eq!(error, authorisation::unauthorised());
    let web = Agent::attach(served.unit("web/0").await, 1).await;
    assert_eq!(web.epoch, 1, "nothing had happened to it");
    let claim =
        mistaken.handle(Claim { epoch: 1, release: false, view: None }).await.expect_err("not its own");
    assert_eq!(claim.code, ErrorCode::Unauthorised);
}

#[test]
fn random_tokens_are_valid_and_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = HostEnvironment::new(folder.path().join("archives")).expect("a folder");
    let (a, b) = (tokens::random_token(&host), tokens::random_token(&host));
    assert!(tokens::is_token(&a) && tokens::is_token(&b) && a != b);
    assert!(host.monotonic_ms() < 60_000, "it counts from its own start");
}
