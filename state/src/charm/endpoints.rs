//! Selects the endpoints by which two applications are related: the decision behind `integrate`.

use super::{Charm, Endpoint, JUJU_INFO, Role, Scope, juju_info};

/// One of the two applications that `integrate` names: `web`, or `web:db`.
#[derive(Clone, Copy, Debug)]
pub struct IntegrateEnd<'a> {
    /// The name of the application.
    pub application: &'a str,
    /// Its charm.
    pub charm: &'a Charm,
    /// The endpoint, if the user named one.
    pub endpoint: Option<&'a str>,
}

/// Two endpoints that can be related, in the order of the two applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPair {
    /// The endpoint of the first application.
    pub left: Endpoint,
    /// The endpoint of the second application.
    pub right: Endpoint,
    /// Container if either endpoint declares it.
    pub scope: Scope,
}

/// Why no pair of endpoints was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMatch {
    /// The user named an endpoint that the charm does not have.
    Unknown {
        /// The application.
        application: String,
        /// The endpoint that it does not have.
        endpoint: String,
    },
    /// No pair can be related.
    Nothing {
        /// The candidate endpoints of the first application.
        left: Vec<String>,
        /// The candidate endpoints of the second application.
        right: Vec<String>,
    },
    /// More than one pair can be related, so the user must choose. A pair is, for example, `web:db` and
    /// `db:db`.
    Ambiguous(Vec<(String, String)>),
    /// The only pairs have container scope, and neither application is a subordinate.
    NoSubordinate,
}

/// The one pair of endpoints by which the two applications can be related. Pairs with the implicit `juju-info`
/// count only if there is no other pair. Peer endpoints are never selected, because they relate an application
/// only to itself.
///
/// # Errors
/// If a named endpoint does not exist, or no pair or more than one is left.
pub fn infer(left: IntegrateEnd, right: IntegrateEnd) -> Result<EndpointPair, NoMatch> {
    let (lefts, rights) = (candidate_endpoints(left)?, candidate_endpoints(right)?);
    let mut pairs = pairs_between(&lefts, &rights);
    if pairs.is_empty() {
        let names =
            |side: IntegrateEnd, ends: &[Endpoint]| ends.iter().map(|e| qualified_name(side, e)).collect();
        return Err(NoMatch::Nothing { left: names(left, &lefts), right: names(right, &rights) });
    }
    if !left.charm.subordinate && !right.charm.subordinate {
        pairs.retain(|pair| pair.scope == Scope::Global);
        if pairs.is_empty() {
            return Err(NoMatch::NoSubordinate);
        }
    }
    // The declared endpoint of a subordinate that requires juju-info may have the same name; it is not implicit.
    let provided = |end: &Endpoint| end.name == JUJU_INFO && end.role == Role::Provider;
    let implicit = |pair: &EndpointPair| provided(&pair.left) || provided(&pair.right);
    if pairs.iter().any(|pair| !implicit(pair)) {
        pairs.retain(|pair| !implicit(pair));
    }
    match <[EndpointPair; 1]>::try_from(pairs) {
        Ok([only]) => Ok(only),
        Err(pairs) => {
            let pair = |m: &EndpointPair| (qualified_name(left, &m.left), qualified_name(right, &m.right));
            Err(NoMatch::Ambiguous(pairs.iter().map(pair).collect()))
        }
    }
}

/// All pairs by which the two applications can be related, including those that [`infer`] would not select.
///
/// # Errors
/// If a named endpoint does not exist.
pub fn compatible_pairs(left: IntegrateEnd, right: IntegrateEnd) -> Result<Vec<EndpointPair>, NoMatch> {
    Ok(pairs_between(&candidate_endpoints(left)?, &candidate_endpoints(right)?))
}

/// All pairs of two lists of endpoints that can be related.
fn pairs_between(lefts: &[Endpoint], rights: &[Endpoint]) -> Vec<EndpointPair> {
    let pair = |a: &Endpoint, b: &Endpoint| {
        are_compatible(a, b).then(|| EndpointPair {
            left: a.clone(),
            right: b.clone(),
            scope: a.scope.max(b.scope),
        })
    };
    lefts.iter().flat_map(|a| rights.iter().filter_map(move |b| pair(a, b))).collect()
}

/// The candidates of one application: the endpoint that the user named, or all of them.
fn candidate_endpoints(side: IntegrateEnd) -> Result<Vec<Endpoint>, NoMatch> {
    match side.endpoint {
        Some(name) => side.charm.endpoint(name).map(|endpoint| vec![endpoint]).ok_or_else(|| {
            NoMatch::Unknown { application: side.application.to_owned(), endpoint: name.to_owned() }
        }),
        None => Ok(side.charm.endpoints.values().cloned().chain([juju_info()]).collect()),
    }
}

