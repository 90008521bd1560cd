//! Latency histogram: bucket widths are at most a 32nd of the value, from one nanosecond up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of buckets per power of two, and its binary logarithm.
const BUCKETS_PER_OCTAVE: usize = 32;
const OCTAVE_BITS: u32 = 5;
const BUCKETS: usize = (64 - OCTAVE_BITS as usize + 1) * BUCKETS_PER_OCTAVE;

/// Counts by latency. One thread writes, any may read.
pub struct Histogram(Box<[AtomicU64]>);

/// Counts at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<u64>);

fn bucket(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    octave as usize * BUCKETS_PER_OCTAVE + (value >> octave) as usize
}

/// Greatest value that a bucket counts.
fn top(bucket: usize) -> u64 {
    let octave = (bucket / BUCKETS_PER_OCTAVE).saturating_sub(1);
    let low = (bucket - octave * BUCKETS_PER_OCTAVE) as u64;
    (low << octave) + ((1 << octave) - 1)
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Histogram {
    /// Counts a latency in nanoseconds. Only one thread may call it.
    #[inline]
    pub fn count(&self, value: u64) {
        let bucket = &self.0[bucket(value)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
    }

    /// The counts now.
    pub fn counts(&self) -> Counts {
        Counts(self.0.iter().map(|n| n.load(Relaxed)).collect())
    }
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, others: &Counts) {
        self.0.resize(self.0.len().max(others.0.len()), 0);
        self.0.iter_mut().zip(&others.0).for_each(|(a, b)| *a += b);
    }

    /// Counts since an earlier time.
    pub fn since(&self, before: &Counts) -> Counts {
        let before = before.0.iter().chain(std::iter::repeat(&0));
        let each = self.0.iter().zip(before);
        Counts(each.map(|(now, then)| now.saturating_sub(*then)).collect())
    }

    /// Sum of all counts.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Quantile: the latency that `share` of all packets (0 to 1) do not exceed; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total = self.total();
        let wanted = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut so_far = 0;
        let found = self.0.iter().position(|n| {
            so_far += n;
            so_far >= wanted
        });
        found.map(top)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_no_wider_than_a_32nd_of_its_values() {
        let mut last = 0;
        for shift in 2..64 {
            for value in [
                1u64 << shift,
                (1 << shift) + 1,
                ((1 << shift) - 1) | (1 << shift),
            ] {
                let at = bucket(value);
                assert!(at < BUCKETS && at >= bucket(last));
                assert!(top(at) >= value && top(at) - value <= value / 32, "{value}");
                last = value;
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let histogram = Histogram::default();
        let early = histogram.counts();
        assert_eq!(early.quantile(0.5), None);
        for value in 1..=10_000 {
            histogram.count(value);
        }
        let counts = histogram.counts().since(&early);
        assert_eq!(counts.total(), 10_000);
        for (share, right) in [(0.5, 5000), (0.99, 9900), (0.999, 9990), (1.0, 10_000)] {
            let got = counts.quantile(share).unwrap();
            assert!(got >= right && got - right <= right / 32, "{share} {got}");
        }
        let mut twice = counts.clone();
        twice.add(&counts);
        assert_eq!(twice.total(), 20_000);
        assert_eq!(twice.quantile(0.5), counts.quantile(0.5));
    }
}
