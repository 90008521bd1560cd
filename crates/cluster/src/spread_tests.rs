use super::*;
use crate::map::{Fabric, Links, Map, Reach};
use std::sync::Arc;

const R: f64 = 1e9;
const BYTES: u32 = 1000;
const MS: u64 = 1_000_000;

/// A cluster without delays: a sent packet arrives at once. It measures the load of links.
struct Cluster {
    reach: Arc<Reach>,
    ways: Vec<Ways>,
    spreads: Vec<Spread>,
    /// Bytes by node and own link.
    loads: Vec<Vec<u64>>,
    /// Bytes for each pair of input and output node: offered and refused.
    offered: Vec<Vec<u64>>,
    refused: Vec<Vec<u64>>,
    /// Number of packets that each node sent or received.
    handled: Vec<u64>,
}

impl Cluster {
    fn new(map: Map, settings: &Settings) -> Cluster {
        let links = Links::all(&map);
        Cluster::with(map, &links, settings)
    }

    fn with(map: Map, links: &Links, settings: &Settings) -> Cluster {
        let n = map.nodes.len();
        let reach = Reach::new(&Fabric::new(map), links);
        let ways: Vec<Ways> = (0..n as NodeId)
            .map(|node| Ways::new(&reach, node))
            .collect();
        Cluster {
            spreads: ways
                .iter()
                .map(|ways| Spread::new(settings.clone(), ways, 0))
                .collect(),
            loads: ways.iter().map(|w| vec![0; w.rates().len()]).collect(),
            offered: vec![vec![0; n]; n],
            refused: vec![vec![0; n]; n],
            handled: vec![0; n],
            reach,
            ways,
        }
    }

    fn packet(&mut self, now: u64, from: usize, to: usize, flow: u32) -> Option<Choice> {
        self.offered[from][to] += u64::from(BYTES);
        let node = to as NodeId;
        let choice = self.spreads[from].choose(now, &self.ways[from], node, BYTES, flow);
        let Ok(choice) = choice else {
            self.refused[from][to] += u64::from(BYTES);
            return None;
        };
        let (mut at, mut link, mut via) = (from, choice.link, choice.via);
        self.handled[at] += 1;
        for hop in 0.. {
            assert!(hop < 15, "{from} to {to} by {choice:?} never arrives");
            self.loads[at][usize::from(link)] += u64::from(BYTES);
            if at != from {
                self.spreads[at].carried(now, link, BYTES);
            }
            let fabric = self.reach.fabric();
            at = fabric.neighbours(at as NodeId)[usize::from(link)].0.into();
            self.handled[at] += 1;
            if at == usize::from(via) {
                via = NO_NODE;
            }
            if at == to {
                break;
            }
            // Nodes choose independently of each other, as in `transit`.
            let (ways, hash) = (&self.ways[at], scramble(flow ^ (at as u32) << 16));
            let next = match via {
                NO_NODE => ways.link_on(node, hash, from as NodeId),
                via => ways.link(via, hash),
            };
            link = next.unwrap();
        }
        Some(choice)
    }

    /// Sends traffic by a matrix of rates relative to R, and measures the second half.
    fn run(&mut self, matrix: &[Vec<f64>], duration: u64) {
        let n = matrix.len();
        let gap = f64::from(BYTES) * 8e9 / R;
        let mut due: Vec<(f64, usize, usize, f64)> = Vec::new();
        let mut rng = 7u32;
        for (from, row) in matrix.iter().enumerate() {
            for (to, &part) in row.iter().enumerate().filter(|(_, part)| **part > 0.0) {
                rng = scramble(rng.wrapping_add(1));
                let first = f64::from(rng) / f64::from(u32::MAX) * gap / part;
                due.push((first, from, to, gap / part));
            }
        }
        let mut events = std::collections::BinaryHeap::new();
        for (at, &(first, ..)) in due.iter().enumerate() {
            events.push(std::cmp::Reverse((first as u64, at)));
        }
        let mut half = false;
        while let Some(std::cmp::Reverse((now, at))) = events.pop() {
            if now >= duration {
                break;
            }
            if !half && now >= duration / 2 {
                half = true;
                self.loads.iter_mut().for_each(|loads| loads.fill(0));
                for book in [&mut self.offered, &mut self.refused] {
                    book.iter_mut().for_each(|row| row.fill(0));
                }
                self.handled = vec![0; n];
            }
            let (_, from, to, every) = due[at];
            rng = scramble(rng.wrapping_add(GOLDEN_RATIO));
            self.packet(now, from, to, rng);
            due[at].0 += every;
            events.push(std::cmp::Reverse((due[at].0 as u64, at)));
        }
        let seconds = duration as f64 / 2e9;
        self.check(seconds);
    }

