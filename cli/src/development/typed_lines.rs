//! The lines that are typed while `pintle dev` runs.

use std::io::{BufRead, IsTerminal, stdin};
use tokio::sync::mpsc::{Receiver, channel};

/// The most lines that wait, for example during a deployment.
const LINES_MAX: usize = 8;

/// The lines of stdin. A process that starts in the background does not read from a terminal, which would stop it.
pub fn receive() -> Receiver<String> {
    let (sender, receiver) = channel(LINES_MAX);
    let in_background = stdin().is_terminal()
        && nix::unistd::tcgetpgrp(stdin()).is_ok_and(|foreground| foreground != nix::unistd::getpgrp());
    if !in_background {
        let read = move || {
            for line in stdin().lock().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        };
        // without the thread only typed lines are missing
        std::thread::Builder::new().spawn(read).ok();
    }
    receiver
}
