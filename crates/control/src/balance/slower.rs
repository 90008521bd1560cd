//! Workers slowed down by other programs on their core: they get a smaller share.
//!
//! Usually workers count as equal, and packets are evened out. That does not help if a slowed worker's queue keeps
//! filling while another worker has time. Each time this is found, the slowed worker's share is cut. The share grows
//! again gradually, as there is no sign of when the core is free again: then either the load is soon even, or the queue
//! begins to fill, which costs nothing yet.

/// Fill level after a poll above which a queue can hardly become fuller.
const BRIM: f64 = 0.9;
/// Busy share below which a worker has idle time.
const BUSY: f64 = 0.85;
/// Number of measurements after a move that show its effect.
const LOOKS: u32 = 2;
/// Number of measurements until the next attempt, after moves without effect.
const PAUSE: u32 = 20;
/// Factor by which a share is cut, and factor of its growth per measurement.
const CUT: f64 = 0.6;
const GROWS: f64 = 1.03;
/// Minimum share. From here, a share recovers after about 100 measurements.
const LEAST: f64 = 0.05;

/// Measurement over a complete interval.
pub(super) struct Found<'a> {
    /// Busy share of each worker.
    pub(super) busy: &'a [f64],
    /// For each worker, true if a queue was crowded for long.
    pub(super) behind: &'a [bool],
    /// For each worker, true if it is active.
    pub(super) works: &'a [bool],
    /// For each worker, true if one of its buckets alone exceeds a worker's share. Such a bucket would overload any
    /// worker, so moving it is useless.
    pub(super) large: &'a [bool],
    /// Fill level of the fullest queue since the last measurement; 0 if below a quarter.
    pub(super) level: f64,
    /// True if no bucket would move: loads match the shares.
    pub(super) even: bool,
}

/// Shares of slowed workers.
#[derive(Default)]
pub(super) struct Slower {
    /// Share of each worker relative to full speed; empty while all are equal.
    shares: Vec<f64>,
    works: Vec<bool>,
    /// Number of measurements still to ignore.
    pause: u32,
    level: f64,
}

impl Slower {
    /// Records that buckets have moved, which invalidates earlier measurements of queues.
    pub(super) fn moved(&mut self) {
        self.pause = self.pause.max(LOOKS);
    }

    /// Records a failed move: workers are too far behind. All shares are equal for a while.
    pub(super) fn stays(&mut self) {
        self.shares.clear();
        self.pause = PAUSE;
    }

    /// Evaluates a measurement. Returns a worker whose share is cut, and its new share.
    pub(super) fn look(&mut self, found: &Found) -> Option<(usize, f64)> {
        if self.works != found.works {
            self.works = found.works.to_vec();
            self.shares.clear();
            self.moved();
        }
        self.pause = self.pause.saturating_sub(1);
        let grows = found.level > self.level || found.level >= BRIM;
        self.level = found.level;
        let mut works = (0..found.works.len()).filter(|&worker| found.works[worker]);
        let Some(behind) = works.clone().find(|&worker| found.behind[worker]) else {
            if found.level == 0.0 {
                self.grow();
            }
            return None;
        };
        let has_time = |worker: usize| !found.behind[worker] && found.busy[worker] < BUSY;
        let others_have_time = works.any(has_time);
        if !others_have_time || !grows || !found.even || self.pause > 0 || found.large[behind] {
            return None;
        }
        if self.shares.get(behind).is_some_and(|&share| share <= LEAST) {
            return None;
        }
        self.shares.resize(found.works.len(), 1.0);
        self.shares[behind] *= CUT;
        // The active worker with the greatest share runs at full speed.
        let pairs = self.shares.iter().zip(found.works);
        let most = pairs.filter_map(|(share, works)| works.then_some(*share));
        let most = most.fold(0.0, f64::max);
        let each = self.shares.iter_mut();
        each.for_each(|share| *share = (*share / most).clamp(LEAST, 1.0));
        Some((behind, self.shares[behind]))
    }

    fn grow(&mut self) {
        let each = self.shares.iter_mut();
        each.for_each(|share| *share = (*share * GROWS).min(1.0));
        if self.shares.iter().all(|&share| share >= 1.0) {
            self.shares.clear();
        }
    }