    /// Asserts that no link exceeds its rate by more than 5 %, and that no pair gets 5 % less than its share.
    fn check(&self, seconds: f64) {
        for (node, loads) in self.loads.iter().enumerate() {
            for (load, rate) in loads.iter().zip(self.ways[node].rates()) {
                let used = *load as f64 * 8.0 / seconds / rate;
                assert!(used <= 1.05, "a link of node {node} is asked for {used}");
            }
        }
        let n = self.offered.len();
        for (from, to) in (0..n * n).map(|pair| (pair / n, pair % n)) {
            let [offered, refused] = [&self.offered, &self.refused].map(|b| b[from][to] as f64);
            assert!(
                refused <= offered * 0.05,
                "{from} to {to}: {refused} of {offered}"
            );
        }
    }
}

fn packets() -> Settings {
    Settings {
        flows: 0,
        ..Settings::default()
    }
}

fn uniform(n: usize) -> Vec<Vec<f64>> {
    let part = |from: usize, to: usize| {
        if from == to {
            0.0
        } else {
            1.0 / (n - 1) as f64
        }
    };
    (0..n)
        .map(|from| (0..n).map(|to| part(from, to)).collect())
        .collect()
}

fn permutation(n: usize, shift: usize) -> Vec<Vec<f64>> {
    let part = |from: usize, to: usize| f64::from(u8::from((from + shift) % n == to));
    (0..n)
        .map(|from| (0..n).map(|to| part(from, to)).collect())
        .collect()
}

/// Traffic with a hot spot: all nodes together send to one node as much as it can take, and the rest goes round in a
/// circle.
fn hot_spot(n: usize) -> Vec<Vec<f64>> {
    let to_hot = 1.0 / (n - 1) as f64;
    let part = |from: usize, to: usize| match (from, to) {
        (0, 1) => 1.0,
        (0, _) => 0.0,
        (_, 0) => to_hot,
        _ if to == from % (n - 1) + 1 => 1.0 - to_hot,
        _ => 0.0,
    };
    let mut matrix: Vec<Vec<f64>> = (0..n)
        .map(|from| (0..n).map(|to| part(from, to)).collect())
        .collect();
    // Node 1 receives from node n-1 as well: both share what it can take.
    matrix[0][1] = 1.0 - matrix[n - 1][1];
    matrix[0][2] = to_hot;
    matrix[1][2] -= to_hot;
    matrix
}

/// A weighted mean of permutations: every row and column sums up to one, except for traffic of a node to itself.
fn random_admissible(n: usize, seed: u32) -> Vec<Vec<f64>> {
    let mut rng = seed;
    let mut draw = move |below: usize| {
        rng = scramble(rng.wrapping_add(GOLDEN_RATIO));
        rng as usize % below
    };
    let mut matrix = vec![vec![0.0; n]; n];
    let mixed = 1 + draw(4);
    for _ in 0..mixed {
        let mut order: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            order.swap(last, draw(last + 1));
        }
        for (from, &to) in order.iter().enumerate().filter(|(from, to)| from != *to) {
            matrix[from][to] += 1.0 / mixed as f64;
        }
    }
    matrix
}

