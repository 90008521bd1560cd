//! Cache of recent Ethernet headers, by which further frames of the same stations are recognised at once.

use super::stations::tick;
use wire::EtherAddr;
use wire::ether::Words;

const PLACES: usize = 1 << u8::BITS;
/// Mask of the destination address in the first word of [`Words`].
const TO: u64 = (1 << 48) - 1;

/// Cache of frame headers already handled in the current tick. The cache is cleared at each tick, so each sender is
/// recorded once per tick.
pub(super) struct Heads {
    /// Mask and value that select frames by destination.
    mask: u64,
    to: u64,
    /// Bytes 6 to 13 of headers: source address and EtherType.
    passed: [u64; PLACES],
    tick: u32,
}

/// Cache index of a header's bytes 6 to 13: the last byte of the source address.
#[inline(always)]
fn place(second: u64) -> usize {
    usize::from((second >> 40) as u8)
}

/// Empty cache: each entry has a value that belongs to another index.
fn nothing() -> [u64; PLACES] {
    std::array::from_fn(|at| (at as u64 ^ 1) << 40)
}

impl Heads {
    /// Cache for frames to the address `to`, or to any address.
    pub(super) fn new(to: Option<EtherAddr>) -> Heads {
        let first = to.map_or(0, |to| {
            let [a, b, c, d, e, f] = to.0;
            u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
        });
        Heads {
            mask: if to.is_some() { TO } else { 0 },
            to: first,
            passed: nothing(),
            tick: 0,
        }
    }

    /// Clears the cache if a tick has passed. Call it for every batch.
    #[inline]
    pub(super) fn follow(&mut self, now: u64) {
        let now = tick(now);
        if now != self.tick {
            self.tick = now;
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.passed = nothing();
    }

    /// True if the frame's header is in the cache.
    #[inline(always)]
    pub(super) fn has<const N: usize>(&self, frame: &[u8; N]) -> bool {
        let Words(first, second) = Words::of(frame);
        first & self.mask == self.to && self.passed[place(second)] == second
    }

    /// Adds the header of a frame to the cache.
    pub(super) fn note<const N: usize>(&mut self, frame: &[u8; N]) {
        let Words(_, second) = Words::of(frame);
        self.passed[place(second)] = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn only_headers_that_were_noted_in_this_tick_are_known() {
        let to = EtherAddr([2, 0, 0, 0, 1, 1]);
        let mut rng = Rng::seed(5);
        let mut heads = Heads::new(Some(to));
        for now in 0..50 {
            heads.follow(now << 30);
            let mut noted = [0; 14];
            for _ in 0..100 {
                let mut head: [u8; 14] = std::array::from_fn(|_| rng.u8() & 1);
                assert!(!heads.has(&head) || head == noted);
                head[..6].copy_from_slice(&to.0);
                noted = head;
                heads.note(&noted);
                assert!(heads.has(&noted));
                head[rng.below(14)] ^= 2;
                assert!(!heads.has(&head));
            }
            heads.forget();
        }
        assert!(!Heads::new(None).has(&[0; 14]));
    }
}
