//! Timers: a hierarchical wheel (Varghese and Lauck 1987), for one owner.
//!
//! Time is cut into ticks. Level 0 has a slot for each of the next 64 ticks, level 1 for each of the
//! next 64 stretches of 64 ticks, and so on. A timer waits at the level of the highest digit (base 64)
//! in which its tick differs from now; when time enters its slot it moves down. Setting and cancelling
//! take constant time; expiring takes as much as there is to expire, plus at most one move per timer and
//! level. A timer never runs early, and at most a tick late. Timers of one tick run in no set order.

/// Bits of a digit.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Enough for all 64 bits of a tick.
const LEVELS: usize = 11;
/// The end of a list.
const NIL: u32 = u32::MAX;

/// Names a timer that was set. Stale ids do no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

/// A timer's place: in the list of a slot, or in the list of the free.
#[derive(Debug)]
struct Node<T> {
    /// None: free.
    value: Option<T>,
    tick: u64,
    generation: u32,
    slot: u16,
    next: u32,
    prev: u32,
}

/// Timers that each carry a `T`. Times are nanoseconds.
#[derive(Debug)]
pub struct Wheel<T> {
    tick_ns: u64,
    /// All earlier ticks have been expired.
    now: u64,
    nodes: Vec<Node<T>>,
    free: u32,
    len: usize,
    /// First timer of each slot, level by level.
    heads: Box<[u32; LEVELS * SLOTS]>,
    /// Which slots of a level hold timers.
    used: [u64; LEVELS],
}

impl<T> Wheel<T> {
    /// A wheel with ticks of `tick_ns` (at least 1) that starts at `now`.
    pub fn new(tick_ns: u64, now: u64) -> Self {
        let tick_ns = tick_ns.max(1);
        Wheel {
            tick_ns,
            now: now / tick_ns,
            nodes: Vec::new(),
            free: NIL,
            len: 0,
            heads: Box::new([NIL; LEVELS * SLOTS]),
            used: [0; LEVELS],
        }
    }

    /// Timers that are set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets a timer to run at `at`; one in the past runs at the next expiry.
    pub fn insert(&mut self, at: u64, value: T) -> TimerId {
        let tick = at.div_ceil(self.tick_ns).max(self.now);
        let index = match self.free {
            NIL => {
                let node = Node {
                    value: None,
                    tick,
                    generation: 0,
                    slot: 0,
                    next: NIL,
                    prev: NIL,
                };
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            index => {
                self.free = self.nodes[index as usize].next;
                index
            }
        };
        let node = &mut self.nodes[index as usize];
        node.value = Some(value);
        node.tick = tick;
        let generation = node.generation;
        self.link(index);
        self.len += 1;
        TimerId { index, generation }
    }

    /// Takes a timer back, unless it has run.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let node = self.nodes.get(id.index as usize)?;
        if node.generation != id.generation || node.value.is_none() {
            return None;
        }
        self.unlink(id.index);
        self.take(id.index)
    }

    /// Runs what is due at `now`, in the order of ticks. Returns how many timers ran.
    pub fn expire(&mut self, now: u64, mut run: impl FnMut(T)) -> usize {
        let end = now / self.tick_ns;
        let mut ran = 0;
        while let Some((level, slot, start)) = self.first() {
            if start > end {
                break;
            }
            self.now = self.now.max(start);
            let mut index = std::mem::replace(&mut self.heads[level * SLOTS + slot], NIL);
            self.used[level] &= !(1 << slot);
            while index != NIL {
                let next = self.nodes[index as usize].next;
                if level > 0 {
                    self.link(index); // its digit here is now the same: it goes further down
                } else if let Some(value) = self.take(index) {
                    run(value);
                    ran += 1;
                }
                index = next;
            }
        }
        self.now = self.now.max(end);
        ran
    }

    /// When the next timer is due, rounded up to its tick.
    pub fn next_due(&self) -> Option<u64> {
        let (level, slot, _) = self.first()?;
        let mut index = self.heads[level * SLOTS + slot];
        let mut tick = u64::MAX;
        while let Some(node) = self.nodes.get(index as usize) {
            tick = tick.min(node.tick);
            index = node.next;
        }
        Some(tick.saturating_mul(self.tick_ns))
    }

    /// The first slot with timers: its level, its number, and the first tick that belongs to it.
    fn first(&self) -> Option<(usize, usize, u64)> {
        // A lower level lies wholly before the next slot of a higher one.
        let level = self.used.iter().position(|used| *used != 0)?;
        let slot = self.used[level].trailing_zeros() as usize; // never behind now's digit
        let shift = BITS * level as u32;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        Some((level, slot, self.now & above | (slot as u64) << shift))
    }

