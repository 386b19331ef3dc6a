//! Handlers of units: add, show, mark as resolved, and remove.
//!
//! A request that adds more units than fit into one transaction is committed in batches, in the order of the units'
//! numbers. If it fails in between, or the controller ends, the batches before stay: whole units that run. A request
//! that is repeated adds further units.

use crate::environment::{Environment, Uuids};
use crate::handlers::changed;
use crate::handlers::removal::force_request;
use crate::lookup::find_unit;
use crate::session::Authorised;
use crate::status;
use crate::store::Store;
use api::error::ApiError;
use api::{
    AddUnits, AddUnitsResponse, Handle, RemoveUnit, ResolvedRequest, ShowUnit, UnitInfo, WriteResponse,
};
use state::documents::draft::Draft;
use state::documents::prelude::Model;
use state::documents::refusal::Refusal;
use state::lifecycle::creation::{self, Creation};
use state::lifecycle::{application, unit};
use state::operations::force;
use state::terms::names::{UnitName, Uuid};
use state::terms::refusal::unit::UnitRefusal;
use state::terms::refusal::{AddedKind, EntityKind};

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Adds units in as few transactions as possible; the first one on machine `to`.
    pub(super) async fn add_units(
        &self,
        model: Model,
        application: Uuid,
        count: u32,
        to: Option<String>,
    ) -> Result<AddUnitsResponse, ApiError> {
        let (mut added, mut to) = (AddUnitsResponse { units: Vec::new(), revision: 0 }, to);
        while added.units.len() < count as usize {
            let remaining = count - added.units.len() as u32;
            let (now_ms, ids, to) =
                (self.controller.environment.wall_ms(), Uuids::new(&self.controller.environment), to.take());
            let transition = move |draft: &mut Draft<'_>| {
                let creation = Creation { now_ms, ids: &mut ids.generator() };
                unit::add_batch(draft, model, application, remaining, to.as_deref(), creation)
            };
            let committed = self.controller.run(transition).await?;
            added.units.extend(committed.answer.into_iter().map(|(_, name)| name));
            added.revision = committed.revision;
        }
        Ok(added)
    }
}

impl<S: Store, E: Environment> Handle<AddUnits> for Authorised<S, E> {
    async fn handle(&self, add: AddUnits) -> Result<AddUnitsResponse, ApiError> {
        let (name, count) = (add.application, add.units);
        let found = self.view(move |reader, model| {
            creation::require_count(count, AddedKind::Units)?;
            let mut documents = reader;
            Ok((model, application::find(&mut documents, model, &name)?))
        });
        let (model, application) = found.await?;
        self.add_units(model, application, count, add.to).await
    }
}

impl<S: Store, E: Environment> Handle<ShowUnit> for Authorised<S, E> {
    async fn handle(&self, show: ShowUnit) -> Result<UnitInfo, ApiError> {
        let shown = self.view(move |reader, model| {
            let (id, _) = find_unit(reader, model, &show.unit)?;
            status::unit_info(reader, model, id).ok_or_else(|| Refusal::not_found(EntityKind::Unit, id))
        });
        shown.await
    }
}

impl<S: Store, E: Environment> Handle<ResolvedRequest> for Authorised<S, E> {
    async fn handle(&self, resolve: ResolvedRequest) -> Result<WriteResponse, ApiError> {
        let ResolvedRequest { unit: name, retry } = resolve;
        let found = self.view(move |reader, model| Ok((model, find_unit(reader, model, &name)?.0)));
        let (model, id) = found.await?;
        let transition = move |draft: &mut Draft<'_>| unit::resolved(draft, model, id, retry);
        Ok(changed(self.controller.run(transition).await?.revision))
    }
}

impl<S: Store, E: Environment> Handle<RemoveUnit> for Authorised<S, E> {
    async fn handle(&self, removal: RemoveUnit) -> Result<WriteResponse, ApiError> {
        let (model, text) = (self.model().await?, removal.unit);
        let now_ms = self.controller.environment.wall_ms();
        let force = force_request(removal.force, now_ms);
        let transition = move |draft: &mut Draft<'_>| {
            let name: UnitName = text.parse().map_err(|_| UnitRefusal::InvalidName { text: text.clone() })?;
            let id = unit::find(draft, model, &name)?;
            match force {
                Some(force) => force::unit(draft, model, id, force).map(drop),
                None => unit::destroy(draft, model, id, now_ms).map(drop),
            }
        };
        self.remove(model, transition, force).await
    }
}
