use super::*;
use crate::auth::Key;
use lab::{Lab, MS, US, Way};

mod lab;
mod pair;

/// Number of seeds for each kind of trial.
const SEEDS: u64 = 20;

/// Sixteen nodes; some are two links apart.
fn fly() -> Map {
    Map::fly(4, 2, 1e9)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Kill,
    Hang,
    Cut,
    OneWay,
    Lossy,
    LossyOneWay,
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Node(usize),
    Link(usize),
}

/// Changes both directions of a link or of all links of a node, or only the outgoing directions if `one_way`.
fn each_way(lab: &mut Lab, at: At, one_way: bool, job: impl Fn(&mut Way)) {
    for (number, link) in lab.map.links.iter().enumerate() {
        for side in 0..2 {
            let from = usize::from(link.ends[side]);
            let to = usize::from(link.ends[1 - side]);
            let here = match at {
                At::Node(node) => node == from || node == to && !one_way,
                At::Link(link) => link == number && (side == 0 || !one_way),
            };
            if here {
                job(&mut lab.ways[number][side]);
            }
        }
    }
}

fn break_it(lab: &mut Lab, fault: Fault, at: At) {
    match (fault, at) {
        (Fault::Kill, At::Node(node)) => lab.kill(node),
        (Fault::Hang, At::Node(node)) => lab.hang(node, 600 * MS),
        (Fault::Cut, _) => each_way(lab, at, false, |way| way.cut = true),
        (Fault::OneWay, _) => each_way(lab, at, true, |way| way.cut = true),
        (Fault::Lossy, _) => each_way(lab, at, false, |way| way.loss = 700),
        (Fault::LossyOneWay, _) => each_way(lab, at, true, |way| way.loss = 700),
        (Fault::Slow, _) => each_way(lab, at, true, |way| way.delay += 20 * MS),
        (Fault::Kill | Fault::Hang, At::Link(_)) => unreachable!("a link does not run"),
    }
}

fn mend(lab: &mut Lab, fault: Fault, at: At) {
    match (fault, at) {
        (Fault::Kill, At::Node(node)) => lab.start(node),
        (Fault::Slow, _) => each_way(lab, at, true, |way| way.delay -= 20 * MS),
        _ => each_way(lab, at, false, |way| (way.cut, way.loss) = (false, 0)),
    }
}

/// A mesh whose links are all up.
fn met(nodes: usize, seed: u64) -> Lab {
    let mut lab = Lab::new(Map::mesh(nodes, 1e9), Config::default(), seed);
    assert!(lab.run_while(1_000 * MS, |lab| !all_up(lab)));
    lab.lost.clear();
    lab
}

fn all_up(lab: &Lab) -> bool {
    let links = || 0..lab.map.links.len();
    (0..lab.nodes()).all(|node| {
        let health = lab.health(node);
        health.is_some_and(|health| links().all(|link| health.links().up(link)))
    })
}

/// Breaks a part of a working cluster and repairs it. Returns the time until no node used the broken part.
fn trial(map: Map, fault: Fault, at: At, seed: u64) -> u64 {
    let mut lab = Lab::new(map, Config::default(), seed);
    lab.run_while(400 * MS, |lab| !all_up(lab));
    assert!(all_up(&lab), "{fault:?} {at:?} {seed}: it never came up");
    let phase = lab.dice.below(40 * MS);
    lab.run(phase);
    lab.lost.clear();
    let broken: Vec<usize> = match at {
        At::Node(node) => lab.map.links_of(node as u16).collect(),
        At::Link(link) => vec![link],
    };
    let begin = lab.now;
    break_it(&mut lab, fault, at);
    // A hanging node cannot detect anything.
    let knows = |node| !(matches!(fault, Fault::Kill | Fault::Hang) && at == At::Node(node));
    let used = |lab: &Lab| {
        let users = (0..lab.nodes()).filter(|&node| knows(node));
        users.filter_map(|node| lab.health(node)).any(|health| {
            // An isolated node cannot learn of links other than its own.
            broken.iter().any(|&link| health.links().up(link))
        })
    };
    assert!(
        lab.run_while(500 * MS, used),
        "{fault:?} {at:?} {seed}: it was not found"
    );
    let found = lab.now - begin;
    lab.run(500 * MS - found);
    assert!(!used(&lab), "{fault:?} {at:?} {seed}: it flaps");
    // A hung node receives all waiting frames when it wakes, and then learns that others used detours.
    let others = lab.lost.iter().filter(|(_, node, _)| knows(*node));
    for (time, node, link) in others {
        assert!(
            broken.contains(link),
            "{fault:?} {at:?} {seed}: node {node} took link {link} for broken at {time}"
        );
    }
    mend(&mut lab, fault, at);
    assert!(
        lab.run_while(400 * MS, |lab| !all_up(lab)),
        "{fault:?} {at:?} {seed}: it did not come back"
    );
    found
}

