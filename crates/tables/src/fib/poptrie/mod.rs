//! Poptrie: a trie of 64-way nodes whose equal neighbours are stored once, found by counting bits.
//! Made compact for caches; the default for IPv4 and IPv6.
//!
//! Source: H. Asai and Y. Ohara, *Poptrie: A Compressed Trie with Population Count for Fast and Scalable
//! Software IP Routing Table Lookup*, SIGCOMM 2015 (direct pointing, k = 6, compressed leaves).
//!
//! # Shape
//!
//! The first [`TOP_BITS`] bits of an address index `top`. A word there is a route's id, or names a node
//! for the next 6 bits: a bitmap with a bit for each of the 64 slots that differs from the next, and
//! behind it what the slots hold, once for each run of equal ones: 16-bit ids in a *narrow* node, where
//! nothing goes on below; else, in a *wide* one, 32-bit words like those of `top`. With 18 bits on top,
//! the 64 networks of 24 bits below a word are one node, and IPv4 addresses take three loads: word, bitmap,
//! id, the last two mostly from one cache line.
//!
//! Other than the paper's, a node lies in one piece and is never changed: a change writes new nodes
//! from the changed prefix up, then one word of `top`. So each address goes from its old route to its
//! new one at one moment, readers need no lock and never repeat, and the cost of concurrent
//! readers is a few nodes that wait for the next quiescent point, not a second table.
//!
//! # Memory
//!
//! 4 x 2^18 bytes + per node 8 + 2 x runs (narrow) or 4 x runs (wide), rounded up to 16 bytes. Address
//! space for 128 MiB of nodes is set aside; pages of it that were never used cost nothing.

mod arena;
mod writer;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use bytemuck::allocation::try_zeroed_box;

use self::arena::{WORDS_MAX, Words};
use super::default::DefaultRoute;
use super::prefix::{Address, bits};
use super::{NoMemory, Structure, sys};

pub use writer::PoptrieWriter;

/// Bits of an address that index `top`.
const TOP_BITS: u32 = 18;
/// Bits of an address that index a node.
const NODE_BITS: u32 = 6;
/// Slots of a node.
const SLOTS: usize = 1 << NODE_BITS;
const TOP: usize = 1 << TOP_BITS;
/// Addresses that are looked up between two looks at the default route.
const BURST: usize = 64;

/// What a word says: a route's id (0: none but the default), or a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot(u32);

impl Slot {
    const NODE: u32 = 1 << 31;
    const WIDE: u32 = 1 << 30;
    const NONE: Slot = Slot(0);

    #[inline(always)]
    fn is_node(self) -> bool {
        self.0 & Self::NODE != 0
    }

    #[inline(always)]
    fn is_wide(self) -> bool {
        self.0 >= Self::NODE | Self::WIDE // both, which are the uppermost bits: one comparison
    }

    /// Of a node: where its bitmap is.
    #[inline(always)]
    fn word(self) -> usize {
        (self.0 & !(Self::NODE | Self::WIDE)) as usize
    }

    /// Of a route: its id.
    #[inline(always)]
    fn id(self) -> u16 {
        self.0 as u16
    }
}

/// Routes for addresses of `N` bytes, as workers see them. Any number of threads may look up while the
/// [`super::Rib`] changes it.
pub struct Poptrie<const N: usize> {
    top: Box<[AtomicU32; TOP]>,
    /// Nodes. The first two words are a node without routes, where lookups that need none read.
    words: Box<Words>,
    default: DefaultRoute,
    /// Words in which there are or were nodes.
    used: AtomicUsize,
}

impl<const N: usize> Poptrie<N> {
    fn new() -> Result<Self, NoMemory> {
        const { assert!(N * 8 > TOP_BITS as usize && N <= 16) };
        let refused = |()| NoMemory {
            bytes: size_of::<[AtomicU32; TOP]>() + size_of::<Words>(),
        };
        Ok(Poptrie {
            top: try_zeroed_box().map_err(refused)?,
            words: try_zeroed_box().map_err(refused)?,
            default: DefaultRoute::default(),
            used: AtomicUsize::new(0),
        })
    }

    #[inline(always)]
    fn nodes(&self) -> Nodes<'_, N> {
        Nodes {
            top: &self.top,
            words: &self.words,
        }
    }

    /// As [`Structure::lookup_bulk`], for at most [`BURST`] addresses.
    #[inline(always)]
    fn burst<A: Address<N>>(&self, addresses: &[A], ids: &mut [u16]) {
        let mut slots = [Slot::NONE; BURST];
        let nodes = self.nodes();
        self.default.or_all(
            ids,
            // Else it is a function by itself, without the instructions that this one is compiled for.
            #[inline(always)]
            |ids| {
                // The first loads of all before the next of any: none waits for another.
                for (slot, address) in slots.iter_mut().zip(addresses) {
                    *slot = nodes.top(&address.octets());
                    sys::prefetch(&nodes.words[slot.word() % WORDS_MAX]);
                }
                if N > 4 {
                    nodes.descend_together(addresses, &mut slots);
                }
                for ((slot, address), id) in slots.iter().zip(addresses).zip(ids.iter_mut()) {
                    *id = match N {
                        4 => nodes.leaf(&address.octets(), *slot),
                        _ => slot.id(),
                    };
                }
                ids.iter().fold(false, |any, id| any | (*id == 0))
            },
        );
    }
}

/// Where a lookup reads. By value in registers: behind [`Poptrie`], which holds atomics, these would be read again after
/// every word.
#[derive(Clone, Copy)]
struct Nodes<'a, const N: usize> {
    top: &'a [AtomicU32; TOP],
    words: &'a Words,
}

