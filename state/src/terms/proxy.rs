//! The proxies a model's settings name, for the charm's programs (spec/hook-tools.md 4). The agent itself uses none:
//! it talks to the controller and nobody else.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Both families of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxies {
    /// `http-proxy` and the like: what every program of the hook finds in its usual variables.
    pub legacy: Proxy,
    /// `juju-http-proxy` and the like: the charm is told of them and decides itself.
    pub charm: Proxy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    pub http: String,
    pub https: String,
    pub ftp: String,
    pub no_proxy: String,
}

impl Proxies {
    /// The names of the settings. None is set by default.
    pub const SETTINGS: [&str; 8] = [
        "http-proxy",
        "https-proxy",
        "ftp-proxy",
        "no-proxy",
        "juju-http-proxy",
        "juju-https-proxy",
        "juju-ftp-proxy",
        "juju-no-proxy",
    ];

    /// As a model's settings name them.
    pub fn of(config: &BTreeMap<String, Value>) -> Proxies {
        let [http, https, ftp, no_proxy, charm_http, charm_https, charm_ftp, charm_no_proxy] = Self::SETTINGS
            .map(|name| config.get(name).and_then(Value::as_str).map(str::to_owned).unwrap_or_default());
        Proxies {
            legacy: Proxy { http, https, ftp, no_proxy },
            charm: Proxy { http: charm_http, https: charm_https, ftp: charm_ftp, no_proxy: charm_no_proxy },
        }
    }
}

impl Proxy {
    /// Each variable's name in lower case, and its value, which may be empty.
    pub fn entries(&self) -> [(&'static str, &str); 4] {
        [
            ("http_proxy", &self.http),
            ("https_proxy", &self.https),
            ("ftp_proxy", &self.ftp),
            ("no_proxy", &self.no_proxy),
        ]
    }
}
