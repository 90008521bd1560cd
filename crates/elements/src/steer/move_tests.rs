//! Buckets move while packets arrive: none is lost, none of a flow overtakes another, and state moves along.

use crate::prelude::*;
use engine::clock::Clock;
use engine::graph::peers::Peers;
use engine::graph::root::Plain;
use engine::graph::single_at;
use engine::graph::{BuildContext, Graph, Walker};
use engine::handler::AskError;
use engine::plan::Plan;
use engine::port::{NoPorts, PortDirectory};
use engine::wake::Wakers;
use planner::{Options, Registry, compile};
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use steer::{Ask, KeepsFlows, KeepsFlowsOfClass, MoveResult, Shards, Table, Tables, move_buckets};
use testkit::Rng;

pub(super) const FLOWS: u8 = 24;
pub(super) const BUCKETS: u8 = 8;

/// A packet of a flow: the flow's number twice, as a frame would begin, then the packet's number.
pub(super) fn packet(flow: u8, number: u32) -> Packet {
    let mut bytes = [flow; 64];
    bytes[60..].copy_from_slice(&number.to_be_bytes());
    Packet::from_bytes(&bytes).expect("the pool has room")
}

pub(super) fn read(packet: &Packet) -> (u8, u32) {
    let bytes = packet.data();
    (
        bytes[0],
        u32::from_be_bytes([bytes[60], bytes[61], bytes[62], bytes[63]]),
    )
}

/// Sorts flows into buckets.
struct ByFlow;

impl Element for ByFlow {
    const CONTRACT: Contract = Contract::new("ByFlow", "//! Sorts by the first byte.\n")
        .ports(Ports::new(&["in"], &["out"]));

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> ByFlow {
        ByFlow
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        packet.set_bucket(u16::from(read(packet).0 % BUCKETS));
        Verdict::ON
    }
}

/// Counts the packets of each flow, which must arrive in order, and records errors.
struct InOrder {
    flows: Shards<HashMap<u8, u32>>,
    wrong: Arc<AtomicU64>,
}

impl Element for InOrder {
    const CONTRACT: Contract = Contract::new(
        "InOrder",
        "//! Sees to it that packets of flows come in order.\n",
    )
    .ports(Ports::new(&["in"], &["out"]))
    .extensions(&[&KeepsFlowsOfClass::of::<Self>()]);

    type Config = Arc<AtomicU64>;

    fn configure(_: &mut Args) -> Arc<AtomicU64> {
        Arc::default()
    }

    fn new(config: &Arc<Arc<AtomicU64>>, _: &Init) -> InOrder {
        InOrder {
            flows: Shards::default(),
            wrong: Arc::clone(config),
        }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let (flow, number) = read(packet);
        let next = self.flows.get(packet.bucket()).entry(flow).or_default();
        if number != *next {
            self.wrong.fetch_add(1, Relaxed);
        }
        *next = number + 1;
        Verdict::ON
    }

    fn take(&mut self, old: InOrder) {
        self.flows = old.flows;
    }

    const HANDLERS: &'static [Handler<InOrder>] = &[Handler::shared(
        "wrong",
        "packets out of order, or where their flow is not known",
        |c: &Arc<AtomicU64>, _| Ok(c.load(Relaxed).to_string()),
    )];
}

impl KeepsFlows for InOrder {
    fn give_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>> {
        self.flows.remove_bucket(bucket)
    }

    fn take_bucket(&mut self, bucket: u16, state: Box<dyn Any + Send>, _: &mut Cx) {
        assert!(self.flows.take(bucket, state), "it is ours");
    }
}

const OURS: &[engine::element::Class] = &[
    engine::element::Class::of::<ByFlow>(),
    engine::element::Class::of::<InOrder>(),
];

pub(super) fn plan(text: &str, workers: usize, ports: &dyn PortDirectory) -> Arc<Plan> {
    plan_after(None, text, workers, ports)
}

pub(super) fn plan_after(
    previous: Option<&Plan>,
    text: &str,
    workers: usize,
    ports: &dyn PortDirectory,
) -> Arc<Plan> {
    let mut lists = crate::CLASSES.to_vec();
    lists.extend([OURS, testkit::TEST_CLASSES]);
    let mut map = lang::SourceMap::new();
    let file = map.add("test.click", text);
    let (router, errors) = lang::parse(&mut map, file, &[]);
    assert!(errors.is_empty(), "{}", lang::render_all(&errors, &map));
    let (plan, errors) = compile(
        &router,
        &Registry::new(&lists),
        &Options {
            previous,
            ..Options::new(workers, ports)
        },
    );
    plan.unwrap_or_else(|| panic!("{}", lang::render_all(&errors, &map)))
}

