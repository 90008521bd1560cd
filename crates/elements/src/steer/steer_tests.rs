use super::*;
use engine::clock::Clock;
use engine::graph::peers::Peers;
use engine::graph::root::Plain;
use engine::graph::single_at;
use engine::graph::{BuildContext, Graph, Walker};
use engine::plan::Plan;
use engine::port::NoPorts;
use engine::wake::Wakers;
use std::sync::atomic::Ordering::Relaxed;
use testkit::collected;

/// Workers of a router, all on the test's thread.
fn workers(plan: &Arc<Plan>) -> Vec<Graph> {
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
    (0..plan.workers).map(graph).collect()
}

fn plan(text: &str, n: usize) -> Arc<Plan> {
    let plan = testkit::plan(crate::CLASSES, text, n, &NoPorts, None);
    plan.unwrap_or_else(|e| panic!("{e}"))
}

/// Packets with these numbers, each in the bucket of its number.
fn packets(numbers: impl IntoIterator<Item = u8>) -> Batch {
    let each = numbers.into_iter().map(|n| {
        let mut packet = Packet::from_bytes(&[n]).expect("the pool has room");
        packet.set_bucket(u16::from(n));
        packet
    });
    each.collect()
}

fn push(graph: &mut Graph, element: &str, mut batch: Batch) {
    let node = graph.plan().find(element).expect("it is there");
    graph.inject(node, 0, &mut batch);
}

fn numbers(plan: &Plan, element: &str) -> Vec<u8> {
    let each = collected(plan, element).into_iter();
    each.map(|packet| packet.bytes[0]).collect()
}

/// Answer of a shared handler of `s`.
fn shared(plan: &Plan, handler: &str) -> String {
    let node = plan.find("s").expect("it is there");
    let mut handlers = (plan.elements[node].class.handlers)().into_iter();
    let at = handlers.position(|info| info.name == handler);
    plan.control(node, at.expect("there is one"), "")
        .expect("it can be read")
}

const TWO: &str = "InfiniteSource(LIMIT 0) -> s :: Steer(4, CAPACITY 3) -> out :: Collect";

#[test]
fn own_packets_go_on_at_once_and_others_with_their_owner() {
    let plan = plan(TWO, 2);
    let mut graphs = workers(&plan);
    push(&mut graphs[0], "s", packets([0, 1, 2, 3, 4, 5]));
    assert_eq!(numbers(&plan, "out"), [0, 2, 4]);
    let s = plan.find("s").expect("it is there");
    assert_eq!((graphs[0].held_by(s), graphs[1].held_by(s)), (0, 3));
    assert!(graphs[1].turn());
    assert_eq!(numbers(&plan, "out"), [1, 3, 5]);
    assert!(!graphs[1].turn());
    assert_eq!(graphs[0].stats()[s].packets, 6);
    assert_eq!(
        (graphs[0].stats()[s].sent[0], graphs[1].stats()[s].sent[0]),
        (3, 3)
    );
    let table = shared(&plan, "table");
    assert_eq!(table, "worker 0: 0 2\nworker 1: 1 3\n");
    let loads = shared(&plan, "loads");
    assert_eq!(loads, "2 2 1 1");
}

#[test]
fn packets_for_a_full_ring_are_dropped_and_counted_by_bucket() {
    let plan = plan(TWO, 2);
    let mut graphs = workers(&plan);
    push(&mut graphs[0], "s", packets([1, 3, 1, 3, 1]));
    let s = plan.find("s").expect("it is there");
    assert_eq!(
        (
            graphs[0].stats()[s].drops[usize::from(FULL)],
            graphs[1].held_by(s)
        ),
        (2, 3)
    );
    let lost = shared(&plan, "lost");
    assert_eq!(lost, "0 1 0 1");
    let table = plan.router_wide::<Tables>().get("s", 4);
    assert_eq!(table.take_pressure(2).ring, 1.0);
    graphs[1].turn();
    assert_eq!(table.take_pressure(2).ring, 0.0);
    assert_eq!(numbers(&plan, "out"), [1, 3, 1]);
}

