//! When a rate's next unit is due, on the grid that Click's GapRate uses.
//!
//! A second is cut into as many parts as units may pass in it; a unit may pass once its part has begun,
//! and is counted. Parts are kept as microseconds with 12 binary places, as there, so that the same
//! packets pass under simulated time.

/// Binary places of a part.
const PLACES: u32 = 12;
/// Microseconds in a second.
const SECOND: u64 = 1_000_000;
/// What was not asked for in time may be caught up with for so long: units of 20 ms.
const LATE: u64 = 50;

/// The units that have passed in this second, against those that were due.
pub(super) struct Gap {
    rate: u64,
    /// The part of a second that a unit has, in microseconds with binary places.
    part: u64,
    /// The second that is counted; `None` before the first question.
    second: Option<u64>,
    /// Units passed in it, less those that the seconds before were short of.
    passed: i64,
}

/// A wall time in nanoseconds as seconds and microseconds.
fn split(now: u64) -> (u64, u64) {
    let micros = now / 1000;
    (micros / SECOND, micros % SECOND)
}

impl Gap {
    /// Units per second; 0 lets nothing pass.
    pub(super) fn new(rate: u64) -> Gap {
        Gap {
            rate,
            part: ((SECOND << PLACES) / rate.max(1)).max(1),
            second: None,
            passed: 0,
        }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Takes another rate; the next unit may pass at once.
    pub(super) fn set_rate(&mut self, rate: u64, now: u64) {
        let second = self.second;
        *self = Gap::new(rate);
        if second.is_some() {
            let (second, micros) = split(now);
            (self.second, self.passed) = (Some(second), self.due(micros));
        }
    }

    /// Goes on where another one stood.
    pub(super) fn take(&mut self, old: &Gap) {
        (self.second, self.passed) = (old.second, old.passed);
    }

    /// Units due since the second began.
    fn due(&self, micros: u64) -> i64 {
        i64::try_from((micros << PLACES) / self.part).unwrap_or(i64::MAX)
    }

    /// Whether a unit may pass at a wall time in nanoseconds.
    pub(super) fn may_pass(&mut self, now: u64) -> bool {
        let (second, micros) = split(now);
        let due = self.due(micros);
        match self.second {
            None => {
                let begun = (micros << PLACES) % self.part;
                self.passed = due + i64::from(begun > self.part / 2);
            }
            Some(counted) if second > counted && self.passed > 0 => {
                self.passed -= i64::try_from(self.rate).unwrap_or(i64::MAX);
            }
            Some(_) => {}
        }
        self.second = Some(second);
        let late = i64::try_from(self.rate / LATE).unwrap_or(i64::MAX);
        self.passed = self.passed.max(due.saturating_sub(late));
        self.rate > 0 && due >= self.passed
    }

    /// Counts units that pass.
    pub(super) fn pay(&mut self, units: usize) {
        self.passed += units as i64;
    }

    /// Nanoseconds until a unit may pass, or until the second is over if that is earlier.
    pub(super) fn wait(&self, now: u64) -> u64 {
        let (_, micros) = split(now);
        let begins = u64::try_from(self.passed).map_or(0, |passed| {
            u64::try_from((u128::from(passed) * u128::from(self.part)).div_ceil(1 << PLACES))
                .unwrap_or(u64::MAX)
        });
        (begins.clamp(micros + 1, SECOND) - micros) * 1000 - now % 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wall times in milliseconds, of those asked for, at which a unit passes.
    fn passes(gap: &mut Gap, asked: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut ask = |ms: &u64| {
            let may = gap.may_pass(ms * 1_000_000);
            gap.pay(usize::from(may));
            may
        };
        asked.into_iter().filter(|ms| ask(ms)).collect()
    }

    #[test]
    fn units_pass_on_the_grid_of_the_second() {
        let mut gap = Gap::new(10);
        let asked = (1..=10).map(|n| n * 50);
        assert_eq!(passes(&mut gap, asked), [50, 100, 200, 300, 400, 500]);
        let mut gap = Gap::new(4);
        let asked = (0..20).map(|n| n * 125);
        let every = (0..10).map(|n| n * 250).collect::<Vec<u64>>();
        assert_eq!(passes(&mut gap, asked), every);
    }

    #[test]
    fn the_wait_ends_when_a_unit_may_pass() {
        for rate in [1, 3, 7, 100, 999, 4096] {
            let mut gap = Gap::new(rate);
            let mut now = 123_456_789;
            for _ in 0..5000 {
                if gap.may_pass(now) {
                    gap.pay(1);
                } else {
                    let wait = gap.wait(now);
                    assert!(wait > 0 && !gap.may_pass(now + wait - 1), "{rate} at {now}");
                    now += wait;
                }
            }
            let seconds = 5000 / (2 * rate);
            assert!(now / 1_000_000_000 >= seconds.saturating_sub(2), "{rate}");
        }
    }
}
