//! Elements that run as one fused loop act as they do one by one: the same packets leave, and every element counts
//! the same.

use engine::clock::{Clock, Time};
use engine::graph::single;
use engine::graph::{Graph, Walker};
use engine::plan::Plan;
use engine::stats::NodeStats;
use engine::tap::Point;
use forwarding::{Kernel, Member, Neighbour, Prefix};
use planner::Options;
use router_tests::{InMemory, conf, plan_with, router_text};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use testkit::{Rng, ip4, ip6};

/// Ports for usual and unusual packets: a chain for IPv4 and one for IPv6, each with all its side exits.
const ROUTES: &str = "
    FromDevice(DEV0) -> kind :: Classifier(12/0806, 12/0800, 12/86dd, -);
    kind[1] -> strip4 :: Strip(14) -> check4 :: CheckIPHeader(INTERFACES 10.0.1.1/24) \
        -> rt4 :: RadixIPLookup(10.0.0.0/8 1, 10.9.0.0/16 0, 20.0.0.0/8 192.0.2.1 2);
    rt4[0] -> here :: Counter -> Discard;
    rt4[1] -> ttl :: DecIPTTL -> encap :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) \
        -> count :: Counter -> out :: ToDevice(DEV1);
    rt4[2] -> other :: DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:3) -> Counter -> out;
    check4[1] -> bad :: Counter -> Discard;
    ttl[1] -> expired :: Counter -> ttl2 :: Discard;
    kind[2] -> strip6 :: Strip(14) -> check6 :: CheckIP6Header
        -> rt6 :: LookupIP6Route(2001:db8::/32 0, ::/0 1);
    rt6[0] -> hlim :: DecIP6HLIM -> encap6 :: EtherEncap(0x86dd, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out;
    rt6[1] -> Discard;
    kind[0] -> arp :: Counter -> Discard;
    kind[3] -> Counter -> Discard;";

fn plan(text: &str, definitions: &[(&str, &str)], fuse: bool, ports: &InMemory) -> Arc<Plan> {
    plan_after(None, text, definitions, fuse, ports)
}

fn plan_after(
    previous: Option<&Plan>,
    text: &str,
    definitions: &[(&str, &str)],
    fuse: bool,
    ports: &InMemory,
) -> Arc<Plan> {
    let registry = match fuse {
        true => classes::registry(),
        false => classes::registry().with_fused_loops(&[]),
    };
    let options = Options {
        previous,
        ..Options::new(1, ports)
    };
    plan_with(&registry, text, definitions, &options)
}

/// Output of each device, state of each element, and bytes of each Counter.
type Shown = (Vec<Vec<Vec<u8>>>, Vec<(String, NodeStats)>, Vec<String>);

fn run(
    text: &str,
    definitions: &[(&str, &str)],
    writes: &[(&str, &str)],
    frames: &[Vec<u8>],
    fuse: bool,
) -> Shown {
    run_with(text, definitions, writes, frames, fuse, |graph, _, _| graph)
}

/// Like `run`, but calls `between` with the graph and the burst's number before each burst.
fn run_with(
    text: &str,
    definitions: &[(&str, &str)],
    writes: &[(&str, &str)],
    frames: &[Vec<u8>],
    fuse: bool,
    mut between: impl FnMut(Graph, usize, &Arc<InMemory>) -> Graph,
) -> Shown {
    let ports = Arc::new(InMemory::default());
    let plan = plan(text, definitions, fuse, &ports);
    assert_eq!(fuse, !plan.loops.is_empty());
    let clock = Clock::at(Time(1_000_000_000));
    let mut graph = single(&plan, Arc::clone(&ports) as _, Walker::Sweep, clock, 7)
        .unwrap_or_else(|e| panic!("{e}"));
    for (path, value) in writes {
        let done = graph.job(|cx| cx.write(path, value));
        done.unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    for (n, burst) in frames.chunks(45).enumerate() {
        graph = between(graph, n, &ports);
        let frames = burst.iter().map(Vec::as_slice);
        assert_eq!(ports.far("DEV0").inject_all(0, frames), burst.len());
        let mut still = 0;
        while still < 3 {
            still = if graph.turn() { 0 } else { still + 1 };
        }
    }
    let sent = ["DEV0", "DEV1"].map(|device| {
        let sent = ports.far(device).collect().into_iter();
        sent.map(|s| s.frame).collect()
    });
    let plan = Arc::clone(graph.plan());
    let bytes = plan.elements.iter().enumerate().filter_map(|(node, e)| {
        let handlers = (e.class.handlers)();
        let bytes = handlers.iter().position(|h| h.name == "byte_count")?;
        let bytes = graph.read(node, bytes, "").filter(|_| {
            e.class
                .extension::<engine::fused::CountsOfClass>()
                .is_some()
        })?;
        Some(format!("{} {}", e.name, bytes.ok()?))
    });
    let bytes = bytes.collect();
    let names = plan.elements.iter().map(|e| e.name.clone());
    let stats = graph.stats().iter().map(|stats| NodeStats {
        cycles: 0,
        // The walker decides which packets form a batch.
        batches: 0,
        ..stats.clone()
    });
    (sent.into(), names.zip(stats).collect(), bytes)
}

/// Addresses that no packet may have as source: three that belong to no link, and a network's broadcast address.
const BAD_SOURCES: [&str; 4] = ["127.0.0.1", "224.0.0.9", "0.0.0.7", "10.0.1.255"];

/// Frames of all kinds: valid, for several destinations, and with each possible header fault.
fn frames(rng: &mut Rng, n: usize) -> Vec<Vec<u8>> {
    let mac = [
        "02:00:00:00:00:01",
        "02:00:00:00:00:09",
        "ff:ff:ff:ff:ff:ff",
    ];
    let frame = |_| {
        let four = rng.below(4) > 0;
        let (src, dst) = match four {
            true => (
                match rng.below(8) {
                    0 => (*rng.pick(&BAD_SOURCES)).to_owned(),
                    _ => format!("10.{}.2.3", rng.below(20)),
                },
                [
                    "10.3.0.1",
                    "10.9.0.1",
                    "20.0.0.1",
                    "30.0.0.1",
                    "10.0.2.77",
                    "255.255.255.255",
                ][rng.below(6)]
                .to_owned(),
            ),
            false => (
                format!("2001:db8:{}::7", rng.below(9)),
                [
                    "2001:db8::5",
                    "2001:db8:1::9",
                    "2002::1",
                    "ff02::5",
                    "fe80::5",
                ][rng.below(5)]
                .to_owned(),
            ),
        };
        let mut packet = match four {
            true => ip4(),
            false => ip6(),
        };
        packet = packet.src(src).dst(dst).ttl([64, 2, 1, 0][rng.below(4)]);
        if four && rng.below(8) == 0 {
            packet = packet.options(&[7, 7, 4, 0, 0, 0, 0, 0]);
        }
        if four && rng.below(8) == 0 {
            packet = packet.bad_checksum();
        }
        packet = packet.udp(1, 2).payload_len(rng.below(1500));
        if rng.one_in(8) {
            packet = packet.pad(1 + rng.below(40));
        }
        let mut bytes = packet.ether("02:00:00:00:00:77", mac[rng.below(3)]).bytes();
        match rng.below(10) {
            0 => bytes.truncate(rng.below(bytes.len())),
            1 => bytes[14] = rng.u8(),
            2 => bytes[12..14].copy_from_slice(&[8, 6]),
            _ => {}
        }
        bytes
    };
    (0..n).map(frame).collect()
}

fn same(text: &str, definitions: &[(&str, &str)], writes: &[(&str, &str)], seed: u64) {
    let frames = frames(&mut Rng::seed(seed), 1500);
    same_of(text, definitions, writes, &frames);
}

fn same_of(text: &str, definitions: &[(&str, &str)], writes: &[(&str, &str)], frames: &[Vec<u8>]) {
    let (fused, apart) = [true, false]
        .map(|fuse| run(text, definitions, writes, frames, fuse))
        .into();
    for (device, (a, b)) in fused.0.iter().zip(&apart.0).enumerate() {
        assert_eq!(a, b, "frames of device {device}");
    }
    assert!(fused.0[1].len() > 50, "hardly a packet gets through");
    for (a, b) in fused.1.iter().zip(&apart.1) {
        assert_eq!(a, b);
    }
    assert_eq!(fused.2, apart.2);
}

/// Look-ups by batch, and one by one on each packet's path.
fn by_both(text: &str) -> [String; 2] {
    ["RadixIPLookup", "DirectIPLookup"].map(|class| text.replace("RadixIPLookup", class))
}

#[test]
fn a_fused_routing_path_counts_and_sends_what_its_elements_do() {
    for seed in 1..5 {
        for text in by_both(ROUTES) {
            same(&text, &[], &[], seed);
        }
    }
}

/// Fused loops of a plan, by the names of their elements.
fn loops(plan: &Plan) -> Vec<String> {
    let names = plan.loops.iter().map(|placed| {
        let names = placed.all().map(|node| plan.elements[node].name.as_str());
        names.collect::<Vec<_>>().join(" -> ")
    });
    names.collect()
}

const BESIDE: &str = "
    FromDevice(DEV0) -> Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup(10.0.0.0/8 1, 10.9.0.0/16 0 NOROUTE);
    rt[1] -> ttl :: DecIPTTL -> encap :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Counter -> ToDevice(DEV1);
    rt[0] -> Counter -> Discard;
    ttl[1] -> Discard;";

#[test]
fn uniform_and_mixed_bursts_take_the_same_paths() {
    let mut frames = frames(&mut Rng::seed(41), 3000);
    // From here on each burst has one destination: it goes on by output 0, or has no route.
    frames[1500..].sort_by_key(|frame| frame.get(30..34).map(<[u8]>::to_vec));
    for no_route in ["", ", NOROUTE 0", ", 0/0 1"] {
        for text in by_both(&BESIDE.replace(" NOROUTE", no_route)) {
            let loops = loops(&plan(&text, &[], true, &InMemory::default()));
            assert!(
                loops.contains(&"rt -> ttl -> encap".to_owned()),
                "{loops:?}"
            );
            same_of(&text, &[], &[], &frames);
        }
    }
}

#[test]
fn the_fused_router_counts_and_sends_what_its_elements_do() {
    let definitions = [("DEV0", "DEV0"), ("DEV1", "DEV1")];
    let writes = [
        ("rt4.add", "0.0.0.0/0 10.0.2.254 2"),
        ("rt4.add", "20.0.0.0/8 10.0.1.254 1"),
        ("rt6.add", "::/0 fd00:2::254 2"),
        ("i0/arp.insert", "10.0.1.254 02:00:00:00:01:00"),
        ("i1/arp.insert", "10.0.2.254 02:00:00:00:01:01"),
        ("i1/nd6.insert", "fd00:2::254 02:00:00:00:01:01"),
    ];
    same(&router_text(), &definitions, &writes, 9);
}

/// The router that a kernel controls, and a kernel that routes most packets to one side.
#[test]
fn the_fused_linux_router_counts_and_sends_what_its_elements_do() {
    let text = std::fs::read_to_string(conf("linux-router.click")).expect("conf/ is there");
    let definitions = [("DEV0", "DEV0"), ("DEV1", "DEV1")];
    let frames = frames(&mut Rng::seed(31), 1500);
    let steer = |graph: Graph, n: usize, _: &Arc<InMemory>| {
        let kernel = graph.plan().router_wide::<Kernel>();
        let eth1 = kernel.interface("eth1").expect("room");
        if n == 0 {
            for name in ["eth0", "eth1"] {
                let eth = kernel.interface(name).expect("room");
                eth.set_state(true, [2, 0, 0, 0, 0, 1], 1200);
            }
            let known = Neighbour::Reachable([2, 0, 0, 0, 0, 9]);
            let via = |gateway: &str| {
                let gateway = gateway.parse().expect("an address");
                eth1.set_neighbour(gateway, known);
                let (gateway, port) = (Some(gateway), eth1.number());
                [Member {
                    gateway,
                    port,
                    labels: wire::mpls::Labels::NONE,
                    weight: 1,
                }]
            };
            let routes = kernel.routes4().expect("memory");
            let group = routes.add_group(&via("10.0.2.254")).expect("an id");
            routes
                .apply(&[(Prefix::new([0; 4], 0), Some(group))])
                .expect("room");
            let routes = kernel.routes6().expect("memory");
            let group = routes.add_group(&via("fe80::9")).expect("an id");
            routes
                .apply(&[(Prefix::new([0; 16], 0), Some(group))])
                .expect("room");
        }
        graph
    };
    let [fused, apart] =
        [true, false].map(|fuse| run_with(&text, &definitions, &[], &frames, fuse, steer));
    assert_eq!(fused.0, apart.0);
    assert!(fused.0[1].len() > 50, "hardly a packet gets through");
    assert_eq!((fused.1, fused.2), (apart.1, apart.2));
}

/// Chains with side exits, with one or more Counters on each edge.
fn counted() -> Vec<String> {
    let edges = [
        "-> check4 ::",
        "-> rt4 ::",
        "-> ttl ::",
        "-> encap ::",
        "-> check6 ::",
        "-> rt6 ::",
        "-> hlim ::",
        "-> encap6 ::",
    ];
    let counters = |count: usize| "-> Counter ".repeat(count);
    let all = |text: &str| {
        let with = |text: String, (n, edge): (usize, &&str)| {
            text.replace(edge, &format!("{}{edge}", counters(1 + n % 2)))
        };
        edges.iter().enumerate().fold(text.to_owned(), with)
    };
    let one = |edge: &&str| ROUTES.replace(*edge, &format!("{}{edge}", counters(1)));
    let texts = edges.iter().map(one).chain([all(ROUTES)]);
    // With only one path, the look-up is within the loop, too.
    let straight = ROUTES.replace("rt4[2] -> other :: DecIPTTL ->", "rt4[2] -> Null ->");
    let texts = texts.chain([all(&straight)]);
    texts.flat_map(|text| by_both(&text)).collect()
}

#[test]
fn counters_in_a_fused_loop_count_as_without_fusion() {
    let frames = frames(&mut Rng::seed(51), 1500);
    let mut past = 0;
    for text in counted() {
        let loops = loops(&plan(&text, &[], true, &InMemory::default()));
        past += usize::from(loops.iter().any(|names| names.contains(" -> Counter@")));
        let [fused, apart] = [true, false].map(|fuse| {
            let (mut sent, stats, bytes) = run(&text, &[], &[], &frames, fuse);
            // The walker decides which of two paths goes first. Packets of one path keep their order.
            sent[1].sort_by_key(|frame| frame[..14].to_vec());
            (sent.swap_remove(1), stats, bytes)
        });
        let differ = fused.0.iter().zip(&apart.0).position(|(a, b)| a != b);
        assert_eq!((fused.0.len(), differ), (apart.0.len(), None));
        assert!(fused.0.len() > 50);
        assert_eq!((fused.1, fused.2), (apart.1, apart.2));
    }
    // All but a Counter in one of two equal paths.
    assert_eq!(past, 18);
}

/// A Counter that calls a handler, from the start or after a write to it.
#[test]
fn a_counter_between_elements_of_a_fused_loop_calls_before_its_packet_moves_on() {
    let text = |call: &str| {
        format!(
            "FromDevice(DEV0) -> kind :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader \
             -> ttl :: DecIPTTL -> count :: Counter({call})
                -> encap :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out :: ToDevice(DEV1);
            kind[1] -> Discard;
            s :: Script(TYPE PASSIVE, write encap.dst 2:0:0:0:0:3, write count.reset_counts);"
        )
    };
    let begins = text("COUNT_CALL 40 s.run");
    same(&begins, &[], &[], 52);
    let told = [("count.count_call", "40 s.run")];
    same(&text(""), &[], &told, 52);
    let frames = frames(&mut Rng::seed(52), 1500);
    let said = run(&begins, &[], &[], &frames, true).0;
    assert_eq!(said, run(&text(""), &[], &told, &frames, true).0);
    assert!(said[1].iter().any(|frame| frame[5] == 3));
}

/// An element after a fused loop calls handlers of the elements in the loop.
const CALLS: &str = "
    FromDevice(DEV0) -> kind :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup(0/0 0)
        -> ttl :: DecIPTTL -> encap :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
        -> count :: Counter(COUNT_CALL 40 s.run) -> out :: ToDevice(DEV1);
    kind[1] -> Discard;
    s :: Script(TYPE PASSIVE, init y 0, set y $(add $y 1), write ttl.active $(mod $y 2), \
        write rt.set 10.9.0.0/16 192.0.2.1 0,
        write encap.dst 2:0:0:0:0:$y, write count.reset_counts);";

#[test]
fn handler_calls_downstream_of_a_fused_loop_reach_its_elements() {
    same(CALLS, &[], &[], 11);
    let frames = frames(&mut Rng::seed(11), 1500);
    let (sent, ..) = run(CALLS, &[], &[], &frames, true);
    let destinations: HashSet<&[u8]> = sent[1].iter().map(|frame| &frame[..6]).collect();
    assert!(destinations.len() > 5, "{destinations:?}");
}

/// Watches elements in the middle of fused loops for a while, and reloads with longer and shorter loops.
fn disturb(fuse: bool) -> impl FnMut(Graph, usize, &Arc<InMemory>) -> Graph {
    let longer = ROUTES.replace(
        "-> ttl :: DecIPTTL",
        "-> new :: Null -> ttl :: DecIPTTL(MULTICAST false)",
    );
    let (to, records) = sync_channel(100_000);
    move |mut graph, n, ports| match n % 6 {
        1 => {
            let node = graph.plan().find("encap").expect("it is there");
            let all = Box::new(|_: &[u8], _| true);
            graph
                .taps()
                .capture((1, 0), Point::Input(node, 0), 64, all, to.clone());
            graph
        }
        2 => {
            assert_eq!(graph.taps().end_capture(1), 0);
            assert!(records.try_iter().count() > 0);
            graph
        }
        3 | 5 => {
            let text = if n % 6 == 3 { &longer } else { ROUTES };
            let next = plan_after(Some(graph.plan()), text, &[], fuse, ports);
            let site = graph.build_context(Arc::clone(ports) as _);
            graph.swap(&next, &site)
        }
        _ => graph,
    }
}

#[test]
fn captures_and_reloads_leave_what_fused_loops_do_and_count_as_it_is() {
    let frames = frames(&mut Rng::seed(21), 1890);
    let [fused, apart] = [true, false].map(|fuse| {
        let (mut sent, stats, _) = run_with(ROUTES, &[], &[], &frames, fuse, disturb(fuse));
        // The walker decides which of two paths goes first. Packets of one path keep their order.
        sent[1].sort_by_key(|frame| frame[..14].to_vec());
        (sent.swap_remove(1), stats)
    });
    let differ = fused.0.iter().zip(&apart.0).position(|(a, b)| a != b);
    assert_eq!((fused.0.len(), differ), (apart.0.len(), None));
    assert!(fused.0.len() > 50);
    assert_eq!(fused.1, apart.1);
}

#[test]
fn a_plan_names_the_elements_that_run_as_one_loop() {
    let found = loops(&plan(ROUTES, &[], true, &InMemory::default()));
    for names in ["strip4 -> check4", "rt6 -> hlim -> encap6", "ttl -> encap"] {
        assert!(found.iter().any(|found| found.contains(names)), "{found:?}");
    }
    // Two of its outputs lead to equal paths, so neither is the main one.
    assert!(
        !found.iter().any(|names| names.contains("rt4 -> ")),
        "{found:?}"
    );
    // Packets that leave by another output than the main one travel singly.
    let beside = "FromDevice(DEV0) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL -> Discard;
        ttl[1] -> encap :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(DEV1);";
    let found = loops(&plan(beside, &[], true, &InMemory::default()));
    assert!(!found.contains(&"ttl -> encap".to_owned()), "{found:?}");
    assert!(
        plan(ROUTES, &[], false, &InMemory::default())
            .loops
            .is_empty()
    );
}
