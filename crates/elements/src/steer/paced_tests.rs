//! Buckets and queues move on a router with threads, between a port that paces packets and one that checks their
//! order.

use super::move_tests::{BUCKETS, FLOWS, packet, patient, plan, plan_after, read, table, wrong};
use crate::prelude::*;
use engine::graph::Graph;
use engine::handler::AskError;
use engine::plan::Plan;
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest, RxQueue, Slot, TxQueue};
use engine::waiter::Waiter;
use engine::wake::WakeFn;
use router::Router;
use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use steer::{Ask, Moves, move_queue, queue_owners};
use sync::Lock;
use testkit::{Rng, wait_until};

/// Output of a paced port: number of flows' packets in order, and out of order.
#[derive(Default)]
struct Out {
    count: u64,
    next: HashMap<u8, u32>,
    wrong: u64,
}

/// A port with two queues each way, which delivers packets at their times and checks its output.
struct Paced {
    open: OpenPort,
    given: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    out: Arc<Lock<Out>>,
}

/// Nanoseconds between packets, by each queue.
const PACE: u64 = 100_000;
/// Maximum number of packets under way, and a burst of each queue. A Queue holds 1000, and drops further ones while
/// the worker that empties it does not run.
const UNDERWAY: u64 = 500;
/// Buckets that change their worker.
const MOVES: usize = 1000;

struct PacedRx {
    queue: u8,
    begin: Instant,
    next: u64,
    given: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    out: Arc<Lock<Out>>,
}

impl RxQueue for PacedRx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        if self.ends.load(Relaxed) {
            return 0;
        }
        let due = self.begin.elapsed().as_nanos() as u64 / PACE;
        let sent = self.out.lock().count;
        let room = (sent + UNDERWAY).saturating_sub(self.given.load(Relaxed));
        let n = due.saturating_sub(self.next).min(max as u64).min(room);
        for number in self.next..self.next + n {
            // Each queue has its own flows.
            let flows = u64::from(FLOWS / 2);
            let flow = 2 * (number % flows) as u8 + self.queue;
            into.push(packet(flow, (number / flows) as u32));
        }
        self.next += n;
        self.given.fetch_add(n, Relaxed);
        n as usize
    }
}

struct PacedTx(Arc<Lock<Out>>);

impl TxQueue for PacedTx {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        let mut out = self.0.lock();
        let n = batch.len();
        out.count += n as u64;
        for packet in batch.drain() {
            let (flow, number) = read(&packet);
            let next = out.next.entry(flow).or_default();
            let wrong = *next != number;
            *next = number + 1;
            out.wrong += u64::from(wrong);
        }
        n
    }
}

impl Paced {
    fn new() -> Paced {
        let (begin, given) = (Instant::now(), Arc::default());
        let out: Arc<Lock<Out>> = Arc::default();
        let ends = Arc::default();
        let rx = |queue| {
            let (given, ends) = (Arc::clone(&given), Arc::clone(&ends));
            Slot::new(Box::new(PacedRx {
                queue,
                begin,
                next: 0,
                given,
                ends,
                out: Arc::clone(&out),
            }) as Box<dyn RxQueue>)
        };
        let tx = |_| Slot::new(Box::new(PacedTx(Arc::clone(&out))) as Box<dyn TxQueue>);
        let open = OpenPort {
            name: "p".to_owned(),
            port: Arc::new(info()),
            rx: (0..2).map(rx).collect(),
            tx: (0..2).map(tx).collect(),
        };
        Paced {
            open,
            given,
            ends,
            out,
        }
    }
}

fn info() -> PortInfo {
    PortInfo {
        mac: [2; 6],
        ..PortInfo::of_process("paced", 2)
    }
}

impl PortDirectory for Paced {
    fn probe(&self, _: &str) -> Result<PortInfo, String> {
        Ok(info())
    }

    fn open(&self, _: &str, _: &PortRequest) -> Result<OpenPort, String> {
        Ok(self.open.clone())
    }

    fn get(&self, _: &str) -> Option<OpenPort> {
        Some(self.open.clone())
    }

    fn names(&self) -> Vec<String> {
        vec!["p".to_owned()]
    }

    fn close(&self, _: &str) {}
}

struct Naps;

