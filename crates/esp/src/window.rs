//! The anti-replay window (RFC 4303, 3.4.3), used by several workers at once without a lock.
//!
//! Bits for sequence numbers are in a ring of words. Half of a word is a tag that names its range of numbers; the
//! other half has their bits. To mark a number, a worker replaces its word by compare-and-swap. If the tag is older
//! than the number, the new word has the new tag and only this bit, so the window never needs clearing. A word never
//! becomes older: a number whose word is for later ones is outside the window, and one whose bit is set was seen. So
//! exactly one of the workers that mark a number succeeds.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The largest window.
pub const MAX: u32 = 4096;
/// Bits in a word.
const BITS: u64 = 32;
/// Mask of all bits.
const ONES: u64 = (1 << BITS) - 1;

/// The sequence numbers seen, within a window below the greatest.
#[derive(Debug)]
pub struct Window {
    /// Greatest sequence number received.
    top: AtomicU64,
    /// A power of two of words, with one word more than the window covers. Empty if replays are not checked.
    ring: Box<[AtomicU64]>,
    size: u64,
}

impl Window {
    /// A window over `size` numbers, at most [`MAX`]; with 0, replays are not detected.
    pub fn new(size: u32) -> Window {
        let size = u64::from(size.min(MAX));
        let words = match size {
            0 => 0,
            _ => (size.div_ceil(BITS) + 1).next_power_of_two(),
        };
        Window {
            top: AtomicU64::new(0),
            ring: (0..words).map(|_| AtomicU64::new(0)).collect(),
            size,
        }
    }

    /// Marks all numbers up to this one as seen. Call it before packets arrive.
    pub fn begin_after(&self, number: u64) {
        self.top.fetch_max(number, Relaxed);
        (number.saturating_sub(self.size)..=number).for_each(|number| {
            self.take(number);
        });
    }

    /// Copies the state of another window. Call it before packets arrive here. Packets that still arrive at the other
    /// window are not known here.
    pub fn go_on(&self, old: &Window) {
        if self.size != old.size {
            return self.begin_after(old.top());
        }
        self.top.store(old.top(), Relaxed);
        for (word, old) in self.ring.iter().zip(&old.ring) {
            word.store(old.load(Relaxed), Relaxed);
        }
    }

    /// Greatest sequence number received.
    pub fn top(&self) -> u64 {
        self.top.load(Relaxed)
    }

    /// Number of sequence numbers that the window covers.
    pub fn size(&self) -> u32 {
        self.size as u32
    }

    /// Extends the lower half in a packet to the whole sequence number (RFC 4303, A2.2); `None` if it would precede
    /// the first one.
    #[inline]
    pub fn extend(&self, low: u32) -> Option<u64> {
        let top = self.top();
        let high = top >> 32;
        let bottom = (top as u32).wrapping_sub((self.size as u32).saturating_sub(1));
        // The window lies within one half of the number space, or reaches back into the previous one.
        let high = if u64::from(top as u32) >= self.size.saturating_sub(1) {
            high + u64::from(low < bottom)
        } else if low >= bottom {
            high.checked_sub(1)?
        } else {
            high
        };
        Some(high << 32 | u64::from(low))
    }

    /// The ring's word for a number, with its tag and its bit.
    #[inline]
    fn locate(&self, number: u64) -> (&AtomicU64, u32, u64) {
        let block = number / BITS;
        let words = self.ring.len() as u64;
        let tag = (block / words) as u32;
        (
            &self.ring[(block & (words - 1)) as usize],
            tag,
            1 << (number % BITS),
        )
    }

    /// True if a number can still be marked; checked before a packet is decrypted.
    #[inline]
    pub fn might_take(&self, number: u64) -> bool {
        if self.ring.is_empty() {
            return true;
        }
        if number == 0 || number <= self.top().saturating_sub(self.size) {
            return false;
        }
        let (word, tag, bit) = self.locate(number);
        let now = word.load(Relaxed);
        match age(now, tag) {
            0 => now & bit == 0,
            age => age > 0,
        }
    }

