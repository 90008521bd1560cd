//! The readers' half: flat arrays, one load per level.
//!
//! The first 24 bits of an address index the root; where longer prefixes exist, the entry there leads
//! to a group of 256 entries for the next 8 bits, and so on. For IPv4 that is DIR-24-8 (Gupta, Lin and
//! McKeown 1998; the D-lookup of RouteBricks): one load for most addresses, two at most.
//!
//! # What a reader sees while the writer works
//!
//! The answer for an address comes from one entry, its leaf, and an entry is one atomic word: the old
//! route or the new one. Making a group fills it with the parent's entry before the parent's word leads
//! there (release; readers load with acquire), so the answer is the same before and after. Taking a
//! group away first makes all its entries equal, then stores that entry in the parent; the group is not
//! written again until the caller has said that no reader can be inside ([`super::Limbo`]).
//!
//! The default route is kept apart, so that it does not fill 16M entries. A reader that finds no route
//! loads the default and then makes sure that there is still none: else it might combine the
//! absence of a route before one change with the default after a later one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// What a slot says: nothing, a route (id and prefix length), or the group to go on in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u32);

impl Entry {
    const GROUP: u32 = 1 << 31;
    pub(super) const NONE: Entry = Entry(0);

    pub(super) fn route(id: u16, length: u8) -> Entry {
        Entry(u32::from(length) << 16 | u32::from(id))
    }

    pub(super) fn to_group(group: u32) -> Entry {
        Entry(Self::GROUP | group)
    }

    #[inline]
    pub(super) fn group(self) -> Option<u32> {
        (self.0 & Self::GROUP != 0).then_some(self.0 & !Self::GROUP)
    }

    #[inline]
    pub(super) fn id(self) -> u16 {
        self.0 as u16
    }

    pub(super) fn length(self) -> u8 {
        (self.0 >> 16) as u8
    }
}

const ROOT: usize = 1 << 24;
/// Entries of a group.
const FAN: usize = 256;
const CHUNK_GROUPS: usize = 1024;
const CHUNK: usize = CHUNK_GROUPS * FAN;
const CHUNKS: usize = 1024;
/// Groups that a table can have: 1 GiB of them.
pub(super) const GROUPS_MAX: u32 = (CHUNKS * CHUNK_GROUPS) as u32;
/// Addresses that are looked up side by side: about the loads that a core can wait for at once.
const SIDE_BY_SIDE: usize = 32;

/// Routes for addresses of `N` bytes, as workers see them. Any number of threads may look up while the
/// [`super::Rib`] changes it. Memory is taken where routes are: 64 MiB of address space for the
/// root, of which only touched pages cost anything, and 1 KiB per group.
pub struct Fib<const N: usize> {
    root: Box<[AtomicU32; ROOT]>,
    /// They never move, so readers need no lock to find a group.
    chunks: Box<[OnceLock<Box<[AtomicU32; CHUNK]>>]>,
    default: AtomicU16,
}

impl<const N: usize> Fib<N> {
    pub(super) fn new() -> Self {
        const { assert!(N >= 4, "an address is longer than the root's 24 bits") };
        Fib {
            root: bytemuck::zeroed_box(),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            default: AtomicU16::new(0),
        }
    }

    #[inline]
    fn root_entry(&self, address: &[u8; N]) -> Entry {
        Entry(self.root[root_index(address)].load(Ordering::Acquire))
    }

    #[inline]
    fn group_entry(&self, group: u32, byte: u8) -> Entry {
        let chunk = self.chunks[group as usize / CHUNK_GROUPS % CHUNKS].get();
        let index = group as usize % CHUNK_GROUPS * FAN + usize::from(byte);
        // The chunk is there: it was made before any entry led to it.
        chunk.map_or(Entry::NONE, |chunk| {
            Entry(chunk[index].load(Ordering::Acquire))
        })
    }

    #[inline]
    pub(super) fn leaf(&self, address: &[u8; N]) -> Entry {
        let mut entry = self.root_entry(address);
        for byte in &address[3..] {
            match entry.group() {
                Some(group) => entry = self.group_entry(group, *byte),
                None => break,
            }
        }
        entry
    }

