//! From a route and the bytes of a request to the call of a trait, and from its answer to bytes again.

use crate::openapi;
use crate::outside::Outside;
use crate::session::Session;
use crate::store::Store;
use api::error::{ApiError, ErrorCode};
use api::machine_agent::{MachineApi, MachineWatch};
use api::operator::{Force, OperatorApi};
use api::routes::{self, Route};
use api::unit_agent::{UnitApi, Watch};
use axum::body::{Body, Bytes};
use hyper::body::Frame;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What goes back.
pub enum Reply {
    Json(Vec<u8>),
    Bytes(Vec<u8>),
    Lines(Body),
}

fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    serde_json::from_slice(body)
        .map_err(|e| ApiError::new(ErrorCode::Invalid, format!("the request is not understood: {e}")))
}

fn json(answer: &impl Serialize) -> Result<Reply, ApiError> {
    Ok(Reply::Json(serde_json::to_vec(answer).expect("messages are plain data")))
}

/// Calls what the route means. The caller may call it; that was checked before the body was read.
pub async fn answer<S: Store, O: Outside>(
    session: Session<S, O>,
    route: Route,
    params: &BTreeMap<String, String>,
    body: Bytes,
) -> Result<Reply, ApiError> {
    let part = |name: &str| params.get(name).map_or("", String::as_str);
    let (s, model) = (&session, part("model"));
    match route {
        Route::Attach => json(&s.attach(parsed(&body)?).await?),
        Route::Commit => json(&s.commit(parsed(&body)?).await?),
        Route::Report => json(&s.report(parsed(&body)?).await?),
        Route::Claim => json(&s.claim(parsed(&body)?).await?),
        Route::WatchUnit => {
            let routes::WatchFrom { epoch, from } = parsed(&body)?;
            Ok(Reply::Lines(lines(s.watch(epoch, from).await?, |watch| Box::pin(Watch::next(watch)))))
        }
        Route::Bag => json(&s.bag(parsed(&body)?).await?),
        Route::Archive => Ok(Reply::Bytes(s.archive(part("sha256")).await?)),
        Route::WatchMachine => {
            Ok(Reply::Lines(lines(s.watch_machine().await?, |watch| Box::pin(MachineWatch::next(watch)))))
        }
        Route::Fate => json(&s.fate(parsed::<routes::Id>(&body)?.id).await?),
        Route::UnitToken => {
            let token: routes::Token = parsed(&body)?;
            json(&s.set_token(token.id, &token.token).await?)
        }
        Route::RemoveDeadUnit => json(&MachineApi::remove_unit(s, parsed::<routes::Id>(&body)?.id).await?),
        Route::Here => json(&s.here().await?),
        Route::MachineDead => json(&s.machine_dead().await?),
        Route::Enrol => {
            let enrol: routes::Enrol = parsed(&body)?;
            json(&s.enrol(&enrol.token, &enrol.address).await?)
        }
        Route::MachineGone => json(&s.machine_gone().await?),
        Route::About => json(&s.about().await?),
        Route::OpenApi => json(&openapi::document()),
        Route::Models => json(&s.models().await?),
        Route::CreateModel => json(&s.create_model(parsed(&body)?).await?),
        Route::DestroyModel => json(&s.destroy_model(model, Force::No).await?),
        Route::ForceModel => {
            let wish: routes::ForceModel = parsed(&body)?;
            json(&s.destroy_model(model, Force::of(true, wish.no_wait)).await?)
        }
        Route::ModelConfig => json(&s.model_config(model).await?),
        Route::ConfigureModel => json(&s.configure_model(model, parsed(&body)?).await?),
        Route::ArchiveInfo => json(&s.archive_info(&parsed::<routes::Name>(&body)?.name).await?),
        Route::UploadArchive => json(&s.upload_archive(body.into()).await?),
        Route::Deploy => json(&s.deploy(model, parsed(&body)?).await?),
        Route::AddUnits => json(&s.add_units(model, parsed(&body)?).await?),
        Route::Refresh => json(&s.refresh(model, parsed(&body)?).await?),
        Route::Integrate => json(&s.integrate(model, parsed(&body)?).await?),
        Route::Config => json(&s.config(model, &parsed::<routes::Name>(&body)?.name).await?),
        Route::Configure => {
            let wish: routes::Configure = parsed(&body)?;
            json(&s.configure(model, &wish.application, wish.change).await?)
        }
        Route::Status => json(&s.status(model).await?),
        Route::ShowUnit => json(&s.show_unit(model, &parsed::<routes::Name>(&body)?.name).await?),
        Route::DebugLog => json(&s.debug_log(model, parsed(&body)?).await?),
        Route::Why => json(&s.why(model, &parsed::<routes::Name>(&body)?.name).await?),
        Route::Resolved => {
            let wish: routes::Resolve = parsed(&body)?;
            json(&s.resolved(model, &wish.unit, wish.retry).await?)
        }
        Route::Run => json(&s.run(model, parsed(&body)?).await?),
        Route::Action => json(&s.action(model, parsed::<routes::Number>(&body)?.id).await?),
        Route::Actions => json(&s.actions(model).await?),
        Route::RemoveUnit => {
            let wish: routes::Remove = parsed(&body)?;
            json(&OperatorApi::remove_unit(s, model, &wish.name, Force::of(wish.force, wish.no_wait)).await?)
        }
        Route::RemoveApplication => {
            let wish: routes::Remove = parsed(&body)?;
            json(&s.remove_application(model, &wish.name, Force::of(wish.force, wish.no_wait)).await?)
        }
        Route::RemoveRelation => {
            let wish: routes::RemoveRelation = parsed(&body)?;
            json(&s.remove_relation(model, wish.relation, Force::of(wish.force, wish.no_wait)).await?)
        }
        Route::SuspendRelation => {
            let wish: routes::Suspend = parsed(&body)?;
            json(&s.suspend_relation(model, wish.relation, &wish.message).await?)
        }
        Route::ResumeRelation => {
            json(&s.resume_relation(model, parsed::<routes::Resume>(&body)?.relation).await?)
        }
        Route::Forecast => json(&s.forecast(model, parsed(&body)?, Force::No).await?),
        Route::ForecastForce => {
            let wish: routes::ForecastForce = parsed(&body)?;
            json(&s.forecast(model, wish.removed, Force::of(true, wish.no_wait)).await?)
        }
        Route::Machines => json(&s.machines(model).await?),
        Route::AddMachines => json(&s.add_machines(model, parsed(&body)?).await?),
        Route::RemoveMachine | Route::RemoveMachineOnly => {
            let remove: routes::Remove = parsed(&body)?;
            let force = Force::of(remove.force, remove.no_wait);
            json(&s.remove_machine(model, &remove.name, force, route == Route::RemoveMachineOnly).await?)
        }
        Route::RetryProvisioning => {
            json(&s.retry_provisioning(model, &parsed::<routes::Name>(&body)?.name).await?)
        }
        Route::Invite => json(&s.invite(model, &parsed::<routes::Name>(&body)?.name).await?),
        Route::Provisioned => {
            let routes::MachineProvisioned { id, what } = parsed(&body)?;
            json(&s.provisioned(model, id, what).await?)
        }
        Route::MachineFate => json(&s.machine_fate(model, parsed::<routes::Id>(&body)?.id).await?),
        Route::MachineToken => {
            let token: routes::Token = parsed(&body)?;
            json(&s.machine_token(model, token.id, &token.token).await?)
        }
        Route::MachineRemoved => json(&s.machine_removed(model, parsed::<routes::Id>(&body)?.id).await?),
        Route::Changes => json(&s.changes(model, parsed::<routes::ChangesAfter>(&body)?.after).await?),
    }
}

