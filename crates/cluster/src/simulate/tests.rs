use super::*;

const R: f64 = 10e9;

/// Short bursts, so that they do not count for much in a short time.
fn config(matrix: Matrix, seed: u64) -> Config {
    let mut config = Config::new(matrix, seed);
    config.spread.burst = 500_000;
    config.queue = 1_500_000;
    config.time = 20_000_000;
    config
}

fn run(map: Map, config: Config) -> Report {
    let report = Simulation::new(map, config).finish();
    let ended = report.packets_out + report.drops.sum();
    assert_eq!(report.packets_in, ended, "{:?}", report.drops);
    report
}

#[test]
fn uniform_traffic_goes_straight_and_leaves_links_half_empty() {
    for nodes in [4, 16] {
        let report = run(Map::mesh(nodes, R), config(Matrix::Uniform, 1));
        assert!(
            report.pair_least.unwrap() > 0.99,
            "{nodes}: {:?}",
            report.pair_least
        );
        assert!(
            (2.0..2.35).contains(&report.c_mean),
            "{nodes}: {}",
            report.c_mean
        );
        assert!(
            report.links.mean < 0.9 && report.links.most < 1.0,
            "{nodes}: {:?}",
            report.links
        );
    }
}

#[test]
fn no_admissible_matrix_overloads_links_or_nodes_or_takes_from_a_pair() {
    for nodes in [4, 16] {
        for (matrix, name) in Matrix::ALL.into_iter().filter(|(m, _)| m.is_admissible()) {
            // With links of 1.5 times the rate, the report shows the offered load instead of drops; in a longer run,
            // bursts count for little.
            let mut config = config(matrix, 1);
            config.headroom = 1.5;
            config.time = 40_000_000;
            let report = run(Map::mesh(nodes, R), config);
            let (pair, links, c) = (report.pair_least.unwrap(), report.links, report.c_most);
            assert!(pair > 0.95, "{name}, {nodes} nodes: {pair}");
            assert!(links.most < 1.05, "{name}, {nodes} nodes: {links:?}");
            assert!(c < 3.0, "{name}, {nodes} nodes: {c}");
        }
    }
}

#[test]
fn inputs_share_an_output_that_all_want() {
    for nodes in [4, 16] {
        let report = run(Map::mesh(nodes, R), config(Matrix::Incast, 1));
        assert!(
            report.input_fairness.unwrap() > 0.95,
            "{nodes}: {:?}",
            report.input_fairness
        );
        let rate = 8e9 * report.delivered as f64 / report.time as f64;
        assert!(
            (0.98 * R..1.1 * R).contains(&rate),
            "{nodes}: the output is busy, {rate}"
        );
    }
}

#[test]
fn an_output_that_is_asked_for_too_much_takes_nothing_from_others() {
    let report = run(Map::mesh(16, R), config(Matrix::HotSpot, 1));
    assert!(report.pair_least.unwrap() > 0.95, "{:?}", report.pair_least);
    assert!(report.input_fairness.unwrap() > 0.95);
}

#[test]
fn a_fly_carries_the_load_of_a_mesh_over_more_links() {
    let report = run(Map::fly(4, 2, R), config(Matrix::Uniform, 1));
    assert!(report.pair_least.unwrap() > 0.95, "{:?}", report.pair_least);
    assert!(report.links.most < 1.05, "{:?}", report.links);
    assert!(report.hops[2] > report.hops[1] && report.hops[5..].iter().all(|&n| n == 0));
}

