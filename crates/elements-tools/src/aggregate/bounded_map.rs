//! A bounded map: a new key replaces the one that was idle longest.
//!
//! A sender of forged packets can make new keys at will. A table that refused new keys once it is full would lock out
//! all senders for good. Here such keys replace each other, and a key that is used often enough stays.

use std::hash::Hash;
use tables::flows::Flows;

pub(super) struct BoundedMap<K, V> {
    /// Entries in the order of their last use. Both keys of a flow are the entry's key, and the table's clock stands
    /// still.
    entries: Flows<K, V>,
    evicted: u64,
}

impl<K: Copy + Eq + Hash, V> BoundedMap<K, V> {
    /// An empty table with room for at least one key.
    pub(super) fn new(capacity: usize) -> BoundedMap<K, V> {
        let mut entries = Flows::new(capacity.max(1));
        entries.add_class(0, u64::MAX);
        BoundedMap {
            entries,
            evicted: 0,
        }
    }

    /// Changes the capacity. Calls `gone` for each evicted entry.
    pub(super) fn set_capacity(&mut self, capacity: usize, mut gone: impl FnMut(K, V)) {
        let before = self.len();
        let capacity = capacity.max(1);
        self.entries
            .set_capacity(capacity, 0, |[key, _], value| gone(key, value));
        self.evicted += (before - self.len()) as u64;
    }

    /// Maximum number of keys.
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of keys evicted for others.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn has(&self, key: &K) -> bool {
        self.entries.find(key).is_some()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let found = self.entries.find(key)?;
        Some(self.entries.value(found.flow))
    }

    /// Value of a key, without counting as a use.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let found = self.entries.find(key)?;
        Some(self.entries.value_mut(found.flow))
    }

    /// Value of a key, counting as a use now.
    #[inline]
    pub(super) fn use_of(&mut self, key: &K) -> Option<&mut V> {
        let found = self.entries.find(key)?;
        self.entries.touch(found.flow, 0, 0);
        Some(self.entries.value_mut(found.flow))
    }

    /// Sets the value of a key, counting as a use now. Calls `gone` for each evicted entry.
    pub(super) fn insert(&mut self, key: K, value: V, mut gone: impl FnMut(K, V)) {
        self.remove(&key);
        let evicted = &mut self.evicted;
        self.entries
            .insert([key; 2], value, (0, 0), 0, |[key, _], value| {
                *evicted += 1;
                gone(key, value);
            });
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let found = self.entries.find(key)?;
        Some(self.entries.remove(found.flow))
    }

    /// Removes the least recently used key.
    pub(super) fn pop_idlest(&mut self) -> Option<(K, V)> {
        let mut popped = None;
        self.entries
            .expire(u64::MAX, 1, |[key, _], value| popped = Some((key, value)));
        popped
    }

    /// Removes all entries for which `is_over` returns true, and returns them in no particular order.
    pub(super) fn remove_if(&mut self, is_over: impl Fn(&K, &V) -> bool) -> Vec<(K, V)> {
        let over = self
            .entries
            .iter()
            .filter(|(_, [key, _], value)| is_over(key, value));
        let over: Vec<_> = over.map(|(flow, [key, _], _)| (flow, *key)).collect();
        over.into_iter()
            .map(|(flow, key)| (key, self.entries.remove(flow)))
            .collect()
    }

    /// Removes all entries and returns them, in no particular order.
    pub(super) fn drain(&mut self) -> Vec<(K, V)> {
        self.remove_if(|_, _| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_was_idle_longest_makes_room() {
        let (mut kept, mut gone) = (BoundedMap::new(3), Vec::new());
        for key in [1, 2, 3] {
            kept.insert(key, key * 10, |_, _| panic!("there is room"));
        }
        assert_eq!(kept.use_of(&1), Some(&mut 10));
        assert_eq!(kept.get_mut(&2), Some(&mut 20));
        assert_eq!(kept.get(&9), None);
        kept.insert(4, 40, |key, value| gone.push((key, value)));
        kept.insert(3, 33, |_, _| panic!("it takes its own place"));
        kept.insert(5, 50, |key, value| gone.push((key, value)));
        assert_eq!(
            (gone.as_slice(), kept.evicted()),
            (&[(2, 20), (1, 10)][..], 2)
        );
        assert_eq!(kept.pop_idlest(), Some((4, 40)));
        kept.insert(6, 60, |_, _| panic!("there is room"));
        kept.set_capacity(0, |key, _| gone.push((key, 0)));
        assert_eq!(
            (&gone[2..], kept.len(), kept.evicted()),
            (&[(3, 0), (5, 0)][..], 1, 4)
        );
        assert!(kept.has(&6) && kept.remove(&6) == Some(60) && kept.pop_idlest().is_none());
        kept.insert(7, 70, |_, _| ());
        assert_eq!(kept.remove_if(|key, _| *key != 7), []);
        assert_eq!((kept.drain(), kept.len()), (vec![(7, 70)], 0));
    }
}
