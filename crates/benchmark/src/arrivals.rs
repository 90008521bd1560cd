//! Record of a trial's arrived packets: each counts once; duplicates and late packets are recognised.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Packets of a trial that one sink has received. One thread records, any may read.
#[derive(Default)]
pub struct Seen {
    /// For each packet, a bit: set if it has arrived.
    arrived_bits: Box<[AtomicU64]>,
    /// For each flow, the greatest number that has arrived, plus one.
    next: Box<[AtomicU64]>,
}

/// Kind of arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The packet is new and arrived after all earlier packets of its flow that have arrived (RFC 4737, 3.2).
    InOrder,
    /// The packet is new but arrived after a later packet of its flow.
    Reordered,
    /// Duplicate (RFC 5560, 3.2).
    Duplicate,
    /// The packet does not belong to the trial.
    Never,
}

impl Seen {
    /// Makes the record for `packets` packets, which belong to the flows in turn. `None` if there is no memory: a bit
    /// per packet, and a word per flow.
    pub fn new(packets: u64, flows: usize) -> Option<Seen> {
        let words = |n: usize| bytemuck::allocation::try_zeroed_slice_box(n).ok();
        Some(Seen {
            arrived_bits: words(usize::try_from(packets.div_ceil(64)).ok()?)?,
            next: words(flows)?,
        })
    }

    /// Records the arrival of a packet.
    #[inline]
    pub fn record(&self, number: u64) -> Arrival {
        let (flows, bit) = (self.next.len() as u64, 1 << (number % 64));
        let Some(came) = self
            .arrived_bits
            .get((number / 64) as usize)
            .filter(|_| flows > 0)
        else {
            return Arrival::Never;
        };
        let before = came.load(Relaxed);
        if before & bit != 0 {
            return Arrival::Duplicate;
        }
        came.store(before | bit, Relaxed); // no other writer
        let next = &self.next[(number % flows) as usize];
        if number < next.load(Relaxed) {
            return Arrival::Reordered;
        }
        next.store(number + 1, Relaxed);
        Arrival::InOrder
    }

    /// Number of packets that have arrived at any of several sinks.
    pub fn union<'a>(all: impl Iterator<Item = &'a Seen> + Clone) -> u64 {
        let words = all
            .clone()
            .map(|seen| seen.arrived_bits.len())
            .max()
            .unwrap_or(0);
        let word = |i: usize| {
            let each = all.clone().filter_map(|seen| seen.arrived_bits.get(i));
            each.fold(0, |any, word| any | word.load(Relaxed))
        };
        (0..words).map(|i| u64::from(word(i).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_once_and_order_counts_within_a_flow() {
        let seen = Seen::new(100, 3).unwrap();
        let came = [0, 4, 1, 3, 4, 99, 96, 0, 128].map(|n| seen.record(n));
        use Arrival::*;
        assert_eq!(
            came,
            [
                InOrder, InOrder, Reordered, InOrder, Duplicate, InOrder, Reordered, Duplicate,
                Never
            ]
        );
        assert_eq!(Seen::default().record(0), Never);
    }

    #[test]
    fn packet_at_two_sinks_is_counted_once() {
        let [a, b] = [1000, 1000].map(|n| Seen::new(n, 1).unwrap());
        (0..700).for_each(|n| assert_eq!(a.record(n), Arrival::InOrder));
        (600..900).for_each(|n| assert_eq!(b.record(n), Arrival::InOrder));
        assert_eq!(Seen::union([&a, &b, &Seen::default()].into_iter()), 900);
    }
}
