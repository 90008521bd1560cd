//! Throughput of an ordering queue shared by one, two, four, ... threads that enqueue and dequeue bursts, up to the
//! machine's processors: `cargo run --release -p tables --example many`.
//!
//! `own` is the rate of threads with private queues, the ceiling. `mds` has as many structures as threads and chooses a
//! random one for each burst; `mds-in-turn` uses them in turn; `binsort` has a single structure; `fifo` is one queue
//! that is first in, first out. All are measured in turns of one or two milliseconds. Each result is of the run with
//! the median rate, of those in which all threads worked at the same time. The output is lines `services NAME VALUE`,
//! by the number of threads: packets in millions a second, and the part of lock requests that found the lock taken.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod sample;

use sample::Random;
use std::collections::VecDeque;
use std::hint::black_box;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use sync::Lock;
use tables::order::{BinSort, Choice, Chooser, Locks, MultiQueue};

const BINS: usize = 1024;
const WIDTH: u64 = 1_000_000;
const BURST: usize = 32;
/// Number of waiting packets per thread.
const HELD: usize = 1024;
const ROUNDS: usize = 1 << 11;
const REPEATS: usize = 300;
/// Part of a run in which all threads must have worked. Runs in which one waited for a processor do not count: in them
/// threads do not meet, so a shared queue looks better than it is.
const TOGETHER: f64 = 0.9;

/// An item as large as a pointer to a packet, and like it never 0.
type Item = NonZeroU64;

fn item(rank: u64) -> Item {
    Item::MIN.saturating_add(rank)
}

/// Result of threads that did the same work.
#[derive(Clone, Copy, Default)]
struct Run {
    /// Packets a second of all threads.
    rate: f64,
    /// Part of the time in which all threads worked.
    together: f64,
    locks: Locks,
}

/// Runs threads that each repeat the function that `make` returns. The function returns the thread's lock requests so
/// far.
fn rate<F: FnMut(&[u64]) -> Locks>(
    threads: usize,
    delays: &[u64],
    make: impl Fn(usize) -> F + Sync,
) -> Run {
    let barrier = Barrier::new(threads);
    let work = |thread: usize| {
        let mut step = make(thread);
        barrier.wait();
        let (begin, mut locks) = (Instant::now(), Locks::default());
        for round in 0..ROUNDS {
            let from = round * BURST % delays.len();
            locks = step(&delays[from..from + BURST]);
        }
        (begin, Instant::now(), locks)
    };
    let done: Vec<(Instant, Instant, Locks)> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|n| {
                let work = &work;
                scope.spawn(move || work(n))
            })
            .collect();
        let joined = started.into_iter().filter_map(|thread| thread.join().ok());
        joined.collect()
    });
    let (begins, ends) = (done.iter().map(|d| d.0), done.iter().map(|d| d.1));
    let (Some(first), Some(last)) = (begins.clone().min(), ends.clone().max()) else {
        return Run::default();
    };
    let all = begins.max().zip(ends.min());
    let all = all.map_or(Duration::ZERO, |(from, to)| {
        to.saturating_duration_since(from)
    });
    let time = (last - first).as_secs_f64();
    let sum = |a: Locks, b: Locks| Locks {
        requests: a.requests + b.requests,
        contended: a.contended + b.contended,
    };
    Run {
        rate: (threads * ROUNDS * BURST) as f64 / time,
        together: all.as_secs_f64() / time,
        locks: done.iter().map(|d| d.2).fold(Locks::default(), sum),
    }
}

/// The run with the median rate. Ends the program if there is none.
fn middle(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let middle = runs.get(runs.len() / 2).copied();
    middle.unwrap_or_else(|| {
        eprintln!("error: the threads never worked at the same time: has the machine other work?");
        std::process::exit(1);
    })
}

