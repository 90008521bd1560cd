//! Reference model of a routing table: a list with linear search.

use std::num::NonZeroU16;

use super::Prefix;

#[derive(Default)]
pub(super) struct Model<const N: usize>(pub(super) Vec<(Prefix<N>, NonZeroU16)>);

impl<const N: usize> Model<N> {
    pub(super) fn insert(&mut self, prefix: Prefix<N>, id: NonZeroU16) -> Option<NonZeroU16> {
        let old = self.remove(prefix);
        self.0.push((prefix, id));
        old
    }

    pub(super) fn remove(&mut self, prefix: Prefix<N>) -> Option<NonZeroU16> {
        let at = self.0.iter().position(|(p, _)| *p == prefix)?;
        Some(self.0.swap_remove(at).1)
    }

    pub(super) fn lookup(&self, address: [u8; N]) -> u16 {
        let matches = self.0.iter().filter(|(p, _)| p.contains(address));
        matches
            .max_by_key(|(p, _)| p.length())
            .map_or(0, |(_, id)| id.get())
    }
}