fn trials(map: fn() -> Map, at: fn(&Map, u64) -> At, faults: &[Fault]) {
    for &fault in faults {
        for seed in 0..SEEDS {
            let map = map();
            let at = at(&map, seed);
            let found = trial(map, fault, at, seed);
            assert!(
                found < 50 * MS,
                "{fault:?} {at:?} {seed}: {} us",
                found / US
            );
        }
    }
}

const OF_NODES: [Fault; 7] = [
    Fault::Kill,
    Fault::Hang,
    Fault::Cut,
    Fault::OneWay,
    Fault::Lossy,
    Fault::LossyOneWay,
    Fault::Slow,
];

fn a_node(map: &Map, seed: u64) -> At {
    At::Node(seed as usize % map.nodes.len())
}

fn a_link(map: &Map, seed: u64) -> At {
    At::Link(seed as usize % map.links.len())
}

#[test]
fn a_node_of_a_mesh_that_fails_is_found_and_comes_back() {
    trials(|| Map::mesh(4, 1e9), a_node, &OF_NODES);
}

#[test]
fn a_link_of_a_mesh_that_fails_is_found_and_comes_back() {
    trials(|| Map::mesh(4, 1e9), a_link, &OF_NODES[2..]);
}

#[test]
fn a_node_of_a_fly_that_fails_is_found_by_all_and_comes_back() {
    trials(fly, a_node, &OF_NODES);
}

#[test]
fn a_link_of_a_fly_that_fails_is_found_by_all_and_comes_back() {
    trials(fly, a_link, &OF_NODES[2..]);
}

/// Runs a cluster whose loops are sometimes late, and whose links lose one frame in a thousand.
fn rough(map: Map, seed: u64, time: u64, late: std::ops::Range<u64>) -> Lab {
    let mut lab = Lab::new(map, Config::default(), seed);
    lab.jitter = 3 * MS;
    for way in lab.ways.iter_mut().flatten() {
        way.loss = 1;
    }
    assert!(lab.run_while(1000 * MS, |lab| !all_up(lab)));
    lab.lost.clear();
    let end = lab.now + time;
    while lab.now < end {
        let node = lab.dice.below(lab.nodes() as u64) as usize;
        let lateness = late.start + lab.dice.below(late.end - late.start);
        lab.hang(node, lateness);
        let next = lateness + lab.dice.below(200 * MS);
        lab.run(next);
    }
    lab
}

#[test]
fn late_loops_and_single_lost_frames_are_no_failures() {
    let lab = rough(Map::mesh(4, 1e9), 1, 60_000 * MS, 1..24 * MS);
    assert_eq!(lab.lost, []);
    let lab = rough(fly(), 2, 3_000 * MS, 1..24 * MS);
    assert_eq!(lab.lost, []);
}

/// Models servers that share processors: more and more of them wait at the same time, and for longer.
#[test]
fn nodes_that_share_processors_are_no_failures_and_one_that_dies_is_found() {
    for seed in 0..SEEDS {
        let mut lab = met(4, seed);
        for round in 0..400 {
            // Peers cannot know of the first delays, which are shorter than DEAD even if two follow each other.
            let longest = (16 + round).min(90);
            let node = lab.dice.below(4) as usize;
            let time = (5 + lab.dice.below(longest - 5)) * MS;
            lab.hang(node, time);
            let next = lab.dice.below(60) * MS;
            lab.run(next);
        }
        assert_eq!(lab.lost, [], "{seed}");
        let begin = lab.now;
        lab.kill(0);
        let used = |lab: &Lab| {
            let mut others = (1..4).filter_map(|node| lab.health(node));
            others.any(|health| (0..3).any(|link| health.links().up(link)))
        };
        assert!(lab.run_while(400 * MS, used), "{seed}: it was not found");
        assert!(
            lab.now - begin <= 310 * MS,
            "five times DEAD, and who hangs: {}",
            lab.now - begin
        );
    }
}

