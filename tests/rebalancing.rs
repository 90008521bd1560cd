//! The balancer and two workers in simulated time. A packet costs a worker some microseconds, control answers late,
//! and the machine takes workers' cores away. Rings of the port and between workers overflow, as in reality.

use control::balance::{Balance, Mode, RING_INTERVAL_MIN, Settings, Workers};
use engine::clock::{Clock, Time};
use engine::graph::peers::Peers;
use engine::graph::root::Plain;
use engine::graph::single_at;
use engine::graph::{BuildContext, Graph, Walker};
use engine::handler::AskError;
use engine::plan::Plan;
use engine::port::Port;
use engine::wake::Wakers;
use planner::Options;
use router_tests::{Cards, InMemory, plan_with, registry};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use steer::{Ask, FollowResult, MoveResult, Moves, Table};
use testkit::{Rng, ip4};
use wire::FlowKey;

/// The ring between workers has less room than a ring of the port.
const ROUTER: &str =
    "FromDevice(IN, QUEUES 2) -> BucketByHash -> s :: Steer(256, CAPACITY 512) -> ToDevice(OUT)";
/// The port has its own hash table, and is told to follow the buckets.
const HASHES: &str = "f :: FromDevice(IN, QUEUES 2, CLASSIFY hash) -> ToDevice(OUT)";
const FLOWS: usize = 128;
/// Frames in each ring of the port.
const RING: usize = 1024;
/// Costs in nanoseconds: of forwarding a packet, of receiving one, and of a turn.
const PACKET: u64 = 30_000;
const RECEIVE: u64 = 500;
const TURN: u64 = 20_000;
/// Approximate number of packets a second that one worker carries.
const ONE: f64 = 1e9 / (PACKET + RECEIVE) as f64;
/// Delay after which workers see requests of control.
const LATE: Duration = Duration::from_micros(500);
const WINDOW: u64 = 20_000_000;

/// Work of a worker between turns; true when it is done.
type LongAsk = Box<dyn FnMut(&mut Graph) -> bool>;

struct World {
    graphs: Vec<Graph>,
    /// Clock of each worker.
    at: Vec<u64>,
    busy: Vec<u64>,
    /// Times at which the core is taken from each worker, with the duration.
    stalls: Vec<VecDeque<(u64, u64)>>,
    long_asks: Vec<Vec<LongAsk>>,
    ports: Arc<Cards<InMemory>>,
    flows: Vec<FlowKey>,
    frames: Vec<Vec<u8>>,
    /// Packets a second from some time on, in nanoseconds.
    load: Vec<(u64, f64)>,
    /// Packets that were due so far; after it, the time of the next one.
    due: usize,
    next_due: f64,
    /// Packets that found the ring of their queue full.
    missed: [usize; 2],
    next_of: Vec<u32>,
    /// Packets that left, by the window in which they were due and by worker.
    left: Vec<[usize; 2]>,
    reordered: usize,
    /// Percent of the usual time that everything takes on each worker.
    slower: [u64; 2],
    /// Time at which a ring of the port was first a quarter full, and time of worker 1's first packet after that.
    filled: Option<u64>,
    helped: Option<u64>,
    /// Number of queues by which packets arrive, flows in turn; `None` if the port hashes.
    queues: Option<usize>,
}

impl World {
    /// Makes due packets arrive.
    fn come(&mut self, now: u64) {
        while self.next_due <= now as f64 {
            let begun = |part: &&(u64, f64)| part.0 as f64 <= self.next_due;
            let rate = self
                .load
                .iter()
                .rev()
                .find(begun)
                .map_or(0.0, |part| part.1);
            if rate > 0.0 {
                self.inject();
            }
            self.next_due += 1e9 / rate.max(1000.0);
        }
    }

    fn inject(&mut self) {
        let (flow, number) = (self.due % FLOWS, (self.due / FLOWS) as u32);
        let frame = &mut self.frames[flow];
        let end = frame.len();
        frame[end - 16..end - 8].copy_from_slice(&(self.next_due as u64).to_be_bytes());
        frame[end - 8..end - 4].copy_from_slice(&(flow as u32).to_be_bytes());
        frame[end - 4..].copy_from_slice(&number.to_be_bytes());
        let queue = match self.queues {
            Some(queues) => flow % queues,
            None => self.ports.card().hashed(&self.flows[flow]),
        };
        let taken = self.ports.inner.far("IN").inject(queue, frame);
        self.missed[queue] += usize::from(!taken);
        if self.filled.is_none() && self.ports.inner.far("IN").waiting(queue) >= RING / 4 {
            self.filled = Some(self.next_due as u64);
        }
        self.due += 1;
    }

