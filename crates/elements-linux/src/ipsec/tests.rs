//! Both elements together, and properties that only both can show.

mod changes;
mod path;

use super::syntax::Line;
use testkit::{Bench, Rng, errors, ip4, ip6};
use wire::{Ipv4, Ipv6, Udp};

fn words_of(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Keys of a suite, in the table's notation.
fn keys(suite: &str) -> String {
    let parsed: esp::Suite = suite.parse().expect("a suite");
    let key = |name: &str, len: usize| match len {
        0 => String::new(),
        _ => format!(" {name} {}", "5a".repeat(len)),
    };
    key("ENC_KEY", parsed.enc_key_len()) + &key("AUTH_KEY", parsed.auth_key_len())
}

const TUNNEL4: &str = "tunnel 192.0.2.1 192.0.2.2";
const TUNNEL6: &str = "tunnel 2001:db8::1 2001:db8::2";

const POLICIES: &str = "policy out src 10.1.0.0/16 dst 10.2.0.0/16 protect 1,
    policy in src 10.1.0.0/16 dst 10.2.0.0/16 protect 1,
    policy out src fd01::/16 dst fd02::/16 protect 1,
    policy in src fd01::/16 dst fd02::/16 protect 1,
    policy out src 10.3.0.0/16 dst 0.0.0.0/0 bypass, policy out src fd03::/16 dst ::/0 bypass,
    policy out src 10.4.0.0/16 dst 0.0.0.0/0 discard";

const GRAPH: &str = "
    in4 :: CheckIPHeader -> e :: IPsecEncap(TABLE t) -> sealed4 :: Collect;
    in6 :: CheckIP6Header -> [1] e; e[1] -> sealed6 :: Collect;
    e[2] -> by4 :: Collect; e[3] -> by6 :: Collect;
    got4 :: CheckIPHeader -> d :: IPsecDecap(TABLE t) -> CheckIPHeader -> out4 :: Collect;
    got6 :: CheckIP6Header -> [1] d; d[1] -> CheckIP6Header -> out6 :: Collect;
    d[2] -> other4 :: Collect; d[3] -> other6 :: Collect;
    clear :: CheckIPHeader -> check :: IPsecCheck(TABLE t) -> checked :: Collect;";

/// A router that is both ends of an association.
fn text(suite: &str, words: &str) -> String {
    let sa = |way| {
        format!(
            "sa {way} spi 0x1001 reqid 1 suite {suite} {words}{}",
            keys(suite)
        )
    };
    format!(
        "t :: IPsecTable({}, {}, {POLICIES}); {GRAPH}",
        sa("out"),
        sa("in")
    )
}

fn router(suite: &str, words: &str) -> Bench {
    Bench::new(crate::with_basics(), &text(suite, words))
}

fn four(len: usize) -> Vec<u8> {
    ip4()
        .src("10.1.0.1")
        .dst("10.2.0.2")
        .tos(0xb8)
        .udp(5, 6)
        .payload_len(len)
        .bytes()
}

fn six(len: usize) -> Vec<u8> {
    ip6()
        .src("fd01::1")
        .dst("fd02::2")
        .udp(5, 6)
        .payload_len(len)
        .bytes()
}

/// Encrypts packets. Returns the packets that leave.
fn sealed(bench: &mut Bench, fours: &[Vec<u8>], sixes: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    bench.push("in4", fours);
    bench.push("in6", sixes);
    (bench.take("sealed4"), bench.take("sealed6"))
}

#[test]
fn all_suites_carry_both_families_in_both_modes_over_both() {
    let lens: Vec<usize> = (0..40).chain([500, 1300]).collect();
    let (fours, sixes): (Vec<_>, Vec<_>) = lens.iter().map(|&len| (four(len), six(len))).unzip();
    for suite in esp::Suite::names() {
        for mode in [TUNNEL4, TUNNEL6, ""] {
            for manner in [
                "",
                "esn",
                "udp 4500 4501",
                "esn udp 1 2 pad 100 window 1024",
            ] {
                if mode.is_empty() && manner.contains("pad") {
                    continue;
                }
                let mut bench = router(suite, &format!("{mode} {manner}"));
                let (on4, on6) = sealed(&mut bench, &fours, &sixes);
                let mixed = [on4.len(), on6.len()];
                let all = 2 * lens.len();
                let expected = match mode {
                    TUNNEL4 => [all, 0],
                    TUNNEL6 => [0, all],
                    _ => [lens.len(); 2],
                };
                assert_eq!(
                    mixed,
                    expected,
                    "{suite} {mode} {manner} {:?}",
                    bench.all_drops()
                );
                assert!(
                    on4.iter()
                        .all(|p| Ipv4::new_checked(&p[..]).unwrap().verify_checksum())
                );
                bench.push("got4", &on4);
                bench.push("got6", &on6);
                let context = format!("{suite} {mode} {manner} {:?}", bench.all_drops());
                assert_eq!(bench.take("out4"), fours, "{context}");
                assert_eq!(bench.take("out6"), sixes, "{context}");
                // Each packet is accepted once; a copy is refused.
                bench.push("got4", &on4);
                bench.push("got6", &on6);
                // With 64-bit numbers, those before the window look like future ones.
                let refused = bench.drops("d", "replayed") + bench.drops("d", "forged");
                assert_eq!(refused, all as u64);
            }
        }
    }
}

#[test]
fn udp_over_ipv6_has_a_checksum() {
    for words in [TUNNEL6, ""] {
        let mut bench = router("aes128gcm16", &format!("{words} udp 4500 4501"));
        let packets: Vec<_> = (0..50).map(six).collect();
        let (_, on6) = sealed(&mut bench, &[], &packets);
        assert_eq!(on6.len(), packets.len());
        for packet in &on6 {
            let ip = Ipv6::new_checked(&packet[..]).unwrap();
            let udp = Udp::new_checked(ip.payload()).unwrap();
            assert_ne!(udp.checksum(), 0);
            assert!(udp.verify_checksum(ip.pseudo(17, ip.payload().len())));
        }
    }
}

#[test]
fn a_nat_in_between_spoils_no_checksum_in_transport_mode() {
    for made in [
        ip4().udp(5, 6),
        ip4().tcp(5, 6),
        ip4().udp(5, 6).no_udp_checksum(),
    ] {
        let made = made.dst("10.2.0.2").payload_len(33);
        let [inner, changed] = ["10.1.0.1", "10.1.0.9"].map(|src| made.clone().src(src).bytes());
        let mut bench = router("aes128gcm16", "udp 4500 4501");
        let (mut on, _) = sealed(&mut bench, &[inner], &[]);
        let mut ip = Ipv4::new_unchecked(&mut on[0][..]);
        ip.set_src([10, 1, 0, 9].into());
        ip.fill_checksum();
        bench.push("got4", &on);
        assert_eq!(bench.take("out4"), [changed]);
    }
}

#[test]
fn the_kernel_is_shown_who_comes_from_elsewhere() {
    let packets: Vec<_> = (0..4).map(|n| four(100 * n)).collect();
    for words in [TUNNEL4, ""] {
        let words = format!("{words} udp 4500 4501");
        let (mut on, _) = sealed(&mut router("aes128gcm16", &words), &packets, &[]);
        // The packets arrive from another port.
        on.iter_mut()
            .for_each(|packet| packet[20..22].copy_from_slice(&[1, 2]));
        let mut bench = Bench::new(
            crate::with_basics(),
            &format!("t :: IPsecTable(KERNEL true); {GRAPH}"),
        );
        let line = format!(
            "sa in spi 0x1001 reqid 1 suite aes128gcm16 {words}{}",
            keys("aes128gcm16")
        );
        let Ok(Line::Sa(spec, keys)) = super::syntax::parse(&words_of(&line)) else {
            panic!("it is an association");
        };
        let table = bench.router_wide::<super::KernelTable>();
        let sa = esp::Sa::new(spec, &keys, 0).expect("it is right");
        table.database().add([&std::sync::Arc::new(sa)]);
        let policies =
            POLICIES
                .split(',')
                .map(|line| match super::syntax::parse(&words_of(line)) {
                    Ok(Line::Policy(policy)) => policy,
                    _ => panic!("it is a policy"),
                });
        table.database().set_policies(policies.collect());

        // A forged packet changes nothing.
        let mut forged = on[0].clone();
        *forged.last_mut().unwrap() ^= 1;
        bench.push("got4", &[forged]);
        bench.push("got4", &on[..2]);
        assert_eq!(bench.take("other4"), on[..1], "{:?}", bench.all_drops());
        assert_eq!(bench.take("out4"), packets[1..2]);
        bench.advance(std::time::Duration::from_secs(1));
        bench.push("got4", &on[2..]);
        assert_eq!(bench.take("other4"), on[2..3]);
        assert_eq!(bench.take("out4"), packets[3..]);
        assert_eq!(bench.drops("d", "forged"), 1);
    }
}

#[test]
fn packets_of_many_associations_keep_their_order() {
    let suites = [
        "aes128-sha1",
        "aes128gcm16",
        "aes256-sha512",
        "aes128-sha1",
        "null-sha256",
    ];
    let mut lines = Vec::new();
    for (n, suite) in suites.iter().enumerate() {
        let net = format!("src 10.1.0.0/16 dst 10.2.{n}.0/24 protect {}", n + 1);
        for way in ["out", "in"] {
            let (spi, reqid) = (0x1001 + n, n + 1);
            let keys = keys(suite).replace("5a", &format!("{:02x}", 0x50 + n));
            lines.push(format!(
                "sa {way} spi {spi:#x} reqid {reqid} suite {suite} {TUNNEL4} window 1024{keys}"
            ));
            lines.push(format!("policy {way} {net}"));
        }
    }
    let table = lines.join(",\n");
    let mut bench = Bench::new(
        crate::with_basics(),
        &format!("t :: IPsecTable({table}); {GRAPH}"),
    );
    let mut rng = Rng::seed(5);
    for _ in 0..20 {
        let packets: Vec<_> = (0..1 + rng.below(200))
            .map(|n| {
                let dst = format!("10.2.{}.{}", rng.below(suites.len()), n % 256);
                let len = rng.below(600);
                ip4()
                    .src("10.1.0.1")
                    .dst(&dst)
                    .udp(5, 6)
                    .payload_len(len)
                    .bytes()
            })
            .collect();
        let (on, _) = sealed(&mut bench, &packets, &[]);
        bench.push("got4", &on);
        assert_eq!(bench.take("out4"), packets, "{:?}", bench.all_drops());
        // The same packets in any order: each is accepted once.
        bench.push("got4", &on);
        assert!(bench.take("out4").is_empty());
    }
    assert_eq!(bench.drops("d", "forged"), 0);
}

#[test]
fn traffic_flow_padding_hides_lengths_and_is_taken_off() {
    let mut bench = router("aes256gcm16", &format!("{TUNNEL4} pad 600"));
    let packets: Vec<_> = (0..500).step_by(37).map(four).collect();
    let (on, _) = sealed(&mut bench, &packets, &[]);
    assert!(on.iter().all(|p| p.len() == on[0].len()));
    bench.push("got4", &on);
    assert_eq!(bench.take("out4"), packets);
}

#[test]
fn outer_headers_are_as_the_association_says() {
    let see = |words: &str, inner: Vec<u8>| {
        let mut bench = router("aes128gcm16", words);
        let (mut on4, mut on6) = sealed(&mut bench, &[inner], &[]);
        on4.pop().or(on6.pop()).expect("it is sealed")
    };
    let ip = |bytes: &[u8]| {
        let ip = Ipv4::new_checked(bytes).unwrap();
        (ip.tos(), ip.ttl(), ip.dont_fragment(), ip.protocol())
    };
    let with = |tos, df: bool| {
        let made = ip4().src("10.1.0.1").dst("10.2.0.2").tos(tos).udp(5, 6);
        if df { made.df().bytes() } else { made.bytes() }
    };
    assert_eq!(ip(&see(TUNNEL4, with(0xb9, true))), (0xb9, 64, true, 50));
    assert_eq!(ip(&see(TUNNEL4, with(0x02, false))), (0x02, 64, false, 50));
    let words = format!("{TUNNEL4} df set dscp 10 ecn no ttl 9 udp 4500 4501");
    let outer = see(&words, with(0xb9, false));
    assert_eq!(ip(&outer), (40, 9, true, 17));
    let udp = Udp::new_checked(&outer[20..]).unwrap();
    assert_eq!(
        (udp.src_port(), udp.dst_port(), udp.checksum()),
        (4500, 4501, 0)
    );
    assert_eq!(udp.payload()[..8], [0, 0, 0x10, 1, 0, 0, 0, 1]);
    assert!(!ip(&see(&format!("{TUNNEL4} df clear"), with(0, true))).2);
    let six = see(TUNNEL6, with(0xb9, false));
    let six = Ipv6::new_checked(&six[..]).unwrap();
    assert_eq!(
        (six.traffic_class(), six.next_header(), six.hop_limit()),
        (0xb9, 50, 64)
    );
}

#[test]
fn congestion_in_the_tunnel_is_told_or_the_packet_is_dropped() {
    for (inner, told) in [(2, true), (1, true), (0, false)] {
        let mut bench = router("aes128gcm16", TUNNEL4);
        let packet = ip4()
            .src("10.1.0.1")
            .dst("10.2.0.2")
            .tos(0xb8 | inner)
            .udp(5, 6)
            .bytes();
        let (mut on, _) = sealed(&mut bench, &[packet], &[]);
        Ipv4::new_unchecked(&mut on[0][..]).patch_tos(0xbb);
        bench.push("got4", &on);
        let out = bench.take("out4");
        if told {
            assert_eq!(out[0][1], 0xbb);
        } else {
            assert_eq!((out.len(), bench.drops("d", "congested")), (0, 1));
        }
    }
}

#[test]
fn policies_decide_on_the_way_out_and_in() {
    let mut bench = router("aes128gcm16", TUNNEL4);
    let from = |src: &str| ip4().src(src).dst("10.2.0.2").udp(5, 6).bytes();
    bench.push(
        "in4",
        &[
            from("10.3.0.1"),
            from("10.4.0.1"),
            from("10.5.0.1"),
            from("10.1.0.1"),
        ],
    );
    bench.push(
        "in6",
        &[ip6().src("fd03::1").dst("fd02::2").udp(1, 2).bytes()],
    );
    assert_eq!(
        (bench.take("by4"), bench.take("by6").len()),
        (vec![from("10.3.0.1")], 1)
    );
    assert_eq!(bench.drops("e", "policy"), 2);
    let on = bench.take("sealed4");
    // Packets that a policy protects must arrive encrypted.
    bench.push("clear", &[from("10.1.0.1"), from("10.9.0.1")]);
    assert_eq!(
        (bench.take("checked").len(), bench.drops("check", "policy")),
        (1, 1)
    );
    // The tunnel's other end may send only packets for which the policy is.
    bench.write(
        "t.policies",
        "policy in src 10.8.0.0/16 dst 0.0.0.0/0 protect 1",
    );
    bench.push("got4", &on);
    assert_eq!(
        (bench.take("out4").len(), bench.drops("d", "policy")),
        (0, 1)
    );
    bench.write("t.policies", "");
    bench.push("in4", &[from("10.1.0.1")]);
    assert_eq!(bench.drops("e", "policy"), 3);
}

#[test]
fn policies_by_ports_leave_later_fragments_out() {
    let mut bench = router("aes128gcm16", TUNNEL4);
    bench.write(
        "t.policies",
        "policy out src 10.1.0.0/16 dst 0.0.0.0/0 proto udp dport 50-60 sport 5 protect 1
        policy out src 10.1.0.0/16 dst 0.0.0.0/0 proto 6 bypass",
    );
    let udp = |port| {
        ip4()
            .src("10.1.0.1")
            .dst("10.2.0.2")
            .udp(5, port)
            .payload_len(100)
    };
    let mut packets: Vec<_> = [49, 50, 60, 61].map(|port| udp(port).bytes()).into();
    packets.extend(udp(50).fragments(60));
    packets.push(ip4().src("10.1.0.1").dst("10.2.0.2").tcp(5, 50).bytes());
    let all = packets.len();
    bench.push("in4", &packets);
    assert_eq!(
        (bench.take("sealed4").len(), bench.take("by4").len()),
        (3, 1)
    );
    assert_eq!(bench.drops("e", "policy"), all as u64 - 4);
    assert_eq!(
        bench.read("t.policies"),
        "policy out src 10.1.0.0/16 dst 0.0.0.0/0 proto 17 sport 5 dport 50-60 protect 1
policy out src 10.1.0.0/16 dst 0.0.0.0/0 proto 6 bypass\n"
    );
}

#[test]
fn packets_that_are_not_from_the_peer_are_dropped_by_name() {
    let mut bench = router("aes128-sha256", TUNNEL4);
    let (on, _) = sealed(&mut bench, &[four(60)], &[]);
    let whole = &on[0];
    let claim = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let len = bytes.len() as u16;
        let mut ip = Ipv4::new_unchecked(&mut bytes[..]);
        ip.set_total_len(len);
        ip.fill_checksum();
        bytes
    };
    // Truncated to every length, with a header of this length.
    let short: Vec<_> = (20..whole.len()).map(|len| claim(&whole[..len])).collect();
    bench.push("got4", &short);
    let lost = bench.drops("d", "malformed") + bench.drops("d", "forged");
    assert_eq!(lost, short.len() as u64);
    // Every bit after the SPI.
    let flipped: Vec<_> = (24 * 8..whole.len() * 8)
        .map(|bit| {
            let mut wrong = whole.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            wrong
        })
        .collect();
    let before = bench.drops("d", "forged");
    bench.push("got4", &flipped);
    let refused = bench.drops("d", "forged") - before + bench.drops("d", "replayed");
    assert_eq!(refused, flipped.len() as u64);
    // SPIs without an association, and reserved ones.
    let spi = |spi: u32| {
        let mut wrong = whole.clone();
        wrong[20..24].copy_from_slice(&spi.to_be_bytes());
        wrong
    };
    let malformed = bench.drops("d", "malformed");
    bench.push("got4", &(0..256).map(spi).collect::<Vec<_>>());
    assert_eq!(bench.drops("d", "malformed") - malformed, 256);
    let mut rng = Rng::seed(5);
    let flood: Vec<_> = (0..10_000).map(|_| spi(rng.u32() | 0x1_0000)).collect();
    bench.push("got4", &flood);
    assert_eq!(bench.drops("d", "no_sa"), 10_000);
    // None of this has affected the association.
    bench.push("got4", &on);
    assert_eq!(bench.take("out4"), [four(60)]);
    assert!(
        bench.take("sealed4").is_empty() && bench.take("other4").is_empty(),
        "no answer"
    );
}

#[test]
fn ike_and_keepalives_are_told_from_esp() {
    let mut bench = router("aes128gcm16", &format!("{TUNNEL4} udp 4500 4500"));
    let datagram = |payload: &[u8]| {
        ip4()
            .dst("192.0.2.2")
            .udp(4500, 4500)
            .payload(payload)
            .bytes()
    };
    let ike = datagram(b"\0\0\0\0initiator's cookie");
    let esp = ip4()
        .dst("192.0.2.2")
        .proto(50)
        .payload(b"\0\0\x10\x01number")
        .bytes();
    bench.push(
        "got4",
        &[ike.clone(), datagram(b"\xff"), esp, ip4().proto(89).bytes()],
    );
    assert_eq!(bench.take("other4")[0], ike);
    assert_eq!(
        (bench.drops("d", "keepalive"), bench.drops("d", "no_sa")),
        (1, 1)
    );
}
