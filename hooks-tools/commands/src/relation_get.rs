//! relation-get: a unit's or application's settings in a relation (spec/hook-tools.md 2.1).

use crate::flags::{FORMAT, Flag, Kind, OUTPUT, RELATION};
use crate::quote::quote;
use crate::tool::{Answer, Call, Stop, Tool, failed, usage};
use crate::value::Value;
use state::names::{RelationNumber, UnitName, is_application_name};
use state::settings::Bag;
use state::unit::hook::Side;
use state::unit::snapshot::Owner;

pub const TOOL: Tool = Tool {
    name: "relation-get",
    arguments: "<key> <unit or application>",
    summary: "Get relation settings.",
    details: "Prints one setting, or all of them if no key or \"-\" is given.\n\
        The default is the remote unit of the hook, or the remote application if there is no such unit.",
    flags: &[FORMAT, OUTPUT, RELATION, APP],
    run,
};

const APP: Flag = Flag {
    names: &["app"],
    kind: Kind::Switch,
    help: "Get the settings of the overall application, not of a unit",
};

/// Whose settings.
enum Whose {
    Unit(UnitName),
    Application(String),
}

fn run(call: &mut Call) -> Result<Answer, Stop> {
    call.relation()?;
    let whose = whose(call)?;
    let words = call.words(2)?;
    let key = words.first().map(String::as_str).filter(|key| !key.is_empty() && *key != "-");
    let mut bag = bag(call, whose)?;
    Ok(Answer::value(match key {
        Some(key) => bag.remove(key).map_or(Value::Nil, Value::Text),
        None => Value::from(bag),
    }))
}

/// Named, or the hook's remote unit, or (created, broken, application-level changed) its remote application.
fn whose(call: &Call) -> Result<Whose, Stop> {
    let application = call.parsed.on("app");
    if let Some(name) = call.parsed.words.get(1).filter(|name| !name.is_empty()) {
        return match (name.parse::<UnitName>(), application) {
            (Ok(unit), false) => Ok(Whose::Unit(unit)),
            (Ok(unit), true) => Ok(Whose::Application(unit.application)),
            (Err(_), true) => Ok(Whose::Application(name.clone())),
            (Err(_), false) if is_application_name(name) => {
                usage(format!("expected unit name, got application name {}", quote(name)))
            }
            (Err(_), false) => usage(format!("invalid unit name {}", quote(name))),
        };
    }
    match call.context.cause.counterpart() {
        Some(about) => Ok(match &about.unit {
            Some(unit) if !application => Whose::Unit(unit.clone()),
            _ => Whose::Application(about.application.clone()),
        }),
        None => usage("no unit or application specified"),
    }
}

/// The settings, if this unit may read them: all of the remote side; of the own side every unit's, and the
/// application's in a peer relation or as leader (spec/uniter.md C.3).
fn bag(call: &Call, whose: Whose) -> Result<Bag, Stop> {
    let (number, relation) = call.relation()?;
    let context = &*call.context;
    let own_application = &context.unit.application;
    match whose {
        Whose::Unit(unit) if unit == context.unit => Ok(context.own_bag(number, Side::Unit)),
        Whose::Unit(unit) => {
            if unit.application != relation.remote_application && unit.application != *own_application {
                return failed("permission denied");
            }
            fetched(call, number, &Owner::Unit(unit.clone()))?;
            relation.unit_bags.get(&unit).cloned().ok_or_else(|| {
                Stop::Failed(format!(
                    "cannot read settings for unit \"{unit}\" in relation {}: unit \"{unit}\": settings not found",
                    quote(&relation.key)
                ))
            })
        }
        Whose::Application(name) if name == *own_application => match context.leader || relation.peer {
            true => {
                fetched(call, number, &Owner::Application(name.clone()))?;
                Ok(context.own_bag(number, Side::Application))
            }
            false => failed("permission denied"),
        },
        Whose::Application(name) if name == relation.remote_application => {
            fetched(call, number, &Owner::Application(name.clone()))?;
            Ok(relation.application_bags.get(&name).cloned().unwrap_or_default())
        }
        Whose::Application(_) => failed("permission denied"),
    }
}

