//! How many workers a load needs: as few as keep below a set share, and more at once when it rises.

/// When workers go and come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// More workers come when those at work are busy by more than this share.
    pub high: f64,
    /// Workers go when those that stay are busy by less than this share. It is smaller than `high`: who has
    /// just gone does not come back at once.
    pub low: f64,
    /// All workers come when one is busy by this share: what is asked of it is not known any more.
    pub full: f64,
    /// Looks in a row at which fewer workers would do, before some go.
    pub patience: u32,
    /// The same for workers that came because a queue was filling: it may have been a worker that stalled for a moment.
    pub soon: u32,
}

/// What ways to workers, and queues of ports, were like since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crowd {
    /// There is room.
    #[default]
    None,
    /// One fills.
    Some,
    /// A port's queue is nearly full.
    Full,
    /// Packets found one full.
    Lost,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            high: 0.6,
            low: 0.4,
            full: 0.9,
            patience: 10,
            soon: 3,
        }
    }
}

/// Decides how many workers work.
#[derive(Clone, Debug, Default)]
pub struct Scaler {
    /// Looks in a row at which fewer would do.
    calm: u32,
    /// Most workers needed at one of these looks.
    peak: usize,
    /// The last look found a crowd.
    crowded: bool,
    /// Workers have come for a crowd, and not for a load.
    soon: bool,
}

impl Scaler {
    /// How many of all workers should work, of which `now` do. `busy` is the share of the last interval in
    /// which each worker had something to do.
    pub fn workers(
        &mut self,
        busy: &[f64],
        crowd: Crowd,
        now: usize,
        limits: &Thresholds,
    ) -> usize {
        self.look(busy, crowd, now, limits, true)
    }

