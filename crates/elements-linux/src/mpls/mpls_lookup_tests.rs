use std::collections::BTreeMap;
use testkit::{Bench, Rng, ip4, ip6, labelled as below};
use wire::mpls::Entry;
use wire::{Ipv4, Ipv6};

/// Labels of the output, and the packet below.
fn read(mut bytes: &[u8], labels: usize) -> (Vec<(u32, u8, u8)>, Vec<u8>) {
    let mut stack = Vec::new();
    for i in 0..labels {
        let entry = Entry::read(bytes, 0).unwrap();
        assert_eq!(entry.bottom, i + 1 == labels);
        stack.push((entry.label, entry.exp, entry.ttl));
        bytes = &bytes[4..];
    }
    (stack, bytes.to_vec())
}

const ENTRIES: &str =
    "100 swap 200 10.0.0.2 0, 101 swap 300/200 10.0.0.2 0, 102 pop 10.0.0.3 0, 103 pop 1,
    104 pop 2001:db8::9 0, 0 pop 1, 2 pop 1";

fn bench(options: &str) -> Bench {
    let text = format!(
        "m :: MPLSLookup({ENTRIES}, EXPIRED 2 {options}) -> out :: Collect; m[1] -> ip :: Collect;
         m[2] -> expired :: Collect"
    );
    Bench::new(crate::with_basics(), &text)
}

#[test]
fn labels_are_swapped_and_pushed_and_the_stack_keeps_its_bottom() {
    let mut bench = bench("");
    let packet = ip4().ttl(50).bytes();
    bench.push(
        "m",
        &[
            below(&[(100, 5, 9)], &packet),
            below(&[(100, 1, 9), (77, 2, 3)], &packet),
            below(&[(101, 6, 2)], &packet),
        ],
    );
    let out = bench.take_packets("out");
    assert_eq!(read(&out[0].bytes, 1), (vec![(200, 5, 8)], packet.clone()));
    let two = vec![(200, 1, 8), (77, 2, 3)];
    assert_eq!(read(&out[1].bytes, 2), (two, packet.clone()));
    let pushed = vec![(300, 6, 1), (200, 6, 1)];
    assert_eq!(read(&out[2].bytes, 2), (pushed, packet));
    assert_eq!(
        out.iter().map(|p| p.network_offset).collect::<Vec<_>>(),
        [4, 8, 8]
    );
    assert!(out.iter().all(|p| p.anno.dst4() == [10, 0, 0, 2]));
}

#[test]
fn time_to_live_and_class_go_into_what_was_below_or_not() {
    let packets = [
        below(&[(102, 5, 9)], &ip4().ttl(50).tos(0x03).bytes()),
        below(&[(102, 5, 9), (77, 2, 30)], &ip4().bytes()),
        below(&[(103, 5, 9)], &ip4().ttl(50).tos(0xb8).bytes()),
        below(&[(104, 1, 9)], &ip6().ttl(50).bytes()),
        below(&[(2, 1, 200)], &ip6().ttl(50).tos(0xff).bytes()),
        below(&[(103, 5, 9), (103, 0, 200), (100, 0, 100)], &ip4().bytes()),
    ];
    for uniform in [true, false] {
        let mut bench = bench(if uniform { "" } else { ", MODE pipe" });
        bench.push("m", &packets);
        let (out, ip) = (bench.take_packets("out"), bench.take_packets("ip"));
        let or = |u: u8, pipe: u8| if uniform { u } else { pipe };
        let four = |bytes: &[u8]| {
            let ip = Ipv4::new_checked(bytes.to_vec()).unwrap();
            assert!(ip.verify_checksum());
            (ip.ttl(), ip.tos())
        };
        let six = |bytes: &[u8]| {
            let ip = Ipv6::new_unchecked(bytes);
            (ip.hop_limit(), ip.traffic_class())
        };
        // The next router gets one less; at the end of the labels DecIPTTL still follows.
        assert_eq!(four(&out[0].bytes), (or(8, 50), or(0xa3, 0x03)));
        assert_eq!(out[0].anno.dst4(), [10, 0, 0, 3]);
        let inner = (77, or(5, 2), or(8, 30));
        assert_eq!(read(&out[1].bytes, 1).0, [inner]);
        assert_eq!(four(&ip[0].bytes), (or(9, 50), 0xb8));
        assert_eq!(six(&out[2].bytes), (or(8, 50), or(0x20, 0)));
        assert_eq!(out[2].anno.dst6()[..2], [0x20, 0x01]);
        assert_eq!(six(&ip[1].bytes), (50, or(0x23, 0xff)), "it never grows");
        assert_eq!(read(&out[3].bytes, 1).0, [(200, or(5, 0), or(8, 99))]);
    }
}

