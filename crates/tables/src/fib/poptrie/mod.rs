//! Poptrie: a trie of 64-way nodes. Runs of equal slots are stored once and found by counting bits. It is compact
//! enough for caches, and the default for IPv4 and IPv6.
//!
//! Source: H. Asai and Y. Ohara, *Poptrie: A Compressed Trie with Population Count for Fast and Scalable
//! Software IP Routing Table Lookup*, SIGCOMM 2015 (direct pointing, k = 6, compressed leaves).
//!
//! # Shape
//!
//! The first bits of an address (18 for IPv4, 20 for IPv6) index `top`. A word there is a route's id, or points to a
//! node for the next 6 bits. A node begins with a bitmap that has a bit for each of the 64 slots that differs from
//! the next. The slots' values follow, one for each run of equal slots. A *narrow* node has no child nodes, and its
//! values are 16-bit ids. The values of a *wide* node are 32-bit words like those of `top`. With 18 bits at the top,
//! the 64 networks of 24 bits below a word are one node. So an IPv4 address takes three loads, word, bitmap and id,
//! the last two mostly from one cache line.
//!
//! IPv6 has no narrow nodes. It has a special node for a single prefix that differs from everything around it
//! ([`single_prefix`]), for any number of bits between. Such a node mostly replaces a chain of nodes with one child
//! each. With 20 bits at the top, the second node ends at 32 bits, the length of the registries' networks.
//!
//! Unlike in the paper, a node is contiguous and is never changed. A change writes new nodes from the changed prefix
//! upwards, then one word of `top`. So each address switches from its old route to its new one atomically, and
//! readers need no lock and never repeat. Concurrent readers cost a few nodes that wait for the next quiescent point,
//! not a second table.
//!
//! # Memory
//!
//! Memory: 4 x 2^18 bytes (IPv6: 4 x 2^20), and per node 8 + 2 x runs (narrow) or 4 x runs (wide), rounded up to 16
//! bytes; 16 for a lone prefix. Address space for 128 MiB of nodes is reserved. Pages that were never written cost
//! nothing. In `top`, each /8 of IPv4 (/10 of IPv6) with routes takes 4 KB, so a table of 100 routes in 10.0.0.0/8
//! takes 8 KB.

mod arena;
mod nodes;
mod single_prefix;
mod writer;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use self::arena::{WORDS_MAX, Words};
use self::nodes::Nodes;
use super::default_route::DefaultRoute;
use super::prefix::Address;
use super::sys;
use super::{NoMemory, Structure};
use crate::pages::Pages;

pub use writer::PoptrieWriter;

/// Number of bits of an address that index a node.
const NODE_BITS: u32 = 6;
/// Number of slots of a node.
const SLOTS: usize = 1 << NODE_BITS;
/// Number of words of `top` in a page of memory.
const PAGE: usize = 1024;
/// Number of words above which nodes are on huge pages. A smaller table would waste them.
const HUGE_PAGES_WORDS_MIN: usize = 1 << 18;
/// Number of addresses that are looked up between two checks of the default route.
const BURST: usize = 64;

/// Content of a word: a route's id (0: none but the default), or a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot(u32);

impl Slot {
    const NODE: u32 = 1 << 31;
    /// With NODE: marks a wide node; without NODE: a [`SinglePrefix`](single_prefix::SinglePrefix).
    const WIDE: u32 = 1 << 30;
    const NONE: Slot = Slot(0);

    /// True if the slot leads to a node.
    #[inline(always)]
    fn is_node(self) -> bool {
        self.0 >= Self::WIDE
    }

    #[inline(always)]
    fn is_wide(self) -> bool {
        self.0 >= Self::NODE | Self::WIDE // both bits are set: they are the uppermost, so one comparison is enough
    }

    #[inline(always)]
    fn is_lone(self) -> bool {
        self.0 & (Self::NODE | Self::WIDE) == Self::WIDE
    }

    /// True (1) if the slot points to a wide node, in a table without narrow nodes.
    #[inline(always)]
    fn wide_bit(self) -> u64 {
        u64::from(self.0 >> 31)
    }

