//! How a run ended, turned into its record.

use super::dispatch::missing_action;
use super::hook::{Level, Reboot, ReportContent, Writes};
use super::local::{Event, Local, Run, UnrecordedReport};
use super::operation::{Hook, Operation};
use super::record::{Outcome, Record, SAID_MAX, Said};
use super::resolve::{self, Now};
use super::retry;
use super::snapshot::Snapshot;
use crate::unit::pending_reports::PendingReports;
use std::collections::BTreeSet;

/// Of the last line a failed hook printed, so many characters are told: it is one line of what people read.
const LAST_WORDS_MAX: usize = 200;

/// What is known of a process that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// Killed by somebody else: the charm's failure (spec I.14).
    Signal(i32),
    /// We, the machine or a crash ended it: run again, no error.
    Interrupted,
    /// The charm has no such hook.
    Missing,
    /// It could not be run, or what it asked for could not be done.
    Refused(String),
}

/// A run that has ended, and what it left.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    pub run: &'a Run,
    pub exit: Exit,
    /// What the hook wrote; taken only if it ended well.
    pub writes: &'a Writes,
    /// What it said, in order; all of it stands.
    pub said: Vec<Said>,
    /// What of that was not told before it ended.
    pub unsaid: &'a PendingReports,
}

/// What is written down of a run that ended; nothing = interrupted, to be run again.
pub fn events(local: &Local, view: Option<&Snapshot>, now: &Now, ended: Ended) -> Vec<Event> {
    if ended.writes.reboot == Some(Reboot::Now) {
        let (run, said) = (ended.run.number, told(ended.run, ended.said, ended.unsaid, now));
        let unheard = (!said.is_empty()).then_some(Event::UnrecordedReport(UnrecordedReport { run, said }));
        return [Event::RebootRequested(now.boot.clone())].into_iter().chain(unheard).collect();
    }
    record(local, view, now, ended).map(Event::Finished).into_iter().collect()
}

/// The record of a run; none = interrupted, to be run again.
pub fn record(local: &Local, view: Option<&Snapshot>, now: &Now, ended: Ended) -> Option<Record> {
    let operation = &ended.run.operation;
    let action = matches!(operation, Operation::Action { .. });
    let last_words = match &ended.exit {
        Exit::Code(_) | Exit::Signal(_) => last_words(&ended.said),
        Exit::Interrupted | Exit::Missing | Exit::Refused(_) => None,
    };
    let failed = |reason: String| {
        let retry = if action { None } else { retry::retry_after(local, view, now, operation) };
        Outcome::Failed { reason, retry }
    };
    let outcome = match ended.exit {
        Exit::Interrupted => return None,
        Exit::Code(0) => Outcome::Ok,
        Exit::Missing if action => failed(missing_action(&local.name)),
        Exit::Missing => Outcome::Missing,
        Exit::Code(code) => failed(format!("exit status {code}")),
        Exit::Signal(signal) => failed(format!("killed by signal {signal}")),
        Exit::Refused(reason) => failed(reason),
    };
    let last_call = ended.said.last().map_or(0, |said| said.call);
    let mut record = local.record(operation.clone(), outcome, now.wall_ms);
    // a failed hook publishes nothing but what it said; an action's results are sent whatever its exit
    if record.outcome.advances() {
        record.writes = ended.writes.clone();
        record.reboot = record.writes.reboot.take().map(|_| now.boot.clone());
        refresh_addresses(local, view, &mut record);
    } else {
        record.writes.action = ended.writes.action.clone();
    }
    record.said = told(ended.run, ended.said, ended.unsaid, now);
    if let (Outcome::Failed { reason, .. }, Operation::Hook(hook)) = (&mut record.outcome, &record.operation)
    {
        let text = format!("hook \"{}\" failed: {reason}", hook.name());
        let what = ReportContent::Output { hook: stream(operation), level: Level::Error, text };
        record.said.push(Said { call: last_call + 1, at_ms: now.wall_ms, what });
        // the log has the line already, the failure itself is told with it
        if let Some(words) = last_words {
            *reason = format!("{reason}: {words}");
        }
    }
    Some(record)
}

/// Of what a run said, as much as one message holds, and how much was left out.
fn told(run: &Run, said: Vec<Said>, unsaid: &PendingReports, now: &Now) -> Vec<Said> {
    let (mut said, unfit) = newest(said);
    let left_out = unsaid.left_out(&unfit);
    if left_out > 0 {
        let folder = format!("hooks/{:06}", run.number);
        let text = format!("{left_out} lines before these are left out: they are in {folder}");
        let what = ReportContent::Output { hook: stream(&run.operation), level: Level::Warning, text };
        // calls are counted from 1: it comes before the lines that are here
        said.push(Said { call: 0, at_ms: now.wall_ms, what });
    }
    said
}