    fn link(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        let differ = (node.tick ^ self.now) | 1;
        let level = ((63 - differ.leading_zeros()) / BITS) as usize;
        let slot = (node.tick >> (BITS * level as u32)) as usize % SLOTS;
        let head = &mut self.heads[level * SLOTS + slot];
        node.slot = (level * SLOTS + slot) as u16;
        node.prev = NIL;
        node.next = std::mem::replace(head, index);
        let next = node.next;
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.prev = index;
        }
        self.used[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let Node {
            slot, next, prev, ..
        } = self.nodes[index as usize];
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.prev = prev;
        }
        let slot = usize::from(slot);
        match self.nodes.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => {
                self.heads[slot] = next;
                if next == NIL {
                    self.used[slot / SLOTS] &= !(1 << (slot % SLOTS));
                }
            }
        }
    }

    /// Frees a timer that is in no list.
    fn take(&mut self, index: u32) -> Option<T> {
        let node = &mut self.nodes[index as usize];
        let value = node.value.take()?;
        node.generation = node.generation.wrapping_add(1);
        node.next = std::mem::replace(&mut self.free, index);
        self.len -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Random;
    use std::collections::BTreeMap;

    #[test]
    fn timers_follow_a_sorted_map() {
        for seed in 0..8 {
            let mut random = Random::new(seed);
            let (tick, start) = ([1, 7, 1000][seed as usize % 3], random.below(1 << 45));
            let mut wheel = Wheel::new(tick, start);
            let mut model: BTreeMap<(u64, u64), TimerId> = BTreeMap::new();
            let mut now = start;
            for n in 0..30_000u64 {
                let reach = 1 << random.below(if n % 100 == 0 { 44 } else { 24 });
                match random.below(10) {
                    0..5 => {
                        let at = (now + random.below(reach)).saturating_sub(random.below(50));
                        let due = at.div_ceil(tick).max(now / tick) * tick;
                        model.insert((due, n), wheel.insert(at, (due, n)));
                    }
                    5..7 => {
                        let from = (random.below(reach) + now, 0);
                        if let Some((&key, &id)) = model.range(from..).next() {
                            model.remove(&key);
                            assert_eq!(wheel.cancel(id), Some(key));
                            assert_eq!(wheel.cancel(id), None, "only once");
                        }
                    }
                    _ => {
                        now += random.below(reach);
                        let mut ran = Vec::new();
                        let count = wheel.expire(now, |key| ran.push(key));
                        assert_eq!(count, ran.len());
                        assert!(ran.is_sorted_by_key(|key| key.0), "in the order of ticks");
                        ran.sort();
                        let later = model.split_off(&(now + 1, 0));
                        assert!(ran.iter().eq(model.keys()), "seed {seed} step {n}");
                        model = later;
                    }
                }
                assert_eq!(wheel.len(), model.len());
                assert_eq!(wheel.next_due(), model.keys().next().map(|key| key.0));
            }
        }
    }

    #[test]
    fn a_timer_runs_neither_early_nor_more_than_a_tick_late() {
        let mut wheel = Wheel::new(1000, 0);
        wheel.insert(1500, 'a');
        assert_eq!(wheel.expire(1999, |_| ()), 0);
        assert_eq!(wheel.next_due(), Some(2000));
        assert_eq!(wheel.expire(2000, |_| ()), 1);
        assert!(wheel.is_empty() && wheel.next_due().is_none());
    }

    #[test]
    fn a_timer_of_the_past_runs_at_the_next_expiry() {
        let mut wheel = Wheel::new(10, 0);
        wheel.expire(5000, |()| ());
        wheel.insert(3, ());
        assert_eq!(wheel.expire(5000, |()| ()), 1);
    }

    #[test]
    fn the_end_of_time_can_be_waited_for() {
        let mut wheel = Wheel::new(1, 0);
        let id = wheel.insert(u64::MAX, ());
        wheel.insert(u64::MAX - 1, ());
        assert_eq!(wheel.expire(u64::MAX - 2, |()| ()), 0);
        assert_eq!(wheel.expire(u64::MAX - 1, |()| ()), 1);
        assert_eq!(wheel.cancel(id), Some(()));
    }

    #[test]
    fn places_are_used_again_and_old_ids_do_no_harm() {
        let mut wheel = Wheel::new(1, 0);
        let old = wheel.insert(1, 1);
        wheel.expire(1, |_| ());
        let new = wheel.insert(9, 2);
        assert_eq!(
            (wheel.nodes.len(), wheel.cancel(old), wheel.cancel(new)),
            (1, None, Some(2))
        );
    }
}
