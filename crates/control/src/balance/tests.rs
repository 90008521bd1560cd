//! Compares the moves with a naive optimum: all tables of small cases.

use super::moves::{Bucket, Limits, Proposal, Reason, concurrent_moves, propose};
use std::time::Duration;
use testkit::Rng;

const LIMITS: Limits = Limits {
    share: 0.1,
    target: 0.05,
};

fn buckets(loads: &[(usize, u64)]) -> Vec<Bucket> {
    let each = loads.iter().map(|&(worker, load)| Bucket { worker, load });
    each.collect()
}

/// Checks the properties of every proposal.
fn check(buckets: &[Bucket], base: &[u64], works: &[bool], proposal: &Proposal) {
    let mut loads = base.to_vec();
    let mut owner: Vec<usize> = buckets.iter().map(|b| b.worker).collect();
    for m in &proposal.moves {
        assert_eq!((m.from, m.load), (owner[m.bucket], buckets[m.bucket].load));
        assert!(m.from != m.to && works[m.to], "{m:?}");
        owner[m.bucket] = m.to;
    }
    for (bucket, &worker) in buckets.iter().zip(&owner) {
        loads[worker] += bucket.load;
        assert!(works[worker], "all buckets are with workers that work");
    }
    assert_eq!(loads, proposal.after);
}

/// The smallest possible load of the heaviest worker, and the fewest moves for a load of at most `enough`. Tries all
/// tables.
fn best(buckets: &[Bucket], workers: usize, enough: u64) -> (u64, Option<usize>) {
    let (mut least, mut fewest) = (u64::MAX, None::<usize>);
    for table in 0..workers.pow(buckets.len() as u32) {
        let (mut loads, mut moved, mut rest) = (vec![0; workers], 0, table);
        for bucket in buckets {
            let to = rest % workers;
            rest /= workers;
            loads[to] += bucket.load;
            moved += usize::from(to != bucket.worker);
        }
        let highest = loads.iter().copied().max().unwrap_or(0);
        least = least.min(highest);
        if highest <= enough && fewest.is_none_or(|f| moved < f) {
            fewest = Some(moved);
        }
    }
    (least, fewest)
}

#[test]
fn the_heaviest_worker_is_near_the_optimum_and_few_buckets_move() {
    let mut rng = Rng::seed(6);
    let (mut moved, mut needed) = (0, 0);
    for _ in 0..400 {
        let workers = rng.range(2..4);
        let count = rng.range(1..if workers == 2 { 11 } else { 8 });
        let buckets: Vec<Bucket> = (0..count)
            .map(|_| Bucket {
                worker: rng.below(workers),
                load: 1000 + rng.below(9000) as u64 * u64::from(!rng.one_in(4)),
            })
            .collect();
        let works = vec![true; workers];
        let proposal = propose(&buckets, &vec![0; workers], &works, LIMITS);
        check(&buckets, &vec![0; workers], &works, &proposal);
        let highest = *proposal.after.iter().max().expect("there are workers");
        let total: u64 = buckets.iter().map(|b| b.load).sum();
        let (least, fewest) = best(&buckets, workers, highest);
        // No single move or exchange helps any more, which bounds the load by 2 - 2/(m+1) (Finn and Horowitz 1979).
        let bound = least as f64 * (2.0 - 2.0 / (workers as f64 + 1.0));
        let even = total as f64 / workers as f64 * (1.0 + LIMITS.share);
        assert!(
            highest as f64 <= bound.max(even),
            "{buckets:?}: {highest}, the optimum is {least}"
        );
        assert!(highest <= *proposal.before.iter().max().expect("workers"));
        moved += proposal.moves.len();
        needed += fewest.expect("the proposal itself is a table");
    }
    assert!(moved * 2 <= needed * 3, "{moved} moves, {needed} would do");
}

