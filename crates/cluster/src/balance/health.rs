//! Health of one back end, judged by the answers to probes.

use std::fmt;

/// Parameters of watching a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Nanoseconds between probes.
    pub interval: u64,
    /// Number of probes in a row without an answer after which the back end is down.
    pub misses: u32,
    /// Number of probes of the last 32 without an answer after which the back end is down.
    pub losses: u32,
    /// Number of successive answers that bring a back end up after its first failure.
    pub answers: u32,
}

/// Failures that follow each other within this time count together, in nanoseconds.
const FAILURE_MEMORY_NS: u64 = 60_000_000_000;
/// Maximum number of times that the required answers double.
const DOUBLINGS_MAX: u32 = 6;

/// Reason why a back end is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Probes are not answered.
    Silent,
    /// Too many of the last probes were lost.
    Lossy,
    /// Too few probes were answered yet.
    New,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Silent => "silent",
            Cause::Lossy => "lossy",
            Cause::New => "new",
        })
    }
}

/// A change of a back end's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The back end forwards again.
    Up,
    /// The back end does not forward.
    Down(Cause),
}

/// Health of one back end.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: Settings,
    up: bool,
    cause: Option<Cause>,
    /// Number of the last probe that was sent; the first is 1.
    sent: u64,
    /// A bit for each of the last 32 probes, the newest in bit 0: set if the probe was answered.
    answered: u32,
    /// Number of probes sent since the last answer.
    misses: u32,
    /// Number of successive answered probes.
    streak: u32,
    /// Time of the last probe that may still be answered.
    sent_at: u64,
    /// Failures that count together.
    failures: u32,
    failed_at: u64,
    /// Nanoseconds that the last answer took.
    delay: u64,
}

impl Watch {
    /// A back end that counts as up: at the start of a balancer nothing is known of any.
    pub fn new(settings: Settings) -> Watch {
        Watch {
            settings,
            up: true,
            cause: None,
            sent: 0,
            answered: u32::MAX,
            misses: 0,
            streak: 0,
            sent_at: 0,
            failures: 0,
            failed_at: 0,
            delay: 0,
        }
    }

    /// True if the back end is to be used.
    pub fn up(&self) -> bool {
        self.up
    }

    /// Reason why the back end is down.
    pub fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Nanoseconds that the last answer took.
    pub fn delay(&self) -> u64 {
        self.delay
    }

    /// Number of the last 32 probes without an answer, not counting the newest, which may be under way.
    pub fn missing(&self) -> u32 {
        (!self.answered >> 1).count_ones()
    }

    /// Number of the last probe.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Continues another watch, with its own settings.
    pub fn follow(&mut self, old: &Watch) {
        let settings = self.settings;
        *self = old.clone();
        self.settings = settings;
    }

    /// Makes a back end that is new beside others wait until it has answered.
    pub fn await_answers(&mut self) {
        (self.up, self.cause) = (false, Some(Cause::New));
    }

    /// Forgets earlier failures.
    pub fn forget(&mut self) {
        self.failures = u32::from(!self.up);
    }

    /// Number of successive answers that bring the back end up again.
    pub fn answers_needed(&self) -> u32 {
        let doublings = self.failures.saturating_sub(1).min(DOUBLINGS_MAX);
        self.settings.answers << doublings
    }

    /// Judges the answers, and returns the number of the next probe. Call it once per interval: a balancer that was
    /// late has sent fewer probes, so its own delay is not held against the back end.
    pub fn probe(&mut self, now: u64) -> (u64, Option<Change>) {
        let change = self.evaluate(now);
        if self.sent > 0 && self.answered & 1 == 0 {
            self.streak = 0;
        }
        self.sent += 1;
        self.answered <<= 1;
        self.misses += 1;
        self.sent_at = now;
        (self.sent, change)
    }

    fn evaluate(&mut self, now: u64) -> Option<Change> {
        if !self.up {
            return None;
        }
        let cause = if self.misses >= self.settings.misses {
            Cause::Silent
        } else if (!self.answered).count_ones() >= self.settings.losses {
            Cause::Lossy
        } else {
            return None;
        };
        let soon = self.failures > 0 && now.saturating_sub(self.failed_at) < FAILURE_MEMORY_NS;
        self.failures = if soon { self.failures + 1 } else { 1 };
        self.failed_at = now;
        (self.up, self.cause, self.streak) = (false, Some(cause), 0);
        Some(Change::Down(cause))
    }

