//! Hierarchical link sharing: groups share a link, subscribers share a group, and classes share a subscriber; each
//! class has a queue.
//!
//! On each level, active nodes share their parent's rate in proportion to their own rates (deficit round robin). No
//! node gets more than its ceiling (a token bucket); rate that a node does not use goes to its siblings. If the rates
//! of the children add up to at most their parent's rate, each child gets its rate whatever the others do. CoDel (RFC
//! 8289) drops packets of a queue that stays long. Enqueuing and dequeuing a packet takes constant time, whatever the
//! number of nodes. Time is an argument, in nanoseconds.
//!
//! ```
//! use tables::shares::{Settings, Share, Shares};
//! let share = |rate| Share { rate, ceiling: None };
//! let settings = Settings { link: None, mtu: 1000, ..Settings::default() };
//! // One group with two subscribers, of which the second has three times the rate of the first; one class.
//! let mut shares = Shares::new(settings, &[share(1)], &[share(1)], &[(0, share(100)), (0, share(300))]).unwrap();
//! for n in 0..80 {
//!     let place = shares.queue_index(n % 2, 0);
//!     assert!(shares.push(place, 0, 1000, n).is_ok());
//! }
//! let sent: Vec<usize> = (0..40).filter_map(|_| shares.pop(0, drop)).collect();
//! assert_eq!(sent.iter().filter(|n| *n % 2 == 1).count(), 30);
//! ```

mod frame;
mod list;
mod settings;

use crate::codel::Codel;
use crate::order::BinSort;
use crate::prefetch;
use frame::Frame;
use list::{Child, Link, Lists, NONE, State};
pub use settings::{
    CAPACITY_MAX, CEILINGS_MAX, Counts, Full, QUEUES_MAX, RATIO_MAX, Settings, SettingsError, Share,
};
use settings::{Ceiling, Ceilings, TICKS, quanta};

/// Number of bins for nodes that wait for their ceiling.
const BINS: usize = 1024;
const WIDTH: u64 = 1 << 18;
/// Greatest time ahead for which a node is put into a bin; a node that waits longer is put into a bin again.
const REACH: u64 = BINS as u64 * WIDTH / 2;
/// Flag in the number of a node in a bin: the node is a queue.
const IS_LEAF: u32 = 1 << 31;

/// The link, a group or a subscriber.
#[repr(align(64))]
struct Inner {
    link: Link,
    lists: Lists,
    /// Number of sent bytes.
    bytes: u64,
}

/// The queue of a class of a subscriber.
#[repr(align(64))]
struct Leaf {
    link: Link,
    head: u32,
    tail: u32,
    len: u32,
    packets: u64,
    bytes: u64,
}

/// Rarely used fields of a queue.
#[derive(Clone, Default)]
struct Cold {
    codel: Codel,
    full: u64,
    delay: u64,
}

impl Child for Inner {
    #[inline]
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    #[inline]
    fn round(&self) -> u32 {
        self.link.round
    }
}

impl Child for Leaf {
    #[inline]
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    #[inline]
    fn round(&self) -> u32 {
        self.link.round
    }
}

/// A waiting packet.
struct Slot<T> {
    item: Option<T>,
    arrived_at: u64,
    bytes: u32,
    next: u32,
}

/// The hierarchy. Groups and subscribers have the numbers in which they were given, queues those of
/// [`queue_index`](Self::queue_index).
pub struct Shares<T> {
    settings: Settings,
    classes: usize,
    /// Inner nodes: the link, then groups, then subscribers.
    inner_nodes: Vec<Inner>,
    /// Index of the first subscriber in `inner_nodes`.
    first_subscriber: usize,
    leaves: Vec<Leaf>,
    cold: Vec<Cold>,
    ceilings: Ceilings,
    /// For each group, the lowest rate of its subscribers.
    lowest_rates: Vec<u64>,
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
    /// Nodes that wait for their ceiling.
    waiting: BinSort<(u64, u32)>,
}

impl<T> Shares<T> {
    /// Checks the arguments of [`new`](Self::new) without allocating queues.
    pub fn check(
        settings: Settings,
        classes: &[Share],
        groups: &[Share],
        subscribers: &[(usize, Share)],
    ) -> Result<(), SettingsError> {
        Frame::new(settings, classes, groups, subscribers).map(drop)
    }

