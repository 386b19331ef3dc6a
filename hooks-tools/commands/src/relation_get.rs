//! relation-get: prints the settings of a unit or an application in a relation (spec/hook-tools.md 2.1).
//!
//! Settings that the view omits are fetched before the tool answers; they are never read as empty.

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT, RELATION};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use crate::value::Value;
use state::terms::names::{RelationNumber, UnitName, is_application_name};
use state::terms::owner::Owner;
use state::terms::settings::Bag;
use state::unit::hook_context::BagSide;

pub const TOOL: Tool = Tool {
    name: "relation-get",
    arguments: "<key> <unit or application>",
    summary: "Get relation settings.",
    details: "Prints one setting, or all of them if no key or \"-\" is given.\n\
        The default is the remote unit of the hook, or the remote application if there is no such unit.",
    flags: &[FORMAT, OUTPUT, RELATION, APP],
    requires_utf8: false,
    is_confidential: false,
    run,
};

const APP: Flag = Flag {
    names: &["app"],
    kind: FlagKind::Switch,
    help: "Get the settings of the overall application, not of a unit",
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.relation()?;
    let owner = requested_owner(call)?;
    let key = call.positionals(2)?.first().map(String::as_str).filter(|key| !key.is_empty() && *key != "-");
    let mut bag = bag(call, owner)?;
    Ok(ToolOutput::value(match key {
        Some(key) => bag.remove(key).map_or(Value::Nil, Value::Text),
        None => Value::from(bag),
    }))
}

/// The owner that the arguments name. The default is the remote unit of the hook, or its remote application in a hook
/// without a remote unit (created, broken, changed of the application).
fn requested_owner(call: &Invocation) -> Result<Owner, ToolError> {
    let application = call.parsed.is_on("app");
    if let Some(name) = call.parsed.positionals.get(1).filter(|name| !name.is_empty()) {
        return match (name.parse::<UnitName>(), application) {
            (Ok(unit), false) => Ok(Owner::Unit(unit)),
            (Ok(unit), true) => Ok(Owner::Application(unit.application)),
            (Err(_), true) => Ok(Owner::Application(name.clone())),
            (Err(_), false) if is_application_name(name) => {
                usage(format!("expected unit name, got application name {}", quote(name)))
            }
            (Err(_), false) => usage(format!("invalid unit name {}", quote(name))),
        };
    }
    match call.context.trigger.relation_context() {
        Some(about) => Ok(match &about.unit {
            Some(unit) if !application => Owner::Unit(unit.clone()),
            _ => Owner::Application(about.application.clone()),
        }),
        None => usage("no unit or application specified"),
    }
}

/// Returns the settings of `owner`, if this unit may read them (spec/uniter.md C.3). A unit may read everything of the
/// remote application and the settings of every unit of its own application. It may read the settings of its own
/// application in a peer relation or as leader.
fn bag(call: &Invocation, owner: Owner) -> Result<Bag, ToolError> {
    let (number, relation) = call.relation()?;
    let context = &*call.context;
    let own_application = &context.unit.application;
    match owner {
        Owner::Unit(unit) if unit == context.unit => Ok(context.own_bag(number, BagSide::Unit)),
        Owner::Unit(unit) => {
            if unit.application != relation.remote_application && unit.application != *own_application {
                return failed("permission denied");
            }
            let owner = Owner::Unit(unit.clone());
            match unit.application == *own_application {
                true => call.require_bag(number, &owner)?,
                false => require_bag(call, number, &owner)?,
            }
            relation.unit_bags.get(&unit).cloned().ok_or_else(|| {
                ToolError::Failed(format!(
                    "cannot read settings for unit \"{unit}\" in relation {}: unit \"{unit}\": settings not found",
                    quote(&relation.ends.to_string())
                ))
            })
        }
        Owner::Application(name) if name == *own_application => match context.leader || relation.peer {
            true => {
                require_bag(call, number, &Owner::Application(name.clone()))?;
                Ok(context.own_bag(number, BagSide::Application))
            }
            false => failed("permission denied"),
        },
        Owner::Application(name) if name == relation.remote_application => {
            require_bag(call, number, &Owner::Application(name.clone()))?;
            Ok(relation.application_bags.get(&name).cloned().unwrap_or_default())
        }
        Owner::Application(_) => failed("permission denied"),
    }
}

