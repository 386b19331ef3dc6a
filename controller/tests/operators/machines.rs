//! Machines: those that deployments add have different addresses, also across models.

use crate::support::*;
use api::{CreateModel, Deploy, Handle, InModel, ListMachines};
use std::collections::{BTreeMap, BTreeSet};

/// The fixture registers each archive under the name of its charm instead of a digest.
const WEB_ARCHIVE: &str = "web";

#[tokio::test]
async fn machines_of_two_models_share_no_address() {
    let fixture = Fixture::in_memory().await;
    let other = CreateModel { name: "other".to_owned(), ..CreateModel::default() };
    fixture.admin.handle(other).await.expect("the model is created");
    let mut addresses = BTreeSet::new();
    for (application, model) in [("first", "dev"), ("second", "other"), ("third", "dev")] {
        let deploy = Deploy {
            application: Some(application.to_owned()),
            sha256: WEB_ARCHIVE.to_owned(),
            units: 2,
            to: None,
            config: BTreeMap::new(),
            ..Deploy::default()
        };
        let admin = fixture.admin.in_model(model);
        admin.handle(deploy).await.expect("the application is deployed");
        let machines = admin.handle(ListMachines).await.expect("machines are listed");
        addresses.extend(machines.into_iter().map(|machine| machine.address));
    }
    assert_eq!(addresses.len(), 6, "{addresses:?}");
}
