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

/// Whether two ranges have a port in common; independent of the rule of the product.
fn overlap(a: &PortRange, b: &PortRange) -> bool {
    a.protocol == b.protocol && a.from <= b.to && b.from <= a.to
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
            for (index, (_, first)) in all.iter().enumerate() {
                for (_, other) in &all[index + 1..] {
                    let ranges =
                        |doc: &OpenPortsDoc| doc.ports.values().flatten().cloned().collect::<Vec<_>>();
                    let (a, b) = (ranges(first), ranges(other));
                    if a.iter().any(|a| b.iter().any(|b| overlap(a, b))) {
                        let (first, other) = (&first.unit, &other.unit);
                        found.push(format!("on one machine {first} has open {a:?}, and {other} {b:?}"));
                    }
                }
            }
        }
    }
}