#[test]
fn unswitchable_packets_are_dropped_by_name_or_leave_unchanged() {
    let mut bench = bench("");
    let expired = [
        below(&[(100, 0, 1)], &ip4().bytes()),
        below(&[(103, 0, 9), (100, 0, 0)], &ip4().bytes()),
    ];
    bench.push("m", &expired);
    assert_eq!(bench.take("expired"), expired);
    let endless = [0u8; 400];
    bench.push("m", &[&endless[..], b"", b"\0\x06\x40"]);
    bench.push("m", &[below(&[(99, 0, 9)], b"")]);
    bench.push("m", &[below(&[(1, 0, 9)], b"")]);
    let text = "m :: MPLSLookup(100 swap 200 0, 101 pop 1) -> out :: Collect; Idle -> m";
    let drops = ["bad_stack", "no_label"].map(|name| bench.drops("m", name));
    assert_eq!(drops, [3, 2]);
    let refused = testkit::errors(crate::with_basics(), text);
    assert!(
        refused.contains("2 outputs") || refused.contains("output"),
        "{refused}"
    );
}

#[test]
fn handlers_change_the_table_as_a_map_would() {
    let mut bench = Bench::new(
        crate::with_basics(),
        "m :: MPLSLookup(16 pop 0) -> Discard; m[1] -> Discard; Idle -> m",
    );
    let mut model = BTreeMap::from([(16u32, "pop - 0".to_owned())]);
    let mut rng = Rng::seed(3);
    for _ in 0..3000 {
        let label = [16, 17, 1023, 1024, 1025, 70_000, 1_048_575][rng.below(7)];
        let new = format!(
            "swap {} 10.0.0.{} {}",
            rng.range(16..99),
            rng.below(9),
            rng.below(2)
        );
        match rng.below(3) {
            0 => {
                let added = bench.try_write("m.add", &format!("{label} {new}"));
                assert_eq!(added.is_ok(), !model.contains_key(&label));
                model.entry(label).or_insert(new);
            }
            1 => {
                bench.write("m.set", &format!("{label} {new}"));
                model.insert(label, new);
            }
            _ => {
                let removed = bench.try_write("m.remove", &label.to_string());
                assert_eq!(removed.is_ok(), model.remove(&label).is_some());
            }
        }
        let expected = model.get(&label).map_or("-1", String::as_str);
        assert_eq!(
            bench.try_read("m.lookup", &label.to_string()).unwrap(),
            expected
        );
    }
    let lines: String = model.iter().map(|(l, e)| format!("{l} {e}\n")).collect();
    assert_eq!(bench.read("m.table"), lines);
    assert_eq!(bench.read("m.length"), model.len().to_string());
    bench.write("m.flush", "");
    assert_eq!(bench.read("m.table"), "");
}

#[test]
fn lines_of_ctrl_are_carried_out_all_or_none() {
    let mut bench = bench("");
    let before = bench.read("m.table");
    for (lines, wrong) in [
        (
            "add 500 pop 0\nadd 100 pop 0",
            "line 2: label 100 has an entry",
        ),
        (
            "set 500 pop 0\nremove 501",
            "line 2: label 501 has no entry",
        ),
        ("remove 100\nremove 100", "line 2: label 100 has no entry"),
        ("add 500 pop 7\n", "no output 7"),
        ("drop 5", "neither add"),
    ] {
        let message = bench.try_write("m.ctrl", lines).unwrap_err();
        assert!(message.contains(wrong), "{message}");
        assert_eq!(bench.read("m.table"), before);
    }
    bench.write(
        "m.ctrl",
        "# moved\nremove 100\nadd 100 pop 0\nadd 500 pop 0\nset 500 pop 1",
    );
    assert_eq!(bench.try_read("m.lookup", "500").unwrap(), "pop - 1");
}

