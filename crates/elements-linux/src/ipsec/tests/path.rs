//! Path MTU of a tunnel.

use super::*;

/// Both ends of an association, and an element that learns the MTU of its path.
fn with_path(suite: &str, words: &str, link: &str) -> Bench {
    let sa = format!(
        "sa out spi 0x1001 reqid 1 suite {suite} {words}{}",
        keys(suite)
    );
    let text = format!(
        "t :: IPsecTable({sa}, {POLICIES});
        in4 :: CheckIPHeader -> e :: IPsecEncap(TABLE t) -> sealed4 :: Collect;
        in6 :: CheckIP6Header -> [1] e; e[1] -> sealed6 :: Collect; e[2], e[3] -> Discard;
        e[4] -> cut :: IPFragmenter(65535, ANNO true) -> e;
        cut[1] -> ICMPError(10.1.0.254, unreachable, needfrag, ANNO true) -> told4 :: Collect;
        e[5] -> ICMP6Error(fd01::ff, packettoobig, ANNO true) -> told6 :: Collect;
        long4 :: CheckIPHeader -> m :: IPsecMTU(TABLE t{link}) -> other :: Collect;
        long6 :: CheckIP6Header -> m"
    );
    Bench::new(crate::with_basics(), &text)
}

fn df(len: usize) -> Vec<u8> {
    ip4()
        .src("10.1.0.1")
        .dst("10.2.0.2")
        .df()
        .udp(5, 6)
        .payload_len(len - 28)
        .bytes()
}

/// The MTU of a needfrag or a packettoobig.
fn mtu_of(message: &[u8]) -> usize {
    let at = if message[0] >> 4 == 4 { 20 } else { 40 };
    let mtu: [u8; 4] = message[at + 4..at + 8].try_into().expect("four bytes");
    u32::from_be_bytes(mtu) as usize
}

#[test]
fn senders_learn_the_path_mtu_of_a_tunnel() {
    for suite in esp::Suite::names() {
        for (tunnel, outer) in [(TUNNEL4, "sealed4"), (TUNNEL6, "sealed6")] {
            for words in ["", "udp 4500 4500", "pad 1390"] {
                let mut bench = with_path(suite, &format!("{tunnel} {words}"), ", LINK 1400");
                let long = if outer == "sealed4" { "long4" } else { "long6" };
                bench.push("in4", &[df(1400)]);
                let sealed = bench.take(outer);
                assert!(sealed[0].len() > 1400, "{suite} {tunnel} {words}");
                // The packet does not fit the link: no message is sent, and the next one is refused.
                bench.push(long, &sealed);
                assert!(bench.take("other").is_empty());
                assert_eq!(
                    (bench.drops("m", "too_long"), bench.read("m.count")),
                    (1, "1".to_owned())
                );
                if words.starts_with("pad") {
                    continue; // no packet is short enough
                }
                bench.push("in4", &[df(1400)]);
                let most = mtu_of(&bench.take("told4")[0]);
                assert!(
                    (1250..1400).contains(&most),
                    "{suite} {tunnel} {words}: {most}"
                );
                // A packet of that length fits; one byte more does not.
                bench.push("in4", &[df(most), df(most + 1)]);
                let sealed = bench.take(outer);
                assert_eq!((sealed.len(), bench.take("told4").len()), (1, 1));
                assert!(sealed[0].len() <= 1400 && sealed[0].len() + 16 > 1400);
                // Without DF it is fragmented first, if no router can fragment it later.
                bench.push("in4", &[four(1372)]);
                let sealed = bench.take(outer);
                let (pieces, fit) = if outer == "sealed6" {
                    (2, true)
                } else {
                    (1, false)
                };
                assert_eq!(sealed.len(), pieces, "{suite} {tunnel} {words}");
                assert_eq!(sealed.iter().all(|packet| packet.len() <= 1400), fit);
                bench.push("in6", &[six(1352)]);
                assert!(bench.take(outer).is_empty());
                assert_eq!(mtu_of(&bench.take("told6")[0]), most.max(1280));
            }
        }
    }
}

#[test]
fn icmp_errors_about_sealed_packets_tell_the_mtu_of_their_path() {
    let about = |kind, code, mtu, quoted: &[u8]| {
        let error = ip4()
            .src("198.51.100.9")
            .dst("192.0.2.1")
            .icmp(kind, code, mtu);
        error.payload(quoted).bytes()
    };
    let mut bench = with_path("aes128gcm16", TUNNEL4, "");
    bench.push("in4", &[df(1400)]);
    let sealed = bench.take("sealed4").remove(0);
    let mut forged = sealed.clone();
    forged[23] ^= 1; // another SPI
    let other_end = [&sealed[..19], &[7], &sealed[20..]].concat();
    // Messages that must not be trusted; all pass on to other elements.
    let wrong = [
        about(3, 4, 1300, &forged[..28]),
        about(3, 4, 1300, &other_end[..28]),
        about(3, 1, 1300, &sealed[..28]),
        about(11, 0, 1300, &sealed[..28]),
        about(3, 4, 0, &sealed[..28]),
        about(3, 4, 1300, &sealed[..19]),
    ];
    bench.push("long4", &wrong);
    assert_eq!(bench.take("other"), wrong);
    bench.push("in4", &[df(1400)]);
    assert_eq!(
        (bench.take("sealed4").len(), bench.take("told4").len()),
        (1, 0)
    );
    // RFC 792: the header and 8 bytes, in which the SPI is.
    bench.push("long4", &[about(3, 4, 1300, &sealed[..28])]);
    bench.push("in4", &[df(1400)]);
    assert_eq!(bench.take("sealed4").len(), 0);
    let most = mtu_of(&bench.take("told4")[0]);
    bench.push("in4", &[df(most)]);
    assert!(bench.take("sealed4")[0].len() <= 1300);
    // An MTU below the minimum of any path is ignored.
    bench.push("long4", &[about(3, 4, 68, &sealed[..28])]);
    bench.push("in4", &[df(1400)]);
    let least = mtu_of(&bench.take("told4")[0]);
    assert!((450..552).contains(&least), "{least}");
    // Ten minutes later the path may have a larger MTU.
    bench.advance(std::time::Duration::from_secs(601));
    bench.push("in4", &[df(1400)]);
    assert_eq!(
        (bench.take("sealed4").len(), bench.take("told4").len()),
        (1, 0)
    );
}
