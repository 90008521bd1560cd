//! Packets without annotations, where no element reads any: the output is the same, and an element that begins to
//! read them finds correct values.

use cluster::address::{Address, Kind, NO_NODE, cookie};
use engine::clock::{Clock, Time};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::plan::Plan;
use engine::tap::{Point, Record};
use planner::Options;
use router_tests::{InMemory, plan_with, registry};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use testkit::ip4;

const BARE: &str = "in :: FromDevice(DEV0) -> c :: Counter -> k :: Classifier(12/0800, -) \
    -> out :: ToDevice(DEV1, QUEUE 3);
    k[1] -> Discard;";

fn plan(text: &str, previous: Option<&Plan>, ports: &InMemory) -> Arc<Plan> {
    let options = Options {
        previous,
        ..Options::new(1, ports)
    };
    plan_with(registry(), text, &[], &options)
}

fn start(text: &str) -> (Graph, Arc<InMemory>) {
    let ports = Arc::new(InMemory::default());
    let plan = plan(text, None, &ports);
    let clock = Clock::at(Time(1_000_000_000));
    let graph = single(&plan, Arc::clone(&ports) as _, Walker::Sweep, clock, 7);
    (graph.unwrap_or_else(|e| panic!("{e}")), ports)
}

fn receive(graph: &mut Graph, ports: &InMemory, frames: usize) {
    // Its first byte could be that of an IPv4 packet.
    let frame = ip4()
        .udp(1, 2)
        .ether("02:00:00:00:00:03", "42:00:00:00:00:01")
        .bytes();
    let all = vec![&frame[..]; frames];
    assert_eq!(ports.far("DEV0").inject_all(0, all), frames);
    let mut still = 0;
    while still < 3 {
        still = if graph.turn() { 0 } else { still + 1 };
    }
}

fn sent(ports: &InMemory) -> usize {
    ports.far("DEV1").collect().len()
}

fn watch(graph: &mut Graph, point: Point) -> Receiver<Record> {
    let (to, records) = sync_channel(100);
    let all = Box::new(|_: &[u8], _| true);
    graph.taps().capture((1, 0), point, 64, all, to);
    records
}

#[test]
fn plan_lists_receivers_without_annotations() {
    let says = |text: &str| {
        let plan = plan(text, None, &InMemory::default());
        control::describe::describe(&plan)
            .to_string()
            .contains("packets from in\n")
    };
    assert!(says(BARE));
    for behind in [
        "Paint(1) -> ToDevice(DEV1)",
        "Counter -> t :: Tee -> ToDevice(DEV1); t[1] -> Discard",
        "Queue -> ToDevice(DEV1)",
        "Switch -> s :: Switch -> ToDevice(DEV1); s[1] -> SetTimestamp -> Discard",
    ] {
        assert!(
            !says(&format!("in :: FromDevice(DEV0) -> {behind};")),
            "{behind}"
        );
    }
}

#[test]
fn files_have_the_times_of_packets() {
    let ports = ports::Directory::default();
    let bare = |device: &str| {
        let text = format!("in :: FromDevice(null:64) -> Counter -> ToDevice({device});");
        let plan = plan_with(registry(), &text, &[], &Options::new(1, &ports));
        plan.elements.iter().any(|element| element.bare)
    };
    assert!(bare("null:"));
    let file = std::env::temp_dir().join(format!("ashlar-bare-{}.pcap", std::process::id()));
    let file = file.display();
    for device in [
        format!("pcap:{file}"),
        format!("record:{file}/null:"),
        format!("pace:1000/record:{file}/null:"),
    ] {
        assert!(!bare(&device), "{device}");
    }
}

#[test]
fn without_the_optimiser_every_packet_has_annotations() {
    let ports = InMemory::default();
    let registry = registry().clone().with_fused_loops(&[]);
    let plan = plan_with(&registry, BARE, &[], &Options::new(1, &ports));
    assert!(plan.elements.iter().all(|element| !element.bare));
}

