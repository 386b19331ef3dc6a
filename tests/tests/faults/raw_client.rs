//! An HTTPS client for the controller, for requests that no program of Pintle would send.

use agent::config;
use api::AgentConfig;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tests::host::Host;

/// A client of one controller, which trusts the controller's CA.
pub struct RawClient {
    http: reqwest::Client,
    base: String,
    runtime: tokio::runtime::Runtime,
}

impl RawClient {
    pub fn of(host: &Host) -> RawClient {
        let (http, base) = caller(host);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        RawClient { http, base, runtime: runtime.expect("a runtime") }
    }

    /// Sends a request and returns the status and body of the response.
    pub fn post(&self, token: Option<&str>, path: &str, body: Vec<u8>) -> (u16, Value) {
        let mut request = self.http.post(format!("{}{path}", self.base)).body(body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        self.runtime.block_on(async {
            let response = request.send().await.expect("the controller responds");
            let status = response.status().as_u16();
            let bytes = response.bytes().await.expect("the whole response arrives");
            (status, serde_json::from_slice(&bytes).unwrap_or_default())
        })
    }

    pub fn post_json(&self, token: Option<&str>, path: &str, body: &Value) -> (u16, Value) {
        self.post(token, path, body.to_string().into_bytes())
    }
}

/// A client of the host's controller and the base of its routes.
pub fn caller(host: &Host) -> (reqwest::Client, String) {
    // this fails if the same provider is already installed
    tokio_rustls::rustls::crypto::ring::default_provider().install_default().ok();
    let client = client_file(&host.dir);
    let of = |field: &str| client[field].as_str().expect("it is text").to_owned();
    let real: std::net::SocketAddr = of("controller").parse().expect("an address");
    let ca = reqwest::Certificate::from_pem(of("ca").as_bytes()).expect("its own CA");
    let http = reqwest::Client::builder()
        .tls_certs_only([ca])
        .https_only(true)
        .no_proxy()
        .resolve(&of("server_name"), real)
        .build()
        .expect("a client");
    (http, format!("https://{}:{}", of("server_name"), real.port()))
}

/// `client.yaml` of a data folder.
pub fn client_file(data: &Path) -> Value {
    let text = fs::read_to_string(data.join("client.yaml")).expect("it was up");
    serde_yaml::from_str(&text).expect("our own YAML")
}

/// Changes an agent's `agent.yaml` and returns the previous configuration.
pub fn reconfigure(folder: &Path, change: impl FnOnce(&mut AgentConfig)) -> AgentConfig {
    let before = config::read(folder).expect("an agent's folder");
    let mut after = before.clone();
    change(&mut after);
    fs::write(folder.join(AgentConfig::FILE), config::to_yaml(&after)).expect("it is ours");
    before
}

/// Returns the routes for unit agents, each with a valid request body.
pub fn unit_routes() -> [(&'static str, Value); 5] {
    [
        ("attach", json!({ "nonce": "00000000-0000-4000-8000-000000000001", "epoch": 0 })),
        ("commit", json!({ "epoch": 1, "record": null })),
        ("report", json!({ "epoch": 1, "run": 1, "reports": [], "executing": null, "executing_for_ms": 0 })),
        ("claim", json!({ "epoch": 1, "release": true })),
        ("watch", json!({ "epoch": 1, "from": null })),
    ]
}