impl Waiter for Naps {
    fn wait(&mut self, _: &[RawFd], timeout: Duration) {
        std::thread::park_timeout(timeout.min(Duration::from_micros(50)));
    }
}

/// The router of a plan, on threads, whose ports are paced.
fn start(plan: &Arc<Plan>, ports: &Arc<Paced>) -> Router {
    let naps = || Ok((Box::new(Naps) as Box<dyn Waiter>, Box::new(|| ()) as WakeFn));
    let directory = Arc::clone(ports) as Arc<dyn PortDirectory>;
    Router::start(plan, directory, &naps, 1).expect("it starts")
}

/// Stops the ports' packets, and waits until all have left.
fn drain(router: &Router, ports: &Paced) {
    ports.ends.store(true, Relaxed);
    // A worker that answers has ended its turn, and sends no more packets.
    wait_until("the last packet to leave", || router.held() == Ok(0));
}

/// Ends a router, and checks that all packets have left in order; returns their number.
fn end(mut router: Router, ports: &Paced) -> u64 {
    drain(&router, ports);
    router.stop();
    let out = ports.out.lock();
    let sent = out.next.values().map(|&next| u64::from(next)).sum();
    assert_eq!((sent, out.wrong), (ports.given.load(Relaxed), 0));
    sent
}

#[test]
fn threads_lose_and_reorder_nothing_while_buckets_move() {
    let ports = Arc::new(Paced::new());
    let text = format!(
        "FromDevice(p) -> ByFlow -> s :: Steer({BUCKETS}) -> order :: InOrder -> Queue -> ToDevice(p)"
    );
    let plan = plan(&text, 2, &*ports);
    let router = start(&plan, &ports);
    patient(&plan);
    let (mut rng, mut moves, mut longest) = (Rng::seed(5), 0, Duration::ZERO);
    while moves < MOVES {
        let bucket = rng.below(usize::from(BUCKETS)) as u16;
        let moved = router
            .move_buckets("s", &[bucket], rng.below(2))
            .expect("workers answer");
        assert!(moved.late.is_empty(), "{moved}");
        (moves, longest) = (moves + moved.buckets, longest.max(moved.held.longest));
    }
    let sent = end(router, &ports);
    assert_eq!(wrong(&plan, "order"), "0");
    println!("{moves} buckets moved, {sent} packets; the longest wait was {longest:?}");
}

/// A router one of whose requests gets no answer.
struct Fails<'a> {
    router: &'a Router,
    /// Number of requests before the failure.
    after: Cell<usize>,
    /// True if only the answer is lost.
    heard: bool,
}

impl Fails<'_> {
    fn question<R>(
        &self,
        worker: usize,
        ask: impl FnOnce() -> Result<R, AskError>,
    ) -> Result<R, AskError> {
        let after = self.after.get();
        self.after.set(after.wrapping_sub(1));
        match after {
            0 if self.heard => ask().and(Err(AskError::NoAnswer(worker))),
            0 => Err(AskError::NoAnswer(worker)),
            _ => ask(),
        }
    }
}

impl Ask for Fails<'_> {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        time_limit: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        self.question(0, || self.router.run_until_all(workers, time_limit, job))
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.question(worker, || self.router.run_on_one(worker, job))
    }
}

/// Waits until more packets have left that came by a queue.
fn wait_for(ports: &Paced, queue: u8) {
    let left = || -> u32 {
        let out = ports.out.lock();
        let own = out.next.iter().filter(|(flow, _)| *flow % 2 == queue);
        own.map(|(_, next)| next).sum()
    };
    let before = left();
    wait_until(format!("packets of queue {queue}"), || left() >= before + 5);
}