    /// Runs a turn on the worker whose clock is earlier.
    fn go_on(&mut self) {
        let worker = usize::from(self.at[1] < self.at[0]);
        let now = self.at[worker];
        if let Some(&(_, time)) = self.stalls[worker].front().filter(|stall| stall.0 <= now) {
            self.stalls[worker].pop_front();
            self.at[worker] += time;
            return;
        }
        self.come(now);
        let waiting = |world: &World| {
            let far = world.ports.inner.far("IN");
            far.waiting(0) + far.waiting(1)
        };
        let before = waiting(self);
        let graph = &mut self.graphs[worker];
        graph.set_time(Time(now));
        let worked = graph.turn();
        let mut long_asks = std::mem::take(&mut self.long_asks[worker]);
        long_asks.retain_mut(|ask| !ask(&mut self.graphs[worker]));
        self.long_asks[worker].append(&mut long_asks);
        let sent = self.ports.inner.far("OUT").collect();
        let received = before - waiting(self);
        let time = (TURN + PACKET * sent.len() as u64 + RECEIVE * received as u64)
            * self.slower[worker]
            / 100;
        self.at[worker] += time;
        self.busy[worker] += if worked { time } else { 0 };
        if worker == 1 && self.filled.is_some() && !sent.is_empty() {
            self.helped.get_or_insert(self.at[1]);
        }
        for sent in sent {
            self.leave(&sent.frame, sent.queue);
        }
    }

    fn leave(&mut self, frame: &[u8], worker: usize) {
        let end = frame.len();
        let due = u64::from_be_bytes(frame[end - 16..end - 8].try_into().expect("8 bytes"));
        let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("4 bytes"));
        let (flow, number) = (word(end - 8) as usize, word(end - 4));
        self.reordered += usize::from(number < self.next_of[flow]);
        self.next_of[flow] = number + 1;
        let window = (due / WINDOW) as usize;
        if self.left.len() <= window {
            self.left.resize(window + 1, [0; 2]);
        }
        self.left[window][worker] += 1;
    }

    fn now(&self) -> u64 {
        self.at[0].min(self.at[1])
    }
}

struct Stand {
    plan: Arc<Plan>,
    table: Arc<Table>,
    rung: Arc<AtomicBool>,
    world: RefCell<World>,
}

impl Stand {
    /// Two workers without load. Their cores are taken away for up to `stall` at a time, a tenth of the time in all.
    fn new(seed: u64, stall: Duration) -> Stand {
        Stand::of(ROUTER, seed, stall)
    }

    fn of(router: &str, seed: u64, stall: Duration) -> Stand {
        let ports = Arc::new(Cards::new(InMemory::default(), "IN", 0));
        let plan = plan_with(registry(), router, &[], &Options::new(2, &*ports));
        let wakers = Arc::new(Wakers::none(2));
        let peers = Peers::new(2);
        let site = |worker| BuildContext {
            worker,
            walker: Walker::Sweep,
            clock: Clock::at(Time(0)),
            ports: Arc::clone(&ports) as _,
            wakers: Arc::clone(&wakers),
            seed: 1.into(),
            root: Arc::new(Plain),
            peers: Arc::clone(&peers),
        };
        let graph = |worker| single_at(&plan, &site(worker)).expect("ports can be opened");
        let graphs = vec![graph(0), graph(1)];
        ports.inner.far("IN").limit(RING, 0);
        let mut rng = Rng::seed(seed);
        let mut stalls = || {
            let (mut all, mut at, most) = (VecDeque::new(), 0, stall.as_nanos() as usize);
            while !stall.is_zero() && at < 20_000_000_000 {
                at += rng.range(most..9 * most) as u64;
                all.push_back((at, rng.below(most) as u64));
            }
            all
        };
        let frame = |flow: usize| {
            let packet = ip4().udp(1000 + flow as u16, 53).payload([0; 16]);
            packet
                .ether("02:00:00:00:00:03", "42:00:00:00:00:01")
                .bytes()
        };
        let frames: Vec<Vec<u8>> = (0..FLOWS).map(frame).collect();
        let table = steer::tables(&plan).pop().expect("there is one");
        table.set_limit(Duration::from_secs(20));
        let rung = Arc::<AtomicBool>::default();
        let rings = Arc::clone(&rung);
        table.set_doorbell(|| Box::new(move || rings.store(true, Relaxed)));
        Stand {
            table,
            rung,
            world: RefCell::new(World {
                graphs,
                at: vec![0; 2],
                busy: vec![0; 2],
                stalls: vec![stalls(), stalls()],
                long_asks: vec![Vec::new(), Vec::new()],
                ports,
                flows: frames
                    .iter()
                    .filter_map(|f| FlowKey::of_ip(&f[14..]))
                    .collect(),
                frames,
                load: Vec::new(),
                due: 0,
                next_due: 0.0,
                missed: [0; 2],
                next_of: vec![0; FLOWS],
                left: Vec::new(),
                reordered: 0,
                slower: [100; 2],
                filled: None,
                helped: None,
                queues: (router == ROUTER).then_some(2),
            }),
            plan,
        }
    }

