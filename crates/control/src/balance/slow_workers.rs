//! Workers slowed down by other programs on their core: they get a smaller share.
//!
//! Usually all workers have equal shares of the packets. That overloads a worker whose core is shared with another
//! program: its queue keeps filling while other workers are idle at times. Each time this is measured, the slowed
//! worker's share is cut. The share grows again gradually, because nothing shows when the core is free again. If it
//! grows too early, the queue begins to fill, and the share is cut again before packets are lost.

/// Fill level after a poll, 0 to 1, above which a queue counts as full.
const QUEUE_FULL_LEVEL: f64 = 0.9;
/// Busy share below which a worker has idle time.
const IDLE_BELOW: f64 = 0.85;
/// Number of measurements after a move that show its effect.
const INTERVALS_TO_EFFECT: u32 = 2;
/// Number of measurements until the next attempt, after moves without effect.
const INTERVALS_TO_RETRY: u32 = 20;
/// Factor by which a share is cut, and factor of its growth per measurement.
const SHARE_CUT_FACTOR: f64 = 0.6;
const SHARE_GROWTH_FACTOR: f64 = 1.03;
/// Minimum share. A share that has fallen to it needs about 100 measurements to reach 1 again.
const SHARE_MIN: f64 = 0.05;

/// Measurement over a complete interval.
pub(super) struct IntervalMeasurement<'a> {
    /// Busy share of each worker.
    pub(super) busy: &'a [f64],
    /// For each worker, true if a queue was congested for long.
    pub(super) congested: &'a [bool],
    /// For each worker, true if it is active.
    pub(super) active: &'a [bool],
    /// For each worker, true if one of its buckets alone exceeds a worker's share. Such a bucket would overload any
    /// worker, so moving it is useless.
    pub(super) large: &'a [bool],
    /// Fill level of the fullest queue since the last measurement; 0 if below a quarter.
    pub(super) fill_level: f64,
    /// True if no bucket would move: loads match the shares.
    pub(super) even: bool,
}

/// Shares of slowed workers.
#[derive(Default)]
pub(super) struct SlowWorkers {
    /// Share of each worker relative to full speed; empty while all are equal.
    shares: Vec<f64>,
    active: Vec<bool>,
    /// Number of measurements still to ignore.
    pause: u32,
    fill_level: f64,
}

impl SlowWorkers {
    /// Records that buckets have moved, which invalidates earlier measurements of queues.
    pub(super) fn invalidate(&mut self) {
        self.pause = self.pause.max(INTERVALS_TO_EFFECT);
    }

    /// Records a failed move, whose workers were overloaded. All shares are equal for a while.
    pub(super) fn record_failed_move(&mut self) {
        self.shares.clear();
        self.pause = INTERVALS_TO_RETRY;
    }

    /// Evaluates a measurement. Returns a worker whose share is cut, and its new share.
    pub(super) fn evaluate(&mut self, found: &IntervalMeasurement) -> Option<(usize, f64)> {
        if self.active != found.active {
            self.active = found.active.to_vec();
            self.shares.clear();
            self.invalidate();
        }
        self.pause = self.pause.saturating_sub(1);
        let grows = found.fill_level > self.fill_level || found.fill_level >= QUEUE_FULL_LEVEL;
        self.fill_level = found.fill_level;
        let mut works = (0..found.active.len()).filter(|&worker| found.active[worker]);
        let Some(behind) = works.clone().find(|&worker| found.congested[worker]) else {
            if found.fill_level == 0.0 {
                self.restore_shares();
            }
            return None;
        };
        let has_time = |worker: usize| !found.congested[worker] && found.busy[worker] < IDLE_BELOW;
        let others_have_time = works.any(has_time);
        if !others_have_time || !grows || !found.even || self.pause > 0 || found.large[behind] {
            return None;
        }
        if self
            .shares
            .get(behind)
            .is_some_and(|&share| share <= SHARE_MIN)
        {
            return None;
        }
        self.shares.resize(found.active.len(), 1.0);
        self.shares[behind] *= SHARE_CUT_FACTOR;
        // The active worker with the greatest share runs at full speed.
        let pairs = self.shares.iter().zip(found.active);
        let share_max = pairs.filter_map(|(share, works)| works.then_some(*share));
        let share_max = share_max.fold(0.0, f64::max);
        let each = self.shares.iter_mut();
        each.for_each(|share| *share = (*share / share_max).clamp(SHARE_MIN, 1.0));
        Some((behind, self.shares[behind]))
    }

    fn restore_shares(&mut self) {
        let each = self.shares.iter_mut();
        each.for_each(|share| *share = (*share * SHARE_GROWTH_FACTOR).min(1.0));
        if self.shares.iter().all(|&share| share >= 1.0) {
            self.shares.clear();
        }
    }

