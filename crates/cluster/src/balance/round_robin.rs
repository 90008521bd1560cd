//! Round-robin order of back ends.

use super::rendezvous::{Candidate, NOBODY};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Length of the round-robin sequence of back ends, in packets.
pub const TURNS: usize = 4096;

/// Sequence of back ends in which each appears in proportion to its weight. Workers may read it while it is refilled.
pub(super) struct RoundRobin(Box<[AtomicU16; TURNS]>);

impl Default for RoundRobin {
    /// A sequence without back ends.
    fn default() -> RoundRobin {
        RoundRobin(Box::new(std::array::from_fn(|_| AtomicU16::new(NOBODY))))
    }
}

impl RoundRobin {
    /// The sequence. An entry may be [`NOBODY`].
    #[inline]
    pub(super) fn order(&self) -> &[AtomicU16; TURNS] {
        &self.0
    }

    /// Smooth weighted round robin: fills the sequence with candidates, each in proportion to its weight and evenly
    /// spaced. In each step every candidate gains its weight; the one with the most is chosen and pays the total.
    pub(super) fn fill(&self, candidates: &[Option<Candidate>]) {
        let weight = |one: &Option<Candidate>| one.map_or(0, |one| i64::from(one.weight));
        let total: i64 = candidates.iter().map(weight).sum();
        let mut gained = vec![0; candidates.len()];
        for turn in self.0.iter() {
            gained
                .iter_mut()
                .zip(candidates)
                .for_each(|(gain, one)| *gain += weight(one));
            let all = (0..).zip(&gained).zip(candidates);
            let able = all.filter(|(_, one)| one.is_some()).map(|(gain, _)| gain);
            let best: Option<(u16, &i64)> =
                able.max_by_key(|(at, gain)| (**gain, std::cmp::Reverse(*at)));
            let best = best.map(|(at, _)| at);
            if let Some(at) = best {
                gained[usize::from(at)] -= total;
            }
            turn.store(best.unwrap_or(NOBODY), Relaxed);
        }
    }
}
