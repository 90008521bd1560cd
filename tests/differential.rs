//! Random graphs give the same packets on both walkers, with one worker and with two.

use engine::clock::{Clock, Time};
use engine::graph::Walker;
use engine::graph::single;
use engine::plan::Plan;
use engine::port::PortDirectory;
use engine::stats::{self, NodeStats};
use ports::Directory;
use router_tests::random::{RandomGraph, Sink, flow_and_number, frames};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use testkit::{Collected, Rng};

const GRAPHS: u64 = 100;
const PACKETS: usize = 200;
const LONG: Duration = Duration::from_secs(20);

/// Way to run a graph.
#[derive(Clone, Copy, Debug)]
enum Run {
    One(Walker),
    /// On one worker, without fused loops.
    Apart,
    Two,
}

/// Packets of a sink, by flow: bytes (or the flow's number and the packet's number), and paint.
type Flows = BTreeMap<u16, Vec<(Vec<u8>, u8)>>;

/// Observations of a run.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    sinks: BTreeMap<String, Flows>,
    counts: BTreeMap<String, String>,
    drops: BTreeMap<(String, String), u64>,
}

fn flows(sink: &Sink, packets: Vec<Collected>) -> Flows {
    let mut flows = Flows::new();
    for packet in packets {
        let (flow, number) = flow_and_number(&packet.bytes);
        let shown = if sink.compare.bytes {
            packet.bytes
        } else {
            let mut shown = packet.bytes.len().to_be_bytes().to_vec();
            shown.extend(number.to_be_bytes());
            shown
        };
        let of_flow = flows.entry(flow).or_default();
        of_flow.push((shown, packet.anno.paint));
    }
    if !sink.compare.order {
        flows.values_mut().for_each(|packets| packets.sort());
    }
    flows
}

fn drops(plan: &Plan, stats: &[NodeStats]) -> BTreeMap<(String, String), u64> {
    let each = stats::drops(plan, stats);
    each.map(|(element, name, n)| ((element.to_owned(), name), n))
        .collect()
}

fn show(
    graph: &RandomGraph,
    plan: &Plan,
    stats: &[NodeStats],
    mut read: impl FnMut(&str) -> String,
) -> Shown {
    let sinks = graph.sinks.iter().map(|sink| {
        let packets = testkit::collected(plan, &sink.name);
        (sink.name.clone(), flows(sink, packets))
    });
    let names = graph
        .counters
        .iter()
        .flat_map(|name| ["count", "byte_count"].map(|handler| format!("{name}.{handler}")));
    Shown {
        sinks: sinks.collect(),
        counts: names.map(|name| (name.clone(), read(&name))).collect(),
        drops: drops(plan, stats),
    }
}

fn run(graph: &RandomGraph, packets: &[(usize, Vec<u8>)], how: Run) -> Shown {
    let ports = Arc::new(Directory::new());
    let workers = match how {
        Run::One(_) | Run::Apart => 1,
        Run::Two => 2,
    };
    let chains = match how {
        Run::Apart => &[],
        _ => classes::fused_loops(),
    };
    let plan = testkit::plan_fused(classes::all(), chains, &graph.text, workers, &*ports)
        .unwrap_or_else(|e| panic!("{e}\n{}", graph.text));
    let directory: Arc<dyn PortDirectory> = Arc::clone(&ports) as _;
    let source = ports.memory("a");
    match how {
        Run::One(_) | Run::Apart => {
            let walker = match how {
                Run::One(walker) => walker,
                _ => Walker::Sweep,
            };
            let clock = Clock::at(Time(1_000_000_000));
            let mut one =
                single(&plan, directory, walker, clock, 7).unwrap_or_else(|e| panic!("{e}"));
            for (_, frame) in packets {
                assert!(source.inject(0, frame));
            }
            let mut still = 0;
            while still < 3 {
                still = if one.turn() { 0 } else { still + 1 };
            }
            let stats = one.stats().to_vec();
            show(graph, &plan, &stats, |path| {
                let answer = one.job(|cx| cx.read(path, ""));
                answer.unwrap_or_else(|e| panic!("{path}: {e}"))
            })
        }
        Run::Two => {
            let router = router_tests::run(&plan, directory);
            for (flow, frame) in packets {
                assert!(source.inject(flow % 2, frame));
            }
            source.end();
            assert!(router.wait_ended(LONG), "it does not end:\n{}", graph.text);
            let mut stats = vec![NodeStats::default(); plan.elements.len()];
            for of_worker in router.stats().expect("the workers answer") {
                stats.iter_mut().zip(&of_worker).for_each(|(s, w)| s.add(w));
            }
            show(graph, &plan, &stats, |path| {
                let answer = router.read(path, "");
                answer.unwrap_or_else(|e| panic!("{path}: {e}"))
            })
        }
    }
}

