//! The client end: the traits over HTTPS with a pinned CA. One connection pool a client; HTTP/1.1 only.
//!
//! Whatever keeps an answer from coming is `Unreachable`, with one plain line that names the controller's address.

use crate::error::{ApiError, ErrorCode};
use crate::machine_agent::{Fate, MachineApi, MachineShown, MachineWatch};
use crate::operator::*;
use crate::routes::{self, Route, Row, Takes};
use crate::unit_agent::{Attach, Attached, Claim, Claimed, Commit, Committed, Report, Shown, UnitApi, Watch};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use state::model::{action, along, draft};
use state::names::{RelationNumber, Uuid};
use state::unit::snapshot::{BagAsked, BagView, Position};
use std::collections::BTreeMap;
use std::error::Error;
use std::marker::PhantomData;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The controller is on this machine or a few hops away: 5 s is many retransmissions.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A call that answers at once takes milliseconds; a long poll takes its 25 s. What takes longer is lost.
const CALL_TIMEOUT: Duration = Duration::from_millis(LONG_POLL_MS + 15_000);
/// An agent's connection that says nothing for this long while it is waited for is dead: no call of an agent is a long
/// poll, and a watch has its heartbeats.
const AGENT_SILENCE: Duration = Duration::from_millis(crate::WATCH_SILENCE_MS);
/// 512 MiB at 1 MiB/s.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(512);
/// Shorter than the server's patience with an idle connection, so that it is not closed under a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest line of a stream, a full view: the settings that come along (design 9); the charm's declarations, the
/// configuration and each action that waits, a document each; and 8 MiB of heads, members, versions and statuses, 400
/// bytes for each of 20,000 related units.
const LINE_BYTES_MAX: usize = along::BYTES_MAX + (2 + action::QUEUED_MAX) * draft::BYTES_MAX + (8 << 20);

/// Where a controller is and how to know it.
#[derive(Clone, Debug)]
pub struct Controller {
    /// `127.0.0.1:17070`.
    pub address: String,
    /// The name in its certificate: its uuid.
    pub server_name: String,
    /// The only CA that is trusted, PEM.
    pub ca: String,
    pub token: String,
}

impl From<&ClientFile> for Controller {
    fn from(file: &ClientFile) -> Controller {
        Controller {
            address: file.controller.clone(),
            server_name: file.server_name.clone(),
            ca: file.ca.clone(),
            token: file.token.clone(),
        }
    }
}

/// A caller of the controller. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    address: String,
    base: String,
    authorization: String,
    /// Model and uuid of the agent that calls, or [`PERSON`].
    agent: (Uuid, Uuid),
}

/// A caller that is no agent.
const PERSON: (Uuid, Uuid) = (Uuid(0), Uuid(0));

impl Client {
    /// For a person or the supervisor. An error tells what is wrong with `controller`'s fields.
    pub fn user(controller: &Controller) -> Result<Client, ApiError> {
        Client::new(controller, PERSON)
    }

    /// For the agent of a machine or a unit.
    pub fn agent(controller: &Controller, model: Uuid, agent: Uuid) -> Result<Client, ApiError> {
        Client::new(controller, (model, agent))
    }

    fn new(controller: &Controller, agent: (Uuid, Uuid)) -> Result<Client, ApiError> {
        let invalid = |text: String| ApiError::new(ErrorCode::Invalid, text);
        // A second installation answers Err with the provider that is there already; it is ours.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address: SocketAddr =
            controller.address.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(|| {
                invalid(format!("{:?} is not the address of a controller", controller.address))
            })?;
        let ca = reqwest::Certificate::from_pem_bundle(controller.ca.as_bytes())
            .map_err(|e| invalid(format!("the controller's CA is not readable: {e}")))?;
        let mut http = reqwest::Client::builder()
            .tls_certs_only(ca)
            .tls_version_min(reqwest::tls::Version::TLS_1_3)
            .https_only(true)
            .http1_only()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .resolve(&controller.server_name, address);
        if agent != PERSON {
            http = http.read_timeout(AGENT_SILENCE);
        }
        let unusable = |e| invalid(format!("the controller's CA is not usable: {}", root_of(&e)));
        let http = http.build().map_err(unusable)?;
        Ok(Client {
            http,
            address: controller.address.clone(),
            base: format!("https://{}:{}", controller.server_name, address.port()),
            authorization: format!("Bearer {}", controller.token),
            agent,
        })
    }