/// Rate of threads that each have a queue of their own.
fn ceiling(threads: usize, delays: &[u64]) -> Run {
    rate(threads, delays, |_| {
        let mut queue = BinSort::new(BINS, WIDTH);
        (0..HELD).for_each(|n| queue.push(delays[n], item(delays[n])));
        let mut now = 0;
        move |delays| {
            queue.pop_each(BURST, |rank: Item| now = rank.get());
            for delay in delays {
                queue.push(now + delay, item(now + delay));
            }
            black_box(now);
            Locks::default()
        }
    })
}

/// Rate with one queue of all threads that is first in, first out. Lock requests are counted only with `COUNTING`: that
/// takes as long as the rest.
fn fifo<const COUNTING: bool>(threads: usize, delays: &[u64]) -> Run {
    let queue = &Lock::new(VecDeque::<Item>::new());
    rate(threads, delays, |_| {
        let held = delays[..HELD].iter().map(|&rank| item(rank));
        queue.lock().extend(held);
        let mut locks = Locks::default();
        move |delays| {
            let mut now = 0;
            let mut queue_now = match COUNTING {
                true => locks.lock(queue),
                false => queue.lock(),
            };
            for taken in queue_now.drain(..BURST) {
                now = taken.get();
            }
            drop(queue_now);
            let burst = delays.iter().map(|&delay| item(now + delay));
            match COUNTING {
                true => locks.lock(queue).extend(burst),
                false => queue.lock().extend(burst),
            }
            black_box(now);
            locks
        }
    })
}

/// Rate with `parts` structures shared by all threads.
fn shared(threads: usize, delays: &[u64], parts: usize, choice: Choice) -> Run {
    let many = &MultiQueue::new(parts, BINS, WIDTH);
    rate(threads, delays, |thread| {
        let mut chooser = Chooser::new(choice, 1 + thread as u64 * 0x9e37_79b9);
        for burst in delays[..HELD].chunks(BURST) {
            many.push(&mut chooser, burst.iter().map(|&rank| (rank, item(rank))));
        }
        let mut now = 0;
        move |delays| {
            let mut left = BURST;
            while left > 0 {
                match many.pop(&mut chooser, thread, left, |rank: Item| now = rank.get()) {
                    0 => break,
                    taken => left -= taken,
                }
            }
            many.push(
                &mut chooser,
                delays.iter().map(|&delay| (now + delay, item(now + delay))),
            );
            black_box(now);
            chooser.locks()
        }
    })
}

fn main() {
    let mut random = Random::new(1);
    // Delays stay within two thirds of the span, so that every rank is within the bins.
    let delays: Vec<u64> = (0..1 << 16)
        .map(|_| random.below(BINS as u64 * WIDTH * 2 / 3))
        .collect();
    let processors = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    for threads in [1, 2, 4, 8, 16, 32]
        .into_iter()
        .filter(|&n| n <= processors.max(2))
    {
        let mut runs: [Vec<Run>; 6] = Default::default();
        for _ in 0..REPEATS {
            let each = [
                ceiling(threads, &delays),
                shared(threads, &delays, threads, Choice::Random),
                shared(threads, &delays, threads, Choice::InTurn),
                shared(threads, &delays, 1, Choice::InTurn),
                fifo::<false>(threads, &delays),
                fifo::<true>(threads, &delays),
            ];
            for (runs, run) in runs.iter_mut().zip(each) {
                runs.extend((run.together >= TOGETHER).then_some(run));
            }
        }
        let [own, mds, in_turn, binsort, mut fifo, counted] = runs.map(middle);
        fifo.locks = counted.locks;
        for (name, run) in [
            ("own", own),
            ("mds", mds),
            ("mds-in-turn", in_turn),
            ("binsort", binsort),
            ("fifo", fifo),
        ] {
            let Locks {
                requests,
                contended: taken,
            } = run.locks;
            println!("services {name}-{threads}-mpps {:.2}", run.rate / 1e6);
            println!(
                "services {name}-{threads}-taken {:.4}",
                taken as f64 / requests.max(1) as f64
            );
        }
    }
}
