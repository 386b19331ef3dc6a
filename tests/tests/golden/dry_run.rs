//! The text of a dry run.

use crate::NOW_MS;
use api::{DryRun, ExpectedHook};
use cli::command_flags::CommandFlags;
use cli::times::Zone;
use state::terms::cause::{Actor, Cause, Duty, Entity, RelationName};
use state::terms::force::Force;
use state::terms::names::UnitName;
use state::terms::operation::{Hook, RelationEvent};
use test_support::golden::compare;

#[test]
fn a_dry_run_renders_as_in_the_golden_file() {
    let web = UnitName::new("web", 0);
    let relation = RelationName { number: 3, ends: "db:server web:db".parse().expect("the ends") };
    let departed = RelationEvent::Departed { unit: UnitName::new("db", 0), departing: web.clone() };
    let hook = Hook::Relation { relation: 3, endpoint: "db".to_owned(), event: departed };
    let result = DryRun {
        removed_immediately: vec![Entity::Relation(relation.clone())],
        dying: vec![Entity::Application("web".to_owned()), Entity::Unit(web.clone())],
        hooks: vec![ExpectedHook { unit: web.clone(), hook }],
        skipped_hooks: vec![ExpectedHook { unit: web.clone(), hook: Hook::Stop }],
        removed_eventually: vec![Entity::Machine("0".to_owned()), Entity::Unit(web.clone())],
        kept: vec![Cause::new(
            Entity::Machine("1".to_owned()),
            Duty::RemoveStorage { storage: vec!["data/0".parse().expect("an id")] },
            Actor::Operator,
        )],
        blockers: vec![Cause::of_unit_agent(&web, Duty::LeaveScopes { relations: vec![relation] })],
        truncated: true,
    };
    let text = |force| {
        format!(
            "# {force:?}\n{}",
            cli::render::dry_run::text(&result, force, NOW_MS, &Zone::new(true), &CommandFlags::default())
        )
    };
    compare("dry_run.txt", &[Force::No, Force::AfterWait, Force::AtOnce].map(text).join("\n"));
}
