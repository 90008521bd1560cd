use cluster::address::{Address, HOPS_MAX, Kind, NO_NODE, PORT_SELF, cookie};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{Bench, Rng, arp_reply, errors, ip4, ip6};

const NODE: &str = "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps c 1Gbps d 1Gbps,
    LINKS a-b a-c a-d b-c b-d c-d);";

fn text() -> String {
    format!(
        "{NODE} t :: VLBTransit(vlb); Idle -> [1]t; Idle -> [2]t;
         t[0] -> a :: Collect; t[1] -> c :: Collect; t[2] -> d :: Collect;
         t[3] -> here :: Collect; t[4] -> beats :: Collect;"
    )
}

fn bench() -> Bench {
    Bench::new(crate::with_basics(), &text())
}

fn address() -> Address {
    Address {
        kind: Kind::Data,
        hops: HOPS_MAX,
        node: 3,
        port: 1,
        gateway: 0,
        input: 0,
        via: 1,
        cookie: cookie("t"),
    }
}

fn frame(address: Address) -> Vec<u8> {
    let mut frame = address.bytes().to_vec();
    frame.extend([8, 0]);
    frame.extend(ip4().udp(1, 2).bytes());
    frame
}

#[test]
fn frames_go_where_their_addresses_say_and_nothing_else_is_changed() {
    for bench in [bench(), Bench::strict(crate::with_basics(), &text())] {
        frames_go_where_they_say(bench);
    }
}

fn frames_go_where_they_say(mut bench: Bench) {
    let to_c = Address {
        node: 2,
        ..address()
    };
    let here = Address {
        node: 1,
        via: NO_NODE,
        ..address()
    };
    let beat = Address {
        kind: Kind::Heartbeat,
        ..address()
    };
    let all = [address(), to_c, here, beat, address()].map(frame);
    bench.push("t", &all);
    let on = |from: Address| {
        frame(Address {
            hops: HOPS_MAX - 1,
            via: NO_NODE,
            ..from
        })
    };
    assert_eq!(bench.take("d"), [on(address()), on(address())]);
    assert_eq!(bench.take("c"), [on(to_c)]);
    assert_eq!(bench.take("here"), [frame(here)]);
    bench.push_at("t", 2, &[frame(beat)]);
    let beats = bench.take_packets("beats");
    let paints: Vec<u8> = beats.iter().map(|beat| beat.anno.paint).collect();
    assert_eq!(paints, [0, 2]);
    let carried: u64 = 2 * all[0].len() as u64;
    assert_eq!(
        bench.read("vlb.carried"),
        format!("0 {} {carried}", carried / 2)
    );
    // All by one output.
    bench.push("t", &[frame(to_c), frame(to_c)]);
    assert_eq!(bench.take("c"), [on(to_c), on(to_c)]);
    assert!(bench.take("a").is_empty());
}

#[test]
fn frames_of_a_batch_go_as_they_would_one_by_one() {
    let outputs = ["a", "c", "d", "here", "beats"];
    for seed in 0..5 {
        let mut rng = Rng::seed(seed);
        let mut benches = [bench(), bench()];
        for _ in 0..30 {
            // Most of a batch has one output, or outputs are arbitrary.
            let usual = rng.below(8);
            let one_way = rng.below(2) == 0;
            let frames = (0..rng.range(1..70)).map(|n| {
                let mut kind = if one_way && rng.below(8) > 0 {
                    usual
                } else {
                    rng.below(8)
                };
                let mut address = address();
                address.gateway = rng.below(3) as u16;
                match kind {
                    0..3 => address.node = [0, 2, 3][kind],
                    3 => (address.node, address.via) = (1, NO_NODE),
                    4 => address.kind = Kind::Heartbeat,
                    5 => address.cookie = 1,
                    _ => kind = 7,
                }
                let mut frame = frame(address);
                frame.extend(vec![n as u8; rng.range(1..9)]);
                frame.truncate(if kind == 7 && rng.below(4) == 0 {
                    12
                } else {
                    frame.len()
                });
                frame
            });
            let frames: Vec<_> = frames.collect();
            let [together, alone] = &mut benches;
            together.push("t", &frames);
            for frame in &frames {
                alone.push("t", &[frame]);
            }
            for output in outputs {
                assert_eq!(
                    together.take(output),
                    alone.take(output),
                    "seed {seed}, {output}"
                );
            }
            assert_eq!(together.read("vlb.carried"), alone.read("vlb.carried"));
        }
        assert_eq!(benches[0].all_drops(), benches[1].all_drops());
    }
}

