//! A controller that answers what a test told it to, and writes down what it was asked.

use api::error::{ApiError, ErrorCode};
use api::operator::*;
use serde_json::Value;
use state::cause::Entity;
use state::names::Uuid;
use state::status::ActionStatus;
use state::unit::snapshot::Position;
use std::collections::BTreeMap;
use std::sync::Mutex;

type Answer<T> = Result<T, ApiError>;

#[derive(Default)]
pub struct Fake {
    /// Calls in order, as `verb arguments`.
    pub asked: Mutex<Vec<String>>,
    /// Units that `run` knows.
    pub units: Vec<String>,
    /// What an action ends as; none = it never ends.
    pub task: Option<ActionInfo>,
    /// The controller holds the archive already.
    pub has_archive: bool,
    /// Pages of the log, in order.
    pub pages: Mutex<Vec<LogPage>>,
    /// Statuses, in order; the last one stays. None = the sample.
    pub statuses: Mutex<Vec<Status>>,
    /// After so many looks at its status the model is gone; 0 = it stays.
    pub looks: Mutex<usize>,
    /// What is not found, by unit, entity or task: what `remove_unit`, `why` and `action` say.
    pub refuses: BTreeMap<String, String>,
}

impl Fake {
    fn note(&self, text: String) {
        self.asked.lock().expect("no holder panics").push(text);
    }

    fn known(&self, name: &str) -> Answer<()> {
        let refusal = self.refuses.get(name).map(|text| ApiError::new(ErrorCode::NotFound, text));
        refusal.map_or(Ok(()), Err)
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no holder panics").clone()
    }
}

fn unexpected<T>() -> Answer<T> {
    Err(ApiError::new(ErrorCode::Broken, "no test asks this"))
}

fn changed() -> Changed {
    Changed { revision: 1, warnings: vec![] }
}