    /// Sends one request; an answer other than 2xx is the error it carries.
    async fn send(&self, route: Route, model: &str, body: Body<'_>) -> Result<reqwest::Response, ApiError> {
        let row = route.row();
        let (sha256, body) = match body {
            Body::Digest(sha256) => (sha256, None),
            Body::None => ("", None),
            Body::Bytes(bytes) => ("", Some(bytes)),
        };
        let url = format!("{}{}", self.base, self.path(row, model, sha256));
        let mut request = match row.takes {
            Takes::Nothing => self.http.get(url),
            Takes::Json(_) => self.http.post(url).header("content-type", "application/json"),
            Takes::Bytes => self.http.post(url).header("content-type", "application/octet-stream"),
        };
        request = request.header("authorization", &self.authorization);
        if let Some(body) = body {
            request = request.body(body);
        }
        match (row.takes, row.gives) {
            (Takes::Bytes, _) | (_, routes::Gives::Bytes) => request = request.timeout(TRANSFER_TIMEOUT),
            (_, routes::Gives::Json(_)) => request = request.timeout(CALL_TIMEOUT),
            (_, routes::Gives::Lines(_)) => {} // goes on as long as it is not silent
        }
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|e| self.unreachable(&e))?;
        Err(serde_json::from_slice(&body).unwrap_or_else(|_| {
            let text = format!("controller {} answered {status} without saying why", self.address);
            ApiError::new(ErrorCode::Unavailable, text)
        }))
    }

    fn path(&self, row: &Row, model: &str, sha256: &str) -> String {
        let (agent_model, agent) = self.agent;
        let model = if row.path.contains("{agent}") { agent_model.to_string() } else { encoded(model) };
        row.path
            .replace("{model}", &model)
            .replace("{agent}", &agent.to_string())
            .replace("{sha256}", &encoded(sha256))
    }

    async fn call<A: DeserializeOwned>(
        &self,
        route: Route,
        model: &str,
        body: &impl Serialize,
    ) -> Result<A, ApiError> {
        let body = serde_json::to_vec(body).expect("messages are plain data");
        self.parsed(self.send(route, model, Body::Bytes(body)).await?).await
    }

    async fn get<A: DeserializeOwned>(&self, route: Route, model: &str) -> Result<A, ApiError> {
        self.parsed(self.send(route, model, Body::None).await?).await
    }

    async fn parsed<A: DeserializeOwned>(&self, response: reqwest::Response) -> Result<A, ApiError> {
        let bytes = response.bytes().await.map_err(|e| self.unreachable(&e))?;
        serde_json::from_slice(&bytes).map_err(|e| self.not_understood(&e.to_string()))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ApiError {
        let why = if error.is_timeout() { "no answer in time".to_owned() } else { root_of(error) };
        if why.contains("certificate") {
            let text =
                format!("what answers at {} is not the controller that was expected: {why}", self.address);
            return ApiError::new(ErrorCode::Unreachable, text)
                .hint("the file that names the controller may belong to another installation");
        }
        ApiError::unreachable(&self.address, why)
    }

    fn not_understood(&self, why: &str) -> ApiError {
        let text =
            format!("controller {} answered something this program does not understand: {why}", self.address);
        ApiError::new(ErrorCode::Broken, text).hint("use a program and a controller of the same version")
    }
}

enum Body<'a> {
    None,
    Bytes(Vec<u8>),
    /// No body, a digest in the path.
    Digest(&'a str),
}

/// The innermost cause in plain words: `connection refused`.
fn root_of(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    match root.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(std::io::ErrorKind::ConnectionReset) => "connection reset".to_owned(),
        Some(_) | None => root.to_string(),
    }
}

