//! All route look-ups of a batch, before its packets are processed.

use engine::packet::Batch;
use forwarding::family::Family;
use tables::fib::Structure;

/// Reusable buffers for looking up a batch of packets.
pub struct Bulk<F: Family<N>, const N: usize> {
    keys: Vec<F::Key>,
    ids: Vec<u16>,
}

impl<F: Family<N>, const N: usize> Default for Bulk<F, N> {
    fn default() -> Self {
        Bulk {
            keys: Vec::new(),
            ids: Vec::new(),
        }
    }
}

impl<F: Family<N>, const N: usize> Bulk<F, N> {
    /// Looks up the destinations of all packets. Returns their group ids in the order of packets; 0 for no route.
    pub fn look_up(&mut self, fib: &impl Structure<N>, batch: &Batch) -> &[u16] {
        self.keys.clear();
        self.keys.extend(batch.iter().map(F::key));
        self.ids.resize(batch.len(), 0);
        F::lookup_bulk(fib, &self.keys, &mut self.ids);
        &self.ids
    }
}