    fn until(&self, time: u64) {
        let mut world = self.world.borrow_mut();
        while world.now() < time {
            world.go_on();
        }
    }

    /// Runs control's balancing until a time.
    fn balance(&self, balance: &Balance, end: u64) {
        const INTERVAL: u64 = 100_000_000;
        let pause = RING_INTERVAL_MIN.as_nanos() as u64;
        let mut next = self.world.borrow().now() + INTERVAL;
        while next < end {
            let begin = next - INTERVAL;
            self.until(begin + pause);
            while self.world.borrow().now() < next && !self.rung.swap(false, Relaxed) {
                self.world.borrow_mut().go_on();
            }
            balance.run_interval(self);
            next = self.world.borrow().now() + INTERVAL;
        }
        self.until(end);
    }

    /// Ends the load, and checks that nothing was reordered. Returns the numbers of due and of lost packets.
    fn end(&self) -> (usize, usize) {
        self.world.borrow_mut().load.push((0, 0.0));
        let now = self.world.borrow().now();
        self.until(now + 1_000_000_000);
        let world = self.world.borrow();
        assert_eq!(world.reordered, 0);
        let left: usize = world.left.iter().flatten().sum();
        (world.due, world.due - left)
    }

    /// Nanoseconds from `begin` until workers' packets were within 10 % of the mean and stayed so until `end`.
    fn balanced_after(&self, begin: u64, end: u64) -> u64 {
        let world = self.world.borrow();
        let window = |time: u64| (time / WINDOW) as usize;
        let windows = &world.left[window(begin)..window(end)];
        let off = |[a, b]: &[usize; 2]| a.abs_diff(*b) * 10 > a + b;
        let last = windows.iter().rposition(off);
        last.map_or(0, |last| (last as u64 + 1) * WINDOW)
    }

    fn losses(&self) -> String {
        let world = self.world.borrow();
        format!(
            "{:?} at the port, {} between workers",
            world.missed,
            self.table.lost_packets().iter().sum::<u64>()
        )
    }
}

impl Stand {
    /// Makes workers run something until they have an answer. Returns the place of the answers.
    fn tell<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        what: impl Fn(&mut Graph, &mut S) -> Option<R> + 'static,
    ) -> Vec<Arc<Mutex<Option<R>>>> {
        let heard = self.world.borrow().now() + LATE.as_nanos() as u64;
        Stand::until(self, heard);
        let what = Arc::new(what);
        let tell = |&worker: &usize| {
            let answer: Arc<Mutex<Option<R>>> = Arc::default();
            let (what, to, mut state) = (Arc::clone(&what), Arc::clone(&answer), S::default());
            let ask = move |graph: &mut Graph| {
                let answer = what(graph, &mut state);
                let done = answer.is_some();
                *to.lock().unwrap_or_else(PoisonError::into_inner) = answer;
                done
            };
            self.world.borrow_mut().long_asks[worker].push(Box::new(ask));
            answer
        };
        workers.iter().map(tell).collect()
    }
}

