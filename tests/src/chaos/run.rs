//! One run: the units are deployed, the plan is carried out while probes are answered, and the result is compared.

use super::check::{self, Answer, Pair};
use super::plan::{Fault, Planned, Sizes, plan};
use super::probes::{self, Availability, PATIENCE, Second, availability};
use super::system::{System, application, charm, unit};
use crate::host::Host;
use crate::scene::text;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long the system may take to come to rest after the last fault. Leases of 30 s end, and agents that have waited for a
/// controller try again after seconds.
const REST: Duration = Duration::from_secs(180);
/// Interval between two looks at what has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The result of a run.
pub struct Outcome {
    /// One line.
    pub summary: String,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// A run of a length.
///
/// # Errors
/// If the system does not start.
pub fn run(seed: u64, length: Duration, sizes: Sizes) -> Result<Outcome> {
    let length_ms = u64::try_from(length.as_millis())?;
    let faults = plan(seed, length_ms, sizes);
    let mut system = System::start(sizes)?;
    deploy(&system, sizes.units);
    let seconds = strike(&mut system, &faults, length)?;
    std::fs::write(system.trace.join("stop"), "")?;
    let mut violations = Vec::new();
    let came_to_rest = rest(&mut system)?;
    if came_to_rest.is_none() {
        violations.push(format!(
            "the units are not settled after {} s\n{}",
            REST.as_secs(),
            system.host.diagnostics()
        ));
    }
    let passes = judge(&system, sizes.units, &seconds, &mut violations)?;
    let times =
        |of: fn(&Second) -> Option<Duration>| availability(&seconds.iter().map(of).collect::<Vec<_>>());
    let acknowledged = seconds.iter().filter(|second| second.answer() == Answer::Done).count();
    let summary = format!(
        "seed {seed}: {} s, {} faults, {passes} balls passed, {acknowledged} of {} writes acknowledged; {}; {}; settled after \
         {} s; {} controllers ended by themselves; {} violations",
        length.as_secs(),
        faults.len(),
        seconds.len(),
        shown("reads", times(|second| second.read)),
        shown("writes", times(|second| second.write)),
        came_to_rest.map_or_else(|| "more than 180".to_owned(), |time| time.as_secs().to_string()),
        system.ended.len(),
        violations.len()
    );
    system.ended.iter().for_each(|ended| println!("ended by itself: {ended}"));
    Ok(Outcome { summary, violations })
}

fn shown(name: &str, of: Availability) -> String {
    format!(
        "{name} answered in {:.1} % of the seconds, within 1 s in {:.1} %, longest gap {} s",
        of.answered, of.at_once, of.longest_gap
    )
}

/// Deploys the pairs and the unit that writes notes, and passes the first balls.
fn deploy(system: &System, units: usize) {
    let (host, charm) = (&system.host, charm());
    let trace = format!("trace={}", text(&system.trace));
    let deploy = |name: &str| {
        host.ok(&["deploy", text(&charm), name, "--config", &trace]);
    };
    deploy("notes");
    (0..units).for_each(|number| deploy(&application(number)));
    for first in (0..units).step_by(2) {
        let [left, right] = [first, first + 1].map(application);
        host.ok(&["integrate", &format!("{left}:left"), &format!("{right}:right")]);
    }
    host.ok(&["wait", "--settled"]);
    for first in (0..units).step_by(2) {
        host.ok(&["run", &unit(first), "serve"]);
    }
}

/// Carries out the plan. Returns the answers of each second.
fn strike(system: &mut System, faults: &[Planned], length: Duration) -> Result<Vec<Second>> {
    let mut events: Vec<(u64, bool, usize)> = faults
        .iter()
        .enumerate()
        .flat_map(|(index, it)| [(it.begin_ms, true, index), (it.end_ms, false, index)])
        .collect();
    // what ends at a time ends before something else begins
    events.sort_by_key(|(at, begins, index)| (*at, *begins, *index));
    let mut events = events.into_iter().peekable();
    let (send_second, answered) = channel();
    let (mut seconds, mut next_second) = (Seconds::new(answered), 0);
    let started = Instant::now();
    while started.elapsed() < length || events.peek().is_some() {
        let now_ms = u64::try_from(started.elapsed().as_millis())?;
        while let Some((_, begins, index)) = events.next_if(|(at, ..)| *at <= now_ms) {
            let fault = &faults[index];
            if begins {
                println!("{:>5.1} s  {fault}", now_ms as f64 / 1_000.0);
            }
            apply(system, fault, begins)?;
        }
        if now_ms >= next_second * 1_000 && started.elapsed() < length {
            probe(&system.host, next_second, &send_second);
            next_second += 1;
        }
        system.start_missing()?;
        seconds.print();
        std::thread::park_timeout(POLL_INTERVAL);
    }
    drop(send_second);
    Ok(seconds.finish())
}

/// Begins or ends a fault.
fn apply(system: &mut System, fault: &Planned, begins: bool) -> Result<()> {
    match (fault.fault, begins) {
        (Fault::Kill, true) => system.kill(fault.target),
        (Fault::Kill, false) => system.start_again(fault.target)?,
        (Fault::CutOff, begins) => system.cut_off(fault.target, begins)?,
        (Fault::Stop, true) => system.stop(fault.target),
        (Fault::Stop, false) => system.go_on(fault.target),
    }
    Ok(())
}

/// The answer to a command.
struct Answered {
    /// The second in which it was started.
    second: u64,
    /// Whether it writes.
    is_write: bool,
    /// The time until it was answered.
    time: Option<Duration>,
}

/// Starts the two commands of a second.
fn probe(host: &Host, number: u64, answers: &Sender<Answered>) {
    let id = format!("id={number}");
    let commands: [(bool, Vec<String>); 2] = [
        (false, vec!["show-application".to_owned(), "notes".to_owned()]),
        (true, ["run", "notes/0", "note", &id, "--background"].map(str::to_owned).into()),
    ];
    for (is_write, arguments) in commands {
        let (program, data, answers) = (host.programs.join("pintle"), host.dir.clone(), answers.clone());
        std::thread::spawn(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let time = probes::run(&program, &data, &arguments);
            // nobody receives it if the run has failed
            answers.send(Answered { second: number, is_write, time }).ok();
        });
    }
}

