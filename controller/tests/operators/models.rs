//! The list of the models.

use crate::support::*;
use api::{ConfigChange, ConfigureModel, CreateModel, Handle, InModel, ListModels};
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
