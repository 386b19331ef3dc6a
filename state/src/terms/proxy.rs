//! The proxies of a model, for the programs of a charm (spec/hook-tools.md 4).
//!
//! They are read from the model settings and passed to hooks as environment variables. The agent itself uses no
//! proxy: it connects only to the controller.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Both families of proxy settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proxies {
    /// `http-proxy` and the like: hooks receive them in the usual variables (`HTTP_PROXY`), so that every
    /// program uses them.
    pub legacy: Proxy,
    /// `juju-http-proxy` and the like: hooks receive them in `JUJU_CHARM_*` variables, and the charm decides
    /// what to do with them.
    pub charm: Proxy,
}

/// One family of proxy settings. An empty value means that no proxy is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proxy {
    /// The proxy for HTTP.
    pub http: String,
    /// The proxy for HTTPS.
    pub https: String,
    /// The proxy for FTP.
    pub ftp: String,
    /// The hosts that are reached without a proxy, separated by commas.
    pub no_proxy: String,
}

impl Proxies {
    /// What the settings of hosts that need no proxy are by default, as in Juju: this host.
    pub const NO_PROXY_DEFAULT: &str = "127.0.0.1,localhost,::1";

    /// The names of the model settings. By default no proxy is set.
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

    /// The default of one of the settings.
    pub fn default_of(setting: &str) -> &'static str {
        if setting.ends_with("no-proxy") { Self::NO_PROXY_DEFAULT } else { "" }
    }

    /// Reads the proxies from the settings of a model.
    pub fn of(config: &BTreeMap<String, Value>) -> Proxies {
        let value = |name: &str| config.get(name).map_or(Some(Self::default_of(name)), Value::as_str);
        let [http, https, ftp, no_proxy, charm_http, charm_https, charm_ftp, charm_no_proxy] =
            Self::SETTINGS.map(|name| value(name).unwrap_or_default().to_owned());
        Proxies {
            legacy: Proxy { http, https, ftp, no_proxy },
            charm: Proxy { http: charm_http, https: charm_https, ftp: charm_ftp, no_proxy: charm_no_proxy },
        }
    }
}

impl Proxy {
    /// The name of each variable in lower case, and its value, which may be empty.
    pub fn entries(&self) -> [(&'static str, &str); 4] {
        [
            ("http_proxy", &self.http),
            ("https_proxy", &self.https),
            ("ftp_proxy", &self.ftp),
            ("no_proxy", &self.no_proxy),
        ]
    }
}
