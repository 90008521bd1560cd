use engine::packet::Packet;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{Bench, Rng, ip4, ip6};

fn bench(options: &str) -> Bench {
    let text = format!(
        "c :: MarkIPHeader -> f :: FlowTable({options}) -> out :: Collect; f[1] -> one :: Collect;
         f[2] -> two :: Collect"
    );
    Bench::new(crate::CLASSES, &text)
}

fn udp(n: u16) -> Vec<u8> {
    ip4().udp(n, 9).payload([0; 72]).bytes() // 100 bytes
}

fn flow(n: u16) -> String {
    format!("10.0.0.1 {n} 10.0.0.2 9 udp")
}

#[test]
fn packets_of_flows_get_a_deadline_and_a_port_and_others_none() {
    let mut bench = bench("LINK 1Mbps, OTHER 2, BIN 0");
    let answer = bench.graph().job(|cx| {
        let wanted = format!("{} PORT 1 RATE 80kbps BURST 200 PACKET 100", flow(1));
        cx.write("f.add", &wanted)
    });
    assert_eq!(
        answer.unwrap(),
        "reserved 80kbps bound 32.000001ms jitter 31.680001ms"
    );
    bench.write("f.add", &flow(2));
    bench.push("c", &[udp(1), udp(1), udp(1), udp(2), udp(3)]);
    let now = bench.graph().now().0;
    let due: Vec<u64> = bench
        .take_packets("one")
        .iter()
        .map(|p| p.cold.deadline() - now)
        .collect();
    assert_eq!(due, [10_000_000, 20_000_000]);
    assert_eq!(bench.drops("f", "excess"), 1);
    assert_eq!(bench.take_packets("out").remove(0).cold.deadline(), 0);
    assert_eq!(bench.take("two"), [udp(3)]);
    bench.advance(Duration::from_millis(10));
    bench.push("c", &[udp(1), udp(1)]);
    assert_eq!(bench.take("one").len(), 1, "the bucket fills at the rate");
    let lines = bench.read("f.flows");
    assert!(
        lines.contains("PORT 1 reserved 80kbps bound 32.000001ms jitter 31.680001ms packets 5 bytes 500 excess 2"),
        "{lines}"
    );
}

#[test]
fn a_part_of_the_link_may_be_for_others() {
    let mut bench = bench("LINK 1Mbps, RESERVABLE 300kbps, BIN 0");
    let mut add = |n, rate: &str| {
        let line = format!("{} RATE {rate} BURST 200 PACKET 100", flow(n));
        bench.try_write("f.add", &line)
    };
    assert_eq!(
        add(1, "200kbps").unwrap(),
        "reserved 200kbps bound 20.000001ms jitter 19.680001ms"
    );
    assert!(
        add(2, "110kbps")
            .unwrap_err()
            .contains("100000 bit/s of the link are not reserved")
    );
    assert!(add(2, "100kbps").is_ok());
}

#[test]
fn flows_are_told_by_tags_too() {
    let six = ip6().flow_label(77).tos(0xb8).bytes();
    let labelled = [&[0, 0x06, 0x41, 9][..], &udp(1)].concat(); // label 100
    let tagged = |packet: &[u8]| {
        let mut packet = Packet::from_bytes(packet).unwrap();
        packet.set_vlan_tci(0xe005);
        packet.cold_mut().set_aggregate(4711);
        packet.set_network_offset(0);
        packet
    };
    for (by, tag, other, packet) in [
        ("label", 100, 101, &labelled),
        ("flow_label", 77, 78, &six),
        ("dscp", 46, 45, &six),
        ("vlan", 5, 6, &six),
        ("anno", 4711, 1, &six),
        ("anno", 4711, 1_048_575, &six),
    ] {
        let mut bench = bench(&format!("BY {by}, OTHER 2"));
        bench.write("f.add", &format!("{other} PORT 0"));
        bench.push_packets("f", 0, [tagged(packet)].into_iter().collect());
        assert_eq!(bench.take("two").len(), 1, "{by}");
        bench.write("f.add", &format!("{tag} PORT 1"));
        bench.push_packets("f", 0, [tagged(packet)].into_iter().collect());
        assert_eq!(bench.take("one").len(), 1, "{by}");
        bench.write("f.remove", &tag.to_string());
        bench.push_packets("f", 0, [tagged(packet)].into_iter().collect());
        assert_eq!(bench.take("two").len(), 1, "{by}");
    }
}

