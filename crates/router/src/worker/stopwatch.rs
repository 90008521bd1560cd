//! Durations of a worker's turns: in total, on the core, and for control.

use crate::worker::WorkerTimes;
use engine::clock::Time;
use engine::waiter::{Usage, Waiter};
use std::sync::atomic::{AtomicU64, Ordering};

/// Duration in nanoseconds above which the kernel is queried for the turn's time on the core; a query costs half a
/// microsecond.
const LONG_TURN_NS: u64 = 250_000;
/// Maximum age of the kernel's last answer at the start of a long turn, in nanoseconds.
const ANSWER_AGE_MAX_NS: u64 = 1_000_000;

/// Measures the turns of a worker while it is awake.
pub(crate) struct TurnTimer {
    /// End of the last turn.
    turn_end: Time,
    /// Time on the core in the last turn, in nanoseconds.
    run_ns: u64,
    /// Time at which the turn began to process messages.
    messages_from: Option<Time>,
    /// Time of the last query of the kernel, and the answer.
    queried_at: Time,
    usage: Option<Usage>,
}

impl TurnTimer {
    /// Starts the first turn after a sleep, or of a new worker.
    pub(crate) fn start(now: Time, waiter: &dyn Waiter) -> TurnTimer {
        TurnTimer {
            turn_end: now,
            run_ns: 0,
            messages_from: None,
            queried_at: now,
            usage: waiter.usage(),
        }
    }

    /// Records that messages are processed from `now` until the turn ends.
    pub(crate) fn begin_messages(&mut self, now: Time) {
        self.messages_from = Some(now);
    }

    /// Ends a turn and starts the next one. Returns the nanoseconds of the ended turn.
    #[inline]
    pub(crate) fn end_turn(&mut self, now: Time, waiter: &dyn Waiter, times: &WorkerTimes) -> u64 {
        let turn = now.0.saturating_sub(self.turn_end.0);
        let age = now.0.saturating_sub(self.queried_at.0);
        self.run_ns = turn;
        if turn >= LONG_TURN_NS || age >= ANSWER_AGE_MAX_NS || self.messages_from.is_some() {
            self.query_usage(turn, now, waiter, times);
        } else if turn > times.longest_run.load(Ordering::Relaxed) {
            update_max(&times.longest_turn, turn);
            update_max(&times.longest_run, turn);
        }
        self.turn_end = now;
        turn
    }

    /// Time on the core in the last turn, in nanoseconds. A turn below 250 us counts in full.
    #[inline]
    pub(crate) fn last_run_ns(&self) -> u64 {
        self.run_ns
    }

    #[cold]
    fn query_usage(&mut self, turn: u64, now: Time, waiter: &dyn Waiter, times: &WorkerTimes) {
        let usage = waiter.usage();
        let mail = self.messages_from.take();
        let mail = mail.map_or(0, |since| now.0.saturating_sub(since.0));
        let (run, control) = match (self.usage, usage) {
            _ if turn < LONG_TURN_NS => (turn, mail),
            // Without an answer, all time counts as the worker's own.
            (None, _) | (_, None) => (turn, turn),
            (Some(was), Some(is)) if was.voluntary_switches != is.voluntary_switches => {
                (turn, turn)
            }
            (Some(was), Some(is)) => {
                // The turns since the last query were short, so the worker had its core.
                let before = self.turn_end.0.saturating_sub(self.queried_at.0);
                let ran = is.cpu_ns.saturating_sub(was.cpu_ns);
                let run = ran.saturating_sub(before).min(turn);
                let faulted = was.page_faults != is.page_faults;
                (run, if faulted { run } else { mail.min(run) })
            }
        };
        self.run_ns = run;
        // The whole turn is stored first. So a reader that reads it last never finds a part longer than the whole.
        update_max(&times.longest_turn, turn);
        update_max(&times.longest_run, run);
        update_max(&times.longest_wait, turn - run);
        update_max(&times.longest_control, control);
        self.queried_at = now;
        self.usage = usage;
    }
}