#[test]
fn no_pair_goes_straight_beyond_its_quota_within_any_time() {
    let n = 4;
    let map = Map::mesh(n, R);
    let ways = Ways::of(&map, &Links::all(&map), 0);
    let mut spread = Spread::new(packets(), &ways, 0);
    let (quota, gap) = (R / n as f64, 8 * u64::from(BYTES));
    let mut direct = Vec::new();
    for packet in 0..100_000u64 {
        // Bursts and pauses, to alternating nodes.
        if packet / 1000 % 3 == 2 {
            continue;
        }
        let now = packet * gap;
        let to = 1 + (packet / 5000 % 2) as NodeId;
        let before = spread.counts().direct;
        let _ = spread.choose(now, &ways, to, BYTES, packet as u32);
        if spread.counts().direct > before {
            direct.push((now, to));
        }
    }
    assert!(direct.len() > 10_000);
    for to in [1, 2] {
        let times: Vec<u64> = direct.iter().filter(|d| d.1 == to).map(|d| d.0).collect();
        for span in [10, 100, 1000, 5000] {
            for pair in times.windows(span + 1) {
                let spent = (span as f64) * f64::from(BYTES) * 8.0;
                let given = quota * ((pair[span] - pair[0]) as f64 + 2e6) / 1e9;
                assert!(spent <= given + f64::from(BYTES) * 8.0, "{span} packets");
            }
        }
    }
}

#[test]
fn uniform_traffic_goes_straight_but_for_what_no_node_sends_to_itself() {
    let n = 8;
    let mut cluster = Cluster::new(Map::mesh(n, R), &packets());
    cluster.run(&uniform(n), 200 * MS);
    let mut matrix = uniform(n);
    matrix
        .iter_mut()
        .flatten()
        .for_each(|part| *part *= (n - 1) as f64 / n as f64 * 0.99);
    let mut cluster = Cluster::new(Map::mesh(n, R), &packets());
    cluster.run(&matrix, 200 * MS);
    assert!(cluster.spreads.iter().all(|s| s.counts().phase1 == 0));
}

#[test]
fn permutations_load_no_link_beyond_2r_by_n() {
    for (n, shift) in [(3, 1), (4, 1), (4, 2), (8, 3), (16, 5)] {
        Cluster::new(Map::mesh(n, R), &packets()).run(&permutation(n, shift), 200 * MS);
    }
}

#[test]
fn a_hot_spot_loads_no_link_beyond_2r_by_n() {
    for n in [4, 8, 16] {
        let matrix = hot_spot(n);
        for node in 0..n {
            let sums = [
                matrix[node].iter().sum::<f64>(),
                matrix.iter().map(|row| row[node]).sum(),
            ];
            assert!(sums.iter().all(|&sum| sum < 1.0 + 1e-9), "{node}: {sums:?}");
        }
        Cluster::new(Map::mesh(n, R), &packets()).run(&matrix, 200 * MS);
    }
}

#[test]
fn random_admissible_traffic_loads_no_link_beyond_2r_by_n() {
    for seed in 1..13 {
        let n = [4, 5, 8][seed as usize % 3];
        Cluster::new(Map::mesh(n, R), &packets()).run(&random_admissible(n, seed), 200 * MS);
    }
}

#[test]
fn flowlets_load_links_no_more() {
    for (n, shift) in [(4, 1), (8, 3)] {
        let mut cluster = Cluster::new(Map::mesh(n, R), &Settings::default());
        cluster.run(&permutation(n, shift), 200 * MS);
    }
}

#[test]
fn a_fly_carries_admissible_traffic_over_several_links() {
    // Pairs of nodes whose numbers differ in both digits, in one digit, and mixed pairs.
    let permutations = [5, 4, 1].map(|shift| permutation(16, shift));
    let others = [uniform(16), random_admissible(16, 3)];
    for matrix in permutations.into_iter().chain(others) {
        Cluster::new(Map::fly(4, 2, R), &packets()).run(&matrix, 100 * MS);
    }
    for settings in [packets(), Settings::default()] {
        Cluster::new(Map::fly(3, 3, R), &settings).run(&permutation(27, 1), 100 * MS);
    }
}

