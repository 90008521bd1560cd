//! Remembers the path of frames with the same addresses, so that the rules are evaluated only once for them.
//!
//! The key is the first 14 bytes of a frame. The new addresses are written over them: those for the next node
//! or, if the frame leaves the cluster here, the neighbour's (see [`Leave`]).

use super::leave::{Leave, Ready};
use super::{ETHER_LEN, Node};
use crate::prelude::*;
use cluster::address::LEN;
use cluster::transit::{self, Fault, Step};
use wire::ether::Words;
use wire::ipv4;

/// Number of cached forwarding decisions.
const KNOWN: usize = 1024;
const SHIFT: u32 = u64::BITS - KNOWN.trailing_zeros();
/// Length of a frame up to its IPv4 destination, in bytes; shorter frames take the slow path.
const WHOLE: usize = ETHER_LEN + ipv4::MIN_LEN;

/// Index of the entry for a header.
#[inline]
fn place(words: Words) -> usize {
    let mixed = words.0.wrapping_mul(0x2c1b_3c6d) ^ words.1;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT) as usize
}

/// Ethernet addresses to write into a frame, in network byte order, and the frame's verdict. The size is 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    first: u64,
    second: u32,
    pub(super) verdict: Verdict,
}

impl Next {
    pub(super) fn new(addresses: &[u8; LEN], verdict: Verdict) -> Next {
        let (first, second) = (addresses.first_chunk(), addresses.last_chunk());
        Next {
            first: first.map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
            second: second.map_or(0, |bytes| u32::from_ne_bytes(*bytes)),
            verdict,
        }
    }

    /// Writes the Ethernet addresses into a frame. Returns the verdict.
    #[inline(always)]
    pub(super) fn write(&self, frame: &mut [u8]) -> Verdict {
        if let Some((first, rest)) = frame.split_first_chunk_mut() {
            *first = self.first.to_ne_bytes();
            if let Some(second) = rest.first_chunk_mut() {
                *second = self.second.to_ne_bytes();
            }
        }
        self.verdict
    }
}

/// Cached forwarding decision for frames with the same Ethernet header. The size is 32 bytes.
#[derive(Clone, Copy)]
pub(super) struct Known {
    first: u64,
    /// Second word of [`Words`], XORed with a mark in the bytes that both words share.
    second: u64,
    pub(super) next: Next,
}

/// Marks: the frame's IPv4 or IPv6 destination decides, and `next` begins with the port key.
const BY_DST4: u64 = 1;
const BY_DST6: u64 = 2;

impl Known {
    /// Mark of the entry: 0 if the frame's Ethernet header matches, or `BY_DST4` or `BY_DST6` if the destination
    /// decides. `None` or any other value: the entry belongs to other frames.
    #[inline(always)]
    fn mark(&self, words: Words) -> Option<u64> {
        // Both words contain bytes 6 and 7. If the first words are equal, these bytes differ only by the mark.
        (self.first == words.0).then_some(self.second ^ words.1)
    }

    /// Marks the entry: the destination of frames that leave by a port decides.
    fn by_dst(&mut self, mark: u64, port: u64) {
        self.second ^= mark;
        self.next.first = port;
    }
}

/// Empty entry. Its addresses match no frame of a cluster.
const UNKNOWN: Known = Known {
    first: 0,
    second: 0,
    next: Next {
        first: 0,
        second: 0,
        verdict: Verdict::drop(Fault::Malformed as u8),
    },
};

/// Forwarding decisions cached by one clone of VLBTransit.
pub(super) struct Memory {
    // The tables are inline, so that an access needs no extra pointer.
    known: [Known; KNOWN],
    leave: Leave,
    version: u64,
    /// Entries that become valid with the next batch.
    soon: Vec<Known>,
}

impl Memory {
    /// An empty cache.
    pub(super) fn new(node: &Node, leave: Leave) -> Box<Memory> {
        Box::new(Memory {
            known: [UNKNOWN; KNOWN],
            leave,
            version: node.version(),
            soon: Vec::new(),
        })
    }

    /// Clears the cache if paths or neighbours have changed. Call it for every batch.
    #[inline]
    pub(super) fn follow(&mut self, node: &Node) {
        // The version is read before the paths: the cached paths are at least as new as their version.
        let version = node.version();
        let changed = self.leave.follow();
        if version != self.version || changed {
            self.version = version;
            self.known.fill(UNKNOWN);
            self.soon.clear();
        } else if !self.soon.is_empty() {
            self.begin();
        }
    }

    #[cold]
    fn begin(&mut self) {
        for known in self.soon.drain(..) {
            self.known[place(Words(known.first, known.second))] = known;
        }
    }