/// One part of a path: whatever a user typed stays one part.
fn encoded(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") };
    part.bytes().map(encode).collect()
}

/// A stream of lines under way.
pub struct Lines<T> {
    response: reqwest::Response,
    client: Client,
    /// Received and not yet taken.
    buffer: Vec<u8>,
    /// Bytes at the buffer's begin that hold no line end.
    searched: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Lines<T> {
    fn new(client: &Client, response: reqwest::Response) -> Lines<T> {
        Lines { response, client: client.clone(), buffer: Vec::new(), searched: 0, of: PhantomData }
    }

    async fn next(&mut self) -> Result<T, ApiError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
                self.searched = 0;
                let line =
                    serde_json::from_slice(&line).map_err(|e| self.client.not_understood(&e.to_string()))?;
                return match line {
                    routes::Line::Item(item) => Ok(item),
                    routes::Line::Error(error) => Err(error),
                };
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(self.client.not_understood("a line without end"));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) => {
                    return Err(ApiError::unreachable(&self.client.address, "the stream ended"));
                }
                Err(error) => return Err(self.client.unreachable(&error)),
            }
        }
    }
}

impl Watch for Lines<Shown> {
    async fn next(&mut self) -> Result<Shown, ApiError> {
        Lines::next(self).await
    }
}

impl MachineWatch for Lines<MachineShown> {
    async fn next(&mut self) -> Result<MachineShown, ApiError> {
        Lines::next(self).await
    }
}

impl UnitApi for Client {
    type Watch = Lines<Shown>;

    async fn attach(&self, attach: Attach) -> Result<Attached, ApiError> {
        self.call(Route::Attach, "", &attach).await
    }
    async fn commit(&self, commit: Commit) -> Result<Committed, ApiError> {
        self.call(Route::Commit, "", &commit).await
    }
    async fn report(&self, report: Report) -> Result<(), ApiError> {
        self.call(Route::Report, "", &report).await
    }
    async fn claim(&self, claim: Claim) -> Result<Claimed, ApiError> {
        self.call(Route::Claim, "", &claim).await
    }
    async fn watch(&self, epoch: u64, from: Option<Position>) -> Result<Lines<Shown>, ApiError> {
        let body = serde_json::to_vec(&routes::WatchFrom { epoch, from }).expect("messages are plain data");
        Ok(Lines::new(self, self.send(Route::WatchUnit, "", Body::Bytes(body)).await?))
    }
    async fn bag(&self, asked: BagAsked) -> Result<Option<BagView>, ApiError> {
        self.call(Route::Bag, "", &asked).await
    }
    async fn archive(&self, sha256: &str) -> Result<Vec<u8>, ApiError> {
        let response = self.send(Route::Archive, "", Body::Digest(sha256)).await?;
        Ok(response.bytes().await.map_err(|e| self.unreachable(&e))?.into())
    }
}

impl MachineApi for Client {
    type Watch = Lines<MachineShown>;

    async fn watch_machine(&self) -> Result<Lines<MachineShown>, ApiError> {
        Ok(Lines::new(self, self.send(Route::WatchMachine, "", Body::None).await?))
    }
    async fn fate(&self, unit: Uuid) -> Result<Fate, ApiError> {
        self.call(Route::Fate, "", &routes::Id { id: unit }).await
    }
    async fn set_token(&self, unit: Uuid, token: &str) -> Result<(), ApiError> {
        self.call(Route::UnitToken, "", &routes::Token { id: unit, token: token.to_owned() }).await
    }
    async fn remove_unit(&self, unit: Uuid) -> Result<(), ApiError> {
        self.call(Route::RemoveDeadUnit, "", &routes::Id { id: unit }).await
    }
    async fn here(&self) -> Result<(), ApiError> {
        self.call(Route::Here, "", &()).await
    }
    async fn enrol(&self, token: &str, address: &str) -> Result<(), ApiError> {
        let enrol = routes::Enrol { token: token.to_owned(), address: address.to_owned() };
        self.call(Route::Enrol, "", &enrol).await
    }
    async fn machine_gone(&self) -> Result<(), ApiError> {
        self.call(Route::MachineGone, "", &()).await
    }
    async fn machine_dead(&self) -> Result<(), ApiError> {
        self.call(Route::MachineDead, "", &()).await
    }
}