#[test]
fn another_table_after_a_hot_swap_knows_the_rings_that_stay() {
    let before = plan(TWO, 2);
    drop(workers(&before));
    let text = TWO.replace("CAPACITY", "TABLE other, CAPACITY");
    let now = testkit::plan(crate::CLASSES, &text, 2, &NoPorts, Some(&before));
    let now = now.unwrap_or_else(|e| panic!("{e}"));
    let mut graphs = workers(&now);
    push(&mut graphs[0], "s", packets([1, 3]));
    let table = now.router_wide::<Tables>().get("other", 4);
    assert_eq!(table.take_pressure(2).ring, 2.0 / 3.0);
    graphs[1].turn();
    assert_eq!(table.take_pressure(2).ring, 0.0);
    assert_eq!(numbers(&now, "out"), [1, 3]);
}

#[test]
fn behind_it_elements_have_copies_on_the_workers_that_own_buckets_only() {
    let text =
        "InfiniteSource(LIMIT 0) -> before :: Null -> s :: Steer(CORES 1 2) -> behind :: Null
        -> Discard";
    let plan = plan(text, 4);
    let at = |name: &str| {
        plan.elements[plan.find(name).expect("it is there")]
            .workers
            .clone()
    };
    assert_eq!(
        (at("before"), at("s"), at("behind")),
        (vec![0], vec![0, 1, 2], vec![1, 2])
    );
}

#[test]
fn single_worker_owns_all_buckets() {
    let plan = plan(TWO, 1);
    let mut graphs = workers(&plan);
    push(&mut graphs[0], "s", packets([7, 1]));
    assert_eq!(numbers(&plan, "out"), [7, 1]);
    graphs[0].turn();
    assert!(!graphs[0].turn());
}

#[test]
fn too_many_buckets_are_refused() {
    let errors = testkit::errors(crate::CLASSES, "Idle -> Steer(5000) -> Discard");
    assert!(errors.contains("between 1 and 4096"), "{errors}");
}

#[test]
fn every_packet_of_any_batch_counts_once_and_one_that_is_not_ours_is_found_wherever_it_stands() {
    let mut rng = testkit::Rng::seed(9);
    for round in 0..400 {
        let owners: Vec<u16> = match round % 2 {
            0 => vec![1; 8],
            _ => (0..8).map(|_| rng.below(2) as u16).collect(),
        };
        // Mostly packets of this worker, with one other at any position.
        let ours: Vec<u16> = (0..8).filter(|&b| owners[usize::from(b)] == 1).collect();
        let any = |rng: &mut testkit::Rng| match ours.is_empty() || rng.one_in(20) {
            true => rng.below(12) as u16,
            false => ours[rng.below(ours.len())],
        };
        let buckets: Vec<u16> = (0..rng.below(30)).map(|_| any(&mut rng)).collect();
        let packets: Vec<Packet> = buckets
            .iter()
            .map(|&bucket| {
                let mut packet = Packet::from_bytes(&[0; 60]).expect("the pool has room");
                packet.set_bucket(bucket);
                packet
            })
            .collect();
        let seen = [const { AtomicU64::new(0) }; BUCKETS_MAX];
        let mut places = [NOBODY; BUCKETS_MAX];
        places[..8].copy_from_slice(&owners);
        let mut naive = vec![0; 8];
        buckets.iter().for_each(|&b| naive[usize::from(b) % 8] += 1);
        let all = buckets
            .iter()
            .all(|&b| owners.get(usize::from(b)) == Some(&1));
        assert_eq!(
            all_ours(&packets, &places, &seen, (1, 8)),
            all,
            "{buckets:?}"
        );
        let seen: Vec<u64> = seen[..8].iter().map(|n| n.load(Relaxed)).collect();
        assert_eq!(seen, naive, "{buckets:?}");
    }
}