/// The last line that the charm's own program printed on stderr.
fn last_words(said: &[Said]) -> Option<String> {
    let printed = |said: &Said| match &said.what {
        ReportContent::Output { level: Level::Warning, text, .. } => {
            Some(text.trim().chars().take(LAST_WORDS_MAX).collect::<String>())
        }
        ReportContent::Output { .. }
        | ReportContent::UnitStatus { .. }
        | ReportContent::ApplicationStatus { .. }
        | ReportContent::WorkloadVersion(_)
        | ReportContent::Log { .. }
        | ReportContent::ActionLog(_) => None,
    };
    said.iter().rev().filter_map(printed).find(|text| !text.is_empty())
}

/// The stream `unit.web/0.<stream>` of what a run printed (spec/hook-tools.md 5.6).
pub fn stream(operation: &Operation) -> String {
    match operation {
        Operation::Hook(hook) => hook.name().to_string(),
        operation => operation.to_string(),
    }
}

/// What one record can hold of what was said: the last of each kind of status, and the newest lines, which tell how
/// it ended. And what it cannot hold.
fn newest(said: Vec<Said>) -> (Vec<Said>, Vec<Said>) {
    let mut kinds = BTreeSet::new();
    // three statuses, the line that says how it failed, and the one that says what is left out
    let mut lines_left = SAID_MAX - 5;
    let (mut kept, mut unfit): (Vec<Said>, Vec<Said>) =
        said.into_iter().rev().partition(|said| match &said.what {
            ReportContent::UnitStatus { .. } => kinds.insert(0),
            ReportContent::ApplicationStatus { .. } => kinds.insert(1),
            ReportContent::WorkloadVersion(_) => kinds.insert(2),
            ReportContent::Log { .. } | ReportContent::ActionLog(_) | ReportContent::Output { .. } => {
                let fits = lines_left > 0;
                lines_left = lines_left.saturating_sub(1);
                fits
            }
        });
    kept.reverse();
    unfit.reverse();
    (kept, unfit)
}

