use testkit::Bench;

/// Runs a dump through AggregateIPFlows; returns `ip_id aggregate paint` of the output, in order.
fn flows(options: &str, fields: &str, lines: &str) -> (Vec<String>, u64) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test").replace("::", "-");
    let name = format!("ashlar-{}-{test}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let text = format!(
        "FromIPSummaryDump(DATA \"!data {fields}\n{lines}\") -> af :: AggregateIPFlows({options})
            -> ToIPSummaryDump({}, FIELDS ip_id aggregate link, HEADER false)",
        file.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    bench.write("af.clear", "");
    let dropped = bench.drops("af", "no_flow");
    drop(bench);
    let text = std::fs::read_to_string(&file).expect("the dump was written");
    let _ = std::fs::remove_file(file);
    (text.lines().map(str::to_owned).collect(), dropped)
}

#[test]
fn a_flow_beyond_the_capacity_ends_the_one_that_was_idle_longest() {
    let text = "c :: CheckIPHeader -> f :: AggregateIPFlows(CAPACITY 2, REAP 1000)
        -> l :: AggregateLast(NOTIFIER f) -> out :: Collect; l[1] -> earlier :: Collect";
    let mut bench = testkit::Bench::new(crate::with_basics(), text);
    let flow = |port| testkit::ip4().udp(port, 9).bytes();
    // A continuing flow is not replaced by flows of a single packet.
    for port in 2..50 {
        bench.push("c", &[flow(1), flow(port)]);
    }
    let earlier = bench.take_packets("earlier");
    assert_eq!(earlier.len(), 47);
    assert!(earlier.iter().all(|p| p.cold.aggregate() == 1));
    assert_eq!(bench.read("f.nflows"), "2");
    assert_eq!(bench.read("f.evicted"), "47");
    // Their ends are reported: a listener keeps no more entries than there are flows.
    bench.push("c", &[flow(1)]);
    assert_eq!(bench.take("out").len(), 47);
}

#[test]
fn flows_are_numbered_and_directions_painted() {
    let (seen, dropped) = flows(
        "",
        "ip_id proto src sport dst dport",
        "1 T 1.0.0.1 10 1.0.0.2 20\n2 U 1.0.0.1 10 1.0.0.2 20\n3 T 1.0.0.2 20 1.0.0.1 10\n\
         4 I 1.0.0.1 - 1.0.0.2 -\n5 T 1.0.0.1 11 1.0.0.2 20\n",
    );
    assert_eq!(seen, ["1 1 0", "2 2 0", "3 1 1", "5 3 0"]);
    assert_eq!(dropped, 1);
}

#[test]
fn flows_end_after_a_time_and_completed_ones_earlier() {
    let fields = "timestamp ip_id proto src sport dst dport tcp_flags";
    let (seen, _) = flows(
        "TCP_TIMEOUT 100, TCP_DONE_TIMEOUT 10",
        fields,
        "1 1 T 1.0.0.1 10 1.0.0.2 20 A\n90 2 T 1.0.0.1 10 1.0.0.2 20 F\n\
         91 3 T 1.0.0.2 20 1.0.0.1 10 FA\n95 4 T 1.0.0.1 10 1.0.0.2 20 A\n\
         106 5 T 1.0.0.2 20 1.0.0.1 10 S\n300 6 T 1.0.0.2 20 1.0.0.1 10 A\n",
    );
    assert_eq!(seen, ["1 1 0", "2 1 0", "3 1 1", "4 1 0", "5 2 0", "6 3 0"]);
}

#[test]
fn fragments_wait_for_the_first_and_others_wait_behind_them() {
    let fields = "timestamp ip_id proto src sport dst dport ip_fragoff payload";
    let lines = "1 7 U 1.0.0.1 - 1.0.0.2 - 24 x\n1 8 U 1.0.0.2 5 1.0.0.1 6 0 x\n\
                 1 9 U 3.0.0.1 5 3.0.0.2 6 0 x\n1 7 U 1.0.0.1 6 1.0.0.2 5 0+ x\n\
                 2 7 U 1.0.0.1 - 1.0.0.2 - 48 x\n3 6 U 1.0.0.1 - 1.0.0.2 - 48 x\n";
    let (seen, dropped) = flows("", fields, lines);
    assert_eq!(seen, ["9 1 0", "7 2 0", "8 2 1", "7 2 0", "7 2 0"]);
    assert_eq!(dropped, 1);
    let (seen, dropped) = flows("FRAGMENTS false", fields, lines);
    assert_eq!(seen, ["8 1 0", "9 2 0", "7 1 1"]);
    assert_eq!(dropped, 3);
}

#[test]
fn fragments_do_not_wait_for_ever() {
    let fields = "timestamp ip_id proto src dst ip_fragoff";
    let (seen, dropped) = flows(
        "FRAGMENT_TIMEOUT 5",
        fields,
        "1 1 U 1.0.0.1 1.0.0.2 24\n9 2 U 1.0.0.1 1.0.0.2 0\n",
    );
    assert_eq!(seen, ["2 1 0"]);
    assert_eq!(dropped, 1);
}

#[test]
fn a_syn_begins_another_flow_after_a_reset_or_two_fins() {
    let fields = "timestamp ip_id proto src sport dst dport tcp_flags";
    let (seen, _) = flows(
        "TCP_DONE_TIMEOUT 10",
        fields,
        "1 1 T 1.0.0.1 10 1.0.0.2 20 S\n1 2 T 1.0.0.2 20 1.0.0.1 10 RA\n\
         1 3 T 1.0.0.1 10 1.0.0.2 20 A\n1 4 T 1.0.0.2 20 1.0.0.1 10 S\n\
         2 5 T 1.0.0.2 20 1.0.0.1 10 F\n2 6 T 1.0.0.2 20 1.0.0.1 10 S\n\
         2 7 T 1.0.0.1 10 1.0.0.2 20 F\n2 8 T 1.0.0.1 10 1.0.0.2 20 SA\n\
         3 9 T 1.0.0.1 10 1.0.0.2 20 R\n14 10 T 1.0.0.1 10 1.0.0.2 20 A\n",
    );
    assert_eq!(
        seen,
        [
            "1 1 0", "2 1 1", "3 1 0", "4 2 0", "5 2 0", "6 2 0", "7 2 1", "8 3 0", "9 3 0",
            "10 4 0"
        ]
    );
}