/// The endpoint with its application: `web:db`.
fn qualified_name(side: IntegrateEnd, endpoint: &Endpoint) -> String {
    format!("{}:{}", side.application, endpoint.name)
}

/// Whether two endpoints can be related: opposite roles, same interface.
fn are_compatible(a: &Endpoint, b: &Endpoint) -> bool {
    let opposite =
        matches!((a.role, b.role), (Role::Provider, Role::Requirer) | (Role::Requirer, Role::Provider));
    opposite && a.interface == b.interface
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charm(subordinate: bool, endpoints: &[(&str, Role, &str, Scope)]) -> Charm {
        let endpoint = |&(name, role, interface, scope): &(&str, Role, &str, Scope)| {
            let (name, interface) = (name.to_owned(), interface.to_owned());
            (name.clone(), Endpoint { name, role, interface, scope, limit: None, optional: false })
        };
        Charm { subordinate, endpoints: endpoints.iter().map(endpoint).collect(), ..Charm::default() }
    }

    fn side<'a>(application: &'a str, charm: &'a Charm, endpoint: Option<&'a str>) -> IntegrateEnd<'a> {
        IntegrateEnd { application, charm, endpoint }
    }

    fn names(found: Result<EndpointPair, NoMatch>) -> Result<(String, String, Scope), NoMatch> {
        found.map(|m| (m.left.name, m.right.name, m.scope))
    }

    use Role::{Peer, Provider, Requirer};
    use Scope::{Container, Global};

    #[test]
    fn the_only_compatible_pair_is_selected_in_either_order() {
        let db = charm(false, &[("db", Provider, "pair", Global), ("ring", Peer, "pair", Global)]);
        let web = charm(false, &[("store", Requirer, "pair", Global), ("site", Provider, "http", Global)]);
        let (db, web) = (side("db", &db, None), side("web", &web, None));
        assert_eq!(names(infer(web, db)), Ok(("store".into(), "db".into(), Global)));
        assert_eq!(names(infer(db, web)), Ok(("db".into(), "store".into(), Global)));
    }

    #[test]
    fn more_than_one_pair_is_an_ambiguity_for_the_user() {
        let db = charm(false, &[("db", Provider, "pair", Global), ("admin", Provider, "pair", Global)]);
        let web = charm(false, &[("store", Requirer, "pair", Global)]);
        let pair = |db: &str| ("web:store".to_owned(), format!("db:{db}"));
        let ambiguous = NoMatch::Ambiguous(vec![pair("admin"), pair("db")]);
        assert_eq!(names(infer(side("web", &web, None), side("db", &db, None))), Err(ambiguous));
        let chosen = infer(side("web", &web, None), side("db", &db, Some("db")));
        assert_eq!(names(chosen), Ok(("store".into(), "db".into(), Global)));
    }

    #[test]
    fn an_unknown_endpoint_is_named() {
        let web = charm(false, &[]);
        let unknown = NoMatch::Unknown { application: "web".into(), endpoint: "nosuch".into() };
        assert_eq!(names(infer(side("web", &web, Some("nosuch")), side("db", &web, None))), Err(unknown));
    }

    #[test]
    fn two_peers_or_two_providers_are_not_compatible() {
        let a = charm(false, &[("ring", Peer, "gossip", Global), ("site", Provider, "http", Global)]);
        let found = infer(side("a", &a, None), side("b", &a, None));
        assert!(matches!(found, Err(NoMatch::Nothing { .. })), "{found:?}");
    }

    #[test]
    fn juju_info_is_selected_only_if_no_other_pair_is_compatible() {
        let info = ("host", Requirer, "juju-info", Container);
        let sub = charm(true, &[info, ("logs", Requirer, "logs", Container)]);
        let plain = charm(false, &[]);
        let logging = charm(false, &[("logs", Provider, "logs", Global)]);
        let sub = side("sub", &sub, None);
        let implicit = Ok(("host".into(), "juju-info".into(), Container));
        assert_eq!(names(infer(sub, side("plain", &plain, None))), implicit);
        let explicit = Ok(("logs".into(), "logs".into(), Container));
        assert_eq!(names(infer(sub, side("logging", &logging, None))), explicit);
    }

    #[test]
    fn container_scope_needs_a_subordinate() {
        let a = charm(false, &[("logs", Requirer, "logs", Container)]);
        let b = charm(false, &[("logs", Provider, "logs", Global)]);
        assert_eq!(infer(side("a", &a, None), side("b", &b, None)), Err(NoMatch::NoSubordinate));
    }
}
