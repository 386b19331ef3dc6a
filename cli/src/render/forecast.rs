//! What a removal would come to, as a short listing.

use crate::commands::why::since;
use crate::terminal::safe_line;
use crate::times::Zone;
use api::{Force, Forecast, Foretold};

/// Sections with nothing in them are left out. What holds something up has done so since a time, as `why` tells it.
pub fn text(forecast: &Forecast, force: Force, (now_ms, zone): (i64, &Zone)) -> String {
    let in_order = "hooks that would run, on each unit in this order:";
    let (run, held_up) = match force {
        Force::No => (in_order, "would be held up by:"),
        Force::AfterWait => (
            "hooks that would run, on each unit in this order; what has not succeeded after a minute is left out by force:",
            "done by force after a minute, if it is not done by then:",
        ),
        Force::AtOnce => (in_order, "done by force at once:"),
    };
    let gone = match force {
        Force::No | Force::AfterWait => "gone when these have succeeded:",
        Force::AtOnce => "gone then:",
    };
    let hooks = |all: &[Foretold]| all.iter().map(|one| format!("{}: {}", one.unit, one.hook)).collect();
    let blocked = forecast.blocked.iter().map(|one| {
        let error = one.last_error.as_ref().map_or(String::new(), |error| format!("; last error: {error}"));
        let since = since(one, now_ms, zone);
        format!("{}: {}; owed by {}{since}{error}; help: {}", one.entity, one.duty, one.owner, one.help)
    });
    let sections: [(&str, Vec<String>); 6] = [
        ("would be gone at once:", forecast.at_once.clone()),
        ("would be dying:", forecast.dying.clone()),
        (run, hooks(&forecast.hooks)),
        ("hooks that force leaves out, unless they are quicker:", hooks(&forecast.left_out)),
        (gone, forecast.gone.clone()),
        (held_up, blocked.collect()),
    ];
    let mut text = String::new();
    for (title, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        text += &format!("{title}\n");
        for line in lines {
            text += &format!("  {}\n", safe_line(line));
        }
    }
    if forecast.more {
        text += "and more: it is too large to be foretold whole\n";
    }
    if text.is_empty() {
        text = "nothing would change\n".to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Cause;

    #[test]
    fn every_section_that_has_something_is_told_in_order() {
        let zone = Zone::new(true);
        let at = (36_005_000 + 125_000, &zone);
        let forecast = Forecast {
            at_once: vec![],
            dying: vec!["unit web/0".to_owned()],
            hooks: vec![Foretold { unit: "web/0".parse().expect("a name"), hook: "stop".to_owned() }],
            left_out: vec![],
            gone: vec!["unit web/0".to_owned()],
            blocked: vec![Cause {
                entity: "unit db/0".to_owned(),
                duty: "leave relation db web".to_owned(),
                owner: "the agent of unit db/0".to_owned(),
                since_ms: Some(36_005_000), // 10:00:05
                last_error: Some("hook stop: exit status 1".to_owned()),
                help: "pintle resolved db/0".to_owned(),
            }],
            more: false,
        };
        assert_eq!(
            text(&forecast, Force::No, at),
            "would be dying:\n  unit web/0\nhooks that would run, on each unit in this order:\n  web/0: stop\ngone when these have \
             succeeded:\n  unit web/0\nwould be held up by:\n  unit db/0: leave relation db web; owed by the agent of \
             unit db/0 since 10:00:05Z (2m); last error: hook stop: exit status 1; help: pintle resolved db/0\n"
        );
        assert!(text(&forecast, Force::AfterWait, at).contains("is left out by force:"));
        let left_out = vec![Foretold { unit: "db/0".parse().expect("a name"), hook: "remove".to_owned() }];
        let at_once = text(&Forecast { left_out, ..forecast.clone() }, Force::AtOnce, at);
        let order = "would run, on each unit in this order:\n  web/0: stop\nhooks that force leaves out, unless they are quicker:\n  \
                     db/0: remove\ngone";
        assert!(at_once.contains(order), "{at_once}");
        assert_eq!(text(&Forecast::default(), Force::No, at), "nothing would change\n");
        let part = Forecast { dying: vec!["unit web/0".to_owned()], more: true, ..Forecast::default() };
        let said = text(&part, Force::No, at);
        assert!(said.ends_with("unit web/0\nand more: it is too large to be foretold whole\n"), "{said}");
    }
}
