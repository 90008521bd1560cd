//! Controller of the number of active workers: the minimum whose busy share stays below a limit. More workers are
//! activated at once when the load rises.

/// Busy share of active workers above which more workers are activated.
const BUSY_HIGH: f64 = 0.6;
/// Maximum busy share of the remaining workers after a worker is deactivated. It is below `BUSY_HIGH`, so that the
/// worker is not activated again at once.
const BUSY_LOW: f64 = 0.4;
/// Busy share of a single worker at which all workers are activated, since its true load is unknown.
const BUSY_SATURATED: f64 = 0.9;
/// Number of consecutive measurements with excess workers before some are deactivated.
const EXCESS_INTERVALS_MIN: u32 = 10;
/// Like `EXCESS_INTERVALS_MIN`, for workers activated by a filling queue, which a short stall may have caused.
const QUEUE_EXCESS_INTERVALS_MIN: u32 = 3;

/// Fill level of rings to workers and of ports' queues since the last measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FillLevel {
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
    excess_intervals: u32,
    /// Maximum number of workers needed during these measurements.
    needed_max: usize,
    /// True if the last measurement found a filling or full queue.
    congested: bool,
    /// True if workers were activated by a filling queue, not by load.
    woken_by_queue: bool,
}

impl Scaler {
    /// Number of workers that should be active; `now` are active. `busy` is each worker's busy share in the last
    /// interval. Only new measurements (`is_new`) count towards a deactivation.
    pub(super) fn target_workers(
        &mut self,
        busy: &[f64],
        level: FillLevel,
        now: usize,
        is_new: bool,
    ) -> usize {
        let all = busy.len().max(1);
        let before = std::mem::take(&mut self.congested);
        if busy.iter().any(|&b| b >= BUSY_SATURATED) || level == FillLevel::Lost {
            *self = Scaler {
                congested: level != FillLevel::None,
                ..Scaler::default()
            };
            return all;
        }
        if level != FillLevel::None {
            // The number first doubles, because the congestion may be over; if it persists, all workers are activated.
            let many = match before || level >= FillLevel::Full {
                true => all,
                false => now.saturating_mul(2).min(all),
            };
            *self = Scaler {
                congested: true,
                woken_by_queue: self.woken_by_queue || many > now,
                ..Scaler::default()
            };
            return many.max(now);
        }
        let demand: f64 = busy.iter().sum();
        let needed = |share: f64| ((demand / share).ceil() as usize).clamp(1, all);
        let most = needed(BUSY_HIGH);
        if most > now {
            *self = Scaler::default();
            return most;
        }
        let enough = needed(BUSY_LOW);
        if enough >= now {
            *self = Scaler::default();
            return now;
        }
        if !is_new {
            return now;
        }
        self.excess_intervals += 1;
        self.needed_max = self.needed_max.max(enough);
        let time_limit = match self.woken_by_queue {
            true => QUEUE_EXCESS_INTERVALS_MIN,
            false => EXCESS_INTERVALS_MIN,
        };
        if self.excess_intervals < time_limit {
            return now;
        }
        let next = self.needed_max;
        *self = Scaler::default();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats measurements without congested queues; returns the numbers of workers.
    fn looks(scaler: &mut Scaler, busy: &[f64], now: usize, times: u32) -> Vec<usize> {
        let each = (0..times).map(|_| scaler.target_workers(busy, FillLevel::None, now, true));
        each.collect()
    }

    #[test]
    fn workers_are_deactivated_after_several_intervals_and_activated_at_once() {
        let mut scaler = Scaler::default();
        assert_eq!(looks(&mut scaler, &[0.5; 4], 4, 1), [4]);
        let most = looks(&mut scaler, &[0.05; 4], 4, EXCESS_INTERVALS_MIN - 1);
        assert!(most.iter().all(|&now| now == 4), "{most:?}");
        let last = looks(&mut scaler, &[0.05; 4], 4, 1);
        assert_eq!(last, [1], "a fifth of one worker fits on one");
        assert_eq!(looks(&mut scaler, &[0.7, 0.0, 0.0, 0.0], 1, 1), [2]);
        assert_eq!(looks(&mut scaler, &[0.95, 0.2, 0.0, 0.0], 2, 1), [4]);
    }

    #[test]
    fn lost_packets_activate_all_workers() {
        let idle = [0.1, 0.0, 0.0, 0.0];
        for level in [FillLevel::Lost, FillLevel::Full] {
            assert_eq!(Scaler::default().target_workers(&idle, level, 1, true), 4);
        }
    }

    #[test]
    fn saturated_worker_activates_all_despite_a_filling_queue() {
        let busy = [0.95, 0.0, 0.0, 0.0];
        assert_eq!(
            Scaler::default().target_workers(&busy, FillLevel::Some, 1, true),
            4
        );
    }

    #[test]
    fn looks_between_two_at_how_busy_workers_are_do_not_count() {
        let mut scaler = Scaler::default();
        looks(&mut scaler, &[0.1, 0.1], 2, EXCESS_INTERVALS_MIN - 1);
        let mut measure = |is_new| scaler.target_workers(&[0.1, 0.1], FillLevel::None, 2, is_new);
        assert_eq!((measure(false), measure(false), measure(true)), (2, 2, 1));
    }

    #[test]
    fn filling_queue_doubles_active_workers_and_activates_all_if_it_persists() {
        let idle = [0.1; 8];
        let mut scaler = Scaler::default();
        let mut measure = |level, now| scaler.target_workers(&idle, level, now, true);
        assert_eq!(
            (measure(FillLevel::Some, 1), measure(FillLevel::Some, 2)),
            (2, 8)
        );
        let mut scaler = Scaler::default();
        let mut measure = |level, now| scaler.target_workers(&idle, level, now, true);
        assert_eq!(measure(FillLevel::Some, 2), 4);
        assert_eq!(
            (measure(FillLevel::None, 4), measure(FillLevel::Some, 4)),
            (4, 8)
        );
    }

    #[test]
    fn worker_activated_by_a_queue_is_deactivated_sooner_than_by_load() {
        let goes_after = |mut scaler: Scaler| {
            let all = looks(&mut scaler, &[0.1, 0.0], 2, EXCESS_INTERVALS_MIN);
            1 + all.iter().take_while(|&&now| now == 2).count() as u32
        };
        let mut scaler = Scaler::default();
        assert_eq!(
            scaler.target_workers(&[0.1, 0.1], FillLevel::Some, 1, true),
            2
        );
        assert_eq!(goes_after(scaler), QUEUE_EXCESS_INTERVALS_MIN);
        let mut scaler = Scaler::default();
        assert_eq!(looks(&mut scaler, &[0.7, 0.0], 1, 1), [2]);
        assert_eq!(goes_after(scaler), EXCESS_INTERVALS_MIN);
    }

    #[test]
    fn one_busy_check_restarts_the_wait() {
        let mut scaler = Scaler::default();
        looks(&mut scaler, &[0.1, 0.1], 2, EXCESS_INTERVALS_MIN - 1);
        assert_eq!(looks(&mut scaler, &[0.5, 0.5], 2, 1), [2]);
        let again = looks(&mut scaler, &[0.1, 0.1], 2, EXCESS_INTERVALS_MIN);
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
                // Balanced over the active workers; a worker is busy for at most the whole interval (1).
                let busy: Vec<f64> = (0..4)
                    .map(|w| {
                        if w < now {
                            (demand / now as f64).min(1.0)
                        } else {
                            0.0
                        }
                    })
                    .collect();
                now = scaler.target_workers(&busy, FillLevel::None, now, true);
                if seen.last() != Some(&now) {
                    seen.push(now);
                }
            }
            assert!(seen.len() <= 2, "{demand}: {seen:?}");
        }
    }
}