/// What did not come along is fetched first. It may be gone by then, with its relation: ops knows these words, and reads
/// nothing (spec/hook-tools.md 7).
fn fetched(call: &Call, number: RelationNumber, owner: &Owner) -> Result<(), Stop> {
    call.have(number, owner)?;
    let (_, relation) = call.relation()?;
    match relation.withheld.gone.contains(owner) {
        true => failed(format!(
            "cannot read settings for {owner} in relation {}: relation not found",
            quote(&relation.key)
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{call, relation_context};
    use crate::{Inputs, Need, Outcome};
    use state::names::Uuid;
    use state::unit::hook::{HookContext, Withheld};
    use state::unit::snapshot::{BagAsked, Position};
    use std::collections::{BTreeMap, BTreeSet};

    const AT: Position = Position { history: Uuid(5), revision: 7 };

    /// web/0, in a hook about mysql/0; these bags did not come along.
    fn without(owners: &[Owner]) -> HookContext {
        let mut context = relation_context();
        let bags = BTreeSet::from_iter(owners.iter().cloned());
        let written =
            BTreeMap::from([("mine".to_owned(), "2".to_owned()), ("old".to_owned(), String::new())]);
        let withheld =
            Withheld { relation: Uuid(9), at: AT, bags, application_written: written, ..Withheld::default() };
        context.relations.get_mut(&1).unwrap().withheld = withheld;
        context
    }

    fn mysql() -> Owner {
        Owner::Unit(UnitName::new("mysql", 0))
    }

    fn bag(pairs: &[(&str, &str)]) -> Bag {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    fn asks(context: &mut HookContext, tool: &str, words: &[&str]) -> BagAsked {
        let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let before = context.clone();
        let Outcome::Need(Need::Bag(asked)) = crate::call(context, tool, &args, &Inputs::default()) else {
            panic!("{tool} does not ask")
        };
        assert_eq!(*context, before, "asking changes nothing");
        asked
    }

    fn printed(context: &mut HookContext, words: &[&str]) -> String {
        String::from_utf8(call(context, "relation-get", words).stdout).unwrap()
    }

    #[test]
    fn a_withheld_bag_is_asked_for_as_of_the_hooks_view_and_never_read_as_empty() {
        let mut context = without(&[mysql()]);
        let asked = asks(&mut context, "relation-get", &["-"]);
        assert_eq!(asked, BagAsked { relation: Uuid(9), owner: mysql(), at: AT });
        context.take_bag(&asked, Some(bag(&[("host", "a")])));
        assert_eq!(printed(&mut context, &["host"]), "a\n");
    }

    #[test]
    fn what_was_fetched_first_is_what_every_later_read_finds() {
        let mut context = without(&[mysql()]);
        let asked = asks(&mut context, "relation-get", &["-"]);
        context.take_bag(&asked, Some(bag(&[("host", "a")])));
        context.take_bag(&asked, Some(bag(&[("host", "b")])));
        context.take_bag(&asked, None);
        assert_eq!(printed(&mut context, &["host"]), "a\n");
    }

    #[test]
    fn a_bag_that_went_with_its_relation_is_said_to_be_gone() {
        for (owner, words, whose) in [
            (mysql(), &["-", "mysql/0"][..], "unit \"mysql/0\""),
            (Owner::Application("mysql".into()), &["--app"][..], "application \"mysql\""),
        ] {
            let mut context = without(&[owner]);
            let asked = asks(&mut context, "relation-get", words);
            context.take_bag(&asked, None);
            let reply = call(&mut context, "relation-get", words);
            let text = format!(
                "ERROR cannot read settings for {whose} in relation \"web:db mysql:server\": relation not found\n"
            );
            assert_eq!((reply.code, String::from_utf8(reply.stderr).unwrap()), (1, text));
        }
    }

    #[test]
    fn a_leader_reads_and_writes_its_applications_bag_on_top_of_what_it_wrote_before() {
        let own = Owner::Application("web".into());
        let mut context = without(std::slice::from_ref(&own));
        let asked = asks(&mut context, "relation-set", &["--app", "mine=3"]);
        assert_eq!(asked.owner, own);
        context.take_bag(&asked, Some(bag(&[("mine", "1"), ("old", "1"), ("kept", "1")])));
        assert_eq!(context.own_bag(1, Side::Application), bag(&[("mine", "2"), ("kept", "1")]));
        call(&mut context, "relation-set", &["--app", "mine=2", "new=1"]);
        assert_eq!(context.writes.bags[&1].application, bag(&[("new", "1")]), "only differences");
    }

    #[test]
    fn what_needs_no_other_bag_asks_for_none() {
        let mut context = without(&[mysql(), Owner::Application("web".into())]);
        assert_eq!(call(&mut context, "relation-set", &["a=1"]).code, 0);
        assert_eq!(printed(&mut context, &["a", "web/0"]), "1\n");
        assert_eq!(printed(&mut context, &["--app", "-"]), "{}\n");
    }
}
