//! The two walkers over the same elements: same packets, bounded cycles, timers and tasks.

use std::time::Duration;
use testkit::Bench;

const GRAPH: &str = "in :: Null -> t :: Tee -> a :: Counter -> out :: Collect;
    t[1] -> Paint(1) -> b :: Counter -> out;
    t[2] -> q :: Queue(100) -> u :: Unqueue -> c :: Counter -> other :: Collect;";

fn numbered(n: u32) -> Vec<[u8; 4]> {
    (0..n).map(u32::to_be_bytes).collect()
}

#[test]
fn both_walkers_deliver_the_same_packets() {
    let run = |mut bench: Bench| {
        bench.push("in", &numbered(50));
        bench.run();
        let mut out = bench.take("out");
        out.sort();
        (
            out,
            bench.take("other"),
            bench.read("a.count"),
            bench.all_drops(),
        )
    };
    let sweep = run(Bench::new(classes::all(), GRAPH));
    let strict = run(Bench::strict(classes::all(), GRAPH));
    assert_eq!(sweep, strict);
    assert_eq!(sweep.0.len(), 100);
}

#[test]
fn the_strict_walker_finishes_a_packet_before_the_next_one() {
    let mut bench = Bench::strict(
        classes::all(),
        "in :: Tee -> Paint(1) -> out :: Collect; in[1] -> Paint(2) -> out",
    );
    bench.push("in", &numbered(3));
    let seen: Vec<(u8, u8)> = bench
        .take_packets("out")
        .iter()
        .map(|p| (p.bytes[3], p.anno.paint))
        .collect();
    assert_eq!(seen, [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]);
}

#[test]
fn a_cycle_ends_and_its_packets_are_dropped_by_name() {
    let cycles = [
        "in :: Null -> n :: Counter -> Null -> n",
        // By an output other than the one that batches follow.
        "in :: Paint(1) -> s :: PaintSwitch -> Discard; s[1] -> s",
        "in :: Paint(1) -> s :: PaintSwitch -> Discard; s[1] -> Null -> s",
    ];
    for text in cycles {
        for mut bench in [
            Bench::new(classes::all(), text),
            Bench::strict(classes::all(), text),
        ] {
            let before = engine::packet::pool::balance();
            bench.push("in", &numbered(3));
            let looped: u64 = bench
                .all_drops()
                .iter()
                .filter(|d| d.1 == "loop")
                .map(|d| d.2)
                .sum();
            assert_eq!(looped, 3, "{text}");
            assert_eq!(engine::packet::pool::balance(), before);
            let mut let_in = vec![0; bench.graph().plan().elements.len()];
            let_in[bench.graph().plan().find("in").expect("it is there")] = 3;
            router_tests::Books::of(bench.graph(), &let_in).check();
        }
    }
}

#[test]
fn a_packet_on_an_open_output_is_dropped_under_the_ports_name() {
    let mut bench = Bench::new(classes::all(), "in :: Tee -> Discard; in[1] -> Idle");
    bench.push("in", &numbered(2));
    assert_eq!(
        bench.all_drops(),
        [("Idle@3".to_owned(), "idle".to_owned(), 2)]
    );
}

#[test]
fn simulated_time_advances_to_the_next_timer() {
    let mut bench = Bench::new(classes::all(), "InfiniteSource(LIMIT 1) -> Discard");
    let before = bench.graph().now();
    bench.advance(Duration::from_secs(3600));
    assert_eq!(bench.graph().now().since(before), Duration::from_secs(3600));
}

#[test]
fn elements_that_stay_keep_their_state_over_a_reload() {
    let mut bench = Bench::new(
        classes::all(),
        "in :: Null -> c :: Counter -> q :: Queue(50) -> u :: Unqueue(ACTIVE false) -> out :: Collect",
    );
    bench.push("in", &numbered(10));
    let next = "in :: Null -> p :: Paint(3) -> c :: Counter -> q :: Queue(60) -> u :: Unqueue -> out :: Collect";
    bench.reload(next).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (
            bench.read("c.count"),
            bench.read("q.length"),
            bench.read("q.capacity")
        ),
        ("10".into(), "10".into(), "60".into())
    );
    bench.push("in", &numbered(1));
    bench.run();
    let out = bench.take_packets("out");
    assert_eq!(
        (out.len(), out[0].anno.paint, out[10].anno.paint),
        (11, 0, 3)
    );
    assert_eq!(bench.read("c.count"), "11");
}

#[test]
fn an_element_that_goes_hands_on_what_it_holds() {
    let mut bench = Bench::new(
        classes::all(),
        "in :: Null -> q :: Queue(50) -> u :: Unqueue -> out :: Collect",
    );
    bench.push("in", &numbered(40));
    bench
        .reload("in :: Null -> out :: Collect")
        .unwrap_or_else(|e| panic!("{e}"));
    bench.run();
    assert_eq!(bench.take("out"), numbered(40));
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let mut bench = Bench::new(classes::all(), "in :: Null -> c :: Counter -> Discard");
    bench.push("in", &numbered(4));
    let errors = bench
        .reload("in :: Null -> c :: Countre -> Discard")
        .expect_err("should be refused");
    assert!(errors.contains("did you mean `Counter`?"), "{errors}");
    bench.push("in", &numbered(1));
    assert_eq!(bench.read("c.count"), "5");
}

#[test]
fn tickets_share_the_turns_of_tasks() {
    let mut bench = Bench::new(
        classes::all(),
        "a :: InfiniteSource -> ca :: Counter -> Discard; b :: InfiniteSource -> cb :: Counter -> Discard",
    );
    let node = bench.graph().plan().find("a").expect("it is there");
    assert!(bench.graph().set_tickets(node, 3 * 1024));
    for _ in 0..4000 {
        bench.graph().run_next_task();
    }
    let counts: Vec<u64> = ["ca.count", "cb.count"]
        .iter()
        .map(|h| bench.read(h).parse().expect("a count"))
        .collect();
    let share = counts[0] as f64 / counts[1] as f64;
    assert!((2.9..3.1).contains(&share), "{counts:?}");
}
