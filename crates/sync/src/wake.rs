//! Wakes sleeping workers; makes no system call while all are awake.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// Wakes one worker: for instance by writing to an eventfd.
pub type WakeFn = Box<dyn Fn() + Send + Sync>;

struct Sleeper {
    asleep: AtomicBool,
    wake: WakeFn,
    /// Numbers of the idle routers of this worker that have been woken.
    woken: Mutex<Vec<u64>>,
    any_woken: AtomicBool,
}

/// The sleep state of all workers, shared by the routers of a process; for one router, also the workers on which it
/// is idle (is not polled), and its stop requests.
///
/// A worker calls [`going_to_sleep`](Wakers::going_to_sleep), looks for work once more, and only then waits. A thread
/// that gives it work reads the flag afterwards. With a full fence on both sides, one of the two sees the other's
/// write, so no packet waits for a sleeping worker. A router that a worker does not poll follows the same rule:
/// [`mark_idle`](Wakers::mark_idle), then one more look for work.
pub struct Wakers {
    sleepers: Arc<[Sleeper]>,
    /// Number of the router. The flags are true on workers where it is idle; there are none if these belong to no
    /// router.
    router: u64,
    idle: Box<[AtomicBool]>,
    /// Stop requests that the deciding worker has not seen yet.
    stops: AtomicU32,
}

impl Wakers {
    /// Makes the state for workers, with one wake function for each.
    pub fn new(wakes: Vec<WakeFn>) -> Wakers {
        let sleeper = |wake| Sleeper {
            asleep: AtomicBool::new(false),
            wake,
            woken: Mutex::default(),
            any_woken: AtomicBool::new(false),
        };
        Wakers {
            sleepers: wakes.into_iter().map(sleeper).collect(),
            router: 0,
            idle: Box::default(),
            stops: AtomicU32::new(0),
        }
    }

    /// A router's own idle state and stop requests, with the sleep state shared by all routers of these workers.
    pub fn for_router(&self, router: u64) -> Wakers {
        Wakers {
            sleepers: Arc::clone(&self.sleepers),
            router,
            idle: self.sleepers.iter().map(|_| false.into()).collect(),
            stops: AtomicU32::new(0),
        }
    }

    /// State for workers that never sleep.
    pub fn none(workers: usize) -> Wakers {
        Wakers::new((0..workers).map(|_| Box::new(|| ()) as WakeFn).collect())
    }

    /// Records that the worker is about to wait; it must check for work once more.
    pub fn going_to_sleep(&self, worker: usize) {
        self.sleepers[worker].asleep.store(true, SeqCst);
        fence(SeqCst);
    }

    /// The worker is awake.
    pub fn awake(&self, worker: usize) {
        self.sleepers[worker].asleep.store(false, SeqCst);
    }

    /// Posts a stop request for the worker that decides about it.
    pub fn ask_stop(&self, worker: usize) {
        self.stops.fetch_add(1, SeqCst);
        self.wake(worker);
    }

    /// Takes the stop requests that other workers have posted.
    #[inline]
    pub fn stops_asked(&self) -> u32 {
        match self.stops.load(SeqCst) {
            0 => 0,
            _ => self.stops.swap(0, SeqCst),
        }
    }

    /// Marks the router as idle: the worker no longer polls it until it is woken. The caller must look for work once
    /// more.
    pub fn mark_idle(&self, worker: usize) {
        self.idle[worker].store(true, SeqCst);
        fence(SeqCst);
    }

    /// Records that the worker polls the router again.
    pub fn resume_polling(&self, worker: usize) {
        self.idle[worker].store(false, SeqCst);
    }

    /// True if idle routers of a worker have been woken.
    #[inline]
    pub fn any_woken(&self, worker: usize) -> bool {
        self.sleepers[worker].any_woken.load(SeqCst)
    }

    /// Moves the numbers of woken idle routers into a list.
    pub fn take_woken(&self, worker: usize, into: &mut Vec<u64>) {
        let sleeper = &self.sleepers[worker];
        sleeper.any_woken.store(false, SeqCst);
        into.append(&mut sleeper.woken.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Wakes the router on a worker, and the worker if it sleeps or is about to; costs a fence and two loads otherwise.
    #[inline]
    pub fn wake(&self, worker: usize) {
        fence(SeqCst);
        self.wake_fenced(worker);
    }

    /// Like [`wake`](Self::wake), without the fence: the caller has already executed a full fence after giving the
    /// worker work.
    #[inline]
    pub fn wake_fenced(&self, worker: usize) {
        if let Some(rests) = self.idle.get(worker)
            && rests.load(SeqCst)
            && rests.swap(false, SeqCst)
        {
            self.note_woken(worker);
        }
        if let Some(sleeper) = self.sleepers.get(worker)
            && sleeper.asleep.load(SeqCst)
            && sleeper.asleep.swap(false, SeqCst)
        {
            (sleeper.wake)();
        }
    }

    #[inline(never)]
    fn note_woken(&self, worker: usize) {
        let sleeper = &self.sleepers[worker];
        let mut woken = sleeper.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push(self.router);
        drop(woken);
        sleeper.any_woken.store(true, SeqCst);
        fence(SeqCst);
    }
}
