//! The list of the models, and the statuses that a model and its machines have had.

use crate::support::*;
use api::error::ErrorCode;
use api::{
    AddMachines, ConfigChange, ConfigureModel, CreateModel, DestroyModel, Force, GetStatusLog, Handle,
    InModel, ListModels, SubjectStatus,
};
use state::terms::status::{InstanceStatus, MachineAgentStatus, ModelState};
use std::collections::BTreeMap;

#[tokio::test]
async fn the_list_shows_in_which_models_charms_are_developed() {
    let fixture = Fixture::in_memory().await;
    let config = BTreeMap::from([("development".to_owned(), "true".to_owned())]);
    let create = CreateModel { name: "later".to_owned(), config };
    assert!(fixture.admin.handle(create).await.expect("the model is created").development);
    let developed = async || {
        let models = fixture.admin.handle(ListModels).await.expect("models are listed");
        models.into_iter().filter(|model| model.development).map(|model| model.name).collect::<Vec<_>>()
    };
    assert_eq!(developed().await, ["later"]);
    let change = ConfigChange { reset: vec!["development".to_owned()], ..ConfigChange::default() };
    fixture.admin.in_model("later").handle(ConfigureModel { change }).await.expect("it is reset");
    assert_eq!(developed().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_statuses_that_a_model_and_its_machines_have_had_are_shown() {
    let fixture = Fixture::in_memory().await;
    let log = async |get: GetStatusLog| {
        let log = fixture.admin.handle(get).await?;
        Ok::<_, api::error::ApiError>(log.changes.into_iter().map(|change| change.status).collect::<Vec<_>>())
    };
    let available = SubjectStatus::Model(ModelState::Available);
    assert_eq!(log(GetStatusLog::Model).await, Ok(vec![available]));
    let add = AddMachines { count: 1, manual: false, ..AddMachines::default() };
    fixture.admin.handle(add).await.expect("the model is Alive");
    let pending = [
        SubjectStatus::MachineAgent(MachineAgentStatus::Pending),
        SubjectStatus::Instance(InstanceStatus::Pending),
    ];
    assert_eq!(log(GetStatusLog::Machine("0".to_owned())).await, Ok(pending.to_vec()));
    let unknown = log(GetStatusLog::Machine("99".to_owned())).await;
    assert_eq!(unknown.map_err(|error| error.code), Err(ErrorCode::NotFound));
    fixture.admin.handle(DestroyModel { force: Force::No }).await.expect("it is Alive");
    let destroying = SubjectStatus::Model(ModelState::Destroying);
    assert_eq!(log(GetStatusLog::Model).await, Ok(vec![available, destroying]));
}
