//! Handlers of actions and of commands (`exec`): they enqueue and cancel them, read their state, and list what a charm
//! declares. The unit agents run them, and end the processes of cancelled ones.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::lookup::find_unit;
use crate::store::Store;
use api::error::ApiError;
use api::{
    CancelAction, EnqueueAction, EnqueueExec, EnqueueMachineExec, GetAction, GetDeclaredActions, Handle,
    ListActions,
};
use state::charm::Action;
use state::documents::draft::{Draft, read, read_all};
use state::documents::prelude::{ActionDoc, Kind, Model};
use state::documents::refusal::Refusal;
use state::lifecycle::{action, application, machine};
use state::terms::position::Committed;
use state::terms::refusal::EntityKind;
use std::collections::BTreeMap;

/// What users receive of an action: all but its parameters.
fn without_params(doc: ActionDoc) -> ActionDoc {
    ActionDoc { params: BTreeMap::new(), ..doc }
}

/// The task, as one of the operation if there is one.
fn in_operation(
    draft: &mut Draft<'_>,
    model: Model,
    task: ActionDoc,
    operation: Option<u64>,
) -> Result<ActionDoc, Refusal> {
    match operation {
        Some(operation) => action::add_to_operation(draft, model, task, operation),
        None => Ok(task),
    }
}

impl<S: Store, E: Environment> Handle<EnqueueAction> for Authorised<S, E> {
    async fn handle(&self, run: EnqueueAction) -> Result<Committed<ActionDoc>, ApiError> {
        let name = run.unit;
        let found = self.read(move |reader, model| Ok((model, find_unit(reader, model, &name)?)));
        let (model, (id, _)) = found.await?;
        let (now_ms, params) = (self.controller.environment.wall_ms(), run.params.into_iter().collect());
        let transition = move |draft: &mut Draft<'_>| {
            let enqueued = action::enqueue(draft, model, id, &run.action, &params, now_ms)?;
            in_operation(draft, model, enqueued, run.operation)
        };
        Ok(self.controller.run(transition).await?.map(without_params))
    }
}

impl<S: Store, E: Environment> Handle<EnqueueExec> for Authorised<S, E> {
    async fn handle(&self, exec: EnqueueExec) -> Result<Committed<ActionDoc>, ApiError> {
        let name = exec.unit;
        let found = self.read(move |reader, model| Ok((model, find_unit(reader, model, &name)?)));
        let (model, (id, _)) = found.await?;
        let now_ms = self.controller.environment.wall_ms();
        let transition = move |draft: &mut Draft<'_>| {
            let enqueued = action::enqueue_exec(draft, model, id, &exec.commands, now_ms)?;
            in_operation(draft, model, enqueued, exec.operation)
        };
        Ok(self.controller.run(transition).await?.map(without_params))
    }
}

impl<S: Store, E: Environment> Handle<EnqueueMachineExec> for Authorised<S, E> {
    async fn handle(&self, exec: EnqueueMachineExec) -> Result<Committed<ActionDoc>, ApiError> {
        let (model, now_ms) = (self.model().await?, self.controller.environment.wall_ms());
        let transition = move |draft: &mut Draft<'_>| {
            let on = machine::find(draft, model, &exec.machine)?;
            let enqueued = action::enqueue_machine_exec(draft, model, on, &exec.commands, now_ms)?;
            in_operation(draft, model, enqueued, exec.operation)
        };
        Ok(self.controller.run(transition).await?.map(without_params))
    }
}

impl<S: Store, E: Environment> Handle<CancelAction> for Authorised<S, E> {
    async fn handle(&self, CancelAction { id }: CancelAction) -> Result<Committed<ActionDoc>, ApiError> {
        let (model, now_ms) = (self.model().await?, self.controller.environment.wall_ms());
        let transition = move |draft: &mut Draft<'_>| action::cancel(draft, model, id, now_ms);
        Ok(self.controller.run(transition).await?.map(without_params))
    }
}

impl<S: Store, E: Environment> Handle<GetAction> for Authorised<S, E> {
    async fn handle(&self, GetAction { id }: GetAction) -> Result<ActionDoc, ApiError> {
        let action = self.read(move |reader, model| {
            let doc =
                read(reader, &model.action(id)).ok_or_else(|| Refusal::not_found(EntityKind::Task, id))?;
            Ok(without_params(doc))
        });
        action.await
    }
}

impl<S: Store, E: Environment> Handle<ListActions> for Authorised<S, E> {
    async fn handle(&self, _: ListActions) -> Result<Vec<ActionDoc>, ApiError> {
        let all = self.read(|reader, model| {
            let all = read_all::<ActionDoc>(reader, &model.prefix(Kind::Action)).into_iter();
            Ok(all
                .map(|(_, doc)| ActionDoc {
                    results: BTreeMap::new(),
                    process: None,
                    log: Vec::new(),
                    ..without_params(doc)
                })
                .collect())
        });
        all.await
    }
}

impl<S: Store, E: Environment> Handle<GetDeclaredActions> for Authorised<S, E> {
    async fn handle(&self, get: GetDeclaredActions) -> Result<BTreeMap<String, Action>, ApiError> {
        let declared = self.read(move |reader, model| {
            let mut documents = reader;
            let id = application::find(&mut documents, model, &get.application)?;
            let (_, charm) = application::charm_of(&mut documents, model, id)
                .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, &get.application))?;
            Ok(charm.actions.clone())
        });
        declared.await
    }
}