#[test]
fn a_capture_and_a_trace_see_annotations_that_are_right() {
    let (mut graph, ports) = start(BARE);
    receive(&mut graph, &ports, 2);
    let counter = graph.plan().find("c").expect("it is there");
    let seen = watch(&mut graph, Point::Input(counter, 0));
    let (to, followed) = sync_channel(100);
    graph.taps().trace((10, 1), Vec::new(), 0, 8, to);
    receive(&mut graph, &ports, 3);
    let seen: Vec<_> = seen.try_iter().map(|r| (r.at_network, r.trace)).collect();
    assert_eq!(seen, [(false, 10), (false, 0), (false, 0)]);
    let followed: Vec<u16> = followed.try_iter().map(|r| r.trace).collect();
    assert_eq!(followed, [10, 10, 10, 10]);
    graph.taps().end_trace();
    assert_eq!(graph.taps().end_capture(1), 0);
    receive(&mut graph, &ports, 2);
    assert_eq!(sent(&ports), 7);
}

#[test]
fn refused_frames_are_the_right_ones() {
    let (mut graph, ports) = start(BARE);
    ports.far("DEV1").limit(100, 0);
    receive(&mut graph, &ports, 3);
    assert_eq!(graph.held(), 3);
    let drops = watch(&mut graph, Point::Drop(None));
    let next = plan(
        &BARE.replace("QUEUE 3", "QUEUE 1"),
        Some(graph.plan()),
        &ports,
    );
    let site = graph.build_context(Arc::clone(&ports) as _);
    graph = graph.swap(&next, &site);
    receive(&mut graph, &ports, 1);
    let seen: Vec<_> = drops.try_iter().map(|r| (r.at_network, r.trace)).collect();
    assert_eq!(seen, [(false, 0); 3]);
}

#[test]
fn reload_with_a_reader_of_annotations_initialises_them() {
    let (mut graph, ports) = start(BARE);
    receive(&mut graph, &ports, 2);
    let text =
        "in :: FromDevice(DEV0) -> c :: Counter -> p :: PaintSwitch -> out :: ToDevice(DEV1);
        p[1] -> Discard;";
    for text in [text, BARE, text] {
        let next = plan(text, Some(graph.plan()), &ports);
        let site = graph.build_context(Arc::clone(&ports) as _);
        graph = graph.swap(&next, &site);
        receive(&mut graph, &ports, 2);
    }
    assert_eq!(sent(&ports), 8);
    let counter = graph.plan().find("c").expect("it is there");
    assert_eq!(graph.stats()[counter].packets, 8);
}

#[test]
fn device_uses_smaller_bursts_without_header_processing() {
    let burst = |text: &str| {
        let (graph, ..) = start(text);
        let node = graph.plan().find("in").expect("in");
        let handlers = (graph.plan().elements[node].class.handlers)();
        let at = handlers.iter().position(|h| h.name == "burst");
        graph.read(node, at.expect("burst"), "").expect("a copy")
    };
    let looked_at = BARE.replace("-> c ::", "-> Paint(1) -> c ::");
    assert_eq!(burst(BARE).as_deref(), Ok("32"));
    assert_eq!(burst(&looked_at).as_deref(), Ok("64"));
    assert_eq!(burst(ROUTE).as_deref(), Ok("64"));
    assert_eq!(
        burst(&BARE.replace("DEV0", "DEV0, BURST 7")).as_deref(),
        Ok("7")
    );
}

/// Routing: the elements that prove a property of packets also record it.
const ROUTE: &str = "in :: FromDevice(DEV0) -> c :: Strip(14) -> CheckIPHeader
        -> rt :: RadixIPLookup(198.51.100.0/24 0, 0/0 192.0.2.1 1 | 192.0.2.2 2);
    rt[0] -> Discard; rt[1] -> ttl :: DecIPTTL; rt[2] -> ttl
        -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> out :: ToDevice(DEV1);
    ttl[1] -> Discard;";

#[test]
fn packets_are_routed_without_annotations_that_a_port_would_note() {
    let bytes = |text: &str, bare: bool| {
        let (mut graph, ports) = start(text);
        let node = graph.plan().find("in").expect("in");
        assert_eq!(graph.plan().elements[node].bare, bare, "{text}");
        let frames: Vec<_> = (0..40)
            .map(|flow| {
                ip4()
                    .udp(flow, 2)
                    .ether("02:00:00:00:00:03", "02:00:00:00:00:01")
            })
            .map(|frame| frame.bytes())
            .collect();
        assert_eq!(
            ports
                .far("DEV0")
                .inject_all(0, frames.iter().map(|f| &f[..])),
            40
        );
        while graph.turn() {}
        let sent = ports.far("DEV1").collect();
        assert_eq!(sent.len(), 40);
        sent
    };
    let who_looks = ROUTE.replace("-> c ::", "-> PaintSwitch -> c ::");
    assert_eq!(bytes(ROUTE, true), bytes(&who_looks, false));
}

