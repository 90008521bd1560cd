//! One worker's cache of the front port of each station.

use crate::prelude::*;
use wire::EtherAddr;
use wire::ether::{LEN, Words};

const PLACES: usize = 1 << u8::BITS;
/// EtherType of IPv4 as it appears in the last bytes of [`Words`].
const IPV4: u64 = 0x0008;

/// Cached forwarding decision for IPv4 frames to one host.
#[derive(Clone, Copy)]
struct Way {
    /// Address of the host, and the epoch of the entry.
    key: u64,
    /// Source address written into the frames.
    source: EtherAddr,
    verdict: Verdict,
}

/// Cache of forwarding decisions by destination. The cache is cleared at each tick, and when the table of hosts
/// changes.
pub(super) struct Ways {
    ways: [Way; PLACES],
    /// Current epoch, never 0; entries of other epochs are invalid.
    epoch: u16,
    /// Tick and table version of this epoch.
    of: (u32, u32),
}

const NONE: Way = Way {
    key: 0,
    source: EtherAddr::ZERO,
    verdict: Verdict::ON,
};

/// Cache index: the last byte of the destination.
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

    /// Clears the cache if the tick or the table's version has changed. Call it for every batch.
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

    /// Forwards a frame by the cache. `None` if its destination is not cached.
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

    /// Adds the decision for frames to one host.
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