type Next<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + Send + 'a>>;
type Step<W> = Pin<Box<dyn Future<Output = (W, Vec<u8>, bool)> + Send>>;

fn lines<W, T>(watch: W, next: for<'a> fn(&'a mut W) -> Next<'a, T>) -> Body
where
    W: Send + Sync + 'static,
    T: Serialize + Send + 'static,
{
    Body::new(Lines { step: Some(step(watch, next)), next })
}

fn step<W: Send + 'static, T: Serialize + Send + 'static>(
    mut watch: W,
    next: for<'a> fn(&'a mut W) -> Next<'a, T>,
) -> Step<W> {
    Box::pin(async move {
        let (line, more) = match next(&mut watch).await {
            Ok(item) => (routes::Line::Item(item), true),
            Err(error) => (routes::Line::Error(error), false),
        };
        let mut bytes = serde_json::to_vec(&line).expect("messages are plain data");
        bytes.push(b'\n');
        (watch, bytes, more)
    })
}

/// A watch as a body. The connection pulls: the next line is made when the one before is written, so a slow reader
/// has nothing queued for it.
struct Lines<W, T> {
    step: Option<Step<W>>,
    next: for<'a> fn(&'a mut W) -> Next<'a, T>,
}

impl<W: Send + 'static, T: Serialize + Send + 'static> hyper::body::Body for Lines<W, T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Some(under_way) = &mut this.step else { return Poll::Ready(None) };
        let (watch, line, more) = ready!(under_way.as_mut().poll(context));
        this.step = more.then(|| step(watch, this.next));
        Poll::Ready(Some(Ok(Frame::data(line.into()))))
    }
}
