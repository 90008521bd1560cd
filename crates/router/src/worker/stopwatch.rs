//! Durations of a worker's turns: total, on the core, and spent for control.

use crate::worker::WorkerTimes;
use engine::clock::Time;
use engine::waiter::{Usage, Waiter};
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds above which a turn is analysed; a query of the system costs half a microsecond.
const LONG_TURN_NS: u64 = 250_000;
/// Maximum age of the system's last answer at the start of a long turn, in nanoseconds.
const ANSWER_AGE_MAX_NS: u64 = 1_000_000;

/// Measures the turns of a worker while it is awake.
pub(crate) struct Stopwatch {
    /// End of the last turn.
    last: Time,
    /// Nanoseconds of the last turn in which the worker had its core.
    run: u64,
    /// Time at which the turn began to process messages.
    mail: Option<Time>,
    /// Time of the last query of the system, and its answer.
    asked: Time,
    usage: Option<Usage>,
}

impl Stopwatch {
    /// Starts the first turn after a sleep, or of a new worker.
    pub(crate) fn start(now: Time, waiter: &dyn Waiter) -> Stopwatch {
        Stopwatch {
            last: now,
            run: 0,
            mail: None,
            asked: now,
            usage: waiter.usage(),
        }
    }

    /// Records that messages are processed from `now` until the turn ends.
    pub(crate) fn mail(&mut self, now: Time) {
        self.mail = Some(now);
    }

    /// Ends a turn and starts the next one. Returns the nanoseconds of the ended turn.
    #[inline]
    pub(crate) fn turn(&mut self, now: Time, waiter: &dyn Waiter, times: &WorkerTimes) -> u64 {
        let turn = now.0.saturating_sub(self.last.0);
        let age = now.0.saturating_sub(self.asked.0);
        self.run = turn;
        if turn >= LONG_TURN_NS || age >= ANSWER_AGE_MAX_NS || self.mail.is_some() {
            self.look_into(turn, now, waiter, times);
        } else if turn > times.longest_run.load(Ordering::Relaxed) {
            raise(&times.longest_turn, turn);
            raise(&times.longest_run, turn);
        }
        self.last = now;
        turn
    }

    /// Nanoseconds of the last turn in which the worker had its core. Turns below 250 us count whole.
    #[inline]
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    #[cold]
    fn look_into(&mut self, turn: u64, now: Time, waiter: &dyn Waiter, times: &WorkerTimes) {
        let usage = waiter.usage();
        let mail = self.mail.take();
        let mail = mail.map_or(0, |since| now.0.saturating_sub(since.0));
        let (run, control) = match (self.usage, usage) {
            _ if turn < LONG_TURN_NS => (turn, mail),
            // Time counts as the worker's own unless it is known to be others'.
            (None, _) | (_, None) => (turn, turn),
            (Some(was), Some(is)) if was.rests != is.rests => (turn, turn),
            (Some(was), Some(is)) => {
                // The turns since the last query were short, so the worker had its core.
                let before = self.last.0.saturating_sub(self.asked.0);
                let ran = is.ran.saturating_sub(was.ran);
                let run = ran.saturating_sub(before).min(turn);
                let faulted = was.faults != is.faults;
                (run, if faulted { run } else { mail.min(run) })
            }
        };
        self.run = run;
        // The whole turn is stored first, so a reader that reads it last never finds a part longer than the whole.
        raise(&times.longest_turn, turn);
        raise(&times.longest_run, run);
        raise(&times.longest_wait, turn - run);
        raise(&times.longest_control, control);
        self.asked = now;
        self.usage = usage;
    }
}

/// Raises a maximum. One thread raises it; another may reset it to 0.
fn raise(greatest: &AtomicU64, value: u64) {
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
    struct Told(Cell<Option<Usage>>);

    impl Waiter for Told {
        fn wait(&mut self, _: &[RawFd], _: Duration) {}
        fn usage(&self) -> Option<Usage> {
            self.0.get()
        }
    }

    /// Values of the system: nanoseconds on the core, voluntary context switches, page faults.
    type Said = (u64, u64, u64);

    /// Results for turns that end at these times, with the system's values at each time: the longest turn, run, wait
    /// and control.
    fn after(turns: &[(u64, Said)]) -> [u64; 4] {
        measured(turns.iter().map(|&(end, said)| (end, 0, said)))
    }

    /// Like `after`, for turns that end with `mail` nanoseconds of messages.
    fn measured(turns: impl Iterator<Item = (u64, u64, Said)>) -> [u64; 4] {
        let told = Told(Cell::new(Some(Usage::default())));
        let times = WorkerTimes::default();
        let mut watch = Stopwatch::start(Time(0), &told);
        for (end, mail, (ran, rests, faults)) in turns {
            if mail > 0 {
                watch.mail(Time(end - mail));
            }
            told.0.set(Some(Usage { ran, rests, faults }));
            let turn = watch.turn(Time(end), &told, &times);
            assert!(watch.run() <= turn);
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
            assert_eq!(crate::worker::length(run), place, "{run}");
        }
    }

    #[test]
    fn a_turn_in_which_others_had_the_core_has_waited() {
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
    fn short_turns_have_run() {
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
        let told = Told(Cell::new(None));
        let times = WorkerTimes::default();
        Stopwatch::start(Time(0), &told).turn(Time(5 * MS), &told, &times);
        assert_eq!(times.longest_run.load(Ordering::Relaxed), 5 * MS);
        assert_eq!(times.longest_control.load(Ordering::Relaxed), 5 * MS);
        assert_eq!(times.longest_wait.load(Ordering::Relaxed), 0);
    }
}
