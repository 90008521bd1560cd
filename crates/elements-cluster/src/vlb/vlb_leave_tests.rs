//! Frames that a server's own port sends directly (LEAVE), without another worker.

use super::*;

const OWN: &str = "02:00:00:00:00:01";

/// Configuration after a node's output: two ports, the first with gateways and both families.
fn leaving(leave: &str) -> String {
    format!(
        "{NODE} t :: VLBTransit(vlb{leave}); Idle -> [1]t; Idle -> [2]t;
         t[0] -> Discard; t[1] -> Discard; t[2] -> Discard; t[4] -> Discard;
         t[3] -> long :: Counter -> family :: Classifier(12/0800, 12/86dd);
         family[0] -> leave4 :: VLBOutput(vlb, 0 10.0.0.254 10.0.0.253);
         family[1] -> leave6 :: VLBOutput6(vlb, 0 :: :: fd00::9);
         leave4[0] -> arp0 :: ARPQuerier(10.0.0.1/24, {OWN}) -> out0 :: Collect; Idle -> [1]arp0;
         leave4[1] -> arp1 :: ARPQuerier(10.0.1.1/24, {OWN}) -> out1 :: Collect; Idle -> [1]arp1;
         arp0[1] -> asks :: Collect; arp1[1] -> asks; arp0[2] -> Discard; arp1[2] -> Discard;
         leave4[2] -> Discard; leave6[2] -> Discard; leave6[1] -> Discard;
         leave6[0] -> nd0 :: IP6NDSolicitor(fe80::1, {OWN}) -> out0; Idle -> [1]nd0; nd0[1] -> Discard;"
    )
}

const LEAVE: &str = ", LEAVE leave4 arp0 arp1, LEAVE6 leave6 nd0 -";

/// A node from which frames leave directly.
fn at_once() -> Bench {
    let text = leaving(LEAVE) + "t[5] -> out0; t[6] -> out1;";
    Bench::new(crate::with_basics(), &text)
}

/// A packet on its path out of the cluster.
fn out(port: u8, gateway: u16, packet: &[u8]) -> Vec<u8> {
    let address = Address {
        node: 1,
        via: NO_NODE,
        port,
        gateway,
        ..address()
    };
    let ethertype: [u8; 2] = if packet[0] >> 4 == 4 {
        [8, 0]
    } else {
        [0x86, 0xdd]
    };
    [&address.bytes()[..], &ethertype, packet].concat()
}

/// The frame that brings a packet to the station with this last byte.
fn to(station: u8, packet: &[u8]) -> Vec<u8> {
    let mut frame = out(0, 0, packet);
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, station, 2, 0, 0, 0, 0, 1]);
    frame
}

fn long(bench: &mut Bench) -> u64 {
    bench.read("long.count").trim().parse().expect("a number")
}

#[test]
fn frames_to_known_neighbours_leave_at_once_as_they_would_by_the_long_way() {
    let mut bench = at_once();
    bench.write("arp0.insert", "10.0.0.254 2:0:0:0:0:9");
    bench.write("arp1.insert", "10.0.1.7 2:0:0:0:0:7");
    bench.write("nd0.insert", "fd00::9 2:0:0:0:0:a");
    bench.write("nd0.insert", "fd00::5 2:0:0:0:0:5");
    let (far, near) = (
        ip4().udp(1, 2).bytes(),
        ip4().dst("10.0.1.7").udp(1, 2).bytes(),
    );
    let (far6, near6) = (
        ip6().udp(1, 2).bytes(),
        ip6().dst("fd00::5").udp(1, 2).bytes(),
    );
    let frames = [
        out(0, 1, &far),
        out(1, 0, &near),
        out(0, 3, &far6),
        out(0, 0, &near6),
    ];
    for way in [4, 0, 0] {
        let before = long(&mut bench);
        bench.push("t", &frames);
        let mut first = bench.take("out0");
        first.sort_unstable();
        assert_eq!(first, [to(5, &near6), to(9, &far), to(10, &far6)]);
        assert_eq!(bench.take("out1"), [to(7, &near)]);
        assert_eq!(
            long(&mut bench) - before,
            way,
            "who is new takes the long way"
        );
    }
    let mut padded = out(0, 1, &far);
    padded.resize(60, 0);
    bench.push("t", &[&padded]);
    assert_eq!(
        bench.take("out0")[0][12..],
        padded[12..],
        "padding is no harm"
    );
    assert!(bench.take("asks").is_empty());
}

