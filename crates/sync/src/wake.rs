//! How workers wake each other without a system call while everybody is awake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst, fence};

/// Wakes one worker: for instance by writing to an eventfd.
pub type WakeFn = Box<dyn Fn() + Send + Sync>;

struct Sleeper {
    asleep: AtomicBool,
    wake: WakeFn,
}

/// The sleep state of all workers, which the routers of a process share, and a router's requests to stop.
///
/// A worker says [`going_to_sleep`](Wakers::going_to_sleep), looks once more for work, and only
/// then waits. Who gives it work looks at the flag afterwards. With a full fence on both sides one
/// of the two sees the other, so no packet waits for a worker that sleeps.
pub struct Wakers {
    sleepers: Arc<[Sleeper]>,
    /// Requests to stop the router that the worker that decides has not heard of.
    stops: AtomicU32,
}

impl Wakers {
    /// One wake function per worker.
    pub fn new(wakes: Vec<WakeFn>) -> Wakers {
        let sleeper = |wake| Sleeper {
            asleep: AtomicBool::new(false),
            wake,
        };
        Wakers {
            sleepers: wakes.into_iter().map(sleeper).collect(),
            stops: AtomicU32::new(0),
        }
    }

    /// Those of another router on the same workers.
    pub fn for_router(&self) -> Wakers {
        Wakers {
            sleepers: Arc::clone(&self.sleepers),
            stops: AtomicU32::new(0),
        }
    }

    /// For workers that never sleep.
    pub fn none(workers: usize) -> Wakers {
        Wakers::new((0..workers).map(|_| Box::new(|| ()) as WakeFn).collect())
    }

    /// The worker is about to wait; it must look for work once more.
    pub fn going_to_sleep(&self, worker: usize) {
        self.sleepers[worker].asleep.store(true, SeqCst);
        fence(SeqCst);
    }

    /// The worker is awake.
    pub fn awake(&self, worker: usize) {
        self.sleepers[worker].asleep.store(false, SeqCst);
    }

    /// Leaves a request to stop the router for the worker that decides about it.
    pub fn ask_stop(&self, worker: usize) {
        self.stops.fetch_add(1, SeqCst);
        self.wake(worker);
    }

    /// Takes the requests that other workers have left.
    #[inline]
    pub fn stops_asked(&self) -> u32 {
        match self.stops.load(SeqCst) {
            0 => 0,
            _ => self.stops.swap(0, SeqCst),
        }
    }

    /// Wakes a worker that sleeps or is about to; costs a fence and a load otherwise.
    #[inline]
    pub fn wake(&self, worker: usize) {
        fence(SeqCst);
        if let Some(sleeper) = self.sleepers.get(worker)
            && sleeper.asleep.load(SeqCst)
            && sleeper.asleep.swap(false, SeqCst)
        {
            (sleeper.wake)();
        }
    }
}
