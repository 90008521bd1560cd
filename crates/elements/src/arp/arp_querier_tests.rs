use engine::packet::Packet;
use std::net::Ipv4Addr;
use std::time::Duration;
use testkit::{Bench, arp_reply, arp_request, ip4};

const US: &str = "02:00:00:00:00:01";
const A: &str = "02:00:00:00:00:0a";
const B: &str = "02:00:00:00:00:0b";

fn text(more: &str) -> String {
    format!(
        "q :: ARPQuerier(10.0.0.1/24, {US}{more}) -> out :: Collect;
         q[1] -> asked :: Collect; q[2] -> lost :: Collect"
    )
}

fn bench(more: &str) -> Bench {
    Bench::new(crate::CLASSES, &text(more))
}

/// Sends packets with a neighbour as next hop.
fn send(bench: &mut Bench, neighbour: &str, payloads: &[&str]) {
    let make = |payload: &&str| {
        let mut made = Packet::from_bytes(&packet(payload)).expect("it fits");
        let neighbour: Ipv4Addr = neighbour.parse().expect("an address");
        made.anno_mut().set_dst4(neighbour.octets());
        made
    };
    bench.push_packets("q", 0, payloads.iter().map(make).collect());
}

/// A packet to a remote host, identified by its payload.
fn packet(payload: &str) -> Vec<u8> {
    ip4()
        .src("10.9.9.9")
        .dst("198.51.100.7")
        .payload(payload)
        .bytes()
}

fn frame(to: &str, payload: &str) -> Vec<u8> {
    ip4()
        .src("10.9.9.9")
        .dst("198.51.100.7")
        .payload(payload)
        .ether(US, to)
        .bytes()
}

fn reply(mac: &str, ip: &str) -> Vec<u8> {
    arp_reply(mac, ip, US, "10.0.0.1")
}

#[test]
fn packets_wait_for_the_reply_and_leave_in_order() {
    for make in [Bench::new, Bench::strict] {
        let mut bench = make(crate::CLASSES, &text(""));
        send(&mut bench, "10.0.0.2", &["1", "2"]);
        send(&mut bench, "10.0.0.3", &["3"]);
        assert_eq!(
            bench.take("asked"),
            [
                arp_request(US, "10.0.0.1", "10.0.0.2"),
                arp_request(US, "10.0.0.1", "10.0.0.3"),
            ]
        );
        assert_eq!(bench.read("q.length"), "3");
        bench.push_at("q", 1, &[reply(A, "10.0.0.2")]);
        assert_eq!(bench.take("out"), [frame(A, "1"), frame(A, "2")]);
        send(&mut bench, "10.0.0.2", &["4"]);
        assert_eq!(bench.take("out"), [frame(A, "4")]);
        assert_eq!(bench.read("q.queries"), "2");
        assert_eq!(bench.read("q.responses"), "1");
        assert_eq!(
            bench.all_drops(),
            [("q".to_owned(), "learned".to_owned(), 1)]
        );
    }
}

#[test]
fn without_a_second_output_queries_leave_by_the_first() {
    let mut bench = Bench::new(
        crate::CLASSES,
        &format!("q :: ARPQuerier(10.0.0.1, {US}) -> out :: Collect"),
    );
    send(&mut bench, "10.0.0.2", &["1"]);
    assert_eq!(bench.take("out"), [arp_request(US, "10.0.0.1", "10.0.0.2")]);
}

#[test]
fn a_silent_neighbour_is_asked_three_times_and_its_packets_leave_as_unreachable() {
    let mut bench = bench("");
    send(&mut bench, "10.0.0.2", &["1"]);
    bench.advance(Duration::from_millis(2900));
    assert_eq!(bench.take("asked").len(), 3);
    assert!(bench.take("lost").is_empty());
    bench.advance(Duration::from_millis(600));
    let lost = bench.take_packets("lost");
    assert_eq!(lost.len(), 1);
    assert_eq!((&lost[0].bytes, lost[0].network_offset), (&packet("1"), 0));
    send(&mut bench, "10.0.0.2", &["2"]);
    assert_eq!(
        bench.take("lost"),
        [packet("2")],
        "at once, while it is known"
    );
    bench.advance(Duration::from_secs(2));
    send(&mut bench, "10.0.0.2", &["3"]);
    assert_eq!(bench.take("asked").len(), 1, "and asked anew later");
    assert_eq!(bench.read("q.length"), "1");
}