impl<const N: usize> Nodes<'_, N> {
    #[inline(always)]
    fn word(self, at: usize) -> u64 {
        self.words[at % WORDS_MAX].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn top(self, address: &[u8; N]) -> Slot {
        Slot(self.top[bits(address, 0, TOP_BITS) % TOP].load(Ordering::Acquire))
    }

    /// The run of slot `index` in the node at `word`: how many slots before it differ from their next.
    #[inline(always)]
    fn run(self, word: usize, index: usize) -> usize {
        let before = (1u64 << (index as u32 % 64)) - 1;
        (self.word(word) & before).count_ones() as usize
    }

    #[inline(always)]
    fn narrow(self, word: usize, run: usize) -> u16 {
        (self.word(word + 1 + run / 4) >> (run % 4 * 16)) as u16
    }

    #[inline(always)]
    fn wide(self, word: usize, run: usize) -> Slot {
        Slot((self.word(word + 1 + run / 2) >> (run % 2 * 32)) as u32)
    }

    /// The id of the longest prefix other than the default route's, or 0, from `slot` of `top` on.
    #[inline(always)]
    fn descend(self, address: &[u8; N], mut slot: Slot) -> u16 {
        let mut at = TOP_BITS;
        while slot.is_node() && at < N as u32 * 8 {
            let (word, index) = (slot.word(), bits(address, at, NODE_BITS));
            let run = self.run(word, index);
            if !slot.is_wide() {
                return self.narrow(word, run);
            }
            slot = self.wide(word, run);
            at += NODE_BITS;
        }
        slot.id()
    }

    /// As [`Nodes::descend`] for all of `slots`: one level for all before the next for any.
    #[inline(always)]
    fn descend_together<A: Address<N>>(self, addresses: &[A], slots: &mut [Slot; BURST]) {
        // A bit for each address that has not reached its id.
        let mut open = 0u64;
        for (i, slot) in slots.iter().take(addresses.len()).enumerate() {
            open |= u64::from(slot.is_node()) << i;
        }
        let mut at = TOP_BITS;
        while open != 0 && at < N as u32 * 8 {
            let mut rest = open;
            while let Some(address) = addresses.get(rest.trailing_zeros() as usize) {
                let slot = &mut slots[rest.trailing_zeros() as usize % BURST];
                let (word, index) = (slot.word(), bits(&address.octets(), at, NODE_BITS));
                let run = self.run(word, index);
                *slot = match slot.is_wide() {
                    true => self.wide(word, run),
                    false => Slot(u32::from(self.narrow(word, run))),
                };
                sys::prefetch(&self.words[slot.word() % WORDS_MAX]);
                if !slot.is_node() {
                    open &= !(rest & rest.wrapping_neg());
                }
                rest &= rest - 1;
            }
            at += NODE_BITS;
        }
    }

    /// As [`Nodes::descend`], without a branch where there is one node or none.
    #[inline(always)]
    fn leaf(self, address: &[u8; N], slot: Slot) -> u16 {
        if slot.is_wide() {
            return self.descend(address, slot);
        }
        // All ones for a node; else the node without routes is read.
        let node = ((slot.0 as i32) >> 31) as u32;
        let word = slot.word() & node as usize;
        let run = self.run(word, bits(address, TOP_BITS, NODE_BITS));
        self.narrow(word, run) | (slot.0 & !node) as u16
    }
}

impl<const N: usize> Structure<N> for Poptrie<N> {
    const NAME: &'static str = "Poptrie";
    type Writer = PoptrieWriter<N>;

    #[inline]
    fn lookup(&self, address: impl Address<N>) -> u16 {
        let address = address.octets();
        self.default
            .or(|| self.nodes().descend(&address, self.nodes().top(&address)))
    }

    fn lookup_bulk(&self, addresses: &[impl Address<N>], ids: &mut [u16]) {
        let bursts = addresses.chunks(BURST).zip(ids.chunks_mut(BURST));
        for (addresses, ids) in bursts {
            let n = addresses.len().min(ids.len());
            let (addresses, ids) = (&addresses[..n], &mut ids[..n]);
            // Made twice: for processors that count bits in one instruction, and for all.
            sys::with_popcnt(
                #[inline(always)]
                || self.burst(addresses, ids),
            );
        }
    }

    fn is_bare(&self) -> bool {
        self.top.iter().all(|s| s.load(Ordering::Relaxed) == 0)
    }

    fn memory_bytes(&self) -> usize {
        TOP * size_of::<AtomicU32>() + self.used.load(Ordering::Relaxed) * size_of::<AtomicU64>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rib4;
    use super::*;
    use crate::sample::{Random, routes4};

    #[test]
    fn bursts_give_the_same_without_instructions_that_count_bits() {
        let mut rib = Rib4::new();
        for (prefix, id) in routes4(5, 3000, 255) {
            rib.insert(prefix, id).unwrap();
        }
        let mut random = Random::new(6);
        for size in [0, 1, 2, BURST - 1, BURST] {
            let addresses: Vec<u32> = (0..size).map(|_| random.bits() as u32).collect();
            let (mut plain, mut counted) = ([7; BURST], [7; BURST]);
            rib.fib().burst(&addresses, &mut plain[..size]);
            rib.fib().lookup_bulk(&addresses, &mut counted);
            assert_eq!(plain, counted, "and nothing behind the last");
            let alone = addresses.iter().map(|a| rib.fib().lookup(*a));
            assert!(alone.eq(plain[..size].iter().copied()));
        }
    }
}