#[test]
fn a_link_that_goes_down_is_left_at_once() {
    let mut bench = bench();
    bench.push("t", &[frame(address())]);
    assert_eq!(bench.take("d").len(), 1);
    bench.write("vlb.link", "b-d down");
    bench.push("t", &[frame(address())]);
    assert_eq!(bench.take("d").len(), 0);
    assert_eq!(bench.take("a").len() + bench.take("c").len(), 1);
}

#[test]
fn bad_frames_are_dropped_by_name() {
    let mut bench = bench();
    let port = Address {
        port: PORT_SELF,
        ..address()
    };
    for (bad, name) in [
        (
            Address {
                cookie: 1,
                ..address()
            },
            "foreign",
        ),
        (
            Address {
                node: 9,
                ..address()
            },
            "unknown_node",
        ),
        (Address { hops: 0, ..port }, "too_many_hops"),
        (
            Address {
                input: 1,
                ..address()
            },
            "loop",
        ),
    ] {
        bench.push("t", &[frame(bad), frame(address()), frame(bad)]);
        assert_eq!(bench.drops("t", name), 2, "{name}");
    }
    // A multicast address, otherwise unused.
    let group = [&[1][..], &[0; 59]].concat();
    bench.push(
        "t",
        &[
            &b"short"[..],
            &[0xff; 60],
            &[0; 60],
            &group,
            &frame(address())[..13],
        ],
    );
    assert_eq!(
        bench.drops("t", "malformed"),
        4,
        "what is cut is sent on, if it is not for this node"
    );
    let here = frame(Address {
        node: 1,
        ..address()
    });
    bench.push("t", &[&here[..13]]);
    assert_eq!(bench.drops("t", "malformed"), 5);
    for link in ["a-b", "b-c", "b-d"] {
        bench.write("vlb.link", &format!("{link} down"));
    }
    bench.push("t", &[frame(address())]);
    assert_eq!(bench.drops("t", "no_path"), 1);
}

const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// A node of a cluster with a key that has `own` own links.
fn keyed(node: &str, (nodes, links): (&str, &str), own: usize, more: &str) -> String {
    let each = |link| {
        format!("t[{link}] -> Discard; Idle -> [{link}]t; hb[{link}] -> beat{link} :: Collect;")
    };
    let all: String = (0..own).map(each).collect();
    format!(
        "vlb :: VLBNode(NAME t, NODE {node}, NODES {nodes}, LINKS {links}, KEY {KEY});
         hb :: VLBHeartbeat(vlb); t :: VLBTransit(vlb); t[{}] -> hb; {all} t[{own}] -> here :: Collect; {more}",
        own + 1
    )
}

/// Lets two nodes exchange heartbeats by these own links until they use them.
fn meet(a: (&mut Bench, usize), b: (&mut Bench, usize)) {
    for _ in 0..20 {
        a.0.advance(Duration::from_millis(5));
        b.0.advance(Duration::from_millis(5));
        let beats = [(&*a.0, a.1), (&*b.0, b.1)].map(|(_, own)| format!("beat{own}"));
        let [from_a, from_b] = [a.0.take(&beats[0]), b.0.take(&beats[1])];
        a.0.push_at("t", a.1, &from_b);
        b.0.push_at("t", b.1, &from_a);
    }
}

