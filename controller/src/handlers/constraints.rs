//! The handlers of the constraints of machines.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use api::{ConstraintsInfo, GetConstraints, Handle, SetConstraints, WriteResponse};
use state::documents::draft::read;
use state::lifecycle::constraints;

impl<S: Store, E: Environment> Handle<GetConstraints> for Authorised<S, E> {
    async fn handle(&self, get: GetConstraints) -> Result<ConstraintsInfo, ApiError> {
        let found = self.read(move |reader, model| {
            let owner = constraints::find_constrained(&mut { reader }, model, get.application.as_deref())?;
            Ok(ConstraintsInfo { constraints: read(reader, &model.constraints(owner)).unwrap_or_default() })
        });
        found.await
    }
}

impl<S: Store, E: Environment> Handle<SetConstraints> for Authorised<S, E> {
    async fn handle(&self, set: SetConstraints) -> Result<WriteResponse, ApiError> {
        self.change(move |draft, model| {
            constraints::set(draft, model, set.application.as_deref(), &set.constraints)
        })
        .await
    }
}