#[test]
fn nodes_handle_between_twice_and_three_times_their_rate() {
    let n = 8;
    for (matrix, least, most) in [(uniform(n), 1.9, 2.3), (permutation(n, 3), 2.5, 3.0)] {
        let mut cluster = Cluster::new(Map::mesh(n, R), &packets());
        cluster.run(&matrix, 200 * MS);
        for (handled, sent) in cluster.handled.iter().zip(&cluster.offered) {
            let sent = sent.iter().sum::<u64>() / u64::from(BYTES);
            let c = *handled as f64 / sent as f64;
            assert!((least..=most).contains(&c), "{c}");
        }
    }
}

#[test]
fn many_inputs_into_one_output_get_the_same() {
    let n = 8;
    let mut cluster = Cluster::new(Map::mesh(n, R), &packets());
    let (gap, mut arrived) = (u64::from(BYTES) * 8, vec![0.0; n]);
    // The capacity of the links into the output node, then that of its external port: half of the packets pass.
    let mut port = Bucket::new(BucketTime::of(0));
    let mut links = vec![port; n];
    let (port_price, link_price) = (Price::of(R), Price::of(2.0 * R / n as f64));
    let mut rng = 1u32;
    for turn in 0..25_000u64 {
        // Each source has its own clock. With one clock for all, the source that sends right after a queue slot
        // becomes free would always get it.
        let mut moments = Vec::new();
        for from in 1..n {
            rng = scramble(rng.wrapping_add(GOLDEN_RATIO));
            moments.push((turn * gap + u64::from(rng) % gap, from));
        }
        moments.sort_unstable();
        for (time, from) in moments {
            let Some(choice) = cluster.packet(time, from, 0, turn as u32) else {
                continue;
            };
            let last = if choice.via == NO_NODE {
                from
            } else {
                choice.via.into()
            };
            let now = BucketTime::of(time);
            let passes = [(&mut links[last], link_price), (&mut port, port_price)]
                .into_iter()
                .all(|(bucket, price)| {
                    let depth = price.depth(1_000_000);
                    let fits = bucket.tokens(now, depth) >= 0;
                    if fits {
                        bucket.charge(now, depth, BYTES, price, i64::MIN);
                    }
                    fits
                });
            arrived[from] += f64::from(u8::from(passes));
        }
    }
    let sum: f64 = arrived.iter().sum();
    let squares: f64 = arrived.iter().map(|a| a * a).sum();
    let jain = sum * sum / (squares * (n - 1) as f64);
    assert!(jain >= 0.95, "{jain}: {arrived:?}");
    assert!(sum >= 0.97 * 25_000.0, "the output is used: {sum}");
}

#[test]
fn unequal_nodes_and_links_are_weighted() {
    let mut map = Map::mesh(4, R);
    map.nodes[3].rate = 3.0 * R;
    let all = map.rate();
    for link in &mut map.links {
        let [a, b] = link.ends.map(|end| map.nodes[usize::from(end)].rate);
        link.rate = 2.0 * a * b / all;
    }
    let mut matrix = permutation(4, 1);
    matrix[2] = vec![0.0, 0.0, 0.0, 1.0];
    matrix[3] = vec![1.0, 1.0, 1.0, 0.0];
    matrix[0] = vec![0.0, 0.0, 0.0, 1.0];
    matrix[1] = vec![0.0, 0.0, 0.0, 1.0];
    for settings in [packets(), Settings::default()] {
        Cluster::new(map.clone(), &settings).run(&matrix, 200 * MS);
    }
}