    /// An empty hierarchy. All subscribers have the same classes; each subscriber names its group. There is at least
    /// one class.
    pub fn new(
        settings: Settings,
        classes: &[Share],
        groups: &[Share],
        subscribers: &[(usize, Share)],
    ) -> Result<Shares<T>, SettingsError> {
        let Frame {
            settings,
            inners,
            ceilings,
            least,
            class_links,
        } = Frame::new(settings, classes, groups, subscribers)?;
        let first_subscriber = groups.len() + 1;
        let leaf = |parent: usize, &(quantum, ceiling): &(u32, u16)| Leaf {
            link: Link::new(quantum, ceiling, parent as u32),
            head: NONE,
            tail: NONE,
            len: 0,
            packets: 0,
            bytes: 0,
        };
        let leaves: Vec<Leaf> = (first_subscriber..inners.len())
            .flat_map(|parent| class_links.iter().map(move |class| leaf(parent, class)))
            .collect();
        Ok(Shares {
            settings,
            classes: classes.len().max(1),
            inner_nodes: inners,
            first_subscriber,
            cold: vec![Cold::default(); leaves.len()],
            leaves,
            ceilings,
            lowest_rates: least,
            slots: Vec::new(),
            free: NONE,
            len: 0,
            waiting: BinSort::new(BINS, WIDTH),
        })
    }

    /// The number of a queue.
    #[inline]
    pub fn queue_index(&self, subscriber: usize, class: usize) -> usize {
        subscriber * self.classes + class
    }

    /// Sets a subscriber's share. Refused if its rate would differ too much from its siblings', or become the lowest.
    pub fn set(&mut self, subscriber: usize, share: Share) -> Result<(), SettingsError> {
        let Some(inner) = self.inner_nodes.get_mut(self.first_subscriber + subscriber) else {
            return Ok(());
        };
        let group = inner.link.parent as usize - 1;
        let least = self.lowest_rates.get(group).copied().unwrap_or(1);
        let quanta = quanta(&[least, share.rate], self.settings.mtu);
        let quantum = quanta
            .filter(|_| share.rate >= least)
            .map(|quanta| quanta[1]);
        let quantum = quantum.ok_or(SettingsError::Subscribers(group))?;
        let number = self.ceilings.number(&self.settings, share.ceiling, quantum);
        inner.link.ceiling = number.ok_or(SettingsError::Ceilings)?;
        inner.link.quantum = quantum;
        Ok(())
    }

