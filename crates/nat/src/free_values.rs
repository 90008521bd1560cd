//! Free values of a pattern's range for a flow.
//!
//! A few values are tried first, and mostly one of them is free. If none is, nearly the whole range is in use for this
//! place, such as a destination. From then on a set is kept of the place's values that may be free: a value leaves it
//! when it is found in use, and returns when its flow goes. So each failed look is paid for by a flow that has taken a
//! value, and if nothing is free this is known without a look. The set goes with the flows.

use super::key::Key;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use tables::number_set::Numbers;

/// Range length below which every value is tried.
const FEW: u32 = 32;
/// Number of used values tried before the range's free values are tracked. With half of the range free, one new flow in
/// 16 gets this far, so tracking starts long before free values run out.
const TRIES: u32 = 4;
/// Maximum number of used values tried for one packet. Values found in use are not tried again for later packets.
const TRIES_MAX: u32 = 512;
/// Number of values in foreign buckets tried per used value, since their replies would reach another worker.
const OTHERS: u32 = 32;
/// Range length below which free values are tracked. Using half of a longer range takes more flows than a table holds.
const TRACKED_RANGE_MAX: u32 = 1 << 24;

/// Varying field of a rewritten flow, with the first value of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    /// Source ports.
    Ports(u32),
    /// Source addresses.
    Addresses(u32),
}

/// State of a candidate value for a new flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// No mapping uses the value.
    Free,
    /// Replies would match another flow's mapping.
    Taken,
    /// Replies would hash to a bucket other than the flow's.
    OtherBucket,
}

/// Allocation scope of a value: the fixed fields, the range and the bucket of a rewritten flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllocationScope {
    /// Key of the rewritten flow, with the first value in the varying field.
    key: Key,
    range: Range,
    /// Length of the range minus 1.
    top: u32,
    bucket: u16,
}

impl AllocationScope {
    /// A place for a flow with this key. `range` has `top` + 1 values.
    pub fn new(key: Key, (range, top): (Range, u32), bucket: u16) -> AllocationScope {
        let mut place = AllocationScope {
            key,
            range,
            top,
            bucket,
        };
        place.key = place.key_for(0);
        place
    }

    /// Key of the rewritten flow with `value` in the varying field.
    pub fn key_for(&self, value: u32) -> Key {
        match self.range {
            Range::Ports(low) => Key {
                sport: (low + value) as u16,
                ..self.key
            },
            Range::Addresses(low) => Key {
                src: low + value,
                ..self.key
            },
        }
    }

    /// Allocation scope and value of the rewritten flow `key`; `None` if its varying field is outside the range.
    fn of(key: Key, (range, top): (Range, u32), bucket: u16) -> Option<(AllocationScope, u32)> {
        let value = match range {
            Range::Ports(low) => u32::from(key.sport).checked_sub(low)?,
            Range::Addresses(low) => key.src.checked_sub(low)?,
        };
        (value <= top).then(|| (AllocationScope::new(key, (range, top), bucket), value))
    }

    /// Uniformly distributed random value of the range.
    fn any(&self, random: &mut impl FnMut() -> u32) -> u32 {
        ((u64::from(random()) * (u64::from(self.top) + 1)) >> 32) as u32
    }
}

/// Values of a place not yet found in use.
struct FreeValues {
    values: Numbers,
    /// Number of flows ended since tracking began.
    released: u32,
}

/// Free values of the places at which tracking has begun, because many values were in use.
#[derive(Default)]
pub struct FreeTracker {
    scarce: HashMap<AllocationScope, FreeValues>,
    /// Ranges of the tracked places.
    ranges: Vec<(Range, u32)>,
}

