//! Rate limits: token buckets in the form of the generic cell rate algorithm (ITU-T I.371, annex A).
//!
//! Instead of tokens and the time of the last refill, a bucket keeps one number: the time at which it will be full
//! again. Taking units adds their cost to this time. Units do not conform if the time would then lie further in the
//! future than the time that an empty bucket takes to fill. One number fits an atomic, so workers can share a limit:
//! [`SharedBucket`]. A bucket that one worker owns is a [`TokenBucket`].
//!
//! Units are what the caller counts: packets, bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Time is counted in 1/16 ns. Rates are exact within 0.1 % for minimum frames at 100 Gb/s, and the range is 36
/// years.
const TICKS: u64 = 16;
/// Fractional bits of the fixed-point cost of a unit.
const FRACTION_BITS: u32 = 32;

/// Fill rate and depth of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Ticks per unit, with [`FRACTION_BITS`] fractional bits.
    unit: u128,
    /// Ticks that an empty bucket takes to fill.
    depth: u64,
}

impl Rate {
    /// `per_second` units a second on average, up to `burst` at once. A rate of 0 lets nothing through;
    /// a burst of 0 counts as 1.
    pub fn new(per_second: u64, burst: u64) -> Rate {
        if per_second == 0 {
            return Rate {
                unit: u128::MAX,
                depth: 0,
            };
        }
        let unit =
            ((u128::from(TICKS) * 1_000_000_000) << FRACTION_BITS).div_ceil(u128::from(per_second));
        let depth = (unit * u128::from(burst.max(1))).div_ceil(1 << FRACTION_BITS);
        Rate {
            unit,
            depth: u64::try_from(depth).unwrap_or(u64::MAX),
        }
    }

    #[inline]
    fn cost(&self, units: u64) -> Option<u64> {
        let cost = self
            .unit
            .checked_mul(u128::from(units))?
            .checked_add(1 << (FRACTION_BITS - 1))?;
        u64::try_from(cost >> FRACTION_BITS).ok()
    }

    /// New fill time of the bucket if `units` are taken at `now` (ns); `None` if they do not conform.
    #[inline]
    fn take(&self, full_at: u64, now: u64, units: u64) -> Option<u64> {
        let now = now.saturating_mul(TICKS);
        let after = full_at.max(now).checked_add(self.cost(units)?)?;
        (after - now <= self.depth).then_some(after)
    }
}

/// A bucket with one owner.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate: Rate,
    full_at: u64,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        TokenBucket { rate, full_at: 0 }
    }

    /// Takes all `units` if they are available at `now` (ns); otherwise takes none.
    #[inline]
    pub fn take(&mut self, now: u64, units: u64) -> bool {
        let after = self.rate.take(self.full_at, now, units);
        self.full_at = after.unwrap_or(self.full_at);
        after.is_some()
    }

    /// Changes the rate. Units already taken stay taken.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }
}

/// A bucket that several workers share, for limits that hold per router.
#[derive(Debug)]
pub struct SharedBucket {
    rate: Rate,
    full_at: AtomicU64,
}

impl SharedBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        SharedBucket {
            rate,
            full_at: AtomicU64::new(0),
        }
    }

    /// True if the bucket is full at `now` (ns).
    #[inline]
    pub fn is_full(&self, now: u64) -> bool {
        self.full_at.load(Ordering::Relaxed) <= now.saturating_mul(TICKS)
    }

    /// Takes all `units` if they are available at `now` (ns); otherwise takes none. Workers' clocks may differ a
    /// little.
    #[inline]
    pub fn take(&self, now: u64, units: u64) -> bool {
        self.take_at(&self.rate, now, units)
    }

    /// Like [`take`](Self::take), at a rate other than the bucket's own. Units already taken stay taken.
    #[inline]
    pub fn take_at(&self, rate: &Rate, now: u64, units: u64) -> bool {
        // Relaxed: no other memory access is ordered by this counter.
        let take = |full_at| rate.take(full_at, now, units);
        self.full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }
}

/// Rates of a [`FairBucket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairRate {
    /// Limit for any source: the whole rate, with a burst that leaves the reserve untouched.
    all: Rate,
    /// Guaranteed limit of each source: an eighth of the rate and of the bucket.
    unreserved: Rate,
    /// Rate that is reserved for each group of sources.
    guaranteed: Rate,
}

impl FairRate {
    /// `per_second` units a second on average. All sources together may take up to `burst` at once. A source that
    /// uses at most an eighth of the rate has another `reserve` for itself.
    pub fn new(per_second: u64, burst: u64, reserve: u64) -> FairRate {
        let all = burst.saturating_add(reserve);
        let share = |n: u64| {
            if n == 0 {
                0
            } else {
                (n / GUARANTEE_DIVISOR).max(1)
            }
        };
        FairRate {
            all: Rate::new(per_second, all),
            unreserved: Rate::new(per_second, burst),
            guaranteed: match reserve {
                0 => Rate::new(0, 0),
                _ => Rate::new(share(per_second), share(all)),
            },
        }
    }
}

/// Reciprocal of the rate's share that is reserved for each source.
const GUARANTEE_DIVISOR: u64 = 8;
/// Number of buckets that sources are spread over.
const SOURCES: usize = 256;

/// A bucket that several workers share and that is fair among sources. A source may take all units that others do not
/// want, except those reserved for sources that want little.
#[derive(Debug)]
pub struct FairBucket {
    all: SharedBucket,
    sources: Box<[SharedBucket]>,
    /// Secret seed: otherwise a source could choose a place that another source uses.
    seed: u64,
}

