//! One operator: sends requests over the simulated network, and chooses the entities at random.

use crate::sim::identities::{MODEL, admin};
use crate::sim::network::{SimCaller, SimNetwork};
use crate::sim::world::World;
use api::error::ApiError;
use api::{EntityChoice, GetWhy, Handle, InModel, ResolveUnit, Why};
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{Kind, Model, UnitDoc};
use state::terms::names::UnitName;
use std::future::Future;

/// The names of applications.
const APPLICATIONS: [&str; 4] = ["db", "web", "cache", "mon"];
/// One operator.
#[derive(Clone)]
pub struct SimOperator {
    pub world: World,
    pub network: SimNetwork,
    pub model: String,
}

impl SimOperator {
    /// Sends a request to the controller over the simulated network. `None`: refused, or no response.
    pub(super) async fn request<T, F>(&self, call: impl Fn(SimCaller) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        self.network.request(|caller| call(caller.in_model(&self.model)), admin()).await?.ok()
    }

    pub(super) fn name(&self) -> &'static str {
        let count = if self.world.profile().subordinate > 0 { 4 } else { 3 };
        APPLICATIONS[self.world.below(count) as usize]
    }

    pub(super) async fn random_unit(&self) -> Option<String> {
        let units = self.units().await;
        units.get(self.world.below(units.len() as u64) as usize).map(UnitName::to_string)
    }

    pub(super) fn trace(&self, what: String) {
        self.world.trace(|| format!("operator: {what}"));
    }

    /// The names of all units, without the cost of a status, which computes the next step of every agent.
    pub(super) async fn units(&self) -> Vec<UnitName> {
        let call = |caller: SimCaller| async move {
            let units = |reader: &dyn Reader| read_all::<UnitDoc>(reader, &Model(MODEL).prefix(Kind::Unit));
            Ok(caller.controller.read(units).await)
        };
        let units = self.request(call).await.unwrap_or_default();
        let mut names: Vec<UnitName> = units.into_iter().map(|(_, unit)| unit.name).collect();
        names.sort();
        names
    }

    pub async fn resolve_unit(&self, unit: &UnitName) {
        let retry = self.world.chance_of(500);
        let call = |caller: SimCaller| {
            let unit = unit.to_string();
            async move { caller.handle(ResolveUnit { unit: unit.parse().expect("a unit"), retry }).await }
        };
        if self.request(call).await.is_some() {
            self.trace(format!("resolved {unit}, retry {retry}"));
        }
    }

    pub async fn why(&self, entity: EntityChoice) -> Option<Why> {
        self.request(|caller: SimCaller| {
            let entity = entity.clone();
            async move { caller.handle(GetWhy { entity }).await }
        })
        .await
    }
}