/// Makes moves wait as long as on a slow machine.
pub(super) fn patient(plan: &Plan) {
    table(plan).set_limit(Duration::from_secs(20));
}

/// The table of the element `s`.
pub(super) fn table(plan: &Plan) -> Arc<Table> {
    plan.router_wide::<Tables>().get("s", usize::from(BUCKETS))
}

pub(super) fn wrong(plan: &Plan, element: &str) -> String {
    let node = plan.find(element).expect("it is there");
    plan.control(node, 0, "").expect("it can be read")
}

/// Time that passes while workers run a few turns.
const STEP: Duration = Duration::from_micros(20);

/// A router whose workers run turns at random on the test's thread, while packets arrive.
pub(super) struct AtRandom(pub(super) RefCell<Everything>);

pub(super) struct Everything {
    graphs: Vec<Graph>,
    now: Time,
    pub(super) rng: Rng,
    /// Number of arrived packets of each flow.
    numbers: Vec<u32>,
    source: usize,
    pub(super) comes: bool,
    /// A worker, and the number of its next turns that it skips.
    pub(super) stalls: (usize, usize),
    /// Requests of each worker that run between turns until they are done.
    long_asks: Vec<Vec<LongAsk>>,
    /// Number of such steps by workers, and of control's requests.
    pub(super) steps: usize,
    pub(super) asked: usize,
}

/// Request of a worker; true if it has begun.
type LongAsk = (bool, Box<dyn FnMut(&mut Graph) -> bool>);

impl Everything {
    /// Packets of a flow arrive, always at the same worker.
    pub(super) fn come(&mut self, flow: usize, packets: usize) {
        let mut batch = Batch::new();
        for _ in 0..packets {
            batch.push(packet(flow as u8, self.numbers[flow]));
            self.numbers[flow] += 1;
        }
        let by = flow % self.graphs.len();
        self.graphs[by].inject(self.source, 0, &mut batch);
    }

    /// One or two packets of a flow arrive, or a worker runs a turn.
    fn go_on(&mut self) {
        self.now = self.now + STEP;
        self.graphs
            .iter_mut()
            .for_each(|graph| graph.set_time(self.now));
        for _ in 0..self.rng.below(6) {
            let worker = self.rng.below(self.graphs.len());
            if self.comes && self.rng.one_in(6) {
                let flow = self.rng.below(usize::from(FLOWS));
                let packets = 1 + self.rng.below(3);
                self.come(flow, packets);
            } else if self.stalls.0 == worker && self.stalls.1 > 0 {
                self.stalls.1 -= 1;
            } else {
                self.graphs[worker].turn();
            }
            if self.rng.one_in(2) {
                let worker = self.rng.below(self.graphs.len());
                self.run_long_asks(worker, |_| true);
            }
        }
    }

    /// Workers take up another plan, one after the other, while packets arrive.
    pub(super) fn reload(&mut self, next: &Arc<Plan>) {
        let first = self.rng.below(self.graphs.len());
        for n in 0..self.graphs.len() {
            let at = (first + n) % self.graphs.len();
            let graph = self.graphs.remove(at);
            let site = graph.build_context(Arc::new(NoPorts));
            self.graphs.insert(at, graph.swap(next, &site));
            self.go_on();
        }
        self.source = next.find("by").expect("it is there");
    }

    /// Packets that an element holds, on all workers.
    pub(super) fn held_by(&self, element: &str) -> usize {
        let each = self.graphs.iter();
        let held =
            each.map(|graph| graph.held_by(graph.plan().find(element).expect("it is there")));
        held.sum()
    }

    fn run_long_asks(&mut self, worker: usize, which: impl Fn(bool) -> bool) {
        let graph = &mut self.graphs[worker];
        let mut all = std::mem::take(&mut self.long_asks[worker]);
        all.retain_mut(|(begun, ask)| {
            if !which(std::mem::replace(begun, true)) {
                return true;
            }
            self.steps += 1;
            !ask(graph)
        });
        self.long_asks[worker] = all;
    }
}