    /// Verdict for a frame in the cache; its Ethernet addresses are rewritten. `None` if the cache has no decision.
    #[inline(always)] // into the loop over a batch
    pub(super) fn fast(&self, frame: &mut [u8]) -> Option<Verdict> {
        let head = frame.first_chunk_mut::<WHOLE>()?;
        let words = Words::of(head);
        let known = &self.known[place(words)];
        let mark = known.mark(words)?;
        if mark == 0 {
            return Some(known.next.write(head));
        }
        if mark != BY_DST4 {
            return None;
        }
        let dst = head.last_chunk().copied().unwrap_or_default();
        let next = self.leave.host4(known.next.first, dst)?;
        Some(next.write(head))
    }

    /// Decides on a frame that [`fast`](Self::fast) did not find, and caches the decision.
    #[cold]
    pub(super) fn pass(&mut self, frame: &mut [u8], node: &Node, cx: &Cx) -> Verdict {
        let Some(head) = frame.first_chunk::<WHOLE>() else {
            return pass_short(frame, node, cx);
        };
        let words = Words::of(head);
        let here = Verdict::out(node.own_links() as u8);
        let known = &mut self.known[place(words)];
        let mut mark = known.mark(words);
        if !matches!(mark, Some(BY_DST4 | BY_DST6)) {
            *known = decide(words, node, cx);
            if known.next.verdict == here {
                match self.leave.ready(&words.bytes()) {
                    Ready::Not => {}
                    Ready::Soon(next) => self.soon.push(Known { next, ..*known }),
                    Ready::ByDst4(port) => known.by_dst(BY_DST4, port),
                    Ready::ByDst6(port) => known.by_dst(BY_DST6, port),
                }
            }
            mark = known.mark(words);
        }
        let next = match mark {
            Some(BY_DST4) => self.leave.find4(known.next.first, frame),
            Some(BY_DST6) => self.leave.find6(known.next.first, frame),
            _ => Some(known.next),
        };
        next.map_or(here, |next| next.write(frame))
    }

    /// Entry for frames with these addresses, without the decision for frames that leave the cluster here.
    #[inline]
    pub(super) fn look(&mut self, head: &[u8; ETHER_LEN], node: &Node, cx: &Cx) -> &Known {
        let words = Words::of(head);
        let known = &mut self.known[place(words)];
        if (known.first, known.second) != (words.0, words.1) {
            *known = decide(words, node, cx);
        }
        known
    }
}

/// Forwards a truncated frame, and drops it if it is for this node.
#[cold]
fn pass_short(frame: &mut [u8], node: &Node, cx: &Cx) -> Verdict {
    let Some(addresses) = frame.first_chunk::<LEN>() else {
        return UNKNOWN.next.verdict;
    };
    let mut head = [0; ETHER_LEN];
    head[..LEN].copy_from_slice(addresses);
    let known = decide(Words::of(&head), node, cx);
    if frame.len() < ETHER_LEN && known.next.verdict.port() >= node.own_links() {
        return UNKNOWN.next.verdict;
    }
    known.next.write(frame)
}

/// Forwarding decision without the cache. Outputs: the node's links, then frames for this node, then heartbeats.
#[cold]
fn decide(words: Words, node: &Node, cx: &Cx) -> Known {
    let ways = node.ways().read(cx.reader());
    let links = ways.rates().len();
    let head = words.bytes();
    let addresses = head.first_chunk().copied().unwrap_or_default();
    let (new, verdict) = match transit::pass(&addresses, ways, node.cookie) {
        Ok(Step::On { link, addresses }) => (addresses, Verdict::out(link as u8)),
        Ok(Step::Here) => (addresses, Verdict::out(links as u8)),
        Ok(Step::Heartbeat) => (addresses, Verdict::out(links as u8 + 1)),
        Err(fault) => (addresses, Verdict::drop(fault as u8)),
    };
    Known {
        first: words.0,
        second: words.1,
        next: Next::new(&new, verdict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_entry_applies_to_identical_headers_only() {
        let bytes = *b"\x1e\0\x2c\x02\0\0\x42\0\x0e\0\xff\xf4\x08\0";
        let words = Words::of(&bytes);
        for mark in [0, BY_DST4, BY_DST6] {
            let mut known = Known {
                first: words.0,
                second: words.1,
                ..UNKNOWN
            };
            known.by_dst(mark, 1 << 32);
            assert_eq!(known.mark(words), Some(mark));
            for bit in 0..bytes.len() * 8 {
                let mut other = bytes;
                other[bit / 8] ^= 1 << (bit % 8);
                let seen = known.mark(Words::of(&other));
                assert!(
                    !matches!(seen, Some(0 | BY_DST4 | BY_DST6)),
                    "{bit}: {seen:?}"
                );
            }
        }
        assert_eq!(
            UNKNOWN.mark(Words::of(b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0")),
            None
        );
    }
}
