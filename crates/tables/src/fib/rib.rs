//! The writer's half: every route in order, and what it changes in the readers' arrays.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::trie::{Entry, GROUPS_MAX, root_index};
use super::{Fib, Prefix};

/// The table's memory for long prefixes (1 GiB) is used up, or waits in limbo to be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the routing table has no room for more long prefixes")
    }
}

impl std::error::Error for Full {}

/// Memory that readers may still be looking at. Give it back with [`Rib::release`] when every
/// reader has passed a quiescent point since it was taken.
#[derive(Debug, Default)]
#[must_use = "memory that is not released is lost to the table"]
pub struct Limbo(Vec<u32>);

impl Limbo {
    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// All routes for addresses of `N` bytes, and the one right to change them.
///
/// Routes are kept sorted in a B-tree (about 12 bytes each for IPv4). The route that takes over when one
/// is removed is found there in a few steps; see [`Rib::covering`].
pub struct Rib<const N: usize> {
    routes: BTreeMap<Prefix<N>, NonZeroU16>,
    fib: Arc<Fib<N>>,
    /// Per group: prefixes that end in it and groups below it. At 0 it is no longer needed.
    uses: Vec<u16>,
    free: Vec<u32>,
    limbo: Limbo,
}

impl<const N: usize> Default for Rib<N> {
    fn default() -> Self {
        Rib::new()
    }
}

impl<const N: usize> Rib<N> {
    /// An empty table.
    pub fn new() -> Self {
        Rib {
            routes: BTreeMap::new(),
            fib: Arc::new(Fib::new()),
            uses: Vec::new(),
            free: Vec::new(),
            limbo: Limbo::default(),
        }
    }

    /// What workers look up in. It follows every change.
    pub fn fib(&self) -> &Arc<Fib<N>> {
        &self.fib
    }

    /// Adds a route or changes the one of this prefix; returns the id that it had.
    pub fn insert(
        &mut self,
        prefix: impl Into<Prefix<N>>,
        id: NonZeroU16,
    ) -> Result<Option<NonZeroU16>, Full> {
        let prefix = prefix.into();
        let old = self.routes.get(&prefix).copied();
        if old.is_none() && self.groups_missing(&prefix) > self.groups_left() {
            return Err(Full);
        }
        self.routes.insert(prefix, id);
        match prefix.length() {
            0 => self.fib.set_default(id.get()),
            length => {
                let path = self.descend(&prefix);
                if let (Some(home), None) = (path.home(), old) {
                    self.uses[home as usize] += 1;
                }
                self.paint(&prefix, &path, Entry::route(id.get(), length));
            }
        }
        Ok(old)
    }

    /// Removes the route of this very prefix; returns the id that it had.
    pub fn remove(&mut self, prefix: impl Into<Prefix<N>>) -> Option<NonZeroU16> {
        let prefix = prefix.into();
        let old = self.routes.remove(&prefix)?;
        if prefix.length() == 0 {
            self.fib.set_default(0);
            return Some(old);
        }
        let heir = match self.covering(&prefix) {
            Some((heir, id)) if heir.length() > 0 => Entry::route(id.get(), heir.length()),
            _ => Entry::NONE, // the default route is kept apart
        };
        let path = self.descend(&prefix);
        self.paint(&prefix, &path, heir);
        self.ascend(&prefix, &path);
        Some(old)
    }

    /// The longest route that covers `prefix` and is shorter.
    ///
    /// The route that sorts just before a prefix either covers it or parts from it at some bit; then no
    /// route between that bit and the prefix's end can cover it, and the search goes on from there.
    pub fn covering(&self, prefix: &Prefix<N>) -> Option<(Prefix<N>, NonZeroU16)> {
        let (mut before, &id) = self.routes.range(..prefix).next_back()?;
        let mut id = id;
        while !before.covers(prefix) {
            (before, id) = self
                .routes
                .range(..=before.common(prefix))
                .next_back()
                .map(|(p, &id)| (p, id))?;
        }
        Some((*before, id))
    }

    /// The id of the route of this very prefix.
    pub fn get(&self, prefix: &Prefix<N>) -> Option<NonZeroU16> {
        self.routes.get(prefix).copied()
    }

    /// All routes, by address and then by length.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<N>, NonZeroU16)> {
        self.routes.iter().map(|(p, id)| (*p, *id))
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Memory of both halves, in bytes: address space for the readers', an estimate for the writer's.
    pub fn memory_bytes(&self) -> usize {
        let route = size_of::<(Prefix<N>, NonZeroU16)>();
        let own = self.uses.capacity() * 2 + (self.free.capacity() + self.limbo.0.capacity()) * 4;
        self.fib.memory_bytes() + own + self.routes.len() * route * 3 / 2
    }