impl FreeTracker {
    /// Finds a free value of a place. The search begins at `first`; if not `in_order`, it may continue at random
    /// values. `flows` is the number of flows in the table; `look` returns the state of a candidate key.
    pub fn find(
        &mut self,
        place: &AllocationScope,
        (first, in_order): (u32, bool),
        flows: usize,
        mut look: impl FnMut(&Key) -> Value,
        mut random: impl FnMut() -> u32,
    ) -> Option<u32> {
        if place.top < FEW {
            let all = (first..=place.top).chain(0..first);
            return { all }.find(|&value| look(&place.key_for(value)) == Value::Free);
        }
        if let Some(scarce) = self.scarce.get_mut(place) {
            return scarce.find(place, first, look);
        }
        let tries = if place.top < TRACKED_RANGE_MAX {
            TRIES
        } else {
            TRIES_MAX
        };
        let (mut taken, mut others, mut value) = (0, 0, first);
        while taken < tries && others < TRIES_MAX * OTHERS {
            match look(&place.key_for(value)) {
                Value::Free => return Some(value),
                Value::Taken => taken += 1,
                Value::OtherBucket => others += 1,
            }
            value = match in_order {
                true if value < place.top => value + 1,
                true => 0,
                false => place.any(&mut random),
            };
        }
        if place.top >= TRACKED_RANGE_MAX {
            return None;
        }
        self.track(place, flows).find(place, first, look)
    }

    /// Begins to track the free values of a place.
    fn track(&mut self, place: &AllocationScope, flows: usize) -> &mut FreeValues {
        // The bound is 4 MiB plus 256 bytes per flow. Tracking rarely begins while fewer flows than half of the range
        // exist.
        let bytes: usize = self.scarce.keys().map(|p| p.top as usize / 8).sum();
        if bytes > (1 << 22) + 256 * flows {
            self.scarce.clear();
            self.ranges.clear();
        }
        if !self.ranges.contains(&(place.range, place.top)) {
            self.ranges.push((place.range, place.top));
        }
        self.scarce.entry(*place).or_insert_with(|| FreeValues {
            values: Numbers::all_below(place.top + 1),
            released: 0,
        })
    }

    /// Marks a value free after its flow has ended. `reply` is the key of the flow's replies.
    pub fn release(&mut self, reply: &Key, bucket: u16) {
        if self.scarce.is_empty() {
            return;
        }
        for &range in &self.ranges {
            let found = AllocationScope::of(reply.reversed(), range, bucket);
            if let Some((place, value)) = found
                && let Entry::Occupied(mut entry) = self.scarce.entry(place)
            {
                let scarce = entry.get_mut();
                scarce.values.insert(value);
                scarce.released += 1;
                // More than half of the range is free: a short search finds a value without tracking.
                let half = place.top / 2;
                if scarce.released > half && scarce.values.len() > half as usize {
                    entry.remove();
                }
            }
        }
    }
}

impl FreeValues {
    fn find(
        &mut self,
        place: &AllocationScope,
        first: u32,
        mut look: impl FnMut(&Key) -> Value,
    ) -> Option<u32> {
        let (mut taken, mut others, mut from) = (0, 0, first);
        while taken < TRIES_MAX && others < TRIES_MAX * OTHERS {
            let next = self.values.next_from(from);
            let value = next.or_else(|| self.values.next_from(0))?;
            match look(&place.key_for(value)) {
                // A free value remains in the set until a search finds it in use: if the table is full, the flow takes
                // no value.
                Value::Free => return Some(value),
                Value::Taken => taken += 1,
                Value::OtherBucket => others += 1,
            }
            self.values.remove(value);
            from = value;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A world of flows that counts how often it is asked.
    #[derive(Default)]
    struct World {
        free: FreeTracker,
        taken: HashSet<Key>,
        looks: u64,
        seed: u64,
    }

    const RANGE: (Range, u32) = (Range::Ports(1024), 64_511);

    fn to(destination: u32) -> Key {
        Key {
            src: 1,
            dst: destination,
            dport: 80,
            proto: 6,
            ..Key::default()
        }
    }

    impl World {
        fn random(&mut self) -> u32 {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.seed >> 32) as u32
        }

        /// A new flow, which takes a free value if there is one; also returns the number of states that were looked up.
        fn flow(&mut self, place: &AllocationScope, order: (u32, bool)) -> (Option<u32>, u64) {
            let before = self.looks;
            let mut seed = self.random();
            let (taken, looks) = (&self.taken, &mut self.looks);
            let look = |key: &Key| {
                *looks += 1;
                match taken.contains(key) {
                    true => Value::Taken,
                    false => Value::Free,
                }
            };
            let random = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed
            };
            let found = self.free.find(place, order, self.taken.len(), look, random);
            if let Some(value) = found {
                assert!(self.taken.insert(place.key_for(value)), "{value} is taken");
            }
            (found, self.looks - before)
        }

        fn end(&mut self, place: &AllocationScope, value: u32) {
            assert!(self.taken.remove(&place.key_for(value)));
            self.free.release(&place.key_for(value).reversed(), 0);
        }
    }