/// A config-changed that was about new addresses puts them into every bag (spec A.12).
fn refresh_addresses(local: &Local, view: Option<&Snapshot>, record: &mut Record) {
    let (Operation::Hook(Hook::ConfigChanged(seen)), Some(view)) = (&record.operation, view) else { return };
    if local.config.as_ref().is_none_or(|old| old.addresses == seen.addresses) {
        return;
    }
    for number in local.relations.keys() {
        let change = &mut record.writes.bags.entry(*number).or_default().unit;
        for (key, value) in resolve::addresses(view) {
            change.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::names::{UnitName, Uuid};
    use crate::unit::local::Event;

    #[test]
    fn lines_that_no_record_holds_and_nobody_was_told_are_counted_in_one_line() {
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        local.run = 6;
        let operation = Operation::Hook(Hook::UpdateStatus);
        let (cause, position, leads, episode) = (String::new(), None, None, None);
        let run = Run { number: 7, operation, attempt: 1, cause, position, leads, episode };
        local.apply(&Event::Started(run.clone()));
        let now = Now {
            boot: "boot".into(),
            since_boot_ms: 60_000,
            agent_start_ms: 60_000,
            wall_ms: 5,
            hook_lock: true,
            orphan_missing: false,
            attached: true,
            link_age_ms: Some(0),
            leads: None,
            claimed: true,
            idle_ms: 0,
            charm_lost: false,
        };
        let said = |call: u32| {
            let what = ReportContent::Log { level: Level::Info, text: call.to_string() };
            Said { call, at_ms: 5, what }
        };
        let lines: Vec<Said> = (1..=100).map(said).collect();
        let mut unsaid = PendingReports::default();
        lines.iter().for_each(|line| unsaid.say(line));
        let record_of = |exit, unsaid: &PendingReports| {
            let ended = Ended { run: &run, exit, writes: &Writes::default(), said: lines.clone(), unsaid };
            record(&local, None, &now, ended).expect("it was not interrupted").said
        };

        let failed = record_of(Exit::Code(1), &unsaid);
        let (here, about) = failed.split_at(55);
        assert_eq!(here, &lines[45..], "the newest");
        let about: Vec<(u32, &ReportContent)> = about.iter().map(|said| (said.call, &said.what)).collect();
        let printed = |level, text: &str| {
            let (hook, text) = ("update-status".to_owned(), text.to_owned());
            ReportContent::Output { hook, level, text }
        };
        let left_out =
            printed(Level::Warning, "45 lines before these are left out: they are in hooks/000007");
        let why = printed(Level::Error, "hook \"update-status\" failed: exit status 1");
        assert_eq!(about, [(0, &left_out), (101, &why)]);

        unsaid.acknowledged(45);
        assert_eq!(record_of(Exit::Code(0), &unsaid), lines[45..], "the others were told while it ran");
    }

    /// 1. The hook logs, and asks for a reboot at once. 2. It is ended within the tenth of a second in which nothing is
    ///    sent early. 3. The machine goes down; the hook runs again, as another run, and its record is sent.
    #[test]
    fn what_a_hook_said_that_asked_for_a_reboot_at_once_is_told_before_any_later_record() {
        let mut local = Local::new(Uuid(1), UnitName::new("web", 0));
        let now = Now { boot: "boot".to_owned(), since_boot_ms: 1, wall_ms: 5, ..Now::hypothetical() };
        let what = ReportContent::UnitStatus { status: "blocked".to_owned(), message: String::new() };
        let said = vec![Said { call: 1, at_ms: 5, what }];
        let begun = |number, attempt| Run {
            number,
            operation: Operation::Hook(Hook::Install),
            attempt,
            cause: String::new(),
            position: None,
            leads: None,
            episode: None,
        };
        let run = begun(1, 1);
        local.apply(&Event::Started(run.clone()));
        let writes = Writes { reboot: Some(Reboot::Now), ..Writes::default() };
        let unsaid = PendingReports::default();
        let ended =
            Ended { run: &run, exit: Exit::Signal(9), writes: &writes, said: said.clone(), unsaid: &unsaid };
        events(&local, None, &now, ended).iter().for_each(|event| local.apply(event));
        assert_eq!(local.unheard, [UnrecordedReport { run: 1, said }]);
        assert_eq!(local.status, Some(("blocked".to_owned(), String::new())), "as its later hooks see it");

        let now = Now { boot: "the next".to_owned(), ..now };
        local.apply(&Event::Started(begun(2, 1)));
        let record = local.record(Operation::Hook(Hook::Install), Outcome::Ok, 5);
        local.apply(&Event::Finished(record));
        let send = |local: &Local| resolve::next(local, None, &now).send;
        assert_eq!(send(&local), resolve::Send::UnrecordedReport(1));
        local.apply(&Event::ReportAcknowledged { run: 1 });
        assert_eq!(send(&local), resolve::Send::Commit(1));
    }

    /// How a run is recorded that printed these lines on stderr.
    fn reason(operation: Operation, exit: Exit, stderr: &[&str]) -> (String, String) {
        let local = Local::new(Uuid(1), UnitName::new("web", 0));
        let now = Now { boot: "boot".to_owned(), since_boot_ms: 1, wall_ms: 5, ..Now::hypothetical() };
        let line = |text: &&str| Said {
            call: 1,
            at_ms: 5,
            what: ReportContent::Output {
                hook: "install".to_owned(),
                level: Level::Warning,
                text: (*text).to_owned(),
            },
        };
        let run = Run {
            number: 1,
            operation,
            attempt: 1,
            cause: String::new(),
            position: None,
            leads: None,
            episode: None,
        };
        let said = stderr.iter().map(line).collect();
        let unsaid = PendingReports::default();
        let ended = Ended { run: &run, exit, writes: &Writes::default(), said, unsaid: &unsaid };
        let record = record(&local, None, &now, ended);
        let record = record.expect("it was not interrupted");
        let logged = match record.said.last().map(|said| &said.what) {
            Some(ReportContent::Output { text, .. }) => text.clone(),
            other => panic!("{other:?}"),
        };
        let Outcome::Failed { reason, .. } = record.outcome else { panic!("{:?}", record.outcome) };
        (reason, logged)
    }

    #[test]
    fn a_hook_that_failed_has_failed_with_the_last_line_it_printed() {
        let install = || Operation::Hook(Hook::Install);
        let exited = |lines: &[&str]| reason(install(), Exit::Code(1), lines);
        let logged = "hook \"install\" failed: exit status 1".to_owned();
        let told = |reason: &str| (reason.to_owned(), logged.clone());
        assert_eq!(exited(&["Traceback:", "  No space. ", "", " "]), told("exit status 1: No space."));
        assert_eq!(exited(&[]), told("exit status 1"));
        let long = "é".repeat(201);
        assert_eq!(exited(&[&long]).0, format!("exit status 1: {}", "é".repeat(200)));
        assert_eq!(reason(install(), Exit::Signal(9), &["bye"]).0, "killed by signal 9: bye");
        assert_eq!(reason(install(), Exit::Refused("no".to_owned()), &["bye"]).0, "no", "not by the charm");
        let backup = Operation::Action { id: 1, name: "backup".to_owned() };
        assert_eq!(
            reason(backup, Exit::Code(1), &["bye"]).0,
            "exit status 1",
            "what clients know of an action"
        );
    }
}