/// Raises a maximum to `value`. Only one thread raises it; another may reset it to 0.
fn update_max(greatest: &AtomicU64, value: u64) {
    if value > greatest.load(Ordering::Relaxed) {
        greatest.store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::fd::RawFd;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    /// A fake system that returns prepared values.
    struct FakeSystem(Cell<Option<Usage>>);

    impl Waiter for FakeSystem {
        fn wait(&mut self, _: &[RawFd], _: Duration) {}
        fn usage(&self) -> Option<Usage> {
            self.0.get()
        }
    }

    /// Values of the system: nanoseconds on the core, voluntary context switches, page faults.
    type UsageValues = (u64, u64, u64);

    /// Results for turns that end at these times, with the system's values at each time: the longest turn, run, wait
    /// and control.
    fn after(turns: &[(u64, UsageValues)]) -> [u64; 4] {
        measured(turns.iter().map(|&(end, said)| (end, 0, said)))
    }

    /// Like `after`, for turns that end with `mail` nanoseconds of messages.
    fn measured(turns: impl Iterator<Item = (u64, u64, UsageValues)>) -> [u64; 4] {
        let told = FakeSystem(Cell::new(Some(Usage::default())));
        let times = WorkerTimes::default();
        let mut watch = TurnTimer::start(Time(0), &told);
        for (end, mail, (cpu_ns, voluntary_switches, page_faults)) in turns {
            if mail > 0 {
                watch.begin_messages(Time(end - mail));
            }
            told.0.set(Some(Usage {
                cpu_ns,
                voluntary_switches,
                page_faults,
            }));
            let turn = watch.end_turn(Time(end), &told, &times);
            assert!(watch.last_run_ns() <= turn);
        }
        [
            &times.longest_turn,
            &times.longest_run,
            &times.longest_wait,
            &times.longest_control,
        ]
        .map(|n| n.load(Ordering::Relaxed))
    }

    #[test]
    fn turns_are_counted_by_their_length() {
        for (run, place) in [
            (0, 0),
            (999, 0),
            (1_000, 1),
            (3_999, 2),
            (4_000, 3),
            (MS, 10),
            (16 * MS, 14),
            (17 * MS, 15),
            (u64::MAX, 15),
        ] {
            assert_eq!(crate::worker::runs_index(run), place, "{run}");
        }
    }

    #[test]
    fn turn_with_other_threads_on_the_core_counts_as_waiting() {
        assert_eq!(after(&[(5 * MS, (MS, 0, 0))]), [5 * MS, MS, 4 * MS, 0]);
        // A short turn at the beginning.
        let first = (MS / 10, (0, 0, 0));
        let turns = [first, (5 * MS + MS / 10, (MS + MS / 10, 0, 0))];
        assert_eq!(after(&turns), [5 * MS, MS, 4 * MS, 0]);
    }

    #[test]
    fn turn_that_gave_up_its_core_counts_as_controls() {
        let found = after(&[(5 * MS, (MS, 1, 0))]);
        assert_eq!(found, [5 * MS, 5 * MS, 0, 5 * MS]);
    }

    #[test]
    fn running_time_of_a_turn_with_a_page_fault_counts_as_controls() {
        let found = after(&[(5 * MS, (2 * MS, 0, 1))]);
        assert_eq!(found, [5 * MS, 2 * MS, 3 * MS, 2 * MS]);
    }

    #[test]
    fn messages_count_as_controls_time() {
        let short = [(9, 4, (0, 0, 0))];
        assert_eq!(measured(short.into_iter()), [9, 9, 0, 4]);
        let long = [(5 * MS, 2 * MS, (5 * MS, 0, 0))];
        assert_eq!(measured(long.into_iter()), [5 * MS, 5 * MS, 0, 2 * MS]);
        // Other threads had the core for most of the turn.
        let kept = [(5 * MS, 4 * MS, (MS, 0, 0))];
        assert_eq!(measured(kept.into_iter()), [5 * MS, MS, 4 * MS, MS]);
    }

    #[test]
    fn short_turns_count_as_running() {
        assert_eq!(after(&[(7, (0, 0, 0)), (10, (0, 0, 0))]), [7, 7, 0, 0]);
        let turns: Vec<_> = (1..100).map(|n| (n * MS / 10, (0, 0, 0))).collect();
        assert_eq!(after(&turns), [MS / 10, MS / 10, 0, 0]);
    }

    #[test]
    fn the_longest_run_need_not_be_in_the_longest_turn() {
        let turns = [(5 * MS, (0, 0, 0)), (7 * MS, (2 * MS, 0, 0))];
        assert_eq!(after(&turns), [5 * MS, 2 * MS, 5 * MS, 0]);
    }

    #[test]
    fn turn_counts_as_running_if_the_system_does_not_answer() {
        let told = FakeSystem(Cell::new(None));
        let times = WorkerTimes::default();
        TurnTimer::start(Time(0), &told).end_turn(Time(5 * MS), &told, &times);
        assert_eq!(times.longest_run.load(Ordering::Relaxed), 5 * MS);
        assert_eq!(times.longest_control.load(Ordering::Relaxed), 5 * MS);
        assert_eq!(times.longest_wait.load(Ordering::Relaxed), 0);
    }
}
