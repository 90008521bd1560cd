//! Address translation on several workers: each owns the mappings of its buckets, which move with these, and so do
//! the counts of flows.

use engine::clock::Clock;
use engine::graph::peers::Peers;
use engine::graph::root::Plain;
use engine::graph::single_at;
use engine::graph::{BuildContext, Graph, Walker};
use engine::handler::AskError;
use engine::plan::Plan;
use engine::port::NoPorts;
use engine::prelude::*;
use engine::wake::Wakers;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use steer::{Ask, move_buckets};
use testkit::{Rng, ip4};
use wire::{Ipv4, Udp};

const NAT: &str = "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop)";

/// Configuration of two ports with the same sorting, and a rewriter between them.
fn text(nat: &str, key: &str) -> String {
    let port = |n: u8| {
        format!(
            "InfiniteSource(LIMIT 0, CORES 0-1) -> EtherEncap(0x800, 2:0:0:0:0:1, 2:0:0:0:0:2)
                -> b{n} :: BucketByHash(KEY {key}) -> Steer(TABLE t) -> Strip(14) \
                 -> CheckIPHeader -> c{n} :: FlowCounter -> [{n}]nat;"
        )
    };
    let (inside, outside) = (port(0), port(1));
    format!("nat :: {nat}; {inside} {outside} nat[0] -> out :: Collect; nat[1] -> back :: Collect;")
}

fn plan(text: &str) -> Arc<Plan> {
    let plan = testkit::plan(crate::all(), text, 2, &NoPorts, None);
    plan.unwrap_or_else(|e| panic!("{e}"))
}

/// The workers of a router, which all run a turn when one is called.
struct Workers(RefCell<Vec<Graph>>);

impl Workers {
    fn new(plan: &Arc<Plan>) -> Workers {
        let (wakers, peers) = (Arc::new(Wakers::none(2)), Peers::new(2));
        let site = |worker| BuildContext {
            worker,
            walker: Walker::Sweep,
            clock: Clock::at(Time(1)),
            ports: Arc::new(NoPorts),
            wakers: Arc::clone(&wakers),
            seed: 1.into(),
            root: Arc::new(Plain),
            peers: Arc::clone(&peers),
        };
        let graph = |worker| single_at(plan, &site(worker)).expect("nothing is opened");
        Workers(RefCell::new((0..2).map(graph).collect()))
    }

    fn turn(&self) {
        for graph in self.0.borrow_mut().iter_mut() {
            graph.turn();
        }
    }

    /// Injects a frame on a worker. Returns the packets that then arrive at a Collect.
    fn pass(&self, worker: usize, at: &str, frame: &[u8], to: &str) -> Vec<Vec<u8>> {
        let plan = Arc::clone(self.0.borrow()[0].plan());
        let node = plan.find(at).expect("it is there");
        let mut batch = Batch::from_iter(Packet::from_bytes(frame));
        self.0.borrow_mut()[worker].inject(node, 0, &mut batch);
        self.turn();
        self.turn();
        let all = testkit::collected(&plan, to).into_iter();
        all.map(|packet| packet.bytes).collect()
    }
}

impl Ask for Workers {
    fn run_until_all<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        _: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        let each = workers.iter();
        let mut all: Vec<(S, Option<R>)> = each.map(|_| (S::default(), None)).collect();
        while all.iter().any(|(_, answer)| answer.is_none()) {
            self.turn();
            let graphs = &mut *self.0.borrow_mut();
            let each = workers.iter().zip(&mut all);
            for (&worker, (state, answer)) in each.filter(|(_, (_, answer))| answer.is_none()) {
                *answer = job(&mut graphs[worker], state);
            }
        }
        Ok(all.into_iter().filter_map(|(_, answer)| answer).collect())
    }

    fn run_on_one<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&mut Graph) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        Ok(job(&mut self.0.borrow_mut()[worker]))
    }
}

fn frame(src: (&str, u16), dst: (&str, u16)) -> Vec<u8> {
    let packet = ip4().src(src.0).dst(dst.0).udp(src.1, dst.1);
    packet.ether("2:0:0:0:0:1", "2:0:0:0:0:2").bytes()
}

/// Source and destination of a datagram, as text and port.
fn ends(datagram: &[u8]) -> [(String, u16); 2] {
    let ip = Ipv4::new_checked(datagram).expect("it is a datagram");
    let udp = Udp::new_checked(ip.payload()).expect("it is UDP");
    [
        (ip.src().to_string(), udp.src_port()),
        (ip.dst().to_string(), udp.dst_port()),
    ]
}