#[test]
fn a_job_that_packets_leave_on_their_way_from_a_device_runs_before_they_go_on() {
    let text = "in :: FromDevice(DEV0) -> c :: Counter(COUNT_CALL 2 s.switch 1) -> s :: Switch(0) -> Discard;
        s[1] -> d :: Counter(COUNT_CALL 3 in.reset_counts) -> ToDevice(DEV1);";
    let (mut graph, ports) = start(text);
    receive(&mut graph, &ports, 3);
    // The batch had not yet reached the Switch, and the device could be written to.
    assert_eq!(sent(&ports), 3);
    let node = graph.plan().find("in").expect("in");
    assert_eq!(graph.read(node, 0, ""), Some(Ok("0".to_owned())));
}

/// Annotations are unused after the link output 0, and used where frames stay here.
const TRANSIT: &str =
    "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps c 1Gbps, LINKS a-b b-c);
    in :: FromDevice(DEV0) -> t :: VLBTransit(vlb); Idle -> [1]t;
    t[0] -> Discard; t[1] -> link :: ToDevice(DEV1);
    t[2] -> here :: PaintSwitch -> own :: Counter -> Discard; t[3] -> Discard;";

/// A frame from node a to another one.
fn internal(node: u16) -> Vec<u8> {
    let address = Address {
        kind: Kind::Data,
        hops: 3,
        node,
        port: 0,
        gateway: 0,
        input: 0,
        via: NO_NODE,
        cookie: cookie("t"),
    };
    let packet = ip4().udp(1, 2).bytes();
    [&address.bytes()[..], &[8, 0], &packet].concat()
}

#[test]
fn frames_of_an_internal_link_get_annotations_only_where_they_stay() {
    let (mut graph, ports) = start(TRANSIT);
    let node = |graph: &Graph, name| graph.plan().find(name).expect("it is there");
    let transit = node(&graph, "t");
    let at_source = node(&graph, "in");
    assert!(graph.plan().elements[at_source].bare);
    assert_eq!(graph.plan().elements[transit].annotated, [2]);
    let (on, here) = (internal(2), internal(1));
    let pass = |graph: &mut Graph| {
        let all = [&on[..], &here, &here, &on];
        assert_eq!(ports.far("DEV0").inject_all(0, all), 4);
        let mut still = 0;
        while still < 3 {
            still = if graph.turn() { 0 } else { still + 1 };
        }
    };
    // The port's packets have wrong annotations, including another paint, where it believes that no element reads
    // them.
    pass(&mut graph);
    let own = node(&graph, "own");
    assert_eq!((sent(&ports), graph.stats()[own].packets), (2, 2));
    // An element after the link begins to read annotations: the running copy must not stay.
    let looks = TRANSIT.replace("t[1] -> link", "t[1] -> PaintSwitch -> link");
    let next = plan(&looks, Some(graph.plan()), &ports);
    assert_eq!(next.elements[next.find("t").expect("t")].annotated, [1, 2]);
    let site = graph.build_context(Arc::clone(&ports) as _);
    graph = graph.swap(&next, &site);
    pass(&mut graph);
    let own = node(&graph, "own");
    assert_eq!((sent(&ports), graph.stats()[own].packets), (2, 4));
}

#[test]
fn annotations_set_before_transit_reach_later_readers() {
    let ports = InMemory::default();
    let bare = |text: &str| {
        let plan = plan(text, None, &ports);
        let at = plan.find("in").expect("in");
        plan.elements[at].bare
    };
    assert!(bare(TRANSIT));
    assert!(!bare(&TRANSIT.replace("-> t ::", "-> Paint(3) -> t ::")));
    let behind = "-> Paint(3) -> Counter -> Null -> t ::";
    assert!(!bare(&TRANSIT.replace("-> t ::", behind)));
    let text = TRANSIT.replace("DEV0", "DEV0, TIMESTAMP true");
    assert!(!bare(&text.replace("-> t ::", "-> Counter -> t ::")));
    assert!(!bare(&TRANSIT.replace("DEV0", "DEV0, TIMESTAMP true")));
    let other = TRANSIT.replace("Idle -> [1]t", "FromDevice(DEV2) -> Paint(3) -> [1]t");
    assert!(!bare(&other));
}