#[test]
fn a_link_gives_what_it_has_and_takes_it_back() {
    let mut bench = bench("LINK 100kbps, MTU 1000");
    bench.write("f.add", &format!("{} RATE 60kbps BURST 1000", flow(1)));
    let wrong = bench.try_write("f.add", &format!("{} RATE 50kbps BURST 1000", flow(2)));
    assert!(
        wrong
            .unwrap_err()
            .contains("40000 bit/s of the link are not reserved")
    );
    // Another output leads to another link; a flow that is set up again releases its old reservation.
    bench.write(
        "f.add",
        &format!("{} PORT 1 RATE 50kbps BURST 1000", flow(2)),
    );
    bench.write("f.add", &format!("{} RATE 100kbps BURST 1000", flow(1)));
    assert_eq!(bench.read("f.reserved"), "0 100kbps\n1 50kbps\n");
    let wrong = bench.try_write(
        "f.add",
        &format!(
            "{} PORT 1 RATE 10kbps BURST 1000\n{} RATE 10kbps BURST 1000",
            flow(3),
            flow(4)
        ),
    );
    assert!(wrong.unwrap_err().starts_with("line 2: "));
    assert_eq!(
        (bench.read("f.length"), bench.read("f.reserved")),
        ("2".into(), "0 100kbps\n1 50kbps\n".into())
    );
    let again = format!(
        "{} RATE 10kbps BURST 1000\n{} RATE 99kbps BURST 1000",
        flow(1),
        flow(3)
    );
    assert!(bench.try_write("f.add", &again).is_err());
    assert_eq!(
        bench.read("f.reserved"),
        "0 100kbps\n1 50kbps\n",
        "it has what it had"
    );
    bench.write("f.remove", &flow(1));
    assert_eq!(bench.read("f.reserved"), "0 0bps\n1 50kbps\n");
    let admit = |bench: &mut Bench, delay: &str| {
        bench.try_read(
            "f.admit",
            &format!("{} RATE 8kbps BURST 1000 DELAY {delay}", flow(1)),
        )
    };
    assert_eq!(
        admit(&mut bench, "1s").unwrap(),
        "reserved 8712bps bound 999.273648ms jitter 996.073648ms"
    );
    assert!(
        admit(&mut bench, "80ms")
            .unwrap_err()
            .contains("no reservation")
    );
    assert_eq!(bench.read("f.refused"), "rate 4\nbucket 0\nfull 0\n");
    assert!(
        bench
            .try_write("f.remove", &flow(9))
            .unwrap_err()
            .contains("no flow")
    );
    assert!(
        bench
            .try_write("f.add", &format!("{} PORT 3", flow(9)))
            .unwrap_err()
            .contains("no output 3")
    );
}

#[test]
fn without_a_link_there_is_no_guarantee_and_buckets_and_table_have_a_bound() {
    let mut small = bench("CAPACITY 2");
    (0..2).for_each(|n| small.write("f.add", &flow(n)));
    assert!(
        small
            .try_write("f.add", &flow(2))
            .unwrap_err()
            .contains("CAPACITY")
    );
    assert_eq!(small.read("f.refused"), "rate 0\nbucket 0\nfull 1\n");
    let mut bench = bench("CAPACITY 64, BUCKETS 1, K 3");
    let wrong = bench.try_write(
        "f.add",
        &format!("{} RATE 8kbps BURST 1000 PACKET 500", flow(1)),
    );
    assert!(wrong.unwrap_err().contains("LINK"));
    for n in 0..3 {
        bench.write("f.add", &flow(n));
    }
    assert!(
        bench
            .try_write("f.add", &flow(3))
            .unwrap_err()
            .contains("K flows already")
    );
    bench.write("f.add", &flow(2));
    bench.write("f.remove", &flow(0));
    bench.write("f.add", &flow(3));
    assert_eq!(bench.read("f.refused"), "rate 0\nbucket 1\nfull 0\n");
}

#[test]
fn flows_come_and_go_as_in_a_map() {
    let mut rng = Rng::seed(8);
    // Removed flows wait for workers, and other tests have some: there is room for those.
    let mut bench = bench("CAPACITY 4000, OTHER 2");
    let mut model = BTreeMap::new();
    for _ in 0..1500 {
        let n = rng.below(40) as u16;
        let packet = match n % 2 {
            0 => udp(n),
            _ => ip6().tcp(n, 9).bytes(),
        };
        let id = match n % 2 {
            0 => flow(n),
            _ => format!("2001:db8::1 {n} 2001:db8::2 9 tcp"),
        };
        match rng.below(4) {
            0 => {
                let port = rng.below(2);
                bench.write("f.add", &format!("{id} PORT {port}"));
                model.insert(n, port);
            }
            1 => {
                let removed = bench.try_write("f.remove", &id);
                assert_eq!(removed.is_ok(), model.remove(&n).is_some());
            }
            _ => {
                bench.push("c", &[packet]);
                let counts = ["out", "one", "two"].map(|sink| bench.take(sink).len());
                let port = model.get(&n).copied().unwrap_or(2);
                assert_eq!(counts[port], 1, "{n} {counts:?}");
            }
        }
        assert_eq!(bench.read("f.length"), model.len().to_string());
    }
}

