//! The context of [`commands`](crate::terms::commands): their script, and the relation and remote unit that the request
//! names (spec/hook-tools.md 6).
//!
//! The relation is found when the request arrives. If the unit has left the relation when the commands start, they
//! fail.

use super::local::Local;
use super::snapshot::ActionView;
use crate::terms::commands::RelationContext;
use crate::terms::commands::{COMMAND, EXEC, MACHINE};
use crate::terms::names::{RelationNumber, UnitName};
use serde_json::Value;

/// The relation context that a process requests (spec/hook-tools.md 6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedRelation {
    /// `--relation`: `db:1` or `1`.
    pub relation: Option<String>,
    /// `--remote-unit`.
    pub remote_unit: Option<String>,
    /// `--remote-app`.
    pub remote_application: Option<String>,
    /// `--force-remote-unit`: the remote unit need not be a member.
    pub force: bool,
}

/// Why commands cannot run in the requested relation context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextProblem {
    /// A remote unit was named without a relation.
    UnitWithoutRelation(String),
    /// The text names no relation that the unit is in.
    InvalidRelation(String),
    /// The remote unit is not a valid unit name.
    InvalidUnit(String),
    /// The remote unit is no member of the relation.
    NotAMember(String),
    /// The relation has several members, and none was named.
    SeveralMembers(Vec<UnitName>),
}

/// Returns the script of an action that runs commands ([`EXEC`]); none for any other action.
pub fn of_action(action: &ActionView) -> Option<&str> {
    action.params.get(COMMAND).and_then(Value::as_str).filter(|_| action.name == EXEC)
}

/// Whether the script of an action runs outside of the context of the unit.
pub fn is_of_machine(action: &ActionView) -> bool {
    action.params.contains_key(MACHINE)
}

/// Finds the relation and the remote unit in whose context commands run. If the request names no remote unit, it is the
/// only member of the relation, or none if the relation has no members.
///
/// # Errors
/// If a remote unit is named without a relation or by an invalid name, the unit is not in the relation, the remote unit is not
/// a member of it (unless `force` is set), or the request does not choose one of several members.
pub fn relation_context(
    local: &Local,
    requested: &RequestedRelation,
) -> Result<Option<RelationContext>, ContextProblem> {
    let Some(text) = &requested.relation else {
        return match &requested.remote_unit {
            Some(unit) => Err(ContextProblem::UnitWithoutRelation(unit.clone())),
            None => Ok(None),
        };
    };
    let (endpoint, number) = text.split_once(':').map_or((None, text.as_str()), |(e, n)| (Some(e), n));
    let named = number.parse::<RelationNumber>().ok().and_then(|number| {
        let known = local.relations.get(&number)?;
        endpoint.is_none_or(|endpoint| endpoint == known.local_endpoint.endpoint).then_some((number, known))
    });
    let Some((relation, known)) = named else {
        return Err(ContextProblem::InvalidRelation(text.clone()));
    };
    let unit = match &requested.remote_unit {
        Some(name) => {
            let unit: UnitName = name.parse().map_err(|_| ContextProblem::InvalidUnit(name.clone()))?;
            if !requested.force && !known.members.contains_key(&unit) {
                return Err(ContextProblem::NotAMember(name.clone()));
            }
            Some(unit)
        }
        None if known.members.len() > 1 => {
            return Err(ContextProblem::SeveralMembers(known.members.keys().cloned().collect()));
        }
        None => known.members.keys().next().cloned(),
    };
    let application = requested.remote_application.clone();
    let application = application.or_else(|| unit.as_ref().map(|unit| unit.application.clone()));
    let application = application.unwrap_or_else(|| known.local_endpoint.remote_application.clone());
    Ok(Some(RelationContext { relation, unit, application, departing: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::member_version::MemberVersion;
    use crate::terms::names::Uuid;
    use crate::terms::operation::LocalEndpoint;
    use crate::unit::local::RelationLocal;
    use std::collections::BTreeMap;

    fn local(members: &[u32]) -> Local {
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        let local_endpoint = LocalEndpoint {
            endpoint: "db".to_owned(),
            interface: "mysql".to_owned(),
            peer: false,
            implicit: false,
            remote_application: "mysql".to_owned(),
        };
        let version = MemberVersion { incarnation: 1, counter: 1 };
        let members = members.iter().map(|number| (UnitName::new("mysql", *number), version));
        let relation = RelationLocal {
            uuid: Uuid(7),
            local_endpoint,
            created: true,
            members: members.collect(),
            applications: BTreeMap::new(),
            pending_changed: None,
            bag: BTreeMap::new(),
            lost_bag_changes: None,
            pending_application_writes: None,
        };
        local.relations.insert(1, relation);
        local
    }

    fn found(
        members: &[u32],
        relation: &str,
        unit: Option<&str>,
        force: bool,
    ) -> Result<String, ContextProblem> {
        let requested = RequestedRelation {
            relation: Some(relation.to_owned()),
            remote_unit: unit.map(str::to_owned),
            force,
            ..RequestedRelation::default()
        };
        let about = relation_context(&local(members), &requested)?.expect("a relation was named");
        let unit = about.unit.map_or("none".to_owned(), |unit| unit.to_string());
        Ok(format!("{} {} {unit}", about.relation, about.application))
    }

    #[test]
    fn the_only_member_is_the_remote_unit_and_one_of_several_must_be_named() {
        for relation in ["1", "db:1"] {
            assert_eq!(found(&[0], relation, None, false), Ok("1 mysql mysql/0".to_owned()));
        }
        assert_eq!(found(&[], "1", None, false), Ok("1 mysql none".to_owned()));
        let several = [0, 1].map(|number| UnitName::new("mysql", number)).to_vec();
        assert_eq!(found(&[0, 1], "1", None, false), Err(ContextProblem::SeveralMembers(several)));
        assert_eq!(found(&[0, 1], "1", Some("mysql/1"), false), Ok("1 mysql mysql/1".to_owned()));
    }

    #[test]
    fn what_is_no_relation_or_no_member_is_refused() {
        for relation in ["2", "cache:1", "db", ""] {
            let problem = ContextProblem::InvalidRelation(relation.to_owned());
            assert_eq!(found(&[0], relation, None, false), Err(problem));
        }
        let not_a_member = ContextProblem::NotAMember("mysql/4".to_owned());
        assert_eq!(found(&[0], "1", Some("mysql/4"), false), Err(not_a_member));
        assert_eq!(found(&[0], "1", Some("mysql/4"), true), Ok("1 mysql mysql/4".to_owned()));
        assert_eq!(found(&[0], "1", Some("?"), true), Err(ContextProblem::InvalidUnit("?".to_owned())));
        let unit_only = RequestedRelation { remote_unit: Some("mysql/0".to_owned()), ..Default::default() };
        let problem = ContextProblem::UnitWithoutRelation("mysql/0".to_owned());
        assert_eq!(relation_context(&local(&[0]), &unit_only), Err(problem));
        assert_eq!(relation_context(&local(&[0]), &RequestedRelation::default()), Ok(None));
    }
}