#[test]
fn without_a_third_output_packets_ask_on_and_wait_until_the_neighbour_is_forgotten() {
    let mut bench = Bench::new(
        crate::CLASSES,
        &format!("q :: ARPQuerier(10.0.0.1, {US}, TIMEOUT 8) -> Discard"),
    );
    for queries in ["1", "1", "2", "2", "3"] {
        send(&mut bench, "10.0.0.2", &["1"]);
        assert_eq!(bench.read("q.queries"), queries, "ten per second");
        bench.advance(Duration::from_millis(50));
    }
    bench.advance(Duration::from_secs(1));
    assert_eq!(bench.read("q.queries"), "3", "only packets ask");
    for queries in (4..=10).chain([10; 19]).chain([11]) {
        send(&mut bench, "10.0.0.2", &["1"]);
        assert_eq!(
            bench.read("q.queries"),
            queries.to_string(),
            "then every two seconds"
        );
        bench.advance(Duration::from_millis(100));
    }
    assert_eq!(bench.read("q.drops"), "0");
    assert_eq!(
        bench.read("q.stats"),
        "0 packets killed\n11 ARP queries sent\n"
    );
    bench.advance(Duration::from_secs(15));
    assert_eq!(bench.drops("q", "unresolved"), 32);
    assert_eq!(
        (bench.read("q.drops"), bench.read("q.count")),
        ("32".into(), "0".into())
    );
}

#[test]
fn the_oldest_packets_make_room() {
    let mut bench = bench(", CAPACITY 3, CAPACITY_SLIM_FACTOR 9, ENTRY_PACKET_CAPACITY 2");
    send(&mut bench, "10.0.0.2", &["1", "2", "3"]);
    send(&mut bench, "10.0.0.3", &["4", "5"]);
    assert_eq!(bench.drops("q", "full"), 2);
    bench.push_at("q", 1, &[reply(A, "10.0.0.2"), reply(B, "10.0.0.3")]);
    assert_eq!(
        bench.take("out"),
        [frame(A, "3"), frame(B, "4"), frame(B, "5")]
    );
}

#[test]
fn an_old_entry_is_asked_for_while_it_is_used_and_forgotten_while_it_is_not() {
    let mut bench = bench("");
    send(&mut bench, "10.0.0.2", &["1"]);
    bench.push_at("q", 1, &[reply(A, "10.0.0.2")]);
    bench.take("asked");
    bench.advance(Duration::from_secs(62));
    send(&mut bench, "10.0.0.2", &["2"]);
    assert_eq!(bench.take("out").len(), 2, "it is used meanwhile");
    let asked = bench.take("asked");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0][..6], [2, 0, 0, 0, 0, 0xa], "unicast");
    assert_eq!(asked[0][32..38], [0; 6], "target address, as in Click");
    bench.push_at("q", 1, &[reply(A, "10.0.0.2")]);
    bench.advance(Duration::from_secs(310));
    assert_eq!(bench.read("q.entries"), "0");
}

#[test]
fn neighbours_are_learnt_from_their_arp_packets() {
    let mut bench = bench("");
    // An unsolicited reply is ignored (it could fill the table).
    bench.push_at("q", 1, &[reply(A, "10.0.0.2")]);
    assert_eq!(bench.read("q.entries"), "0");
    // Requests to other hosts and requests from another network are ignored, too.
    let to_other = arp_request(A, "10.0.0.2", "10.0.0.77");
    let off_link = arp_request(A, "10.0.1.2", "10.0.0.1");
    bench.push_at("q", 1, &[to_other, off_link]);
    assert_eq!(bench.read("q.entries"), "0");
    // A request for our address makes an entry, because it will be answered.
    bench.push_at("q", 1, &[arp_request(A, "10.0.0.2", "10.0.0.1")]);
    send(&mut bench, "10.0.0.2", &["1"]);
    assert_eq!(bench.take("out"), [frame(A, "1")]);
    // An announcement updates the entry (RFC 826, merge).
    bench.push_at("q", 1, &[arp_request(B, "10.0.0.2", "10.0.0.2")]);
    send(&mut bench, "10.0.0.2", &["2"]);
    assert_eq!(bench.take("out"), [frame(B, "2")]);
}

