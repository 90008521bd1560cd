//! The way to each station, as one worker remembers it.

use crate::prelude::*;
use wire::EtherAddr;
use wire::ether::{LEN, Words};

const PLACES: usize = 1 << u8::BITS;
/// The type of IPv4 frames, as the last bytes of [`Words`].
const IPV4: u64 = 0x0008;

/// A way that IPv4 frames for a station have taken.
#[derive(Clone, Copy)]
struct Way {
    /// The station, and the epoch in which it was noted.
    key: u64,
    /// Source address of the frames that leave.
    source: EtherAddr,
    verdict: Verdict,
}

/// Ways by station. All are forgotten when the time or the table of stations has changed.
pub(super) struct Ways {
    ways: [Way; PLACES],
    /// Ways of other epochs are forgotten. Never 0.
    epoch: u16,
    /// The tick and the table's version in this epoch.
    of: (u32, u32),
}

const NONE: Way = Way {
    key: 0,
    source: EtherAddr::ZERO,
    verdict: Verdict::ON,
};

/// Place of a way: the last byte of its station.
#[inline(always)]
fn place(first: u64) -> usize {
    usize::from((first >> 40) as u8)
}

impl Ways {
    pub(super) fn new() -> Ways {
        Ways {
            ways: [NONE; PLACES],
            epoch: 1,
            of: (0, 0),
        }
    }

    /// Forgets all ways if it is another tick, or the table has another version. To be called for every batch.
    #[inline]
    pub(super) fn follow(&mut self, tick: u32, version: u32) {
        if self.of != (tick, version) {
            self.of = (tick, version);
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            self.epoch = 1;
            self.ways = [NONE; PLACES];
        }
    }

    #[inline(always)]
    fn key(&self, first: u64) -> u64 {
        first << 16 | u64::from(self.epoch)
    }

    /// Sends a frame the way of its station, if that is known.
    #[inline(always)]
    pub(super) fn send(&self, frame: &mut [u8]) -> Option<Verdict> {
        let head = frame.first_chunk_mut::<LEN>()?;
        let Words(first, second) = Words::of(head);
        let key = self.key(first);
        let way = &self.ways[place(first)];
        if way.key != key || second >> 48 != IPV4 {
            return None;
        }
        head[6..12].copy_from_slice(&way.source.0);
        Some(way.verdict)
    }

    /// Records the verdict for frames of a station.
    pub(super) fn note(&mut self, head: &[u8; LEN], source: EtherAddr, verdict: Verdict) {
        let Words(first, _) = Words::of(head);
        self.ways[place(first)] = Way {
            key: self.key(first),
            source,
            verdict,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ether::{IPV4, IPV6, header};

    #[test]
    fn ways_hold_for_ipv4_until_time_or_table_change() {
        let station = |n| EtherAddr([2, 0, 0, 0, 9, n]);
        let (own, backend) = (EtherAddr([2, 0, 0, 0, 1, 1]), station(0xff));
        let frame = |n, kind| header(station(n), backend, kind);
        let mut ways = Ways::new();
        assert_eq!(ways.send(&mut [0; 64]), None);
        for (tick, version) in [(1, 0), (2, 0), (2, 1)] {
            ways.follow(tick, version);
            for n in 0..20 {
                assert_eq!(ways.send(&mut frame(n, IPV4)), None);
                ways.note(&frame(n, IPV4), own, Verdict::out(n));
                let mut sent = frame(n, IPV4);
                assert_eq!(ways.send(&mut sent), Some(Verdict::out(n)));
                assert_eq!(sent, header(station(n), own, IPV4));
                assert_eq!(ways.send(&mut frame(n, IPV6)), None);
            }
            ways.follow(tick, version);
            assert!(ways.send(&mut frame(19, IPV4)).is_some());
        }
        for _ in 0..=u16::MAX {
            ways.forget();
            assert_eq!(ways.send(&mut frame(19, IPV4)), None);
            assert_eq!(ways.send(&mut [0; 64]), None);
        }
    }
}
