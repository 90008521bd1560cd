//! Routers that a worker does not poll, because an event wakes them when they have work: a port that gives them packets
//! ([`RxQueue::wakes`](engine::port::RxQueue::wakes)), a timer, another worker, or a message. So a thousand idle
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
const EMPTY_TURNS: u32 = 64;
/// Interval at which an awake worker checks one of the idle routers with descriptors.
const LOOK_EVERY: Duration = Duration::from_micros(20);
/// Time after which an idle router is polled in any case.
const REST: Duration = Duration::from_millis(100);

/// State of an idle router that is not polled until it is woken.
pub(super) struct Rest {
    pub(super) descriptors: Vec<RawFd>,
    /// Time of the router's next timer.
    pub(super) timer: Option<Time>,
    /// Latest time at which the router is polled again.
    until: Time,
}

impl Rest {
    pub(super) fn has_descriptors(&self) -> bool {
        !self.descriptors.is_empty()
    }
}

/// The idle routers of a worker that are not polled.
pub(super) struct Resting {
    worker: usize,
    wakers: Arc<Wakers>,
    /// Indices of running routers, by router number.
    places: HashMap<u64, usize>,
    /// Recorded times at which idle routers are polled again; some were polled earlier.
    ends: BinaryHeap<Reverse<(Time, u64)>>,
    woken: Vec<u64>,
    /// Number of idle routers that have descriptors.
    with_descriptors: u32,
}

impl Resting {
    pub(super) fn new(worker: usize, wakers: Arc<Wakers>) -> Resting {
        Resting {
            worker,
            wakers,
            places: HashMap::new(),
            ends: BinaryHeap::new(),
            woken: Vec::new(),
            with_descriptors: 0,
        }
    }

    /// Updates the indices of the running routers.
    pub(super) fn places(&mut self, routers: impl Iterator<Item = u64>) {
        self.places.clear();
        self.places
            .extend(routers.enumerate().map(|(at, router)| (router, at)));
    }

    /// The next router to wake, because it was woken or its timer has expired: its index, and true if it was woken.
    #[inline]
    pub(super) fn next(&mut self, now: Time) -> Option<(usize, bool)> {
        if self.wakers.any_woken(self.worker) {
            self.wakers.take_woken(self.worker, &mut self.woken);
        }
        while let Some(router) = self.woken.pop() {
            if let Some(&at) = self.places.get(&router) {
                return Some((at, true));
            }
        }
        while let Some(&Reverse((at, router))) = self.ends.peek()
            && at <= now
        {
            self.ends.pop();
            if let Some(&at) = self.places.get(&router) {
                return Some((at, false));
            }
        }
        None
    }

    /// Processes a recorded time. Returns true if the router is to be polled again.
    pub(super) fn is_over(&mut self, local: &mut LocalRouter, now: Time) -> bool {
        local.recorded_wake = None;
        let Some(rest) = &local.rest else {
            return false;
        };
        let until = rest.until;
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
            self.ends.push(Reverse((until, local.router)));
        }
    }

    /// Stops polling a router without work, if it can be woken. The caller must then check for work once more.
    pub(super) fn begin(&mut self, local: &mut LocalRouter, now: Time) -> bool {
        local.empty = local.empty.saturating_add(1);
        if local.halted || !local.long_asks.is_empty() {
            return false;
        }
        let Some(descriptors) = local.graph().may_rest() else {
            return false;
        };
        let mut until = now + REST;
        if !descriptors.is_empty() {
            // Many routers wait for packets of a shared port.
            if local.empty < EMPTY_TURNS || local.account.share.is_of_port() {
                return false;
            }
            self.with_descriptors += 1;
            until = until.min(now + LOOK_EVERY * self.with_descriptors);
        }
        let timer = local.graph().next_timer();
        until = timer.map_or(until, |timer| until.min(timer));
        self.note(local, until);
        local.rest = Some(Rest {
            descriptors,
            timer,
            until,
        });
        local.site.wakers.rest(self.worker);
        true
    }

    /// Makes an idle router polled again; does nothing for other routers.
    pub(super) fn end(&mut self, local: &mut LocalRouter) {
        if let Some(rest) = local.rest.take() {
            self.with_descriptors -= u32::from(rest.has_descriptors());
            local.site.wakers.resume_polling(self.worker);
        }
    }
}