#[test]
fn flows_are_spread_by_the_rates_of_nodes_and_the_output_node_has_its_turn() {
    for rates in [vec![4.0, 4.0, 1.0, 4.0], vec![1.0; 4], vec![1.0; 16]] {
        let (n, all) = (rates.len(), rates.iter().sum::<f64>());
        let mut map = Map::mesh(n, R);
        for (node, rate) in map.nodes.iter_mut().zip(&rates) {
            node.rate = R * rate;
        }
        let ways = Ways::of(&map, &Links::all(&map), 0);
        let mut spread = Spread::new(Settings::default(), &ways, 0);
        let (to, mut visits, fresh) = (n - 1, vec![0.0; n], 4000);
        for flow in 0..fresh {
            let now = u64::from(flow) * MS / 100;
            // Without an empty quota, packets would first take the direct path.
            spread.targets[to].quota = Bucket::new(BucketTime::of(now + MS));
            let choice = spread.choose(now, &ways, to as NodeId, 1, scramble(flow));
            match choice.unwrap().via {
                NO_NODE => visits[to] += 1.0,
                via => visits[usize::from(via)] += 1.0,
            }
        }
        for (node, visits) in visits.iter().enumerate().skip(1) {
            let due = rates[node] / (all - rates[0]);
            let part = visits / f64::from(fresh);
            assert!(
                (part - due).abs() < 0.01,
                "{rates:?}: {node} has {part} instead of {due}"
            );
        }
    }
}

#[test]
fn overloaded_link_keeps_some_of_its_flows() {
    let map = Map::mesh(4, R);
    let ways = Ways::of(&map, &Links::all(&map), 0);
    let mut spread = Spread::new(Settings::default(), &ways, 0);
    let flows: Vec<u32> = (0..400).map(scramble).collect();
    let mut now = 10 * MS;
    for &flow in &flows {
        spread.targets[3].quota = Bucket::new(BucketTime::of(now + MS));
        spread.choose(now, &ways, 3, 1, flow).unwrap();
    }
    // Three quarters of the permitted debt.
    now += MS;
    let debt = spread.outs[0].price.depth(spread.settings.burst) * 3 / 4;
    for out in &mut spread.outs {
        out.bucket = Bucket::new(BucketTime::of(now + (debt >> 12) as u64));
    }
    for &flow in &flows {
        let _ = spread.choose(now, &ways, 3, 1, flow);
    }
    let Counts { kept, moved, .. } = *spread.counts();
    assert!(
        (150..250).contains(&moved) && kept + moved == 400,
        "{kept}, {moved}"
    );
}

#[test]
fn links_at_the_end_of_their_debt_by_carried_packets_take_no_own_ones() {
    let map = Map::mesh(4, R);
    let ways = Ways::of(&map, &Links::all(&map), 0);
    let mut spread = Spread::new(packets(), &ways, 0);
    let now = 10 * MS;
    spread.targets[3].quota = Bucket::new(BucketTime::of(now + MS));
    for link in 0..3 {
        spread.carried(now, link, BYTES * 1000);
    }
    assert_eq!(spread.choose(now, &ways, 3, BYTES, 1), Err(Refusal::Full));
    assert!(spread.choose(now + MS / 10, &ways, 3, BYTES, 1).is_ok());
}

#[test]
fn a_dead_link_carries_nothing_and_its_pair_still_talks() {
    let map = Map::mesh(4, R);
    let mut links = Links::all(&map);
    links.set(0, false);
    let mut cluster = Cluster::with(map, &links, &packets());
    let mut matrix = permutation(4, 1);
    matrix.iter_mut().flatten().for_each(|part| *part *= 0.5);
    cluster.run(&matrix, 100 * MS);
    assert_eq!(cluster.loads[0][0], 0);
    assert!(cluster.offered[0][1] > 0);
}

#[test]
fn a_flow_keeps_its_way_while_it_fits_and_leaves_a_dead_one_at_once() {
    let map = Map::mesh(4, R);
    let fabric = Fabric::new(map.clone());
    let mut links = Links::all(&map);
    let ways = Ways::new(&Reach::new(&fabric, &links), 0);
    let mut spread = Spread::new(Settings::default(), &ways, 0);
    let mut now = 0;
    let first = spread.choose(now, &ways, 3, BYTES, 77).unwrap();
    for _ in 0..1000 {
        now += 50_000;
        assert_eq!(spread.choose(now, &ways, 3, BYTES, 77), Ok(first));
    }
    assert_eq!(first.via, NO_NODE);
    links.set(2, false);
    let ways = Ways::new(&Reach::new(&fabric, &links), 0);
    let next = spread.choose(now, &ways, 3, BYTES, 77).unwrap();
    assert!(next.via == 1 || next.via == 2);
    assert_eq!(spread.choose(now + 50_000, &ways, 3, BYTES, 77), Ok(next));
    assert_eq!(spread.counts().moved, 1);
    assert_eq!(spread.flows(now), 1);
}

