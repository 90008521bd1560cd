//! Idle routers, which a worker does not poll: an event wakes each when it has work. The event is a packet from a port
//! ([`RxQueue::wakes`](engine::port::RxQueue::wakes)), a timer, another worker's call, or a message. So a thousand idle
//! routers cost no more than one.

use super::LocalRouter;
use engine::clock::Time;
use engine::wake::Wakers;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// Number of empty turns before a router with descriptors becomes idle: polling its descriptors costs one system call
/// each.
const EMPTY_TURNS_MIN: u32 = 64;
/// Interval at which an awake worker checks one of the idle routers with descriptors.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_micros(20);
/// Maximum interval between two polls of an idle router.
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(100);

/// State of an idle router that is not polled until it is woken.
pub(super) struct IdleRouter {
    pub(super) descriptors: Vec<RawFd>,
    /// Time of the router's next timer.
    pub(super) timer: Option<Time>,
    /// Latest time at which the router is polled again.
    poll_at: Time,
}

impl IdleRouter {
    pub(super) fn has_descriptors(&self) -> bool {
        !self.descriptors.is_empty()
    }
}

/// Idle routers of a worker.
pub(super) struct IdleRouters {
    worker: usize,
    wakers: Arc<Wakers>,
    /// Indices of running routers, by router number.
    indices: HashMap<u64, usize>,
    /// Times at which idle routers are polled again. An entry is stale if its router was polled earlier.
    deadlines: BinaryHeap<Reverse<(Time, u64)>>,
    woken: Vec<u64>,
    /// Number of idle routers that have descriptors.
    with_descriptors: u32,
}

impl IdleRouters {
    pub(super) fn new(worker: usize, wakers: Arc<Wakers>) -> IdleRouters {
        IdleRouters {
            worker,
            wakers,
            indices: HashMap::new(),
            deadlines: BinaryHeap::new(),
            woken: Vec::new(),
            with_descriptors: 0,
        }
    }

    /// Updates the indices of the running routers.
    pub(super) fn update_indices(&mut self, routers: impl Iterator<Item = u64>) {
        self.indices.clear();
        self.indices
            .extend(routers.enumerate().map(|(at, router)| (router, at)));
    }

    /// Next router to poll again: its index, and true if an event woke it, false if its timer has expired.
    #[inline]
    pub(super) fn next(&mut self, now: Time) -> Option<(usize, bool)> {
        if self.wakers.any_woken(self.worker) {
            self.wakers.take_woken(self.worker, &mut self.woken);
        }
        while let Some(router) = self.woken.pop() {
            if let Some(&at) = self.indices.get(&router) {
                return Some((at, true));
            }
        }
        while let Some(&Reverse((at, router))) = self.deadlines.peek()
            && at <= now
        {
            self.deadlines.pop();
            if let Some(&at) = self.indices.get(&router) {
                return Some((at, false));
            }
        }
        None
    }

    /// Processes an entry of the recorded times. Returns true if the router must be polled again now.
    pub(super) fn is_over(&mut self, local: &mut LocalRouter, now: Time) -> bool {
        local.recorded_wake = None;
        let Some(idle) = &local.idle else {
            return false;
        };
        let until = idle.poll_at;
        if until > now {
            self.note(local, until);
        }
        until <= now
    }

    fn note(&mut self, local: &mut LocalRouter, until: Time) {
        if local
            .recorded_wake
            .is_none_or(|recorded_wake| until < recorded_wake)
        {
            local.recorded_wake = Some(until);
            self.deadlines.push(Reverse((until, local.router)));
        }
    }

    /// Stops polling a router without work, if an event can wake it. The caller must then poll once more, for work that
    /// arrived in between.
    pub(super) fn stop_polling(&mut self, local: &mut LocalRouter, now: Time) -> bool {
        local.empty = local.empty.saturating_add(1);
        if local.halted || !local.long_asks.is_empty() {
            return false;
        }
        let Some(descriptors) = local.graph().may_be_idle() else {
            return false;
        };
        let mut until = now + POLL_INTERVAL_MAX;
        if !descriptors.is_empty() {
            // Many routers wait for packets of a shared port.
            if local.empty < EMPTY_TURNS_MIN || local.account.share.polls_shared_port() {
                return false;
            }
            self.with_descriptors += 1;
            until = until.min(now + IDLE_CHECK_INTERVAL * self.with_descriptors);
        }
        let timer = local.graph().next_timer();
        until = timer.map_or(until, |timer| until.min(timer));
        self.note(local, until);
        local.idle = Some(IdleRouter {
            descriptors,
            timer,
            poll_at: until,
        });
        local.site.wakers.mark_idle(self.worker);
        true
    }

    /// Resumes polling of an idle router; does nothing for other routers.
    pub(super) fn end(&mut self, local: &mut LocalRouter) {
        if let Some(idle) = local.idle.take() {
            self.with_descriptors -= u32::from(idle.has_descriptors());
            local.site.wakers.resume_polling(self.worker);
        }
    }
}
