use super::super::testing::{a, both, checksum_holds, icmp6, ip6};
use std::time::Duration;
use testkit::Bench;
use wire::nd::{NEIGHBOR_SOLICIT, OVERRIDE, ROUTER, SOLICITED};
use wire::{EtherAddr, Ipv6, Nd, nd};

const TEXT: &str = "nd :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01, CAPACITY 64, WAITING 16,
        WAITING_EACH 3) -> out :: Collect; nd[1] -> lost :: Collect; Idle -> [1] nd";
const ME: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
const PEER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);
const OTHER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 0xa]);
const HOST: &str = "2001:db8::9";

/// Sends a packet to `dst`.
fn send(bench: &mut Bench, dst: &str, data: &[u8]) {
    let bytes = ip6("2001:db8:1::1", dst, 59, 64, data);
    let mut packet = engine::packet::Packet::from_bytes(&bytes).unwrap();
    packet.anno_mut().set_dst6(a(dst).octets());
    packet.set_network_offset(0);
    let mut batch = engine::packet::Batch::new();
    batch.push(packet);
    bench.push_packets("nd", 0, batch);
}

fn tell(bench: &mut Bench, flags: u8, mac: EtherAddr) {
    let message = nd::advert(flags | ROUTER, a(HOST), mac);
    bench.push_at("nd", 1, &[icmp6(HOST, "fe80::1", &message)]);
}

/// Output: solicitations as `?` and their destination; data as their last bytes and the address.
fn left(bench: &mut Bench) -> Vec<(String, EtherAddr)> {
    let describe = |frame: Vec<u8>| {
        let to = EtherAddr(*frame.first_chunk().unwrap());
        assert_eq!(frame[6..14], [&ME.0[..], &[0x86, 0xdd]].concat());
        let ip = Ipv6::new_checked(&frame[14..]).unwrap();
        if ip.next_header() != 58 {
            return (String::from_utf8_lossy(ip.payload()).into_owned(), to);
        }
        assert!(checksum_holds(&frame[14..]));
        let nd = Nd::new_checked(ip.payload()).unwrap();
        assert_eq!((nd.kind(), ip.hop_limit()), (NEIGHBOR_SOLICIT, 255));
        assert_eq!((ip.src(), nd.source_ether()), (a("fe80::1"), Some(ME)));
        assert!(nd.check_received(ip.src(), ip.dst(), 255).is_ok());
        ("?".to_owned(), to)
    };
    bench.take("out").into_iter().map(describe).collect()
}

/// True if exactly this was sent to `mac`.
fn expect(bench: &mut Bench, what: &[&str], mac: EtherAddr) {
    let expected: Vec<_> = what.iter().map(|w| (w.to_string(), mac)).collect();
    assert_eq!(left(bench), expected);
}

fn state(bench: &mut Bench) -> String {
    let table = bench.read("nd.table");
    let line = table.lines().find(|l| l.starts_with(HOST));
    line.map_or("none", |l| l.split(' ').nth(2).unwrap())
        .to_owned()
}

fn seconds(bench: &mut Bench, n: u64) {
    bench.advance(Duration::from_secs(n));
}

const GROUP: EtherAddr = EtherAddr([0x33, 0x33, 0xff, 0, 0, 9]);

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    both(TEXT, |bench| {
        send(bench, HOST, b"one");
        send(bench, HOST, b"two");
        expect(bench, &["?"], GROUP);
        assert_eq!(
            (state(bench).as_str(), bench.read("nd.length").as_str()),
            ("incomplete", "2")
        );
        tell(bench, SOLICITED | OVERRIDE, PEER);
        expect(bench, &["one", "two"], PEER);
        assert_eq!(state(bench), "reachable");
        send(bench, HOST, b"three");
        expect(bench, &["three"], PEER);
        assert_eq!(bench.read("nd.queries"), "1");
    });
}

#[test]
fn a_silent_neighbour_is_asked_thrice_a_second_apart_and_packets_are_given_back() {
    both(TEXT, |bench| {
        send(bench, HOST, b"one");
        for _ in 0..3 {
            expect(bench, &["?"], GROUP);
            assert!(bench.take("lost").is_empty());
            bench.advance(Duration::from_millis(1100));
        }
        seconds(bench, 2);
        assert_eq!(bench.take("lost").len(), 1);
        assert_eq!(bench.read("nd.length"), "0");
    });
}