impl Ask for Stand {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        _: Duration,
        what: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        let answers = self.tell(workers, what);
        let mut world = self.world.borrow_mut();
        let lock = |answer: &Arc<Mutex<Option<R>>>| {
            let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
            answer.take()
        };
        let mut found: Vec<Option<R>> = workers.iter().map(|_| None).collect();
        while found.iter().any(Option::is_none) {
            world.go_on();
            let each = found.iter_mut().zip(&answers);
            each.for_each(|(found, answer)| *found = found.take().or_else(|| lock(answer)));
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        what: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        let heard = self.world.borrow().now() + LATE.as_nanos() as u64;
        Stand::until(self, heard);
        let mut world = self.world.borrow_mut();
        while world.at[worker] > world.now() {
            world.go_on();
        }
        Ok(what(&mut world.graphs[worker]))
    }
}

impl Workers for Stand {
    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn count(&self) -> usize {
        2
    }

    fn now(&self) -> Time {
        Time(self.world.borrow().now())
    }

    fn busy(&self, worker: usize) -> u64 {
        self.world.borrow().busy[worker]
    }
}

impl Moves for Stand {
    fn move_buckets(
        &self,
        table: &str,
        buckets: &[u16],
        to: usize,
    ) -> Result<MoveResult, AskError> {
        steer::move_buckets(self, &self.plan, table, buckets, to)
    }

    fn move_queue(&self, element: &str, queue: usize, to: usize) -> Result<bool, AskError> {
        steer::move_queue(self, &self.plan, element, queue, to)
    }

    fn follow(&self, element: &str, buckets: Option<&[u16]>) -> Result<FollowResult, AskError> {
        steer::follow(self, &self.plan, element, buckets)
    }
}

fn balancer(mode: Mode) -> Balance {
    Balance::new(Settings {
        mode,
        ..Settings::default()
    })
}

const SECOND: u64 = 1_000_000_000;

impl Stand {
    /// Gives these buckets to worker 0, and makes `load` packets a second arrive from the next window on. Returns its
    /// time.
    fn begin(&self, buckets: u16, load: f64) -> u64 {
        let buckets: Vec<u16> = (0..buckets).collect();
        self.move_buckets(self.table.name(), &buckets, 0)
            .expect("workers answer");
        let begin = self.world.borrow().now().next_multiple_of(WINDOW);
        self.world.borrow_mut().load.push((begin, load));
        self.until(begin);
        begin
    }
}

/// Time until buckets are divided evenly. At first worker 0 has them all, and its full load. Everything takes
/// `slower` percent of its usual time on the machine.
fn skewed(seed: u64, stall: Duration, slower: u64) -> u64 {
    let stand = Stand::new(seed, stall);
    let begin = stand.begin(256, 0.95 * ONE);
    stand.world.borrow_mut().slower = [slower; 2];
    let balance = balancer(Mode::Even);
    balance.run_interval(&stand);
    let end = begin + 2 * SECOND;
    stand.balance(&balance, end);
    let (due, lost) = stand.end();
    assert!(due > 50_000, "{due}");
    let losses = stand.losses();
    assert_eq!(
        lost,
        0,
        "seed {seed}, {stall:?}, {slower} %: {losses}\n{}",
        balance.show()
    );
    stand.balanced_after(begin, end)
}

#[test]
fn skewed_load_is_balanced_soon_after_the_first_measurement() {
    assert!(skewed(1, Duration::ZERO, 100) <= SECOND / 5);
}

#[test]
fn load_is_shared_without_loss_while_the_machine_takes_cores_away() {
    for seed in 0..6 {
        let after = skewed(seed, Duration::from_millis(25), 100);
        assert!(after <= SECOND / 2, "seed {seed}: {after} ns");
    }
}

#[test]
fn nothing_is_lost_though_the_machine_becomes_slower_by_a_third_when_the_load_begins() {
    assert!(skewed(1, Duration::ZERO, 150) <= SECOND / 5);
    for seed in 0..4 {
        skewed(seed, Duration::from_millis(25), 150);
    }
}

#[test]
fn active_workers_follow_a_load_that_falls_and_rises_without_loss() {
    for seed in 0..2 {
        let stand = Stand::new(seed, Duration::from_millis(10));
        let begin = stand.begin(0, 0.95 * ONE);
        let steps = |n: u64| 0.95 * ONE * 10f64.powf(-(n as f64) / 10.0);
        let (falls, rises) = (begin + SECOND, begin + 5 * SECOND);
        for n in 1..=10 {
            let mut world = stand.world.borrow_mut();
            world.load.push((falls + n * SECOND / 5, steps(n)));
        }
        for n in 1..=10 {
            let mut world = stand.world.borrow_mut();
            world.load.push((rises + n * SECOND / 5, steps(10 - n)));
        }
        let balance = balancer(Mode::On);
        stand.balance(&balance, rises);
        assert_eq!(balance.workers(), (1, 2), "{}", balance.show());
        stand.balance(&balance, begin + 8 * SECOND);
        assert_eq!(balance.workers(), (2, 2), "{}", balance.show());
        let (_, lost) = stand.end();
        let losses = stand.losses();
        assert_eq!(lost, 0, "seed {seed}: {losses}\n{}", balance.show());
    }
}

