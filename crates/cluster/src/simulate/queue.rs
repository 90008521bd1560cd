//! Event queue ordered by time, then by insertion, so that runs are identical byte for byte.
//!
//! Most events are due within milliseconds. They wait unsorted in a ring of short time slots, and are sorted when
//! their slot is reached. Later events wait in a heap. Only indices are moved; the events themselves stay in place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Width of a slot: 2^7 ns.
const SLOT_BITS: u32 = 7;
/// Slots: 17 ms.
const SLOTS: u64 = 1 << 17;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// A waiting event, or a free entry.
#[derive(Debug)]
struct Place<E> {
    at: u64,
    /// The previous event of the same slot, or the next free entry.
    next: u32,
    event: Option<E>,
}

/// Events that are due.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    places: Vec<Place<E>>,
    free: u32,
    /// The time slot whose events are in `near`.
    slot: u64,
    /// Times and indices of events due in this slot or before, the latest first.
    near: Vec<(u64, u32)>,
    /// For each slot, the index of the event that was added last.
    ring: Vec<u32>,
    /// Number of events in the ring.
    waiting: usize,
    /// Later events: time, insertion number and index.
    far: BinaryHeap<Reverse<(u64, u64, u32)>>,
    made: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue {
            places: Vec::new(),
            free: NONE,
            slot: 0,
            near: Vec::new(),
            ring: vec![NONE; SLOTS as usize],
            waiting: 0,
            far: BinaryHeap::new(),
            made: 0,
        }
    }

    /// Adds an event. A time in the past means now.
    #[inline]
    pub(crate) fn add(&mut self, at: u64, event: E) {
        let slot = at >> SLOT_BITS;
        let place = self.place(at, event);
        if slot <= self.slot {
            let before = self.near.partition_point(|&(other, _)| other > at);
            self.near.insert(before, (at, place));
        } else if slot < self.slot + SLOTS {
            let last = &mut self.ring[(slot % SLOTS) as usize];
            self.places[place as usize].next = std::mem::replace(last, place);
            self.waiting += 1;
        } else {
            self.far.push(Reverse((at, self.made, place)));
            self.made += 1;
        }
    }

    /// The next event and its time.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        while self.near.is_empty() {
            self.advance()?;
        }
        let (at, number) = self.near.pop()?;
        let place = &mut self.places[number as usize];
        place.next = std::mem::replace(&mut self.free, number);
        Some((at, place.event.take()?))
    }

    fn place(&mut self, at: u64, event: E) -> u32 {
        let number = self.free;
        let event = Some(event);
        match self.places.get_mut(number as usize) {
            Some(place) => {
                self.free = place.next;
                *place = Place {
                    at,
                    event,
                    ..*place
                };
                number
            }
            None => {
                let next = NONE;
                self.places.push(Place { at, next, event });
                self.places.len() as u32 - 1
            }
        }
    }

    fn advance(&mut self) -> Option<()> {
        let far = self.far.peek().map(|Reverse((at, ..))| at >> SLOT_BITS);
        self.slot = match (self.waiting, far) {
            (0, None) => return None,
            (0, Some(far)) => far,
            _ => self.slot + 1,
        };
        let last = &mut self.ring[(self.slot % SLOTS) as usize];
        let mut number = std::mem::replace(last, NONE);
        while let Some(place) = self.places.get(number as usize) {
            self.near.push((place.at, number));
            number = place.next;
        }
        self.waiting -= self.near.len();
        // Among events at the same time, those in the heap were created before those in the ring.
        let middle = self.near.len();
        while let Some(&Reverse((at, _, number))) = self.far.peek() {
            if at >> SLOT_BITS > self.slot {
                break;
            }
            self.far.pop();
            self.near.push((at, number));
        }
        self.near[middle..].reverse();
        // The sort is stable: events of equal time keep their order, the latest first.
        self.near.sort_by_key(|&(at, _)| Reverse(at));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::SimRng;
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_making() {
        let (mut queue, mut chance) = (Queue::new(), SimRng::new(1));
        let mut naive = Vec::new();
        let mut now = 0;
        let mut seen = Vec::new();
        for number in 0..20_000u32 {
            let wait = match chance.below(3) {
                0 => chance.below(100),
                1 => chance.below(1_000_000),
                _ => chance.below(100_000_000),
            };
            queue.add(now + wait, number);
            naive.push((now + wait, number));
            if chance.below(3) == 0
                && let Some((at, event)) = queue.next()
            {
                assert!(at >= now);
                now = at;
                seen.push((at, event));
            }
        }
        while let Some(next) = queue.next() {
            seen.push(next);
        }
        naive.sort_unstable();
        assert_eq!(seen, naive);
    }
}
