//! Which revision of its charm a unit in error runs: a refresh reaches it only when its error has ended, unless units in
//! error are included (Juju's `--force-units`).
//!
//! Called by the handlers of `refresh` and `resolved`.

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{Model, last_id};
use crate::terms::activity::Activity;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::operation::Operation;
use crate::unit::local::Local;
use serde::{Deserialize, Serialize};

/// A unit in error that keeps its revision of the charm until its error has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptRevision {
    /// The unit.
    pub unit: UnitName,
    /// The URL of the charm that it runs.
    pub charm_url: String,
}

/// The units of an application that keep another revision than that of the application because they are in error.
pub fn kept_revisions(reader: &dyn Reader, model: Model, application: Uuid) -> Vec<KeptRevision> {
    let charm = read(reader, &model.application_charm(application)).filter(|charm| !charm.forced);
    let Some(charm) = charm else { return Vec::new() };
    let units = read_all::<()>(reader, &model.units_of(application));
    let kept = units.iter().filter_map(|(key, ())| {
        let local = read(reader, &model.replica(last_id(key)?))?.local;
        let revisions = revisions(&local, &charm.url, false)?;
        revisions.follows.as_ref()?;
        Some(KeptRevision { unit: local.name, charm_url: revisions.runs })
    });
    kept.collect()
}

/// What `resolved` lets a unit do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResolvedRun {
    /// The unit.
    pub unit: UnitName,
    /// What had failed.
    pub activity: Activity,
    /// The revisions of its charm; none if the error has ended meanwhile.
    pub revisions: Option<ErrorRevisions>,
}

/// The revisions of the charm of a unit in error, by URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorRevisions {
    /// What runs when the error is resolved.
    pub runs: String,
    /// To what the unit is refreshed once the error has ended; none if that runs already.
    pub follows: Option<String>,
}

/// What a unit does when its error is resolved; none if it is not in error.
pub fn resolved_run(reader: &dyn Reader, model: Model, id: Uuid) -> Option<ResolvedRun> {
    let local = read(reader, &model.replica(id))?.local;
    let charm = read(reader, &model.application_charm(read(reader, &model.unit(id))?.application))?;
    let activity = Activity::from(&local.episode()?.operation);
    let revisions = revisions(&local, &charm.url, charm.forced);
    Some(ResolvedRun { unit: local.name, activity, revisions })
}

/// The revisions of a unit in error whose application has the charm `wanted`; none if it is not in error. `forced`: whether
/// units in error take that one, too.
fn revisions(local: &Local, wanted: &str, forced: bool) -> Option<ErrorRevisions> {
    let episode = local.episode()?;
    let runs = local.charm.as_ref().map(|charm| charm.url.clone());
    // the installation of a charm is repeated with the newest one
    let unpacks = matches!(episode.operation, Operation::InstallCharm(_));
    match runs.filter(|runs| !forced && !unpacks && runs != wanted) {
        Some(runs) => Some(ErrorRevisions { runs, follows: Some(wanted.to_owned()) }),
        None => Some(ErrorRevisions { runs: wanted.to_owned(), follows: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::failure_reason::FailureReason;
    use crate::terms::operation::{CharmRef, Hook};
    use crate::unit::local::{Episode, Step};
    use std::collections::BTreeSet;

    #[test]
    fn a_unit_in_error_runs_its_revision_until_the_error_has_ended_unless_forced() {
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        let charm = |url: &str| CharmRef {
            sha256: String::new(),
            url: url.to_owned(),
            revision: 0,
            endpoints: BTreeSet::new(),
            resources: String::new(),
        };
        local.charm = Some(charm("local:web-0"));
        assert_eq!(revisions(&local, "local:web-1", false), None, "it is not in error");
        let failed = |operation| Episode {
            id: 1,
            operation,
            reason: FailureReason::Interrupted,
            failures: 1,
            since_ms: 0,
            retry: None,
        };
        let of = |runs: &str, follows: Option<&str>| {
            Some(ErrorRevisions { runs: runs.to_owned(), follows: follows.map(str::to_owned) })
        };
        local.step = Step::Failed(failed(Operation::Hook(Hook::Install)));
        assert_eq!(revisions(&local, "local:web-0", false), of("local:web-0", None));
        assert_eq!(revisions(&local, "local:web-1", false), of("local:web-0", Some("local:web-1")));
        assert_eq!(revisions(&local, "local:web-1", true), of("local:web-1", None));
        local.step = Step::Failed(failed(Operation::InstallCharm(charm("local:web-0"))));
        assert_eq!(revisions(&local, "local:web-1", false), of("local:web-1", None));
    }
}