#[test]
fn a_worker_whose_core_is_slower_gets_less_until_it_is_as_fast_again() {
    for seed in 0..4 {
        let stand = Stand::new(seed, Duration::from_millis(2));
        // A card's ring holds packets of as much time at such a load.
        let world = stand.world.borrow();
        world.ports.inner.far("IN").limit(4 * RING, 0);
        drop(world);
        let begin = stand.begin(0, 1.1 * ONE);
        let balance = balancer(Mode::Even);
        stand.balance(&balance, begin + SECOND);
        // The worker has half of its former speed, and 0.55 of the load.
        stand.world.borrow_mut().slower = [100, 200];
        stand.balance(&balance, begin + 4 * SECOND);
        let shown = balance.show();
        assert!(shown.contains("others have time"), "{shown}");
        stand.world.borrow_mut().slower = [100; 2];
        stand.balance(&balance, begin + 7 * SECOND);
        let (due, lost) = stand.end();
        assert!(due > 200_000, "{due}");
        assert_eq!(
            lost,
            0,
            "seed {seed}: {}\n{}",
            stand.losses(),
            balance.show()
        );
        assert_eq!(
            stand.balanced_after(begin + 6 * SECOND, begin + 7 * SECOND),
            0,
            "{}",
            balance.show()
        );
    }
}

#[test]
fn permanently_overloaded_worker_takes_little_from_the_other() {
    let stand = Stand::new(1, Duration::ZERO);
    // More than the capacity of worker 0, and half that of worker 1. Half of each load arrives by the other one's
    // queue.
    let begin = stand.begin(224, 2.0 * ONE);
    stand.until(begin + SECOND);
    let missed = stand.world.borrow().missed[1];
    // While sources are paused: 100 ms of the packets of its queue.
    assert!(missed as f64 <= 0.1 * ONE, "{missed}");
    stand.until(begin + 4 * SECOND);
    assert_eq!(stand.world.borrow().missed[1], missed);
    assert!(stand.table.lost_packets().iter().sum::<u64>() > 10_000);
    stand.end();
}

#[test]
fn the_ports_ring_bridges_the_time_when_one_between_workers_would_overflow() {
    let stand = Stand::new(1, Duration::ZERO);
    let begin = stand.begin(256, 0.6 * ONE);
    // More packets arrive than the ring between the workers has room for.
    let stall = (begin + SECOND / 20, SECOND / 16);
    stand.world.borrow_mut().stalls[0].push_back(stall);
    stand.until(begin + SECOND);
    let (_, lost) = stand.end();
    assert_eq!(lost, 0, "{}", stand.losses());
}

#[test]
fn a_queue_of_the_port_that_fills_has_buckets_move_before_it_is_time_to_look() {
    let stand = Stand::new(1, Duration::ZERO);
    // All by one queue, so no packet crosses. The excess fills it in 40 ms, and the next check is in 100.
    stand.world.borrow_mut().queues = Some(1);
    let begin = stand.begin(256, 1.8 * ONE);
    let balance = balancer(Mode::Even);
    balance.run_interval(&stand);
    stand.balance(&balance, begin + SECOND);
    let (_, lost) = stand.end();
    assert_eq!(lost, 0, "{}\n{}", stand.losses(), balance.show());
}

impl Stand {
    /// Packets passed from worker to worker.
    fn crossed(&self) -> u64 {
        let steer = self.plan.find("IN@steer").expect("it is there");
        let handlers = (self.plan.elements[steer].class.handlers)();
        let crossed = handlers.iter().position(|h| h.name == "crossed");
        let crossed = crossed.expect("it counts");
        let world = self.world.borrow();
        let each = world.graphs.iter().map(|graph| {
            let count = graph.read(steer, crossed, "").expect("a copy is there");
            count.expect("it is a count").parse::<u64>().expect("it is")
        });
        each.sum()
    }
}

