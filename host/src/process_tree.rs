//! Finds processes by their parents, groups and sessions.
//!
//! Used to end a hook: its shim is the parent of the hook, which leads a group. Used by `cli` for what runs in a data
//! folder, and by the unit agent when its folder is gone.

use crate::process::{Process, Stat};
use std::collections::{BTreeMap, BTreeSet};

/// The direct children of processes.
pub fn children(parents: &BTreeSet<Process>) -> Vec<Process> {
    let parents: BTreeSet<i32> = parents.iter().map(|parent| parent.pid).collect();
    let living = Process::all().into_iter();
    living.filter(|(_, stat)| parents.contains(&stat.parent)).map(|(process, _)| process).collect()
}

/// A process with its descendants, and the processes in the group of a child that leads one. A process that moved to a
/// session of its own is not included, unless it is a child.
pub fn with_descendants(root: Process) -> Vec<Process> {
    members(root, &Process::all()).into_iter().collect()
}

fn members(root: Process, living: &BTreeMap<Process, Stat>) -> BTreeSet<Process> {
    let Some(own) = living.get(&root) else {
        return BTreeSet::new();
    };
    let mut sessions = BTreeSet::from([own.session]);
    let mut groups = BTreeSet::new();
    for (process, child) in living.iter().filter(|(_, stat)| stat.parent == root.pid) {
        sessions.insert(child.session);
        if child.group == process.pid {
            groups.insert(child.group);
        }
    }
    let mut members = BTreeSet::from([root]);
    loop {
        let parents: BTreeSet<i32> = members.iter().map(|member| member.pid).collect();
        let more = living.iter().filter(|(process, stat)| {
            let related = parents.contains(&stat.parent) || groups.contains(&stat.group);
            related && sessions.contains(&stat.session) && !members.contains(process)
        });
        let more: Vec<Process> = more.map(|(process, _)| *process).collect();
        if more.is_empty() {
            return members;
        }
        members.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_group_of_a_child_but_not_what_left_the_session() {
        let stat = |parent, group, session| Stat { ended: false, parent, group, session, start: 1 };
        let process = |pid| Process { pid, start: 1 };
        let living = BTreeMap::from([
            (process(10), stat(1, 10, 10)),  // the agent
            (process(20), stat(10, 10, 10)), // the shim
            (process(30), stat(20, 30, 10)), // the hook, leads a group
            (process(31), stat(30, 30, 10)), // its child
            (process(32), stat(1, 30, 10)),  // of its group, orphaned
            (process(33), stat(30, 33, 33)), // a daemon the charm started
            (process(34), stat(33, 33, 33)), // and its child
            (process(40), stat(10, 10, 10)), // a sibling
        ]);
        let pids: Vec<i32> = members(process(20), &living).into_iter().map(|process| process.pid).collect();
        assert_eq!(pids, [20, 30, 31, 32]);
        assert!(members(process(99), &living).is_empty());
    }
}
