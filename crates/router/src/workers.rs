//! The workers of a process: threads, mailboxes and wakers. Any number of routers runs on them.

use crate::ANSWER_TIMEOUT;
use crate::worker::{Changed, Idle, Mailbox, Routers, Worker, WorkerTimes};
use engine::handler::AskError;
use engine::waiter::Waiter;
use engine::wake::{WakeFn, Wakers};
use packet::pool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sync::Lock;
use sync::publish;

/// Number of heap buffers allocated per worker before the first router starts, which exceeds a burst.
const INITIAL_BUFFERS: usize = 1024;

/// Makes a thread's waiter and the function that wakes it.
pub type MakeWaiter = dyn Fn() -> std::io::Result<(Box<dyn Waiter>, WakeFn)>;

struct Handle {
    mailbox: Mailbox,
    times: Arc<WorkerTimes>,
}

/// Worker threads of a process. They end when the last reference to this value is dropped.
pub struct Workers {
    handles: Vec<Handle>,
    threads: Lock<Vec<JoinHandle<()>>>,
    wakers: Arc<Wakers>,
    changed: Arc<Changed>,
    /// Number of the next router.
    numbers: AtomicU64,
    buffers: Once,
}

impl Workers {
    /// Starts `count` workers, which run no router yet.
    ///
    /// # Errors
    /// A worker's thread or waiter cannot be created; a sentence.
    pub fn start(count: usize, make_waiter: &MakeWaiter) -> Result<Arc<Workers>, String> {
        let mut waiters = Vec::new();
        let mut wakes = Vec::new();
        for _ in 0..count {
            let (waiter, wake) =
                make_waiter().map_err(|e| format!("cannot make a worker's waiter: {e}"))?;
            waiters.push(waiter);
            wakes.push(wake);
        }
        let wakers = Arc::new(Wakers::new(wakes));
        let mut workers = Workers {
            handles: Vec::new(),
            threads: Lock::default(),
            wakers: Arc::clone(&wakers),
            changed: Arc::default(),
            numbers: AtomicU64::new(0),
            buffers: Once::new(),
        };
        for (number, waiter) in waiters.into_iter().enumerate() {
            let reader = publish::register()?;
            let (worker, mailbox, times) = Worker::new(number, Arc::clone(&wakers), waiter);
            let thread = std::thread::Builder::new().name(format!("worker{number}"));
            let thread = thread.spawn(move || worker.run(reader));
            let thread = thread.map_err(|e| format!("cannot start worker {number}: {e}"))?;
            workers.handles.push(Handle { mailbox, times });
            workers.threads.get_mut().push(thread);
        }
        Ok(Arc::new(workers))
    }

    /// Number of workers.
    pub fn count(&self) -> usize {
        self.handles.len()
    }

    /// Counters of a worker's turns and sleeps.
    pub fn times(&self, worker: usize) -> &WorkerTimes {
        &self.handles[worker].times
    }

    /// Notified when a router is done or has ended on a worker.
    pub fn changed(&self) -> &Arc<Changed> {
        &self.changed
    }

    pub(crate) fn wakers(&self) -> &Wakers {
        &self.wakers
    }

    /// Allocates packet buffers before the first router starts. Ports must be open already, because DPDK ports bring
    /// their own buffers.
    pub(crate) fn make_buffers(&self) {
        let count = self.count() * INITIAL_BUFFERS;
        self.buffers.call_once(|| pool::make_ahead(count));
    }

    /// Allocates the number of a new router.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Posts a message, which the worker runs between batches.
    pub(crate) fn post_job(
        &self,
        worker: usize,
        message: impl FnOnce(&mut Routers) + Send + 'static,
    ) -> Result<(), AskError> {
        if !self.handles[worker].mailbox.post(message) {
            return Err(AskError::NoAnswer(worker));
        }
        self.wakers.wake(worker);
        Ok(())
    }

    /// Runs `ask` on every worker, all at the same time, and returns the answers by worker.
    pub(crate) fn ask_all<R: Send + 'static>(
        &self,
        ask: impl Fn(&mut Routers) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        let ask = Arc::new(ask);
        let post = |worker| {
            let (to, answer) = sync_channel(1);
            let ask = Arc::clone(&ask);
            self.post_job(worker, move |routers| {
                // The caller may have given up.
                let _ = to.send(ask(routers));
            })?;
            Ok((worker, answer))
        };
        answers((0..self.count()).map(post), ANSWER_TIMEOUT)
    }

    /// Sets how idle workers sleep.
    pub fn set_idle(&self, idle: Idle) -> Result<(), AskError> {
        self.ask_all(move |routers| routers.set_idle(idle))
            .map(|_| ())
    }

    /// Runs `job` on a worker's thread, between batches.
    pub fn on_thread<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, AskError> {
        let (to, answer) = sync_channel(1);
        self.post_job(worker, move |_| _ = to.send(job()))?;
        let answer = answer.recv_timeout(ANSWER_TIMEOUT);
        answer.map_err(|_| AskError::NoAnswer(worker))
    }

    /// Checks that all workers process messages; the error names one that does not.
    pub fn check_workers(&self) -> Result<(), AskError> {
        self.ask_all(|_| ()).map(|_| ())
    }

    /// Nanoseconds that routers have used, by worker: each router's [number](super::Router::number), and the time of
    /// the worker's turns in which it moved something.
    pub fn busy(&self) -> Result<Vec<Vec<(u64, u64)>>, AskError> {
        self.ask_all(Routers::busy)
    }

    /// Ends all workers, and waits for them.
    pub fn stop(&self) {
        for worker in 0..self.count() {
            // The worker may have ended already.
            let _ = self.post_job(worker, Routers::quit);
        }
        self.join();
    }

    /// Waits until all have ended.
    pub fn join(&self) {
        let mut threads = self.threads.lock();
        for thread in threads.drain(..) {
            // A worker that panicked has already reported it on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers of all workers, in the order of the requests. All are asked before any is waited for.
pub(crate) fn answers<R>(
    asked: impl Iterator<Item = Result<(usize, Receiver<R>), AskError>>,
    timeout: Duration,
) -> Result<Vec<R>, AskError> {
    let asked = asked.collect::<Result<Vec<_>, _>>()?;
    let begin = Instant::now();
    let wait = |(worker, answer): (usize, Receiver<R>)| {
        let remaining = timeout.saturating_sub(begin.elapsed());
        let answer = answer.recv_timeout(remaining);
        answer.map_err(|_| AskError::NoAnswer(worker))
    };
    asked.into_iter().map(wait).collect()
}
