//! Captures and traces: they record every packet at their place, also under load and after a reload.

use engine::tap::{Event, Point, Record};
use std::sync::mpsc::{Receiver, sync_channel};
use testkit::Bench;

const GRAPH: &str = "in :: Null -> t :: Tee -> n :: Null -> out :: Collect;
    other :: Idle -> n; t[1] -> Discard;";

fn capture(bench: &mut Bench, point: Point, room: usize) -> Receiver<Record> {
    let (to, records) = sync_channel(room);
    let even = |bytes: &[u8], _| bytes[0].is_multiple_of(2);
    let taps = bench.graph().taps();
    taps.capture((1, 7), point, 2, Box::new(even), to);
    records
}

fn node(bench: &mut Bench, name: &str) -> usize {
    bench
        .graph()
        .plan()
        .find(name)
        .expect("the element is there")
}

const FRAMES: [[u8; 3]; 4] = [[1; 3], [2; 3], [3; 3], [4; 3]];

#[test]
fn a_capture_sees_what_its_filter_lets_through_at_inputs_outputs_and_drops() {
    for strict in [false, true] {
        let make = if strict { Bench::strict } else { Bench::new };
        for place in ["input", "followed output", "emitted output", "drop"] {
            let mut bench = make(
                classes::all(),
                "in :: Null -> t :: Tee -> out :: Collect; t[1] -> p :: Null -> l :: CheckLength(2) -> Discard;",
            );
            let (t, p, l) = (
                node(&mut bench, "t"),
                node(&mut bench, "p"),
                node(&mut bench, "l"),
            );
            let point = match place {
                "input" => Point::Input(t, 0),
                "followed output" => Point::Output(p, 0),
                "emitted output" => Point::Output(t, 1),
                _ => Point::Drop(Some(l)),
            };
            let records = capture(&mut bench, point, 10);
            bench.push("in", &FRAMES);
            bench.run();
            let seen: Vec<_> = records
                .try_iter()
                .map(|r| (r.tag, r.len, r.bytes))
                .collect();
            assert_eq!(
                seen,
                [(7, 3, vec![2, 2]), (7, 3, vec![4, 4])],
                "{place}, strict: {strict}"
            );
            assert_eq!(bench.graph().taps().end_capture(1), 0);
        }
    }
}

#[test]
fn captures_know_where_a_frame_ends_to_be_one() {
    let text = "in :: Null -> s :: Strip(14) -> c :: CheckIPHeader
        -> e :: EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> out :: Collect";
    // The outputs of elements one after the other, each with its own capture.
    for (element, at_network) in [("in", false), ("s", true), ("c", true), ("e", false)] {
        let mut bench = Bench::new(classes::all(), text);
        let at = Point::Output(node(&mut bench, element), 0);
        let (to, records) = sync_channel(10);
        let taps = bench.graph().taps();
        taps.capture((1, 7), at, 100, Box::new(|_, _| true), to);
        // The frame is in the form that a port receives.
        let frame = testkit::ip4()
            .udp(1, 2)
            .ether("02:00:00:00:00:03", "02:00:00:00:00:01")
            .bytes();
        let mut packet = engine::packet::Packet::from_bytes(&frame).expect("there is room");
        packet.set_mac_here();
        bench.push_packets("in", 0, [packet].into_iter().collect());
        let seen: Vec<bool> = records.try_iter().map(|r| r.at_network).collect();
        assert_eq!(seen, [at_network], "behind {element}");
    }
}

#[test]
fn records_that_nobody_fetches_are_lost_and_counted_and_no_packet_waits() {
    let mut bench = Bench::new(classes::all(), GRAPH);
    let point = Point::Input(node(&mut bench, "n"), 0);
    let records = capture(&mut bench, point, 1);
    bench.push("in", &FRAMES);
    bench.run();
    assert_eq!(bench.graph().taps().lost_records(1), 1);
    assert_eq!(records.try_iter().count(), 1);
    assert_eq!(bench.take("out").len(), 4);
}

#[test]
fn a_capture_goes_on_after_a_reload_and_ends_with_its_element() {
    let mut bench = Bench::new(classes::all(), GRAPH);
    let point = Point::Input(node(&mut bench, "n"), 0);
    let records = capture(&mut bench, point, 10);
    bench
        .reload("in :: Null -> first :: Counter -> n :: Null -> out :: Collect;")
        .expect("it is good");
    bench.push("in", &FRAMES);
    bench.run();
    let seen: Vec<Record> = records.try_iter().collect();
    assert_eq!(seen.len(), 2);
    let Event::Enter(at, 0) = seen[0].event else {
        panic!("{:?} is no entrance", seen[0].event)
    };
    assert_eq!(seen[0].plan.elements[at].name, "n");
    bench
        .reload("in :: Null -> out :: Collect;")
        .expect("it is good");
    assert!(records.recv().is_err(), "the channel is closed");
}

#[test]
fn a_trace_follows_packets_of_its_sources_alone_also_after_a_reload() {
    let text = |names: &[&str]| -> String {
        let source = |name| format!("{name} :: InfiniteSource(LIMIT 1, BURST 1) -> out; ");
        let sources: String = names.iter().map(source).collect();
        format!("out :: Collect; {sources}")
    };
    let traced = |records: Receiver<Record>| -> Vec<String> {
        let name = |r: Record| match r.event {
            Event::Leave(n, _) => Some(r.plan.elements[n].name.clone()),
            _ => None,
        };
        let mut names: Vec<String> = records.try_iter().filter_map(name).collect();
        names.sort();
        names
    };
    for (reload, right) in [
        (None, &["a", "b"][..]),
        (Some(&["b", "c", "d"][..]), &["b"]),
        (Some(&["c", "d"]), &[]),
    ] {
        let mut bench = Bench::new(classes::all(), &text(&["a", "b", "c"]));
        let sources = ["a", "b"].map(|name| node(&mut bench, name)).to_vec();
        let (to, records) = sync_channel(100);
        bench.graph().taps().trace((10, 9), sources, 0, 8, to);
        if let Some(names) = reload {
            bench.reload(&text(names)).expect("it is good");
        }
        bench.run();
        assert_eq!(traced(records), right, "{reload:?}");
    }
}

#[test]
fn a_trace_follows_packets_from_a_source_through_queues_to_their_end() {
    let mut bench = Bench::new(
        classes::all(),
        "s :: InfiniteSource(LIMIT 5, BURST 5) -> q :: Queue(3) -> u :: Unqueue -> out :: Collect",
    );
    let (to, records) = sync_channel(100);
    bench.graph().taps().trace((10, 4), Vec::new(), 0, 8, to);
    bench.run();
    let way = |id: u16, records: &[Record]| -> Vec<String> {
        let mine = records.iter().filter(|r| r.trace == id);
        mine.map(|r| {
            let name = |n: usize| r.plan.elements[n].name.clone();
            match r.event {
                Event::Enter(n, _) => name(n),
                Event::Leave(n, _) => format!("{} ->", name(n)),
                Event::Pulled(n, _) => format!("-> {}", name(n)),
                Event::Dropped(n, _) => format!("{} drops", name(n)),
            }
        })
        .collect()
    };
    let records: Vec<Record> = records.try_iter().collect();
    assert_eq!(way(10, &records), ["s ->", "q", "-> q", "out"]);
    assert_eq!(way(13, &records), ["s ->", "q", "q drops"]);
    assert!(way(14, &records).is_empty(), "four are followed, not five");
}
