//! Moves of buckets that fail in the middle: a worker that does not answer, or is busy all the time.

use super::move_tests::{
    AtRandom, Everything, any_move, at_random, nothing_is_wrong, patient, plan, table,
};
use engine::graph::Graph;
use engine::handler::AskError;
use engine::port::NoPorts;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use steer::{Ask, move_buckets};

const WORKERS: usize = 3;
const TEXT: &str =
    "Idle -> by :: ByFlow; i :: InfiniteSource(LIMIT 0, CORES 0-2) -> by -> s :: Steer(8)
    -> order :: InOrder -> Queue -> Unqueue(BURST 3) -> out :: Collect";

/// A control thread that stops at some point of a move.
struct Fails<'a> {
    router: &'a AtRandom,
    /// Step of the simulation at which the control thread stops.
    after: usize,
    /// A worker that gets no request before that.
    deaf: Option<usize>,
    failed: Cell<bool>,
}

impl Ask for Fails<'_> {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        _: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        let told = |worker| self.failed.get() || self.deaf != Some(worker);
        let goes_on = |all: &mut Everything| {
            let goes_on = self.failed.get() || all.steps < self.after;
            self.failed.set(self.failed.get() || !goes_on);
            goes_on
        };
        self.router.ask(workers, job, told, goes_on)
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.router.run_on_one(worker, job)
    }
}

#[test]
fn a_move_that_fails_anywhere_loses_and_reorders_nothing_and_leaves_nothing_parked() {
    let (mut failed, mut carried_on) = (0, 0);
    for seed in 0..12 {
        let plan = plan(TEXT, WORKERS, &NoPorts);
        let router = at_random(&plan, seed);
        patient(&plan);
        for step in (0..).step_by(3) {
            let (buckets, to) = any_move(&router, WORKERS);
            let before = table(&plan).owners();
            let fails = Fails {
                router: &router,
                after: router.0.borrow().steps + step,
                deaf: (seed % 4 == 0).then_some(step % WORKERS),
                failed: Cell::new(false),
            };
            let result = move_buckets(&fails, &plan, "s", &buckets, to);
            let after = table(&plan).owners();
            let mut changed = (0..8).filter(|&b| before[b] != after[b]);
            assert!(changed.all(|b| buckets.contains(&(b as u16)) && after[b] == to));
            let moved = buckets.iter().all(|&b| after[usize::from(b)] == to);
            match result {
                Ok(_) => assert!(moved),
                Err(why) => assert!(matches!(why, AskError::NoAnswer(_)), "{why}"),
            }
            if fails.failed.get() {
                (failed, carried_on) = (failed + 1, carried_on + usize::from(moved));
            }
            // The move can be tried again, and then succeeds.
            let again = move_buckets(&router, &plan, "s", &buckets, to);
            assert_eq!(
                again.map(|moved| (moved.held.waiting, moved.late)),
                Ok((0, Vec::new()))
            );
            // A move with three old owners usually takes fewer steps than this.
            if step > 250 {
                break;
            }
        }
        nothing_is_wrong(&plan, &router, seed);
    }
    println!("{failed} failed, {carried_on} of them had come so far that they were carried on");
    assert!(failed > 50 && carried_on > 5, "{failed} {carried_on}");
}

/// Packets of buckets 0 to 2 arrive when all workers have begun with their first request.
struct Floods<'a>(&'a AtRandom, Cell<bool>);

impl Ask for Floods<'_> {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        _: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let job = move |graph: &mut Graph, (has_begun, state): &mut (bool, S)| {
            let first = !std::mem::replace(has_begun, true);
            count.fetch_add(usize::from(first), Relaxed);
            job(graph, state)
        };
        let flood = |all: &mut Everything| {
            if begun.load(Relaxed) == WORKERS && !self.1.replace(true) {
                let flows = [0, 1, 2, 8, 9, 10, 16, 17, 18];
                flows.into_iter().for_each(|flow| all.come(flow, 100));
            }
            true
        };
        self.0.ask(workers, job, |_| true, flood)
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.0.run_on_one(worker, job)
    }
}

#[test]
fn a_move_to_a_worker_that_has_halted_ends_and_another_one_waits_for_it() {
    let text = TEXT.replace("Steer(8)", "Steer(8, CAPACITY 64)");
    let plan = plan(&text, WORKERS, &NoPorts);
    let router = at_random(&plan, 7);
    patient(&plan);
    router.0.borrow_mut().comes = false;
    let all = Vec::from_iter(0..8);
    move_buckets(&router, &plan, "s", &all, 0).expect("workers answer");
    router.0.borrow_mut().stalls = (2, usize::MAX);
    table(&plan).set_limit(Duration::from_millis(200));
    let floods = Floods(&router, Cell::new(false));
    let moved = move_buckets(&floods, &plan, "s", &[0, 1, 2], 2).expect("workers answer");
    // A ring of 64 from each of the others, and the packets that arrive at the worker itself wait as well.
    assert_eq!((moved.buckets, moved.held.packets), (3, 900));
    assert!(moved.held.waiting >= 600 - 2 * 64, "{moved}");
    assert!(moved.late.is_empty(), "{moved}");
    assert!(moved.to_string().contains("still wait"), "{moved}");
    let refused = move_buckets(&router, &plan, "s", &[3], 1).expect_err("too early");
    assert!(refused.to_string().contains("still wait"), "{refused}");
    router.0.borrow_mut().stalls = (0, 0);
    patient(&plan);
    let moved = move_buckets(&router, &plan, "s", &all, 1).expect("workers answer");
    assert_eq!((moved.buckets, moved.held.waiting), (8, 0));
    nothing_is_wrong(&plan, &router, 7);
}