#[test]
fn broadcasts_and_groups_need_no_neighbour() {
    let mut bench = Bench::new(
        crate::CLASSES,
        &format!(
            "q :: ARPQuerier(10.0.0.1/24, {US}, BROADCAST 10.0.0.0) -> out :: Collect;
"
        ),
    );
    send(&mut bench, "255.255.255.255", &["a"]);
    send(&mut bench, "10.0.0.0", &["b"]);
    send(&mut bench, "224.129.2.3", &["c"]);
    send(&mut bench, "0.0.0.0", &["z"]);
    let all = "ff:ff:ff:ff:ff:ff";
    assert_eq!(
        bench.take("out"),
        [
            frame(all, "a"),
            frame(all, "b"),
            frame("01:00:5e:01:02:03", "c")
        ]
    );
    assert_eq!(bench.drops("q", "no_address"), 1);
    assert_eq!(bench.read("q.broadcast"), "10.0.0.0");
}

#[test]
fn bad_frames_are_dropped_and_claims_to_our_address_counted() {
    let mut bench = bench("");
    let good = reply(A, "10.0.0.2");
    let mut not_arp = good.clone();
    not_arp[12] = 0x86;
    let mut other_op = good.clone();
    other_op[21] = 9;
    let group = reply("03:00:00:00:00:0a", "10.0.0.2");
    bench.push_at(
        "q",
        1,
        &[not_arp, other_op, group, good[..41].to_vec(), vec![]],
    );
    assert_eq!(bench.drops("q", "bad_arp"), 5);
    let probe = arp_request(A, "0.0.0.0", "10.0.0.1");
    bench.push_at(
        "q",
        1,
        &[reply(A, "10.0.0.1"), reply(US, "10.0.0.1"), probe],
    );
    assert_eq!(bench.read("q.conflicts"), "1");
    assert_eq!(bench.read("q.entries"), "0");
}

#[test]
fn entries_can_be_made_and_removed_by_hand() {
    let mut bench = bench("");
    send(&mut bench, "10.0.0.2", &["1"]);
    bench.write("q.insert", &format!("10.0.0.2 {A}"));
    bench.advance(Duration::from_millis(10));
    assert_eq!(bench.take("out"), [frame(A, "1")], "what waited leaves");
    assert!(
        bench
            .read("q.table")
            .starts_with("10.0.0.2 1 02-00-00-00-00-0A ")
    );
    bench.advance(Duration::from_secs(4000));
    assert_eq!(bench.read("q.count"), "1", "it is there for good");
    bench.write("q.delete", "10.0.0.2");
    assert!(bench.try_write("q.delete", "10.0.0.2").is_err());
    assert!(bench.try_write("q.insert", "10.0.0.2").is_err());
    assert!(
        bench
            .try_write("q.insert", "10.0.0.2 ff:ff:ff:ff:ff:ff")
            .is_err()
    );
    bench.write("q.insert", "10.0.0.2 03:bf:0a:00:00:02");
    assert!(bench.read("q.table").contains(" 03-BF-0A-00-00-02 "));
    bench.write("q.insert", &format!("10.0.0.3 {B}"));
    bench.write("q.clear", "");
    assert_eq!(bench.read("q.table"), "");
}

#[test]
fn a_reload_keeps_neighbours_and_waiting_packets() {
    let mut bench = bench("");
    send(&mut bench, "10.0.0.2", &["1"]);
    bench.push_at("q", 1, &[reply(A, "10.0.0.2")]);
    send(&mut bench, "10.0.0.3", &["2"]);
    bench.take("out");
    for more in [
        ", TIMEOUT 600",
        ", TIMEOUT 600, CAPACITY 9, ENTRY_CAPACITY 100",
    ] {
        bench.reload(&text(more)).unwrap_or_else(|e| panic!("{e}"));
        send(&mut bench, "10.0.0.2", &["3"]);
        assert_eq!(bench.take("out"), [frame(A, "3")]);
        assert_eq!(bench.read("q.length"), "1");
        assert_eq!(
            bench.read("q.queries"),
            "2",
            "what is known is not asked for again"
        );
    }
    send(&mut bench, "10.0.0.3", &["4"]);
    bench.push_at("q", 1, &[reply(B, "10.0.0.3")]);
    assert_eq!(bench.take("out"), [frame(B, "2"), frame(B, "4")]);
}

