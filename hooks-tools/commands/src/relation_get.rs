//! relation-get: a unit's or application's settings in a relation (spec/hook-tools.md 2.1).

use crate::flags::{FORMAT, Flag, Kind, OUTPUT, RELATION};
use crate::quote::quote;
use crate::tool::{Answer, Call, Stop, Tool, failed, usage};
use crate::value::Value;
use state::names::{UnitName, is_application_name};
use state::settings::Bag;
use state::unit::hook::Side;

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
            if relation.unknown_bags.contains(&unit) {
                return failed(format!(
                    "cannot read settings for unit \"{unit}\": not fetched from the controller"
                ));
            }
            relation.unit_bags.get(&unit).cloned().ok_or_else(|| {
                Stop::Failed(format!(
                    "cannot read settings for unit \"{unit}\" in relation {}: unit \"{unit}\": settings not found",
                    quote(&relation.key)
                ))
            })
        }
        Whose::Application(name) if name == *own_application => match context.leader || relation.peer {
            true => Ok(context.own_bag(number, Side::Application)),
            false => failed("permission denied"),
        },
        Whose::Application(name) if name == relation.remote_application => {
            Ok(relation.application_bags.get(&name).cloned().unwrap_or_default())
        }
        Whose::Application(_) => failed("permission denied"),
    }
}