#[test]
fn each_worker_translates_for_its_buckets_and_mappings_move_with_them() {
    let plan = plan(&text(NAT, "symmetric"));
    let nat = plan.find("nat").expect("it is there");
    assert_eq!(plan.elements[nat].workers, [0, 1]);
    assert!(plan.crossings().is_empty());
    let workers = Workers::new(&plan);
    let mut rng = Rng::seed(3);
    let mut outside: HashMap<u16, u16> = HashMap::new();
    let mut sent_of: HashMap<u16, u64> = HashMap::new();
    for round in 0..600 {
        let flow = 2000 + rng.below(80) as u16;
        let client = format!("10.0.0.{}", flow % 7 + 1);
        let server = ("198.51.100.9", 53);
        let came_by = usize::from(flow % 2);
        let sent = frame((&client, flow), server);
        *sent_of.entry(flow).or_default() += 1;
        let left = workers.pass(came_by, "b0", &sent, "out");
        assert_eq!(left.len(), 1, "round {round}");
        let [from, to] = ends(&left[0]);
        assert_eq!(
            (from.0.as_str(), to.0.as_str(), to.1),
            ("192.0.2.1", server.0, server.1)
        );
        assert_eq!(
            *outside.entry(flow).or_insert(from.1),
            from.1,
            "flow {flow}, round {round}"
        );
        let reply = frame(server, (&from.0, from.1));
        let back = workers.pass(1 - came_by, "b1", &reply, "back");
        assert_eq!(
            back.iter().map(|b| ends(b)[1].clone()).collect::<Vec<_>>(),
            [(client, flow)]
        );
        let buckets: Vec<u16> = (0..20).map(|_| rng.below(256) as u16).collect();
        move_buckets(&workers, &plan, "t", &buckets, rng.below(2)).expect("they move");
    }
    let ports: HashSet<u16> = outside.values().copied().collect();
    assert_eq!(ports.len(), outside.len());
    let graphs = workers.0.borrow();
    assert!(graphs.iter().all(|graph| graph.stats()[nat].packets > 100));
    let lengths = graphs.iter().map(|graph| read(graph, "nat", "size"));
    let lengths: usize = lengths.map(|n| n.parse::<usize>().expect("a number")).sum();
    assert_eq!(lengths, outside.len());
    // Every flow has one line, on one worker, with all its packets.
    let lines: Vec<String> = graphs
        .iter()
        .map(|graph| read(graph, "c0", "flows"))
        .collect();
    assert!(lines.iter().all(|lines| !lines.is_empty()));
    let counted = lines.iter().flat_map(|lines| lines.lines()).map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (
            words[1].parse().expect("a port"),
            words[5].parse().expect("a count"),
        )
    });
    let counted: Vec<(u16, u64)> = counted.collect();
    assert_eq!(counted.len(), sent_of.len());
    assert_eq!(counted.into_iter().collect::<HashMap<_, _>>(), sent_of);
}

/// Answer of an element's handler on a worker.
fn read(graph: &Graph, element: &str, handler: &str) -> String {
    let node = graph.plan().find(element).expect("it is there");
    let handlers = (graph.plan().elements[node].class.handlers)();
    let handler = handlers.iter().position(|info| info.name == handler);
    let answer = graph.read(node, handler.expect("there is one"), "");
    answer.expect("it is here").expect("it can be read")
}

#[test]
fn the_key_stays_while_mappings_are_kept_by_its_buckets() {
    let set_key = |plan: &Plan, key: &str| {
        let node = plan.find("b0").expect("it is there");
        let mut handlers = (plan.elements[node].class.handlers)().into_iter();
        let at = handlers.position(|info| info.name == "key" && info.access.writable());
        plan.control(node, at.expect("there is one"), key)
    };
    let split = plan(&text(NAT, "symmetric"));
    let workers = Workers::new(&split);
    let refused = set_key(&split, "microsoft").expect_err("flows would be lost");
    assert!(refused.contains("IPRewriter"), "{refused}");
    assert_eq!(set_key(&split, "symmetric"), Ok(String::new()));
    drop(workers);
    let whole = plan(&text(NAT, "microsoft"));
    assert_eq!(set_key(&whole, "symmetric"), Ok(String::new()));
}

#[test]
fn rewriter_stays_on_one_worker_if_replies_could_reach_another() {
    let away = |text: &str| {
        let plan = plan(text);
        let nat = &plan.elements[plan.find("nat").expect("it is there")];
        nat.workers.len() == 1 && !plan.crossings().is_empty()
    };
    assert!(!away(&text(NAT, "symmetric")));
    assert!(away(&text(NAT, "microsoft")));
    assert!(away(&text(
        "IPRewriter(pattern 192.0.2.1 80 - - 0 1, drop)",
        "symmetric"
    )));
    assert!(away(&text(
        "IPAddrRewriter(pattern 192.0.2.1 - 0 1, drop)",
        "symmetric"
    )));
    let other = text(NAT, "symmetric").replacen("Steer(TABLE t)", "Steer(TABLE u)", 1);
    assert!(away(&other));
    let with_errors = text(NAT, "symmetric") + "Idle -> ICMPRewriter(nat) -> Discard;";
    assert!(away(&with_errors));
}