    /// The lowest rate of the subscribers of a group.
    pub fn lowest_rate(&self, group: usize) -> u64 {
        self.lowest_rates.get(group).copied().unwrap_or(1)
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maximum number of waiting packets.
    pub fn capacity(&self) -> usize {
        self.settings.capacity
    }

    /// Maximum memory for these numbers of subscribers and packets, in bytes.
    pub fn memory_bytes(subscribers: usize, classes: usize, capacity: usize) -> usize {
        let queue = size_of::<Leaf>() + size_of::<Cold>();
        subscribers * (size_of::<Inner>() + classes * queue) + capacity * size_of::<Slot<T>>()
    }

    /// Prefetches the memory of a queue that [`push`](Self::push) needs.
    #[inline]
    pub fn prefetch(&self, subscriber: usize, class: usize) {
        if let (Some(leaf), Some(inner)) = (
            self.leaves.get(self.queue_index(subscriber, class)),
            self.inner_nodes.get(self.first_subscriber + subscriber),
        ) {
            prefetch::line(leaf);
            prefetch::line(inner);
        }
    }

    /// Prefetches memory for the next packets of a group: the third subscriber from now, the queue of the second, and
    /// the packet of the first.
    #[inline]
    fn look_ahead(&self, group: u32) -> Option<()> {
        let first = self
            .inner_nodes
            .get(self.inner_nodes[group as usize].lists.first() as usize)?;
        if let Some(leaf) = self.leaves.get(first.lists.first() as usize) {
            self.slots.get(leaf.head as usize).map(prefetch::line);
        }
        let second = self.inner_nodes.get(first.link.next() as usize)?;
        self.leaves
            .get(second.lists.first() as usize)
            .map(prefetch::line);
        self.inner_nodes
            .get(second.link.next() as usize)
            .map(prefetch::line)
    }

    /// Length of a queue.
    pub fn queued(&self, place: usize) -> usize {
        self.leaves.get(place).map_or(0, |leaf| leaf.len as usize)
    }

    /// Enqueues a packet.
    #[inline]
    pub fn push(&mut self, place: usize, now: u64, bytes: u32, item: T) -> Result<(), (Full, T)> {
        let room = self.settings.capacity - self.len.min(self.settings.capacity);
        let Some(leaf) = self.leaves.get(place) else {
            return Err((Full::Memory, item));
        };
        let len = leaf.len as usize;
        if len >= self.settings.limit || len >= room {
            self.cold[place].full += 1;
            let full = len >= self.settings.limit;
            return Err((if full { Full::Queue } else { Full::Memory }, item));
        }
        self.put_back(place, now, bytes, item);
        Ok(())
    }

    /// Enqueues a packet that arrived at `now`, even if the queue is full.
    #[inline]
    pub fn put_back(&mut self, place: usize, now: u64, bytes: u32, item: T) {
        let Some(leaf) = self.leaves.get_mut(place) else {
            return;
        };
        let slot = Slot {
            item: Some(item),
            arrived_at: now,
            bytes,
            next: NONE,
        };
        let at = match self.slots.get_mut(self.free as usize) {
            Some(free) => {
                let at = std::mem::replace(&mut self.free, free.next);
                *free = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        leaf.len += 1;
        self.len += 1;
        let tail = std::mem::replace(&mut leaf.tail, at);
        if leaf.len > 1 {
            self.slots[tail as usize].next = at;
        } else {
            leaf.head = at;
            self.raise_leaf(place as u32, now.saturating_mul(TICKS));
        }
    }

    /// Makes a node wait until its ceiling lets it send.
    #[inline]
    fn wait_for(&mut self, due: u64, now: u64, number: u32) {
        let at = (due / TICKS + 1).min(now / TICKS + REACH);
        self.waiting.push(at, (at, number));
    }

    /// Activates a queue that has something to send. Times are in ticks.
    #[inline]
    fn raise_leaf(&mut self, leaf: u32, now: u64) {
        let link = &mut self.leaves[leaf as usize].link;
        if link.due > now {
            link.state = State::Waiting;
            let due = link.due;
            return self.wait_for(due, now, leaf | IS_LEAF);
        }
        let parent = link.parent as usize;
        self.inner_nodes[parent].lists.add(&mut self.leaves, leaf);
        if self.inner_nodes[parent].link.state == State::Idle {
            self.activate(parent, now);
        }
    }

    /// Activates a node that was idle or waiting, and its ancestors.
    fn activate(&mut self, mut node: usize, now: u64) {
        while node > 0 {
            let link = &mut self.inner_nodes[node].link;
            if link.due > now {
                link.state = State::Waiting;
                let due = link.due;
                return self.wait_for(due, now, node as u32);
            }
            let parent = link.parent as usize;
            let mut lists = self.inner_nodes[parent].lists;
            lists.add(&mut self.inner_nodes, node as u32);
            self.inner_nodes[parent].lists = lists;
            if self.inner_nodes[parent].link.state != State::Idle {
                return;
            }
            node = parent;
        }
        self.inner_nodes[0].link.state = State::Listed;
    }

    /// Activates nodes whose ceilings let them send by now.
    #[inline]
    fn wake(&mut self, now: u64) {
        while self.waiting.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, number)) = self.waiting.pop()
        {
            let ticks = now.saturating_mul(TICKS);
            if number & IS_LEAF != 0 {
                self.raise_leaf(number & !IS_LEAF, ticks);
                continue;
            }
            let node = number as usize;
            if self.inner_nodes[node].lists.first() == NONE {
                self.inner_nodes[node].link.state = State::Idle;
            } else {
                self.activate(node, ticks);
            }
        }
    }

    /// Time at which to call [`pop`](Self::pop) again after it has returned nothing; `None` if no packet waits.
    pub fn next_pop_at(&self) -> Option<u64> {
        let root = &self.inner_nodes[0];
        let waits = self.waiting.first().map(|(at, _)| *at);
        match root.lists.first() {
            NONE => waits,
            _ => Some(root.link.due.div_ceil(TICKS)),
        }
    }

    /// Dequeues the next packet. Packets that CoDel drops before it go to `dropped`.
    #[inline]
    pub fn pop(&mut self, now: u64, mut dropped: impl FnMut(T)) -> Option<T> {
        if !self.waiting.is_empty() {
            self.wake(now);
        }
        let ticks = now.saturating_mul(TICKS);
        if self.inner_nodes[0].link.due > ticks {
            return None;
        }
        let group = self.inner_nodes[0].lists.first();
        let subscriber = self.inner_nodes.get(group as usize)?.lists.first();
        let place = self.inner_nodes.get(subscriber as usize)?.lists.first();
        let leaf = self.leaves.get_mut(place as usize)?;
        let (item, bytes) = loop {
            let at = leaf.head;
            let slot = &mut self.slots[at as usize];
            let item = slot.item.take()?;
            leaf.head = std::mem::replace(&mut slot.next, self.free);
            self.free = at;
            leaf.len -= 1;
            self.len -= 1;
            if let Some(aim) = &self.settings.codel {
                let sojourn = now.saturating_sub(slot.arrived_at);
                if leaf.link.watched || sojourn >= aim.target {
                    let cold = &mut self.cold[place as usize];
                    let drops = cold.codel.drops(aim, now, sojourn, leaf.len == 0);
                    leaf.link.watched = !cold.codel.is_quiet();
                    if drops {
                        cold.delay += 1;
                        dropped(item);
                        continue; // to the next packet: CoDel never drops the last one
                    }
                }
            }
            break (item, slot.bytes);
        };
        leaf.packets += 1;
        leaf.bytes += u64::from(bytes);
        self.charge(place, ticks, bytes);
        self.look_ahead(group);
        Some(item)
    }

    /// Charges a queue and its ancestors for a sent packet.
    #[inline]
    fn charge(&mut self, place: u32, now: u64, bytes: u32) {
        let leaf = &mut self.leaves[place as usize];
        let more = leaf.len > 0;
        let (state, due) = charge(&mut leaf.link, &self.ceilings.all, now, bytes, more);
        let mut node = self.first_subscriber + place as usize / self.classes;
        self.inner_nodes[node]
            .lists
            .served(&mut self.leaves, place, state);
        if state == State::Waiting {
            self.wait_for(due, now, place | IS_LEAF);
        }
        loop {
            let inner = &mut self.inner_nodes[node];
            inner.bytes += u64::from(bytes);
            let more = inner.lists.first() != NONE;
            let (state, due) = charge(&mut inner.link, &self.ceilings.all, now, bytes, more);
            if node == 0 {
                // The node is in no list, and waits for its ceiling.
                inner.link.state = if more { State::Listed } else { State::Idle };
                return;
            }
            let parent = inner.link.parent as usize;
            let mut lists = self.inner_nodes[parent].lists;
            lists.served(&mut self.inner_nodes, node as u32, state);
            self.inner_nodes[parent].lists = lists;
            if state == State::Waiting {
                self.wait_for(due, now, node as u32);
            }
            node = parent;
        }
    }

    /// Removes all packets, in order within each queue: the queue, the time of arrival, the length in bytes, and the
    /// packet.
    pub fn drain(&mut self) -> Vec<(usize, u64, u32, T)> {
        let mut all = Vec::with_capacity(self.len);
        for (place, leaf) in self.leaves.iter_mut().enumerate() {
            let mut at = leaf.head;
            for _ in 0..std::mem::take(&mut leaf.len) {
                let slot = &mut self.slots[at as usize];
                let item = slot.item.take();
                all.extend(item.map(|item| (place, slot.arrived_at, slot.bytes, item)));
                at = slot.next;
            }
            leaf.link.state = State::Idle;
        }
        for inner in &mut self.inner_nodes {
            inner.lists = Lists::EMPTY;
            // The ceiling remains in force: `due` stays.
            inner.link.state = State::Idle;
            inner.link.round = 0;
        }
        for leaf in &mut self.leaves {
            leaf.link.round = 0;
        }
        while self.waiting.pop().is_some() {}
        self.slots.clear();
        (self.free, self.len) = (NONE, 0);
        all
    }

    /// Counts of a queue.
    pub fn queue_counts(&self, place: usize) -> Counts {
        let (Some(leaf), Some(cold)) = (self.leaves.get(place), self.cold.get(place)) else {
            return Counts::default();
        };
        Counts {
            packets: leaf.packets,
            bytes: leaf.bytes,
            held: leaf.len.into(),
            full: cold.full,
            delay: cold.delay,
        }
    }

    /// Sum of the counts of all queues of these subscribers.
    pub fn counts(&self, subscribers: std::ops::Range<usize>) -> Counts {
        let places = subscribers.start * self.classes..subscribers.end * self.classes;
        let mut sum = Counts::default();
        places.for_each(|place| sum += self.queue_counts(place));
        sum
    }

    /// Number of bytes that the subscribers of a group have sent.
    pub fn group_bytes(&self, group: usize) -> u64 {
        let inner = self.inner_nodes[..self.first_subscriber].get(group + 1);
        inner.map_or(0, |inner| inner.bytes)
    }
}

/// Charges a node for a sent packet; returns its new state, and the time from which it may send again.
#[inline]
fn charge(link: &mut Link, ceilings: &[Ceiling], now: u64, bytes: u32, more: bool) -> (State, u64) {
    link.deficit = link.deficit.saturating_sub_unsigned(bytes);
    if link.ceiling != 0 {
        link.due = ceilings[link.ceiling as usize].charge(link.due, now, bytes);
    }
    let state = match more {
        false => State::Idle,
        true if link.due > now => State::Waiting,
        true => State::Listed,
    };
    (state, link.due)
}

#[cfg(test)]
mod tests;
