//! A token bucket that counts time in milliseconds, as Click's rate-limiting elements do.
//!
//! Click's users know the packet counts of these elements down to the last packet. The counts depend on the tick and
//! on rounding, so both are reproduced here. A full bucket is the largest 32-bit number; the values of a token and of
//! a tick are computed from it and rounded down. (So with room for a single token, 100 tokens a second come every 11
//! ms: ten ticks are just less than one token.) Rates too low for that precision use 64 bits.
//!
//! [`bucket`](crate::bucket) is exact; use it for limits that need not agree with Click's.

const TICKS_PER_SECOND: u64 = 1000;
const NS_PER_TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;
/// Minimum value of a tick, in parts, for 32 bits to suffice.
const TICK_PARTS_MIN: u128 = 1 << 12;

/// A token bucket with one owner.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Number of parts in a full bucket.
    full: u128,
    /// Number of parts in a token.
    token: u128,
    /// Number of parts that a tick adds.
    tick: u128,
    /// Number of parts that the bucket holds at `last_refill_tick`.
    level: u128,
    /// Tick of the last refill.
    last_refill_tick: u64,
}

impl Tokens {
    /// A full bucket of `capacity` tokens (at least one) that gains `rate` tokens a second. The capacity is at least
    /// what one tick adds.
    pub fn new(rate: u64, capacity: u64) -> Tokens {
        let capacity = u128::from(capacity.max(rate.div_ceil(TICKS_PER_SECOND)).max(1));
        let worth = |full: u128| {
            let token = (full / capacity).max(1);
            (
                token,
                token * u128::from(rate) / u128::from(TICKS_PER_SECOND),
            )
        };
        let narrow = u128::from(u32::MAX);
        let full = if worth(narrow).1 >= TICK_PARTS_MIN {
            narrow
        } else {
            u128::from(u64::MAX)
        };
        let (token, tick) = worth(full);
        Tokens {
            full,
            token,
            tick,
            level: full,
            last_refill_tick: 0,
        }
    }

    /// Changes rate and capacity. Present tokens stay as far as they fit.
    pub fn set_rate(&mut self, rate: u64, capacity: u64) {
        let inside = self.level / self.token;
        let last = self.last_refill_tick;
        *self = Tokens::new(rate, capacity);
        self.level = self.full.min(inside * self.token);
        self.last_refill_tick = last;
    }

    /// Makes the bucket hold `tokens`.
    pub fn set(&mut self, tokens: u64) {
        self.level = self.full.min(u128::from(tokens) * self.token);
    }

    /// Adds the tokens earned until `now` (ns).
    #[inline]
    pub fn refill(&mut self, now: u64) {
        let now = now / NS_PER_TICK;
        if now > self.last_refill_tick {
            let more = u128::from(now - self.last_refill_tick) * self.tick;
            self.level = self.full.min(self.level + more);
            self.last_refill_tick = now;
        }
    }

    /// Whole tokens inside.
    #[inline]
    pub fn level(&self) -> u64 {
        u64::try_from(self.level / self.token).unwrap_or(u64::MAX)
    }

    /// True if the bucket holds at least `tokens` tokens.
    #[inline]
    pub fn contains(&self, tokens: u64) -> bool {
        self.level >= u128::from(tokens) * self.token
    }

    /// Removes `tokens` tokens, or as many as there are.
    #[inline]
    pub fn remove(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(u128::from(tokens) * self.token);
    }

    /// Removes `tokens` tokens and returns true, if the bucket holds as many; otherwise changes nothing and returns
    /// false.
    #[inline]
    pub fn remove_if(&mut self, tokens: u64) -> bool {
        let fits = self.contains(tokens);
        if fits {
            self.remove(tokens);
        }
        fits
    }

    /// Time until the bucket holds `tokens` tokens, in nanoseconds (whole ticks); `None` if never.
    pub fn wait_ns(&self, tokens: u64) -> Option<u64> {
        let wanted = u128::from(tokens) * self.token;
        if wanted > self.full || (self.tick == 0 && wanted > self.level) {
            return None;
        }
        let missing = wanted.saturating_sub(self.level);
        let ticks = u64::try_from(missing.div_ceil(self.tick.max(1))).ok()?;
        ticks.checked_mul(NS_PER_TICK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Removes a token whenever there is one; returns the times in milliseconds.
    fn departures(mut bucket: Tokens, end_ms: u64) -> Vec<u64> {
        let mut now = 1_000 * MS;
        let end = now + end_ms * MS;
        bucket.refill(now);
        bucket.set(u64::MAX);
        let mut times = Vec::new();
        while now < end {
            bucket.refill(now);
            if bucket.remove_if(1) {
                times.push(now / MS - 1000);
            } else {
                now += bucket.wait_ns(1).expect("the rate is not zero");
            }
        }
        times
    }

    #[test]
    fn a_bucket_of_one_token_loses_a_tick_each_time() {
        assert_eq!(departures(Tokens::new(100, 1), 10_000).len(), 910);
        assert_eq!(departures(Tokens::new(2, 1), 10_000).len(), 20);
        assert_eq!(departures(Tokens::new(2, 50), 10_000).len(), 69);
    }

    #[test]
    fn a_deeper_bucket_keeps_what_is_left_of_a_tick() {
        let times = departures(Tokens::new(100, 2), 1_000);
        assert_eq!(times[..5], [0, 0, 11, 21, 31]);
    }

    #[test]
    fn no_window_sees_more_than_the_rate_and_the_burst() {
        for (rate, burst) in [(3u64, 1u64), (100, 7), (999, 2), (12_345, 300)] {
            let times = departures(Tokens::new(rate, burst), 400);
            let depth = burst.max(rate.div_ceil(1000));
            for (i, from) in times.iter().enumerate() {
                for (j, to) in times.iter().enumerate().skip(i) {
                    let most = rate * (to - from + 1) / 1000 + depth + 1;
                    assert!((j - i) as u64 <= most, "{rate} {burst}: {from}..{to}");
                }
            }
            assert!(times.len() as u64 >= rate * 4 * 8 / 100);
        }
    }

    #[test]
    fn extremes_end_in_no_overflow() {
        let mut never = Tokens::new(0, 5);
        assert!(never.remove_if(5) && !never.remove_if(1));
        assert_eq!(never.wait_ns(1), None);
        never.refill(u64::MAX);
        assert!(!never.contains(1));
        let mut flood = Tokens::new(u64::MAX, u64::MAX);
        flood.refill(u64::MAX);
        assert!(flood.remove_if(1));
        let mut slow = Tokens::new(1, 10_000_000);
        slow.remove(u64::MAX);
        slow.refill(10_000 * MS);
        assert_eq!(slow.level(), 9, "the tenth lacks a hair");
        slow.set_rate(1000, 4);
        assert_eq!(slow.level(), 4);
    }
}