    /// Marks the number of an authentic packet; false if it was marked before or is older than the window.
    #[inline]
    pub fn take(&self, number: u64) -> bool {
        let mut one = [true];
        self.take_all(&mut one, |_| Some(number), |is_new| *is_new = false);
        one[0]
    }

    /// Marks the numbers of authentic packets, in order, and reports those that [`take`](Self::take) would refuse;
    /// one may be reported twice. Packets without a number are skipped. Consecutive numbers are marked at once.
    #[inline]
    pub fn take_all<T>(
        &self,
        packets: &mut [T],
        number: impl Fn(&T) -> Option<u64>,
        mut refuse: impl FnMut(&mut T),
    ) {
        if self.ring.is_empty() {
            let greatest = packets.iter().filter_map(number).max();
            self.top.fetch_max(greatest.unwrap_or(0), Relaxed);
            return;
        }
        let block = |packet: &T| number(packet).map(|number| number / BITS);
        for run in packets.chunk_by_mut(|a, b| block(a) == block(b)) {
            let Some(greatest) = run.iter().filter_map(&number).max() else {
                continue;
            };
            let mut top = self.top.fetch_max(greatest, AcqRel);
            let mut bits = 0;
            for packet in &mut *run {
                let number = number(packet).unwrap_or(0);
                top = top.max(number);
                let bit = 1 << (number % BITS);
                let is_inside = number > top.saturating_sub(self.size);
                if is_inside && number > 0 && bits & bit == 0 {
                    bits |= bit;
                } else {
                    refuse(packet);
                }
            }
            if bits == 0 {
                continue;
            }
            let seen = bits & self.mark(greatest, bits);
            if seen != 0 {
                let was_seen =
                    |packet: &T| number(packet).is_some_and(|n| seen & 1 << (n % BITS) != 0);
                run.iter_mut().filter(|p| was_seen(p)).for_each(&mut refuse);
            }
        }
    }

    /// Sets bits in the word of a number, and returns the bits that were set before: all bits, if the word is for
    /// later numbers.
    #[inline]
    fn mark(&self, number: u64, bits: u64) -> u64 {
        let (word, tag, _) = self.locate(number);
        let mut now = word.load(Acquire);
        loop {
            let (seen, new) = match age(now, tag) {
                0 => (now & ONES, now | bits),
                age if age > 0 => (0, u64::from(tag) << 32 | bits),
                _ => return ONES,
            };
            match word.compare_exchange_weak(now, new, AcqRel, Acquire) {
                Ok(_) => return seen,
                Err(other) => now = other,
            }
        }
    }
}

