//! The text of a dry run: what a removal would change, in sections.
//!
//! Used by the removal commands with `--dry-run`; [`entities`] also by the question that they ask without it. Sections
//! without entries are omitted.

use crate::command_flags::CommandFlags;
use crate::render::cause;
use crate::terminal_escape::safe_line;
use crate::times::Zone;
use api::{DryRun, ExpectedHook, Force};
use state::terms::cause::Entity;

/// The sections of a dry run. Blockers are printed like the causes of `why`.
pub fn text(dry_run: &DryRun, force: Force, now_ms: i64, zone: &Zone, flags: &CommandFlags) -> String {
    let in_order = "hooks that would run, on each unit in this order:";
    let (hooks_title, blocked_title) = match force {
        Force::No => (in_order, "would be blocked by:"),
        Force::AfterWait => (
            "hooks that would run, on each unit in this order (force skips those that have not ended a minute after the \
             request):",
            "would be done by force after a minute, unless it is done by then:",
        ),
        Force::AtOnce => (in_order, "would be done by force at once:"),
    };
    let removed_title = match force {
        Force::No if !dry_run.hooks.is_empty() => "would be removed after these hooks have succeeded:",
        Force::AfterWait if !dry_run.hooks.is_empty() => {
            "would be removed after these hooks, at the latest by force:"
        }
        Force::No | Force::AfterWait | Force::AtOnce => "would be removed in the end:",
    };
    let hooks =
        |all: &[ExpectedHook]| all.iter().map(|entry| format!("{}: {}", entry.unit, entry.hook)).collect();
    let sections: [(&str, Vec<String>); 5] = [
        ("would be removed at once:", entities(&dry_run.removed_immediately)),
        ("would be dying:", entities(&dry_run.dying)),
        (hooks_title, hooks(&dry_run.hooks)),
        ("hooks that force would skip, unless they finish first:", hooks(&dry_run.skipped_hooks)),
        (removed_title, entities(&dry_run.removed_eventually)),
    ];
    let mut text = String::new();
    for (title, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        text += &format!("{title}\n");
        for line in lines {
            text += &format!("  {}\n", safe_line(line));
        }
    }
    if !dry_run.blockers.is_empty() {
        text += &format!("{blocked_title}\n");
    }
    for entry in &dry_run.blockers {
        text += &cause::lines(entry, now_ms, zone, flags);
    }
    text += &kept(dry_run, now_ms, zone, flags);
    if dry_run.truncated {
        text += "and more: the removal is too large for a complete dry run\n";
    }
    if text.is_empty() {
        text = "nothing would change\n".to_owned();
    }
    text
}

/// The machines that would stay with the content of storage; empty if there are none.
pub fn kept(dry_run: &DryRun, now_ms: i64, zone: &Zone, flags: &CommandFlags) -> String {
    let lines: String = dry_run.kept.iter().map(|entry| cause::lines(entry, now_ms, zone, flags)).collect();
    if lines.is_empty() { lines } else { format!("would stay without units:\n{lines}") }
}

/// The entities as texts: `unit web/0`, `relation db:server web:db`.
pub fn entities(all: &[Entity]) -> Vec<String> {
    let text = |entity: &Entity| match entity {
        Entity::Relation(name) => format!("relation {}", name.ends),
        other => other.to_string(),
    };
    all.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use crate::render::dry_run::*;
    use state::terms::cause::{Cause, Duty};
    use state::terms::names::UnitName;
    use state::terms::operation::Hook;
    use test_support::golden::compare;

    #[test]
    fn every_section_with_entries_is_printed_in_order() {
        let zone = Zone::new(true);
        let now_ms = 36_005_000 + 125_000;
        let duty = Duty::Terminate { relations: vec![] };
        let blocker = Cause::of_unit_agent(&UnitName::new("db", 0), duty).since(36_005_000); // 10:00:05
        let web = || vec![Entity::Unit(UnitName::new("web", 0))];
        let dry_run = DryRun {
            dying: web(),
            hooks: vec![ExpectedHook { unit: UnitName::new("web", 0), hook: Hook::Stop }],
            removed_eventually: web(),
            blockers: vec![blocker.clone()],
            ..DryRun::default()
        };
        let blocker_lines = cause::lines(&blocker, now_ms, &zone, &CommandFlags::default());
        let entries = |text: &str| {
            text.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect::<Vec<_>>()
        };
        let printed = text(&dry_run, Force::No, now_ms, &zone, &CommandFlags::default());
        let listed =
            ["  unit web/0", "  web/0: stop", "  unit web/0"].into_iter().chain(blocker_lines.lines());
        let listed: Vec<&str> = listed.collect();
        assert_eq!(entries(&printed), listed, "{printed}");
        assert_eq!(printed.lines().count(), listed.len() + 4, "each section has a head: {printed}");
        let skipped_hooks = vec![ExpectedHook { unit: UnitName::new("db", 0), hook: Hook::Remove }];
        let at_once = text(
            &DryRun { skipped_hooks, ..dry_run.clone() },
            Force::AtOnce,
            now_ms,
            &zone,
            &CommandFlags::default(),
        );
        assert_eq!(entries(&at_once)[1..4], ["  web/0: stop", "  db/0: remove", "  unit web/0"], "{at_once}");
        compare(
            "commands/dry_run_empty.txt",
            &text(&DryRun::default(), Force::No, now_ms, &zone, &CommandFlags::default()),
        );
    }
}
