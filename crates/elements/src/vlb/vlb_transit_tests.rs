use cluster::address::{Address, HOPS_MAX, Kind, NO_NODE, PORT_SELF, cookie};
use testkit::{Bench, ip4};

const NODE: &str = "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps c 1Gbps d 1Gbps,
    LINKS a-b a-c a-d b-c b-d c-d);";

fn bench() -> Bench {
    let text = format!(
        "{NODE} t :: VLBTransit(vlb); Idle -> [1]t; Idle -> [2]t;
         t[0] -> a :: Collect; t[1] -> c :: Collect; t[2] -> d :: Collect;
         t[3] -> here :: Collect; t[4] -> beats :: Collect;"
    );
    Bench::new(crate::CLASSES, &text)
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
    let mut bench = bench();
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
    bench.push(
        "t",
        &[
            &b"short"[..],
            &[0xff; 60],
            &[0; 60],
            &frame(address())[..13],
        ],
    );
    assert_eq!(
        bench.drops("t", "malformed"),
        3,
        "what is cut is sent on, if it is not for this node"
    );
    let here = frame(Address {
        node: 1,
        ..address()
    });
    bench.push("t", &[&here[..13]]);
    assert_eq!(bench.drops("t", "malformed"), 4);
    for link in ["a-b", "b-c", "b-d"] {
        bench.write("vlb.link", &format!("{link} down"));
    }
    bench.push("t", &[frame(address())]);
    assert_eq!(bench.drops("t", "no_way"), 1);
}

/// A cluster with a key, of these nodes in a mesh, as one of them knows it.
fn keyed(node: &str, nodes: &str, links: &str) -> String {
    format!(
        "vlb :: VLBNode(NAME t, NODE {node}, NODES {nodes}, LINKS {links},
         KEY 000102030405060708090a0b0c0d0e0f);"
    )
}

#[test]
fn with_a_key_links_go_on_where_they_were_when_a_reload_numbers_them_anew() {
    let all = ("a 1Gbps b 1Gbps c 1Gbps", "a-b a-c b-c");
    let two = ("a 1Gbps c 1Gbps", "a-c");
    let input = "check :: CheckIPHeader -> in :: VLBInput(vlb, c/0);";
    let both = "in[0] -> Discard; in[1] -> out :: Collect;";
    let mut a = Bench::new(
        crate::CLASSES,
        &format!("{}{input}{both}", keyed("a", all.0, all.1)),
    );
    let transit = |links: usize| {
        let outs = (0..links).map(|link| format!("t[{link}] -> Discard; Idle -> [{link}]t;"));
        let outs: String = outs.collect();
        let beats = links + 1;
        format!(
            "t :: VLBTransit(vlb); {outs}
             t[{links}] -> here :: Collect; t[{beats}] -> Discard;"
        )
    };
    let mut c = Bench::new(
        crate::CLASSES,
        &format!("{}{}", keyed("c", all.0, all.1), transit(2)),
    );
    let packet = ip4().udp(1, 2).bytes();
    let old = (0..5).map(|_| {
        a.push("check", &[&packet]);
        a.take("out").remove(0)
    });
    let old: Vec<_> = old.collect();
    c.push("t", &old);
    assert_eq!(c.take("here").len(), 5);
    let one = "in[0] -> out :: Collect;";
    a.reload(&format!("{}{input}{one}", keyed("a", two.0, two.1)))
        .expect("it is right");
    c.reload(&format!("{}{}", keyed("c", two.0, two.1), transit(1)))
        .expect("it is right");
    a.push("check", &[&packet]);
    c.push("t", &a.take("out"));
    assert_eq!(c.take("here").len(), 1, "it is newer than all before");
    c.push("t", &old);
    assert_eq!((c.take("here").len(), c.drops("t", "replayed")), (0, 5));
}
