//! `why [UNIT|APP|RELATION|MACHINE|model]`: explains what an entity, or everything in the model, waits for, who must
//! act, since when, and which command helps.
//!
//! Several entities are explained in one call. An entity that is unknown, or a word that names none, is reported
//! after the others have been printed.

use crate::command_error::CommandError;
use crate::command_flags::CommandFlags;
use crate::machine_access::{MachineAccess, Target};
use crate::output::Output;
use crate::render::{self, StructuredFormat};
use crate::running_hook::{self, RunningHook};
use crate::session::CommandSession;
use crate::terminal_escape::safe_line;
use crate::times::{Zone, now_ms};
use api::entity_choice::{self, EntityChoice};
use api::error::ErrorCode;
use api::text::entity_state;
use api::{GetStatus, GetWhy, UserPort};
use clap::Args;
use serde_json::Value;
use state::terms::cause::{Cause, Duty, Entity};
use state::terms::names::UnitName;
use std::collections::{BTreeMap, BTreeSet};

/// The processes of hooks, by unit and run.
type RunningHooks = BTreeMap<(UnitName, u64), RunningHook>;

/// Arguments of `why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Units (web/0), applications (web), machines (machine/0), relations (relation/3, or their ends: web:db
    /// db:server, relation web db); by default everything that waits in the model
    pub entities: Vec<String>,
    /// Output format; by default text
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
    /// Show times in UTC
    #[arg(long)]
    pub utc: bool,
}

pub async fn run<A: UserPort>(args: &WhyArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let (mut all, mut refused) = (Vec::new(), None);
    let entities = match args.entities.is_empty() {
        true => vec![Ok(EntityChoice::Model)],
        false => entity_choice::parse(&args.entities),
    };
    for entity in entities {
        let error = match entity {
            Ok(entity) => match session.api.handle(GetWhy { entity }).await {
                Ok(why) => {
                    all.push(why);
                    continue;
                }
                Err(error) if error.code == ErrorCode::Unreachable => return Err(error.into()),
                Err(error) => error.into(),
            },
            Err(bad) => CommandError::usage(bad.to_string()),
        };
        // An unknown entity must not suppress the explanations of the others.
        let lines = |known: CommandError| format!("{}\n{}", known.message, error.message);
        let message = refused.take().map_or_else(|| error.message.clone(), lines);
        refused = Some(CommandError { message, ..error });
    }
    if !all.is_empty() {
        print(&all, args, session).await?;
        // The command line was understood in part.
        refused = refused.map(|error| CommandError { code: 1, ..error });
    }
    refused.map_or(Ok(()), Err)
}

/// The processes of the hooks that are to finish, by cause, as far as their machines can be accessed without a login.
async fn running_hooks<A: UserPort>(all: &[api::Why], session: &CommandSession<A>) -> RunningHooks {
    let mut running = RunningHooks::new();
    let runs: BTreeSet<(UnitName, u64)> = all.iter().flat_map(|why| &why.causes).filter_map(run_of).collect();
    if runs.is_empty() {
        return running;
    }
    // what is explained already counts without the processes
    let Ok(status) = session.api.handle(GetStatus).await else { return running };
    for (unit, run) in runs {
        let name = unit.to_string();
        let access = MachineAccess::find(&Target::new(&name), &[], &status, &session.dir);
        running
            .extend(access.ok().map(|access| ((unit.clone(), run), running_hook::find(&access, &unit, run))));
    }
    running
}

/// The unit and the run that a cause waits for.
fn run_of(cause: &Cause) -> Option<(UnitName, u64)> {
    match (&cause.entity, &cause.duty) {
        (Entity::Unit(unit), Duty::Finish { run, .. }) => Some((unit.clone(), *run)),
        _ => None,
    }
}

async fn print<A: UserPort>(
    all: &[api::Why],
    args: &WhyArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let running = running_hooks(all, session).await;
    let all = &all.iter().map(|why| with_debug_sessions(why, &running)).collect::<Vec<_>>();
    if let Some(format) = args.format {
        // One entity is printed as an object, several as a list.
        let mut values: Vec<Value> =
            all.iter().map(|why| structured(why, now_ms(), &running, &session.output)).collect();
        let value = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
        return session.output.print(&render::structured(&value, format)?);
    }
    let (now, zone) = (now_ms(), Zone::new(args.utc));
    let flags = session.output.flags();
    let text: String = all.iter().map(|why| text(why, now, &running, &zone, flags)).collect();
    session.output.print(&text)
}

/// The explanation with the debug sessions of users: a hook that runs in one waits for its user.
fn with_debug_sessions(why: &api::Why, running: &RunningHooks) -> api::Why {
    let is_debugged =
        |cause: &Cause| run_of(cause).and_then(|run| running.get(&run)).is_some_and(|hook| hook.is_debugged);
    let causes = why.causes.iter().cloned();
    let causes = causes.map(|cause| if is_debugged(&cause) { cause.in_debug_session() } else { cause });
    api::Why { causes: causes.collect(), ..why.clone() }
}

