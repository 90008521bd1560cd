//! Due times of a rate's units, on the grid of Click's GapRate.
//!
//! A second is divided into as many parts as units may pass in it. A unit may pass once its part has begun, and is
//! counted. Click rounds the length of a part, which lets 2 % too many bytes pass at 1 Gbit/s and 9 % at 10; here
//! parts are exact. At rates below a million the same packets pass under simulated time.

/// Number of microseconds in a second.
const SECOND: u64 = 1_000_000;
/// Maximum rate, so that products of times and rates fit in 64 bits.
const RATE_MAX: u64 = (i64::MAX as u64) / SECOND;
/// Divisor of a second: units of the last 20 ms may be sent late.
const LATE: u64 = 50;

/// Rate limiter that compares the units passed in the current second with the units due.
pub(super) struct RateLimiter {
    rate: u64,
    /// Current second; `None` before the first call.
    second: Option<u64>,
    /// Units passed in this second, minus the shortfall of earlier seconds.
    passed: i64,
    /// Units due but not passed at the last call.
    ahead: i64,
}

/// Seconds and microseconds of a wall-clock time in nanoseconds.
fn split(now: u64) -> (u64, u64) {
    let micros = now / 1000;
    (micros / SECOND, micros % SECOND)
}

impl RateLimiter {
    /// A limiter for `rate` units per second; 0 lets nothing pass.
    pub(super) fn new(rate: u64) -> RateLimiter {
        RateLimiter {
            rate: rate.min(RATE_MAX),
            second: None,
            passed: 0,
            ahead: 0,
        }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes the rate. The next unit may pass at once.
    pub(super) fn set_rate(&mut self, rate: u64, now: u64) {
        let second = self.second;
        *self = RateLimiter::new(rate);
        if second.is_some() {
            let (second, micros) = split(now);
            (self.second, self.passed) = (Some(second), self.due(micros));
        }
    }

    /// Continues another gap.
    pub(super) fn take(&mut self, old: &RateLimiter) {
        (self.second, self.passed) = (old.second, old.passed);
    }

    /// Number of units due since the start of the second.
    fn due(&self, micros: u64) -> i64 {
        (micros * self.rate / SECOND).cast_signed()
    }

    /// True if a unit may pass at the wall-clock time `now`, in nanoseconds.
    pub(super) fn may_pass(&mut self, now: u64) -> bool {
        let (second, micros) = split(now);
        let due = self.due(micros);
        match self.second {
            None => {
                let begun = micros * self.rate % SECOND;
                self.passed = due + i64::from(begun > SECOND / 2);
            }
            Some(counted) if second > counted && self.passed > 0 => {
                self.passed -= self.rate.cast_signed();
            }
            Some(_) => {}
        }
        self.second = Some(second);
        let late = (self.rate / LATE).cast_signed();
        self.passed = self.passed.max(due - late);
        self.ahead = due - self.passed;
        self.rate > 0 && self.ahead >= 0
    }

    /// Number of packets that may pass in succession after [`may_pass`](Self::may_pass) has returned true, if none has
    /// more than `units` units.
    pub(super) fn at_once(&self, units: u64) -> usize {
        let more = self.ahead.max(0).cast_unsigned() / units;
        usize::try_from(more)
            .unwrap_or(usize::MAX)
            .saturating_add(1)
    }

    /// Counts units that have passed.
    pub(super) fn consume(&mut self, units: usize) {
        self.passed += units as i64;
    }

    /// Nanoseconds until a unit may pass, or until the end of the second if that is earlier.
    pub(super) fn wait_ns(&self, now: u64) -> u64 {
        let (_, micros) = split(now);
        let begins = u64::try_from(self.passed).map_or(0, |passed| {
            let begins = u128::from(passed) * u128::from(SECOND);
            u64::try_from(begins.div_ceil(u128::from(self.rate.max(1)))).unwrap_or(u64::MAX)
        });
        (begins.clamp(micros + 1, SECOND) - micros) * 1000 - now % 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wall times in milliseconds, of those asked for, at which a unit passes.
    fn passes(gap: &mut RateLimiter, asked: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut ask = |ms: &u64| {
            let may = gap.may_pass(ms * 1_000_000);
            gap.consume(usize::from(may));
            may
        };
        asked.into_iter().filter(|ms| ask(ms)).collect()
    }

    #[test]
    fn units_pass_on_the_grid_of_the_second() {
        let mut gap = RateLimiter::new(10);
        let asked = (1..=10).map(|n| n * 50);
        assert_eq!(passes(&mut gap, asked), [50, 100, 200, 300, 400, 500]);
        let mut gap = RateLimiter::new(4);
        let asked = (0..20).map(|n| n * 125);
        let every = (0..10).map(|n| n * 250).collect::<Vec<u64>>();
        assert_eq!(passes(&mut gap, asked), every);
    }

    #[test]
    fn a_second_lets_as_many_bytes_pass_as_the_rate_says() {
        for rate in [1_250_000_000, 125_000_000, 12_500_000_000, 123_456_789] {
            let mut gap = RateLimiter::new(rate);
            let (mut passed, mut random) = (0, testkit::Rng::seed(rate));
            for micros in 0..2_000_000 {
                let now = micros * 1000;
                while gap.may_pass(now) {
                    let most = gap.at_once(1500);
                    let bytes: usize = (0..most).map(|_| 1 + random.below(1500)).sum();
                    gap.consume(bytes);
                    passed += bytes as u64;
                }
            }
            let wanted = 2 * rate;
            assert!(
                passed.abs_diff(wanted) <= 1500 + rate / SECOND,
                "{rate}: {passed}"
            );
        }
    }

    #[test]
    fn the_wait_ends_when_a_unit_may_pass() {
        for rate in [1, 3, 7, 100, 999, 4096] {
            let mut gap = RateLimiter::new(rate);
            let mut now = 123_456_789;
            for _ in 0..5000 {
                if gap.may_pass(now) {
                    gap.consume(1);
                } else {
                    let wait = gap.wait_ns(now);
                    assert!(wait > 0 && !gap.may_pass(now + wait - 1), "{rate} at {now}");
                    now += wait;
                }
            }
            let seconds = 5000 / (2 * rate);
            assert!(now / 1_000_000_000 >= seconds.saturating_sub(2), "{rate}");
        }
    }
}