    #[test]
    fn exhausted_places_cost_no_look_and_freed_values_are_found() {
        let mut world = World::default();
        let places = [1, 2, 3].map(|destination| AllocationScope::new(to(destination), RANGE, 0));
        let full = u64::from(RANGE.1) + 1;
        for place in &places {
            // Flows with chosen ports take all.
            let all = (0..=RANGE.1).map(|value| place.key_for(value));
            world.taken.extend(all);
            let first = world.random() % RANGE.1;
            let mut asked = 0;
            for _ in 0..200 {
                let (found, looks) = world.flow(place, (first, false));
                assert!(found.is_none() && looks <= u64::from(TRIES + TRIES_MAX));
                asked += looks;
            }
            assert_eq!(asked, full + u64::from(TRIES), "each was asked about once");
        }
        let before = world.looks;
        for turn in 0..10_000 {
            assert_eq!(world.flow(&places[turn % 3], (5, false)).0, None);
        }
        assert_eq!(world.looks, before, "it is known that nothing is free");
        for value in [0, 77, RANGE.1] {
            world.end(&places[1], value);
            assert_eq!(world.flow(&places[0], (5, false)), (None, 0));
            assert_eq!(world.flow(&places[1], (5, false)), (Some(value), 1));
            assert_eq!(world.flow(&places[1], (5, false)), (None, 1));
        }
    }

    #[test]
    fn the_last_values_are_found_with_few_looks() {
        for in_order in [false, true] {
            let mut world = World::default();
            let place = AllocationScope::new(to(1), RANGE, 0);
            let (mut next, mut live) = (0, Vec::new());
            for _ in 0..=RANGE.1 {
                let first = if in_order {
                    next
                } else {
                    world.random() % RANGE.1
                };
                let (found, _) = world.flow(&place, (first, in_order));
                let value = found.expect("one is free");
                next = if value == RANGE.1 { 0 } else { value + 1 };
                live.push(value);
            }
            assert!(world.looks < 6 * u64::from(RANGE.1), "{}", world.looks);
            while world.flow(&place, (9, in_order)) != (None, 0) {}
            // Some flows begin and end while nearly all values are in use.
            world.looks = 0;
            for _ in 0..20_000 {
                let at = world.random() as usize % live.len();
                world.end(&place, live.swap_remove(at));
                let first = world.random() % RANGE.1;
                live.push(
                    world
                        .flow(&place, (first, in_order))
                        .0
                        .expect("one is free"),
                );
            }
            assert!(world.looks < 3 * 20_000, "{}", world.looks);
            // Sets of values are removed with the flows.
            for value in live {
                world.end(&place, value);
            }
            assert!(world.free.scarce.is_empty());
        }
    }

    #[test]
    fn in_order_the_next_free_one_is_found() {
        let mut world = World::default();
        let place = AllocationScope::new(to(1), RANGE, 0);
        let used = (100..400).chain(402..500);
        world.taken.extend(used.map(|value| place.key_for(value)));
        for (first, value) in [(100, 400), (100, 401), (100, 500), (99, 99), (99, 501)] {
            assert_eq!(world.flow(&place, (first, true)).0, Some(value));
        }
    }
}
