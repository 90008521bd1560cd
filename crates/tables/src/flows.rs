//! Bidirectional flow table: each flow has a key for each direction, a value, and an expiry time.
//!
//! Finding, adding, touching and removing a flow take O(1) expected time. Flows of one [`Class`] have the same
//! lifetime after their last use. So each class is a list in order of last use, oldest first, and needs no heap: the
//! next flow to expire is the head of a list.
//!
//! A flow is *held* for a while after its last use (its guarantee): a full table does not evict it for a new one.
//! After that it is *loose* until its lifetime is over. In a full table, a new flow replaces the loose flow that
//! would expire first, or is refused if there is none.
//!
//! A flow also belongs to a [`Group`]; the flows of a group can be listed without a search.
//!
//! Growth moves nothing, so no packet waits for it. The cache misses of a burst's packets overlap if the burst's keys
//! are shown to the table first ([`Flows::prefetch`]).

mod chunked_list;
#[path = "flows/sys.rs"]
mod equal;
mod index;

use crate::prefetch;
use foldhash::fast::RandomState;
use index::Index;
use std::hash::{BuildHasher, Hash};

/// A flow's number during its lifetime.
pub type Flow = u32;

/// A class of flows, by number; see [`Flows::add_class`].
pub type Class = u16;

/// A group of flows, by number: all flows that share a property that never changes. Memory grows with the highest
/// number.
pub type Group = u16;

/// A flow, and the end of the flow to which a key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The flow.
    pub flow: Flow,
    /// Index of the key: 0 for the flow's first key, 1 for its second.
    pub side: usize,
}

const NONE: u32 = u32::MAX;
/// Size from which the C library gives each allocation a mapping of its own. Pages not yet used take no memory.
const MAPPED_BYTES: usize = 32 << 20;
/// Number of keys that are prefetched together.
const BURST: usize = 32;
/// Size of a table that exceeds a core's second-level cache on many processors.
const LARGE_BYTES: usize = 512 << 10;
/// Maximum number of flows: each has two ends, numbered by 32 bits.
const FLOWS_MAX: usize = (NONE / 2) as usize;