#[test]
fn a_reload_keeps_entries_added_by_handlers() {
    let text = |entries: &str| {
        format!("m :: MPLSLookup({entries}) -> out :: Collect; m[1] -> Discard; Idle -> m")
    };
    let mut bench = Bench::new(
        crate::with_basics(),
        &text("100 pop 0, 101 pop 0, 102 pop 1"),
    );
    bench.write("m.add", "200 swap 300 0");
    bench.write("m.add", "201 swap 301 0");
    assert_eq!(
        bench.reload(&text("100 pop 1, 201 pop 1, 102 pop 1")),
        Ok(())
    );
    assert_eq!(
        bench.read("m.table"),
        "100 pop - 1\n102 pop - 1\n200 swap 300 - 0\n201 pop - 1\n"
    );
    bench.push("m", &[below(&[(200, 0, 9)], &ip4().bytes())]);
    assert_eq!(bench.take("out").len(), 1);
}

#[test]
fn flows_below_labels_are_shared_among_next_hops_by_weight() {
    let text =
        "m :: MPLSLookup(100 swap 200 10.0.0.2 0 WEIGHT 3 | swap 201 10.0.0.3 1) -> a :: Collect;
        m[1] -> b :: Collect";
    let mut bench = Bench::new(crate::with_basics(), text);
    let flow = |port: u16| below(&[(100, 0, 9)], &ip4().udp(port, 9).bytes());
    let six = |port: u16| below(&[(100, 0, 9)], &ip6().tcp(port, 9).bytes());
    let other = |n: u16| below(&[(100, 0, 9), (16 + u32::from(n), 0, 9)], b"no ip");
    let make: [&dyn Fn(u16) -> Vec<u8>; 3] = [&flow, &six, &other];
    for make in make {
        let once: Vec<_> = (0..2000).map(make).collect();
        bench.push("m", &once);
        let (first, second) = (bench.take("a"), bench.take("b"));
        assert_eq!(first.len() + second.len(), 2000);
        assert!((1350..1650).contains(&first.len()), "{}", first.len());
        assert!(
            first
                .iter()
                .all(|p| Entry::read(p, 0).unwrap().label == 200)
        );
        assert!(
            second
                .iter()
                .all(|p| Entry::read(p, 0).unwrap().label == 201)
        );
        bench.push("m", &once);
        assert_eq!((bench.take("a"), bench.take("b")), (first, second));
    }
}

/// An entry with several next hops never takes the short path.
#[test]
fn compact_entries_agree_with_whole_entries() {
    let hops = [
        "swap 200 10.0.0.2 0",
        "swap 200 0",
        "swap 7 2001:db8::9 0",
        "swap 9/200 10.0.0.2 0",
    ];
    for (mode, hop) in ["uniform", "pipe"]
        .into_iter()
        .flat_map(|m| hops.map(|hop| (m, hop)))
    {
        let text = format!(
            "brief :: MPLSLookup(100 {hop}, MODE {mode}, EXPIRED 1) \
                 -> MPLSEtherEncap(2:0:0:0:0:1, 2:0:0:0:0:2) -> a :: Collect;
             whole :: MPLSLookup(100 {hop} | {hop}, MODE {mode}, EXPIRED 1) \
                 -> MPLSEtherEncap(2:0:0:0:0:1, 2:0:0:0:0:2) -> b :: Collect;
             brief[1] -> c :: Collect; whole[1] -> d :: Collect"
        );
        let mut random = Rng::seed(8);
        let packets: Vec<Vec<u8>> = (0..500)
            .map(|_| {
                let depth = random.below(4);
                let mut stack: Vec<_> = (0..=depth)
                    .map(|_| {
                        (
                            random.below(20) as u32,
                            random.below(8) as u8,
                            random.below(256) as u8,
                        )
                    })
                    .collect();
                stack[0] = (
                    100 + u32::from(random.below(50) == 0),
                    random.below(8) as u8,
                    random.below(4) as u8,
                );
                let mut bytes = below(&stack, &ip4().ttl(50).bytes());
                if random.below(10) == 0 {
                    bytes.truncate(random.below(12));
                }
                bytes
            })
            .collect();
        for optimize in [true, false] {
            let mut bench = match optimize {
                true => Bench::new(crate::with_basics(), &text),
                false => Bench::strict(crate::with_basics(), &text),
            };
            bench.push("brief", &packets);
            bench.push("whole", &packets);
            let (a, b) = (bench.take("a"), bench.take("b"));
            assert!(a.len() > 100, "{mode} {hop}");
            assert!(a == b, "{mode} {hop}");
            assert!(bench.take("c") == bench.take("d"), "{mode} {hop}");
            for drop in ["no_label", "bad_stack"] {
                assert_eq!(bench.drops("brief", drop), bench.drops("whole", drop));
            }
        }
    }
}
