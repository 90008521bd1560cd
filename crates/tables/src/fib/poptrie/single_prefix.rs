//! An IPv6 node for a single prefix that differs from everything around it.
//!
//! After the bits that distinguish networks, most words of a trie lead to a single prefix. Instead of a node for each 6
//! bits up to the prefix's end, there is one node of 16 bytes: the prefix, the id inside, and the id outside. The node
//! does not depend on its level in the trie, so it moves to another level unchanged.

use std::ops::Range;

use super::{NODE_BITS, SLOTS, Slot};

/// A prefix of at most 64 bits, and the ids of routes (0: none) inside and outside of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SinglePrefix {
    /// The prefix, padded with zeros.
    prefix: u64,
    /// Three fields of 16 bits, from the lowest: 64 minus the prefix's length, the id inside, the id outside.
    ids: u64,
}

impl SinglePrefix {
    /// Number of words of a lone prefix.
    pub(super) const WORDS: usize = 2;

    /// The node that has `inside` as slots and replaces nodes for the bits from `at` on, below addresses that begin
    /// with `path`. `None` if the prefix is longer than 64 bits.
    pub(super) fn new(
        path: u64,
        at: u32,
        inside: &Range<usize>,
        [id, outside]: [Slot; 2],
    ) -> Option<SinglePrefix> {
        let shift = (64 - NODE_BITS + inside.len().trailing_zeros()).checked_sub(at)?;
        let place = (inside.start as u64) << (64 - NODE_BITS) >> at;
        let [id, outside] = [id, outside].map(|slot| u64::from(slot.id()));
        Some(SinglePrefix {
            prefix: path | place,
            ids: outside << 32 | id << 16 | u64::from(shift),
        })
    }

    #[inline(always)]
    pub(super) fn of_words([prefix, ids]: [u64; 2]) -> SinglePrefix {
        SinglePrefix { prefix, ids }
    }

    pub(super) fn words(self) -> [u64; 2] {
        [self.prefix, self.ids]
    }

    /// The id for addresses whose first 64 bits are `key`.
    #[inline(always)]
    pub(super) fn id(self, key: u64) -> u16 {
        let is_outside = (self.prefix ^ key) >> (self.ids % 64) != 0;
        (self.ids >> if is_outside { 32 } else { 16 }) as u16
    }

    pub(super) fn outside(self) -> Slot {
        Slot((self.ids >> 32) as u32)
    }

    /// True if the prefix is longer than `at` bits.
    pub(super) fn is_beyond(self, at: u32) -> bool {
        64 - (self.ids % 64) as u32 > at
    }

    /// The slots of an equivalent ordinary node for the bits from `at` on; `own` is the word that points to this
    /// node.
    pub(super) fn slots(self, own: Slot, at: u32) -> [Slot; SLOTS] {
        let mut slots = [self.outside(); SLOTS];
        let first = (self.prefix << at >> (64 - NODE_BITS)) as usize;
        match (at + NODE_BITS + (self.ids % 64) as u32).checked_sub(64) {
            None => slots[first] = own,
            Some(bits) => {
                let inside = Slot(u32::from((self.ids >> 16) as u16));
                slots[first..][..1 << bits].fill(inside);
            }
        }
        slots
    }
}

/// The range of slots of a single prefix that are equal and differ from all others, and the value of all other slots;
/// `None` if there is no such range. `bitmap` has a bit for each slot that differs from the next one.
pub(super) fn single_range(slots: &[Slot; SLOTS], bitmap: u64) -> Option<(Range<usize>, Slot)> {
    let second = bitmap.trailing_zeros() as usize + 1;
    let last = SLOTS - bitmap.leading_zeros() as usize;
    let (inside, outside) = match bitmap.count_ones() {
        1 if second.is_power_of_two() => (0..second, slots[second]),
        1 => (second..SLOTS, slots[0]),
        2 if slots[0] == slots[last] => (second..last, slots[0]),
        _ => return None,
    };
    let count = inside.len();
    (count.is_power_of_two() && inside.start.is_multiple_of(count)).then_some((inside, outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bitmap of the slots that differ from the next one.
    fn bitmap(slots: &[Slot; SLOTS]) -> u64 {
        let differ = slots.windows(2).enumerate();
        differ.fold(0, |map, (i, pair)| map | u64::from(pair[0] != pair[1]) << i)
    }

    #[test]
    fn a_prefix_among_slots_is_found_and_spelt_out_again() {
        for at in [20, 44, 56, 62] {
            let path = 0x2001_0db8_1234_5678 >> (64 - at) << (64 - at);
            for start in 0..SLOTS {
                for end in start + 1..=SLOTS {
                    let mut slots = [Slot(7); SLOTS];
                    slots[start..end].fill(Slot(9));
                    let count = end - start;
                    let is_prefix = |start: usize, count: usize| {
                        count.is_power_of_two() && start.is_multiple_of(count)
                    };
                    let bits = |count: usize| NODE_BITS - count.trailing_zeros();
                    // Alternatively all slots except those of a prefix.
                    let other = (start == 0 && is_prefix(end, SLOTS - end))
                        || (end == SLOTS && is_prefix(0, start));
                    let found = single_range(&slots, bitmap(&slots));
                    if count == SLOTS {
                        continue; // such slots need no node
                    }
                    assert_eq!(found.is_some(), is_prefix(start, count) || other);
                    let Some((inside, outside)) = found else {
                        continue;
                    };
                    let ids = [slots[inside.start], outside];
                    let lone = SinglePrefix::new(path, at, &inside, ids);
                    assert_eq!(lone.is_some(), at + bits(inside.len()) <= 64);
                    let Some(lone) = lone else { continue };
                    assert_eq!(lone.slots(Slot::NONE, at), slots);
                    for (i, slot) in slots.iter().enumerate() {
                        let key = path | (i as u64) << (64 - NODE_BITS) >> at;
                        assert_eq!(lone.id(key), slot.id(), "{at} {start} {end} {i}");
                        assert_eq!(lone.id(!key), outside.id());
                    }
                }
            }
        }
    }

    #[test]
    fn a_prefix_beyond_a_node_is_below_one_of_its_slots() {
        let inside = SinglePrefix::new(0x2001_0db8 << 32, 32, &(5..6), [Slot(3), Slot(4)]).unwrap();
        let own = Slot(Slot::WIDE | 2);
        let slots = inside.slots(own, 20);
        assert!(inside.is_beyond(37) && !inside.is_beyond(38));
        assert_eq!(slots.iter().filter(|slot| **slot == own).count(), 1);
        assert_eq!(slots[0x2001_0db8 >> 6 & 63], own);
        assert_eq!(slots[0], Slot(4));
        assert_eq!(inside, SinglePrefix::of_words(inside.words()));
    }
}
