//! The thread that runs the load balancers of all routers. One thread serves all, because a process may have a thousand
//! routers, most of which need no balancing.

use crate::balance::RING_INTERVAL_MIN;
use crate::running::Control;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// Maximum interval between searches for new routers.
const SEARCH_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Control of the load-balancing thread.
#[derive(Default)]
pub(crate) struct BalanceControl {
    thread: OnceLock<Thread>,
    ending: AtomicBool,
}

impl BalanceControl {
    /// Runs the load balancers of all routers until [`end`](Self::end). Call it on one thread only.
    pub(crate) fn run(&self, routers: impl Fn() -> Vec<Arc<Control>>) {
        self.thread.get_or_init(std::thread::current);
        while !self.ending.load(Ordering::Acquire) {
            let (mut left, mut all) = (SEARCH_INTERVAL_MAX, routers());
            all.retain(|router| !router.is_ending());
            for router in &all {
                left = left.min(router.balance.step_if_due(&router.router));
            }
            std::thread::sleep(RING_INTERVAL_MIN);
            // An earlier ring may have woken this thread while it waited for something else. A later ring prevents the
            // wait.
            if !all.iter().any(|router| router.balance.is_rung()) {
                drop(all);
                std::thread::park_timeout(left.saturating_sub(RING_INTERVAL_MIN));
            }
        }
    }

    /// Wakes the thread after the set of routers has changed.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.wake();
    }
}
