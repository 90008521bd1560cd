//! Events in the order of their times, and of their making where these agree: so runs are the same byte for byte.
//!
//! Most events are due within milliseconds. They wait unsorted in a ring of slots of a microsecond each, and are sorted
//! when their slot is reached; the rest waits in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Width of a slot: 2^10 ns.
const WIDTH: u32 = 10;
/// Slots: 8 ms.
const SLOTS: u64 = 8192;

/// Something that is due.
#[derive(Clone, Copy, Debug)]
struct Due<E> {
    at: u64,
    number: u64,
    event: E,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Events that are due.
#[derive(Debug)]
pub(super) struct Queue<E> {
    /// The slot that `near` is of.
    slot: u64,
    near: BinaryHeap<Reverse<Due<E>>>,
    ring: Vec<Vec<Due<E>>>,
    /// Events in the ring.
    waiting: usize,
    far: BinaryHeap<Reverse<Due<E>>>,
    made: u64,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Queue<E> {
        Queue {
            slot: 0,
            near: BinaryHeap::new(),
            ring: (0..SLOTS).map(|_| Vec::new()).collect(),
            waiting: 0,
            far: BinaryHeap::new(),
            made: 0,
        }
    }

    /// Adds an event. What is due in the past is due now.
    pub(super) fn add(&mut self, at: u64, event: E) {
        let number = self.made;
        self.made += 1;
        let due = Due { at, number, event };
        match at >> WIDTH {
            slot if slot <= self.slot => self.near.push(Reverse(due)),
            slot if slot < self.slot + SLOTS => {
                self.ring[(slot % SLOTS) as usize].push(due);
                self.waiting += 1;
            }
            _ => self.far.push(Reverse(due)),
        }
    }

    /// The next event and its time.
    pub(super) fn next(&mut self) -> Option<(u64, E)> {
        while self.near.is_empty() {
            self.advance()?;
        }
        let Reverse(due) = self.near.pop()?;
        Some((due.at, due.event))
    }

    fn advance(&mut self) -> Option<()> {
        let far = self.far.peek().map(|Reverse(due)| due.at >> WIDTH);
        self.slot = match (self.waiting, far) {
            (0, None) => return None,
            (0, Some(far)) => far,
            _ => self.slot + 1,
        };
        let slot = &mut self.ring[(self.slot % SLOTS) as usize];
        self.waiting -= slot.len();
        self.near.extend(slot.drain(..).map(Reverse));
        while let Some(due) = self.far.peek_mut_if(|due| due.at >> WIDTH <= self.slot) {
            self.near.push(Reverse(due));
        }
        Some(())
    }
}

/// Takes the head of a heap if it is wanted.
trait PopIf<E> {
    fn peek_mut_if(&mut self, wanted: impl Fn(&Due<E>) -> bool) -> Option<Due<E>>;
}

impl<E> PopIf<E> for BinaryHeap<Reverse<Due<E>>> {
    fn peek_mut_if(&mut self, wanted: impl Fn(&Due<E>) -> bool) -> Option<Due<E>> {
        match self.peek() {
            Some(Reverse(due)) if wanted(due) => self.pop().map(|Reverse(due)| due),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chance::Chance;
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_making() {
        let (mut queue, mut chance) = (Queue::new(), Chance::new(1));
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