#[test]
fn a_port_follows_buckets_that_have_moved_in_order_and_then_nothing_crosses() {
    for (seed, stall) in [(0, 0), (1, 10), (2, 10), (3, 25)] {
        let stand = Stand::of(HASHES, seed, Duration::from_millis(stall));
        let begin = stand.begin(256, 1.2 * ONE * 0.6);
        let balance = balancer(Mode::Even);
        balance.run_interval(&stand);
        stand.balance(&balance, begin + 2 * SECOND);
        let shown = balance.show();
        assert!(shown.contains("f: the port follows"), "{shown}");
        assert!(!shown.contains("late"), "{shown}");
        // The balancer may have just moved something.
        balance.set(&stand, "now").expect("it can be told");
        let before = stand.crossed();
        assert!(before > 0, "{shown}");
        stand.until(begin + 3 * SECOND);
        assert_eq!(stand.crossed(), before, "{shown}");
        let (due, lost) = stand.end();
        assert!(
            due > 50_000 && lost == 0,
            "seed {seed}: {lost} of {due}\n{}",
            stand.losses()
        );
    }
}

/// Buckets and queues move, and the port follows, at random times.
fn moves_and_follows(seed: u64, otherwise: bool) -> usize {
    let stand = Stand::of(HASHES, seed, Duration::ZERO);
    stand.world.borrow().ports.card().hash_otherwise(otherwise);
    stand.world.borrow_mut().stalls = vec![VecDeque::new(), VecDeque::new()];
    stand.begin(0, 0.3 * ONE);
    let (mut rng, mut followed) = (Rng::seed(seed), 0);
    for _ in 0..200 {
        let some: Vec<u16> = (0..256).filter(|_| rng.one_in(4)).collect();
        let now = stand.world.borrow().now();
        let mut stall = |time: u64| {
            let (at, time) = (
                now + rng.below(2_000_000) as u64,
                rng.below(time as usize) as u64,
            );
            stand.world.borrow_mut().stalls[rng.below(2)].push_back((at, time));
        };
        stall(20_000_000);
        stall(3_000_000);
        match rng.below(4) {
            0 => {
                let moved = stand.move_buckets(stand.table.name(), &some, rng.below(2));
                moved.expect("workers answer");
            }
            1 => {
                let moved = stand.move_queue("f", rng.below(2), rng.below(2));
                moved.expect("workers answer");
            }
            _ => {
                let done = stand.follow("f", Some(&some)).expect("workers answer");
                assert!(!done.late, "seed {seed}: {done}");
                followed += done.buckets;
            }
        }
        let then = now + rng.below(20_000_000) as u64;
        stand.until(then);
        stand
            .world
            .borrow_mut()
            .stalls
            .iter_mut()
            .for_each(VecDeque::clear);
    }
    assert!(stand.crossed() > 0);
    let (due, lost) = stand.end();
    assert!(due > 10_000, "{due}");
    assert_eq!(lost, 0, "seed {seed}: {}", stand.losses());
    followed
}

#[test]
fn a_load_that_rises_tenfold_at_once_finds_a_second_worker_before_rings_are_full() {
    for seed in 0..4 {
        let stand = Stand::new(seed, Duration::ZERO);
        let begin = stand.begin(0, 0.16 * ONE);
        let balance = balancer(Mode::On);
        stand.balance(&balance, begin + 3 * SECOND);
        assert_eq!(balance.workers(), (1, 2), "{}", balance.show());
        let rises = stand.world.borrow().now() + SECOND / 10 + seed * SECOND / 37;
        stand.world.borrow_mut().load.push((rises, 1.6 * ONE));
        stand.world.borrow_mut().filled = None;
        stand.balance(&balance, rises + SECOND);
        assert_eq!(balance.workers(), (2, 2), "{}", balance.show());
        let (filled, helped) = {
            let world = stand.world.borrow();
            (
                world.filled.expect("it fills"),
                world.helped.expect("it helps"),
            )
        };
        let after = Duration::from_nanos(helped.saturating_sub(filled));
        // A check of the queue is due, then the balancer measures, and buckets move.
        assert!(after <= Duration::from_millis(20), "seed {seed}: {after:?}");
        let (_, lost) = stand.end();
        assert_eq!(
            lost,
            0,
            "seed {seed}: {}\n{}",
            stand.losses(),
            balance.show()
        );
    }
}

