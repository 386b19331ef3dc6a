//! Handlers of machines for users: add, remove, retry provisioning, and create enrolment tokens.

use crate::callers::Authorised;
use crate::environment::{self, Environment};
use crate::store::Store;
use crate::tokens;
use api::error::ApiError;
use api::{
    AddMachines, CreateEnrolmentToken, EnrolmentToken, Handle, RemoveMachine, RetryProvisioning,
    WriteResponse,
};
use state::documents::draft::Draft;
use state::lifecycle::creation;
use state::lifecycle::machine::{self, MachineRequest};
use state::terms::position::Committed;
use state::terms::refusal::AddedKind;
use state::transitions::instance;
use state::transitions::requested_removal::{self, MachineRemovalOptions};

impl<S: Store, E: Environment> Handle<AddMachines> for Authorised<S, E> {
    async fn handle(&self, add: AddMachines) -> Result<Committed<Vec<String>>, ApiError> {
        let AddMachines { count, manual, base, constraints } = add;
        let request = MachineRequest { manual, base, constraints };
        let model = self
            .read(move |_, model| creation::require_count(count, AddedKind::Machines).map(|()| model))
            .await?;
        let mut added = Committed { answer: Vec::new(), revision: 0 };
        for _ in 0..count {
            let id = environment::random_uuid(&self.controller.environment);
            let now_ms = self.controller.environment.wall_ms();
            let request = request.clone();
            let transition = move |draft: &mut Draft<'_>| {
                machine::add_requested(draft, model, id, request.clone(), now_ms)
            };
            let committed = self.controller.run(transition).await?;
            added.answer.push(committed.answer);
            added.revision = committed.revision;
        }
        Ok(added)
    }
}

impl<S: Store, E: Environment> Handle<RemoveMachine> for Authorised<S, E> {
    async fn handle(&self, removal: RemoveMachine) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let RemoveMachine { machine: name, force, keep_instance } = removal;
        let now_ms = self.controller.environment.wall_ms();
        let options = MachineRemovalOptions { force, keep_instance };
        let transition = move |draft: &mut Draft<'_>| {
            let id = machine::find(draft, model, &name)?;
            requested_removal::remove_machine(draft, model, id, options, now_ms)
        };
        self.remove(model, transition, force).await
    }
}

impl<S: Store, E: Environment> Handle<RetryProvisioning> for Authorised<S, E> {
    async fn handle(&self, retry: RetryProvisioning) -> Result<WriteResponse, ApiError> {
        let name = retry.machine;
        self.change(move |draft, model| {
            let id = machine::find(draft, model, &name)?;
            instance::retry_now(draft, model, id)
        })
        .await
    }
}

impl<S: Store, E: Environment> Handle<CreateEnrolmentToken> for Authorised<S, E> {
    async fn handle(&self, create: CreateEnrolmentToken) -> Result<EnrolmentToken, ApiError> {
        let (model, name) = (self.model().await?, create.machine);
        let text = name.clone();
        let token = tokens::random_token(&self.controller.environment);
        let expires_ms = self.controller.environment.wall_ms() + instance::ENROLMENT_MS;
        let sha256 = host::digest::sha256(token.as_bytes());
        let transition = move |draft: &mut Draft<'_>| {
            let id = machine::find(draft, model, &text)?;
            instance::issue_enrolment_token(draft, model, id, &sha256, expires_ms)?;
            Ok(id)
        };
        let machine = self.controller.run(transition).await?.answer;
        Ok(EnrolmentToken { machine, name, model: model.0, token, expires_ms })
    }
}