/// Requires that the bag of `owner` is in the context: an omitted bag is fetched first. If it was removed with its
/// relation meanwhile, the tool fails with a text that ops recognises (spec/hook-tools.md 7).
fn require_bag(call: &Invocation, number: RelationNumber, owner: &Owner) -> Result<(), ToolError> {
    call.require_bag(number, owner)?;
    let (_, relation) = call.relation()?;
    match relation.omitted.removed.contains(owner) {
        true => failed(format!(
            "cannot read settings for {owner} in relation {}: relation not found",
            quote(&relation.ends.to_string())
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_context::{call, relation_context};
    use crate::{CallOutcome, Inputs, Need};
    use state::terms::names::Uuid;
    use state::terms::position::Position;
    use state::unit::hook_context::{HookContext, OmittedBags};
    use state::unit::relation_view::BagRequest;
    use std::collections::{BTreeMap, BTreeSet};

    const AT: Position = Position { store_generation: Uuid(5), revision: 7 };

    /// web/0 in a hook about mysql/0, with a view that omits the bags of `owners`.
    fn context_without(owners: &[Owner]) -> HookContext {
        let mut context = relation_context();
        let bags = BTreeSet::from_iter(owners.iter().cloned());
        let written =
            BTreeMap::from([("port".to_owned(), "2".to_owned()), ("old".to_owned(), String::new())]);
        let omitted = OmittedBags {
            relation: Uuid(9),
            position: AT,
            bags,
            pending_application_writes: written,
            ..OmittedBags::default()
        };
        context.relations.get_mut(&1).unwrap().omitted = omitted;
        context
    }

    fn mysql() -> Owner {
        Owner::Unit(UnitName::new("mysql", 0))
    }

    fn bag(pairs: &[(&str, &str)]) -> Bag {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    fn requested_bag(context: &mut HookContext, tool: &str, words: &[&str]) -> BagRequest {
        let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let before = context.clone();
        let CallOutcome::Need(Need::Bag(request)) = crate::call(context, tool, &args, &Inputs::default())
        else {
            panic!("{tool} does not request a bag")
        };
        assert_eq!(*context, before, "a request changes nothing");
        request
    }

    fn printed(context: &mut HookContext, words: &[&str]) -> String {
        String::from_utf8(call(context, "relation-get", words).stdout).unwrap()
    }

    #[test]
    fn an_omitted_bag_is_fetched_as_of_the_hooks_view_and_never_read_as_empty() {
        let mut context = context_without(&[mysql()]);
        let request = requested_bag(&mut context, "relation-get", &["-"]);
        assert_eq!(request, BagRequest { relation: Uuid(9), owner: mysql(), position: AT });
        context.insert_bag(&request, Some(bag(&[("host", "a")])));
        assert_eq!(printed(&mut context, &["host"]), "a\n");
    }

    /// Juju lets a unit read what another unit of its application has published, which causes no hook.
    #[test]
    fn the_bag_of_another_unit_of_the_own_application_is_fetched_in_a_relation_with_another_one() {
        let mut context = context_without(&[]);
        let fellow = Owner::Unit(UnitName::new("web", 7));
        let request = requested_bag(&mut context, "relation-get", &["-", "web/7"]);
        assert_eq!(request, BagRequest { relation: Uuid(9), owner: fellow, position: AT });
        let mut absent = context.clone();
        context.insert_bag(&request, Some(bag(&[("host", "a")])));
        context.insert_bag(&request, Some(bag(&[("host", "b")])));
        assert_eq!(printed(&mut context, &["host", "web/7"]), "a\n");
        absent.insert_bag(&request, None);
        let reply = call(&mut absent, "relation-get", &["-", "web/7"]);
        assert_eq!(reply.code, 1);
        assert!(String::from_utf8(reply.stderr).unwrap().contains("settings not found"));
    }

    #[test]
    fn every_read_returns_the_bag_that_was_fetched_first() {
        let mut context = context_without(&[mysql()]);
        let request = requested_bag(&mut context, "relation-get", &["-"]);
        context.insert_bag(&request, Some(bag(&[("host", "a")])));
        context.insert_bag(&request, Some(bag(&[("host", "b")])));
        context.insert_bag(&request, None);
        assert_eq!(printed(&mut context, &["host"]), "a\n");
    }

    #[test]
    fn a_bag_that_was_removed_with_its_relation_is_reported_as_not_found() {
        for (owner, words, owner_text) in [
            (mysql(), &["-", "mysql/0"][..], "unit \"mysql/0\""),
            (Owner::Application("mysql".into()), &["--app"][..], "application \"mysql\""),
        ] {
            let mut context = context_without(&[owner]);
            let request = requested_bag(&mut context, "relation-get", words);
            context.insert_bag(&request, None);
            let reply = call(&mut context, "relation-get", words);
            let text = format!(
                "ERROR cannot read settings for {owner_text} in relation \"mysql:server web:db\": relation not found\n"
            );
            assert_eq!((reply.code, String::from_utf8(reply.stderr).unwrap()), (1, text));
        }
    }

    #[test]
    fn a_leader_reads_and_writes_its_applications_bag_with_its_unsent_writes_applied() {
        let own = Owner::Application("web".into());
        let mut context = context_without(std::slice::from_ref(&own));
        let request = requested_bag(&mut context, "relation-set", &["--app", "port=3"]);
        assert_eq!(request.owner, own);
        context.insert_bag(&request, Some(bag(&[("port", "1"), ("old", "1"), ("host", "1")])));
        assert_eq!(context.own_bag(1, BagSide::Application), bag(&[("port", "2"), ("host", "1")]));
        call(&mut context, "relation-set", &["--app", "port=2", "new=1"]);
        assert_eq!(context.writes.bags[&1].application, bag(&[("new", "1")]), "only differences");
    }

    #[test]
    fn a_tool_that_needs_no_other_bag_requests_none() {
        let mut context = context_without(&[mysql(), Owner::Application("web".into())]);
        assert_eq!(call(&mut context, "relation-set", &["a=1"]).code, 0);
        assert_eq!(printed(&mut context, &["a", "web/0"]), "1\n");
        assert_eq!(printed(&mut context, &["--app", "-"]), "{}\n");
    }
}
