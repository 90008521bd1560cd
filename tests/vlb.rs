//! Several routers as one: nodes of a cluster, without heartbeats.

use cluster::address::{Address, HOPS_MAX, Kind, NO_NODE, cookie};
use cluster::map::Map;
use engine::graph::Walker;
use router_tests::{Cluster, Whole, dropped_as, host_packet, strip};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{Rng, ip4};

const R: f64 = 1e9;

fn mesh(arguments: &str) -> Cluster {
    Cluster::new(Map::mesh(4, R), arguments, None)
}

/// A packet after a router.
fn routed(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[8] -= 1;
    // The TTL is the upper byte of a word of the checksum (RFC 1624).
    let old = u16::from_be_bytes([packet[10], packet[11]]);
    let sum = u32::from(!old) + u32::from(!0x0100u16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn every_host_reaches_every_other_and_the_ttl_falls_by_one() {
    let mut cluster = mesh("");
    let arrived = cluster.all_pairs(50);
    for (to, mut packets) in arrived.into_iter().enumerate() {
        let others = (0..4).filter(|&from| from != to);
        let sent = others.flat_map(|from| (0..50).map(move |n| (from, n)));
        let mut wanted: Vec<_> = sent
            .map(|(from, n)| routed(&host_packet(from, to, n)))
            .collect();
        packets.sort();
        wanted.sort();
        assert_eq!(packets.len(), wanted.len());
        assert!(
            packets == wanted,
            "a packet is not as one router would have left it"
        );
    }
    assert_eq!(cluster.check(600), []);
}

#[test]
fn more_than_one_link_carries_goes_by_all_of_them() {
    let mut cluster = mesh(", FLOWS 0");
    let mut arrived = 0;
    for round in 0..500u16 {
        // Ten packets of 464 bytes in 40 us: 928 Mbit/s from node 0 to node 3.
        for number in 0..10 {
            cluster.send(0, &host_packet(0, 3, round * 10 + number));
        }
        arrived += cluster.settle()[3].len() as u64;
        cluster.advance(Duration::from_micros(40));
    }
    let drops = cluster.check(arrived);
    assert_eq!(drops, [], "all of it fits");
    let [a, b, c] = cluster.crossed[0][..] else {
        panic!("three links");
    };
    assert!(a > 500 && b > 500 && c > 2000, "{a} {b} {c}");
    assert_eq!(cluster.read("enter.phase1"), a + b);
    let straight = cluster.read("enter.direct") + cluster.read("enter.straight");
    assert_eq!(straight, c);
}

#[test]
fn flows_keep_their_order_and_their_way_where_it_fits() {
    let mut cluster = mesh("");
    let arrived = cluster.all_pairs(200);
    assert_eq!(cluster.read("enter.moved"), 0);
    for packets in arrived {
        let mut last = BTreeMap::new();
        for packet in packets {
            let number = u16::from_be_bytes([packet[4], packet[5]]);
            let flow = packet[12..22].to_vec();
            let before = last.insert(flow, number);
            assert!(before.is_none_or(|before| before < number));
        }
    }
}

/// Sends a flow from node 0 to node 3 that no link can carry alone, while one path is slower. Returns the number of
/// reordered packets.
fn reordered(more: &str) -> usize {
    let mut cluster = mesh(more);
    cluster.slow = 5;
    let (mut arrived, mut last, mut wrong) = (0, 0, 0);
    for round in 0..700u32 {
        for number in 0..10 {
            if round < 600 {
                let packet = ip4().src("10.0.0.9").dst("10.0.3.9").udp(1, 2);
                let packet = packet.ident(round * 10 + number).payload_len(400);
                cluster.send(0, &packet.bytes());
            }
        }
        for packet in cluster.settle()[3].iter() {
            let number = u16::from_be_bytes([packet[4], packet[5]]);
            wrong += usize::from(number < last);
            last = last.max(number);
            arrived += 1;
        }
        cluster.advance(Duration::from_micros(40));
    }
    assert_eq!(cluster.check(arrived), []);
    assert_eq!(arrived, 6000);
    wrong
}

#[test]
fn flowlets_reorder_less_than_packets_by_themselves_and_a_resequencer_nothing() {
    let packets = reordered(", FLOWS 0");
    let flowlets = reordered("");
    assert!(packets > 500, "{packets}");
    assert!(flowlets < packets / 10, "{flowlets} of {packets}");
    assert_eq!(reordered(", RESEQUENCE 2ms"), 0);
    assert_eq!(reordered(", FLOWS 0, RESEQUENCE 2ms"), 0);
}

#[test]
fn a_fly_of_sixteen_nodes_sends_frames_over_several_links() {
    let mut cluster = Cluster::new(Map::fly(4, 2, R), ", FLOWS 0", None);
    let arrived = cluster.all_pairs(40);
    let came: usize = arrived.iter().map(Vec::len).sum();
    assert_eq!(came, 16 * 15 * 40);
    assert!(arrived.iter().flatten().all(|packet| packet[8] == 16));
    assert_eq!(cluster.check(came as u64), []);
    let crossed: u64 = cluster.crossed.iter().flatten().sum();
    assert!(crossed > came as u64 * 3 / 2, "{crossed} links for {came}");
    // Now one input exceeds its quota: intermediate nodes are also several links away.
    let mut more = 0;
    for round in 0..200 {
        for number in 0..10 {
            cluster.send(0, &host_packet(0, 15, round * 10 + number));
        }
        more += cluster.settle()[15].len();
        cluster.advance(Duration::from_micros(50));
    }
    assert_eq!(more, 2000);
    assert!(cluster.read("enter.phase1") > 1000);
    assert_eq!(cluster.check((came + more) as u64), []);
}

#[test]
fn more_ports_and_nodes_than_queues_are_told_apart_by_address_alone() {
    const PORTS: usize = 40;
    const PEERS: usize = 12;
    let others: Vec<usize> = (1..=PEERS).collect();
    let list = |of: &dyn Fn(usize) -> String| others.iter().map(|&n| of(n)).collect::<String>();
    // Every device here has one queue.
    let mut text = format!(
        "vlb :: VLBNode(NAME test, NODE n0, NODES n0 1Gbps{}, LINKS{});
         transit :: VLBTransit(vlb); transit[{PEERS}] -> leave :: VLBOutput(vlb);
         leave[{PORTS}] -> Discard; transit[{}] -> Discard;\n",
        list(&|n| format!(" n{n} 1Gbps")),
        list(&|n| format!(" n0-n{n}")),
        PEERS + 1
    );
    for n in 0..PEERS {
        text += &format!("FromDevice(link{n:02}) -> [{n}]transit[{n}] -> ToDevice(link{n:02});\n");
    }
    for port in 0..PORTS {
        let macs = "2:0:0:0:0:1, 2:0:0:0:0:2";
        text +=
            &format!("leave[{port}] -> EtherEncap(0x0800, {macs}) -> ToDevice(ext{port:02});\n");
    }
    let mut router = Whole::new(&text, &[], Walker::Sweep);
    let frame = |node: usize, port: usize, payload: &[u8]| {
        let address = Address {
            kind: Kind::Data,
            hops: HOPS_MAX,
            node: node as u16,
            port: port as u8,
            gateway: 0,
            input: 1,
            via: NO_NODE,
            cookie: cookie("test"),
        };
        let mut frame = address.bytes().to_vec();
        frame.extend([8, 0]);
        frame.extend(payload);
        frame
    };
    let packets: Vec<_> = (0..PORTS as u16).map(|n| host_packet(1, 0, n)).collect();
    let here = packets.iter().enumerate();
    let here: Vec<_> = here.map(|(port, packet)| frame(0, port, packet)).collect();
    // Frames that are passed on are not examined.
    let on: Vec<_> = (2..=PEERS).map(|n| frame(n, n, &[n as u8; 60])).collect();
    router.receive(0, here.iter().chain(&on).map(Vec::as_slice));
    router.settle();
    for (port, packet) in packets.iter().enumerate() {
        let sent = router.sent(port);
        assert_eq!(sent.len(), 1, "port {port}");
        assert_eq!(strip(&sent[0]), *packet, "port {port}");
    }
    assert_eq!(router.sent(PORTS), [[0; 0]; 0], "nothing goes back");
    for (own, frame) in (1..).zip(&on) {
        let sent = router.sent(PORTS + own);
        assert_eq!(sent.len(), 1, "link {own}");
        assert_eq!(sent[0][14..], frame[14..], "link {own}");
        assert_eq!(sent[0][2..6], frame[2..6], "link {own}");
    }
    router.books().check();
}

#[test]
fn errors_come_from_the_external_address_of_the_input_node() {
    let mut cluster = mesh("");
    let dying = ip4()
        .src("10.0.1.9")
        .dst("10.0.2.9")
        .ttl(1)
        .udp(1, 2)
        .bytes();
    cluster.send(1, &dying);
    let arrived = cluster.settle();
    assert_eq!(arrived[1].len(), 1);
    let error = &arrived[1][0];
    assert_eq!((error[9], error[20]), (1, 11), "ICMP, time exceeded");
    assert_eq!(error[12..16], [10, 0, 1, 1]);
    assert_eq!(error[16..20], [10, 0, 1, 9]);
}

#[test]
fn a_link_that_goes_down_is_gone_round_and_comes_back() {
    let mut cluster = mesh("");
    let all = |cluster: &mut Cluster, state: &str| {
        for node in cluster.routers() {
            node.handler("vlb.link", &format!("n0-n3 {state}"));
        }
        cluster.crossed.iter_mut().for_each(|links| links.fill(0));
        // A flow may keep a path that still leads to the destination, while its packets follow each other.
        cluster.advance(Duration::from_millis(200));
        let arrived = cluster.all_pairs(20);
        arrived.iter().map(Vec::len).sum::<usize>()
    };
    assert_eq!(all(&mut cluster, "down"), 240);
    assert_eq!((cluster.crossed[0][2], cluster.crossed[3][0]), (0, 0));
    assert_eq!(all(&mut cluster, "up"), 240);
    assert!(cluster.crossed[0][2] > 0 && cluster.crossed[3][0] > 0);
    assert_eq!(cluster.check(480), []);
}

#[test]
fn forged_and_foreign_frames_end_under_their_names_and_the_books_balance() {
    let mut cluster = mesh("");
    let good = Address {
        kind: Kind::Data,
        hops: HOPS_MAX,
        node: 1,
        port: 0,
        gateway: 0,
        input: 0,
        via: NO_NODE,
        cookie: cookie("test"),
    };
    let mut rng = Rng::seed(11);
    let mut bad = 0;
    for case in 0..3000 {
        let mut frame = good.bytes().to_vec();
        frame.extend([8, 0]);
        frame.extend(host_packet(0, 1, case));
        let flips = 1 + rng.below(3);
        for _ in 0..flips {
            let at = rng.below(14);
            frame[at] ^= 1 << rng.below(8);
        }
        frame.truncate(rng.below(60));
        let to = rng.below(4);
        cluster.inject(to, rng.below(3), &frame);
        cluster.sent += 1;
        bad += 1;
    }
    let arrived: usize = cluster.settle().iter().map(Vec::len).sum();
    let drops = cluster.check(arrived as u64);
    for name in ["malformed", "foreign", "unknown_node", "loop"] {
        let dropped = dropped_as(&drops, &format!("transit {name}"));
        assert!(dropped > 50, "{name}: {drops:?}");
    }
    assert!(arrived < bad / 2, "{arrived}");
}

/// With a key: nodes agree on the keys of links by heartbeats.
fn keyed(arguments: &str) -> Cluster {
    let arguments = format!(", KEY 000102030405060708090a0b0c0d0e0f{arguments}");
    let mut cluster = Cluster::new(Map::mesh(4, R), &arguments, Some(""));
    cluster.until("whole", Cluster::is_whole);
    cluster
}

#[test]
fn with_a_key_packets_cross_the_cluster_as_they_do_without() {
    for more in ["", ", RESEQUENCE 1ms, FLOWS 0"] {
        let mut cluster = keyed(more);
        let mut came: usize = cluster.all_pairs(60).iter().map(Vec::len).sum();
        cluster.advance(Duration::from_millis(2));
        let late = cluster.settle();
        assert!(late.iter().flatten().all(|packet| packet[8] == 16));
        came += late.iter().map(Vec::len).sum::<usize>();
        assert_eq!(came, 720);
        assert_eq!(cluster.check(720), []);
    }
}

#[test]
fn forged_and_replayed_frames_are_dropped_by_name() {
    let mut cluster = keyed("");
    cluster.send(0, &host_packet(0, 1, 1));
    cluster.router(0).settle();
    let mut frames = cluster.router(0).sent(1);
    frames.retain(|frame| frame[12..14] == [0x88, 0xb5]);
    let frame = frames.remove(0);
    for bit in 0..frame.len() * 8 {
        let mut forged = frame.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        cluster.inject(1, 0, &forged);
    }
    for _ in 0..3 {
        cluster.inject(1, 0, &frame);
    }
    cluster.sent += frame.len() as u64 * 8 + 2;
    let arrived = cluster.settle();
    assert_eq!(arrived[1], [routed(&host_packet(0, 1, 1))]);
    let drops = cluster.check(1);
    assert_eq!(dropped_as(&drops, "transit replayed"), 2, "{drops:?}");
    let least = (frame.len() - 14) as u64 * 8;
    assert!(dropped_as(&drops, "transit forged") >= least, "{drops:?}");
}

#[test]
fn a_host_cannot_send_frames_into_the_cluster() {
    let mut cluster = mesh("");
    let forged = Address {
        kind: Kind::Data,
        hops: HOPS_MAX,
        node: 2,
        port: 0,
        gateway: 0,
        input: 1,
        via: 3,
        cookie: cookie("test"),
    };
    // A frame that looks internal to node 2 is an external one to node 1, by its IP header.
    let mut frame = forged.bytes().to_vec();
    frame.extend([8, 0]);
    frame.extend(host_packet(0, 1, 1));
    cluster.send_frame(0, &frame);
    let beat = Address {
        kind: Kind::Heartbeat,
        ..forged
    };
    let mut frame = beat.bytes().to_vec();
    frame.extend([0x88, 0xb6]);
    frame.extend([0; 60]);
    cluster.send_frame(0, &frame);
    let arrived = cluster.settle();
    let came: Vec<usize> = arrived.iter().map(Vec::len).collect();
    assert_eq!(came, [0, 1, 0, 0]);
    assert_eq!(arrived[1][0], routed(&host_packet(0, 1, 1)));
    let drops = cluster.check(1);
    assert!(
        drops
            .iter()
            .all(|(name, _)| name.starts_with("CheckIPHeader")),
        "{drops:?}"
    );
}