/// Models a kernel that shares its processor: frames of a node wait there in both directions and arrive together. The
/// node's loop is never late.
#[test]
fn frames_that_waited_for_the_same_processor_make_no_link_slow() {
    for seed in 0..SEEDS {
        let mut lab = met(4, seed);
        for _ in 0..100 {
            let node = At::Node(lab.dice.below(4) as usize);
            let stall = 5 + lab.dice.below(25);
            for left in (1..=stall).rev() {
                each_way(&mut lab, node, false, |way| way.delay += left * MS);
                lab.run(MS);
                each_way(&mut lab, node, false, |way| way.delay -= left * MS);
            }
            let next = (20 + lab.dice.below(60)) * MS;
            lab.run(next);
        }
        assert_eq!(lab.lost, [], "{seed}");
    }
}

#[test]
fn lateness_of_a_peer_is_forgotten() {
    let mut lab = met(2, 5);
    for _ in 0..20 {
        lab.hang(1, 35 * MS);
        lab.run(100 * MS);
    }
    lab.run(60_000 * MS);
    let begin = lab.now;
    lab.kill(1);
    let used = |lab: &Lab| lab.health(0).is_some_and(|health| health.links().up(0));
    assert!(lab.run_while(400 * MS, used));
    assert!(lab.now - begin <= 50 * MS, "{}", lab.now - begin);
}

#[test]
fn queues_on_all_links_are_no_failure_and_one_that_is_much_slower_is() {
    let mut lab = Lab::new(Map::mesh(4, 1e9), Config::default(), 1);
    lab.run_while(400 * MS, |lab| !all_up(lab));
    lab.lost.clear();
    (0..6).for_each(|link| each_way(&mut lab, At::Link(link), false, |way| way.delay += 10 * MS));
    lab.run(1_000 * MS);
    assert!(all_up(&lab), "{:?}", lab.lost);
    each_way(&mut lab, At::Link(0), false, |way| way.delay += 60 * MS);
    lab.run(1_000 * MS);
    let up = |lab: &Lab, link| lab.health(0).is_some_and(|health| health.links().up(link));
    assert!(!up(&lab, 0) && (1..6).all(|link| up(&lab, link)));
}

#[test]
fn a_slow_link_carries_traffic_that_no_other_link_can() {
    let mut lab = Lab::new(Map::mesh(3, 1e9), Config::default(), 1);
    lab.run_while(400 * MS, |lab| !all_up(lab));
    each_way(&mut lab, At::Link(0), false, |way| way.delay += 20 * MS);
    let up = |lab: &Lab| lab.health(0).is_some_and(|health| health.links().up(0));
    assert!(lab.run_while(100 * MS, up), "nodes 0 and 1 go by 2");
    lab.kill(2);
    assert!(
        lab.run_while(400 * MS, |lab| !up(lab)),
        "nobody else is there"
    );
}

#[test]
fn late_node_takes_no_links_down() {
    let mut lab = Lab::new(Map::mesh(4, 1e9), Config::default(), 3);
    for round in 0..50 {
        // Links that fail often need more good heartbeats.
        assert!(lab.run_while(12_000 * MS, |lab| !all_up(lab)));
        let node = lab.dice.below(4) as usize;
        lab.hang(node, (50 + 10 * round) * MS);
        for _ in 0..(100 + 10 * round) {
            lab.run(MS);
            let states = lab.health(node).expect("it lives").states();
            let mut blamed =
                states.filter(|state| ![Cause::None, Cause::Unheard].contains(&state.cause));
            assert_eq!(blamed.next(), None, "round {round}");
        }
    }
}