#[test]
fn a_used_stale_neighbour_is_probed_at_its_address_and_stays_in_use() {
    both(TEXT, |bench| {
        send(bench, HOST, b"one");
        tell(bench, SOLICITED, PEER);
        left(bench);
        seconds(bench, 31);
        assert_eq!(state(bench), "stale");
        assert!(left(bench).is_empty(), "nobody used it");
        send(bench, HOST, b"two");
        expect(bench, &["?", "two"], PEER);
        assert_eq!(state(bench), "probe");
        tell(bench, SOLICITED, PEER);
        assert_eq!(state(bench), "reachable");
    });
}

#[test]
fn a_neighbour_that_no_longer_answers_probes_is_resolved_again() {
    both(TEXT, |bench| {
        send(bench, HOST, b"one");
        tell(bench, SOLICITED, PEER);
        seconds(bench, 31);
        left(bench);
        for _ in 0..3 {
            send(bench, HOST, b"x");
            expect(bench, &["?", "x"], PEER);
            bench.advance(Duration::from_millis(1100));
        }
        send(bench, HOST, b"y");
        expect(bench, &["?"], GROUP);
        assert_eq!(state(bench), "incomplete");
        tell(bench, SOLICITED | OVERRIDE, OTHER);
        expect(bench, &["y"], OTHER);
    });
}

#[test]
fn an_advertisement_changes_what_rfc_4861_appendix_c_says() {
    // The entry of PEER is reachable; then a message, and the expected result.
    for (flags, mac, state_after, mac_after) in [
        (0, PEER, "reachable", PEER),
        (SOLICITED, PEER, "reachable", PEER),
        (OVERRIDE, PEER, "reachable", PEER),
        (SOLICITED | OVERRIDE, PEER, "reachable", PEER),
        (0, OTHER, "stale", PEER),
        (SOLICITED, OTHER, "stale", PEER),
        (OVERRIDE, OTHER, "stale", OTHER),
        (SOLICITED | OVERRIDE, OTHER, "reachable", OTHER),
        (OVERRIDE, EtherAddr([1, 0, 0, 0, 0, 1]), "reachable", PEER),
    ] {
        both(TEXT, |bench| {
            send(bench, HOST, b"one");
            tell(bench, SOLICITED, PEER);
            left(bench);
            tell(bench, flags, mac);
            assert_eq!(state(bench), state_after, "{flags:x} {mac}");
            assert!(bench.read("nd.table").contains(&mac_after.to_string()));
        });
    }
}

#[test]
fn an_unsolicited_advertisement_answers_too_but_is_not_trusted() {
    both(TEXT, |bench| {
        tell(bench, OVERRIDE, PEER);
        assert_eq!(state(bench), "none", "nobody asked");
        send(bench, HOST, b"one");
        left(bench);
        // A message without an address changes nothing.
        let silent = &nd::advert(SOLICITED, a(HOST), PEER)[..24];
        bench.push_at("nd", 1, &[icmp6(HOST, "fe80::1", silent)]);
        assert_eq!(state(bench), "incomplete");
        tell(bench, OVERRIDE, PEER);
        expect(bench, &["one"], PEER);
        assert_eq!(state(bench), "stale");
        // A solicited one without an address confirms the known one.
        bench.push_at("nd", 1, &[icmp6(HOST, "fe80::1", silent)]);
        assert_eq!(state(bench), "reachable");
    });
}

#[test]
fn soliciting_hosts_are_learnt() {
    both(TEXT, |bench| {
        let question = nd::solicit(a("fe80::1"), PEER);
        bench.push_at("nd", 1, &[icmp6(HOST, "ff02::1:ff00:1", &question)]);
        assert_eq!(state(bench), "stale");
        bench.push_at("nd", 1, &[icmp6("::", "ff02::1:ff00:1", &question[..24])]);
        assert_eq!(bench.read("nd.count"), "1");
        assert_eq!(bench.drops("nd", "learned"), 2);
        let mut routed = icmp6("2001:db8::7", "ff02::1:ff00:1", &question);
        routed[7] = 64;
        bench.push_at("nd", 1, &[routed]);
        assert_eq!(bench.drops("nd", "bad_message"), 1);
    });
}