#[test]
fn flows_keep_their_order_whatever_moves_and_follows_while_workers_stall() {
    for seed in 0..8 {
        let followed = moves_and_follows(seed, false);
        assert!(followed > 500, "seed {seed}: {followed}");
    }
}

#[test]
fn flows_keep_their_order_if_the_port_hashes_differently() {
    for seed in 0..8 {
        let followed = moves_and_follows(seed, true);
        assert!(followed > 500, "seed {seed}: {followed}");
    }
}

/// A stand with workers that answer late or not at all.
struct Faulty<'a> {
    stand: &'a Stand,
    /// True if workers that are asked together do not answer.
    deaf: bool,
    /// The worker that gets only requests to it alone, and whose answers all come too late.
    mute: Option<usize>,
    /// Time for which a worker loses its core after a request to it alone.
    tires: Duration,
}

impl<'a> Faulty<'a> {
    fn none(stand: &'a Stand) -> Faulty<'a> {
        Faulty {
            stand,
            deaf: false,
            mute: None,
            tires: Duration::ZERO,
        }
    }
}

impl Ask for Faulty<'_> {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        time_limit: Duration,
        what: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        if self.deaf {
            return Err(AskError::NoAnswer(0));
        }
        let Some(mute) = self.mute else {
            return Ask::run_until_all(self.stand, workers, time_limit, what);
        };
        let others: Vec<usize> = workers.iter().copied().filter(|w| *w != mute).collect();
        self.stand.tell(&others, what);
        let heard = self.stand.world.borrow().now() + SECOND / 10;
        self.stand.until(heard);
        Err(AskError::NoAnswer(mute))
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        what: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        let answer = self.stand.run_on_one(worker, what);
        let mut world = self.stand.world.borrow_mut();
        let stall = (world.now(), self.tires.as_nanos() as u64);
        world.stalls[worker].extend((stall.1 > 0).then_some(stall));
        answer
    }
}

#[test]
fn a_port_that_refuses_to_follow_or_workers_that_do_not_answer_leave_no_packet_waiting() {
    let stand = Stand::of(HASHES, 1, Duration::ZERO);
    let begin = stand.begin(128, 0.6 * ONE);
    stand.until(begin + SECOND / 10);
    let card = stand.world.borrow().ports.card();
    let before = card.redirection_table();
    card.refuse(true);
    let all: Vec<u16> = (0..256).collect();
    let refused = stand.follow("f", Some(&all)).expect_err("the port refuses");
    assert!(
        refused.to_string().contains("the card is busy"),
        "{refused}"
    );
    assert_eq!(card.redirection_table(), before);
    card.refuse(false);
    // The report that no packet waits any more since the refused move arrives.
    let deaf = Faulty {
        deaf: true,
        ..Faulty::none(&stand)
    };
    let late = steer::follow(&deaf, &stand.plan, "f", None);
    assert_eq!(late, Err(AskError::NoAnswer(0)));
    stand.until(begin + SECOND / 5);
    // The port has the setting, and need not get it again.
    let again = stand.follow("f", Some(&all)).expect("workers answer");
    assert_eq!((again.buckets, again.late), (0, false));
    let crossed = stand.crossed();
    stand.until(begin + SECOND / 2);
    assert_eq!(stand.crossed(), crossed);
    let (due, lost) = stand.end();
    assert!(due > 5_000 && lost == 0, "{lost} of {due}");
}

#[test]
fn a_port_that_has_still_to_do_what_it_was_told_is_left_alone_and_nothing_waits_for_it() {
    let stand = Stand::of(HASHES, 1, Duration::ZERO);
    let begin = stand.begin(128, 0.6 * ONE);
    let card = stand.world.borrow().ports.card();
    let before = card.redirection_table();
    card.be_busy(true);
    let all: Vec<u16> = (0..256).collect();
    // No worker is asked to keep packets: such a request would be answered.
    let deaf = Faulty {
        deaf: true,
        ..Faulty::none(&stand)
    };
    let busy = steer::follow(&deaf, &stand.plan, "f", None).expect_err("the port is busy");
    assert!(busy.to_string().contains("still busy"), "{busy}");
    assert_eq!(card.redirection_table(), before);
    // Packets flow as before: by the old queues, and from worker to worker.
    let crossed = stand.crossed();
    stand.until(begin + SECOND / 10);
    assert!(stand.crossed() > crossed);
    card.be_busy(false);
    let done = stand.follow("f", Some(&all)).expect("workers answer");
    assert!(done.buckets > 0 && !done.late, "{done}");
    assert_ne!(card.redirection_table(), before);
    let (due, lost) = stand.end();
    assert!(due > 1_000 && lost == 0, "{lost} of {due}");
}

