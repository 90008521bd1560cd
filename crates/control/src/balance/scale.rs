//! Number of workers for a load: as few as stay below a set share, and more at once when the load rises.

/// Busy share of active workers above which more workers are activated.
const HIGH: f64 = 0.6;
/// Maximum busy share of the remaining workers after a worker is deactivated. It is below `HIGH`, so that the worker is
/// not activated again at once.
const LOW: f64 = 0.4;
/// Busy share of a single worker at which all workers are activated, since its true load is unknown.
const FULL: f64 = 0.9;
/// Number of consecutive measurements with excess workers before some are deactivated.
const PATIENCE: u32 = 10;
/// The same number for workers activated by a filling queue, which may have been a short stall.
const SOON: u32 = 3;

/// Fill level of rings to workers and of ports' queues since the last measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Crowd {
    /// All queues have room.
    #[default]
    None,
    /// A queue is filling.
    Some,
    /// A port's queue is nearly full.
    Full,
    /// A full queue has dropped packets.
    Lost,
}

/// Controller for the number of active workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Scaler {
    /// Number of consecutive measurements with excess workers.
    calm: u32,
    /// Maximum number of workers needed during these measurements.
    peak: usize,
    /// True if the last measurement found a filling or full queue.
    crowded: bool,
    /// True if workers were activated by a filling queue, not by load.
    soon: bool,
}

impl Scaler {
    /// Number of workers that should be active; `now` are active. `busy` is each worker's busy share in the last
    /// interval. Only new measurements (`is_new`) count towards a deactivation.
    pub(super) fn look(&mut self, busy: &[f64], crowd: Crowd, now: usize, is_new: bool) -> usize {
        let all = busy.len().max(1);
        let before = std::mem::take(&mut self.crowded);
        if busy.iter().any(|&b| b >= FULL) || crowd == Crowd::Lost {
            *self = Scaler {
                crowded: crowd != Crowd::None,
                ..Scaler::default()
            };
            return all;
        }
        if crowd != Crowd::None {
            // The number first doubles, because the congestion may be over; if it persists, all workers are activated.
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
        let most = needed(HIGH);
        if most > now {
            *self = Scaler::default();
            return most;
        }
        let enough = needed(LOW);
        if enough >= now {
            *self = Scaler::default();
            return now;
        }
        if !is_new {
            return now;
        }
        self.calm += 1;
        self.peak = self.peak.max(enough);
        let time_limit = match self.soon {
            true => SOON,
            false => PATIENCE,
        };
        if self.calm < time_limit {
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

    /// Repeats measurements without crowded queues; returns the numbers of workers.
    fn looks(scaler: &mut Scaler, busy: &[f64], now: usize, times: u32) -> Vec<usize> {
        let each = (0..times).map(|_| scaler.look(busy, Crowd::None, now, true));
        each.collect()
    }

    #[test]
    fn a_load_that_falls_is_packed_after_some_looks_and_one_that_rises_spread_at_once() {
        let mut scaler = Scaler::default();
        assert_eq!(looks(&mut scaler, &[0.5; 4], 4, 1), [4]);
        let most = looks(&mut scaler, &[0.05; 4], 4, PATIENCE - 1);
        assert!(most.iter().all(|&now| now == 4), "{most:?}");
        let last = looks(&mut scaler, &[0.05; 4], 4, 1);
        assert_eq!(last, [1], "a fifth of one worker fits on one");
        assert_eq!(looks(&mut scaler, &[0.7, 0.0, 0.0, 0.0], 1, 1), [2]);
        assert_eq!(looks(&mut scaler, &[0.95, 0.2, 0.0, 0.0], 2, 1), [4]);
    }

    #[test]
    fn packets_that_are_lost_call_everybody_however_idle_workers_look() {
        let idle = [0.1, 0.0, 0.0, 0.0];
        for crowd in [Crowd::Lost, Crowd::Full] {
            assert_eq!(Scaler::default().look(&idle, crowd, 1, true), 4);
        }
    }

    #[test]
    fn a_worker_that_is_busy_all_the_time_calls_all_though_there_is_a_crowd_too() {
        let busy = [0.95, 0.0, 0.0, 0.0];
        assert_eq!(Scaler::default().look(&busy, Crowd::Some, 1, true), 4);
    }

    #[test]
    fn looks_between_two_at_how_busy_workers_are_do_not_count() {
        let mut scaler = Scaler::default();
        looks(&mut scaler, &[0.1, 0.1], 2, PATIENCE - 1);
        let mut look = |is_new| scaler.look(&[0.1, 0.1], Crowd::None, 2, is_new);
        assert_eq!((look(false), look(false), look(true)), (2, 2, 1));
    }

    #[test]
    fn a_crowd_calls_one_for_each_that_works_and_all_if_it_lasts() {
        let idle = [0.1; 8];
        let mut scaler = Scaler::default();
        let mut look = |crowd, now| scaler.look(&idle, crowd, now, true);
        assert_eq!((look(Crowd::Some, 1), look(Crowd::Some, 2)), (2, 8));
        let mut scaler = Scaler::default();
        let mut look = |crowd, now| scaler.look(&idle, crowd, now, true);
        assert_eq!(look(Crowd::Some, 2), 4);
        assert_eq!((look(Crowd::None, 4), look(Crowd::Some, 4)), (4, 8));
    }

    #[test]
    fn worker_added_for_a_short_crowd_leaves_sooner_than_one_added_for_load() {
        let goes_after = |mut scaler: Scaler| {
            let all = looks(&mut scaler, &[0.1, 0.0], 2, PATIENCE);
            1 + all.iter().take_while(|&&now| now == 2).count() as u32
        };
        let mut scaler = Scaler::default();
        assert_eq!(scaler.look(&[0.1, 0.1], Crowd::Some, 1, true), 2);
        assert_eq!(goes_after(scaler), SOON);
        let mut scaler = Scaler::default();
        assert_eq!(looks(&mut scaler, &[0.7, 0.0], 1, 1), [2]);
        assert_eq!(goes_after(scaler), PATIENCE);
    }

    #[test]
    fn one_busy_check_restarts_the_wait() {
        let mut scaler = Scaler::default();
        looks(&mut scaler, &[0.1, 0.1], 2, PATIENCE - 1);
        assert_eq!(looks(&mut scaler, &[0.5, 0.5], 2, 1), [2]);
        let again = looks(&mut scaler, &[0.1, 0.1], 2, PATIENCE);
        assert!(again[..again.len() - 1].iter().all(|&now| now == 2));
        assert_eq!(again.last(), Some(&1));
    }

    #[test]
    fn a_steady_load_never_swings_whatever_it_is() {
        for demand in 0..=400 {
            let demand = f64::from(demand) / 100.0;
            let mut scaler = Scaler::default();
            let mut now = 4;
            let mut seen = Vec::new();
            for _ in 0..50 {
                // Balanced over the active workers; no worker is busy by more than 1.
                let busy: Vec<f64> = (0..4)
                    .map(|w| {
                        if w < now {
                            (demand / now as f64).min(1.0)
                        } else {
                            0.0
                        }
                    })
                    .collect();
                now = scaler.look(&busy, Crowd::None, now, true);
                if seen.last() != Some(&now) {
                    seen.push(now);
                }
            }
            assert!(seen.len() <= 2, "{demand}: {seen:?}");
        }
    }
}