#[test]
fn groups_have_ethernet_addresses_of_their_own() {
    both(TEXT, |bench| {
        send(bench, "ff02::1:2", b"all");
        expect(bench, &["all"], EtherAddr([0x33, 0x33, 0, 1, 0, 2]));
        send(bench, "::", b"nobody");
        assert_eq!(bench.drops("nd", "no_address"), 1);
    });
}

#[test]
fn a_flood_of_destinations_takes_bounded_memory_and_books_balance() {
    both(TEXT, |bench| {
        let before = engine::packet::pool::balance();
        for n in 0..3000 {
            send(bench, &format!("2001:db8::5:{n:x}"), b"flood");
            bench.advance(Duration::from_micros(100));
        }
        let asked = bench.take("out").len();
        let held: i64 = bench.read("nd.length").parse().unwrap();
        let entries: u64 = bench.read("nd.count").parse().unwrap();
        assert!(held <= 16 && entries <= 64, "{held} {entries}");
        assert!(engine::packet::pool::balance() - before <= 16);
        let lost =
            ["waiting_full", "table_full", "rate_limited"].map(|name| bench.drops("nd", name));
        assert_eq!(lost.iter().sum::<u64>() as i64 + held, 3000);
        // 200 at once and 1,000 a second, and a few for a host with little demand. A neighbour whose entry was
        // replaced is not solicited again either.
        assert!(asked <= 600, "{asked}");
        // Existing hosts are still found.
        seconds(bench, 10);
        left(bench);
        send(bench, HOST, b"one");
        tell(bench, SOLICITED, PEER);
        expect_last(bench, "one");
    });
}

fn expect_last(bench: &mut Bench, what: &str) {
    let all = left(bench);
    assert_eq!(all.last(), Some(&(what.to_owned(), PEER)));
}

#[test]
fn no_more_than_three_packets_wait_for_one_neighbour_and_the_oldest_goes() {
    both(TEXT, |bench| {
        for data in [b"1", b"2", b"3", b"4", b"5"] {
            send(bench, HOST, data);
        }
        assert_eq!(bench.drops("nd", "waiting_full"), 2);
        left(bench);
        tell(bench, SOLICITED, PEER);
        expect(bench, &["3", "4", "5"], PEER);
    });
}

#[test]
fn neighbours_are_configured_listed_and_forgotten() {
    let text = "nd :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01,
        ENTRIES fe80::5 02:00:00:00:00:05) -> out :: Collect; Idle -> [1] nd";
    both(text, |bench| {
        send(bench, "fe80::5", b"x");
        expect(bench, &["x"], EtherAddr([2, 0, 0, 0, 0, 5]));
        bench.write("nd.insert", &format!("{HOST} {PEER}"));
        assert_eq!(state(bench), "permanent");
        tell(bench, SOLICITED | OVERRIDE, OTHER);
        send(bench, HOST, b"y");
        expect(bench, &["y"], PEER);
        bench.write("nd.delete", HOST);
        assert_eq!(state(bench), "none");
        assert!(bench.try_write("nd.delete", HOST).is_err());
        assert!(bench.try_write("nd.insert", "fe80::7").is_err());
        bench.write("nd.clear", "");
        assert_eq!(bench.read("nd.count"), "1");
        bench.write("nd.clear", "all");
        assert_eq!(bench.read("nd.count"), "0");
    });
}

#[test]
fn neighbours_and_waiting_packets_survive_a_reload() {
    let mut bench = Bench::new(crate::CLASSES, TEXT);
    send(&mut bench, HOST, b"one");
    send(&mut bench, "fe80::7", b"two");
    tell(&mut bench, SOLICITED, PEER);
    left(&mut bench);
    bench
        .reload(&TEXT.replace("WAITING 16", "WAITING 32"))
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(bench.read("nd.length"), "1");
    send(&mut bench, HOST, b"three");
    let out = left(&mut bench);
    assert!(out.contains(&("three".to_owned(), PEER)), "{out:?}");
}