#[test]
fn a_flow_that_fits_no_way_is_spread_and_nothing_is_refused() {
    let map = Map::mesh(4, R);
    let ways = Ways::of(&map, &Links::all(&map), 0);
    let mut spread = Spread::new(Settings::default(), &ways, 0);
    for packet in 0..50_000u64 {
        let choice = spread.choose(packet * 8000, &ways, 3, BYTES, 5);
        assert!(choice.is_ok(), "{packet}");
    }
    let moved = spread.counts().moved;
    assert!((1..5000).contains(&moved), "{moved}");
    let sent: Vec<u64> = spread.sent().collect();
    assert!(sent.iter().all(|&bytes| bytes > 5_000_000), "{sent:?}");
}

#[test]
fn flows_to_each_output_node_visit_others_evenly_whatever_links_were_full_meanwhile() {
    let n = 16;
    let map = Map::mesh(n, R);
    let ways = Ways::of(&map, &Links::all(&map), 0);
    let mut spread = Spread::new(Settings::default(), &ways, 0);
    let mut rng = 3u32;
    // In each 4 ms three other links are full with packets carried for others.
    for packet in 0..40_000u64 {
        let now = packet * 10_000;
        for link in 0..3 {
            spread.carried(now, (link * 5 + now / (4 * MS) % 5) as u16, 150);
        }
        rng = scramble(rng.wrapping_add(GOLDEN_RATIO));
        let flow = rng % 1200;
        let to = 12 + (flow % 4) as NodeId;
        let _ = spread
            .choose(now, &ways, to, BYTES, scramble(flow))
            .unwrap();
    }
    for to in 12..16 {
        // Links to the output nodes also carry direct packets.
        let visits = (1..12).map(|via| spread.flowlets.visitors(to, via).0);
        let visits: Vec<u32> = visits.collect();
        let [least, most] = [visits.iter().min(), visits.iter().max()].map(|v| *v.unwrap());
        assert!(least > 12 && most - least <= 3, "to {to}: {visits:?}");
    }
}

#[test]
fn unreachable_output_node_is_refused_by_name() {
    let map = Map::mesh(3, R);
    let mut links = Links::all(&map);
    links.set(1, false);
    links.set(2, false);
    let ways = Ways::of(&map, &links, 0);
    let mut spread = Spread::new(packets(), &ways, 0);
    assert_eq!(spread.choose(0, &ways, 2, 64, 1), Err(Refusal::NoPath));
    assert_eq!(spread.choose(0, &ways, 0, 64, 1), Err(Refusal::NoPath));
    assert_eq!(spread.choose(0, &ways, 99, 64, 1), Err(Refusal::NoPath));
    assert_eq!(spread.counts().no_path, 3);
    assert!(spread.choose(0, &ways, 1, 64, 1).is_ok());
}

#[test]
fn a_map_that_grows_leaves_flows_their_ways() {
    let small = Map::mesh(4, R);
    let ways = Ways::of(&small, &Links::all(&small), 0);
    let mut spread = Spread::new(Settings::default(), &ways, 0);
    let first = spread.choose(0, &ways, 3, BYTES, 9).unwrap();
    let large = Map::mesh(6, R);
    let ways = Ways::of(&large, &Links::all(&large), 0);
    spread.adapt(&ways, 1000);
    assert_eq!(spread.choose(1000, &ways, 3, BYTES, 9), Ok(first));
    assert!(spread.choose(1000, &ways, 5, BYTES, 9).is_ok());
}
