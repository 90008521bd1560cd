//! Multibit tries of flat arrays: one load per level, every slot filled.
//!
//! # Shape
//!
//! The first `ROOT` bits of an address index the root. Where longer prefixes exist, the entry points to a group of
//! 2^`STRIDE` entries for the next bits, and so on. Two variants have names:
//!
//! - [`Dir24`]: 24 bits, then 8 and 8. For IPv4 that is DIR-24-8 (Gupta, Lin and McKeown, *Routing Lookups in
//!   Hardware at Memory Access Speeds*, INFOCOM 1998; the D-lookup of RouteBricks): one load for most
//!   addresses, two at most.
//! - [`Stride4`]: 4 bits at each level, at most 8 levels for IPv4 (QS3).
//!
//! # Memory
//!
//! Memory: 4 x (2^`ROOT` + groups x 2^`STRIDE`) bytes. Pages that were never used cost nothing. A table of many
//! routes is on huge pages.
//!
//! # What a reader sees while the writer works
//!
//! The answer for an address comes from one entry, its leaf. An entry is one atomic word: the old route or the new
//! one. A new group is filled with the parent's entry before the parent's word points to it (release; readers load
//! with acquire). So the answer is the same before and after. To remove a group, the entry that covers it is stored
//! in the parent. The group is reused only when the caller has confirmed that no reader can be inside ([`Limbo`]).

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::Structure;
use super::default_route::DefaultRoute;
use super::prefix::{Address, Prefix, bits};
use super::rib::{Full, Limbo, NoMemory, Writer};
use super::routes::{Route, Routes};
use crate::pages::Pages;
use crate::prefetch;

/// 24 bits of the address at the first level, then 8 bits per level.
pub type Dir24<const N: usize> = Trie<N, 24, 8>;
/// 4 bits of the address per level.
pub type Stride4<const N: usize> = Trie<N, 4, 4>;

/// Maximum number of entries in groups that a table can have: 256 MiB of address space.
const ENTRIES_MAX: usize = if cfg!(miri) { 1 << 18 } else { 1 << 26 };
/// Number of routes above which a table is on huge pages. A single route would take a whole huge page.
const HUGE_PAGES_ROUTES_MIN: usize = 4096;
/// Number of addresses that are looked up in parallel.
const BURST: usize = 64;

/// Content of a slot: nothing, a route (id and prefix length), or the next group.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    const GROUP: u32 = 1 << 31;
    const NONE: Entry = Entry(0);

    fn of<const N: usize>(route: Option<Route<N>>) -> Entry {
        route.map_or(Entry::NONE, |(prefix, id)| {
            Entry(u32::from(prefix.length()) << 16 | u32::from(id.get()))
        })
    }

    #[inline(always)]
    fn group(self) -> Option<usize> {
        (self.0 & Self::GROUP != 0).then_some((self.0 & !Self::GROUP) as usize)
    }

    /// True if the entry is a route's id. Groups have the sign bit set, and 0 means no route.
    #[inline(always)]
    fn is_route(self) -> bool {
        self.0.cast_signed() > 0
    }

    #[inline(always)]
    fn id(self) -> u16 {
        self.0 as u16
    }

    fn length(self) -> u8 {
        (self.0 >> 16) as u8
    }
}

/// Routes for addresses of `N` bytes, as workers see them. Any number of threads may look up while the
/// [`super::Rib`] changes it.
pub struct Trie<const N: usize, const ROOT: u32, const STRIDE: u32> {
    root: Pages<AtomicU32>,
    groups: Pages<[AtomicU32; ENTRIES_MAX]>,
    default: DefaultRoute,
    /// Number of groups that were ever used.
    used: AtomicUsize,
}

impl<const N: usize, const ROOT: u32, const STRIDE: u32> Trie<N, ROOT, STRIDE> {
    fn new() -> Result<Self, NoMemory> {
        const { assert!(ROOT <= 24 && STRIDE <= 8 && N >= 4 && N <= 16) };
        let refused = NoMemory {
            bytes: ((1 << ROOT) + ENTRIES_MAX) * size_of::<AtomicU32>(),
        };
        Ok(Trie {
            root: Pages::new(1 << ROOT).ok_or(refused)?,
            groups: Pages::new(1).ok_or(refused)?,
            default: DefaultRoute::default(),
            used: AtomicUsize::new(0),
        })
    }

    #[inline(always)]
    fn root_entry(&self, address: &[u8; N]) -> Entry {
        Entry(self.root[bits(address, 0, ROOT)].load(Ordering::Acquire))
    }

    /// The entry of a group for the bits of `address` from bit `at` on.
    #[inline(always)]
    fn group_entry(&self, group: usize, address: &[u8; N], at: u32) -> Entry {
        let index = group << STRIDE | bits(address, at, STRIDE);
        Entry(self.groups.first()[index % ENTRIES_MAX].load(Ordering::Acquire))
    }