#[test]
fn neighbours_are_followed_and_asked_for_as_ever() {
    let mut bench = at_once();
    let packet = ip4().dst("10.0.0.7").udp(1, 2).bytes();
    let frame = out(0, 0, &packet);
    let reply = |station: u8| {
        let mac = format!("02:00:00:00:00:{station:02x}");
        arp_reply(mac, "10.0.0.7", OWN, "10.0.0.1")
    };
    bench.push("t", &[&frame, &frame]);
    assert!(bench.take("out0").is_empty(), "it waits");
    assert_eq!(bench.take("asks").len(), 1);
    bench.push_at("arp0", 1, &[reply(7)]);
    assert_eq!(bench.take("out0"), [to(7, &packet), to(7, &packet)]);
    for _ in 0..3 {
        bench.push("t", &[&frame]);
    }
    assert_eq!(bench.take("out0"), vec![to(7, &packet); 3]);
    assert_eq!(long(&mut bench), 3, "the rest left at once");
    // A new address applies from the next frame on.
    bench.push_at("arp0", 1, &[reply(8)]);
    bench.push("t", &[&frame]);
    assert_eq!(bench.take("out0"), [to(8, &packet)]);
    // An old address in use is queried again, and used meanwhile.
    bench.advance(Duration::from_secs(62));
    assert!(bench.take("asks").is_empty());
    bench.push("t", &[&frame]);
    bench.push("t", &[&frame]);
    assert_eq!(bench.take("asks").len(), 1);
    assert_eq!(bench.take("out0"), vec![to(8, &packet); 2]);
    bench.push_at("arp0", 1, &[reply(8)]);
    let before = long(&mut bench);
    bench.push("t", &[&frame]);
    bench.push("t", &[&frame]);
    assert_eq!(long(&mut bench) - before, 1);
    bench.write("arp0.delete", "10.0.0.7");
    bench.take("out0");
    bench.push("t", &[&frame]);
    assert!(bench.take("out0").is_empty(), "it is forgotten");
}

#[test]
fn frames_that_leave_at_once_do_not_overtake_those_that_waited() {
    let mut bench = at_once();
    let packet = |n: u16| ip4().dst("10.0.0.7").udp(n, 2).bytes();
    let frames =
        |range: std::ops::Range<u16>| -> Vec<_> { range.map(|n| out(0, 0, &packet(n))).collect() };
    bench.push("t", &frames(0..3));
    // Set by hand: waiting packets stay until the next packet, or the time of the next check.
    bench.write("arp0.insert", "10.0.0.7 2:0:0:0:0:7");
    for n in 1..4 {
        bench.push("t", &frames(3 * n..3 * n + 3));
    }
    let all: Vec<_> = (0..12).map(|n| to(7, &packet(n))).collect();
    assert_eq!(bench.take("out0"), all);
    assert_eq!(long(&mut bench), 6);
}