/// A source on worker 0 whose packets all belong to worker 1.
const AWAY: &str = "src :: InfiniteSource(LIMIT 100) -> SetBucket(1) -> s :: Steer(4, CAPACITY 8) -> out :: Collect";

/// Reloads worker 0.
fn reload(graph: Graph, text: &str) -> Graph {
    let before = Arc::clone(graph.plan());
    let next = testkit::plan(crate::CLASSES, text, 2, &NoPorts, Some(&before));
    let next = next.unwrap_or_else(|e| panic!("{e}"));
    let site = graph.build_context(Arc::new(NoPorts));
    graph.swap(&next, &site)
}

/// Packets that the source has made in all, after its end.
fn made(graph: &mut Graph) -> u64 {
    (0..200).for_each(|_| _ = graph.turn());
    let src = graph.plan().find("src").expect("it is there");
    graph.stats()[src].sent[0]
}

#[test]
fn sources_that_rest_for_a_full_ring_do_so_over_a_reload_for_no_longer_than_without_one() {
    let other = AWAY.replace("-> out", "-> Null -> out");
    let changed = AWAY.replace("CAPACITY 8", "CAPACITY 9");
    for text in [AWAY, &other, &changed] {
        let plan = plan(AWAY, 2);
        let mut graphs = workers(&plan);
        let (mut other, mut graph) = (graphs.pop().expect("two"), graphs.pop().expect("two"));
        assert_eq!(made(&mut graph), 6, "the ring is nearly full");
        graph.set_time(Time(60_000_000));
        graph = reload(graph, text);
        assert_eq!(made(&mut graph), 6, "{text}");
        // The 100 ms are used up: excess packets are lost.
        graph.set_time(Time(100_000_001));
        assert_eq!(made(&mut graph), 100, "{text}");
        other.turn();
        assert_eq!(numbers(other.plan(), "out").len(), 8);
    }
}

#[test]
fn sources_work_again_when_there_is_room_after_a_reload_or_nobody_asks_them_to_rest() {
    let gone = AWAY.replace("s :: Steer(4, CAPACITY 8)", "Null");
    for text in [AWAY.replace("-> out", "-> Null -> out"), gone] {
        let plan = plan(AWAY, 2);
        let mut graphs = workers(&plan);
        let (mut other, mut graph) = (graphs.pop().expect("two"), graphs.pop().expect("two"));
        assert_eq!(made(&mut graph), 6);
        graph = reload(graph, &text);
        other.turn();
        assert!(made(&mut graph) > 6, "{text}");
    }
}

#[test]
fn packets_of_a_bucket_that_moves_wait_over_a_reload_of_steer() {
    let text = TWO.replace("CAPACITY 3", "CAPACITY 8");
    let plan = plan(&text, 2);
    let mut graphs = workers(&plan);
    let (mut other, mut graph) = (graphs.pop().expect("two"), graphs.pop().expect("two"));
    let steer = |graph: &mut Graph, work: &dyn Fn(&mut dyn Steering)| {
        let s = graph.plan().find("s").expect("it is there");
        steer::steering(graph, s, |s| work(s));
    };
    steer(&mut graph, &|s| s.hold(&[0, 2]));
    push(&mut graph, "s", packets([0, 2]));
    graph = reload(graph, &TWO.replace("CAPACITY 3", "CAPACITY 9"));
    push(&mut graph, "s", packets([0]));
    let s = graph.plan().find("s").expect("it is there");
    assert_eq!((graph.held_by(s), other.held_by(s)), (3, 0));
    steer(&mut graph, &|s| s.release(&[0, 2], 1));
    graph.turn();
    push(&mut graph, "s", packets([2]));
    assert_eq!(graph.held_by(s), 0);
    for _ in 0..4 {
        other.turn();
        graph.turn();
    }
    assert_eq!(numbers(other.plan(), "out"), [0, 2, 0, 2]);
}
