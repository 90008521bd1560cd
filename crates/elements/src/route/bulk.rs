//! The look-ups of a batch, all made before its packets are stepped.

use super::family::Family;
use engine::packet::Batch;
use tables::fib::Fib;

/// The groups of a batch's packets.
pub(crate) struct Bulk<F: Family<N>, const N: usize> {
    keys: Vec<F::Key>,
    ids: Vec<u16>,
    stepped: usize,
}

impl<F: Family<N>, const N: usize> Default for Bulk<F, N> {
    fn default() -> Self {
        Bulk {
            keys: Vec::new(),
            ids: Vec::new(),
            stepped: 0,
        }
    }
}

impl<F: Family<N>, const N: usize> Bulk<F, N> {
    /// Looks the destinations of all packets up.
    pub(crate) fn prepare(&mut self, fib: &Fib<N>, batch: &mut Batch) {
        self.keys.clear();
        self.keys.extend(batch.iter().map(F::key));
        self.ids.resize(batch.len(), 0);
        F::lookup_bulk(fib, &self.keys, &mut self.ids);
        self.stepped = 0;
    }

    /// The group of the next packet; 0 without route.
    #[inline(always)] // into the loops of rows
    pub(crate) fn step(&mut self) -> u16 {
        let id = self.ids.get(self.stepped).copied().unwrap_or(0);
        self.stepped += 1;
        id
    }
}