    #[inline]
    fn find(&self, address: &[u8; N]) -> u16 {
        let leaf = self.leaf(address);
        match leaf.id() {
            0 => self.settle(leaf, address),
            id => id,
        }
    }

    /// What to answer where the leaf names no route.
    pub(super) fn settle(&self, mut leaf: Entry, address: &[u8; N]) -> u16 {
        while leaf.id() == 0 {
            let default = self.default.load(Ordering::Acquire);
            let again = self.leaf(address);
            if again == leaf {
                return default;
            }
            leaf = again;
        }
        leaf.id()
    }

    /// Address space that the readers' half takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter(|c| c.get().is_some()).count();
        (ROOT + chunks * CHUNK) * size_of::<AtomicU32>() + size_of_val(&*self.chunks)
    }

    // What follows is for the writer alone.

    pub(super) fn set_default(&self, id: u16) {
        self.default.store(id, Ordering::Release);
    }

    pub(super) fn root_slots(&self) -> &[AtomicU32] {
        &self.root[..]
    }

    /// The entries of a group that was made.
    pub(super) fn group_slots(&self, group: u32) -> &[AtomicU32] {
        let chunk = self.chunks[group as usize / CHUNK_GROUPS].get_or_init(bytemuck::zeroed_box);
        let first = group as usize % CHUNK_GROUPS * FAN;
        &chunk[first..first + FAN]
    }
}

#[inline]
pub(super) fn root_index<const N: usize>(address: &[u8; N]) -> usize {
    usize::from(address[0]) << 16 | usize::from(address[1]) << 8 | usize::from(address[2])
}

impl Fib<4> {
    /// The group id of the longest prefix that contains `address` (host order), or 0.
    #[inline]
    pub fn lookup(&self, address: u32) -> u16 {
        self.find(&address.to_be_bytes())
    }

    /// Looks up `addresses` into `ids`, as many as both hold; faster than one by one.
    pub fn lookup_bulk(&self, addresses: &[u32], ids: &mut [u16]) {
        // So short that a core has many of them under way without being told to.
        for (address, id) in addresses.iter().zip(ids) {
            *id = self.find(&address.to_be_bytes());
        }
    }
}

impl Fib<16> {
    /// The group id of the longest prefix that contains `address` (network order), or 0.
    #[inline]
    pub fn lookup(&self, address: &[u8; 16]) -> u16 {
        self.find(address)
    }

    /// Looks up `addresses` into `ids`, as many as both hold; faster than one by one.
    pub fn lookup_bulk(&self, addresses: &[[u8; 16]], ids: &mut [u16]) {
        let bursts = addresses
            .chunks(SIDE_BY_SIDE)
            .zip(ids.chunks_mut(SIDE_BY_SIDE));
        for (addresses, ids) in bursts {
            // One level for all before the next level for any: the loads do not wait for each other.
            let mut entries = [Entry::NONE; SIDE_BY_SIDE];
            let mut open = 0u32; // a bit for each that has not reached its leaf
            for (i, (entry, address)) in entries.iter_mut().zip(addresses).enumerate() {
                *entry = self.root_entry(address);
                open |= u32::from(entry.group().is_some()) << i;
            }
            for level in 3..16 {
                let mut rest = open;
                while rest != 0 {
                    let i = rest.trailing_zeros() as usize % SIDE_BY_SIDE;
                    rest &= rest - 1;
                    if let (Some(group), Some(address)) = (entries[i].group(), addresses.get(i)) {
                        entries[i] = self.group_entry(group, address[level]);
                    }
                    if entries[i].group().is_none() {
                        open &= !(1 << i);
                    }
                }
            }
            for ((id, entry), address) in ids.iter_mut().zip(entries).zip(addresses) {
                *id = match entry.id() {
                    0 => self.settle(entry, address),
                    id => id,
                };
            }
        }
    }
}