impl FairBucket {
    /// A full bucket.
    pub fn new(rate: &FairRate, seed: u64) -> FairBucket {
        FairBucket {
            all: SharedBucket::new(rate.all),
            sources: (0..SOURCES)
                .map(|_| SharedBucket::new(rate.guaranteed))
                .collect(),
            seed,
        }
    }

    /// Takes a unit for a source if one is available at `now` (ns). The rate may differ from the previous call's.
    #[inline]
    pub fn take_at(&self, source: u64, rate: &FairRate, now: u64) -> bool {
        self.all.take_at(&rate.unreserved, now, 1)
            || self.sources[self.bucket_index(source)].take_at(&rate.guaranteed, now, 1)
                && self.all.take_at(&rate.all, now, 1)
    }

    /// Index of a source's bucket; it cannot be predicted without the seed.
    fn bucket_index(&self, source: u64) -> usize {
        let once = |word: u64, by: u64| {
            let product = u128::from(word) * u128::from(by | 1);
            product as u64 ^ (product >> 64) as u64
        };
        let mixed = once(once(source ^ self.seed, 0x9e37_79b9_7f4a_7c15), self.seed);
        (mixed >> 32) as usize % SOURCES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Random;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(Rate::new(10, 5));
        assert_eq!((0..20).filter(|_| bucket.take(SECOND, 1)).count(), 5);
        assert!(!bucket.take(SECOND + SECOND / 10 - 1, 1));
        assert!(bucket.take(SECOND + SECOND / 10, 1));
        assert_eq!(
            (0..20).filter(|_| bucket.take(100 * SECOND, 1)).count(),
            5,
            "never more than the burst"
        );
    }

    #[test]
    fn long_run_rates_hold_at_every_scale() {
        for (per_second, size) in [
            (1, 1),
            (3, 1),
            (1_000, 1),
            (1_000_003, 1),
            (12_500_000_000, 64),
        ] {
            let mut bucket = TokenBucket::new(Rate::new(per_second, 4 * size));
            let (packets, gap) = (200_000u64, SECOND * size / per_second / 2 + 1);
            let passed = (0..packets).filter(|i| bucket.take(i * gap, size)).count() as f64;
            let seconds = (packets * gap) as f64 / SECOND as f64;
            let expected = per_second as f64 / size as f64 * seconds;
            assert!(
                (passed / expected - 1.0).abs() < 0.005,
                "{per_second}: {passed} of {expected}"
            );
        }
    }

    #[test]
    fn bucket_agrees_with_the_textbook_token_bucket() {
        // The textbook's token bucket: time adds tokens, up to the burst. It is exact, as the rate divides 16e9.
        let (rate, burst) = (1_000_000, 20);
        let (mut bucket, mut random) = (TokenBucket::new(Rate::new(rate, burst)), Random::new(1));
        let (mut tokens, mut last, mut now) = (burst * 1000, 0, 0); // thousandths: 1 per ns
        for _ in 0..50_000 {
            now += random.below(3000);
            let units = 1 + random.below(4);
            tokens = (tokens + now - last).min(burst * 1000);
            last = now;
            let conforms = tokens >= units * 1000;
            if conforms {
                tokens -= units * 1000;
            }
            assert_eq!(bucket.take(now, units), conforms);
        }
    }

    #[test]
    fn extremes_refuse_instead_of_overflowing() {
        assert!(!TokenBucket::new(Rate::new(0, 10)).take(SECOND, 1));
        let mut bucket = TokenBucket::new(Rate::new(1, 3));
        assert!(!bucket.take(0, 4) && !bucket.take(0, u64::MAX));
        bucket.take(u64::MAX, 1); // after the end of time: either answer, no panic
        let mut flood = TokenBucket::new(Rate::new(u64::MAX, u64::MAX));
        assert!(flood.take(0, 1));
    }

    #[test]
    fn workers_together_get_no_more_than_the_rate() {
        let packets = if cfg!(miri) { 1_000 } else { 100_000u64 };
        let bucket = SharedBucket::new(Rate::new(1_000_000, 100));
        let passed = std::thread::scope(|scope| {
            let worker = || (0..packets).filter(|i| bucket.take(i * 100, 1)).count();
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            workers
                .into_iter()
                .map(|w| w.join().unwrap())
                .sum::<usize>()
        });
        // A tenth of the packets of a worker that sends a packet per microsecond, plus the burst.
        let rate = packets as usize / 10;
        assert!(passed <= rate + 100 && passed > rate / 2, "{passed}");
    }

    #[test]
    fn flooding_source_starves_no_other_source_of_a_fair_bucket() {
        let rate = FairRate::new(100, 20, 20);
        let bucket = FairBucket::new(&rate, 7);
        let take = |source, now, times| {
            (0..times)
                .filter(|_| bucket.take_at(source, &rate, now))
                .count()
        };
        assert_eq!(
            take(1, SECOND, 1000),
            25,
            "the burst, and its own part of the rest"
        );
        assert_eq!(take(2, SECOND, 5), 5);
        let mut passed = [0; 2];
        for tick in 0..1000 {
            let now = 2 * SECOND + tick * SECOND / 100;
            passed[0] += take(1, now, 50);
            if tick % 10 == 0 {
                passed[1] += take(2, now, 1);
            }
        }
        assert_eq!(passed[1], 100, "ten a second pass whatever the other sends");
        assert!(
            (850..=940).contains(&passed[0]),
            "the rest of a hundred a second: {passed:?}"
        );
        let plain = FairRate::new(100, 20, 0);
        let bucket = FairBucket::new(&plain, 7);
        assert_eq!(
            (0..50)
                .filter(|&source| bucket.take_at(source, &plain, SECOND))
                .count(),
            20
        );
    }
}