impl AtRandom {
    /// Runs a function on the workers in `told`, until all have answered or the time is over.
    pub(super) fn ask<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
        told: impl Fn(usize) -> bool,
        mut goes_on: impl FnMut(&mut Everything) -> bool,
    ) -> Result<Vec<R>, AskError> {
        let mut all = self.0.borrow_mut();
        all.asked += 1;
        let job = Arc::new(job);
        let answers = workers.iter().map(|_| Arc::<Mutex<Option<R>>>::default());
        let answers: Vec<_> = answers.collect();
        let lock = |answer: &Arc<Mutex<Option<R>>>| answer.lock().expect("one thread").take();
        let each = workers.iter().zip(&answers);
        for (&worker, to) in each.filter(|(worker, _)| told(**worker)) {
            let (job, mut state) = (Arc::clone(&job), S::default());
            let to = Arc::clone(to);
            let ask = move |graph: &mut Graph| {
                let answer = job(graph, &mut state);
                let done = answer.is_some();
                *to.lock().expect("one thread") = answer;
                done
            };
            all.long_asks[worker].push((false, Box::new(ask)));
        }
        let mut found: Vec<Option<R>> = answers.iter().map(|_| None).collect();
        while let Some(missing) = found.iter().position(Option::is_none) {
            if !goes_on(&mut all) {
                return Err(AskError::NoAnswer(workers[missing]));
            }
            all.go_on();
            let each = found.iter_mut().zip(&answers);
            each.for_each(|(found, answer)| *found = found.take().or_else(|| lock(answer)));
        }
        Ok(found.into_iter().flatten().collect())
    }
}

impl Ask for AtRandom {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        _: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        self.ask(workers, job, |_| true, |_| true)
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        let mut all = self.0.borrow_mut();
        all.asked += 1;
        all.go_on();
        // Earlier requests are run first.
        all.run_long_asks(worker, |begun| !begun);
        Ok(job(&mut all.graphs[worker]))
    }
}

pub(super) fn at_random(plan: &Arc<Plan>, seed: u64) -> AtRandom {
    let (wakers, peers) = (Wakers::none(plan.workers), Peers::new(plan.workers));
    let (wakers, ports) = (Arc::new(wakers), Arc::new(NoPorts));
    let site = |worker| BuildContext {
        worker,
        walker: Walker::Sweep,
        clock: Clock::at(Time(1)),
        ports: ports.clone(),
        wakers: Arc::clone(&wakers),
        seed: 1.into(),
        root: Arc::new(Plain),
        peers: Arc::clone(&peers),
    };
    let graph = |worker| single_at(plan, &site(worker)).expect("nothing is opened");
    AtRandom(RefCell::new(Everything {
        graphs: (0..plan.workers).map(graph).collect(),
        now: Time(1),
        rng: Rng::seed(seed),
        numbers: vec![0; usize::from(FLOWS)],
        source: plan.find("by").expect("it is there"),
        comes: true,
        stalls: (0, 0),
        long_asks: (0..plan.workers).map(|_| Vec::new()).collect(),
        steps: 0,
        asked: 0,
    }))
}

/// Random buckets and a worker.
pub(super) fn any_move(router: &AtRandom, workers: usize) -> (Vec<u16>, usize) {
    let rng = &mut router.0.borrow_mut().rng;
    let n = 1 + rng.below(3);
    let each = (0..n).map(|_| rng.below(usize::from(BUCKETS)) as u16);
    (each.collect(), rng.below(workers))
}

/// Moves buckets at random while packets arrive, and compares the output with a naive model: every packet of a flow,
/// in order.
fn moves_at_random(behind: &str, workers: usize, stalls: bool, seed: u64) {
    let text = format!(
        "Idle -> by :: ByFlow; i :: InfiniteSource(LIMIT 0, CORES 0) -> by -> s :: Steer({BUCKETS})
            -> order :: InOrder -> {behind}"
    );
    let text = match workers {
        1 => text,
        n => text.replace("CORES 0", &format!("CORES 0-{}", n - 1)),
    };
    let plan = plan(&text, workers, &NoPorts);
    let router = at_random(&plan, seed);
    let (mut moved, mut stay) = (0, 0);
    for round in 0..60 {
        let table = table(&plan);
        // Half of the moves meet a worker that stalls, and are cancelled as soon as they would have to wait for it.
        let hurried = stalls && round % 2 == 1;
        table.set_limit(Duration::from_secs(if hurried { 0 } else { 20 }));
        if hurried {
            let all = &mut *router.0.borrow_mut();
            all.stalls = (all.rng.below(workers), 40);
        }
        let (buckets, to) = any_move(&router, workers);
        let away = |b: &u16| table.owners()[usize::from(*b)] != to;
        let before: BTreeSet<u16> = buckets.iter().copied().filter(away).collect();
        let result = move_buckets(&router, &plan, "s", &buckets, to).expect("workers answer");
        assert_eq!(result.late, Vec::<String>::new());
        assert_eq!(result.buckets + result.unmoved, before.len());
        assert_eq!(result.unmoved, before.iter().filter(|b| away(b)).count());
        assert!(hurried || result.unmoved == 0, "{result}");
        (moved, stay) = (moved + result.buckets, stay + result.unmoved);
    }
    assert!(moved > 20 || workers == 1);
    assert!(stay > 0 || !stalls);
    nothing_is_wrong(&plan, &router, seed);
}

