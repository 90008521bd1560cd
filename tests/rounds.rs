//! Turns of several rounds: a source continues with waiting packets, and nothing else changes.

use cluster::address::{Address, HOPS_MAX, Kind, cookie};
use engine::clock::{Clock, Time};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::stats::NodeStats;
use planner::Options;
use router_tests::{InMemory, plan_with, registry};
use std::sync::Arc;

const NOW: Time = Time(1_000_000_000);
const ROUNDS: u32 = 16;

fn start(text: &str) -> (Graph, Arc<InMemory>) {
    let ports = Arc::new(InMemory::default());
    let plan = plan_with(registry(), text, &[], &Options::new(1, &*ports));
    let graph = single(
        &plan,
        Arc::clone(&ports) as _,
        Walker::Sweep,
        Clock::at(NOW),
        7,
    );
    (graph.unwrap_or_else(|e| panic!("{e}")), ports)
}

/// Frames that differ in their first byte and in their length.
fn frames(n: u8) -> Vec<Vec<u8>> {
    let frame = |i: u8| [&[i][..], &vec![0; 60 + usize::from(i)]].concat();
    (0..n).map(frame).collect()
}

fn inject(ports: &InMemory, frames: &[Vec<u8>]) {
    let all = frames.iter().map(Vec::as_slice);
    assert_eq!(ports.far("DEV0").inject_all(0, all), frames.len());
}

fn sent_by(ports: &InMemory) -> Vec<Vec<u8>> {
    let sent = ports.far("DEV1").collect();
    sent.into_iter().map(|sent| sent.frame).collect()
}

fn stats<'g>(graph: &'g Graph, element: &str) -> &'g NodeStats {
    &graph.stats()[graph.plan().find(element).expect("an element")]
}

#[test]
fn one_turn_brings_all_that_waits_in_bursts_and_in_order() {
    let (mut graph, ports) = start("in :: FromDevice(DEV0, BURST 4) -> out :: ToDevice(DEV1);");
    let all = frames(30);
    for runs in 1..=4 {
        inject(&ports, &all);
        assert!(graph.turn_at(NOW, ROUNDS));
        assert_eq!(sent_by(&ports), all);
        let n = runs * all.len() as u64;
        let (sent, came) = (stats(&graph, "in"), stats(&graph, "out"));
        assert_eq!((sent.sent[0], came.packets, came.batches), (n, n, runs * 8));
        assert_eq!(
            graph.task_stats().map(|(_, task)| task.runs).sum::<u64>(),
            runs
        );
    }
    assert!(!graph.turn_at(NOW, ROUNDS));
}

#[test]
fn no_turn_has_more_rounds_than_it_may() {
    let (mut graph, ports) = start("FromDevice(DEV0, BURST 4) -> ToDevice(DEV1);");
    inject(&ports, &frames(30));
    let mut sent = || {
        graph.turn_at(NOW, 3);
        sent_by(&ports).len()
    };
    assert_eq!([sent(), sent(), sent(), sent()], [12, 12, 6, 0]);
}

#[test]
fn the_next_element_names_the_output_of_each_burst_anew() {
    let text = "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps c 1Gbps d 1Gbps, LINKS a-b a-c a-d b-c b-d c-d);
        FromDevice(DEV0, BURST 4) -> t :: VLBTransit(vlb); Idle -> [1]t; Idle -> [2]t;
        t[0] -> a :: Discard; t[1] -> out :: ToDevice(DEV1); t[2] -> d :: Discard; t[3] -> Discard; t[4] -> Discard;";
    let (mut graph, ports) = start(text);
    // To c or d, or to another output: in bursts of one destination, and in mixed ones.
    let minds = "ccccddddcdcdxxxxxcxdddcxccccxxdxdddd";
    let frame = |(n, to): (usize, char)| {
        let address = Address {
            kind: Kind::Data,
            hops: HOPS_MAX,
            node: if to == 'c' { 2 } else { 3 },
            port: 0,
            gateway: 0,
            input: 0,
            via: 1,
            cookie: cookie(if to == 'x' { "other" } else { "t" }),
        };
        [&address.bytes()[..], &[8, 0, n as u8], &[0; 60]].concat()
    };
    let all: Vec<_> = minds.chars().enumerate().map(frame).collect();
    let of = |mind| minds.chars().filter(|&of| of == mind).count() as u64;
    let to_c: Vec<u8> = minds
        .char_indices()
        .filter(|at| at.1 == 'c')
        .map(|at| at.0 as u8)
        .collect();
    for runs in 1..=3 {
        inject(&ports, &all);
        while graph.turn_at(NOW, ROUNDS) {}
        let sent: Vec<u8> = sent_by(&ports).iter().map(|frame| frame[14]).collect();
        assert_eq!(sent, to_c);
        let transit = stats(&graph, "t");
        assert_eq!(transit.sent[..3], [0, runs * of('c'), runs * of('d')]);
        assert_eq!(transit.drops.iter().sum::<u64>(), runs * of('x'));
        assert_eq!(stats(&graph, "d").packets, runs * of('d'));
    }
}

#[test]
fn packets_not_taken_by_the_next_element_continue() {
    let text = "FromDevice(DEV0, BURST 4) -> k :: Classifier(0/03, 0/05, -) -> c :: Counter -> ToDevice(DEV1);
        k[1] -> odd :: Discard; k[2] -> rest :: Discard;";
    let (mut graph, ports) = start(text);
    inject(&ports, &frames(30));
    assert!(graph.turn_at(NOW, ROUNDS));
    while graph.turn() {}
    assert_eq!(sent_by(&ports), frames(30)[3..4]);
    let came = ["k", "c", "odd", "rest"].map(|name| stats(&graph, name).packets);
    assert_eq!(came, [30, 1, 1, 28]);
    assert_eq!(stats(&graph, "k").sent, [1, 1, 28]);
}

#[test]
fn a_call_is_made_before_the_next_burst_comes() {
    let text = "FromDevice(DEV0, BURST 4) -> c :: Counter(COUNT_CALL 8 s.switch 1) -> s :: Switch -> ToDevice(DEV1);
        s[1] -> late :: Discard;";
    let (mut graph, ports) = start(text);
    inject(&ports, &frames(30));
    assert!(graph.turn_at(NOW, ROUNDS));
    while graph.turn() {}
    assert_eq!(sent_by(&ports), frames(4));
    assert_eq!(stats(&graph, "late").packets, 26);
}
