//! Moves of buckets, reloads and workers that stall, at random: every packet of a flow leaves, in order, with its
//! state.

use super::move_tests::{any_move, at_random, nothing_is_wrong, plan, plan_after, table};
use engine::port::NoPorts;
use std::sync::Arc;
use std::time::Duration;
use steer::move_buckets;

const WORKERS: usize = 3;

/// Configuration with the parts that a reload may change: Steer itself, and the elements downstream.
fn text(capacity: usize, behind: &str) -> String {
    format!(
        "Idle -> by :: ByFlow; i :: InfiniteSource(LIMIT 0, CORES 0-2) -> by
            -> s :: Steer(8, CAPACITY {capacity}) -> order :: InOrder -> {behind}out :: Collect"
    )
}

#[test]
fn packets_that_wait_for_moves_are_neither_lost_nor_late_over_reloads() {
    let (mut waited, mut reloads_meanwhile) = (0, 0);
    for seed in 0..24 {
        let mut current = plan(&text(64, ""), WORKERS, &NoPorts);
        let router = at_random(&current, seed);
        for _ in 0..60 {
            let roll = router.0.borrow_mut().rng.below(3);
            if roll > 0 {
                // Some moves end while packets still wait, or are cancelled, as a worker stalls.
                let hurried = roll == 1;
                let limit = Duration::from_secs(if hurried { 0 } else { 20 });
                table(&current).set_limit(limit);
                if hurried {
                    let all = &mut *router.0.borrow_mut();
                    all.stalls = (all.rng.below(WORKERS), 60);
                }
                let (buckets, to) = any_move(&router, WORKERS);
                // A refused move is one for which packets of an earlier move wait.
                if let Ok(moved) = move_buckets(&router, &current, "s", &buckets, to) {
                    waited += moved.held.waiting;
                }
                continue;
            }
            let all = &mut *router.0.borrow_mut();
            reloads_meanwhile += usize::from(all.held_by("s") > 0);
            let capacity = [64, 65, 1024][all.rng.below(3)];
            let behind = ["", "Null -> "][all.rng.below(2)];
            let text = text(capacity, behind);
            let next = plan_after(Some(&current), &text, WORKERS, &NoPorts);
            all.reload(&next);
            current = Arc::clone(&next);
        }
        table(&current).set_limit(Duration::from_secs(20));
        nothing_is_wrong(&current, &router, seed);
    }
    assert!(
        waited > 0 && reloads_meanwhile > 20,
        "{waited} {reloads_meanwhile}"
    );
}
