//! The label table (RFC 3031: incoming label map): what becomes of a packet by its label.
//!
//! Labels lie in blocks, each published as a whole: a change copies a block, whatever the number of labels, and readers
//! wait for nobody.

use engine::publish::{Published, Reader, domain};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::mpls::LABEL_MAX;

/// Labels of a block.
const BLOCK: usize = 1 << 10;
const BLOCKS: usize = (LABEL_MAX as usize + 1) / BLOCK;

/// Labels that are put on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels {
    /// The innermost first.
    labels: [u32; Labels::MAX],
    len: u8,
}

impl Labels {
    pub(super) const MAX: usize = 8;

    /// Of these, the outermost first; `None` if they are too many.
    pub(super) fn new(outermost_first: &[u32]) -> Option<Labels> {
        let mut labels = Labels::default();
        let places = labels.labels.get_mut(..outermost_first.len())?;
        for (place, label) in places.iter_mut().zip(outermost_first.iter().rev()) {
            *place = *label;
        }
        labels.len = outermost_first.len() as u8;
        Some(labels)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    #[inline]
    pub(super) fn outermost_first(&self) -> impl Iterator<Item = u32> {
        self.labels[..self.len()].iter().rev().copied()
    }
}

/// A next hop: what takes the place of the label, and where the packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// None: the label is popped.
    pub(super) labels: Labels,
    /// None: the packet is for this router, or the link has one other end.
    pub(super) gateway: Option<IpAddr>,
    pub(super) port: u8,
    pub(super) weight: u16,
}

/// What becomes of packets with a label.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    hops: Box<[Hop]>,
    weights: u64,
}

impl Entry {
    pub(super) fn new(hops: Vec<Hop>) -> Entry {
        Entry {
            weights: hops.iter().map(|hop| u64::from(hop.weight)).sum(),
            hops: hops.into(),
        }
    }

    pub(super) fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The next hop of a flow; its hash is asked for only if there is a choice.
    #[inline]
    pub(super) fn hop(&self, hash: impl FnOnce() -> u32) -> Option<&Hop> {
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
pub(super) struct Swap {
    pub(super) label: u32,
    pub(super) port: u8,
    pub(super) gateway: Option<[u8; 4]>,
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
    /// One load says what most packets of a core need.
    swaps: Vec<Option<Swap>>,
    /// As long as `swaps`.
    entries: Vec<Option<Arc<Entry>>>,
}

/// What the writer knows beside.
#[derive(Default)]
pub(super) struct Known {
    /// Labels that have an entry.
    pub(super) labels: BTreeSet<u32>,
    /// Those of the configuration.
    pub(super) configured: BTreeSet<u32>,
}

pub(super) struct LabelTable {
    blocks: Box<[Published<Block>]>,
    known: Mutex<Known>,
}

impl LabelTable {
    pub(super) fn new() -> LabelTable {
        let block = |_| Published::new(domain(), Block::default());
        LabelTable {
            blocks: (0..BLOCKS).map(block).collect(),
            known: Mutex::default(),
        }
    }

    /// What a label is swapped for, if that can be said in brief.
    #[inline]
    pub(super) fn swap(&self, label: u32, reader: &Reader) -> Option<Swap> {
        let block = self.blocks.get(label as usize / BLOCK)?.read(reader);
        *block.swaps.get(label as usize % BLOCK)?
    }

    /// The entry of a label.
    #[inline]
    pub(super) fn find<'r>(&'r self, label: u32, reader: &'r Reader) -> Option<&'r Entry> {
        let block = self.blocks.get(label as usize / BLOCK)?.read(reader);
        block.entries.get(label as usize % BLOCK)?.as_deref()
    }

    /// The same for control, which is no reader.
    pub(super) fn entry(&self, label: u32) -> Option<Arc<Entry>> {
        let block = self.blocks.get(label as usize / BLOCK)?.snapshot();
        block.entries.get(label as usize % BLOCK)?.clone()
    }

    /// The writer's half.
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a label an entry or none.
    pub(super) fn set(&self, known: &mut Known, label: u32, entry: Option<Arc<Entry>>) {
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