/// Number of rounds of the ring by which a word is older than a tag; a word without bits was never used and counts as
/// oldest. Tags wrap only if a sender skips more numbers at once than it can use in a day.
#[inline]
fn age(word: u64, tag: u32) -> i32 {
    match word as u32 {
        0 => 1,
        _ => tag.wrapping_sub((word >> 32) as u32) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use testkit::Rng;

    #[test]
    fn a_window_goes_on_after_a_number_or_as_another_one() {
        for size in [1, 32, 64, 1000, MAX] {
            let old = Window::new(size);
            for number in [5_000, 5_003, 5_002] {
                old.take(number);
            }
            let (after, same, other) =
                (Window::new(size), Window::new(size), Window::new(size / 2));
            after.begin_after(5_003);
            same.go_on(&old);
            other.go_on(&old);
            assert!((1..=5_003).all(|n| !after.might_take(n) && !after.take(n)));
            assert!([5_000, 5_002, 5_003].into_iter().all(|n| !same.take(n)));
            assert_eq!((after.top(), same.top()), (5_003, 5_003));
            assert_eq!(same.take(5_001), size > 2);
            for window in [&after, &same, &other] {
                assert!(window.take(5_004) && (!window.take(5_004) || window.size() == 0));
            }
        }
    }

    /// Reference model: all numbers that were ever taken.
    #[derive(Default)]
    struct Model {
        seen: BTreeSet<u64>,
        top: u64,
    }

    impl Model {
        fn take(&mut self, number: u64, size: u64) -> bool {
            let inside = number > 0 && number + size > self.top;
            self.top = self.top.max(number);
            inside && self.seen.insert(number)
        }
    }

    #[test]
    fn window_agrees_with_a_list_of_all_numbers() {
        for size in [1, 2, 31, 32, 33, 64, 100, 1024, 4095, 4096] {
            let mut rng = Rng::seed(u64::from(size));
            let (window, mut model) = (Window::new(size), Model::default());
            let mut middle = if rng.one_in(2) {
                0
            } else {
                u64::from(u32::MAX)
            };
            for _ in 0..20_000 {
                middle += match rng.below(20) {
                    0 => rng.below(3 * size as usize + 2) as u64,
                    1 if rng.one_in(50) => 1 << 20,
                    _ => rng.below(3) as u64,
                };
                let number = middle.saturating_sub(rng.below(2 * size as usize + 40) as u64);
                let number = if rng.one_in(4) { middle } else { number };
                let might = window.might_take(number);
                let expected = model.take(number, u64::from(size));
                assert_eq!(window.take(number), expected, "{number} of {size}");
                assert_eq!(might, expected, "{number} of {size}");
                assert!(!window.might_take(number) && !window.take(number));
            }
        }
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        for size in [0, 1, 2, 31, 32, 33, 64, 1024, 4096] {
            let mut rng = Rng::seed(u64::from(size) + 7);
            let (many, single) = (Window::new(size), Window::new(size));
            let mut middle = rng.below(100) as u64;
            for _ in 0..2_000 {
                let batch: Vec<_> = (0..rng.below(70))
                    .map(|_| {
                        middle += *rng.pick(&[0, 1, 1, 1, 1, 2, 40]);
                        let back = if rng.one_in(5) {
                            rng.below(90) as u64
                        } else {
                            0
                        };
                        (!rng.one_in(9)).then(|| middle.saturating_sub(back))
                    })
                    .collect();
                let mut packets: Vec<_> = batch.iter().map(|number| (*number, true)).collect();
                many.take_all(&mut packets, |packet| packet.0, |packet| packet.1 = false);
                for (number, is_new) in packets {
                    assert_eq!(
                        number.is_none_or(|number| single.take(number)),
                        is_new,
                        "{size}"
                    );
                }
                assert_eq!(many.top(), single.top());
            }
        }
    }

    #[test]
    fn the_first_number_may_be_any() {
        for first in [1, 1 << 37, 1 << 38, (1 << 38) + (1 << 37), u64::MAX >> 1] {
            let window = Window::new(64);
            assert!(window.might_take(first) && window.take(first) && !window.take(first));
            assert!(window.take(first + 1) && !window.might_take(first));
        }
    }

    #[test]
    fn without_a_size_all_are_taken() {
        let window = Window::new(0);
        assert!(window.take(5) && window.take(5) && window.might_take(0) && window.take(0));
    }

    #[test]
    fn halves_of_numbers_become_whole() {
        let mut rng = Rng::seed(9);
        for size in [1, 64, 4096] {
            for start in [1, u64::from(u32::MAX) - 3000, (7 << 32) - 9000] {
                let window = Window::new(size);
                let mut top = start;
                window.take(top);
                for _ in 0..10_000 {
                    top += rng.below(3) as u64;
                    window.take(top);
                    let back = rng.below(size as usize) as u64;
                    let number = (top + rng.below(1000) as u64).saturating_sub(back).max(1);
                    if number + u64::from(size) > top {
                        assert_eq!(window.extend(number as u32), Some(number), "{top} {size}");
                    }
                }
            }
        }
        // No number precedes the first one.
        let window = Window::new(64);
        window.take(1);
        assert_eq!(window.extend(u32::MAX), None);
    }

    #[test]
    fn one_of_several_workers_takes_a_number() {
        let window = Window::new(4096);
        let takes: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (1..=20_000).filter(|&n| window.take(n)).count() as u64))
                .collect();
            let counts = workers.into_iter().map(|w| w.join().expect("it ends"));
            counts.sum()
        });
        // A worker that is more than a window behind finds its numbers too old; the first worker marks all of them.
        assert_eq!(takes, 20_000);
    }
}