    /// Virtual load of each worker: how many packets fewer, of `total`, it should get than a worker at full speed.
    pub(super) fn virtual_loads(&self, total: u64) -> Vec<u64> {
        let pairs = self.shares.iter().zip(&self.active);
        let sum: f64 = pairs
            .filter_map(|(share, works)| works.then_some(share))
            .sum();
        let less = |share: &f64| (total as f64 * (1.0 - share) / sum.max(1.0)) as u64;
        self.shares.iter().map(less).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(
        slow_workers: &mut SlowWorkers,
        behind: [bool; 2],
        level: f64,
    ) -> Option<(usize, f64)> {
        slow_workers.evaluate(&IntervalMeasurement {
            busy: &behind.map(|is| if is { 1.0 } else { 0.7 }),
            congested: &behind,
            active: &[true; 2],
            large: &[false; 2],
            fill_level: level,
            even: true,
        })
    }

    #[test]
    fn a_worker_whose_queue_keeps_filling_gets_less_and_by_and_by_as_much_as_others_again() {
        let mut slow_workers = SlowWorkers::default();
        let mut at = |level| measure(&mut slow_workers, [false, true], level);
        assert_eq!((at(0.3), at(0.4)), (None, Some((1, SHARE_CUT_FACTOR))));
        // 1600 packets, of which 1000 and 600 are for the two workers.
        assert_eq!(slow_workers.virtual_loads(1600), [0, 400]);
        assert_eq!(
            measure(&mut slow_workers, [false, true], 1.0),
            Some((1, SHARE_CUT_FACTOR * SHARE_CUT_FACTOR))
        );
        assert_eq!(
            measure(&mut slow_workers, [true; 2], 1.0),
            None,
            "nobody has time"
        );
        for _ in 0..40 {
            assert_eq!(measure(&mut slow_workers, [false; 2], 0.0), None);
        }
        assert!(slow_workers.virtual_loads(1600).is_empty());
    }

    #[test]
    fn oversized_bucket_keeps_its_worker() {
        let mut slow_workers = SlowWorkers::default();
        let cuts = (0..100).filter_map(|_| {
            slow_workers.evaluate(&IntervalMeasurement {
                busy: &[0.3, 1.0],
                congested: &[false, true],
                active: &[true; 2],
                large: &[false, true],
                fill_level: 1.0,
                even: true,
            })
        });
        assert_eq!(cuts.count(), 0);
    }

    #[test]
    fn share_is_cut_to_a_twentieth_at_most_and_recovers() {
        let mut slow_workers = SlowWorkers::default();
        let cuts: Vec<_> = (0..2000)
            .filter_map(|_| measure(&mut slow_workers, [false, true], 1.0))
            .collect();
        assert!(cuts.len() < 10, "{cuts:?}");
        assert_eq!(cuts.last(), Some(&(1, SHARE_MIN)));
        let shared = |_: &i32| {
            measure(&mut slow_workers, [false; 2], 0.0);
            slow_workers.virtual_loads(1600).is_empty()
        };
        assert!((0..120).find(shared).is_some());
    }

    #[test]
    fn a_worker_that_was_the_fastest_may_become_the_slowest() {
        let mut slow_workers = SlowWorkers::default();
        measure(&mut slow_workers, [false, true], 0.3);
        measure(&mut slow_workers, [false, true], 0.4);
        let mut at = |level| measure(&mut slow_workers, [true, false], level);
        assert_eq!(at(0.5), Some((0, 1.0)));
        assert!(at(0.6).is_some_and(|(worker, share)| worker == 0 && share < 1.0));
    }

    #[test]
    fn queues_from_before_a_move_or_shrinking_or_short_lived_cut_no_share() {
        let mut slow_workers = SlowWorkers::default();
        let levels = [0.6, 0.6, 0.4, 0.3, 0.26];
        let found = levels.map(|level| measure(&mut slow_workers, [false, true], level));
        assert_eq!(found, [None; 5]);
        assert_eq!(measure(&mut slow_workers, [false; 2], 0.3), None);
        let all_busy = IntervalMeasurement {
            busy: &[0.9, 1.0],
            congested: &[false, true],
            active: &[true; 2],
            large: &[false; 2],
            fill_level: 0.4,
            even: true,
        };
        assert_eq!(slow_workers.evaluate(&all_busy), None);
        assert!(measure(&mut slow_workers, [false, true], 0.5).is_some());
        let mut slow_workers = SlowWorkers::default();
        for level in [0.3, 0.4, 0.5] {
            slow_workers.invalidate();
            assert_eq!(measure(&mut slow_workers, [false, true], level), None);
        }
    }

    #[test]
    fn moves_without_effect_delay_the_next_attempt() {
        let mut slow_workers = SlowWorkers::default();
        measure(&mut slow_workers, [false, true], 0.3);
        measure(&mut slow_workers, [false, true], 0.4);
        slow_workers.record_failed_move();
        assert!(slow_workers.virtual_loads(100).is_empty());
        let looks = (0..INTERVALS_TO_RETRY).map(|_| measure(&mut slow_workers, [false, true], 1.0));
        let cuts: Vec<bool> = looks.map(|cut| cut.is_some()).collect();
        let first = cuts.iter().position(|cut| *cut);
        assert_eq!(first, Some(INTERVALS_TO_RETRY as usize - 1));
    }

    #[test]
    fn inactive_workers_are_ignored_and_worker_set_changes_reset_shares() {
        let mut slow_workers = SlowWorkers::default();
        measure(&mut slow_workers, [false, true], 0.3);
        measure(&mut slow_workers, [false, true], 0.4);
        assert!(!slow_workers.virtual_loads(100).is_empty());
        for level in [0.5, 0.6, 0.7] {
            let found = IntervalMeasurement {
                busy: &[0.0, 1.0],
                congested: &[false, true],
                active: &[false, true],
                large: &[false; 2],
                fill_level: level,
                even: true,
            };
            assert_eq!(slow_workers.evaluate(&found), None);
            assert!(slow_workers.virtual_loads(100).is_empty());
        }
    }
}