#[test]
fn ways_that_a_fly_offers_are_used_though_only_pairs_send() {
    let mut config = config(Matrix::Permutation, 1);
    config.c = 5.25;
    let report = run(Map::fly(4, 2, R), config);
    assert!(report.pair_least.unwrap() > 0.95, "{:?}", report.pair_least);
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_does_not() {
    let run = |seed| {
        let mut config = config(Matrix::Random, seed);
        config.time = 5_000_000;
        format!("{:?}", run(Map::mesh(8, R), config))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// A trace that more than one path is needed for, with flows of different rates.
fn one_to_one(delta: u64, resequence: Option<u64>) -> Report {
    let mut chance = SimRng::new(9);
    let mut draw = |below| chance.below(below);
    let records = (0..20_000).map(|_| {
        let bytes = if draw(2) == 0 { 64 } else { 1518 };
        let most = draw(3000) + 1;
        let flow = draw(most) as u32;
        Record { bytes, flow }
    });
    let trace = Trace {
        records: records.collect(),
        flows: 3000,
    };
    let mut config = Config::new(Matrix::Uniform, 1);
    config.traffic = Traffic::Trace(trace);
    config.warmup = 5_000_000;
    config.time = 50_000_000;
    config.spread.delta = delta;
    config.spread.flows = if delta > 0 { 16384 } else { 0 };
    config.resequence = resequence.map(|wait| Bounds {
        wait,
        capacity: 1 << 16,
    });
    run(Map::mesh(4, R), config)
}

#[test]
fn flowlets_keep_order_and_the_resequencer_restores_the_rest() {
    let share = |report: &Report| {
        let order = &report.reordering;
        order.reordered_flows as f64 / order.flows as f64
    };
    let plain = one_to_one(0, None);
    let flowlets = one_to_one(100_000_000, None);
    let ordered = one_to_one(0, Some(5_000_000));
    assert!(share(&plain) > 0.02, "{:?}", plain.reordering);
    assert!(share(&flowlets) <= 0.0015, "{:?}", flowlets.reordering);
    assert_eq!(ordered.reordering.late, 0, "{:?}", ordered.reordering);
    assert_eq!(ordered.offered, ordered.delivered);
}

#[test]
fn a_trace_flows_from_one_input_to_one_output_in_its_order() {
    let records: Vec<Record> = (0..1000)
        .map(|n| Record {
            bytes: 700,
            flow: n % 40,
        })
        .collect();
    let trace = Trace {
        records: records.into(),
        flows: 40,
    };
    let mut config = config(Matrix::Uniform, 1);
    config.traffic = Traffic::Trace(trace);
    let report = run(Map::mesh(4, R), config);
    assert!(report.offered as f64 * 8e9 > 0.99 * R * report.time as f64);
    assert!(report.pair_least.unwrap() > 0.99 && report.hops[1] > 0 && report.hops[2] > 0);
}

/// Failing part in a trial, in a mesh of four.
fn place(kind: &str, trial: u64) -> Broken {
    let a = (trial % 4) as NodeId;
    let b = (a + 1 + (trial / 4 % 3) as NodeId) % 4;
    match kind {
        "node" => Broken::Node(a),
        "link" => Broken::Link(a, b),
        _ => Broken::OneWay(a, b),
    }
}

const MS: u64 = 1_000_000;

/// Start and length of a trial's failure.
fn outage(trial: u64) -> (u64, u64) {
    (150 * MS + 1_700_000 * trial, 150 * MS)
}

/// A failure in a mesh of four under load. Checks that the failure was detected and cleared in time, that nothing else
/// was considered broken, and that no packet was duplicated.
fn trial(
    rate: f64,
    matrix: Matrix,
    load: f64,
    (kind, how): (&str, Fault),
    number: u64,
) -> (Report, String) {
    let (from, lasts) = outage(number);
    let mut config = Config::new(matrix, number);
    (config.load, config.warmup, config.time) = (load, 0, 550 * MS);
    config.failures = vec![Failure {
        what: place(kind, number),
        how,
        from,
        until: from + lasts,
    }];
    let case = format!("{matrix:?} {}", config.failures[0]);
    let report = run(Map::mesh(4, rate), config);
    let noticed = report.noticed[0];
    let case = format!("{case}: {noticed:?}, {:?}", report.drops);
    assert_eq!(report.false_alarms, 0, "{case}");
    assert!(noticed.gone.is_some_and(|gone| gone < 50 * MS), "{case}");
    assert!(noticed.back.is_some_and(|back| back < 200 * MS), "{case}");
    assert_eq!(report.drops.too_many_hops, 0, "{case}");
    // Frames for a dead node may come back from one that has learned of its links in another order.
    assert!(report.drops.faulty == 0 || kind == "node", "{case}");
    (report, case)
}

/// All failing parts and kinds of failure.
fn faults() -> impl Iterator<Item = (&'static str, Fault)> {
    let kinds = ["node", "link", "one way"].into_iter();
    let all = kinds.flat_map(|kind| Fault::ALL.map(|(how, _)| (kind, how)));
    all.filter(|(kind, how)| *kind == "node" || *how != Fault::Hang)
}

/// Upper bound for a count with this expectation, with an allowance for chance: packets come several at a time, as
/// flows choose paths.
fn at_most(expected: f64) -> f64 {
    expected + 8.0 * expected.sqrt() + 2.0
}

#[test]
fn only_packets_sent_to_the_failed_part_before_its_detection_are_lost() {
    for fault in faults() {
        let (mut lost, mut expected) = (0, 0.0);
        for number in 0..20 {
            let (report, case) = trial(R / 50.0, Matrix::Uniform, 0.8, fault, number);
            let ((from, lasts), noticed) = (outage(number), report.noticed[0]);
            let used = |packets: u64, time: u64| packets as f64 * time as f64 / from as f64;
            let users = noticed.lost;
            assert_eq!(report.drops.sum(), users.through + users.ends, "{case}");
            let through = used(noticed.passed.through, noticed.gone.unwrap());
            assert!(users.through as f64 <= at_most(through), "{case}");
            let ends = used(noticed.passed.ends, lasts + noticed.back.unwrap());
            assert!(users.ends as f64 <= at_most(ends), "{case}");
            assert!(fault.0 == "node" || users.ends == 0, "{case}");
            // Packets in a slow node when the last of its links goes have no way left.
            assert!(
                fault != ("link", Fault::Slow) || users.through == 0,
                "{case}"
            );
            (lost, expected) = (lost + users.through, expected + through);
        }
        let most = at_most(expected);
        assert!(lost as f64 <= most, "{fault:?}: {lost} of {expected}");
        assert!(lost > 0 || fault.1 == Fault::Slow, "{fault:?}: it was used");
    }
}

#[test]
fn overload_by_a_failure_takes_no_other_link_down() {
    for fault in faults() {
        let admissible = Matrix::ALL.into_iter().filter(|(m, _)| m.is_admissible());
        for (number, (matrix, _)) in (0..).zip(admissible) {
            trial(R / 20.0, matrix, 1.0, fault, number);
        }
    }
}

#[test]
fn a_fifth_and_a_sixth_server_join_and_nothing_is_lost() {
    let four = Map::mesh(4, R / 50.0);
    let mut config = Config::new(Matrix::Uniform, 3);
    config.load = 0.8;
    config.warmup = 0;
    config.time = 1500 * MS;
    config.growth = (1..3)
        .map(|more| Growth {
            at: 500 * MS * more,
            map: (0..more).fold(four.clone(), |map, _| map.mesh_with(1)),
        })
        .collect();
    let report = run(four, config);
    assert_eq!(report.drops.sum(), 0, "{:?}", report.drops);
    assert_eq!(report.false_alarms, 0);
    let ends = report.stages.iter().skip(1).map(|stage| stage.from);
    let ends: Vec<u64> = ends.chain([1500 * MS]).collect();
    assert_eq!(report.stages.len(), 3);
    for (stage, end) in report.stages.iter().zip(ends) {
        let servers = stage.servers as f64;
        let rate = 8e9 * stage.delivered as f64 / (end - stage.from) as f64;
        let wanted = 0.8 * servers * R / 50.0;
        assert!((rate / wanted - 1.0).abs() < 0.01, "{stage:?}: {rate}");
        assert_eq!(stage.offered, stage.delivered);
    }
    let servers: Vec<_> = report.stages.iter().map(|stage| stage.servers).collect();
    assert_eq!(servers, [4, 5, 6]);
}