/// The first entries that differ, in words.
fn difference<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    a: &BTreeMap<K, V>,
    b: &BTreeMap<K, V>,
) -> String {
    let keys = a.keys().chain(b.keys().filter(|k| !a.contains_key(k)));
    let wrong = keys.filter(|&k| a.get(k) != b.get(k));
    let lines = wrong.map(|k| format!("{what} {k:?}: {:?} against {:?}\n", a.get(k), b.get(k)));
    lines.collect()
}

/// The first packets of a sink's flows that differ.
fn first_difference(sink: &str, a: &Flows, b: &Flows) -> String {
    let none = Vec::new();
    let keys = a.keys().chain(b.keys().filter(|k| !a.contains_key(k)));
    let lines = keys.filter_map(|flow| {
        let (a, b) = (a.get(flow).unwrap_or(&none), b.get(flow).unwrap_or(&none));
        let at = (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i))?;
        let (of_a, of_b) = (a.len(), b.len());
        let (a, b) = (a.get(at), b.get(at));
        Some(format!(
            "{sink} flow {flow}: {of_a} packets against {of_b}; number {at} is\n  {a:?}\n  {b:?}\n"
        ))
    });
    lines.take(3).collect()
}

fn compare(seed: u64) -> Result<usize, String> {
    let graph = RandomGraph::new(seed);
    let packets = frames(&mut Rng::seed(seed ^ 0xf00d), PACKETS);
    let strict = run(&graph, &packets, Run::One(Walker::Strict));
    for how in [Run::One(Walker::Sweep), Run::Apart, Run::Two] {
        let other = run(&graph, &packets, how);
        if other == strict {
            continue;
        }
        let mut text = difference("count", &strict.counts, &other.counts);
        text += &difference("drop", &strict.drops, &other.drops);
        for (name, flows) in &strict.sinks {
            text += &first_difference(name, flows, &other.sinks[name]);
        }
        return Err(format!(
            "seed {seed}, strict against {how:?}:\n{text}\n{}",
            graph.text
        ));
    }
    let flows = strict.sinks.values().flat_map(BTreeMap::values);
    Ok(flows.map(Vec::len).sum())
}

#[test]
fn random_graphs_give_the_same_on_both_walkers_and_on_two_workers() {
    // To run one seed: ASHLAR_SEED=17 cargo test -p router-tests differential::
    let only = std::env::var("ASHLAR_SEED").ok();
    let only: Option<u64> = only.and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..GRAPHS, |seed| seed..seed + 1);
    let mut mistakes = Vec::new();
    let mut arrived = 0;
    for seed in seeds {
        match compare(seed) {
            Ok(packets) => arrived += packets,
            Err(mistake) => mistakes.push(mistake),
        }
    }
    assert!(
        mistakes.is_empty(),
        "{} graphs differ:\n{}",
        mistakes.len(),
        mistakes.join("\n")
    );
    assert!(arrived > PACKETS, "packets reach the sinks");
}
