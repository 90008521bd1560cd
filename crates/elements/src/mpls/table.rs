//! The label table (RFC 3031: incoming label map): what becomes of a packet by its label.
//!
//! Labels lie in blocks, each published as a whole: a change copies a block, whatever the number of labels, and readers
//! wait for nobody.

use engine::publish::{Published, Reader, domain};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};
use sync::Lock;
use wire::mpls::{LABEL_MAX, Labels};

/// Labels of a block.
const BLOCK: usize = 1 << 10;
const BLOCKS: usize = (LABEL_MAX as usize + 1) / BLOCK;

/// A next hop: what takes the place of the label, and where the packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// None: the label is popped.
    pub labels: Labels,
    /// None: the packet is for this router, or the link has one other end.
    pub gateway: Option<IpAddr>,
    /// An output, or an interface's number.
    pub port: u16,
    /// Share of the flows, relative to the others' weights; not 0.
    pub weight: u16,
}

/// Route of packets with a label.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    hops: Box<[Hop]>,
    weights: u64,
}

impl Entry {
    pub(crate) fn new(hops: Vec<Hop>) -> Entry {
        Entry {
            weights: hops.iter().map(|hop| u64::from(hop.weight)).sum(),
            hops: hops.into(),
        }
    }

    pub(crate) fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The next hop of a flow; its hash is asked for only if there is a choice.
    #[inline]
    pub(crate) fn hop(&self, hash: impl FnOnce() -> u32) -> Option<&Hop> {
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

/// An entry in brief, if it has one next hop by IPv4 or none and swaps the label for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swap {
    pub(crate) label: u32,
    pub(crate) port: u16,
    pub(crate) gateway: Option<[u8; 4]>,
}

impl Swap {
    fn of(entry: &Entry) -> Option<Swap> {
        let [hop] = entry.hops() else { return None };
        let mut labels = hop.labels.outermost_first();
        let (Some(label), None) = (labels.next(), labels.next()) else {
            return None;
        };
        let gateway = match hop.gateway {
            Some(IpAddr::V4(gateway)) => Some(gateway.octets()),
            Some(IpAddr::V6(_)) => return None,
            None => None,
        };
        Some(Swap {
            label,
            port: hop.port,
            gateway,
        })
    }
}

/// The entries of labels that follow each other.
#[derive(Clone, Default)]
struct Block {
    /// Brief entries: one load suffices for most packets of a core router.
    swaps: Vec<Option<Swap>>,
    /// Entries, as many as `swaps`.
    entries: Vec<Option<Arc<Entry>>>,
}

/// Writer's further state.
#[derive(Default)]
pub(crate) struct Known {
    /// Labels that have an entry.
    pub(crate) labels: BTreeSet<u32>,
    /// Labels of the configuration.
    pub(crate) configured: BTreeSet<u32>,
}

pub(crate) struct LabelTable {
    blocks: Box<[Published<Block>]>,
    known: Lock<Known>,
}

impl LabelTable {
    pub(crate) fn new() -> LabelTable {
        let block = |_| Published::new(domain(), Block::default());
        LabelTable {
            blocks: (0..BLOCKS).map(block).collect(),
            known: Lock::default(),
        }
    }

    /// Brief form of a label's route: its swap, if it has one.
    #[inline]
    pub(crate) fn swap(&self, label: u32, reader: &Reader) -> Option<Swap> {
        let block = self.blocks.get(label as usize / BLOCK)?.read(reader);
        *block.swaps.get(label as usize % BLOCK)?
    }

    /// The entry of a label.
    #[inline]
    pub(crate) fn find<'r>(&'r self, label: u32, reader: &'r Reader) -> Option<&'r Entry> {
        let block = self.blocks.get(label as usize / BLOCK)?.read(reader);
        block.entries.get(label as usize % BLOCK)?.as_deref()
    }

    /// Entry for control, which is no reader.
    pub(crate) fn entry(&self, label: u32) -> Option<Arc<Entry>> {
        let block = self.blocks.get(label as usize / BLOCK)?.snapshot();
        block.entries.get(label as usize % BLOCK)?.clone()
    }

    /// The writer's half.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Sets a label's entry, or removes it.
    pub(crate) fn set(&self, known: &mut Known, label: u32, entry: Option<Arc<Entry>>) {
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
            new.swaps.resize(new.entries.len(), None);
            if let Some(swap) = new.swaps.get_mut(at) {
                *swap = new.entries[at].as_deref().and_then(Swap::of);
            }
            Arc::new(new)
        });
    }
}
