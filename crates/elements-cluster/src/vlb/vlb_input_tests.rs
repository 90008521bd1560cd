use super::*;
use cluster::address::PORT_SELF;
use testkit::{Bench, errors, ip4, ip6};

const NODE: &str = "vlb :: VLBNode(NAME t, NODE a, NODES a 1Gbps b 1Gbps c 1Gbps d 1Gbps,
    LINKS a-b a-c a-d b-c b-d c-d);";

fn bench() -> Bench {
    let text = format!(
        "{NODE} c0 :: CheckIPHeader -> in :: VLBInput(vlb, b/0, c/3/2, d/255);
         c1 :: CheckIPHeader -> [1]in; c2 :: CheckIP6Header -> [2]in;
         in[0] -> b :: Collect; in[1] -> c :: Collect; in[2] -> d :: Collect;"
    );
    Bench::new(crate::with_basics(), &text)
}

fn address(frame: &[u8]) -> Address {
    let cookie = cluster::address::cookie("t");
    Address::parse(frame.first_chunk().expect("a header"), cookie).expect("ours")
}

#[test]
fn the_output_node_travels_in_the_header_and_the_packet_is_as_it_was() {
    let mut bench = bench();
    let packet = ip4().udp(1, 2).bytes();
    bench.push("c1", &[&packet]);
    let frames = bench.take("c");
    let to = address(&frames[0]);
    assert_eq!((to.node, to.port, to.gateway), (2, 3, 2));
    assert_eq!((to.input, to.via, to.hops), (0, NO_NODE, 1));
    assert_eq!(frames[0][12..14], [8, 0]);
    assert_eq!(frames[0][14..], packet[..]);
    let packet = ip6().udp(1, 2).bytes();
    bench.push("c2", &[&packet]);
    let frames = bench.take("d");
    assert_eq!(address(&frames[0]).port, PORT_SELF);
    assert_eq!(frames[0][12..14], [0x86, 0xdd]);
}

#[test]
fn excess_over_the_quota_is_spread_and_flows_stay_together() {
    let mut bench = bench();
    let flow = |port: u16| ip4().udp(port, 2).payload_len(1000).bytes();
    let packets: Vec<_> = (0..300).map(|n| flow(n % 30)).collect();
    bench.advance(std::time::Duration::from_millis(10));
    bench.push("c0", &packets);
    let (b, c, d) = (bench.take("b"), bench.take("c"), bench.take("d"));
    assert_eq!(b.len() + c.len() + d.len(), 300);
    assert!(!b.is_empty() && !c.is_empty() && !d.is_empty());
    for (frames, via) in [(&b, NO_NODE), (&c, 2), (&d, 3)] {
        let all = frames.iter().map(|frame| address(frame));
        assert!(all.clone().all(|to| (to.node, to.via) == (1, via)));
    }
    let counts: Vec<u64> = ["direct", "straight", "phase1", "kept"]
        .map(|name| bench.read(&format!("in.{name}")).parse().expect("a number"))
        .into();
    assert_eq!(counts[0] + counts[1], b.len() as u64);
    assert_eq!(counts[2], (c.len() + d.len()) as u64);
    assert!(counts[3] >= 200, "{counts:?}");
}

#[test]
fn packets_to_unreachable_nodes_are_dropped_by_name() {
    let mut bench = bench();
    for link in ["a-b", "b-c", "b-d"] {
        bench.write("vlb.link", &format!("{link} down"));
    }
    let packet = ip4().udp(1, 2).bytes();
    bench.push("c0", &[&packet, &packet]);
    assert_eq!(bench.drops("in", "no_path"), 2);
    bench.write("vlb.link", "b-c up");
    bench.push("c0", &[&packet]);
    assert_eq!(address(&bench.take("c")[0]).via, 2);
}

#[test]
fn more_than_the_links_bear_is_dropped_by_name() {
    let mut bench = bench();
    let packets: Vec<_> = (0..2000)
        .map(|n| ip4().udp(n, 2).payload_len(1400).bytes())
        .collect();
    bench.push("c0", &packets);
    let sent = ["b", "c", "d"].map(|link| bench.take(link).len());
    let full = bench.drops("in", "full") as usize;
    assert_eq!(sent.iter().sum::<usize>() + full, 2000);
    assert!(full > 0 && sent.iter().all(|&sent| sent > 20), "{sent:?}");
}

