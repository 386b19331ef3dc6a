//! For tests of what must not wait for another process, such as one that opens the other end of a pipe.

use std::sync::mpsc;
use std::time::Duration;

/// The result of a function that does not wait. The thread of one that does is left behind.
pub(crate) fn without_waiting<T: Send + 'static>(done: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(done()));
    receiver.recv_timeout(Duration::from_secs(20)).expect("it waits for another process")
}