    /// The leaf for an address, and the number of entries that were loaded to find it.
    #[inline(always)]
    fn leaf(&self, address: &[u8; N], mut entry: Entry) -> (Entry, u32) {
        let (mut at, mut depth) = (ROOT, 1);
        while let Some(group) = entry.group()
            && at < N as u32 * 8
        {
            entry = self.group_entry(group, address, at);
            at += STRIDE;
            depth += 1;
        }
        (entry, depth)
    }

    /// Continues a look-up that the root alone does not answer.
    #[inline(never)]
    fn look_again(&self, address: &[u8; N]) -> u16 {
        let leaf = || self.leaf(address, self.root_entry(address)).0;
        self.default.or(|| leaf().id())
    }

    /// Number of entries that a look-up of this address loads.
    pub fn depth(&self, address: impl Address<N>) -> u32 {
        let address = address.octets();
        self.leaf(&address, self.root_entry(&address)).1
    }

    /// The entries of a group.
    fn slots(&self, group: usize) -> &[AtomicU32] {
        &self.groups.first()[group << STRIDE..(group + 1) << STRIDE]
    }
}

impl<const N: usize, const ROOT: u32, const STRIDE: u32> Structure<N> for Trie<N, ROOT, STRIDE> {
    const NAME: &'static str = match ROOT {
        24 => "DIR-24-8",
        4 => "stride 4",
        _ => "trie",
    };
    type Writer = TrieWriter<N, ROOT, STRIDE>;

    #[inline]
    fn lookup(&self, address: impl Address<N>) -> u16 {
        self.look_again(&address.octets())
    }

    fn lookup_bulk(&self, addresses: &[impl Address<N>], ids: &mut [u16]) {
        let bursts = addresses.chunks(BURST).zip(ids.chunks_mut(BURST));
        for (addresses, ids) in bursts {
            let n = addresses.len().min(ids.len());
            let (addresses, ids) = (&addresses[..n], &mut ids[..n]);
            let mut entries = [Entry::NONE; BURST];
            self.default.or_all(ids, |ids| {
                // Look up one level for all addresses before the next level, so that the loads overlap.
                for (entry, address) in entries.iter_mut().zip(addresses) {
                    *entry = self.root_entry(&address.octets());
                    if let Some(group) = entry.group() {
                        let index = group << STRIDE | bits(&address.octets(), ROOT, STRIDE);
                        prefetch::line(&self.groups.first()[index % ENTRIES_MAX]);
                    }
                }
                let mut any_none = false;
                for ((entry, address), id) in entries.iter().zip(addresses).zip(ids) {
                    *id = self.leaf(&address.octets(), *entry).0.id();
                    any_none |= *id == 0;
                }
                any_none
            });
        }
    }

    #[inline]
    fn lookup_fn<A: Address<N>>(&self) -> impl Fn(A) -> u16 {
        let root = &self.root[..1 << ROOT]; // said once, it need not be looked at for each address
        #[inline(always)]
        move |address: A| {
            let octets = address.octets();
            let entry = Entry(root[bits(&octets, 0, ROOT)].load(Ordering::Acquire));
            match entry.is_route() {
                true => entry.id(),
                false => self.look_again(&octets),
            }
        }
    }

    #[inline]
    fn fetch<A: Address<N>>(&self) -> impl Fn(A) {
        let root = &self.root[..1 << ROOT];
        move |address: A| prefetch::line(&root[bits(&address.octets(), 0, ROOT)])
    }

    fn is_bare(&self) -> bool {
        self.root.iter().all(|e| e.load(Ordering::Relaxed) == 0)
    }

    fn memory_bytes(&self) -> usize {
        let groups = self.used.load(Ordering::Relaxed) << STRIDE;
        (self.root.len() + groups) * size_of::<AtomicU32>()
    }
}

/// Writer of a [`Trie`]: applies changes of routes.
pub struct TrieWriter<const N: usize, const ROOT: u32, const STRIDE: u32> {
    fib: Arc<Trie<N, ROOT, STRIDE>>,
    /// True if the table is on huge pages.
    huge: bool,
    used: usize,
    free: Vec<u32>,
    limbo: Limbo,
}

/// The slot through which a prefix passes at some level: its array and index, and the number of address bits above the
/// array.
struct SlotPosition {
    group: Option<usize>,
    index: usize,
    at: u32,
}

impl<const N: usize, const ROOT: u32, const STRIDE: u32> TrieWriter<N, ROOT, STRIDE> {
    /// The slots that lead to the array in which the prefix ends, and its slot there. A missing group is made if
    /// `make` is true; otherwise the path ends there.
    fn path(&mut self, prefix: &Prefix<N>, make: bool) -> Vec<SlotPosition> {
        let (address, length) = (prefix.address(), u32::from(prefix.length()));
        let mut path = vec![SlotPosition {
            group: None,
            index: bits(&address, 0, ROOT),
            at: 0,
        }];
        let mut end = ROOT;
        while length > end {
            let slot = self.slot(&path[path.len() - 1]);
            let entry = Entry(slot.load(Ordering::Relaxed));
            let group = match entry.group() {
                Some(group) => group,
                None if make => self.expand_entry(entry, &path[path.len() - 1]),
                None => return path,
            };
            path.push(SlotPosition {
                group: Some(group),
                index: bits(&address, end, STRIDE),
                at: end,
            });
            end += STRIDE;
        }
        path
    }