impl OperatorApi for Fake {
    async fn about(&self) -> Answer<About> {
        unexpected()
    }
    async fn openapi(&self) -> Answer<Value> {
        unexpected()
    }
    async fn models(&self) -> Answer<Vec<ModelInfo>> {
        Ok(vec![super::sample_model()])
    }
    async fn create_model(&self, _: CreateModel) -> Answer<ModelInfo> {
        unexpected()
    }
    async fn destroy_model(&self, model: &str, force: Force) -> Answer<Changed> {
        self.known(model)?;
        self.note(format!("destroy {model} {force:?}"));
        Ok(changed())
    }
    async fn model_config(&self, _: &str) -> Answer<BTreeMap<String, ModelSetting>> {
        unexpected()
    }
    async fn configure_model(&self, _: &str, _: ConfigChange) -> Answer<Changed> {
        unexpected()
    }
    async fn archive_info(&self, sha256: &str) -> Answer<Option<Uploaded>> {
        let uploaded = Uploaded { sha256: sha256.to_owned(), bytes: 1, charm: Default::default() };
        Ok(self.has_archive.then_some(uploaded))
    }
    async fn upload_archive(&self, archive: Vec<u8>) -> Answer<Uploaded> {
        self.note("upload".to_owned());
        let sha256 = host::digest::sha256(&archive);
        Ok(Uploaded { sha256, bytes: 1, charm: Default::default() })
    }
    async fn deploy(&self, _: &str, deploy: Deploy) -> Answer<Deployed> {
        let Deploy { application, units, to, config, .. } = deploy;
        let application = application.unwrap_or_default();
        self.note(format!("deploy {application} units={units} to={to:?} config={config:?}"));
        Ok(Deployed {
            application,
            charm_url: "local:web-3".to_owned(),
            charm_revision: 3,
            units: vec![],
            revision: 1,
        })
    }
    async fn add_units(&self, _: &str, add: AddUnits) -> Answer<Added> {
        self.note(format!("add {} units={} to={:?}", add.application, add.units, add.to));
        Ok(Added { units: vec![], revision: 1 })
    }
    async fn refresh(&self, _: &str, _: Refresh) -> Answer<Refreshed> {
        unexpected()
    }
    async fn integrate(&self, _: &str, _: Ends) -> Answer<Integrated> {
        unexpected()
    }
    async fn config(&self, _: &str, _: &str) -> Answer<ApplicationConfig> {
        Ok(super::sample_config())
    }
    async fn configure(&self, model: &str, application: &str, change: ConfigChange) -> Answer<Changed> {
        self.note(format!("configure {model} {application} {:?} {:?}", change.set, change.reset));
        Ok(changed())
    }
    async fn status(&self, _: &str) -> Answer<Status> {
        self.note("status".to_owned());
        let mut looks = self.looks.lock().expect("no holder panics");
        match *looks {
            0 => {}
            1 => return Err(ApiError::new(ErrorCode::NotFound, "model \"dev\" not found")),
            _ => *looks -= 1,
        }
        let mut statuses = self.statuses.lock().expect("no holder panics");
        Ok(match &statuses[..] {
            [] => super::sample(),
            [last] => last.clone(),
            _ => statuses.remove(0),
        })
    }
    async fn show_unit(&self, _: &str, _: &str) -> Answer<UnitInfo> {
        Ok(super::sample_unit())
    }
    async fn debug_log(&self, _: &str, query: LogQuery) -> Answer<LogPage> {
        self.note(format!("log after={:?} newest={:?} wait={}", query.after, query.newest, query.wait));
        Ok(self.pages.lock().expect("no holder panics").remove(0))
    }
    async fn why(&self, _: &str, entity: &str) -> Answer<Why> {
        self.known(entity)?;
        let (entity, now) = (Entity::Application(entity.to_owned()), "idle".to_owned());
        Ok(Why { entity, life: Default::default(), now, causes: vec![], more: false })
    }
    async fn resolved(&self, _: &str, _: &str, _: bool) -> Answer<Changed> {
        unexpected()
    }
    async fn run(&self, _: &str, run: Run) -> Answer<Enqueued> {
        self.note(format!("run {} {} {:?}", run.unit, run.action, run.params));
        if !self.units.contains(&run.unit) {
            return Err(ApiError::new(ErrorCode::NotFound, format!("unit {:?} not found", run.unit)));
        }
        if run.action != "post" {
            let text = format!("action {:?} of ledger (not found)", run.action);
            return Err(ApiError::new(ErrorCode::Invalid, text));
        }
        Ok(Enqueued { id: 7, unit: run.unit.parse().expect("a unit"), revision: 1 })
    }
    async fn action(&self, _: &str, id: u64) -> Answer<ActionInfo> {
        self.known(&id.to_string())?;
        match &self.task {
            Some(task) => Ok(task.clone()),
            None => Ok(ActionInfo { status: ActionStatus::Running, ..super::sample_task() }),
        }
    }
    async fn actions(&self, _: &str) -> Answer<Vec<ActionInfo>> {
        Ok(self.task.iter().cloned().collect())
    }
    async fn forecast(&self, _: &str, removed: Vec<Removable>, _: Force) -> Answer<Forecast> {
        self.note(format!("forecast {removed:?}"));
        if let [Removable::Unit(unit)] = &removed[..] {
            self.known(unit)?;
        }
        Ok(Forecast { dying: vec!["unit web/9".to_owned()], ..Forecast::default() })
    }
    async fn remove_unit(&self, _: &str, unit: &str, force: Force) -> Answer<Changed> {
        self.note(format!("remove {unit} force={force:?}"));
        self.known(unit).map(|()| changed())
    }
    async fn remove_application(&self, _: &str, _: &str, _: Force) -> Answer<Changed> {
        unexpected()
    }
    async fn remove_relation(&self, _: &str, _: RelationChoice, _: Force) -> Answer<Changed> {
        unexpected()
    }
    async fn suspend_relation(&self, _: &str, relation: u32, message: &str) -> Answer<Changed> {
        self.note(format!("suspend {relation} {message:?}"));
        Ok(changed())
    }
    async fn resume_relation(&self, _: &str, relation: u32) -> Answer<Changed> {
        self.note(format!("resume {relation}"));
        Ok(changed())
    }
    async fn machines(&self, _: &str) -> Answer<Vec<MachineInfo>> {
        unexpected()
    }
    async fn machine_token(&self, _: &str, _: Uuid, _: &str) -> Answer<()> {
        unexpected()
    }
    async fn add_machines(&self, _: &str, _: AddMachines) -> Answer<AddedMachines> {
        unexpected()
    }
    async fn remove_machine(&self, _: &str, _: &str, _: Force, _: bool) -> Answer<Changed> {
        unexpected()
    }
    async fn retry_provisioning(&self, _: &str, _: &str) -> Answer<Changed> {
        unexpected()
    }
    async fn invite(&self, _: &str, _: &str) -> Answer<Invitation> {
        unexpected()
    }
    async fn provisioned(&self, _: &str, _: Uuid, _: Provisioned) -> Answer<Uuid> {
        unexpected()
    }
    async fn machine_fate(&self, _: &str, _: Uuid) -> Answer<api::machine_agent::Fate> {
        unexpected()
    }
    async fn machine_removed(&self, _: &str, _: Uuid) -> Answer<()> {
        unexpected()
    }
    /// The first call answers at once; then nothing changes any more.
    async fn changes(&self, _: &str, after: Option<Position>) -> Answer<Position> {
        match after {
            None => Ok(Position::default()),
            Some(_) => std::future::pending().await,
        }
    }
}