#[test]
fn moves_wait_for_workers_that_do_not_answer() {
    for mute in 0..2 {
        let stand = Stand::of(HASHES, 1, Duration::ZERO);
        let begin = stand.begin(128, 0.6 * ONE);
        stand.until(begin + SECOND / 10);
        let (plan, all) = (&stand.plan, Vec::from_iter(0..256));
        let owners = || (stand.table.owners(), steer::queue_owners(plan));
        let before = owners();
        let deaf = Faulty {
            mute: Some(mute),
            ..Faulty::none(&stand)
        };
        let none = Err(AskError::NoAnswer(mute));
        let name = stand.table.name();
        let moved = steer::move_buckets(&deaf, plan, name, &all, 1);
        assert_eq!(moved.map(|_| ()), none);
        assert_eq!(steer::move_queue(&deaf, plan, "f", 0, 1).map(|_| ()), none);
        assert_eq!(owners(), before);
        stand.until(begin + SECOND);
        let moved = stand.move_buckets(name, &all, 1).expect("workers answer");
        assert_eq!(moved.held.waiting, 0);
        assert_eq!(stand.move_queue("f", 0, 1), Ok(true));
        assert_ne!(owners(), before);
        stand.until(begin + 2 * SECOND);
        let (due, lost) = stand.end();
        assert!(due > 20_000 && lost == 0, "{lost} of {due}");
    }
}

/// Half of the buckets have moved to worker 0, and the port follows within 20 ms.
fn follows_late(follow: impl Fn(&Stand) -> Result<FollowResult, AskError>) {
    let stand = Stand::of(HASHES, 1, Duration::ZERO);
    let begin = stand.begin(128, 0.6 * ONE);
    stand.until(begin + SECOND / 10);
    stand.table.set_limit(Duration::from_millis(1));
    let done = follow(&stand).expect("workers answer");
    assert!(done.buckets > 0 && done.late, "{done}");
    assert!(done.to_string().contains("packets of before were late"));
    let then = stand.world.borrow().now();
    stand.until(then + SECOND / 10);
    // The port has followed nevertheless, so that no packet need cross.
    let crossed = stand.crossed();
    stand.until(then + SECOND / 5);
    assert_eq!(stand.crossed(), crossed);
    let (due, lost) = stand.end();
    assert!(due > 5_000 && lost == 0, "{lost} of {due}");
}

#[test]
fn a_port_that_takes_too_long_to_do_what_it_was_told_is_late_and_no_packet_waits_for_it() {
    follows_late(|stand| {
        stand.world.borrow().ports.card().lag(true);
        steer::follow(stand, &stand.plan, "f", None)
    });
}

#[test]
fn owner_that_takes_no_packets_is_late_and_blocks_none() {
    follows_late(|stand| {
        let tires = Faulty {
            tires: Duration::from_millis(50),
            ..Faulty::none(stand)
        };
        steer::follow(&tires, &stand.plan, "f", None)
    });
}

#[test]
fn workers_ask_a_port_for_its_key_only_when_that_may_have_changed() {
    let router = "f :: FromDevice(IN, QUEUES 2, CLASSIFY hash INNER false) -> ToDevice(OUT)";
    let stand = Stand::of(router, 1, Duration::ZERO);
    let begin = stand.begin(128, 0.6 * ONE);
    stand.until(begin + SECOND / 20);
    let card = stand.world.borrow().ports.card();
    assert!(card.asked() >= 2, "each has a copy");
    stand.until(begin + SECOND / 10);
    assert_eq!(card.asked(), 0);
    let all: Vec<u16> = (0..256).collect();
    stand.follow("f", Some(&all)).expect("workers answer");
    stand.until(begin + SECOND / 5);
    // For each owner whose buckets followed, at most once per worker.
    assert!((2..=4).contains(&card.asked()));
    let (due, lost) = stand.end();
    assert!(due > 1_000 && lost == 0, "{lost} of {due}");
}