    /// Takes what must wait until readers have passed a quiescent point from now on.
    pub fn take_limbo(&mut self) -> Limbo {
        std::mem::take(&mut self.limbo)
    }

    /// Gives back what no reader can be looking at any more.
    pub fn release(&mut self, limbo: Limbo) {
        self.free.extend(limbo.0);
    }

    /// How many groups a prefix would have to make.
    fn groups_missing(&self, prefix: &Prefix<N>) -> usize {
        let levels = level(prefix);
        let mut slots = self.fib.root_slots();
        let mut index = root_index(&prefix.address());
        for depth in 0..levels {
            match load(&slots[index]).group() {
                Some(group) => slots = self.fib.group_slots(group),
                None => return levels - depth,
            }
            index = usize::from(prefix.address()[3 + depth]);
        }
        0
    }

    fn groups_left(&self) -> usize {
        self.free.len() + (GROUPS_MAX as usize - self.uses.len())
    }

    /// The groups from the root to the array in which the prefix ends; makes those that are missing.
    fn descend(&mut self, prefix: &Prefix<N>) -> Path {
        let mut path = Path::default();
        for depth in 0..level(prefix) {
            let slot = self.slot_above(prefix, &path);
            let entry = load(slot);
            let group = match entry.group() {
                Some(group) => group,
                None => {
                    let group = self.free.pop().unwrap_or_else(|| {
                        self.uses.push(0);
                        self.uses.len() as u32 - 1
                    });
                    for slot in self.fib.group_slots(group) {
                        slot.store(entry.0, Ordering::Relaxed);
                    }
                    let slot = self.slot_above(prefix, &path);
                    slot.store(Entry::to_group(group).0, Ordering::Release);
                    if let Some(parent) = path.home() {
                        self.uses[parent as usize] += 1;
                    }
                    group
                }
            };
            path.groups[depth] = group;
            path.len = depth + 1;
        }
        path
    }

    /// The slot, in the last array of the path, through which the prefix goes.
    fn slot_above(&self, prefix: &Prefix<N>, path: &Path) -> &AtomicU32 {
        let address = prefix.address();
        match path.home() {
            None => &self.fib.root_slots()[root_index(&address)],
            Some(group) => &self.fib.group_slots(group)[usize::from(address[2 + path.len])],
        }
    }

    /// Stores `entry` wherever the prefix is the longest.
    fn paint(&self, prefix: &Prefix<N>, path: &Path, entry: Entry) {
        let address = prefix.address();
        let (slots, first, bits) = match path.home() {
            None => (self.fib.root_slots(), root_index(&address), 24),
            Some(group) => {
                let first = usize::from(address[2 + path.len]);
                (self.fib.group_slots(group), first, 24 + 8 * path.len)
            }
        };
        let count = 1 << (bits - usize::from(prefix.length()));
        self.paint_slots(&slots[first..first + count], prefix.length(), entry);
    }

    fn paint_slots(&self, slots: &[AtomicU32], length: u8, entry: Entry) {
        for slot in slots {
            let old = load(slot);
            if let Some(group) = old.group() {
                self.paint_slots(self.fib.group_slots(group), length, entry);
            } else if old.length() <= length {
                slot.store(entry.0, Ordering::Release);
            }
        }
    }

    /// Counts a removed prefix out of its group, and takes away groups that are no longer needed.
    fn ascend(&mut self, prefix: &Prefix<N>, path: &Path) {
        let mut path = path.clone();
        while let Some(group) = path.home() {
            let uses = &mut self.uses[group as usize];
            *uses -= 1;
            if *uses > 0 {
                return;
            }
            // No prefix ends in it: all its entries are the one that covers it.
            let entry = load(&self.fib.group_slots(group)[0]);
            path.len -= 1;
            self.slot_above(prefix, &path)
                .store(entry.0, Ordering::Release);
            self.limbo.0.push(group);
        }
    }
}

impl<const N: usize> fmt::Debug for Rib<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Groups on the way to a prefix: at most one for each byte after the third.
#[derive(Clone, Default)]
struct Path {
    groups: [u32; 13],
    len: usize,
}

impl Path {
    /// The group in which the path ends; none in the root.
    fn home(&self) -> Option<u32> {
        self.groups[..self.len].last().copied()
    }
}

/// Groups between the root and the array in which a prefix ends.
fn level<const N: usize>(prefix: &Prefix<N>) -> usize {
    usize::from(prefix.length()).saturating_sub(24).div_ceil(8)
}

/// The writer's own words: nobody else stores.
fn load(slot: &AtomicU32) -> Entry {
    Entry(slot.load(Ordering::Relaxed))
}
