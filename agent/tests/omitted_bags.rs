//! Tools that read a bag which is omitted from the view (design 9): the bag is requested once, stored before it
//! is read, and the same for every later read in the hook, whichever agent answers.

mod support;

use agent::hook_session::{CallsFile, ControllerRequest, HookSession};
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{Hook, Operation};
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::terms::settings::Bag;
use state::unit::hook_context::{HookContext, OmittedBags};
use state::unit::relation_view::BagRequest;
use std::collections::BTreeSet;
use std::path::Path;
use support::{answered as printed, ok};

/// web/0 in config-changed, with a relation to mysql/0 whose bag is omitted.
fn context() -> HookContext {
    let mut context = support::context();
    context.relations.get_mut(&1).unwrap().omitted = OmittedBags {
        relation: Uuid(9),
        position: Position { store_generation: Uuid(5), revision: 7 },
        bags: BTreeSet::from([Owner::Unit(UnitName::new("mysql", 0))]),
        ..OmittedBags::default()
    };
    context
}

fn session(run: &Path) -> HookSession<'static> {
    support::session(context(), run)
}

/// One `relation-get -r db:1 host mysql/0`.
fn frame(number: u32) -> Vec<u8> {
    support::frame(number, "relation-get", &["-r", "db:1", "host", "mysql/0"])
}

fn bag_request(request: ControllerRequest) -> BagRequest {
    match request {
        ControllerRequest::Bag(request) => request,
        ControllerRequest::LeaderSettings { change, .. } => panic!("{change:?}"),
        ControllerRequest::Secret(need) => panic!("{need:?}"),
        ControllerRequest::Resource(need) => panic!("{need:?}"),
    }
}

fn bag(host: &str) -> Option<Bag> {
    Some(Bag::from([("host".to_owned(), host.to_owned())]))
}

#[test]
fn a_bag_is_requested_once_in_a_hook_even_if_the_agent_restarts() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path());
    let request = first.answer(&frame(1), None).map_err(bag_request).expect_err("the bag is omitted");
    assert_eq!((request.relation, request.position.revision), (Uuid(9), 7));
    first.insert_bag(&request, Ok(bag("a")));
    assert_eq!(printed(first.answer(&frame(1), None)), ok("a\n"));
    assert_eq!(printed(first.answer(&frame(2), None)), ok("a\n"));

    let mut second = session(run.path());
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")));
    assert_eq!(printed(second.answer(&frame(2), None)), ok("a\n"), "the same call");
    assert_eq!(printed(second.answer(&frame(3), None)), ok("a\n"), "a new one");
}

#[test]
fn a_fetched_bag_that_was_not_read_yet_is_not_requested_again() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path());
    let request = first.answer(&frame(1), None).map_err(bag_request).expect_err("the bag is omitted");
    first.insert_bag(&request, Ok(bag("a")));

    let mut second = session(run.path());
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")));
    assert_eq!(printed(second.answer(&frame(1), None)), ok("a\n"));
}

#[test]
fn a_bag_that_cannot_be_fetched_fails_that_call_only() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path());
    let request = first.answer(&frame(1), None).map_err(bag_request).expect_err("the bag is omitted");
    first.insert_bag(&request, Err("cannot read settings for unit \"mysql/0\": no answer".to_owned()));
    let refused =
        (1, String::new(), "ERROR cannot read settings for unit \"mysql/0\": no answer\n".to_owned());
    assert_eq!(printed(first.answer(&frame(1), None)), refused);

    let mut second = session(run.path());
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")), "the hook is the same");
    assert_eq!(printed(second.answer(&frame(1), None)), refused, "the same call");
    let request =
        second.answer(&frame(2), None).map_err(bag_request).expect_err("a later call requests it again");
    second.insert_bag(&request, Ok(bag("a")));
    assert_eq!(printed(second.answer(&frame(2), None)), ok("a\n"));
}

/// What an earlier agent could mask, this one cannot: another unit may publish the content of a secret.
#[test]
fn a_bag_that_is_fetched_when_contents_are_unknown_is_not_shown() {
    let run = tempfile::tempdir().unwrap();
    support::write_run_file(run.path(), &Operation::Hook(Hook::UpdateStatus), "b", "", &context());
    let mut session = session(run.path());
    session.has_unknown_contents = true;
    let request = session.answer(&frame(1), None).map_err(bag_request).expect_err("the bag is omitted");
    session.insert_bag(&request, Ok(bag("canary-77aa")));
    assert_eq!(printed(session.answer(&frame(1), None)), ok("canary-77aa\n"));
    let shown =
        std::fs::read_to_string(run.path().join("context.masked.yaml")).expect("another context is shown");
    assert!(!shown.contains("canary-77aa"), "{shown}");
}