#[test]
fn a_table_of_256_buckets_with_one_worker_overloaded_is_evened_out_by_few_moves() {
    let mut rng = Rng::seed(7);
    for workers in [2, 3, 4, 8, 16] {
        for _ in 0..20 {
            let buckets: Vec<Bucket> = (0..256)
                .map(|b| Bucket {
                    worker: if b < 200 { 0 } else { b % workers },
                    load: rng.range(10..2000) as u64,
                })
                .collect();
            let (base, works) = (vec![0; workers], vec![true; workers]);
            let proposal = propose(&buckets, &base, &works, LIMITS);
            check(&buckets, &base, &works, &proposal);
            let mean = proposal.after.iter().sum::<u64>() as f64 / workers as f64;
            for &load in &proposal.after {
                assert!(
                    (load as f64 - mean).abs() <= mean * LIMITS.share,
                    "{proposal:?}"
                );
            }
            assert!(proposal.moves.iter().all(|m| m.from == 0), "{proposal:?}");
            // After that no bucket moves any more.
            let mut next = buckets;
            proposal
                .moves
                .iter()
                .for_each(|m| next[m.bucket].worker = m.to);
            let again = propose(&next, &base, &works, LIMITS);
            assert_eq!((again.moves.len(), again.why), (0, Reason::Even));
        }
    }
}

#[test]
fn bucket_above_the_mean_gets_its_own_worker() {
    let buckets = buckets(&[(0, 90_000), (0, 5000), (0, 5000), (1, 0)]);
    let proposal = propose(&buckets, &[0, 0], &[true, true], LIMITS);
    assert_eq!(proposal.oversized, [0]);
    assert_eq!(proposal.after, [10_000, 90_000]);
    assert_eq!(proposal.moves.len(), 1, "it moves, and not the two others");
}

#[test]
fn other_buckets_are_balanced_beside_an_unsplittable_one() {
    let mut all = vec![(0, 100_000)];
    all.extend((0..40).map(|_| (1, 1000)));
    let buckets = buckets(&all);
    let proposal = propose(&buckets, &[0; 3], &[true; 3], LIMITS);
    assert_eq!(proposal.after, [100_000, 21_000, 19_000]);
    assert_eq!(proposal.moves.len(), 19);
}

#[test]
fn differences_below_the_share_or_by_chance_move_nothing() {
    let even = buckets(&[(0, 10_500), (0, 100), (1, 9500)]);
    let proposal = propose(&even, &[0, 0], &[true, true], LIMITS);
    assert_eq!((proposal.moves.len(), proposal.why), (0, Reason::Even));
    let few = buckets(&[(0, 7), (0, 7), (1, 8), (0, 3)]);
    let proposal = propose(&few, &[0, 0], &[true, true], LIMITS);
    assert_eq!((proposal.moves.len(), proposal.why), (0, Reason::Chance));
    let none = buckets(&[(0, 0), (0, 0), (1, 0)]);
    let proposal = propose(&none, &[0, 0], &[true, true], LIMITS);
    assert_eq!((proposal.moves.len(), proposal.why), (0, Reason::Idle));
}

#[test]
fn base_load_of_a_worker_counts() {
    // Worker 0 receives for both, which costs as much as 20 buckets.
    let all: Vec<Bucket> = (0..60)
        .map(|b| Bucket {
            worker: b % 2,
            load: 1000,
        })
        .collect();
    let proposal = propose(&all, &[20_000, 0], &[true, true], LIMITS);
    assert_eq!(proposal.before, [50_000, 30_000]);
    assert_eq!(proposal.after, [42_000, 38_000]);
    assert_eq!(proposal.moves.len(), 8);
}

#[test]
fn inactive_workers_lose_all_buckets_including_empty_ones() {
    let mut rng = Rng::seed(8);
    for _ in 0..100 {
        let buckets: Vec<Bucket> = (0..64)
            .map(|_| Bucket {
                worker: rng.below(4),
                load: rng.below(3) as u64 * 100,
            })
            .collect();
        let works: Vec<bool> = (0..4).map(|w| w == 0 || rng.one_in(2)).collect();
        let proposal = propose(&buckets, &[0; 4], &works, LIMITS);
        check(&buckets, &[0; 4], &works, &proposal);
    }
}

#[test]
fn number_of_moving_buckets_is_bounded_by_room_for_their_packets() {
    let rates = || [1000.0; 100].into_iter();
    let wait = Duration::from_millis(100);
    assert_eq!(
        concurrent_moves(rates(), wait, 1),
        40,
        "100 packets each, of 4096"
    );
    assert_eq!(concurrent_moves(rates(), wait / 10, 1), 100, "they are all");
    assert_eq!(concurrent_moves(rates(), wait * 1000, 6), 6);
    assert_eq!(concurrent_moves([f64::INFINITY, f64::NAN], wait, 2), 2);
}