/// The text for one entity: a line for the entity, then two lines for each cause.
pub fn text(
    why: &api::Why,
    now_ms: i64,
    running: &RunningHooks,
    zone: &Zone,
    flags: &CommandFlags,
) -> String {
    let now = entity_state::describe(&why.now);
    let mut text = safe_line(&format!("{}: {}, {now}", why.entity, why.life)) + "\n";
    match (why.causes.is_empty(), why.more) {
        (true, false) => text += "  waits for nothing\n",
        (true, true) => {
            text += "  nothing that was examined waits; there is more: ask for an entity by its name\n"
        }
        (false, _) => {}
    }
    for cause in &why.causes {
        text += &render::cause::lines(cause, now_ms, zone, flags);
        if let Some(hook) = run_of(cause).and_then(|run| running.get(&run)) {
            text += &safe_line(&format!("    {hook}"));
            text.push('\n');
        }
    }
    if why.more && !why.causes.is_empty() {
        text += "  and more\n";
    }
    text
}

fn structured(why: &api::Why, now_ms: i64, running: &RunningHooks, output: &Output) -> Value {
    let mut value = serde_json::to_value(why).expect("plain data");
    value["now"] = entity_state::describe(&why.now).into();
    let cause = |cause: &Cause| {
        let mut value = render::cause::structured(cause, now_ms, output);
        if let Some(hook) = run_of(cause).and_then(|run| running.get(&run)) {
            value["process"] = hook.document();
        }
        value
    };
    value["causes"] = why.causes.iter().map(cause).collect();
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::EntityState;
    use state::terms::activity::Activity;
    use state::terms::cause::Actor;
    use state::terms::hook_name::HookName;
    use state::terms::life::Life;
    use test_support::golden::compare;

    #[test]
    fn each_cause_is_a_sentence_with_its_hint_below_it() {
        let name = UnitName::new("web", 0);
        let cause = Cause::of_unit_agent(&name, Duty::Terminate { relations: vec![] });
        let why = api::Why {
            entity: Entity::Application("web".to_owned()),
            life: Life::Dying,
            now: EntityState::Application { units: 1 },
            // 10:00:05
            causes: vec![cause.since(36_005_000).last_error("exit status 1\nsecond line".to_owned())],
            more: true,
        };
        compare(
            "commands/why.txt",
            &text(
                &why,
                36_005_000 + 125_000,
                &RunningHooks::new(),
                &Zone::new(true),
                &CommandFlags::default(),
            ),
        );
        let json =
            structured(&why, 0, &RunningHooks::new(), &Output::new(None, std::io::sink(), std::io::sink()));
        assert_eq!(json["causes"][0]["actor"], serde_json::json!({ "unit-agent": "web/0" }));
        assert!(json["causes"][0]["message"].is_string() && json["causes"][0]["hint"].is_string(), "{json}");
    }

    #[test]
    fn a_hook_in_a_debug_session_waits_for_its_user_and_not_for_the_charm() {
        let unit = UnitName::new("web", 0);
        let activity = Activity::hook(HookName::UpdateStatus);
        let duty = |run| Duty::Finish {
            activity: activity.clone(),
            run,
            machine: "0".to_owned(),
            lock_waiters: vec![],
        };
        let cause = |run| Cause::new(Entity::Unit(unit.clone()), duty(run), Actor::Charm);
        let why = api::Why {
            entity: Entity::Unit(unit.clone()),
            life: Life::Alive,
            now: EntityState::Machine { units: 1, hook_lock: None },
            causes: vec![cause(7), cause(8)],
            more: false,
        };
        let hook = |is_debugged| RunningHook { folder: "f".to_owned(), pid: None, is_debugged };
        let running = RunningHooks::from([((unit.clone(), 7), hook(true)), ((unit.clone(), 8), hook(false))]);
        let [debugged, other] = &with_debug_sessions(&why, &running).causes[..] else { panic!("two") };
        let expected = Duty::EndDebugSession { activity: activity.clone(), lock_waiters: vec![] };
        assert_eq!((&debugged.duty, &debugged.actor), (&expected, &Actor::Operator));
        assert_eq!(*other, cause(8));
    }

    #[test]
    fn an_entity_without_causes_waits_for_nothing() {
        let entity = Entity::Application("web".to_owned());
        let now = EntityState::Application { units: 2 };
        let why = api::Why { entity, life: Life::Alive, now, causes: vec![], more: false };
        compare(
            "commands/why_idle.txt",
            &text(&why, 0, &RunningHooks::new(), &Zone::new(true), &CommandFlags::default()),
        );
    }
}
