//! `conf/ipsec.click`: two sites, a tunnel between them, and all traffic that is not from the other site.

use engine::graph::Walker;
use router_tests::{Whole, conf};
use testkit::{Build, ip4};
use wire::{Icmp, Ipv4, ether};

/// Ethernet address of ports in memory.
const US: &str = "02:00:00:00:00:01";
const HOST: &str = "02:00:00:00:00:09";
const LAN: usize = 0;
const WAN: usize = 1;

/// The two gateways.
fn sites(walker: Walker) -> [Whole; 2] {
    let text = std::fs::read_to_string(conf("ipsec.click")).expect("conf/ is there");
    let key = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.contains(&format!("${name} ")));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.expect("it is defined").trim_end_matches(',')
    };
    let exchanged = [
        ("LAN_IP", "10.2.0.1"),
        ("LAN_NET", "10.2.0.0/16"),
        ("WAN_IP", "192.0.2.2"),
        ("GATEWAY", "192.0.2.1"),
        ("PEER_IP", "192.0.2.1"),
        ("PEER_NET", "10.1.0.0/16"),
        ("SPI_OUT", "0x2001"),
        ("SPI_IN", "0x1001"),
        ("KEY_OUT", key("KEY_IN")),
        ("KEY_IN", key("KEY_OUT")),
    ];
    let ports = [("LAN", "mem:0"), ("WAN", "mem:1")];
    let site = |own: &[(&str, &str)], net: u8, peer: u8| {
        let mut site = Whole::new(&text, &[own, &ports].concat(), walker);
        site.handler("lan_arp.insert", &format!("10.{net}.0.9 {HOST}"));
        site.handler("wan_arp.insert", &format!("192.0.2.{peer} {US}"));
        site
    };
    [site(&[], 1, 2), site(&exchanged, 2, 1)]
}

/// A frame to a gateway.
fn frame(packet: &Build) -> Vec<u8> {
    packet.clone().ether(HOST, US).bytes()
}

fn to_b() -> Build {
    ip4().src("10.1.0.9").dst("10.2.0.9").ttl(64).udp(5, 6)
}

fn receive(site: &mut Whole, port: usize, frames: &[Vec<u8>]) {
    // A port's ring takes this many at once.
    for some in frames.chunks(64) {
        site.receive(port, some.iter().map(Vec::as_slice));
        site.settle();
    }
}

/// The IP packets in frames.
fn packets(frames: &[Vec<u8>]) -> Vec<&[u8]> {
    frames.iter().map(|frame| &frame[ether::LEN..]).collect()
}

fn dropped(site: &mut Whole, name: &str) -> u64 {
    let drops = site.check().drops();
    drops
        .iter()
        .filter(|(other, _)| other == name)
        .map(|(_, n)| n)
        .sum()
}

#[test]
fn two_sites_exchange_packets_through_the_tunnel() {
    for walker in [Walker::Sweep, Walker::Strict] {
        let [mut a, mut b] = sites(walker);
        let sent: Vec<_> = (0..300).map(|n| to_b().payload_len(4 * n)).collect();
        receive(&mut a, LAN, &sent.iter().map(frame).collect::<Vec<_>>());
        let between = a.sent(WAN);
        for packet in packets(&between) {
            let ip = Ipv4::new_checked(packet).expect("it is IPv4");
            assert_eq!(
                (ip.protocol(), ip.src().octets(), ip.dst().octets()),
                (50, [192, 0, 2, 1], [192, 0, 2, 2])
            );
            assert!(
                !packet.windows(4).any(|bytes| bytes == [10, 2, 0, 9]),
                "nobody sees whom it is for"
            );
        }
        receive(&mut b, WAN, &between);
        // Each gateway is a hop.
        let expected: Vec<_> = sent
            .iter()
            .map(|packet| packet.clone().ttl(62).bytes())
            .collect();
        assert_eq!(packets(&b.sent(LAN)), expected);
        // The same packets again, later.
        receive(&mut b, WAN, &between);
        assert_eq!(
            (b.sent(LAN).len(), dropped(&mut b, "open replayed")),
            (0, 300)
        );
        // And in the other direction, to the host and to the gateway, which answers.
        let ping = ip4().src("10.2.0.9").dst("10.1.0.1").icmp_echo(1, 2);
        let back = ip4().src("10.2.0.9").dst("10.1.0.9").udp(6, 5);
        receive(&mut b, LAN, &[frame(&ping), frame(&back)]);
        receive(&mut a, WAN, &b.sent(WAN));
        assert_eq!(a.sent(LAN).len(), 1);
        receive(&mut b, WAN, &a.sent(WAN));
        let answer = b.sent(LAN);
        let ip = Ipv4::new_checked(packets(&answer)[0]).expect("it is IPv4");
        assert_eq!(
            (
                ip.src().octets(),
                Icmp::new_checked(ip.payload()).expect("it is ICMP").kind()
            ),
            ([10, 1, 0, 1], 0)
        );
    }
}

