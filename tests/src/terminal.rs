//! A pseudo-terminal in which a program runs as in that of a person, with a size, keys and a screen.
//!
//! The program leads a session whose controlling terminal it is (`setsid --ctty`). What it prints is kept as it was
//! printed, and as the lines that a person sees.

use nix::pty::{OpenptyResult, Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The longest wait for the end of a program, or for what it prints. A busy machine with two cores needs a tenth of it.
const DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running program in a terminal. It is killed when this is dropped.
pub struct Terminal {
    child: Child,
    keyboard: File,
    printed: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    /// Runs a program in a new terminal with this number of columns.
    pub fn run(command: &Command, columns: u16) -> Terminal {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).expect("there is a terminal left");
        let copy = |file: &File| file.try_clone().expect("there is a descriptor left");
        let (master, slave) = (File::from(master), File::from(slave));
        let mut program = Command::new("setsid");
        program.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            program.env(name, value.unwrap_or_default());
        }
        program.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("COLUMNS");
        let child = program.stdin(copy(&slave)).stdout(copy(&slave)).stderr(slave).spawn();
        // the command keeps its ends of the terminal, whose other end would not see that the program has ended
        drop(program);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, kept) = (copy(&master), printed.clone());
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // the terminal of a program that has ended is an error to read
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                kept.lock().expect("no reader panics").extend(&bytes[..count]);
            }
        });
        let child = child.expect("setsid is part of util-linux");
        Terminal { child, keyboard: master, printed, reader: Some(reader) }
    }

    /// Types a text.
    pub fn type_text(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("the terminal is open");
    }

    /// What was printed so far, with its control sequences.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().expect("no reader panics")).into_owned()
    }

    /// Waits until the lines of the screen contain a text.
    pub fn until(&self, text: &str) {
        let end = Instant::now() + DEADLINE;
        while !lines(&self.printed()).iter().any(|line| line.contains(text)) {
            assert!(Instant::now() < end, "{text:?} was never printed:\n{}", self.printed());
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    /// Waits until the program has ended. Returns how, and what it has printed.
    pub fn finish(mut self) -> (ExitStatus, String) {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                self.reader.take().expect("nobody else waits for it").join().expect("no reader panics");
                return (status, self.printed());
            }
            assert!(Instant::now() < end, "the program does not end:\n{}", self.printed());
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The lines that a person sees: without colours, and with what was printed over other text. Lines do not wrap here.
pub fn lines(printed: &str) -> Vec<String> {
    let (mut lines, mut line, mut column) = (Vec::new(), Vec::new(), 0);
    let mut rest = printed.chars();
    while let Some(next) = rest.next() {
        match next {
            '\n' => {
                lines.push(line.drain(..).collect());
                column = 0;
            }
            '\r' => column = 0,
            '\x1b' => {
                // a sequence ends with its letter: K clears the rest of the line
                let last = rest.by_ref().find(|c| c.is_ascii_alphabetic());
                if last == Some('K') {
                    line.truncate(column);
                }
            }
            other => {
                if column < line.len() {
                    line[column] = other
                } else {
                    line.push(other)
                }
                column += 1;
            }
        }
    }
    lines.push(line.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_has_what_was_printed_last() {
        assert_eq!(lines("a \x1b[32mgreen\x1b[0m b\r\nnext"), ["a green b", "next"]);
        assert_eq!(lines("\r50 %\x1b[K\rdone\x1b[K\n"), ["done", ""]);
        assert_eq!(lines("long line\r\x1b[Kx"), ["x"]);
    }
}
