//! The promises of spec/invariants.md as checks: one a file. A check sees what was made durable on the units' disks,
//! which hooks ran, and every commit of the store; at the end it sees everything at rest.

mod documents;
mod durable;
mod effects;
mod hooks;
mod intervals;
mod lives;
mod once;
mod relations;
mod restart;
mod settled;

use controller::store::Changes;
use state::model::draft::Reader;
use state::model::keys::Model;
use state::names::{UnitName, Uuid};
use state::unit::local::{Event, Local};
use state::unit::operation::{Hook, Operation};
use state::unit::resolve::Cause;
use std::collections::BTreeMap;

/// Something that happened beside the store.
#[derive(Clone, Debug)]
pub enum Fact {
    /// These events are durable, and the agent was told so (or a crash kept it from being told).
    Recorded {
        unit: Uuid,
        events: Vec<Event>,
    },
    /// An agent starts and finds this.
    Loaded {
        unit: Uuid,
        local: Box<Local>,
    },
    HookBegan {
        unit: Uuid,
        run: u64,
        locked: bool,
    },
    HookEnded {
        unit: Uuid,
        run: u64,
    },
    /// From here on nothing changes any more: agents are only restarted.
    OnlyRestarts,
    /// A part of the world saw a promise broken: which check's, and how.
    Broken(&'static str, String),
}

/// One commit, and the documents after it.
pub struct Commit<'a> {
    pub model: Model,
    pub changes: &'a Changes,
    pub reader: &'a dyn Reader,
    /// All documents are to be looked at.
    pub whole: bool,
}

/// The system when it has come to rest, or has not in the time it was given.
pub struct End<'a> {
    pub model: Model,
    pub reader: &'a dyn Reader,
    /// Agents that run: memory, and what each waits for.
    pub agents: BTreeMap<Uuid, (UnitName, Local, Vec<Cause>)>,
    /// Agents that ended otherwise than finished: why.
    pub ended: Vec<String>,
    pub rests: bool,
}

/// A promise and what it remembers.
pub trait Check {
    fn name(&self) -> &'static str;
    fn see(&mut self, _fact: &Fact, _found: &mut Vec<String>) {}
    fn commit(&mut self, _commit: &Commit<'_>, _found: &mut Vec<String>) {}
    fn settle(&mut self, _end: &End<'_>, _found: &mut Vec<String>) {}
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub check: &'static str,
    pub what: String,
}

/// All checks of one run.
pub struct Checks {
    all: Vec<Box<dyn Check>>,
    pub violations: Vec<Violation>,
}

impl Default for Checks {
    fn default() -> Checks {
        let all: Vec<Box<dyn Check>> = vec![
            Box::<documents::Documents>::default(),
            Box::<durable::Durable>::default(),
            Box::<effects::Effects>::default(),
            Box::<hooks::Hooks>::default(),
            Box::<intervals::Intervals>::default(),
            Box::<lives::Lives>::default(),
            Box::<once::Once>::default(),
            Box::<relations::Relations>::default(),
            Box::<restart::Restart>::default(),
            Box::<settled::Settled>::default(),
        ];
        Checks { all, violations: Vec::new() }
    }
}

impl Checks {
    fn ask(&mut self, ask: impl Fn(&mut dyn Check, &mut Vec<String>)) {
        for check in &mut self.all {
            let mut found = Vec::new();
            ask(check.as_mut(), &mut found);
            let check = check.name();
            self.violations.extend(found.into_iter().map(|what| Violation { check, what }));
        }
    }

    pub fn see(&mut self, fact: &Fact) {
        if let Fact::Broken(check, what) = fact {
            self.violations.push(Violation { check, what: what.clone() });
        }
        self.ask(|check, found| check.see(fact, found));
    }

    pub fn commit(&mut self, commit: &Commit<'_>) {
        self.ask(|check, found| check.commit(commit, found));
    }

    pub fn settle(&mut self, end: &End<'_>) {
        self.ask(|check, found| check.settle(end, found));
    }
}

/// The hooks that count as done among these events, in order.
fn hooks_done(events: &[Event]) -> impl Iterator<Item = &Hook> {
    events.iter().filter_map(|event| match event {
        Event::Finished(record) if record.outcome.advances() => match &record.operation {
            Operation::Hook(hook) => Some(hook),
            _ => None,
        },
        _ => None,
    })
}

/// `kind` and the rest of a document's key.
fn place(key: &str) -> (&str, &str) {
    let (_, rest) = key.split_once('/').unwrap_or_default();
    rest.split_once('/').unwrap_or((rest, ""))
}
