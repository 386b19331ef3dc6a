//! The progress of a step that may take minutes, on stderr.
//!
//! On a terminal one line is rewritten. Elsewhere, for example in the log of a CI job, the first step is printed and
//! then at most one in `LOG_INTERVAL`.

use crate::output::Output;
use crate::terminal_escape::safe_line;
use crate::terminal_width::columns;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Shortest time between two lines if stderr is not a terminal.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Shows the steps of one command.
pub struct Progress<'a> {
    output: &'a Output,
    started: Instant,
    /// When the last step was printed.
    printed: Cell<Option<Instant>>,
}

impl<'a> Progress<'a> {
    /// A progress that shows nothing yet.
    pub fn new(output: &'a Output) -> Progress<'a> {
        Progress { output, started: Instant::now(), printed: Cell::new(None) }
    }

    /// Shows a step instead of the one before.
    pub fn show(&self, step: &str) {
        let mut step = safe_line(step);
        if let Some(first) = step.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        if self.output.can_rewrite_lines() {
            // a longer line would wrap, and a wrapped line is not rewritten
            let line: String = step.chars().take(usize::from(columns(std::io::stderr())) - 1).collect();
            self.output.rewrite_line(&line);
        } else if self.printed.get().is_none_or(|printed| printed.elapsed() >= LOG_INTERVAL) {
            self.output.print_remark(&format!("{step}\n"));
        } else {
            return;
        }
        self.printed.set(Some(Instant::now()));
    }

    /// Ends the progress, and shows how long the steps took if any was shown.
    pub fn finish(&self, done: &str) {
        if self.printed.get().is_some() {
            if self.output.can_rewrite_lines() {
                self.output.rewrite_line("");
            }
            let seconds = self.started.elapsed().as_secs().max(1);
            self.output.print_remark(&format!("{done} in {seconds} s\n"));
        }
    }
}
