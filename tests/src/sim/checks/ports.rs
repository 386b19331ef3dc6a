//! Two units on one machine never have the same port open at the same time (spec B.7).

use super::check::{Check, Commit, parts};
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{Kind, Model, OpenPortsDoc};
use state::terms::names::Uuid;
use state::terms::port_range::PortRange;
use std::collections::BTreeSet;

/// Nothing is checked after a restore: units report ports that they opened after the backup, which the restored
/// store may have granted to other units.
#[derive(Default)]
pub struct PortConflicts {
    was_restored: bool,
}

/// The first port, the last port and the protocol of a range.
fn range(text: &str) -> (u32, u32, &str) {
    let (numbers, protocol) = text.split_once('/').unwrap_or((text, ""));
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    (first.parse().unwrap_or(0), last.parse().unwrap_or(0), protocol)
}

fn overlap(a: &str, b: &str) -> bool {
    let (a, b) = (range(a), range(b));
    a.2 == b.2 && a.0 <= b.1 && b.0 <= a.1
}

impl Check for PortConflicts {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let opened = commit.changes_of(Kind::PortsOn).filter(|change| change.value.is_some());
        let machines = opened.filter_map(|change| parts(&change.key).ids().first().copied());
        let machines: BTreeSet<Uuid> = machines.filter(|_| !self.was_restored).collect();
        for machine in machines {
            let all = read_all::<OpenPortsDoc>(commit.reader, &commit.model.machine_ports_prefix(machine));
            for (at, (_, first)) in all.iter().enumerate() {
                for (_, other) in &all[at + 1..] {
                    let ranges = |doc: &OpenPortsDoc| {
                        doc.ports.values().flatten().map(PortRange::to_string).collect::<Vec<_>>()
                    };
                    let (a, b) = (ranges(first), ranges(other));
                    if a.iter().any(|a| b.iter().any(|b| overlap(a, b))) {
                        let (first, other) = (&first.unit, &other.unit);
                        found.push(format!(
                            "{first} has {a:?} open and {other} has {b:?} open on the same machine"
                        ));
                    }
                }
            }
        }
    }
}