    /// Records the answer to a probe. Answers to older probes than the last 32, and second answers, are ignored.
    pub fn heard(&mut self, number: u64, now: u64) -> Option<Change> {
        let age = self.sent.checked_sub(number).filter(|age| *age < 32)?;
        let bit = 1 << age;
        if number == 0 || self.answered & bit != 0 {
            return None;
        }
        self.answered |= bit;
        if age == 0 {
            self.delay = now.saturating_sub(self.sent_at);
        }
        self.misses = self.misses.min(age as u32);
        self.streak += 1;
        if self.up || self.streak < self.answers_needed() {
            return None;
        }
        // Clears the losses from before the failure, so that they do not take the back end out again.
        (self.up, self.cause, self.answered) = (true, None, u32::MAX);
        Some(Change::Up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SETTINGS: Settings = Settings {
        interval: 10 * MS,
        misses: 4,
        losses: 12,
        answers: 8,
    };

    /// Probes a simulated back end from time `at` on; it answers where `answers` is true. Returns the health changes
    /// with their times in milliseconds.
    fn run(
        watch: &mut Watch,
        at: u64,
        probes: u64,
        answers: impl Fn(u64) -> bool,
    ) -> Vec<(u64, Change)> {
        let mut changes = Vec::new();
        for turn in 0..probes {
            let now = at + turn * SETTINGS.interval;
            let (number, change) = watch.probe(now);
            changes.extend(change.map(|change| (now / MS, change)));
            if answers(turn) {
                let change = watch.heard(number, now + MS / 10);
                changes.extend(change.map(|change| (now / MS, change)));
            }
        }
        changes
    }

    #[test]
    fn silence_is_seen_after_the_misses_and_a_time_of_answers_ends_it() {
        let mut watch = Watch::new(SETTINGS);
        assert_eq!(run(&mut watch, 0, 100, |_| true), []);
        assert_eq!(watch.delay(), MS / 10);
        let down = run(&mut watch, 1000 * MS, 20, |_| false);
        assert_eq!(down, [(1040, Change::Down(Cause::Silent))]);
        let up = run(&mut watch, 1200 * MS, 20, |_| true);
        assert_eq!(up, [(1270, Change::Up)]);
        assert!(watch.up() && watch.cause().is_none());
    }

    #[test]
    fn three_misses_in_a_row_are_no_failure() {
        let mut watch = Watch::new(SETTINGS);
        assert_eq!(run(&mut watch, 0, 1000, |turn| turn % 32 >= 3), []);
        assert_eq!(watch.missing(), 3);
    }

    #[test]
    fn a_lossy_back_end_is_down_though_never_silent() {
        let mut watch = Watch::new(SETTINGS);
        let down = run(&mut watch, 0, 100, |turn| turn % 2 == 0);
        assert_eq!(down.len(), 1);
        assert_eq!(down[0].1, Change::Down(Cause::Lossy));
        assert!(!watch.up());
    }

    #[test]
    fn back_end_that_fails_repeatedly_returns_later_each_time() {
        let mut watch = Watch::new(SETTINGS);
        let mut at = 0;
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(run(&mut watch, at, 10, |_| false).len(), 1);
            at += 100 * MS;
            let up = run(&mut watch, at, 600, |_| true);
            waits.push((up[0].0 - at / MS) / 10 + 1);
            at += 6000 * MS;
        }
        assert_eq!(waits, [8, 16, 32, 64, 128, 256, 512, 512, 512]);
        at += FAILURE_MEMORY_NS;
        run(&mut watch, at, 10, |_| false);
        assert_eq!(watch.answers_needed(), 8);
    }

    #[test]
    fn a_new_back_end_waits_for_as_many_answers_as_one_that_failed_once() {
        let mut watch = Watch::new(SETTINGS);
        watch.await_answers();
        assert_eq!((watch.up(), watch.cause()), (false, Some(Cause::New)));
        assert_eq!(run(&mut watch, 0, 50, |_| false), []);
        let up = run(&mut watch, 500 * MS, 100, |_| true);
        assert_eq!(up, [(500 + 70, Change::Up)]);
        assert_eq!(watch.cause(), None);
    }

    #[test]
    fn forged_old_and_repeated_answers_change_nothing() {
        let mut watch = Watch::new(SETTINGS);
        run(&mut watch, 0, 20, |_| false);
        assert!(!watch.up());
        for number in [0, 21, 1000, u64::MAX] {
            assert_eq!(watch.heard(number, 0), None);
        }
        for _ in 0..100 {
            assert_eq!(watch.heard(20, 0), None);
        }
        assert!(!watch.up());
    }

    #[test]
    fn a_balancer_that_was_late_takes_no_back_end_out() {
        let mut watch = Watch::new(SETTINGS);
        run(&mut watch, 0, 50, |_| true);
        let (number, change) = watch.probe(500 * MS);
        assert_eq!(change, None);
        // The balancer itself was stopped for ten seconds, and reads the answer only afterwards.
        assert_eq!(watch.probe(10_500 * MS).1, None);
        assert_eq!(watch.heard(number, 10_501 * MS), None);
        assert!(watch.up());
    }
}
