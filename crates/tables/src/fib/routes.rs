//! Every route, in order: what the writer knows and the lookup structures are made from.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use super::Prefix;

/// A route: a prefix and the id of its next-hop group.
pub type Route<const N: usize> = (Prefix<N>, NonZeroU16);

/// Routes sorted by address, then by length, in a B-tree (about 12 bytes each for IPv4).
#[derive(Debug, Clone, Default)]
pub struct Routes<const N: usize>(BTreeMap<Prefix<N>, NonZeroU16>);

impl<const N: usize> Routes<N> {
    /// Adds a route or changes the one of this prefix; returns the id that it had.
    pub fn insert(&mut self, prefix: Prefix<N>, id: NonZeroU16) -> Option<NonZeroU16> {
        self.0.insert(prefix, id)
    }

    /// Removes the route of this very prefix; returns the id that it had.
    pub fn remove(&mut self, prefix: &Prefix<N>) -> Option<NonZeroU16> {
        self.0.remove(prefix)
    }

    /// The id of the route of this very prefix.
    pub fn get(&self, prefix: &Prefix<N>) -> Option<NonZeroU16> {
        self.0.get(prefix).copied()
    }

    /// The longest route that covers `prefix` and is shorter.
    ///
    /// The route that sorts just before a prefix either covers it or parts from it at some bit; then no
    /// route between that bit and the prefix's end can cover it, and the search goes on from there.
    pub fn covering(&self, prefix: &Prefix<N>) -> Option<Route<N>> {
        let (mut before, mut id) = self.0.range(..prefix).next_back()?;
        while !before.covers(prefix) {
            (before, id) = self.0.range(..=before.common(prefix)).next_back()?;
        }
        Some((*before, *id))
    }

    /// The route of `prefix` itself, or else the longest that covers it; never the default route.
    pub(super) fn specific(&self, prefix: &Prefix<N>) -> Option<Route<N>> {
        let own = self.get(prefix).map(|id| (*prefix, id));
        own.or_else(|| self.covering(prefix))
            .filter(|(prefix, _)| prefix.length() > 0)
    }

    /// All routes.
    pub fn iter(&self) -> impl Iterator<Item = Route<N>> {
        self.0.iter().map(|(p, id)| (*p, *id))
    }

    /// The routes that `prefix` covers, without its own.
    pub fn below(&self, prefix: &Prefix<N>) -> impl Iterator<Item = Route<N>> {
        let range = self.0.range(prefix..=&prefix.last());
        let own = *prefix;
        range
            .map(|(p, id)| (*p, *id))
            .filter(move |(p, _)| *p != own)
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An estimate of the memory, in bytes: nodes of the tree are two thirds full.
    pub fn memory_bytes(&self) -> usize {
        self.len() * size_of::<Route<N>>() * 3 / 2
    }
}
