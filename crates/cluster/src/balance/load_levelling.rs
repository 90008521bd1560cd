//! Levelling of load: moves buckets from back ends with much load to those with little.

use super::rendezvous::{Candidate, NOBODY};

/// Deviation from the fair load, in percent, below which nothing moves.
const TOLERANCE_PERCENT: u128 = 5;

/// Distance between successive candidate buckets. It is a prime, so that every bucket is visited, and neighbouring
/// buckets do not move together.
const STRIDE: usize = 40507;

/// Load levelling: moves buckets from back ends above their fair load to those below it. `loads` is the recent load
/// of each back end, in any unit. `start` is the first bucket considered; it varies, so that not always the same
/// buckets move. Only half of the excess moves, as future flows are unknown. Returns the number of buckets with a new
/// target.
pub(super) fn level(
    targets: &mut [u16],
    candidates: &[Option<Candidate>],
    loads: &[u64],
    start: usize,
) -> usize {
    let weights = candidates
        .iter()
        .map(|one| one.map_or(0, |one| u128::from(one.weight)));
    let loads = loads.iter().map(|load| u128::from(*load));
    // A back end that takes no buckets is left out: its buckets leave in any case.
    let ends: Vec<(u128, u128)> = weights
        .zip(loads)
        .map(|(weight, load)| (weight, if weight == 0 { 0 } else { load }))
        .collect();
    let (weight, load) = ends
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if weight == 0 || load == 0 {
        return 0;
    }
    let fair = |at: usize| load * ends[at].0 / weight;
    let mut owned = vec![0_u128; ends.len()];
    for target in &*targets {
        if let Some(count) = owned.get_mut(usize::from(*target)) {
            *count += 1;
        }
    }
    // Number of buckets that each back end gives away, and load that it lacks.
    let mut gives = vec![0_u128; ends.len()];
    let mut lacks = vec![0_u128; ends.len()];
    for at in 0..ends.len() {
        let (has, fair) = (ends[at].1, fair(at));
        if has * 100 > fair * (100 + TOLERANCE_PERCENT) {
            gives[at] = owned[at] * (has - fair) / has / 2;
        }
        lacks[at] = fair.saturating_sub(has);
    }
    let lacking: u128 = lacks.iter().sum();
    let given: u128 = gives.iter().sum();
    if lacking == 0 || given == 0 {
        return 0;
    }
    let takes = lacks.iter().map(|lack| given * lack / lacking);
    let mut takes: Vec<(u16, u128)> = (0..NOBODY).zip(takes).filter(|(_, n)| *n > 0).collect();
    let mut moved = 0;
    let count = targets.len();
    for step in 0..count {
        let target = &mut targets[(start + step * STRIDE) % count];
        let Some(left) = gives
            .get_mut(usize::from(*target))
            .filter(|left| **left > 0)
        else {
            continue;
        };
        let Some((to, room)) = takes.last_mut() else {
            break;
        };
        *left -= 1;
        *target = *to;
        moved += 1;
        *room -= 1;
        if *room == 0 {
            takes.pop();
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(weights: &[u16]) -> Vec<Option<Candidate>> {
        let one = |(key, weight): (u64, &u16)| {
            (*weight > 0).then_some(Candidate {
                key,
                weight: *weight,
            })
        };
        (0..).zip(weights).map(one).collect()
    }

    fn counts(targets: &[u16], backends: usize) -> Vec<usize> {
        (0..backends)
            .map(|at| targets.iter().filter(|to| usize::from(**to) == at).count())
            .collect()
    }

    #[test]
    fn half_of_the_excess_moves_to_underloaded_back_ends() {
        let mut targets: Vec<u16> = (0..900).map(|n| n % 3).collect();
        let moved = level(&mut targets, &of(&[1, 1, 1]), &[600, 200, 100], 7);
        // Back end 0 has 300 packets of excess out of 600: a quarter of its buckets move, and the third back end gets
        // two thirds of them.
        assert_eq!((moved, counts(&targets, 3)), (75, vec![225, 325, 350]));
        let mut targets: Vec<u16> = (0..900).map(|n| n % 3).collect();
        assert_eq!(level(&mut targets, &of(&[6, 2, 1]), &[600, 200, 100], 0), 0);
        assert_eq!(level(&mut targets, &of(&[1, 1, 1]), &[104, 100, 100], 0), 0);
    }

    #[test]
    fn ineligible_back_ends_get_no_buckets() {
        for (weights, loads) in [
            (&[0, 1, 1][..], &[900, 300, 100][..]),
            (&[0, 0, 1], &[1, 1, 1]),
            (&[0, 0, 0], &[1, 1, 1]),
            (&[1, 1, 1], &[0, 0, 0]),
            (&[1, 1, 1], &[u64::MAX, u64::MAX, 0]),
        ] {
            let mut targets: Vec<u16> = (0..900).map(|n| n % 3).chain([NOBODY]).collect();
            let before = counts(&targets, 3);
            level(&mut targets, &of(weights), loads, 899);
            let after = counts(&targets, 3);
            for at in 0..3 {
                assert!(
                    weights[at] > 0 || after[at] == before[at],
                    "{weights:?} {loads:?}"
                );
            }
            assert_eq!(after.iter().sum::<usize>(), 900);
        }
    }

    /// With flows of skewed load, all back ends get close to their fair loads; then no bucket moves any more.
    #[test]
    fn steady_load_is_levelled() {
        let loads_of: Vec<u64> = (0..4096_u64)
            .map(|n| 1 + ((n * 2_654_435_761) >> 7) % 50)
            .collect();
        let mut targets: Vec<u16> = (0..4096)
            .map(|n| if n < 3000 { 0 } else { n % 4 })
            .collect();
        let candidates = of(&[1, 2, 1, 4]);
        let sum = |targets: &[u16]| {
            let mut sums = [0_u64; 4];
            for (target, load) in targets.iter().zip(&loads_of) {
                sums[usize::from(*target)] += load;
            }
            sums
        };
        let mut start = 0;
        for _ in 0..40 {
            let sums = sum(&targets);
            start += level(&mut targets, &candidates, &sums, start);
        }
        let (sums, all) = (sum(&targets), loads_of.iter().sum::<u64>());
        for (sum, weight) in sums.iter().zip([1, 2, 1, 4]) {
            let fair = all * weight / 8;
            assert!(sum.abs_diff(fair) * 100 <= fair * 12, "{sums:?} of {all}");
        }
        assert_eq!(level(&mut targets, &candidates, &sums, start), 0);
    }
}