/// A flow. Fields that look-ups and touches read are adjacent.
#[repr(C)]
struct Slot<K, V> {
    keys: [K; 2],
    touched: u64,
    prev: u32,
    /// Next in its list; for a free slot, the next free slot.
    next: u32,
    /// See [`list`].
    list: u32,
    group: Group,
    /// `None` in a free slot.
    value: Option<V>,
    /// Neighbours in the group's list: the flows added before and after this one.
    earlier: u32,
    later: u32,
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List {
    head: NONE,
    tail: NONE,
};

#[derive(Clone, Copy)]
struct Times {
    guarantee: u64,
    lifetime: u64,
}

/// A bounded table of flows; times are nanoseconds on a scale of the caller's.
pub struct Flows<K, V> {
    /// Both ends of every flow. An entry is twice the flow's number, plus 1 for its second key.
    index: Index,
    hasher: RandomState,
    slots: Vec<Slot<K, V>>,
    free: u32,
    len: usize,
    capacity: usize,
    classes: Vec<Times>,
    /// Two lists per class: held flows and loose flows.
    lists: Vec<List>,
    /// The flow of each group that was added last.
    groups: Vec<u32>,
}

fn list(class: Class, loose: bool) -> u32 {
    u32::from(class) * 2 + u32::from(loose)
}

impl<K: Copy + Eq + Hash, V> Flows<K, V> {
    /// An empty table for up to `capacity` flows. Memory grows with the number of flows.
    pub fn new(capacity: usize) -> Flows<K, V> {
        Flows {
            index: Index::new(),
            hasher: RandomState::default(),
            slots: Vec::new(),
            free: NONE,
            len: 0,
            capacity: capacity.min(FLOWS_MAX),
            classes: Vec::new(),
            lists: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Adds a class: its flows are held for `guarantee` and expire `lifetime` after their last use.
    pub fn add_class(&mut self, guarantee: u64, lifetime: u64) -> Class {
        self.classes.push(Times {
            guarantee,
            lifetime,
        });
        self.lists.extend([EMPTY; 2]);
        (self.classes.len() - 1) as Class
    }

    /// Changes the times of a class, also for its present flows.
    pub fn set_class(&mut self, class: Class, guarantee: u64, lifetime: u64) {
        self.classes[usize::from(class)] = Times {
            guarantee,
            lifetime,
        };
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maximum number of flows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of bytes of memory that the table takes now.
    pub fn memory(&self) -> usize {
        self.slots.len() * size_of::<Slot<K, V>>()
            + self.index.memory()
            + self.groups.capacity() * size_of::<u32>()
    }

    /// The flow that has this key.
    #[inline]
    pub fn find(&self, key: &K) -> Option<Side> {
        let is = |end: u32| self.slots[end as usize / 2].keys[end as usize % 2] == *key;
        let end = self.index.find(self.hash(key), is)?;
        Some(Side {
            flow: end / 2,
            side: end as usize % 2,
        })
    }

    #[inline]
    fn hash(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        (hash >> 32) as u32 ^ hash as u32
    }

    /// True if the table exceeds the caches next to a core, so that [`prefetch`](Self::prefetch) pays.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.slots.len() * size_of::<Slot<K, V>>() >= LARGE_BYTES
    }

    /// Prefetches the cache lines that look-ups of these keys and accesses to their flows will read.
    pub fn prefetch(&self, mut keys: impl Iterator<Item = K>) {
        loop {
            let mut hashes = [0; BURST];
            let places = hashes.iter_mut().zip(keys.by_ref());
            let filled = places.map(|(hash, key)| *hash = self.hash(&key)).count();
            let hashes = &hashes[..filled];
            hashes.iter().for_each(|&hash| self.index.prefetch(hash));
            let mut flows = [NONE; BURST];
            for (&hash, flow) in hashes.iter().zip(&mut flows) {
                // A prefetch may be wrong: of two equal hashes, one is chosen.
                if let Some(end) = self.index.find(hash, |_| true) {
                    *flow = end / 2;
                    self.slots.get(*flow as usize).map(prefetch::whole);
                }
            }
            let slots = flows
                .iter()
                .filter_map(|&flow| self.slots.get(flow as usize));
            for neighbour in slots.flat_map(|slot| [slot.prev, slot.next]) {
                self.slots.get(neighbour as usize).map(prefetch::line);
            }
            if filled < BURST {
                return;
            }
        }
    }

    /// True if the flow's lifetime is over. The flow remains until [`Flows::expire`] or a new flow removes it.
    #[inline]
    pub fn is_over(&self, flow: Flow, now: u64) -> bool {
        let slot = &self.slots[flow as usize];
        let lifetime = self.classes[slot.list as usize / 2].lifetime;
        slot.touched.saturating_add(lifetime) <= now
    }

    /// The keys of a flow.
    #[inline]
    pub fn keys(&self, flow: Flow) -> &[K; 2] {
        &self.slots[flow as usize].keys
    }

    /// The class of a flow, and the time of its last use.
    pub fn use_of(&self, flow: Flow) -> (Class, u64) {
        let slot = &self.slots[flow as usize];
        ((slot.list / 2) as Class, slot.touched)
    }

    /// The group of a flow.
    pub fn group_of(&self, flow: Flow) -> Group {
        self.slots[flow as usize].group
    }

    /// The flows of a group, the newest first.
    pub fn of_group(&self, group: Group) -> impl Iterator<Item = Flow> {
        let last = self.groups.get(usize::from(group)).copied();
        let earlier = |&flow: &Flow| Some(self.slots[flow as usize].earlier);
        let some = |flow: Option<u32>| flow.filter(|&flow| flow != NONE);
        std::iter::successors(some(last), move |flow| some(earlier(flow)))
    }

    /// The value of a flow.
    #[inline]
    pub fn value(&self, flow: Flow) -> &V {
        let value = &self.slots[flow as usize].value;
        value
            .as_ref()
            .expect("a flow's number is used while it lives")
    }

    /// The value of a flow, mutable.
    #[inline]
    pub fn value_mut(&mut self, flow: Flow) -> &mut V {
        let value = &mut self.slots[flow as usize].value;
        value
            .as_mut()
            .expect("a flow's number is used while it lives")
    }

    /// All flows, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (Flow, &[K; 2], &V)> {
        let each = self.slots.iter().enumerate();
        each.filter_map(|(i, slot)| Some((i as Flow, &slot.keys, slot.value.as_ref()?)))
    }

    /// Adds a flow, last used at `now`. An existing flow that has one of the keys is removed; if the table is full,
    /// so is the loose flow that would expire first. Returns `None` if the table is full of flows that must not be
    /// removed for this one, or there is no memory. `gone` is called with the keys and the value of each removed flow.
    pub fn insert(
        &mut self,
        keys: [K; 2],
        value: V,
        (class, group): (Class, Group),
        now: u64,
        mut gone: impl FnMut([K; 2], V),
    ) -> Option<Flow> {
        for key in &keys {
            if let Some(old) = self.find(key) {
                self.remove_and_report(old.flow, &mut gone);
            }
        }
        while self.len >= self.capacity {
            let least = self.place_for(class, now)?;
            self.remove_and_report(least, &mut gone);
        }
        let slot = Slot {
            keys,
            touched: now,
            prev: NONE,
            next: NONE,
            list: 0,
            group,
            value: Some(value),
            earlier: NONE,
            later: NONE,
        };
        let flow = self.free;
        let flow = if flow == NONE {
            self.make_room()?;
            self.slots.push(slot);
            (self.slots.len() - 1) as Flow
        } else {
            self.free = self.slots[flow as usize].next;
            self.slots[flow as usize] = slot;
            flow
        };
        self.len += 1;
        self.append(flow, list(class, self.class_times(class).guarantee == 0));
        self.join(flow, group);
        // If both keys of a flow are equal, it is indexed only once, by its second key.
        let first = usize::from(keys[0] == keys[1]);
        for (side, key) in keys.iter().enumerate().skip(first) {
            if !self.index.add(self.hash(key), flow * 2 + side as u32) {
                self.remove(flow);
                return None;
            }
        }
        Some(flow)
    }

    /// Makes room for another slot; `None` if there is no memory. A large vector gets a mapping of its own, which the
    /// system makes larger without a copy, so growth stops a worker for less than a millisecond.
    fn make_room(&mut self) -> Option<()> {
        let (len, size) = (self.slots.len(), size_of::<Slot<K, V>>());
        if len < self.slots.capacity() {
            return Some(());
        }
        let more = match len * size < LARGE_BYTES {
            true => len.max(16),
            false => len.max(MAPPED_BYTES / size),
        };
        self.slots.try_reserve_exact(more).ok()
    }

    /// The flow to remove from a full table for a new one of `class`.
    fn place_for(&mut self, class: Class, now: u64) -> Option<Flow> {
        self.expire_guarantees(now);
        let (flow, ends) = self.first_loose()?;
        let times = self.class_times(class);
        // A new flow without guarantee may itself be the one that would expire first.
        let stays = times.guarantee > 0 || ends <= now.saturating_add(times.lifetime);
        stays.then_some(flow)
    }

    /// The loose flow that expires first, and the time of expiry.
    fn first_loose(&self) -> Option<(Flow, u64)> {
        let heads = (0..self.classes.len()).filter_map(|class| {
            let flow = self.lists[class * 2 + 1].head;
            let slot = self.slots.get(flow as usize)?;
            Some((
                flow,
                slot.touched.saturating_add(self.classes[class].lifetime),
            ))
        });
        heads.min_by_key(|&(_, ends)| ends)
    }

    /// Moves flows whose guarantee has ended to the loose lists.
    fn expire_guarantees(&mut self, now: u64) {
        for class in 0..self.classes.len() {
            let guarantee = self.classes[class].guarantee;
            loop {
                let flow = self.lists[class * 2].head;
                let over = |slot: &Slot<K, V>| slot.touched.saturating_add(guarantee) <= now;
                if !self.slots.get(flow as usize).is_some_and(over) {
                    break;
                }
                self.unlink(flow);
                self.append(flow, list(class as Class, true));
            }
        }
    }

    fn class_times(&self, class: Class) -> Times {
        self.classes[usize::from(class)]
    }

    /// Records a use of a flow, and its class from now on.
    #[inline]
    pub fn touch(&mut self, flow: Flow, class: Class, now: u64) {
        self.slots[flow as usize].touched = now;
        let to = list(class, self.class_times(class).guarantee == 0);
        let slot = &self.slots[flow as usize];
        if slot.next != NONE || slot.list != to {
            self.unlink(flow);
            self.append(flow, to);
        }
    }

    /// Removes a flow.
    pub fn remove(&mut self, flow: Flow) -> V {
        let keys = *self.keys(flow);
        for (side, key) in keys.iter().enumerate() {
            self.index.remove(self.hash(key), flow * 2 + side as u32);
        }
        self.unlink(flow);
        self.leave_group(flow);
        let slot = &mut self.slots[flow as usize];
        slot.next = self.free;
        self.free = flow;
        self.len -= 1;
        slot.value
            .take()
            .expect("a flow's number is used while it lives")
    }

    /// Removes a flow, and passes its keys and value to `gone`.
    fn remove_and_report(&mut self, flow: Flow, gone: &mut impl FnMut([K; 2], V)) {
        let keys = *self.keys(flow);
        gone(keys, self.remove(flow));
    }

    /// Removes up to `max` expired flows. Returns true if there may be more.
    pub fn expire(&mut self, now: u64, max: usize, mut gone: impl FnMut([K; 2], V)) -> bool {
        self.expire_guarantees(now);
        for _ in 0..max {
            match self.first_loose() {
                Some((flow, ends)) if ends <= now => self.remove_and_report(flow, &mut gone),
                _ => return false,
            }
        }
        true
    }

    /// Changes the maximum number of flows. Excess flows are removed: first loose flows, those that would expire first
    /// leading, then held flows, the one unused longest leading.
    pub fn set_capacity(&mut self, capacity: usize, now: u64, mut gone: impl FnMut([K; 2], V)) {
        let capacity = capacity.min(FLOWS_MAX);
        self.capacity = capacity;
        self.expire_guarantees(now);
        while self.len > capacity {
            let held = (0..self.classes.len()).map(|class| self.lists[class * 2].head);
            let oldest = held.filter(|&f| f != NONE);
            let oldest = oldest.min_by_key(|&f| self.slots[f as usize].touched);
            match self.first_loose().map(|(flow, _)| flow).or(oldest) {
                Some(flow) => self.remove_and_report(flow, &mut gone),
                None => return,
            }
        }
    }

    /// Puts a flow into a group, as the last one.
    fn join(&mut self, flow: Flow, group: Group) {
        let at = usize::from(group);
        if at >= self.groups.len() {
            self.groups.resize(at + 1, NONE);
        }
        let before = std::mem::replace(&mut self.groups[at], flow);
        self.slots[flow as usize].earlier = before;
        if before != NONE {
            self.slots[before as usize].later = flow;
        }
    }

    /// Takes a flow out of its group.
    fn leave_group(&mut self, flow: Flow) {
        let Slot {
            earlier,
            later,
            group,
            ..
        } = self.slots[flow as usize];
        match later {
            NONE => self.groups[usize::from(group)] = earlier,
            _ => self.slots[later as usize].earlier = earlier,
        }
        if earlier != NONE {
            self.slots[earlier as usize].later = later;
        }
    }

    fn unlink(&mut self, flow: Flow) {
        let Slot {
            prev, next, list, ..
        } = self.slots[flow as usize];
        match prev {
            NONE => self.lists[list as usize].head = next,
            _ => self.slots[prev as usize].next = next,
        }
        match next {
            NONE => self.lists[list as usize].tail = prev,
            _ => self.slots[next as usize].prev = prev,
        }
    }

    fn append(&mut self, flow: Flow, list: u32) {
        let tail = std::mem::replace(&mut self.lists[list as usize].tail, flow);
        match tail {
            NONE => self.lists[list as usize].head = flow,
            _ => self.slots[tail as usize].next = flow,
        }
        let slot = &mut self.slots[flow as usize];
        (slot.prev, slot.next, slot.list) = (tail, NONE, list);
    }
}

#[cfg(test)]
mod tests;
