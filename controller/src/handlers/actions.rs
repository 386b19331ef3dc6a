//! Handlers of actions: they enqueue actions and read their state. The unit agents run them.

use crate::environment::Environment;
use crate::lookup::find_unit;
use crate::session::Authorised;
use crate::store::Store;
use api::error::ApiError;
use api::text::refusal;
use api::{
    ActionInfo, CancelAction, CancelActionResponse, EnqueueAction, EnqueueActionResponse, EnqueueExec,
    GetAction, Handle, ListActions,
};
use serde_json::Value;
use state::documents::draft::{Draft, read, read_all};
use state::documents::prelude::{ActionDoc, Kind};
use state::documents::refusal::Refusal;
use state::operations::action;
use state::terms::refusal::EntityKind;
use std::collections::BTreeMap;

fn action_info(mut doc: ActionDoc) -> ActionInfo {
    if let Some(refusal) = &doc.refusal {
        // as Juju shows it: an error that the action printed
        let printed = doc.results.get("stderr").and_then(Value::as_str).unwrap_or_default();
        let stderr = format!("{printed}ERROR {}\n", refusal::message(refusal));
        doc.results.insert("stderr".to_owned(), stderr.into());
    }
    ActionInfo {
        id: doc.id,
        unit: doc.unit_name,
        action: doc.name,
        status: doc.status,
        message: doc.message,
        results: doc.results,
        log: doc.log,
        enqueued_ms: doc.enqueued_ms,
        started_ms: doc.started_ms,
        completed_ms: doc.completed_ms,
    }
}

impl<S: Store, E: Environment> Handle<EnqueueAction> for Authorised<S, E> {
    async fn handle(&self, run: EnqueueAction) -> Result<EnqueueActionResponse, ApiError> {
        let name = run.unit;
        let found = self.view(move |reader, model| Ok((model, find_unit(reader, model, &name)?)));
        let (model, (id, unit)) = found.await?;
        let (now_ms, params) = (self.controller.environment.wall_ms(), run.params.into_iter().collect());
        let transition =
            move |draft: &mut Draft<'_>| action::enqueue(draft, model, id, &run.action, &params, now_ms);
        let committed = self.controller.run(transition).await?;
        Ok(EnqueueActionResponse { id: committed.answer, unit, revision: committed.revision })
    }
}

impl<S: Store, E: Environment> Handle<EnqueueExec> for Authorised<S, E> {
    async fn handle(&self, exec: EnqueueExec) -> Result<EnqueueActionResponse, ApiError> {
        let name = exec.unit;
        let found = self.view(move |reader, model| Ok((model, find_unit(reader, model, &name)?)));
        let (model, (id, unit)) = found.await?;
        let now_ms = self.controller.environment.wall_ms();
        let transition =
            move |draft: &mut Draft<'_>| action::enqueue_exec(draft, model, id, &exec.commands, now_ms);
        let committed = self.controller.run(transition).await?;
        Ok(EnqueueActionResponse { id: committed.answer, unit, revision: committed.revision })
    }
}

impl<S: Store, E: Environment> Handle<CancelAction> for Authorised<S, E> {
    async fn handle(&self, CancelAction { id }: CancelAction) -> Result<CancelActionResponse, ApiError> {
        let (model, now_ms) = (self.model().await?, self.controller.environment.wall_ms());
        let committed = self
            .controller
            .run(move |draft: &mut Draft<'_>| action::cancel(draft, model, id, now_ms))
            .await?;
        Ok(CancelActionResponse { action: action_info(committed.answer), revision: committed.revision })
    }
}

impl<S: Store, E: Environment> Handle<GetAction> for Authorised<S, E> {
    async fn handle(&self, GetAction { id }: GetAction) -> Result<ActionInfo, ApiError> {
        let action = self.view(move |reader, model| {
            let doc =
                read(reader, &model.action(id)).ok_or_else(|| Refusal::not_found(EntityKind::Task, id))?;
            Ok(action_info(doc))
        });
        action.await
    }
}

impl<S: Store, E: Environment> Handle<ListActions> for Authorised<S, E> {
    async fn handle(&self, _: ListActions) -> Result<Vec<ActionInfo>, ApiError> {
        let all = self.view(|reader, model| {
            let all = read_all::<ActionDoc>(reader, &model.prefix(Kind::Action)).into_iter();
            Ok(all
                .map(|(_, doc)| ActionInfo { results: BTreeMap::new(), log: Vec::new(), ..action_info(doc) })
                .collect())
        });
        all.await
    }
}
