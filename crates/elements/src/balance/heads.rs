//! Ethernet headers that have passed lately, by which further frames of the same stations are known at once.

use super::stations::tick;
use wire::EtherAddr;
use wire::ether::Words;

const PLACES: usize = 1 << u8::BITS;
/// Bits of the destination in the first number of [`Words`].
const TO: u64 = (1 << 48) - 1;

/// Frame headers of one type to one destination, by source. They are cleared in every tick, so each station is noted
/// once in a tick.
pub(super) struct Heads {
    /// Bits of the destination that count, and their value.
    mask: u64,
    to: u64,
    /// Bytes 6 to 13 of headers.
    passed: [u64; PLACES],
    tick: u32,
}

/// Place of a header's bytes 6 to 13: the last byte of its source.
#[inline(always)]
fn place(second: u64) -> usize {
    usize::from((second >> 40) as u8)
}

/// Numbers whose place is another one, so that no header is known.
fn nothing() -> [u64; PLACES] {
    std::array::from_fn(|at| (at as u64 ^ 1) << 40)
}

impl Heads {
    /// For frames to an address, or to any.
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

    /// Forgets all headers if a tick has passed. To be called for every batch.
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

    /// True if a frame's header has passed in this tick.
    #[inline(always)]
    pub(super) fn has<const N: usize>(&self, frame: &[u8; N]) -> bool {
        let Words(first, second) = Words::of(frame);
        first & self.mask == self.to && self.passed[place(second)] == second
    }

    /// Records the header of a frame that has passed.
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
