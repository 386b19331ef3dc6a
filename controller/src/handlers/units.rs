//! Handlers of units: add, show, mark as resolved, and remove.
//!
//! A request that adds more units than fit into one transaction is committed in batches, several of them with one sync.
//! If it fails in between, or the controller stops, the units of the committed batches remain. A request that is
//! repeated adds further units.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::lookup::find_unit;
use crate::status;
use crate::store::Store;
use api::error::ApiError;
use api::{
    AddUnits, Handle, RemoveUnit, ResolveUnit, ResolvedRun, ShowUnit, UnitInfo, WriteResponse, WriteWarning,
};
use futures::future::join_all;
use state::documents::draft::Draft;
use state::documents::prelude::Model;
use state::documents::refusal::Refusal;
use state::lifecycle::creation::{self, Creation};
use state::lifecycle::unit::Placement;
use state::lifecycle::{application, unit};
use state::status::charm_revision::resolved_run;
use state::terms::names::{UnitName, Uuid};
use state::terms::position::Committed;
use state::terms::refusal::{AddedKind, EntityKind};
use state::transitions::requested_removal::{self, RemovalOptions};

/// Batches of one request that wait for the writer at the same time, so that other requests wait for one commit of 177 units
/// at most.
const BATCHES_AT_ONCE: usize = 3;

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Adds units in as few transactions as possible; the first unit on machine `to`.
    pub(super) async fn add_units(
        &self,
        model: Model,
        application: Uuid,
        count: u32,
        mut to: Option<String>,
    ) -> Result<Committed<Vec<UnitName>>, ApiError> {
        let mut added = Committed { answer: Vec::new(), revision: 0 };
        while added.answer.len() < count as usize {
            let missing = count - added.answer.len() as u32;
            let batches = (0..missing.div_ceil(unit::ADDED_PER_TRANSACTION)).take(BATCHES_AT_ONCE);
            let batches = batches.map(|batch| {
                let remaining = missing - batch * unit::ADDED_PER_TRANSACTION;
                self.add_batch(model, application, remaining.min(unit::ADDED_PER_TRANSACTION), to.take())
            });
            for committed in join_all(batches).await {
                let Committed { answer, revision } = committed?;
                added.answer.extend(answer);
                added.revision = added.revision.max(revision);
            }
        }
        added.answer.sort();
        Ok(added)
    }

    async fn add_batch(
        &self,
        model: Model,
        application: Uuid,
        count: u32,
        to: Option<String>,
    ) -> Result<Committed<Vec<UnitName>>, ApiError> {
        let transition = move |draft: &mut Draft<'_>, creation: Creation<'_>| {
            let added = unit::add_batch(draft, model, application, count, to.as_deref(), creation)?;
            Ok(added.into_iter().map(|(_, name)| name).collect())
        };
        self.create(transition).await
    }
}

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Adds one unit with existing storage.
    async fn add_unit_with_storage(
        &self,
        model: Model,
        application: Uuid,
        add: AddUnits,
    ) -> Result<Committed<Vec<UnitName>>, ApiError> {
        let transition = move |draft: &mut Draft<'_>, creation: Creation<'_>| {
            let placement = Placement { to: add.to.as_deref(), attach: &add.attach_storage };
            let added = unit::add_with_storage(draft, model, application, add.units, placement, creation)?;
            Ok(vec![added.1])
        };
        self.create(transition).await
    }
}

impl<S: Store, E: Environment> Handle<AddUnits> for Authorised<S, E> {
    async fn handle(&self, add: AddUnits) -> Result<Committed<Vec<UnitName>>, ApiError> {
        let (name, count) = (add.application.clone(), add.units);
        let found = self.read(move |reader, model| {
            creation::require_count(count, AddedKind::Units)?;
            let mut documents = reader;
            Ok((model, application::find(&mut documents, model, &name)?))
        });
        let (model, application) = found.await?;
        if !add.attach_storage.is_empty() {
            return self.add_unit_with_storage(model, application, add).await;
        }
        self.add_units(model, application, count, add.to).await
    }
}

impl<S: Store, E: Environment> Handle<ShowUnit> for Authorised<S, E> {
    async fn handle(&self, show: ShowUnit) -> Result<UnitInfo, ApiError> {
        let shown = self.read(move |reader, model| {
            let (id, _) = find_unit(reader, model, &show.unit)?;
            status::unit_info(reader, model, id).ok_or_else(|| Refusal::not_found(EntityKind::Unit, id))
        });
        shown.await
    }
}

impl<S: Store, E: Environment> Handle<ResolveUnit> for Authorised<S, E> {
    async fn handle(&self, resolve: ResolveUnit) -> Result<Committed<Option<ResolvedRun>>, ApiError> {
        let ResolveUnit { unit: name, retry } = resolve;
        let found = self.read(move |reader, model| Ok((model, find_unit(reader, model, &name)?.0)));
        let (model, id) = found.await?;
        let transition = move |draft: &mut Draft<'_>| unit::resolved(draft, model, id, retry);
        let revision = self.controller.run(transition).await?.revision;
        let answer = self.controller.read(move |reader| resolved_run(reader, model, id)).await;
        Ok(Committed { answer, revision })
    }
}

impl<S: Store, E: Environment> Handle<RemoveUnit> for Authorised<S, E> {
    async fn handle(&self, removal: RemoveUnit) -> Result<WriteResponse, ApiError> {
        let RemoveUnit { unit: name, force, destroy_storage } = removal;
        let model = self.model().await?;
        let now_ms = self.controller.environment.wall_ms();
        let options = RemovalOptions { force, destroy_storage };
        let of = name.clone();
        let kept = self.controller.read(move |reader| {
            let id = unit::find(&mut { reader }, model, &of).ok().filter(|_| !destroy_storage)?;
            requested_removal::storage_kept_after(reader, model, id)
        });
        let kept = kept.await.map(|(storage, machine)| WriteWarning::StorageKept { storage, machine });
        let transition = move |draft: &mut Draft<'_>| {
            let id = unit::find(draft, model, &name)?;
            requested_removal::remove_unit(draft, model, id, options, now_ms)
        };
        let removed = self.remove(model, transition, force).await?;
        Ok(WriteResponse { warnings: Vec::from_iter(kept), ..removed })
    }
}
