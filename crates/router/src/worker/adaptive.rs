//! Adaptive polling: how long a worker without work polls before it sleeps.
//!
//! Polling finds packets that arrive soon, but is wasted before packets that arrive late: heartbeats every few
//! milliseconds would keep a core half busy. After each arrival later than the polling time, the worker halves the next
//! polling time and doubles its first sleep. Early arrivals undo this step by step.

use crate::worker::Idle;
use engine::clock::Time;
use std::time::Duration;

/// Number of halvings after which an idle worker sleeps at once.
const HALVINGS_MAX: u32 = 7;

/// Adaptive polling time of a worker, from the arrival times of work.
#[derive(Debug)]
pub(crate) struct AdaptivePolling {
    /// Number of times that the polling time was halved.
    halvings: u32,
    /// Time of the last work.
    last_work: Time,
    /// True if the worker has slept since the last work.
    slept: bool,
    /// Minimum duration of a complete polling phase, in nanoseconds. Longer phases may include other threads' time on
    /// the core.
    full_poll_ns: u64,
}

impl AdaptivePolling {
    pub(crate) fn new(now: Time) -> AdaptivePolling {
        AdaptivePolling {
            halvings: 0,
            last_work: now,
            slept: false,
            full_poll_ns: u64::MAX,
        }
    }

    /// Records work that a turn from `now` on found after empty turns.
    pub(crate) fn record_work(&mut self, now: Time) {
        let soon = !self.slept || now.0.saturating_sub(self.last_work.0) <= self.full_poll_ns;
        self.halvings = match soon {
            true => self.halvings.saturating_sub(1),
            false => (self.halvings + 1).min(HALVINGS_MAX),
        };
        self.slept = false;
    }

    /// Ignores the last sleep of a worker that must poll, because the arrival time of work is unknown.
    pub(crate) fn ignore_sleep(&mut self) {
        self.slept = false;
    }

    /// The first turn without work began at `now`.
    pub(crate) fn record_idle(&mut self, now: Time) {
        self.last_work = now;
    }

    /// True if polling ends after `empty` empty turns in a row.
    pub(crate) fn is_exhausted(&self, empty: u32, idle: &Idle) -> bool {
        idle.spins < u32::MAX && empty > idle.spins >> self.halvings
    }

    /// Length of the sleep after `empty` empty turns in a row; the first of these sleeps begins at `now`.
    pub(crate) fn next_sleep(&mut self, empty: u32, idle: &Idle, now: Time) -> Duration {
        if !self.slept && self.halvings == 0 {
            self.full_poll_ns = self
                .full_poll_ns
                .min(now.0.saturating_sub(self.last_work.0));
        }
        self.slept = true;
        let steps = empty.saturating_sub(idle.spins >> self.halvings);
        idle.first
            .saturating_mul(1 << (steps + self.halvings).min(20))
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
        assert!(polling.is_exhausted(65, &IDLE));
        after(&mut polling, &[5_000_000; 10]);
        for empty in [1, 65, u32::MAX / 2 + 1, u32::MAX] {
            assert!(!polling.is_exhausted(empty, &Idle::never()), "{empty}");
        }
    }

    /// Simulates turns of a microsecond, with work for one turn after each gap. Returns the numbers of empty turns and
    /// of sleeps before the last work.
    fn after(polling: &mut AdaptivePolling, gaps: &[u64]) -> (u32, u32) {
        let (mut now, mut counts) = (1, (0, 0));
        for gap in gaps {
            let end = now + gap;
            let mut empty = 0;
            counts = (0, 0);
            polling.record_idle(Time(now));
            while now < end {
                empty += 1;
                now += TURN_NS;
                if polling.is_exhausted(empty, &IDLE) {
                    let time = polling.next_sleep(empty, &IDLE, Time(now));
                    // A descriptor wakes the worker.
                    now = end.min(now + time.min(IDLE.longest).as_nanos() as u64);
                    counts.1 += 1;
                } else {
                    counts.0 += 1;
                }
            }
            polling.record_work(Time(now));
        }
        counts
    }

    #[test]
    fn new_worker_polls_before_it_sleeps() {
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
    fn source_without_wakeups_is_polled() {
        let mut polling = AdaptivePolling::new(Time(0));
        for round in 0..100 {
            polling.record_idle(Time(round * 200_000));
            let _ = polling.next_sleep(65, &IDLE, Time(round * 200_000 + 65_000));
            polling.ignore_sleep();
            polling.record_work(Time(round * 200_000 + 165_000));
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
            halvings: HALVINGS_MAX,
            ..AdaptivePolling::new(Time(0))
        };
        let awake = Idle {
            spins: u32::MAX,
            ..IDLE
        };
        assert!(!polling.is_exhausted(1_000_000, &awake));
    }
}