/// Ends the traffic, and checks all output.
pub(super) fn nothing_is_wrong(plan: &Plan, router: &AtRandom, seed: u64) {
    let all = &mut *router.0.borrow_mut();
    all.comes = false;
    let mut quiet = 0;
    while quiet < 3 {
        let mut worked = false;
        all.graphs
            .iter_mut()
            .for_each(|graph| worked |= graph.turn());
        quiet = if worked { 0 } else { quiet + 1 };
    }
    assert_eq!(wrong(plan, "order"), "0", "seed {seed}");
    let mut came = vec![0; usize::from(FLOWS)];
    for packet in testkit::collected(plan, "out") {
        let flow = usize::from(packet.bytes[0]);
        let number = u32::from_be_bytes(packet.bytes[60..].try_into().expect("four bytes"));
        assert_eq!(number, came[flow], "flow {flow}, seed {seed}");
        came[flow] += 1;
    }
    assert_eq!(came, all.numbers, "seed {seed}");
    assert_eq!(all.graphs.iter().map(Graph::held).sum::<usize>(), 0);
}

#[test]
fn nothing_is_lost_or_out_of_order_and_state_goes_along() {
    for seed in 0..12 {
        moves_at_random("out :: Collect", 2 + seed as usize % 3, false, seed);
    }
}

#[test]
fn control_asks_workers_once_for_each_old_owner_however_long_they_take() {
    for seed in 0..12 {
        let text = "i :: InfiniteSource(LIMIT 0, CORES 0-2) -> by :: ByFlow -> s :: Steer(8)
            -> order :: InOrder -> Queue -> Unqueue(BURST 3) -> Queue -> out :: Collect";
        let plan = plan(text, 3, &NoPorts);
        let router = at_random(&plan, seed);
        patient(&plan);
        for _ in 0..20 {
            let (buckets, to) = any_move(&router, 3);
            let owners = table(&plan).owners();
            let old: BTreeSet<usize> = buckets.iter().map(|&b| owners[usize::from(b)]).collect();
            let old = old.iter().filter(|&&owner| owner != to).count();
            let before = (router.0.borrow().asked, router.0.borrow().steps);
            move_buckets(&router, &plan, "s", &buckets, to).expect("workers answer");
            let all = router.0.borrow();
            assert_eq!(all.asked - before.0, old, "seed {seed}");
            assert!(all.steps - before.1 >= 3 * old);
        }
    }
}

#[test]
fn a_move_is_called_off_when_the_old_owner_stalls_and_nothing_is_lost_or_out_of_order() {
    for seed in 0..12 {
        moves_at_random("out :: Collect", 2 + seed as usize % 3, true, seed);
    }
}

#[test]
fn packets_in_a_queue_of_the_old_owner_leave_first() {
    for seed in 0..8 {
        moves_at_random(
            "Queue -> Unqueue(BURST 3) -> Queue -> out :: Collect",
            3,
            false,
            seed,
        );
    }
}

#[test]
fn packets_that_cross_behind_the_old_owner_leave_first() {
    for seed in 0..8 {
        let behind =
            "Queue -> Unqueue(BURST 5, CORES 0) -> Queue -> Unqueue(BURST 6) -> out :: Collect";
        moves_at_random(behind, 3, false, seed);
    }
}

#[test]
fn a_worker_that_may_own_none_is_refused_and_so_is_a_bucket_that_is_not_there() {
    let text = "i :: InfiniteSource(LIMIT 0, CORES 0-2) -> by :: ByFlow -> s :: Steer(8, CORES 1-2)
        -> out :: Collect";
    let plan = plan(text, 3, &NoPorts);
    let router = at_random(&plan, 1);
    let refused = |table: &str, buckets: &[u16], to| {
        let result = move_buckets(&router, &plan, table, buckets, to);
        result.expect_err("it is wrong").to_string()
    };
    assert!(refused("s", &[0], 0).contains("workers 1-2 can"));
    assert!(refused("s", &[8], 1).contains("no bucket 8"));
    assert!(refused("t", &[0], 1).contains("no table"));
    let moved = move_buckets(&router, &plan, "s", &[], 1);
    assert_eq!(moved, Ok(MoveResult::default()));
}