#[test]
fn senders_are_told_what_fits_into_the_tunnel() {
    let [mut a, mut b] = sites(Walker::Sweep);
    let long = to_b().payload_len(1472);
    receive(&mut a, LAN, &[frame(&long.clone().df())]);
    let told = a.sent(LAN);
    let ip = Ipv4::new_checked(packets(&told)[0]).expect("it is IPv4");
    let icmp = Icmp::new_checked(ip.payload()).expect("it is ICMP");
    assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), (3, 4, 1400));
    // Without DF it is fragmented in two.
    receive(&mut a, LAN, &[frame(&long)]);
    let between = a.sent(WAN);
    assert!(between.len() == 2 && between.iter().all(|frame| frame.len() <= 1514));
    receive(&mut b, WAN, &between);
    assert_eq!(b.sent(LAN).len(), 2);
    // The encrypted packets may be fragmented on the path.
    receive(&mut a, LAN, &[frame(&to_b().payload_len(1000))]);
    let whole = &a.sent(WAN)[0];
    let pieces = ip4_fragments(&whole[ether::LEN..], 576);
    let pieces: Vec<_> = pieces
        .iter()
        .map(|piece| [&whole[..ether::LEN], piece].concat())
        .collect();
    receive(&mut b, WAN, &pieces);
    assert_eq!(b.sent(LAN).len(), 1);
}

#[test]
fn a_narrower_path_is_learnt_from_errors_about_sealed_packets() {
    let [mut a, mut b] = sites(Walker::Sweep);
    let long = to_b().payload_len(1300).df();
    receive(&mut a, LAN, &[frame(&long)]);
    let sealed = a.sent(WAN);
    assert_eq!((sealed.len(), a.sent(LAN).len()), (1, 0));
    // A router on the path has an MTU of 1280 bytes.
    let error = ip4().src("198.51.100.9").dst("192.0.2.1").icmp(3, 4, 1280);
    let quoted = &sealed[0][ether::LEN..ether::LEN + 28];
    receive(&mut a, WAN, &[frame(&error.payload(quoted))]);
    receive(&mut a, LAN, &[frame(&long)]);
    let told = a.sent(LAN);
    assert!(a.sent(WAN).is_empty());
    let ip = Ipv4::new_checked(packets(&told)[0]).expect("it is IPv4");
    let icmp = Icmp::new_checked(ip.payload()).expect("it is ICMP");
    assert_eq!((icmp.kind(), icmp.code()), (3, 4));
    let most = icmp.rest() as usize;
    let fits = to_b().payload_len(most - 28).df();
    receive(&mut a, LAN, &[frame(&fits)]);
    let sealed = a.sent(WAN);
    assert!(sealed[0].len() <= ether::LEN + 1280, "{}", sealed[0].len());
    receive(&mut b, WAN, &sealed);
    assert_eq!(packets(&b.sent(LAN)), [fits.ttl(62).bytes()]);
}

/// Fragments a packet as a router on the path would.
fn ip4_fragments(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let payload = &packet[20..];
    let step = (mtu - 20) / 8 * 8;
    let pieces = payload.chunks(step).enumerate();
    let cut = pieces.map(|(n, piece)| {
        let mut cut = [&packet[..20], piece].concat();
        let more = (n + 1) * step < payload.len();
        let len = cut.len() as u16;
        let mut ip = Ipv4::new_unchecked(&mut cut[..]);
        ip.set_total_len(len);
        ip.set_fragment_word((n * step / 8) as u16 | if more { wire::ipv4::MF } else { 0 });
        ip.fill_checksum();
        cut
    });
    cut.collect()
}

#[test]
fn nothing_else_comes_in_or_leaves() {
    let [mut a, mut b] = sites(Walker::Sweep);
    // To destinations outside the other site.
    receive(
        &mut a,
        LAN,
        &[frame(&ip4().src("10.1.0.9").dst("198.51.100.7").udp(1, 2))],
    );
    assert_eq!((a.sent(WAN).len(), dropped(&mut a, "seal policy")), (0, 1));
    // Unencrypted, from outside.
    receive(&mut b, WAN, &[frame(&to_b())]);
    assert_eq!(
        (b.sent(LAN).len(), dropped(&mut b, "wan_us no_match")),
        (0, 1)
    );
    // Unknown SPIs: no answer.
    let flood: Vec<_> = (300..1300u32)
        .map(|spi| {
            let esp = ip4().src("192.0.2.1").dst("192.0.2.2").proto(50);
            frame(&esp.payload([&spi.to_be_bytes()[..], &[7; 60]].concat()))
        })
        .collect();
    receive(&mut b, WAN, &flood);
    assert_eq!(
        (b.sent(WAN).len(), dropped(&mut b, "open no_sa")),
        (0, 1000)
    );
}

#[test]
fn keys_change_under_traffic_without_loss() {
    let [mut a, mut b] = sites(Walker::Sweep);
    let new = |way: &str, from: u8, to: u8| {
        let key = "5e".repeat(36);
        format!(
            "sa {way} spi 0x1002 reqid 1 suite chacha20poly1305 tunnel 192.0.2.{from} 192.0.2.{to} window 1024 \
                ENC_KEY {key}"
        )
    };
    let mut between = Vec::new();
    for n in 0..100 {
        match n {
            30 => drop(b.handler("ipsec.add", &new("in", 1, 2))),
            60 => drop(a.handler("ipsec.add", &new("out", 1, 2))),
            80 => drop(a.handler("ipsec.remove", "out 0x1001")),
            _ => {}
        }
        receive(&mut a, LAN, &[frame(&to_b().payload_len(n))]);
        between.extend(a.sent(WAN));
        // Some packets are delayed for long.
        if n % 10 == 9 {
            receive(&mut b, WAN, &between[between.len() - 10..between.len() - 5]);
        }
    }
    let late: Vec<_> = between
        .chunks(10)
        .flat_map(|ten| ten[5..].to_vec())
        .collect();
    receive(&mut b, WAN, &late);
    assert_eq!(b.sent(LAN).len(), 100);
    let associations = b.handler("ipsec.sas", "");
    assert!(
        associations.contains("packets 60 ") && associations.contains("packets 40 "),
        "{associations}"
    );
}
