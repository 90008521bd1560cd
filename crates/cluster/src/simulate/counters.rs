//! Counts of a simulation.

/// Counts of values by their size, exact to 1/32.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    all: u64,
    most: u64,
}

const SUB: u32 = 5;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; (65 - SUB as usize) << SUB],
            all: 0,
            most: 0,
        }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(SUB + 1);
        let at = (u64::from(shift) << SUB) + (value >> shift);
        self.counts[at as usize] += 1;
        self.all += 1;
        self.most = self.most.max(value);
    }

    /// The least value that a share of all values does not exceed, to within 1/32.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.all as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        for (at, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum >= wanted {
                let shift = (at >> SUB).saturating_sub(1) as u32;
                let low = (at as u64 - (u64::from(shift) << SUB)) << shift;
                return (low + (1 << shift) - 1).min(self.most);
            }
        }
        self.most
    }
}

/// A flow, as its output sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// Greatest packet number that left, plus 1.
    next: u32,
    /// Number of packets that left.
    left: u32,
    /// True if the last packet that left was late.
    late: bool,
    /// True if any packet was late.
    any: bool,
}

/// Packets that left in another order than they arrived (RB10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// Number of flows with at least two packets: the sequences in which order can be lost.
    pub flows: u64,
    /// Number of these flows with reordered packets.
    pub reordered_flows: u64,
    /// Number of packets.
    pub packets: u64,
    /// Number of packets that left after a packet that arrived later.
    pub late: u64,
    /// Runs of such packets, as the paper counts in its example: `p1 p4 p2 p3 p5` is one.
    pub runs: u64,
}

impl Reordering {
    #[inline]
    pub(crate) fn record_departure(&mut self, flow: &mut Flow, sequence: u32) {
        self.packets += 1;
        flow.left += 1;
        if flow.left == 2 {
            self.flows += 1;
        }
        let late = sequence < flow.next;
        if late {
            self.late += 1;
            self.runs += u64::from(!flow.late);
            self.reordered_flows += u64::from(!flow.any);
            flow.any = true;
        } else {
            flow.next = sequence + 1;
        }
        flow.late = late;
    }
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all.
pub fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 {
        sum * sum / (n * squares)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::SimRng;
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values_to_within_a_32nd() {
        let (mut histogram, mut chance) = (Histogram::default(), SimRng::new(5));
        let mut values: Vec<u64> = (0..10_000)
            .map(|_| chance.bits() >> (20 + chance.below(40)))
            .collect();
        values.iter().for_each(|&value| histogram.add(value));
        values.sort_unstable();
        for share in [0.0, 0.1, 0.5, 0.99, 1.0] {
            let exact = values[((share * 10_000.0) as usize).clamp(1, 10_000) - 1];
            let told = histogram.quantile(share);
            assert!(
                told >= exact && told - exact <= exact / 32,
                "{share}: {told} for {exact}"
            );
        }
    }

    #[test]
    fn the_papers_example_is_one_reordered_sequence() {
        let (mut all, mut flow) = (Reordering::default(), Flow::default());
        for sequence in [1, 4, 2, 3, 5] {
            all.record_departure(&mut flow, sequence);
        }
        let expected = Reordering {
            flows: 1,
            reordered_flows: 1,
            packets: 5,
            late: 2,
            runs: 1,
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn fairness_is_one_among_equals_and_least_if_one_has_all() {
        assert_eq!(jain([2.0; 4].into_iter()), 1.0);
        assert_eq!(jain([5.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
    }
}