#[test]
fn a_queue_whose_move_fails_anywhere_stays_with_its_worker_which_polls_it_in_order() {
    let ports = Arc::new(Paced::new());
    let text = format!("FromDevice(p) -> ByFlow -> s :: Steer({BUCKETS}) -> ToDevice(p)");
    let plan = plan(&text, 2, &*ports);
    let router = start(&plan, &ports);
    router.held().expect("workers answer");
    let receiver = plan.elements[queue_owners(&plan)[0].0].name.as_str();
    let owner = || queue_owners(&plan)[0].1[0];
    let mut failed = 0;
    for round in 0..8 {
        for heard in [false, true] {
            for after in 0.. {
                let (queue, from) = owner();
                assert_eq!(queue, 0);
                let fails = Fails {
                    router: &router,
                    after: Cell::new(after),
                    heard,
                };
                match move_queue(&fails, &plan, receiver, 0, 1 - from) {
                    Ok(_) => {
                        assert_eq!(owner(), (0, 1 - from), "round {round}");
                        wait_for(&ports, 0);
                        break;
                    }
                    Err(why) => assert!(matches!(why, AskError::NoAnswer(_)), "{why}"),
                }
                failed += 1;
                assert_eq!(owner(), (0, from), "question {after}, heard: {heard}");
                wait_for(&ports, 0);
                wait_for(&ports, 1);
            }
        }
    }
    // The workers get one request: if only the answer is lost, the queue has moved.
    assert_eq!(failed, 8);
    end(router, &ports);
}

#[test]
fn a_queue_moves_though_a_worker_that_has_nothing_to_do_with_it_does_not_answer() {
    let ports = Arc::new(Paced::new());
    let text = format!(
        "FromDevice(p, CORES 0-1) -> ByFlow -> s :: Steer({BUCKETS}, CORES 0-1) -> ToDevice(p)"
    );
    let plan = plan(&text, 3, &*ports);
    let naps = || Ok((Box::new(Naps) as Box<dyn Waiter>, Box::new(|| ()) as WakeFn));
    let directory = Arc::clone(&ports) as Arc<dyn PortDirectory>;
    let router = Router::start(&plan, directory, &naps, 1).expect("it starts");
    router.held().expect("workers answer");
    let receiver = plan.elements[queue_owners(&plan)[0].0].name.as_str();
    let (ends, end) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| router.ask(2, move |_| end.recv().is_ok()));
        for to in [1, 0, 1] {
            let moved = router.move_queue(receiver, 0, to);
            moved.expect("both of its workers answer");
            assert_eq!(queue_owners(&plan)[0].1[0], (0, to));
            wait_for(&ports, 0);
        }
        assert!(!stuck.is_finished());
        ends.send(()).expect("it waits");
        assert_eq!(stuck.join().expect("it ends"), Ok(true));
    });
    ports.ends.store(true, Relaxed);
    wait_until("the last packet to leave", || router.held() == Ok(0));
    drop(router);
    let out = ports.out.lock();
    let sent: u32 = out.next.values().sum();
    assert_eq!((u64::from(sent), out.wrong), (ports.given.load(Relaxed), 0));
}

#[test]
fn workers_that_have_halted_hand_buckets_over_all_the_same() {
    let ports = Arc::new(Paced::new());
    let text = format!("FromDevice(p) -> ByFlow -> s :: Steer({BUCKETS}) -> ToDevice(p)");
    let plan = plan(&text, 2, &*ports);
    let router = start(&plan, &ports);
    drain(&router, &ports);
    router.halt().expect("workers answer");
    let all: Vec<u16> = (0..u16::from(BUCKETS)).collect();
    for to in [0, 1, 0] {
        let moved = router.move_buckets("s", &all, to);
        let moved = moved.expect("workers answer");
        assert_eq!((moved.unmoved, moved.held.waiting), (0, 0), "{moved}");
        assert!(table(&plan).owners().iter().all(|&owner| owner == to));
    }
}

#[test]
fn a_reload_keeps_the_state_of_flows_though_a_worker_may_own_buckets_no_more() {
    let ports = Arc::new(Paced::new());
    let text = |more: &str| {
        format!(
            "FromDevice(p) -> ByFlow -> s :: Steer({BUCKETS}{more}) -> order :: InOrder -> Queue -> ToDevice(p)"
        )
    };
    let mut now = plan(&text(""), 2, &*ports);
    let router = start(&now, &ports);
    patient(&now);
    for round in 0..20u64 {
        let more = ["", ", CORES 1", ", CAPACITY 2000", ", CORES 0"][round as usize % 4];
        let seen = ports.given.load(Relaxed);
        wait_until("packets", || ports.given.load(Relaxed) >= seen + 50);
        let next = plan_after(Some(&now), &text(more), 2, &*ports);
        router.reload(&next).expect("it fits");
        now = next;
    }
    end(router, &ports);
    assert_eq!(wrong(&now, "order"), "0");
}
