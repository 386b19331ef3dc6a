//! What a running hook said and the controller has not acknowledged: sent early, the oldest first, and bounded. It knows
//! which lines were told, so that the record can say how many never will be.

use crate::unit::record::{SAID_MAX, Said};
use std::collections::VecDeque;

/// Two reports' worth wait; of a hook that says more at once the newest.
const WAITING_MAX: usize = 2 * SAID_MAX;

/// Lost with the agent's process: its successor tells everything again.
#[derive(Clone, Debug, Default)]
pub struct PendingReports {
    waiting: VecDeque<Said>,
    /// Up to this call everything was told, or is lost.
    told: u32,
    lost: usize,
}

impl PendingReports {
    pub fn say(&mut self, said: &Said) {
        self.waiting.push_back(said.clone());
        if self.waiting.len() > WAITING_MAX
            && let Some(lost) = self.waiting.pop_front()
        {
            self.lost += usize::from(lost.what.is_log_line());
            self.told = lost.call;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What one report holds of it.
    pub fn report(&self) -> Vec<Said> {
        self.waiting.iter().take(SAID_MAX).cloned().collect()
    }

    /// The controller has everything up to this call, but what was lost before.
    pub fn acknowledged(&mut self, call: u32) {
        self.told = self.told.max(call);
        self.waiting.retain(|said| said.call > call);
    }

    /// Lines that nobody is told when the record leaves `unfit` out.
    pub fn left_out(&self, unfit: &[Said]) -> usize {
        self.lost + unfit.iter().filter(|said| said.call > self.told && said.what.is_log_line()).count()
    }
}

#[cfg(test)]
mod tests {
    use crate::unit::hook::{Level, ReportContent};
    use crate::unit::pending_reports::*;

    fn line(call: u32) -> Said {
        Said { call, at_ms: 0, what: ReportContent::Log { level: Level::Info, text: call.to_string() } }
    }

    #[test]
    fn what_was_told_is_not_left_out_and_what_made_way_is() {
        let mut unsaid = PendingReports::default();
        let lines: Vec<Said> = (1..=100).map(line).collect();
        lines.iter().for_each(|line| unsaid.say(line));
        assert_eq!(unsaid.report(), lines[..60]);
        assert_eq!(unsaid.left_out(&lines[..45]), 45);
        unsaid.acknowledged(40);
        assert_eq!(unsaid.left_out(&lines[..45]), 5);
        // 40 of the 200 make way: 41 to 80
        (101..=200).map(line).for_each(|line| unsaid.say(&line));
        assert_eq!(unsaid.report()[0].call, 81);
        let unfit: Vec<Said> = (1..=145).map(line).collect();
        assert_eq!(unsaid.left_out(&unfit), 40 + 65);
        unsaid.acknowledged(140);
        assert_eq!(unsaid.left_out(&unfit), 40 + 5);
    }
}
