//! Token buckets whose update costs one subtraction.
//!
//! A bucket is one point in time, up to which packets have used the link. A point in the past means tokens, one in
//! the future means debt. Both are times, so no bucket has to be refilled (virtual scheduling, ITU-T I.371).

/// Units of 1/4096 ns: a byte's time at 100 Gbit/s is 328 of them.
const SHIFT: u32 = 12;

/// Minimum depth of a bucket, in bytes: with a depth below a packet's length, packets would pass too cheaply.
const DEPTH_MIN_BYTES: u32 = 1 << 14;

/// A rate, stored as the time per byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price(u32);

impl Price {
    /// Time per byte at `rate` bits per second. Rates below 8 kbit/s count as 8 kbit/s.
    pub(crate) fn of(rate: f64) -> Price {
        let units = 8e9 * f64::from(1u32 << SHIFT) / rate.max(0.0);
        // A float-to-integer cast saturates; a rate of 0 gives infinity.
        Price(units.round() as u32)
    }

    /// Tokens that a bucket of this rate collects in `ns` nanoseconds.
    #[inline]
    pub(crate) fn depth(self, ns: u32) -> i64 {
        let least = u64::from(self.0) * u64::from(DEPTH_MIN_BYTES);
        (u64::from(ns) << SHIFT).max(least).max(1) as i64
    }

    #[inline]
    fn cost(self, bytes: u32) -> i64 {
        // The product is less than 2^32 times the larger of the longest packet and a second's bytes on a link, so it
        // fits.
        (u64::from(self.0) * u64::from(bytes)).min(1 << 60) as i64
    }
}

/// A moment on the scale of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketTime(u64);

impl BucketTime {
    /// Converts nanoseconds. The scale wraps after 52 days; only differences are meaningful.
    #[inline]
    pub(crate) fn of(ns: u64) -> BucketTime {
        BucketTime(ns << SHIFT)
    }
}

/// Token bucket: the used part of a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket(u64);

impl Bucket {
    /// Makes a bucket with neither tokens nor debt.
    pub(crate) fn new(now: BucketTime) -> Bucket {
        Bucket(now.0)
    }

    /// Tokens, at most `depth`; less than 0 is debt.
    #[inline]
    pub(crate) fn tokens(&self, now: BucketTime, depth: i64) -> i64 {
        let tokens = now.0.wrapping_sub(self.0) as i64;
        // A bucket that was idle for half the scale seems to lie far in the future.
        if tokens < -(depth << 8) {
            return depth;
        }
        tokens.min(depth)
    }

    /// Takes the cost of `bytes` bytes, going into debt down to `floor` at most. Debt below `floor` remains as it is.
    #[inline]
    pub(crate) fn charge(
        &mut self,
        now: BucketTime,
        depth: i64,
        bytes: u32,
        price: Price,
        floor: i64,
    ) {
        self.charge_from(self.tokens(now, depth), now, bytes, price, floor);
    }

    /// Like [`charge`](Self::charge), for a caller that knows the [`tokens`](Self::tokens).
    #[inline]
    pub(crate) fn charge_from(
        &mut self,
        tokens: i64,
        now: BucketTime,
        bytes: u32,
        price: Price,
        floor: i64,
    ) {
        let left = (tokens - price.cost(bytes)).max(floor.min(tokens));
        self.0 = now.0.wrapping_sub(left as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_passes_its_rate() {
        for rate in [5e6, 1e9, 1e11] {
            let price = Price::of(rate);
            let deep = price.depth(1_000_000);
            let mut bucket = Bucket::new(BucketTime::of(0));
            let (mut passed, end) = (0u64, 100_000_000);
            for ns in (0..end).step_by(100) {
                let now = BucketTime::of(ns);
                if bucket.tokens(now, deep) >= 0 {
                    bucket.charge(now, deep, 1500, price, i64::MIN);
                    passed += 1500;
                }
            }
            let exact = rate * end as f64 / 8e9;
            let error = (passed as f64 - exact).abs();
            assert!(error <= 1500.0 + exact / 500.0, "{passed} of {exact}");
        }
    }

    #[test]
    fn tokens_are_kept_up_to_the_depth_and_debt_down_to_the_floor() {
        let price = Price::of(8e9);
        let (deep, second) = (price.depth(20_000), 1 << SHIFT);
        let mut bucket = Bucket::new(BucketTime::of(0));
        let now = BucketTime::of(1_000_000);
        assert_eq!(bucket.tokens(now, deep), 20_000 * second);
        bucket.charge(now, deep, 6000, price, -deep);
        assert_eq!(bucket.tokens(now, deep), 14_000 * second);
        bucket.charge(now, deep, 60_000, price, -deep);
        assert_eq!(bucket.tokens(now, deep), -deep);
        bucket.charge(now, deep, 5000, price, i64::MIN);
        bucket.charge(now, deep, 100, price, -deep);
        assert_eq!(bucket.tokens(now, deep), -deep - 5000 * second);
    }

    #[test]
    fn scale_wraps_without_effect() {
        let price = Price::of(8e9);
        let deep = price.depth(0);
        let before = (1u64 << 52) - 500;
        let mut bucket = Bucket::new(BucketTime::of(before));
        bucket.charge(BucketTime::of(before), deep, 700, price, i64::MIN);
        let at = |ns: u64| bucket.tokens(BucketTime::of(before + ns), deep) >> SHIFT;
        assert_eq!(at(600), -100);
        assert_eq!(at(100_000), i64::from(DEPTH_MIN_BYTES));
        assert_eq!(
            at((1 << 51) + 20),
            i64::from(DEPTH_MIN_BYTES),
            "after 26 days"
        );
    }

    #[test]
    fn a_rate_of_nothing_lets_a_packet_through_in_a_second() {
        let price = Price::of(0.0);
        let deep = price.depth(1000);
        let mut bucket = Bucket::new(BucketTime::of(0));
        bucket.charge(BucketTime::of(0), deep, 1500, price, i64::MIN);
        assert!(bucket.tokens(BucketTime::of(1_000_000_000), deep) < 0);
    }
}