/// The answers, printed in the order of their seconds.
struct Seconds {
    answers: Receiver<Answered>,
    received: BTreeMap<(u64, bool), Option<Duration>>,
    complete: Vec<Second>,
}

impl Seconds {
    fn new(answers: Receiver<Answered>) -> Seconds {
        Seconds { answers, received: BTreeMap::new(), complete: Vec::new() }
    }

    fn take(&mut self, answered: Answered) {
        self.received.insert((answered.second, answered.is_write), answered.time);
        let next = |it: &Seconds| it.complete.len() as u64;
        while let (Some(read), Some(write)) =
            (self.received.get(&(next(self), false)), self.received.get(&(next(self), true)))
        {
            let second = Second { number: next(self), read: *read, write: *write };
            let time = |time: Option<Duration>| match time {
                Some(time) => format!("{:>5.2} s", time.as_secs_f64()),
                None => format!("none within {} s", PATIENCE.as_secs()),
            };
            println!("{:>5} s  read {}  write {}", second.number, time(second.read), time(second.write));
            self.complete.push(second);
        }
    }

    fn print(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.take(answer);
        }
    }

    fn finish(mut self) -> Vec<Second> {
        while let Ok(answer) = self.answers.recv() {
            self.take(answer);
        }
        self.complete
    }
}

/// Waits until nothing is to be done, and all controllers show the same. Returns how long it took; none if too long.
fn rest(system: &mut System) -> Result<Option<Duration>> {
    let started = Instant::now();
    while started.elapsed() < REST {
        system.start_missing()?;
        let is_settled = system.host.pintle(&["wait", "--settled", "--timeout", "20s"]).code == 0;
        if is_settled && show_the_same(system)? {
            return Ok(Some(started.elapsed()));
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    Ok(None)
}

/// Whether each controller shows the same applications, with agents that are idle.
fn show_the_same(system: &System) -> Result<bool> {
    let shown = |folder: &Path| {
        let output = std::process::Command::new(system.host.programs.join("pintle"))
            .args(["--data", text(folder), "status", "--format", "json"])
            .output();
        let status: Option<Value> =
            output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
        status.map(|status| without_times(status["applications"].clone()))
    };
    let all: Vec<Option<Value>> = system.client_folders()?.iter().map(|folder| shown(folder)).collect();
    Ok(all.iter().all(|one| one.is_some() && *one == all[0]))
}

/// The same without the times, which may differ between controllers.
fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("since");
            fields.values_mut().for_each(|field| *field = without_times(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_times(item.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// Compares what is there. Returns how many balls were passed.
fn judge(system: &System, units: usize, seconds: &[Second], violations: &mut Vec<String>) -> Result<u64> {
    let numbers = |name: &str| -> Vec<u64> {
        let text = std::fs::read_to_string(system.trace.join(name)).unwrap_or_default();
        // a line that is no number is shown as one that was never passed
        text.lines().map(|line| line.parse().unwrap_or(u64::MAX)).collect()
    };
    let received = |number: usize| numbers(&unit(number).replace('/', "-"));
    let kept = |number: usize| numbers(&format!("{}.stopped", unit(number).replace('/', "-")));
    let mut passes = 0;
    for first in (0..units).step_by(2) {
        let bag = |of: usize, other: usize| -> Option<u64> {
            let shown = system.host.ok(&["show-unit", &unit(other), "--format", "json"]);
            let shown: Value = serde_json::from_str(&shown).ok()?;
            let related = &shown[unit(other)]["relation-info"][0]["related-units"][unit(of)]["data"];
            related["ball"].as_str()?.parse().ok()
        };
        let pair = Pair {
            name: format!("{} and {}", unit(first), unit(first + 1)),
            first: received(first),
            second: received(first + 1),
            shown: [bag(first, first + 1), bag(first + 1, first)],
            kept: [kept(first), kept(first + 1)],
        };
        passes += (pair.first.len() + pair.second.len()) as u64;
        violations.extend(check::of_pair(&pair));
    }
    let answers = seconds.iter().map(|second| (second.number, second.answer())).collect();
    violations.extend(check::of_notes(&answers, &numbers("notes-0.notes")));
    let panicked = system.logs_with("panicked at")?;
    if !panicked.is_empty() {
        violations.push(format!("a program has panicked, see {panicked}"));
    }
    Ok(passes)
}
