//! The initial state: both applications are deployed and related, and every agent waits.

use super::bounds::{Bounds, Violation};
use super::documents::{Documents, MODEL};
use super::steps::{Actor, EPOCH, RELATION, State};
use state::agents::session::{self, Attach};
use state::charm::{Charm, Endpoint, Role, Scope};
use state::documents::draft::{Draft, read};
use state::documents::refusal::Refusal;
use state::lifecycle::creation::Creation;
use state::lifecycle::{application, archive, model, relation};
use state::terms::names::{UnitName, Uuid};
use state::unit::local::{Event, Local};

fn charm(name: &str, endpoint: &str, role: Role) -> Charm {
    let endpoint = Endpoint {
        name: endpoint.to_owned(),
        role,
        interface: "sql".to_owned(),
        scope: Scope::Global,
        limit: None,
        optional: false,
    };
    Charm { name: name.to_owned(), endpoints: [(endpoint.name.clone(), endpoint)].into(), ..Charm::default() }
}

/// Returns the initial state: both applications are deployed and related, and every agent waits.
pub fn start(bounds: &Bounds) -> Result<State, Violation> {
    let mut documents = Documents::default();
    let mut run = |transition: &mut dyn FnMut(&mut Draft) -> Result<(), Refusal>| {
        documents.run(transition).expect("the initial transitions are accepted");
    };
    run(&mut |draft| model::create(draft, MODEL.0, "dev", 1));
    let mut ids = 1000;
    for (name, endpoint, role) in [("web", "db", Role::Requirer), ("db", "server", Role::Provider)] {
        run(&mut |draft| {
            archive::register(draft, name, Some(charm(name, endpoint, role)), 1);
            Ok(())
        });
        let deploy = application::Deploy {
            application: Some(name.into()),
            sha256: name.into(),
            units: bounds.units,
            ..application::Deploy::default()
        };
        run(&mut |draft| {
            let mut fresh = || {
                ids += 1;
                Uuid(ids)
            };
            application::deploy(draft, MODEL, &deploy, Creation { now_ms: 1, ids: &mut fresh }).map(drop)
        });
    }
    run(&mut |draft| relation::add(draft, MODEL, ["web", "db"], RELATION, 1).map(drop));
    let mut agents = Vec::new();
    for name in ["web", "db"].iter().flat_map(|name| (0..bounds.units).map(|n| UnitName::new(name, n))) {
        let unit = read(&documents, &MODEL.unit_name(&name)).expect("it was deployed");
        documents
            .run(|draft| {
                let attach = Attach {
                    nonce: Uuid(9),
                    epoch: 0,
                    store_generation: None,
                    teardown_started: false,
                    boot: String::new(),
                };
                session::attach(draft, MODEL, unit, attach, Uuid(0), false)
            })
            .expect("no other agent has attached");
        let mut local = Local::new(unit, name);
        // the store generation of the views of this model
        local.apply(&Event::Attached {
            store_generation: Uuid(0),
            epoch: EPOCH,
            sequence: 0,
            recovered_bags: Default::default(),
        });
        agents.push((unit, Some(local)));
    }
    documents.run_automatic_transitions();
    let mut state = State { documents, agents, user_requests: bounds.user_requests.clone(), crash: false };
    while let Some((_, following)) = state.steps()?.into_iter().find(|(step, _)| step.actor == Actor::Agent) {
        state = following;
    }
    state.crash = bounds.crash;
    Ok(state)
}