#[test]
fn leases_and_idle_flows_end_and_return_their_rates() {
    let mut bench = bench("LINK 1Mbps, IDLE 3s, OTHER 2");
    let wanted = "RATE 8kbps BURST 1500";
    bench.write("f.add", &format!("{} {wanted} LEASE 1s", flow(1)));
    bench.write("f.add", &format!("{} {wanted}", flow(2)));
    bench.write("f.add", &format!("{} {wanted}", flow(3)));
    bench.advance(Duration::from_millis(800));
    assert_eq!(bench.read("f.length"), "3");
    bench.advance(Duration::from_millis(500));
    assert_eq!(
        (bench.read("f.length"), bench.read("f.reserved")),
        ("2".into(), "0 16kbps\n".into())
    );
    for _ in 0..5 {
        bench.push("c", &[udp(3)]);
        bench.advance(Duration::from_secs(1));
    }
    assert_eq!(
        (bench.read("f.length"), bench.read("f.reserved")),
        ("1".into(), "0 8kbps\n".into())
    );
    bench.advance(Duration::from_secs(4));
    assert_eq!(bench.read("f.length"), "0");
}

#[test]
fn a_reload_keeps_flows_their_buckets_and_reservations() {
    let text = |options: &str| {
        format!(
            "c :: MarkIPHeader -> f :: FlowTable({options}) -> out :: Collect; f[1] -> one :: Collect"
        )
    };
    let mut bench = Bench::new(crate::CLASSES, &text("LINK 1Mbps"));
    bench.write(
        "f.add",
        &format!("{} RATE 8kbps BURST 200 PACKET 100", flow(1)),
    );
    bench.push("c", &[udp(1), udp(1)]);
    assert_eq!(bench.take("out").len(), 2);
    assert_eq!(bench.reload(&text("LINK 1Mbps, EXCESS 1")), Ok(()));
    bench.push("c", &[udp(1)]);
    assert_eq!(bench.take("one").len(), 1, "the bucket is still empty");
    assert_eq!(
        bench.reload(&text("LINK 1Mbps, EXCESS 1, CAPACITY 10")),
        Ok(())
    );
    assert_eq!(
        (bench.read("f.length"), bench.read("f.reserved")),
        ("1".into(), "0 8kbps\n".into())
    );
}

#[test]
fn inside_a_network_nothing_is_taken_out() {
    let mut bench = bench("LINK 1Mbps, POLICE false");
    bench.write(
        "f.add",
        &format!("{} RATE 8kbps BURST 100 PACKET 100", flow(1)),
    );
    bench.push("c", &[udp(1), udp(1), udp(1)]);
    assert_eq!(bench.take("out").len(), 3);
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    for (options, wrong) in [
        ("BY colour", "BY must be match"),
        ("K 0", "must not be 0"),
        ("LINK 0bps", "LINK must not be 0"),
        ("OTHER 1", "output 1, which is not connected"),
        (
            "LINK 1Mbps, RESERVABLE 2Mbps",
            "RESERVABLE is more than LINK",
        ),
        ("RESERVABLE 2Mbps", "RESERVABLE is more than LINK"),
    ] {
        let text = format!("Idle -> FlowTable({options}) -> Discard");
        let errors = testkit::errors(crate::CLASSES, &text);
        assert!(errors.contains(wrong), "{errors}");
    }
}

#[test]
fn a_table_that_is_only_planned_takes_no_memory() {
    let pages = || {
        let text = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
        let resident = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        resident.map_or(0, |pages: usize| pages * 4096)
    };
    let before = pages();
    let text = "Idle -> FlowTable(CAPACITY 16777216) -> Idle; Idle -> FlowTable(K 0) -> Idle;";
    let said = testkit::errors(crate::CLASSES, text);
    assert!(said.contains("CAPACITY and K must not be 0"), "{said}");
    assert!(pages() < before + (1 << 30), "the table would take 4 GB");
}