    /// True (1) if the slot points to a lone prefix, in a table without other nodes below.
    #[inline(always)]
    fn lone_bit(self) -> u64 {
        u64::from(self.0 >> 30)
    }

    /// Index of the node's first word, if the slot points to a node.
    #[inline(always)]
    fn word(self) -> usize {
        const { assert!(WORDS_MAX <= Self::WIDE as usize) };
        self.0 as usize % WORDS_MAX
    }

    /// Id of the route, if the slot holds one.
    #[inline(always)]
    fn id(self) -> u16 {
        self.0 as u16
    }
}

/// Routes for addresses of `N` bytes, as workers see them. Any number of threads may look up while the [`super::Rib`]
/// changes them.
pub struct Poptrie<const N: usize> {
    /// 2^[`Self::TOP_BITS`] words.
    top: Pages<AtomicU32>,
    /// Nodes.
    words: Pages<Words>,
    default: DefaultRoute,
    /// Number of pages of `top` that were ever written.
    top_pages: AtomicUsize,
    /// Number of words that were ever used for nodes.
    used: AtomicUsize,
}

impl<const N: usize> Poptrie<N> {
    /// Number of bits of an address that index `top`.
    const TOP_BITS: u32 = if N == 4 { 18 } else { 20 };

    fn new() -> Result<Self, NoMemory> {
        const { assert!(N == 4 || N * 8 >= 64 && N <= 16) };
        let refused = NoMemory {
            bytes: size_of::<AtomicU32>() << Self::TOP_BITS | size_of::<Words>(),
        };
        Ok(Poptrie {
            top: Pages::new(1 << Self::TOP_BITS).ok_or(refused)?,
            words: Pages::new(1).ok_or(refused)?,
            default: DefaultRoute::default(),
            top_pages: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
        })
    }

    #[inline(always)]
    fn nodes(&self) -> Nodes<'_, N> {
        Nodes {
            top: &self.top[..1 << Self::TOP_BITS], // said once, it need not be looked at for each address
            words: self.words.first(),
        }
    }

    /// Like [`Structure::lookup_bulk`], for at most [`BURST`] addresses.
    #[inline(always)]
    fn burst<A: Address<N>>(&self, addresses: &[A], ids: &mut [u16]) {
        let nodes = self.nodes();
        self.default.or_all(
            ids,
            // Must be inlined: otherwise the closure is compiled without this function's target features.
            #[inline(always)]
            |ids| {
                match N {
                    4 => nodes.burst_short(addresses, ids),
                    _ => nodes.burst_long(addresses, ids),
                }
                ids.iter().fold(false, |any, id| any | (*id == 0))
            },
        );
    }
}

impl<const N: usize> Structure<N> for Poptrie<N> {
    const NAME: &'static str = "Poptrie";
    type Writer = PoptrieWriter<N>;

    #[inline]
    fn lookup(&self, address: impl Address<N>) -> u16 {
        let address = address.octets();
        let nodes = self.nodes();
        self.default
            .or(|| nodes.descend(&address, nodes.top(&address), Self::TOP_BITS))
    }

    fn lookup_bulk(&self, addresses: &[impl Address<N>], ids: &mut [u16]) {
        let bursts = addresses.chunks(BURST).zip(ids.chunks_mut(BURST));
        for (addresses, ids) in bursts {
            let n = addresses.len().min(ids.len());
            let (addresses, ids) = (&addresses[..n], &mut ids[..n]);
            // Compiled twice: for processors with a bit-count instruction, and for all others.
            sys::with_popcnt(
                #[inline(always)]
                || self.burst(addresses, ids),
            );
        }
    }

    #[inline]
    fn fetch<A: Address<N>>(&self) -> impl Fn(A) {
        let nodes = self.nodes();
        move |address: A| nodes.fetch_top(&address.octets())
    }

    fn is_bare(&self) -> bool {
        self.top.iter().all(|s| s.load(Ordering::Relaxed) == 0)
    }

    fn memory_bytes(&self) -> usize {
        self.top_pages.load(Ordering::Relaxed) * PAGE * size_of::<AtomicU32>()
            + self.used.load(Ordering::Relaxed) * size_of::<AtomicU64>()
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