#[test]
fn another_ethernet_address_is_announced_three_times() {
    let mut bench = bench("");
    let announcement = || arp_request(B, "10.0.0.1", "10.0.0.1");
    let second = Duration::from_secs(1);
    bench.advance(second);
    bench
        .reload(&text(", CAPACITY 9"))
        .unwrap_or_else(|e| panic!("{e}"));
    bench.advance(10 * second);
    assert!(bench.take("asked").is_empty(), "nothing has changed");
    let other = text("").replace(US, B);
    bench.reload(&other).unwrap_or_else(|e| panic!("{e}"));
    bench.advance(second / 2);
    assert_eq!(bench.take("asked"), [announcement()]);
    // Another reload meanwhile ends nothing.
    let more = text(", CAPACITY 9").replace(US, B);
    bench.reload(&more).unwrap_or_else(|e| panic!("{e}"));
    bench.advance(10 * second);
    assert_eq!(bench.take("asked"), [announcement(), announcement()]);
}

#[test]
fn the_address_in_use_is_announced_and_only_a_hosts() {
    let mut bench = bench("");
    let other = text("").replace(US, B);
    bench.write("q.ipaddr", "10.0.0.7");
    bench.reload(&other).unwrap_or_else(|e| panic!("{e}"));
    bench.advance(Duration::from_millis(1));
    assert_eq!(
        bench.take("asked"),
        [arp_request(B, "10.0.0.7", "10.0.0.7")]
    );
    bench.write("q.ipaddr", "0.0.0.0");
    bench.advance(Duration::from_secs(10));
    assert!(bench.take("asked").is_empty());
}

#[test]
fn another_address_asks_for_all_again_once_it_is_taken_up() {
    let mut bench = bench("");
    send(&mut bench, "10.0.0.2", &["1"]);
    bench.push_at("q", 1, &[reply(A, "10.0.0.2")]);
    let other = text("").replace(US, B);
    let plan = std::sync::Arc::clone(bench.graph().plan());
    let whole = other.replace("Collect", "Discard") + "; Idle -> q; Idle -> [1]q";
    let ports = engine::port::NoPorts;
    let made = testkit::plan(crate::CLASSES, &whole, 1, &ports, Some(&plan));
    // A reload that fails later has also come to this point.
    drop(made.unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(bench.read("q.count"), "1", "it is still known");
    bench.reload(&other).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(bench.read("q.count"), "0");
}

#[test]
fn a_name_can_stand_for_both_addresses_and_mistakes_are_told() {
    let mut bench = Bench::new(
        crate::CLASSES,
        &format!("AddressInfo(me 10.0.0.1/24 {US}); q :: ARPQuerier(me) -> out :: Collect"),
    );
    send(&mut bench, "10.0.0.255", &["1"]);
    assert_eq!(bench.take("out"), [frame("ff:ff:ff:ff:ff:ff", "1")]);
    let refused = |arguments: &str| {
        let text = format!("Idle -> q :: ARPQuerier({arguments}) -> Discard; Idle -> [1]q");
        testkit::errors(crate::CLASSES, &text)
    };
    assert!(refused("10.0.0.1").contains("our Ethernet address is missing"));
    assert!(refused("nobody").contains("IP must be an IPv4 address"));
    let many = format!("10.0.0.1, {US}, ENTRY_CAPACITY 2000000");
    assert!(refused(&many).contains("too large"));
    let errors = testkit::errors(
        crate::CLASSES,
        &format!("InfiniteSource -> q :: ARPQuerier(10.0.0.1, {US}) -> Discard; Idle -> [1]q"),
    );
    assert!(
        errors.contains("an IPv4 destination annotation"),
        "{errors}"
    );
}

#[test]
fn queries_carry_the_time_stamp_of_the_packet_that_asks() {
    let mut bench = bench("");
    let mut made = Packet::from_bytes(&packet("1")).expect("it fits");
    made.anno_mut().set_dst4([10, 0, 0, 2]);
    made.cold_mut().timestamp = 120;
    bench.push_packets("q", 0, [made].into_iter().collect());
    let asked = &bench.take_packets("asked")[0];
    assert_eq!(asked.cold.timestamp, 120);
}
