//! The label table (incoming label map of RFC 3031): the action for each label.
//!
//! Labels are in blocks, each published as a whole. A change copies a block, whatever the number of labels, and
//! readers never wait.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};
use sync::Lock;
use sync::publish::{Published, Reader, domain};
use wire::mpls::{LABEL_MAX, Labels};

/// Number of labels in a block.
const BLOCK: usize = 1 << 10;
const BLOCKS: usize = (LABEL_MAX as usize + 1) / BLOCK;

/// Next hop of a label: the labels that replace it, and the packet's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Labels that replace the looked-up one; none to pop it.
    pub labels: Labels,
    /// Gateway; `None` for local packets, or if the link has a single other end.
    pub gateway: Option<IpAddr>,
    /// Output, or number of an interface.
    pub port: u16,
    /// Weight among the next hops of the label; not 0.
    pub weight: u16,
}

/// Route of packets with a label.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    hops: Box<[Hop]>,
    weights: u64,
}

impl Entry {
    /// An entry with these next hops, at least one.
    pub fn new(hops: Vec<Hop>) -> Entry {
        Entry {
            weights: hops.iter().map(|hop| u64::from(hop.weight)).sum(),
            hops: hops.into(),
        }
    }

    /// The next hops.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Next hop of a flow; `hash` is called only if there are several.
    #[inline]
    pub fn hop(&self, hash: impl FnOnce() -> u32) -> Option<&Hop> {
        if let [hop] = &*self.hops {
            return Some(hop);
        }
        let mut at = (u64::from(hash()) * self.weights) >> 32;
        self.hops.iter().find(|hop| {
            let weight = u64::from(hop.weight);
            let here = at < weight;
            at = at.saturating_sub(weight);
            here
        })
    }
}

/// Compact form of an entry with one next hop, which is IPv4 or absent, and one label that replaces the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Label that replaces the old one.
    pub label: u32,
    /// Output, or number of an interface.
    pub port: u16,
    /// The gateway's address in network byte order; 0 for none.
    gateway: u32,
}

impl Swap {
    /// Stands for an entry without compact form, and for no entry. The port is neither an output nor the number of an
    /// interface.
    const NONE: Swap = Swap {
        label: 0,
        port: u16::MAX,
        gateway: 0,
    };

    /// The IPv4 gateway, if there is one.
    #[inline(always)]
    pub fn gateway(self) -> Option<[u8; 4]> {
        (self.gateway != 0).then_some(self.gateway.to_ne_bytes())
    }

    fn of(entry: &Entry) -> Option<Swap> {
        let [hop] = entry.hops() else { return None };
        let mut labels = hop.labels.outermost_first();
        let (Some(label), None) = (labels.next(), labels.next()) else {
            return None;
        };
        let gateway = match hop.gateway {
            Some(IpAddr::V4(gateway)) if !gateway.is_unspecified() => {
                u32::from_ne_bytes(gateway.octets())
            }
            Some(_) => return None,
            None => 0,
        };
        Some(Swap {
            label,
            port: hop.port,
            gateway,
        })
    }
}

/// Entries of consecutive labels.
#[derive(Clone, Default)]
struct Block {
    /// Compact entries, so that a single load suffices for most packets of a core router.
    swaps: Vec<Swap>,
    /// Complete entries, one per compact entry.
    entries: Vec<Option<Arc<Entry>>>,
}

/// Writer's state besides the table.
#[derive(Default)]
pub struct WriterState {
    /// Labels with an entry.
    pub labels: BTreeSet<u32>,
    /// Labels of the configuration.
    pub configured: BTreeSet<u32>,
}

/// Routes of packets by their outermost label.
pub struct LabelTable {
    blocks: Box<[Published<Block>]>,
    known: Lock<WriterState>,
}

impl Default for LabelTable {
    fn default() -> LabelTable {
        let block = |_| Published::new(domain(), Block::default());
        LabelTable {
            blocks: (0..BLOCKS).map(block).collect(),
            known: Lock::default(),
        }
    }
}

impl LabelTable {
    /// Compact entry of a label. If there is none, the result is `None`, or has the port `u16::MAX`, which is neither
    /// an output nor the number of an interface. So callers that look up the port need no further check.
    #[inline]
    pub fn swap(&self, label: u32, reader: &Reader) -> Option<Swap> {
        let block = self.blocks.get(label as usize / BLOCK)?.read(reader);
        block.swaps.get(label as usize % BLOCK).copied()
    }

    /// Entry of a label; `None` if there is none.
    #[inline]
    pub fn find<'r>(&'r self, label: u32, reader: &'r Reader) -> Option<&'r Entry> {
        let block = self.blocks.get(label as usize / BLOCK)?.read(reader);
        block.entries.get(label as usize % BLOCK)?.as_deref()
    }

    /// Entry of a label, for the control thread, which is no reader of the epoch domain.
    pub fn entry(&self, label: u32) -> Option<Arc<Entry>> {
        let block = self.blocks.get(label as usize / BLOCK)?.snapshot();
        block.entries.get(label as usize % BLOCK)?.clone()
    }

    /// Locks the writer's half.
    pub fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.known.lock()
    }

    /// Sets or removes a label's entry.
    pub fn set(&self, known: &mut WriterState, label: u32, entry: Option<Arc<Entry>>) {
        let Some(block) = self.blocks.get(label as usize / BLOCK) else {
            return;
        };
        match entry.is_some() {
            true => known.labels.insert(label),
            false => known.labels.remove(&label),
        };
        block.update(|old| {
            let mut new = Block::clone(old);
            let at = label as usize % BLOCK;
            if new.entries.len() <= at {
                new.entries.resize(at + 1, None);
            }
            new.entries[at] = entry;
            while let Some(None) = new.entries.last() {
                new.entries.pop();
            }
            new.swaps.resize(new.entries.len(), Swap::NONE);
            if let Some(swap) = new.swaps.get_mut(at) {
                let compact = new.entries[at].as_deref().and_then(Swap::of);
                *swap = compact.unwrap_or(Swap::NONE);
            }
            Arc::new(new)
        });
    }
}
