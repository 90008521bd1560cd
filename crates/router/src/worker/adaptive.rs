//! Adaptive polling: how long a worker without work polls before it sleeps.
//!
//! Polling catches packets that come soon, and is wasted on late ones: heartbeats every few milliseconds would keep a
//! core half busy. Each time that work comes later than the polling time, the worker halves the next polling time and
//! doubles its first sleep. When work comes soon again, the worker undoes this step by step.

use crate::worker::Idle;
use engine::clock::Time;
use std::time::Duration;

/// Number of halvings after which a worker without work sleeps at once.
const DEEPEST: u32 = 7;

/// A worker's experience of when work comes.
#[derive(Debug)]
pub(crate) struct AdaptivePolling {
    /// Number of times that the polling time was halved.
    halved: u32,
    /// Time of the last work.
    since: Time,
    /// The worker has slept since then.
    slept: bool,
    /// The shortest time that polling in full took, in nanoseconds: others may have had the core in longer ones.
    full: u64,
}

impl AdaptivePolling {
    pub(crate) fn new(now: Time) -> AdaptivePolling {
        AdaptivePolling {
            halved: 0,
            since: now,
            slept: false,
            full: u64::MAX,
        }
    }

    /// A turn that began at `now` found work after others that found none.
    pub(crate) fn found(&mut self, now: Time) {
        let soon = !self.slept || now.0.saturating_sub(self.since.0) <= self.full;
        self.halved = match soon {
            true => self.halved.saturating_sub(1),
            false => (self.halved + 1).min(DEEPEST),
        };
        self.slept = false;
    }

    /// Ignores the last sleep: it was that of a worker that must poll, so the arrival of work is unknown.
    pub(crate) fn polls(&mut self) {
        self.slept = false;
    }

    /// The first turn without work began at `now`.
    pub(crate) fn idle(&mut self, now: Time) {
        self.since = now;
    }

    /// True if polling ends after `empty` empty turns in a row.
    pub(crate) fn is_over(&self, empty: u32, idle: &Idle) -> bool {
        idle.spins < u32::MAX && empty > idle.spins >> self.halved
    }

    /// Length of the sleep after `empty` empty turns in a row; the first of these sleeps begins at `now`.
    pub(crate) fn sleep(&mut self, empty: u32, idle: &Idle, now: Time) -> Duration {
        if !self.slept && self.halved == 0 {
            self.full = self.full.min(now.0.saturating_sub(self.since.0));
        }
        self.slept = true;
        let steps = empty.saturating_sub(idle.spins >> self.halved);
        idle.first
            .saturating_mul(1 << (steps + self.halved).min(20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN_NS: u64 = 1_000;
    const IDLE: Idle = Idle {
        spins: 64,
        first: Duration::from_micros(10),
        polled: Duration::from_micros(100),
        longest: Duration::from_millis(100),
    };

    #[test]
    fn worker_set_to_never_sleep_polls_whatever_it_has_learned() {
        let mut polling = AdaptivePolling::new(Time(1));
        assert!(polling.is_over(65, &IDLE));
        after(&mut polling, &[5_000_000; 10]);
        for empty in [1, 65, u32::MAX / 2 + 1, u32::MAX] {
            assert!(!polling.is_over(empty, &Idle::never()), "{empty}");
        }
    }

    /// Turns of a microsecond; work that takes one turn comes at these distances. Gives the empty turns and sleeps
    /// before the last one.
    fn after(polling: &mut AdaptivePolling, gaps: &[u64]) -> (u32, u32) {
        let (mut now, mut counts) = (1, (0, 0));
        for gap in gaps {
            let end = now + gap;
            let mut empty = 0;
            counts = (0, 0);
            polling.idle(Time(now));
            while now < end {
                empty += 1;
                now += TURN_NS;
                if polling.is_over(empty, &IDLE) {
                    let time = polling.sleep(empty, &IDLE, Time(now));
                    // A descriptor wakes it.
                    now = end.min(now + time.min(IDLE.longest).as_nanos() as u64);
                    counts.1 += 1;
                } else {
                    counts.0 += 1;
                }
            }
            polling.found(Time(now));
        }
        counts
    }

    #[test]
    fn a_worker_without_experience_polls_before_it_sleeps() {
        let mut polling = AdaptivePolling::new(Time(0));
        assert_eq!(after(&mut polling, &[100_000]).0, 64);
    }

    #[test]
    fn worker_sleeps_at_once_after_repeated_late_work() {
        let mut polling = AdaptivePolling::new(Time(0));
        assert_eq!(after(&mut polling, &[800_000; 12]), (0, 1));
    }

    #[test]
    fn worker_polls_again_after_early_work() {
        let mut polling = AdaptivePolling::new(Time(0));
        after(&mut polling, &[800_000; 12]);
        assert_eq!(after(&mut polling, &[30_000; 12]), (30, 0));
    }

    #[test]
    fn a_source_that_cannot_wake_is_polled_as_ever() {
        let mut polling = AdaptivePolling::new(Time(0));
        for round in 0..100 {
            polling.idle(Time(round * 200_000));
            let _ = polling.sleep(65, &IDLE, Time(round * 200_000 + 65_000));
            polling.polls();
            polling.found(Time(round * 200_000 + 165_000));
        }
        assert_eq!(after(&mut polling, &[60_000]), (60, 0));
    }

    #[test]
    fn now_and_then_work_that_comes_soon_does_not_keep_a_worker_awake() {
        let mut polling = AdaptivePolling::new(Time(0));
        let mixed = [800_000, 30_000, 800_000, 800_000].repeat(20);
        let (empty, _) = after(&mut polling, &mixed);
        assert!(empty <= 1, "{empty} empty turns");
    }

    #[test]
    fn worker_set_to_never_sleep_polls() {
        let polling = AdaptivePolling {
            halved: DEEPEST,
            ..AdaptivePolling::new(Time(0))
        };
        let awake = Idle {
            spins: u32::MAX,
            ..IDLE
        };
        assert!(!polling.is_over(1_000_000, &awake));
    }
}
