//! `why UNIT|APP|RELATION`: what holds an entity up, who owes it, since when, and what helps.

use crate::failure::Failure;
use crate::render::{self, Format};
use crate::session::Session;
use crate::terminal::safe_line;
use crate::times::{Zone, ago};
use api::error::ErrorCode;
use api::{Cause, GetWhy, UserPort};
use clap::Args;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
pub struct Why {
    /// Units (web/0), applications (web), machines (machine/0), relations (relation/3, or their ends: web:db db:server)
    #[arg(required = true)]
    pub entities: Vec<String>,
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    #[arg(long)]
    pub utc: bool,
}

pub async fn run<A: UserPort>(args: &Why, at: &Session<A>) -> Result<(), Failure> {
    let (mut all, mut refused) = (Vec::new(), None);
    for entity in entities(&args.entities) {
        match at.api.handle(GetWhy { entity: entity.to_owned() }).await {
            Ok(why) => all.push(why),
            // one that is not known does not keep the others from being told
            Err(error) if error.code != ErrorCode::Unreachable => {
                let lines = |known: Failure| format!("{}\n{}", known.message, error.message);
                let message = refused.take().map_or_else(|| error.message.clone(), lines);
                refused = Some(Failure { message, ..error.into() });
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !all.is_empty() {
        tell(&all, args, at)?;
    }
    refused.map_or(Ok(()), Err)
}

fn tell<A>(all: &[api::Why], args: &Why, at: &Session<A>) -> Result<(), Failure> {
    if let Some(format) = args.format {
        // One entity is itself, several are a list.
        let value = match all {
            [why] => serde_json::to_value(why),
            all => serde_json::to_value(all),
        };
        return at.output.say(&render::structured(&value.expect("plain data"), format)?);
    }
    let (now, zone) = (now_ms(), Zone::new(args.utc));
    at.output.say(&all.iter().map(|why| text(why, now, &zone)).collect::<String>())
}

/// Words to entities: a kind takes its name along (`machine 0`), and two words of which one names an endpoint are the
/// ends of a relation.
fn entities(words: &[String]) -> Vec<String> {
    let (mut words, mut all) = (words, Vec::new());
    while let [first, rest @ ..] = words {
        let kind = matches!(first.as_str(), "unit" | "application" | "machine" | "relation");
        let length = match rest {
            [a, b, ..] if first == "relation" && (a.contains(':') || b.contains(':')) => 3,
            [next, ..] if kind || first.contains(':') || next.contains(':') => 2,
            _ => 1,
        };
        all.push(words[..length].join(" "));
        words = &words[length..];
    }
    all
}

/// The entity in one line, then a line for each cause.
pub fn text(why: &api::Why, now_ms: i64, zone: &Zone) -> String {
    let doing = if why.now.is_empty() { String::new() } else { format!(", {}", why.now) };
    let mut text = safe_line(&format!("{}: {}{doing}", why.entity, why.life)) + "\n";
    if why.causes.is_empty() {
        text += "  waits for nothing\n";
    }
    for one in &why.causes {
        text += &format!("  {}\n", safe_line(&cause(one, &why.entity, now_ms, zone)));
    }
    if why.more {
        text += "  and more\n";
    }
    text
}

/// `waits: X; owed by Y since 10:00:05Z (2m); last error: Z; help: C`. Another entity than the one asked about is
/// named.
fn cause(cause: &Cause, asked: &str, now_ms: i64, zone: &Zone) -> String {
    let who = if cause.entity == asked { String::new() } else { format!("{} ", cause.entity) };
    let mut text = format!("{who}waits: {}; owed by {}", cause.duty, cause.owner);
    text += &since(cause, now_ms, zone);
    if let Some(error) = &cause.last_error {
        text += &format!("; last error: {error}");
    }
    if !cause.help.is_empty() {
        text += &format!("; help: {}", cause.help);
    }
    text
}

/// ` since 10:00:05Z (2m)`; nothing where that is not known.
pub fn since(cause: &Cause, now_ms: i64, zone: &Zone) -> String {
    cause
        .since_ms
        .map_or(String::new(), |since| format!(" since {} ({})", zone.of_day(since), ago(now_ms - since)))
}

/// By the clock of who asks.
pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::life::Life;

    #[test]
    fn each_cause_is_one_line_with_owner_since_and_help() {
        let why = api::Why {
            entity: "application web".to_owned(),
            life: Life::Dying,
            now: String::new(),
            causes: vec![Cause {
                entity: "unit web/0".to_owned(),
                duty: "run its stop hook again".to_owned(),
                owner: "unit agent of web/0".to_owned(),
                since_ms: Some(36_005_000), // 10:00:05
                last_error: Some("exit status 1\nsecond line".to_owned()),
                help: "pintle resolved web/0".to_owned(),
            }],
            more: true,
        };
        assert_eq!(
            text(&why, 36_005_000 + 125_000, &Zone::new(true)),
            "application web: dying\n  unit web/0 waits: run its stop hook again; owed by unit agent of web/0 \
             since 10:00:05Z (2m); last error: exit status 1 second line; help: pintle resolved web/0\n  and \
             more\n"
        );
    }

    #[test]
    fn several_entities_may_be_named_in_every_form() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            entities(&words).join(", ")
        };
        assert_eq!(of("web/0 db 3 machine/0"), "web/0, db, 3, machine/0");
        assert_eq!(of("web:db db web/1"), "web:db db, web/1");
        assert_eq!(of("machine 0 relation 3 web"), "machine 0, relation 3, web");
        assert_eq!(of("relation web:db db:server web"), "relation web:db db:server, web");
    }

    #[test]
    fn nothing_to_wait_for_is_said() {
        let entity = "unit web/0".to_owned();
        let why = api::Why { entity, life: Life::Alive, now: "idle".to_owned(), causes: vec![], more: false };
        assert_eq!(text(&why, 0, &Zone::new(true)), "unit web/0: alive, idle\n  waits for nothing\n");
    }
}