fn name(name: &str) -> routes::Name {
    routes::Name { name: name.to_owned() }
}

fn removal(name: &str, force: Force) -> routes::Remove {
    let (force, no_wait) = force.flags();
    routes::Remove { name: name.to_owned(), force, no_wait }
}

impl OperatorApi for Client {
    async fn about(&self) -> Result<About, ApiError> {
        self.get(Route::About, "").await
    }
    async fn openapi(&self) -> Result<Value, ApiError> {
        self.get(Route::OpenApi, "").await
    }
    async fn models(&self) -> Result<Vec<ModelInfo>, ApiError> {
        self.get(Route::Models, "").await
    }
    async fn create_model(&self, model: CreateModel) -> Result<ModelInfo, ApiError> {
        self.call(Route::CreateModel, "", &model).await
    }
    async fn destroy_model(&self, model: &str, force: Force) -> Result<Changed, ApiError> {
        match force.flags() {
            (false, _) => self.call(Route::DestroyModel, model, &()).await,
            (true, no_wait) => self.call(Route::ForceModel, model, &routes::ForceModel { no_wait }).await,
        }
    }
    async fn model_config(&self, model: &str) -> Result<BTreeMap<String, ModelSetting>, ApiError> {
        self.get(Route::ModelConfig, model).await
    }
    async fn configure_model(&self, model: &str, change: ConfigChange) -> Result<Changed, ApiError> {
        self.call(Route::ConfigureModel, model, &change).await
    }
    async fn archive_info(&self, sha256: &str) -> Result<Option<Uploaded>, ApiError> {
        self.call(Route::ArchiveInfo, "", &name(sha256)).await
    }
    async fn upload_archive(&self, archive: Vec<u8>) -> Result<Uploaded, ApiError> {
        self.parsed(self.send(Route::UploadArchive, "", Body::Bytes(archive)).await?).await
    }
    async fn deploy(&self, model: &str, deploy: Deploy) -> Result<Deployed, ApiError> {
        self.call(Route::Deploy, model, &deploy).await
    }
    async fn add_units(&self, model: &str, add: AddUnits) -> Result<Added, ApiError> {
        self.call(Route::AddUnits, model, &add).await
    }
    async fn refresh(&self, model: &str, refresh: Refresh) -> Result<Refreshed, ApiError> {
        self.call(Route::Refresh, model, &refresh).await
    }
    async fn integrate(&self, model: &str, ends: Ends) -> Result<Integrated, ApiError> {
        self.call(Route::Integrate, model, &ends).await
    }
    async fn config(&self, model: &str, application: &str) -> Result<ApplicationConfig, ApiError> {
        self.call(Route::Config, model, &name(application)).await
    }
    async fn configure(
        &self,
        model: &str,
        application: &str,
        change: ConfigChange,
    ) -> Result<Changed, ApiError> {
        let body = routes::Configure { application: application.to_owned(), change };
        self.call(Route::Configure, model, &body).await
    }
    async fn status(&self, model: &str) -> Result<Status, ApiError> {
        self.get(Route::Status, model).await
    }
    async fn show_unit(&self, model: &str, unit: &str) -> Result<UnitInfo, ApiError> {
        self.call(Route::ShowUnit, model, &name(unit)).await
    }
    async fn debug_log(&self, model: &str, query: LogQuery) -> Result<LogPage, ApiError> {
        self.call(Route::DebugLog, model, &query).await
    }
    async fn why(&self, model: &str, entity: &str) -> Result<Why, ApiError> {
        self.call(Route::Why, model, &name(entity)).await
    }
    async fn resolved(&self, model: &str, unit: &str, retry: bool) -> Result<Changed, ApiError> {
        self.call(Route::Resolved, model, &routes::Resolve { unit: unit.to_owned(), retry }).await
    }
    async fn run(&self, model: &str, run: Run) -> Result<Enqueued, ApiError> {
        self.call(Route::Run, model, &run).await
    }
    async fn action(&self, model: &str, id: u64) -> Result<ActionInfo, ApiError> {
        self.call(Route::Action, model, &routes::Number { id }).await
    }
    async fn actions(&self, model: &str) -> Result<Vec<ActionInfo>, ApiError> {
        self.get(Route::Actions, model).await
    }
    async fn remove_unit(&self, model: &str, unit: &str, force: Force) -> Result<Changed, ApiError> {
        self.call(Route::RemoveUnit, model, &removal(unit, force)).await
    }
    async fn remove_application(
        &self,
        model: &str,
        application: &str,
        force: Force,
    ) -> Result<Changed, ApiError> {
        self.call(Route::RemoveApplication, model, &removal(application, force)).await
    }
    async fn remove_relation(
        &self,
        model: &str,
        relation: RelationChoice,
        force: Force,
    ) -> Result<Changed, ApiError> {
        let (force, no_wait) = force.flags();
        self.call(Route::RemoveRelation, model, &routes::RemoveRelation { relation, force, no_wait }).await
    }
    async fn forecast(
        &self,
        model: &str,
        removed: Vec<Removable>,
        force: Force,
    ) -> Result<Forecast, ApiError> {
        match force.flags() {
            (false, _) => self.call(Route::Forecast, model, &removed).await,
            (true, no_wait) => {
                self.call(Route::ForecastForce, model, &routes::ForecastForce { removed, no_wait }).await
            }
        }
    }
    async fn suspend_relation(
        &self,
        model: &str,
        relation: RelationNumber,
        message: &str,
    ) -> Result<Changed, ApiError> {
        let suspend = routes::Suspend { relation, message: message.to_owned() };
        self.call(Route::SuspendRelation, model, &suspend).await
    }
    async fn resume_relation(&self, model: &str, relation: RelationNumber) -> Result<Changed, ApiError> {
        self.call(Route::ResumeRelation, model, &routes::Resume { relation }).await
    }
    async fn machines(&self, model: &str) -> Result<Vec<MachineInfo>, ApiError> {
        self.get(Route::Machines, model).await
    }
    async fn add_machines(&self, model: &str, add: AddMachines) -> Result<AddedMachines, ApiError> {
        self.call(Route::AddMachines, model, &add).await
    }
    async fn remove_machine(
        &self,
        model: &str,
        machine: &str,
        force: Force,
        keep_instance: bool,
    ) -> Result<Changed, ApiError> {
        // a route of its own: a controller that does not know it must not take the instance away
        let route = if keep_instance { Route::RemoveMachineOnly } else { Route::RemoveMachine };
        self.call(route, model, &removal(machine, force)).await
    }
    async fn retry_provisioning(&self, model: &str, machine: &str) -> Result<Changed, ApiError> {
        self.call(Route::RetryProvisioning, model, &name(machine)).await
    }
    async fn invite(&self, model: &str, machine: &str) -> Result<Invitation, ApiError> {
        self.call(Route::Invite, model, &name(machine)).await
    }
    async fn provisioned(&self, model: &str, machine: Uuid, what: Provisioned) -> Result<Uuid, ApiError> {
        self.call(Route::Provisioned, model, &routes::MachineProvisioned { id: machine, what }).await
    }
    async fn machine_fate(&self, model: &str, machine: Uuid) -> Result<Fate, ApiError> {
        self.call(Route::MachineFate, model, &routes::Id { id: machine }).await
    }
    async fn machine_token(&self, model: &str, machine: Uuid, token: &str) -> Result<(), ApiError> {
        self.call(Route::MachineToken, model, &routes::Token { id: machine, token: token.to_owned() }).await
    }
    async fn machine_removed(&self, model: &str, machine: Uuid) -> Result<(), ApiError> {
        self.call(Route::MachineRemoved, model, &routes::Id { id: machine }).await
    }
    async fn changes(&self, model: &str, after: Option<Position>) -> Result<Position, ApiError> {
        self.call(Route::Changes, model, &routes::ChangesAfter { after }).await
    }
}
