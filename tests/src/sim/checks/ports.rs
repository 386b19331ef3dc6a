//! Spec B.7: no two units of a machine have a port open at the same time.

use super::{Check, Commit, place};
use state::documents::draft::{Reader, read_all};
use state::documents::keys::{Model, OpenPortsDoc};
use state::terms::names::Uuid;
use std::collections::BTreeSet;

/// A restored store learns what units had opened since, whoever was given the port meanwhile.
#[derive(Default)]
pub struct Ports {
    was_restored: bool,
}

/// First, last and protocol.
fn range(text: &str) -> (u32, u32, &str) {
    let (numbers, protocol) = text.split_once('/').unwrap_or((text, ""));
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    (first.parse().unwrap_or(0), last.parse().unwrap_or(0), protocol)
}

fn meet(a: &str, b: &str) -> bool {
    let (a, b) = (range(a), range(b));
    a.2 == b.2 && a.0 <= b.1 && b.0 <= a.1
}

impl Check for Ports {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let opened = commit.changes.entries.iter().filter(|change| change.value.is_some());
        let machines = opened.filter_map(|change| match place(&change.key) {
            ("ports-on", rest) => rest.split('/').next()?.parse().ok(),
            _ => None,
        });
        let machines: BTreeSet<Uuid> = machines.filter(|_| !self.was_restored).collect();
        for machine in machines {
            let all = read_all::<OpenPortsDoc>(commit.reader, &commit.model.machine_ports_prefix(machine));
            for (at, (_, one)) in all.iter().enumerate() {
                for (_, other) in &all[at + 1..] {
                    let of = |doc: &OpenPortsDoc| doc.ports.values().flatten().cloned().collect::<Vec<_>>();
                    let (a, b) = (of(one), of(other));
                    if a.iter().any(|a| b.iter().any(|b| meet(a, b))) {
                        let (one, other) = (&one.unit, &other.unit);
                        found.push(format!("{one} has {a:?} open and {other} {b:?}, on one machine"));
                    }
                }
            }
        }
    }
}