#[test]
fn transit_traffic_leaves_less_room() {
    let text = format!(
        "{NODE} c0 :: CheckIPHeader -> in :: VLBInput(vlb, b/0, c/0);
         t :: VLBTransit(vlb); Idle -> [1]t; Idle -> [2]t; Idle -> [1]in;
         in[0] -> b :: Collect; in[1] -> c :: Collect; in[2] -> d :: Collect;
         t[0] -> on :: Collect; t[1] -> on; t[2] -> on; t[3] -> on; t[4] -> on;"
    );
    let mut bench = Bench::new(crate::with_basics(), &text);
    let on = Address {
        kind: Kind::Data,
        hops: 3,
        node: 2,
        port: 0,
        gateway: 0,
        input: 3,
        via: NO_NODE,
        cookie: cluster::address::cookie("t"),
    };
    let mut frame = on.bytes().to_vec();
    frame.resize(1500, 8);
    bench.push("t", &vec![frame; 500]);
    assert_eq!(bench.take("on").len(), 500);
    let packets: Vec<_> = (0..100)
        .map(|n| ip4().udp(n, 2).payload_len(1400).bytes())
        .collect();
    bench.push("c0", &packets);
    assert_eq!(
        bench.take("c").len(),
        0,
        "the link is full of what came from d"
    );
    assert!(bench.take("d").len() > 20);
}

#[test]
fn mistakes_are_reported_with_remedies() {
    for (arguments, told) in [
        ("nobody", "VLB must be a VLBNode"),
        ("vlb, x/0", "`x` is no node"),
        ("vlb, b", "`b` is no destination"),
        ("vlb, b/256", "`b/256` is no destination"),
        ("vlb, b/0/1/2", "`b/0/1/2` is no destination"),
        ("vlb, a/0", "is this node itself"),
    ] {
        let text = format!("{NODE} Idle -> Strip(0) -> in :: VLBInput({arguments}) -> Discard");
        let all = errors(crate::with_basics(), &text);
        assert!(all.contains(told), "{arguments}: {all}");
    }
}

#[test]
fn packets_of_a_flow_are_numbered_as_the_nodes_whichever_input_element_they_come_to() {
    let node = NODE.replace("LINKS", "RESEQUENCE 2ms, LINKS");
    let text = format!(
        "{node} c0 :: CheckIPHeader -> one :: VLBInput(vlb, b/0);
         c1 :: CheckIPHeader -> two :: VLBInput(vlb, b/0);
         one[0] -> all :: Collect; one[1] -> all; one[2] -> all;
         two[0] -> all; two[1] -> all; two[2] -> all;"
    );
    let mut bench = Bench::new(crate::with_basics(), &text);
    let packet = ip4().udp(1, 2).bytes();
    let mut numbers = Vec::new();
    for check in ["c0", "c1", "c1", "c0"] {
        if numbers.len() == 3 {
            bench
                .reload(&format!("{text} Idle -> Discard;"))
                .expect("it is right");
        }
        bench.push(check, &[&packet]);
        let frame = bench.take("all").remove(0);
        numbers.push(Tag::read(&frame).expect("a tag").sequence);
    }
    let first = numbers[0];
    let in_order: Vec<u16> = (0..4).map(|n| first.wrapping_add(n)).collect();
    assert_eq!(numbers, in_order);
}

#[test]
fn without_a_key_for_a_link_packets_are_dropped_by_name() {
    let text = format!(
        "{} check :: CheckIPHeader -> in :: VLBInput(vlb, b/0);
         in[0] -> out :: Collect; in[1] -> out; in[2] -> out;",
        NODE.replace("LINKS", &format!("KEY {}, LINKS", "0".repeat(32)))
    );
    let mut bench = Bench::new(crate::with_basics(), &text);
    bench.push("check", &[&ip4().udp(1, 2).bytes()]);
    assert_eq!(
        (bench.take("out").len(), bench.drops("in", "no_key")),
        (0, 1)
    );
}
