//! The thread that runs the balancers of all routers. A thread for each of a thousand routers would be too many, and
//! most of them have nothing to balance.

use crate::balance::PAUSE;
use crate::running::Control;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// Maximum interval between searches for new routers.
const LONGEST: Duration = Duration::from_secs(1);

/// Control of the load-balancing thread.
#[derive(Default)]
pub(crate) struct Keeper {
    thread: OnceLock<Thread>,
    ending: AtomicBool,
}

impl Keeper {
    /// Runs the load balancers of all routers until [`end`](Self::end). Call it on one thread only.
    pub(crate) fn run(&self, routers: impl Fn() -> Vec<Arc<Control>>) {
        self.thread.get_or_init(std::thread::current);
        while !self.ending.load(Ordering::Acquire) {
            let (mut left, mut all) = (LONGEST, routers());
            all.retain(|router| !router.is_ending());
            for router in &all {
                left = left.min(router.balance.step_if_due(&router.router));
            }
            std::thread::sleep(PAUSE);
            // An earlier ring may have woken this thread while it waited for something else. A later ring prevents the
            // wait.
            if !all.iter().any(|router| router.balance.is_rung()) {
                drop(all);
                std::thread::park_timeout(left.saturating_sub(PAUSE));
            }
        }
    }

    /// Wakes the thread after the set of routers has changed.
    pub(crate) fn look(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.look();
    }
}
