use engine::packet::{Batch, Packet};
use std::fmt::Write;
use std::time::Duration;
use testkit::{Bench, ip4, ip6};

const TREE: &str = "class voice DSCP 46 48 SHARE 1, class best SHARE 3,
    group a RATE 4Mbps, group b RATE 4Mbps CEIL 6Mbps,
    subscribers a 10.0.0.0/24 2001:db8::/48/56 RATE 100kbps CEIL 2Mbps,
    subscribers a 10.0.0.7 RATE 400kbps,
    subscribers b 10.0.1.0/30 RATE 500kbps,
    subscribers b - RATE 500kbps";

fn router(options: &str) -> String {
    format!("q :: ShareQueue({options}) -> u :: Unqueue(ACTIVE false) -> out :: Collect")
}

/// IP packets as they arrive after Strip and CheckIPHeader.
fn packets(bytes: impl IntoIterator<Item = Vec<u8>>) -> Batch {
    let made = bytes.into_iter().map(|bytes| {
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.set_network_offset(0);
        packet
    });
    made.collect()
}

fn to(dst: &str, tos: u8, len: usize) -> Vec<u8> {
    let ip = ip4().dst(dst).tos(tos).udp(1, 2);
    ip.payload(vec![0; len - 28]).bytes()
}

fn count(bench: &mut Bench, place: &str, name: &str) -> u64 {
    let counts = bench.try_read("q.counts", place).unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn all_addresses_may_be_one_subscriber() {
    let tree = "group a RATE 1Mbps, subscribers a ::/0/0 0.0.0.0/0/0 RATE 1kbps, subscribers a - RATE 1kbps";
    let mut bench = Bench::new(crate::CLASSES, &router(tree));
    let six = ip6().dst("ffff::1").udp(1, 2).bytes();
    bench.push_packets("q", 0, packets([six, to("255.0.0.1", 0, 100)]));
    assert_eq!(count(&mut bench, "::", "held"), 2);
}

#[test]
fn packets_are_those_of_a_subscriber_and_a_class() {
    for make in [Bench::new, Bench::strict] {
        let mut bench = make(crate::CLASSES, &router(TREE));
        let six = |dst: &str| ip6().dst(dst).udp(1, 2).bytes();
        let all = [
            to("10.0.0.5", 0, 100),
            to("10.0.0.5", 46 << 2, 100),
            to("10.0.0.5", 48 << 2, 100),
            six("2001:db8:0:500::1"),    // the fifth block of 56 bits
            six("2001:db8:0:5ff:1::99"), // as well
            six("2001:db8:0:600::"),
            to("10.0.0.7", 0, 100),
            to("10.0.1.3", 0, 100),
            to("10.0.1.4", 0, 100),
            six("2001:db9::"),
            b"no IP".to_vec(),
            vec![],
        ];
        bench.push_packets("q", 0, packets(all));
        for (place, held) in [
            ("10.0.0.5", 5),
            ("10.0.0.5 voice", 2),
            ("10.0.0.5 best", 3),
            ("2001:db8:0:5aa::", 5),
            ("10.0.0.6", 1),
            ("10.0.0.7", 1),
            ("2001:db8:0:700::", 0),
            ("10.0.1.3", 1),
            ("-", 4),
            ("", 12),
        ] {
            assert_eq!(count(&mut bench, place, "held"), held, "{place}");
        }
        for (place, wrong) in [
            ("10.0.1.4", "no subscriber `10.0.1.4`"),
            ("x", "`x` is no address"),
            ("10.0.0.5 x", "no class `x`"),
            ("10.0.0.5 best x", "write nothing"),
        ] {
            assert!(
                bench
                    .try_read("q.counts", place)
                    .unwrap_err()
                    .contains(wrong)
            );
        }
        bench.write("u.active", "true");
        bench.run();
        assert_eq!(
            (bench.take("out").len(), bench.read("q.length").as_str()),
            (12, "0")
        );
        assert_eq!(count(&mut bench, "10.0.0.5", "packets"), 5);
        assert_eq!(count(&mut bench, "b", "bytes"), 100 + 100 + 48 + 5);
    }
}

#[test]
fn subscribers_are_told_by_source_number_or_vlan() {
    let tree = "group a RATE 1Mbps, subscribers a";
    let held = |by: &str, pattern: &str, name: &str, batch: Batch| {
        let options = format!("BY {by}, {tree} {pattern} RATE 1kbps");
        let mut bench = Bench::new(crate::CLASSES, &router(&options));
        bench.push_packets("q", 0, batch);
        (
            count(&mut bench, name, "held"),
            bench.drops("q", "no_subscriber"),
        )
    };
    let batch = packets([ip4().src("10.0.0.1").bytes(), ip4().src("10.0.0.2").bytes()]);
    assert_eq!(held("src", "10.0.0.1", "10.0.0.1", batch), (1, 1));
    let numbered = || {
        let mut batch = packets([vec![0; 64], vec![0; 64], vec![0; 64]]);
        for (packet, number) in batch.iter_mut().zip([17, 18, 30]) {
            packet.cold_mut().set_aggregate(number);
            packet.set_vlan_tci(3 << 13 | number as u16);
        }
        batch
    };
    assert_eq!(held("anno", "5 17-29", "17", numbered()), (1, 1));
    assert_eq!(held("vlan", "17 18", "18", numbered()), (1, 1));
}

/// Keeps queues full for some seconds.
fn keep_full(bench: &mut Bench, dsts: &[(&str, u8)], ms: u64) {
    for _ in 0..ms {
        for (dst, tos) in dsts {
            bench.push_packets("q", 0, packets([to(dst, *tos, 500), to(dst, *tos, 500)]));
        }
        bench.advance(Duration::from_millis(1));
    }
}

#[test]
fn the_link_is_shared_by_rates_below_the_ceilings() {
    let options = format!("LINK 8Mbps, LIMIT 20, TARGET 0, {TREE}");
    let mut bench = Bench::new(crate::CLASSES, &router(&options));
    bench.write("u.active", "true");
    let dsts = [
        ("10.0.0.1", 0),
        ("10.0.0.7", 0),
        ("10.0.0.7", 46 << 2),
        ("10.0.1.1", 0),
        ("10.0.1.2", 0),
    ];
    keep_full(&mut bench, &dsts, 5000);
    // Both groups have 500 kB/s; in the first one subscribers share 1 : 4, of which voice has a quarter.
    for (place, ideal) in [
        ("10.0.0.1", 100.0),
        ("10.0.0.7 voice", 100.0),
        ("10.0.0.7 best", 300.0),
        ("10.0.1.1", 250.0),
        ("a", 500.0),
    ] {
        let bytes = count(&mut bench, place, "bytes") as f64 / 5000.0;
        assert!(
            (bytes - ideal).abs() < 0.02 * ideal + 2.0,
            "{place}: {bytes}"
        );
    }
    assert!(bench.drops("q", "full") > 1000);
    // A single subscriber has its ceiling of 250 kB/s.
    bench.write("q.reset", "");
    let before = count(&mut bench, "10.0.0.1", "bytes");
    keep_full(&mut bench, &[("10.0.0.1", 0)], 2000);
    let bytes = (count(&mut bench, "10.0.0.1", "bytes") - before) as f64 / 2000.0;
    assert!((bytes - 250.0).abs() < 5.0, "{bytes}");
    // The ceiling is changed while packets wait.
    bench.write("q.set", "10.0.0.1 RATE 100kbps CEIL 800kbps");
    let before = count(&mut bench, "10.0.0.1", "bytes");
    keep_full(&mut bench, &[("10.0.0.1", 0)], 2000);
    let bytes = (count(&mut bench, "10.0.0.1", "bytes") - before) as f64 / 2000.0;
    assert!((bytes - 100.0).abs() < 3.0, "{bytes}");
    for (text, wrong) in [
        ("10.0.0.1", "write SUBSCRIBER"),
        ("10.0.0.1 RATE 1kbps", "between 100kbps"),
        ("10.0.0.1 RATE x", "a bandwidth"),
        ("10.9.0.1 RATE 1Mbps", "no subscriber"),
    ] {
        assert!(
            bench.try_write("q.set", text).unwrap_err().contains(wrong),
            "{text}"
        );
    }
}

#[test]
fn drops_have_names() {
    let tree = "group a RATE 8Mbps, subscribers a 10.0.0.0/24 RATE 80kbps";
    let options = format!("LINK 8Mbps, CAPACITY 400, LIMIT 150, {tree}");
    let mut bench = Bench::new(crate::CLASSES, &router(&options));
    let flood = |bench: &mut Bench, dst: &str, n| {
        bench.push_packets("q", 0, packets((0..n).map(|_| to(dst, 0, 1000))));
    };
    flood(&mut bench, "10.0.0.1", 151);
    flood(&mut bench, "10.0.0.2", 200);
    flood(&mut bench, "10.9.0.2", 3);
    assert_eq!(
        (bench.drops("q", "full"), bench.drops("q", "no_subscriber")),
        (1, 3)
    );
    assert_eq!(
        (
            bench.drops("q", "memory"),
            count(&mut bench, "10.0.0.2", "full")
        ),
        (75, 75)
    );
    bench.write("u.active", "true");
    bench.run();
    bench.advance(Duration::from_millis(250));
    assert!(bench.drops("q", "delay") > 1);
    bench.write("q.reset", "");
    assert_eq!(bench.read("q.length"), "0");
    assert!(bench.drops("q", "reset") > 1);
}

#[test]
fn a_reload_with_another_tree_keeps_the_packets() {
    let mut bench = Bench::new(crate::CLASSES, &router(TREE));
    bench.push_packets(
        "q",
        0,
        packets([
            to("10.0.0.5", 0, 100),
            to("10.0.0.5", 0, 101),
            to("10.0.1.1", 0, 102),
        ]),
    );
    let tree = "group c RATE 1Mbps, subscribers c 10.0.0.0/28 RATE 1kbps";
    assert_eq!(bench.reload(&router(tree)), Ok(()));
    assert_eq!(
        (
            count(&mut bench, "10.0.0.5", "held"),
            bench.read("q.length").as_str()
        ),
        (2, "3")
    );
    bench.write("u.active", "true");
    bench.run();
    let lengths: Vec<usize> = bench.take("out").iter().map(Vec::len).collect();
    assert_eq!(
        lengths.iter().filter(|len| **len < 102).collect::<Vec<_>>(),
        [&100, &101]
    );
    assert_eq!(lengths.len(), 3);
}

#[test]
fn twenty_thousand_subscribers_fit_into_a_file_or_a_line() {
    let file = std::env::temp_dir().join(format!("ashlar-tree-{}", std::process::id()));
    let mut text = String::from(
        "# all customers\nclass voice DSCP 46\nclass video DSCP 34\nclass bulk DSCP 8\nclass best SHARE 4\n",
    );
    text += "group north RATE 5Gbps\n\ngroup south RATE 5Gbps # two\n";
    for n in 0..20_000 {
        let group = if n % 2 == 0 { "north" } else { "south" };
        writeln!(
            text,
            "subscribers {group} 10.0.{}.{} RATE {}kbps CEIL 50Mbps",
            n / 250,
            n % 250,
            100 + n % 7
        )
        .unwrap();
    }
    std::fs::write(&file, &text).unwrap();
    let options = format!("LINK 10Gbps, TREE \"{}\"", file.display());
    let mut bench = Bench::new(crate::CLASSES, &router(&options));
    bench.push_packets(
        "q",
        0,
        packets((0..80).map(|n| to(&format!("10.0.{n}.249"), 34 << 2, 100))),
    );
    assert_eq!(count(&mut bench, "10.0.79.249 video", "held"), 1);
    text += "subscribers east 10.1.0.1 RATE 1kbps\nclass best\n";
    std::fs::write(&file, &text).unwrap();
    let errors = testkit::errors(crate::CLASSES, &router(&options));
    std::fs::remove_file(&file).unwrap();
    for wrong in [
        "line 20009: there is no group `east` above",
        "line 20010: there are two classes `best`",
    ] {
        assert!(errors.contains(wrong), "{errors}");
    }
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let group = "group a RATE 10Mbps";
    for (options, wrong) in [
        ("", "there is no subscriber"),
        ("TREE /nonexistent", "cannot read `/nonexistent`"),
        ("LINK 0, group a RATE 1kbps", "LINK must not be 0"),
        (
            "LINK 1Mbps, group a RATE 2Mbps, subscribers a - RATE 1kbps",
            "a higher RATE than LINK, 1Mbps",
        ),
        ("group a", "RATE is missing"),
        ("group a RATE 0", "RATE must not be 0"),
        ("group a RATE", "RATE has no value"),
        ("group a RATE fast", "a bandwidth such as"),
        ("group a RATE 1kbps, group a RATE 1kbps", "two groups `a`"),
        ("grope a RATE 1kbps", "write `class NAME"),
        ("class x DSCP 64", "at most 63"),
        ("class x DSCP", "code points"),
        ("class x DSCP 1, class y DSCP 1", "class `x` has DSCP 1"),
        ("class x DSCP 1", "none takes the packets of other"),
        ("class x, class y", "two classes have no DSCP"),
        ("class x RATE 5", "`RATE` is not one of DSCP, SHARE, CEIL"),
        ("$G, subscribers b 10.0.0.1 RATE 1kbps", "no group `b`"),
        ("$G, subscribers a RATE 1kbps", "no pattern"),
        (
            "$G, subscribers a 10.0.0.1 RATE 11Mbps",
            "more than that of the group, 10Mbps",
        ),
        ("$G, subscribers a 10.0.0.1/8 RATE 1kbps", "bits set beyond"),
        ("$G, subscribers a 10.0.0.0/33 RATE 1kbps", "is no pattern"),
        (
            "$G, subscribers a 10.0.0.0/12 RATE 1kbps, class a, $C",
            "more than 8388608 queues",
        ),
        ("TREE /dev/zero", "no regular file"),
        (
            "$G, subscribers a 10.0.0.0/24/20 RATE 1kbps",
            "is no pattern",
        ),
        (
            "$G, subscribers a 10.0.0.0/8 RATE 1kbps",
            "more than 1048576 subscribers",
        ),
        (
            "$G, subscribers a ::/0 RATE 1kbps",
            "more than 1048576 subscribers",
        ),
        (
            "$G, subscribers a 10.0.0.0/24 2001:db8::/48 RATE 1kbps",
            "as many subscribers",
        ),
        (
            "$G, subscribers a 10.0.0.1 RATE 1kbps, subscribers a 10.0.0.1 RATE 1kbps",
            "10.0.0.1/32 is written twice",
        ),
        (
            "$G, subscribers a - RATE 1kbps, subscribers a - RATE 1kbps",
            "two patterns `-`",
        ),
        (
            "BY vlan, $G, subscribers a 4096 RATE 1kbps",
            "end at 4095 at most",
        ),
        (
            "BY vlan, $G, subscribers a 7 5-9 RATE 1kbps",
            "7 is two subscribers",
        ),
        ("BY anno, $G, subscribers a x RATE 1kbps", "write N or N-N"),
        ("BY name, $G", "must be dst, src, anno or vlan"),
        (
            "$G, subscribers a 10.0.0.1 RATE 8bps, subscribers a 10.0.0.2 RATE 1Mbps",
            "subscribers of group `a` differ",
        ),
    ] {
        let classes: Vec<String> = (0..8).map(|n| format!("class c{n} DSCP {n}")).collect();
        let text = router(
            &options
                .replace("$G", group)
                .replace("$C", &classes.join(", ")),
        );
        let errors = testkit::errors(crate::CLASSES, &text);
        assert!(errors.contains(wrong), "{options}: {errors}");
    }
}