#[test]
fn direct_path_agrees_with_the_long_path_while_neighbours_change() {
    /// Frames by port and flow: recipient, and gateway (the UDP port). The order of requests is arbitrary.
    fn sent(bench: &mut Bench) -> BTreeMap<(usize, Vec<u8>), Vec<Vec<u8>>> {
        let mut sent: BTreeMap<_, Vec<Vec<u8>>> = BTreeMap::new();
        for (port, name) in ["out0", "out1", "asks"].into_iter().enumerate() {
            for frame in bench.take(name) {
                let end = match frame[12..14] {
                    [0x08, 0x00] => 34,
                    [0x86, 0xdd] => 54,
                    _ => frame.len(),
                };
                let gateway = frame.get(end + 2..end + 4).unwrap_or_default();
                let key = (port, [&frame[12..end], gateway].concat());
                sent.entry(key).or_default().push(frame);
            }
        }
        sent
    }
    for seed in 0..3 {
        let mut rng = Rng::seed(seed);
        let mut benches = [at_once(), Bench::new(crate::with_basics(), &leaving(""))];
        for step in 0..300 {
            let host = rng.range(1..6);
            let port = rng.below(2);
            let ip = match rng.below(3) {
                0 => format!("10.0.0.25{}", rng.range(3..5)),
                _ => format!("10.0.{port}.{host}"),
            };
            let mac = format!("02:00:00:00:00:{:02x}", rng.range(16..18));
            match rng.below(24) {
                0 => {
                    // So that no timeout is near an event: when it is detected depends on timers.
                    let by = Duration::from_secs(26);
                    benches.iter_mut().for_each(|bench| bench.advance(by));
                }
                1 | 2 => {
                    let reply = arp_reply(mac, ip, OWN, format!("10.0.{port}.1"));
                    let arp = format!("arp{port}");
                    benches
                        .iter_mut()
                        .for_each(|bench| bench.push_at(&arp, 1, &[&reply]));
                }
                3 => {
                    let (arp, entry) = (format!("arp{port}"), format!("{ip} {mac}"));
                    let [insert, delete] = ["insert", "delete"].map(|what| format!("{arp}.{what}"));
                    for bench in &mut benches {
                        bench.write(&insert, &entry);
                        if step % 2 == 0 {
                            bench.write(&delete, &ip);
                        }
                    }
                }
                4 => {
                    let entry = format!("fd00::{} {mac}", rng.range(8..11));
                    benches
                        .iter_mut()
                        .for_each(|bench| bench.write("nd0.insert", &entry));
                }
                _ => {
                    let frames = (0..rng.range(1..20)).map(|n| {
                        let port = *rng.pick(&[0u8, 0, 0, 1, 1, 2]);
                        let gateway = *rng.pick(&[0u16, 0, 0, 1, 1, 2, 3, 4]);
                        let id = 20 * step + n as u16;
                        let packet = match rng.below(4) {
                            0 => ip6()
                                .dst(format!("fd00::{}", rng.range(8..11)))
                                .udp(id, gateway),
                            _ => ip4()
                                .dst(format!("10.0.{port}.{}", rng.range(1..6)))
                                .udp(id, gateway),
                        };
                        out(port, gateway, &packet.bytes())
                    });
                    let frames: Vec<_> = frames.collect();
                    benches
                        .iter_mut()
                        .for_each(|bench| bench.push("t", &frames));
                }
            }
            // Waiting packets leave with the next packet for that neighbour, or at the next check.
            benches
                .iter_mut()
                .for_each(|bench| bench.advance(Duration::from_millis(3)));
            let [at_once, long] = benches.each_mut().map(sent);
            for key in at_once.keys().chain(long.keys()) {
                let [at_once, long] = [&at_once, &long].map(|sent| sent.get(key));
                assert_eq!(at_once, long, "seed {seed}, step {step}");
            }
        }
        let [at_once, by_long] = &mut benches;
        assert_eq!(at_once.all_drops(), by_long.all_drops());
        assert!(
            long(at_once) < long(by_long) * 9 / 10,
            "seed {seed}: some left at once"
        );
    }
}

#[test]
fn wrong_classes_in_leave_are_reported() {
    for (wrong, told) in [
        (", LEAVE leave6 arp0 arp1", "`leave6` is no VLBOutput"),
        (", LEAVE leave4 arp0 nd0", "`nd0` is no ARPQuerier"),
        (", LEAVE6 leave6 none", "`none` is no IP6NDSolicitor"),
    ] {
        let text = leaving(wrong) + "t[5] -> out0; t[6] -> out1;";
        let all = errors(crate::with_basics(), &text);
        assert!(all.contains(told), "{all}");
    }
}
