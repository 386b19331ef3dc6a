//! Threads for work that may block: on files (archives, uploads, files that are sent), and for the views of the etcd engine.
//!
//! They are started with the process and never end before it, because a thread that is started later may be refused
//! (`ulimit -u`, `TasksMax=`): the runtime's own pool would then end the process. Two of them are always left for short
//! work: work on a whole file, such as to verify or sync it, takes a permit first.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use tokio::sync::{Semaphore, oneshot};

/// The threads: two for whole files, as many as a small machine has cores, and two for short work.
const THREADS: usize = 4;
/// Whole files that are read, hashed, unpacked or synced at the same time.
const WHOLE_FILES_MAX: usize = 2;

type Work = Box<dyn FnOnce() + Send>;

/// A handle of the threads. They end with the last one.
#[derive(Clone)]
pub struct DiskThreads {
    work: Sender<Work>,
    whole_files: Arc<Semaphore>,
}

impl DiskThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start() -> io::Result<DiskThreads> {
        let (work, waiting) = channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let waiting = waiting.clone();
            Builder::new().name("disk".to_owned()).spawn(move || serve(&waiting))?;
        }
        Ok(DiskThreads { work, whole_files: Arc::new(Semaphore::new(WHOLE_FILES_MAX)) })
    }

    /// Runs short work. If the call is dropped, the work still completes.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (reply, answer) = oneshot::channel();
        let work = move || {
            let _ = reply.send(work()); // an error means that the call was dropped
        };
        self.work.send(Box::new(work)).expect("the threads end after the last handle");
        answer.await.expect("disk work does not panic")
    }

    /// Runs work on a whole file. It waits for other such work.
    pub async fn run_on_whole_file<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let permit = self.whole_files.clone().acquire_owned().await.expect("the semaphore is never closed");
        // The permit ends with the work, which a request that is dropped does not end.
        let work = move || {
            let _permit = permit;
            work()
        };
        self.run(work).await
    }
}

fn serve(waiting: &Mutex<Receiver<Work>>) {
    loop {
        let next = waiting.lock().expect("no holder panics").recv();
        match next {
            Ok(work) => work(),
            Err(_) => return, // the last handle was dropped
        }
    }
}

#[cfg(test)]
impl DiskThreads {
    /// Blocks all threads until the result is dropped.
    pub fn occupy_all(&self) -> Vec<Sender<()>> {
        let occupy = |_| {
            let (open, gate) = channel();
            self.work
                .send(Box::new(move || gate.recv().unwrap_or_default()))
                .expect("the threads end after the last handle");
            open
        };
        (0..THREADS).map(occupy).collect()
    }

    /// Lets no work on a whole file begin until the result is dropped.
    pub fn occupy_whole_files(&self) -> tokio::sync::OwnedSemaphorePermit {
        let permits = u32::try_from(WHOLE_FILES_MAX).expect("a few");
        self.whole_files.clone().try_acquire_many_owned(permits).expect("no file is worked on")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn work_on_whole_files_leaves_threads_for_short_work() {
        let disk = DiskThreads::start().expect("threads");
        let mut gates = Vec::new();
        let mut whole = Vec::new();
        for _ in 0..THREADS {
            let (open, gate) = channel::<()>();
            gates.push(open);
            let disk = disk.clone();
            whole.push(tokio::spawn(async move { disk.run_on_whole_file(move || gate.recv()).await }));
        }
        tokio::task::yield_now().await; // they wait for a permit, or for their gate
        assert_eq!(timeout(Duration::from_secs(10), disk.run(|| 7)).await.expect("two threads are free"), 7);
        gates.into_iter().for_each(|gate| gate.send(()).expect("it waits"));
        for whole in whole {
            whole.await.expect("it does not panic").expect("the gate is open");
        }
    }
}