    /// Virtual load of each worker: the load by which it should stay below a worker at full speed, for `total` packets
    /// in all.
    pub(super) fn less(&self, total: u64) -> Vec<u64> {
        let pairs = self.shares.iter().zip(&self.works);
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

    fn look(slower: &mut Slower, behind: [bool; 2], level: f64) -> Option<(usize, f64)> {
        slower.look(&Found {
            busy: &behind.map(|is| if is { 1.0 } else { 0.7 }),
            behind: &behind,
            works: &[true; 2],
            large: &[false; 2],
            level,
            even: true,
        })
    }

    #[test]
    fn a_worker_whose_queue_keeps_filling_gets_less_and_by_and_by_as_much_as_others_again() {
        let mut slower = Slower::default();
        let mut at = |level| look(&mut slower, [false, true], level);
        assert_eq!((at(0.3), at(0.4)), (None, Some((1, CUT))));
        // 1600 packets, of which 1000 and 600 are for the two workers.
        assert_eq!(slower.less(1600), [0, 400]);
        assert_eq!(look(&mut slower, [false, true], 1.0), Some((1, CUT * CUT)));
        assert_eq!(look(&mut slower, [true; 2], 1.0), None, "nobody has time");
        for _ in 0..40 {
            assert_eq!(look(&mut slower, [false; 2], 0.0), None);
        }
        assert!(slower.less(1600).is_empty());
    }

    #[test]
    fn a_bucket_that_is_too_much_for_anybody_stays() {
        let mut slower = Slower::default();
        let cuts = (0..100).filter_map(|_| {
            slower.look(&Found {
                busy: &[0.3, 1.0],
                behind: &[false, true],
                works: &[true; 2],
                large: &[false, true],
                level: 1.0,
                even: true,
            })
        });
        assert_eq!(cuts.count(), 0);
    }

    #[test]
    fn a_share_is_cut_to_a_twentieth_at_most_from_where_it_grows_back() {
        let mut slower = Slower::default();
        let cuts: Vec<_> = (0..2000)
            .filter_map(|_| look(&mut slower, [false, true], 1.0))
            .collect();
        assert!(cuts.len() < 10, "{cuts:?}");
        assert_eq!(cuts.last(), Some(&(1, LEAST)));
        let shared = |_: &i32| {
            look(&mut slower, [false; 2], 0.0);
            slower.less(1600).is_empty()
        };
        assert!((0..120).find(shared).is_some());
    }

    #[test]
    fn a_worker_that_was_the_fastest_may_become_the_slowest() {
        let mut slower = Slower::default();
        look(&mut slower, [false, true], 0.3);
        look(&mut slower, [false, true], 0.4);
        let mut at = |level| look(&mut slower, [true, false], level);
        assert_eq!(at(0.5), Some((0, 1.0)));
        assert!(at(0.6).is_some_and(|(worker, share)| worker == 0 && share < 1.0));
    }

    #[test]
    fn queues_from_before_a_move_or_shrinking_or_short_lived_cut_no_share() {
        let mut slower = Slower::default();
        let levels = [0.6, 0.6, 0.4, 0.3, 0.26];
        let found = levels.map(|level| look(&mut slower, [false, true], level));
        assert_eq!(found, [None; 5]);
        assert_eq!(look(&mut slower, [false; 2], 0.3), None);
        let all_busy = Found {
            busy: &[0.9, 1.0],
            behind: &[false, true],
            works: &[true; 2],
            large: &[false; 2],
            level: 0.4,
            even: true,
        };
        assert_eq!(slower.look(&all_busy), None);
        assert!(look(&mut slower, [false, true], 0.5).is_some());
        let mut slower = Slower::default();
        for level in [0.3, 0.4, 0.5] {
            slower.moved();
            assert_eq!(look(&mut slower, [false, true], level), None);
        }
    }

    #[test]
    fn after_moves_that_did_not_help_it_is_not_tried_for_a_while() {
        let mut slower = Slower::default();
        look(&mut slower, [false, true], 0.3);
        look(&mut slower, [false, true], 0.4);
        slower.stays();
        assert!(slower.less(100).is_empty());
        let looks = (0..PAUSE).map(|_| look(&mut slower, [false, true], 1.0));
        let cuts: Vec<bool> = looks.map(|cut| cut.is_some()).collect();
        let first = cuts.iter().position(|cut| *cut);
        assert_eq!(first, Some(PAUSE as usize - 1));
    }

    #[test]
    fn inactive_workers_are_ignored_and_worker_set_changes_reset_shares() {
        let mut slower = Slower::default();
        look(&mut slower, [false, true], 0.3);
        look(&mut slower, [false, true], 0.4);
        assert!(!slower.less(100).is_empty());
        for level in [0.5, 0.6, 0.7] {
            let found = Found {
                busy: &[0.0, 1.0],
                behind: &[false, true],
                works: &[false, true],
                large: &[false; 2],
                level,
                even: true,
            };
            assert_eq!(slower.look(&found), None);
            assert!(slower.less(100).is_empty());
        }
    }
}