    /// As [`workers`](Self::workers). Only a look that `is_new`, and not one at the same shares again, counts as one without need.
    pub(super) fn look(
        &mut self,
        busy: &[f64],
        crowd: Crowd,
        now: usize,
        limits: &Thresholds,
        is_new: bool,
    ) -> usize {
        let all = busy.len().max(1);
        let before = std::mem::take(&mut self.crowded);
        if busy.iter().any(|&b| b >= limits.full) || crowd == Crowd::Lost {
            *self = Scaler {
                crowded: crowd != Crowd::None,
                ..Scaler::default()
            };
            return all;
        }
        if crowd != Crowd::None {
            // Twice as many at first, as it may be over; if it is not, whatever there is.
            let many = match before || crowd >= Crowd::Full {
                true => all,
                false => now.saturating_mul(2).min(all),
            };
            *self = Scaler {
                crowded: true,
                soon: self.soon || many > now,
                ..Scaler::default()
            };
            return many.max(now);
        }
        let demand: f64 = busy.iter().sum();
        let needed = |share: f64| ((demand / share).ceil() as usize).clamp(1, all);
        let most = needed(limits.high);
        if most > now {
            *self = Scaler::default();
            return most;
        }
        let enough = needed(limits.low);
        if enough >= now {
            *self = Scaler::default();
            return now;
        }
        if !is_new {
            return now;
        }
        self.calm += 1;
        self.peak = self.peak.max(enough);
        let patience = match self.soon {
            true => limits.soon,
            false => limits.patience,
        };
        if self.calm < patience {
            return now;
        }
        let next = self.peak;
        *self = Scaler::default();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Thresholds = Thresholds {
        high: 0.6,
        low: 0.4,
        full: 0.9,
        patience: 3,
        soon: 2,
    };

    #[test]
    fn a_load_that_falls_is_packed_after_some_looks_and_one_that_rises_spread_at_once() {
        let mut scaler = Scaler::default();
        let mut now = 4;
        let mut look = |busy: [f64; 4]| {
            now = scaler.workers(&busy, Crowd::None, now, &LIMITS);
            now
        };
        assert_eq!(look([0.5; 4]), 4);
        let tenth = [0.05; 4];
        assert_eq!((look(tenth), look(tenth)), (4, 4));
        assert_eq!(look(tenth), 1, "a fifth of one worker fits on one");
        assert_eq!(look([0.7, 0.0, 0.0, 0.0]), 2);
        assert_eq!(look([0.95, 0.2, 0.0, 0.0]), 4);
    }

    #[test]
    fn packets_that_are_lost_call_everybody_however_idle_workers_look() {
        let mut scaler = Scaler::default();
        let idle = [0.1, 0.0, 0.0, 0.0];
        assert_eq!(scaler.workers(&idle, Crowd::Lost, 1, &LIMITS), 4);
        let mut scaler = Scaler::default();
        assert_eq!(scaler.workers(&idle, Crowd::Full, 1, &LIMITS), 4);
    }

    #[test]
    fn a_worker_that_is_busy_all_the_time_calls_all_though_there_is_a_crowd_too() {
        let busy = [0.95, 0.0, 0.0, 0.0];
        let mut scaler = Scaler::default();
        assert_eq!(scaler.workers(&busy, Crowd::Some, 1, &LIMITS), 4);
    }

    #[test]
    fn looks_between_two_at_how_busy_workers_are_do_not_count() {
        let mut scaler = Scaler::default();
        let mut look = |is_new| scaler.look(&[0.1, 0.1], Crowd::None, 2, &LIMITS, is_new);
        assert_eq!((look(true), look(true)), (2, 2));
        assert_eq!((look(false), look(false)), (2, 2));
        assert_eq!(look(true), 1);
    }

    #[test]
    fn a_crowd_calls_one_for_each_that_works_and_all_if_it_lasts() {
        let idle = [0.1; 8];
        let mut scaler = Scaler::default();
        let mut look = |crowd, now| scaler.workers(&idle, crowd, now, &LIMITS);
        assert_eq!(look(Crowd::Some, 1), 2);
        assert_eq!(look(Crowd::Some, 2), 8);
        let mut scaler = Scaler::default();
        let mut look = |crowd, now| scaler.workers(&idle, crowd, now, &LIMITS);
        assert_eq!(look(Crowd::Some, 2), 4);
        assert_eq!((look(Crowd::None, 4), look(Crowd::Some, 4)), (4, 8));
    }

    #[test]
    fn who_came_for_a_short_crowd_goes_sooner_than_who_came_for_a_load() {
        let mut scaler = Scaler::default();
        let mut look = |crowd, now| scaler.workers(&[0.1, 0.1], crowd, now, &LIMITS);
        assert_eq!(look(Crowd::Some, 1), 2);
        assert_eq!((look(Crowd::None, 2), look(Crowd::None, 2)), (2, 1));
        let mut scaler = Scaler::default();
        let mut look = |busy| scaler.workers(&[busy, 0.0], Crowd::None, 2, &LIMITS);
        assert_eq!((look(0.5), look(0.1), look(0.1), look(0.1)), (2, 2, 2, 1));
    }

    #[test]
    fn one_busy_look_begins_the_wait_anew() {
        let mut scaler = Scaler::default();
        let mut look = |busy| scaler.workers(&[busy, busy], Crowd::None, 2, &LIMITS);
        assert_eq!((look(0.1), look(0.1), look(0.35)), (2, 2, 2));
        assert_eq!((look(0.1), look(0.1), look(0.1)), (2, 2, 1));
    }

    #[test]
    fn a_steady_load_never_swings_whatever_it_is() {
        for demand in 0..=400 {
            let demand = f64::from(demand) / 100.0;
            let mut scaler = Scaler::default();
            let mut now = 4;
            let mut seen = Vec::new();
            for _ in 0..50 {
                // Balanced over those that work; nobody is busy by more than the whole.
                let busy: Vec<f64> = (0..4)
                    .map(|w| {
                        if w < now {
                            (demand / now as f64).min(1.0)
                        } else {
                            0.0
                        }
                    })
                    .collect();
                now = scaler.workers(&busy, Crowd::None, now, &LIMITS);
                if seen.last() != Some(&now) {
                    seen.push(now);
                }
            }
            assert!(seen.len() <= 2, "{demand}: {seen:?}");
        }
    }
}