    /// Replaces an entry by a new group with this entry in every slot.
    fn expand_entry(&mut self, entry: Entry, place: &SlotPosition) -> usize {
        let group = self.free.pop().map_or(self.used, |group| group as usize);
        self.used = self.used.max(group + 1);
        self.fib.used.store(self.used, Ordering::Relaxed);
        for slot in self.fib.slots(group) {
            slot.store(entry.0, Ordering::Relaxed);
        }
        self.slot(place)
            .store(Entry::GROUP | group as u32, Ordering::Release);
        group
    }

    fn slot(&self, place: &SlotPosition) -> &AtomicU32 {
        &self.array(place)[place.index]
    }

    fn array(&self, place: &SlotPosition) -> &[AtomicU32] {
        place
            .group
            .map_or(&self.fib.root, |group| self.fib.slots(group))
    }

    /// Maximum number of groups that the route of a prefix needs.
    fn groups(prefix: &Prefix<N>) -> usize {
        let rest = u32::from(prefix.length()).saturating_sub(ROOT);
        rest.div_ceil(STRIDE) as usize
    }

    fn left(&self) -> usize {
        self.free.len() + (ENTRIES_MAX >> STRIDE) - self.used
    }

    /// Stores `entry` in every slot whose prefix is not longer than `length`.
    fn fill_range(&self, slots: &[AtomicU32], length: u8, entry: Entry) {
        for slot in slots {
            let old = Entry(slot.load(Ordering::Relaxed));
            if let Some(group) = old.group() {
                self.fill_range(self.fib.slots(group), length, entry);
            } else if old.length() <= length {
                slot.store(entry.0, Ordering::Release);
            }
        }
    }

    /// Removes the groups of a path in which no route ends and through which none passes.
    fn prune(&mut self, routes: &Routes<N>, prefix: &Prefix<N>, path: &[SlotPosition]) {
        for pair in path.windows(2).rev() {
            let [
                above,
                SlotPosition {
                    group: Some(group),
                    at,
                    ..
                },
            ] = pair
            else {
                return;
            };
            let whole = Prefix::new(prefix.address(), *at as u8); // the prefix is longer
            if routes.more_specifics(&whole).next().is_some() {
                return;
            }
            let entry = Entry::of(routes.around(&whole).0);
            self.slot(above).store(entry.0, Ordering::Release);
            self.limbo.0.push(*group as u32);
        }
    }
}

impl<const N: usize, const ROOT: u32, const STRIDE: u32> Writer<N, Trie<N, ROOT, STRIDE>>
    for TrieWriter<N, ROOT, STRIDE>
{
    fn new() -> Result<Self, NoMemory> {
        Ok(TrieWriter {
            fib: Arc::new(Trie::new()?),
            huge: false,
            used: 0,
            free: Vec::new(),
            limbo: Limbo::default(),
        })
    }

    fn fib(&self) -> &Arc<Trie<N, ROOT, STRIDE>> {
        &self.fib
    }

    fn follow(&mut self, routes: &Routes<N>, prefix: &Prefix<N>) -> Result<(), Full> {
        let own: Option<NonZeroU16> = routes.get(prefix);
        if routes.len() >= HUGE_PAGES_ROUTES_MIN && !self.huge {
            self.huge = true;
            self.fib.root.advise(true);
        }
        if prefix.length() == 0 {
            self.fib.default.set(own);
            return Ok(());
        }
        if own.is_some() && self.left() < Self::groups(prefix) {
            return Err(Full);
        }
        let path = self.path(prefix, own.is_some());
        let end = path
            .last()
            .filter(|_| path.len() == 1 + Self::groups(prefix));
        if let Some(end) = end {
            let width = if end.at == 0 { ROOT } else { STRIDE };
            let count = 1 << (end.at + width - u32::from(prefix.length()));
            let slots = &self.array(end)[end.index..end.index + count];
            self.fill_range(slots, prefix.length(), Entry::of(routes.around(prefix).0));
        }
        if own.is_none() {
            self.prune(routes, prefix, &path);
        }
        Ok(())
    }

    fn take_limbo(&mut self) -> Limbo {
        std::mem::take(&mut self.limbo)
    }

    fn release(&mut self, limbo: Limbo) {
        self.free.extend(limbo.0);
    }

    fn memory_bytes(&self) -> usize {
        (self.free.capacity() + self.limbo.0.capacity()) * 4
    }
}
