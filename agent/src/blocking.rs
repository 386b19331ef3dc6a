//! Work that may block for seconds, such as reading many files, beside the loop of an agent.
//!
//! The runtime's own pool must not be used: it ends the process when the limit of processes and threads is reached
//! (`ulimit -u`, `TasksMax=`), and the service manager starts the agent again, which then fails in the same way. Here the
//! work is done in the loop itself if no thread can be started; it delays the loop, and the log names the limit.
//!
//! Each call has one thread, which ends with its work. [`run`] has at most one of these threads: a call that is dropped
//! does not end the work (a folder on a file server that does not answer can hold it for hours), and the next call
//! waits until it has ended. [`beside`] is for work that the loop needs at once: it waits for no
//! other call.
//!
//! Called by `hook_process` and `unit_supervisor`.

use crate::fault;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use tokio::sync::{Semaphore, oneshot};

/// The permit of the one thread; the thread holds it until its work has ended.
static THREAD: Semaphore = Semaphore::const_new(1);

/// Runs the work on a thread of its own, or in this call if no thread can be started. First waits until the work of
/// earlier calls has ended. If the call is dropped while its thread works, the thread still completes the work.
///
/// # Panics
/// If the work panics.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let permit = THREAD.acquire().await.expect("it is never closed");
    beside(move || {
        let done = work();
        drop(permit);
        done
    })
    .await
}

/// Does work on a thread of its own, which starts when this is first polled, or in this call if no thread can be
/// started. If the call is dropped, the thread still completes the work.
///
/// # Panics
/// If the work panics.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (reply, answer) = oneshot::channel();
    let work = move || {
        let _ = reply.send(work()); // an error means that the call was dropped
    };
    // the thread takes the work out of it; if there is no thread, the work is still there
    let work = Arc::new(Mutex::new(Some(work)));
    let shared = work.clone();
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let thread = Builder::new().name("blocking".to_owned()).spawn(move || {
        if let Some(work) = take(&shared) {
            work();
        }
    });
    if let Err(error) = thread {
        tracing::warn!(
            "cannot start a thread: {}; the agent waits for work on files",
            fault::with_setting(&error)
        );
        if let Some(work) = take(&work) {
            work();
        }
    }
    answer.await.expect("work on files does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    /// The environment variable of the process in which no further thread can be started.
    const LIMITED: &str = "PINTLE_TEST_NO_THREAD";
    const NAME: &str = "blocking::tests::work_is_done_whether_or_not_a_thread_can_be_started";

    /// Lets this process use no more memory: the stack of another thread finds no room, which the C library reports as
    /// it reports the limit of processes. That limit itself does not apply to root.
    fn allow_no_thread() {
        let used = std::fs::read_to_string("/proc/self/statm").expect("it runs");
        let pages: u64 = used.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
        let (_, hard) = getrlimit(Resource::RLIMIT_AS).expect("it is known");
        setrlimit(Resource::RLIMIT_AS, pages * 4096 + (512 << 10), hard).expect("it is lowered");
    }

    #[test]
    fn work_that_a_dropped_call_has_left_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let ((started, has_started), (finish, hangs)) =
            (oneshot::channel(), std::sync::mpsc::channel::<()>());
        let left = run(move || {
            let _ = started.send(());
            hangs.recv().expect("it is sent");
        });
        runtime.block_on(async {
            tokio::select! { biased; _ = has_started => {}, () = left => panic!("it hangs") }
        });
        let mut next = Box::pin(run(|| ()));
        let is_done =
            next.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready();
        assert!(!is_done && THREAD.available_permits() == 0, "the first work still runs");
        finish.send(()).expect("it waits");
        runtime.block_on(next);
    }

    #[test]
    fn work_is_done_whether_or_not_a_thread_can_be_started() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let thread = |is_own: bool| {
            let this = std::thread::current().id();
            let ran = runtime.block_on(run(move || std::thread::current().id()));
            assert_eq!(ran == this, is_own);
        };
        if std::env::var_os(LIMITED).is_some() {
            allow_no_thread();
            return thread(true);
        }
        thread(false);
        let limited = std::process::Command::new(std::env::current_exe().expect("it has a path"))
            .args(["--exact", NAME, "--nocapture"])
            .env(LIMITED, "")
            .output()
            .expect("it runs");
        assert!(limited.status.success(), "{limited:?}");
        assert!(String::from_utf8_lossy(&limited.stdout).contains("1 passed"), "{limited:?}");
    }
}
