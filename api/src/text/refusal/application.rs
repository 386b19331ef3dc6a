//! Refusals of requests about applications, in English.

use crate::text::refusal::problem::{self, joined};
use crate::text::refusal::refusal_text::{RefusalText, plain, with_hint};
use state::terms::refusal::application::{ApplicationRefusal, ApplicationRequest};

/// Which names of applications and models are valid.
const NAME_RULE: &str =
    "use lower-case letters, digits and hyphens; start with a letter; no part may be only digits";

pub(super) fn text(reason: &ApplicationRefusal) -> RefusalText {
    match reason {
        ApplicationRefusal::BeingRemoved { application, request } => plain(format!(
            "cannot {} {application}: application {application} is being removed",
            request_words(*request)
        )),
        ApplicationRefusal::SubordinateUnits { application } => with_hint(
            format!(
                "cannot add units of {application}: it is a subordinate, whose units follow those of principals"
            ),
            "deploy it without --num-units and --to, and integrate it",
        ),
        ApplicationRefusal::SubordinateConstraints { application } => with_hint(
            format!("cannot use constraints with {application}: it is a subordinate"),
            "set them for its principal: its units are on the same machines",
        ),
        ApplicationRefusal::FakePlaced { application } => with_hint(
            format!(
                "cannot place a unit of {application}: it is a fake application, whose units have no agents"
            ),
            "add the unit without --to",
        ),
        ApplicationRefusal::CannotBeFake { charm } => plain(format!(
            "cannot deploy charm {charm} as a fake application: it is a subordinate or has storage, which needs agents"
        )),
        ApplicationRefusal::NotFake { application } => {
            plain(format!("cannot set what {application} publishes: it is not a fake application"))
        }
        ApplicationRefusal::FakeInContainer { application } => plain(format!(
            "cannot set what a unit of {application} publishes: the relation has container scope, which needs agents"
        )),
        ApplicationRefusal::FakeSettingsTooLarge { application, bytes, max } => {
            plain(format!("cannot set what {application} publishes: it takes {bytes} bytes, at most {max}"))
        }
        ApplicationRefusal::InvalidName { name } => {
            with_hint(format!("invalid application name {name:?}"), NAME_RULE)
        }
        ApplicationRefusal::NameTooLong { length, max } => with_hint(
            format!("invalid application name of {length} characters: at most {max}"),
            "use a shorter name",
        ),
        ApplicationRefusal::AlreadyExists { name } => {
            with_hint(format!("application {name:?} already exists"), "deploy it under another name")
        }
        ApplicationRefusal::PredecessorExists { name } => {
            plain(format!("application {name:?} already exists and is being removed"))
        }
        ApplicationRefusal::NeedsKubernetes { charm } => {
            plain(format!("charm {charm} has workload containers: it needs Kubernetes"))
        }
        ApplicationRefusal::TooManyPeers { charm, peers, max } => {
            plain(format!("cannot use charm {charm}: it has {peers} peer relations, at most {max}"))
        }
        ApplicationRefusal::InvalidSettings { problems } => plain(joined(problems, problem::option)),
        ApplicationRefusal::UndeclaredResources { charm, resources } => with_hint(
            format!("charm {charm} does not declare these resources: {}", resources.join(", ")),
            "the resources of an application are listed by: pintle resources APPLICATION",
        ),
        ApplicationRefusal::TooManyResources { count, max } => with_hint(
            format!("cannot attach {count} resources at once: at most {max}"),
            "attach the others afterwards: pintle attach-resource APPLICATION NAME=FILE",
        ),
        ApplicationRefusal::OtherCharm { application, current, charm } => with_hint(
            format!("cannot refresh {application}: it runs charm {current}, not {charm}"),
            "deploy another charm as another application",
        ),
        ApplicationRefusal::SubordinateChanged { application } => {
            plain(format!("cannot refresh {application}: a charm cannot become or cease to be a subordinate"))
        }
        ApplicationRefusal::TooManyRelations { application } => {
            plain(format!("cannot refresh {application}: it has too many relations to change endpoints"))
        }
        ApplicationRefusal::BreaksRelation { application, ends } => {
            plain(format!("cannot refresh {application}: it would break relation \"{ends}\""))
        }
        ApplicationRefusal::NoLeader { application } => {
            plain(format!("application {application:?} has no leader at the moment"))
        }
    }
}

/// The request as the text after `cannot`.
fn request_words(request: ApplicationRequest) -> &'static str {
    match request {
        ApplicationRequest::Integrate => "integrate",
        ApplicationRequest::AddUnit => "add a unit to",
        ApplicationRequest::Refresh => "refresh",
        ApplicationRequest::AttachResource => "attach a resource to",
    }
}
