//! Disk and replica are compared when an agent attaches, before any hook (design 4).

use super::local::{Event, Local};
use super::operation::Operation;
use super::record::Outcome;
use crate::names::Uuid;

/// What the controller says at an attach.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    pub history: Uuid,
    pub epoch: u64,
    /// Of the last record applied; 0 = none.
    pub sequence: u64,
    pub digest: &'a str,
    pub replica: Option<&'a Local>,
}

/// What to write down so that disk and controller agree; or why they cannot.
#[derive(Clone, Debug, PartialEq)]
pub enum Agreement {
    Agreed(Vec<Event>),
    /// The same sequence with other content: this folder, or the controller's record of it, is a copy that went its
    /// own way.
    Forked {
        sequence: u64,
    },
}

/// Empty or behind, the disk takes the replica; ahead, it resends what it has, or restates everything.
pub fn agree(local: &Local, session: &Session, at_ms: i64) -> Agreement {
    let attached =
        Event::Attached { history: session.history, epoch: session.epoch, sequence: session.sequence };
    if session.sequence > local.sequence {
        let replica = session.replica.expect("a controller that has records has the replica");
        return Agreement::Agreed(vec![Event::Restored { replica: Box::new(replica.clone()) }, attached]);
    }
    if session.sequence == local.sequence {
        if session.digest != local.digest {
            return Agreement::Forked { sequence: session.sequence };
        }
        return Agreement::Agreed(vec![attached]);
    }
    let same = local.outbox.iter().find(|record| record.sequence == session.sequence);
    if same.is_some_and(|record| record.digest() != session.digest) {
        return Agreement::Forked { sequence: session.sequence };
    }
    let resend = local.outbox.first().is_some_and(|first| first.sequence <= session.sequence + 1);
    if resend {
        return Agreement::Agreed(vec![attached]);
    }
    // the controller lost records this disk no longer has: it was restored from an older copy
    let memory = Local { outbox: Vec::new(), last_action: local.newest_action(), ..local.clone() };
    let mut restated = local.record(Operation::Restate, Outcome::Ok, at_ms);
    restated.memory = Some(Box::new(memory));
    Agreement::Agreed(vec![attached, Event::Finished(restated)])
}