#[test]
fn with_a_key_links_continue_their_numbers_when_a_reload_renumbers_the_links() {
    let all = ("a 1Gbps b 1Gbps c 1Gbps", "a-b a-c b-c");
    let two = ("a 1Gbps c 1Gbps", "a-c");
    let input = "check :: CheckIPHeader -> in :: VLBInput(vlb, c/0);";
    let both = format!("{input} in[0] -> Discard; in[1] -> out :: Collect;");
    let mut a = Bench::new(crate::with_basics(), &keyed("a", all, 2, &both));
    let mut c = Bench::new(crate::with_basics(), &keyed("c", all, 2, ""));
    meet((&mut a, 1), (&mut c, 0));
    let packet = ip4().udp(1, 2).bytes();
    let old = (0..5).map(|_| {
        a.push("check", &[&packet]);
        a.take("out").remove(0)
    });
    let old: Vec<_> = old.collect();
    c.push("t", &old);
    assert_eq!(c.take("here"), vec![c_gets(&packet); 5]);
    let one = format!("{input} in[0] -> out :: Collect;");
    a.reload(&keyed("a", two, 1, &one)).expect("it is right");
    c.reload(&keyed("c", two, 1, "")).expect("it is right");
    a.push("check", &[&packet]);
    let new = a.take("out");
    c.push("t", &new);
    assert_eq!(c.take("here").len(), 1, "it is newer than all before");
    c.push("t", &new);
    assert_eq!((c.take("here").len(), c.drops("t", "replayed")), (0, 1));
    c.push("t", &old);
    assert_eq!((c.take("here").len(), c.drops("t", "unknown_node")), (0, 5));
    // A link that was removed meanwhile begins a new epoch.
    let none = ("a 1Gbps b 1Gbps", "a-b");
    a.reload(&keyed("a", none, 1, "")).expect("it is right");
    a.reload(&keyed("a", two, 1, &one)).expect("it is right");
    meet((&mut a, 0), (&mut c, 0));
    a.push("check", &[&packet]);
    c.push("t", &a.take("out"));
    assert_eq!(c.take("here").len(), 1);
    c.push("t", &old);
    assert_eq!((c.take("here").len(), c.drops("t", "forged")), (0, 5));
}

/// A packet from a that arrives at c.
fn c_gets(packet: &[u8]) -> Vec<u8> {
    let here = Address {
        node: 2,
        port: 0,
        via: NO_NODE,
        hops: 1,
        ..address()
    };
    let mut frame = here.bytes().to_vec();
    frame.extend([8, 0]);
    frame.extend(packet);
    frame
}

#[test]
fn a_frame_that_cannot_go_on_has_not_come() {
    let all = ("a 1Gbps b 1Gbps c 1Gbps", "a-b a-c b-c");
    let input = "check :: CheckIPHeader -> in :: VLBInput(vlb, c/0); in[0] -> out :: Collect; in[1] -> Discard;";
    let mut a = Bench::new(crate::with_basics(), &keyed("a", all, 2, input));
    let mut b = Bench::new(crate::with_basics(), &keyed("b", all, 2, ""));
    meet((&mut a, 0), (&mut b, 0));
    // To c it goes by b, which has no link to c yet.
    a.write("vlb.link", "b-c up");
    a.push("check", &[&ip4().udp(1, 2).bytes()]);
    let frame = a.take("out");
    assert_eq!(frame.len(), 1);
    for (state, name, drops) in [
        ("down", "no_path", 1),
        ("up", "no_key", 1),
        ("up", "no_key", 2),
    ] {
        b.write("vlb.link", &format!("b-c {state}"));
        b.write("vlb.link", "a-c down");
        b.push("t", &frame);
        assert_eq!(b.drops("t", name), drops, "{name}");
    }
    assert_eq!(b.drops("t", "replayed"), 0);
}

#[test]
fn without_a_key_for_a_link_its_frames_are_dropped_by_name() {
    let all = ("a 1Gbps b 1Gbps", "a-b");
    let mut b = Bench::new(crate::with_basics(), &keyed("b", all, 1, ""));
    let mut bytes = frame(address());
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    b.push("t", &[bytes]);
    assert_eq!(b.drops("t", "no_key"), 1);
}

#[path = "vlb_leave_tests.rs"]
mod leave;
