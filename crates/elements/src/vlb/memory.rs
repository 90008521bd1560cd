//! Remembers which way frames with some addresses go, so that the rules are asked once for all of them.

use super::{ETHER_LEN, Node};
use crate::prelude::*;
use cluster::address::LEN;
use cluster::transit::{self, Fault, Step};

/// Different addresses that are remembered.
const KNOWN: usize = 256;
const SHIFT: u32 = u64::BITS - KNOWN.trailing_zeros();

/// The two addresses of a frame, as they lie in it, in two words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Words(u64, u32);

impl Words {
    /// Of what begins with them.
    #[inline]
    fn of<const N: usize>(head: &[u8; N]) -> Words {
        const { assert!(N >= LEN) };
        let (first, rest) = head.split_at(8);
        let (first, second) = (first.first_chunk(), rest.first_chunk());
        Words(
            first.map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
            second.map_or(0, |bytes| u32::from_ne_bytes(*bytes)),
        )
    }

    /// Writes them where they were.
    #[inline]
    pub(super) fn write(self, frame: &mut [u8]) {
        if let Some((first, rest)) = frame.split_first_chunk_mut() {
            *first = self.0.to_ne_bytes();
            if let Some(second) = rest.first_chunk_mut() {
                *second = self.1.to_ne_bytes();
            }
        }
    }

    /// Where their way is remembered.
    #[inline]
    fn place(self) -> usize {
        let word = self.0 ^ u64::from(self.1) << 32;
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT) as usize
    }
}

/// A way that frames with some addresses have taken: 32 bytes.
#[derive(Clone, Copy)]
pub(super) struct Known {
    first: u64,
    new_first: u64,
    second: u32,
    new_second: u32,
    pub(super) verdict: Verdict,
}

impl Known {
    /// What the addresses become.
    #[inline]
    pub(super) fn becomes(&self) -> Words {
        Words(self.new_first, self.new_second)
    }
}

/// Of the addresses that no frame of ours has.
const UNKNOWN: Known = Known {
    first: 0,
    new_first: 0,
    second: 0,
    new_second: 0,
    verdict: Verdict::drop(Fault::Malformed as u8),
};

/// The ways that one copy of VLBTransit remembers.
pub(super) struct Memory {
    known: Box<[Known; KNOWN]>,
    version: u64,
}

impl Memory {
    /// Nothing is remembered.
    pub(super) fn new(node: &Node) -> Memory {
        Memory {
            known: Box::new([UNKNOWN; KNOWN]),
            version: node.version(),
        }
    }

    /// Forgets all if ways have changed. To be called for every batch.
    #[inline]
    pub(super) fn follow(&mut self, node: &Node) {
        // Before the ways are read: what is remembered is never older than it says.
        let version = node.version();
        if version != self.version {
            self.version = version;
            self.known.fill(UNKNOWN);
        }
    }

    /// Where a frame goes. Its addresses become those for the next node.
    #[inline(always)] // into the loop over a batch
    pub(super) fn pass(&mut self, frame: &mut [u8], node: &Node, cx: &Cx) -> Verdict {
        let Some(head) = frame.first_chunk_mut::<ETHER_LEN>() else {
            return self.pass_short(frame, node, cx);
        };
        let known = self.look(head, node, cx);
        known.becomes().write(head);
        known.verdict
    }

    /// What is cut is sent on, if it is not for this node.
    #[cold]
    fn pass_short(&mut self, frame: &mut [u8], node: &Node, cx: &Cx) -> Verdict {
        let known = match frame.first_chunk::<LEN>() {
            Some(addresses) => *self.look(addresses, node, cx),
            None => UNKNOWN,
        };
        if known.verdict.port() >= node.own_links() {
            return Verdict::drop(Fault::Malformed as u8);
        }
        known.becomes().write(frame);
        known.verdict
    }

    /// The way of what begins with these addresses.
    #[inline(always)]
    pub(super) fn look<const N: usize>(&mut self, head: &[u8; N], node: &Node, cx: &Cx) -> &Known {
        let words = Words::of(head);
        let known = &mut self.known[words.place()];
        if Words(known.first, known.second) != words {
            *known = decide(words, node, cx);
        }
        known
    }
}

/// What the rules say. Outputs are the own links, that of frames for this node, and that of heartbeats.
#[cold]
fn decide(words: Words, node: &Node, cx: &Cx) -> Known {
    let ways = node.ways().read(cx.reader());
    let links = ways.rates().len();
    let mut addresses = [0; LEN];
    words.write(&mut addresses);
    let (new, verdict) = match transit::pass(&addresses, ways, node.cookie) {
        Ok(Step::On { link, addresses }) => (addresses, Verdict::out(link as u8)),
        Ok(Step::Here) => (addresses, Verdict::out(links as u8)),
        Ok(Step::Heartbeat) => (addresses, Verdict::out(links as u8 + 1)),
        Err(fault) => (addresses, Verdict::drop(fault as u8)),
    };
    let new = Words::of(&new);
    Known {
        first: words.0,
        new_first: new.0,
        second: words.1,
        new_second: new.1,
        verdict,
    }
}
