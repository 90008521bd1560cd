use testkit::Bench;

/// Lines of IPPrint about the packets of a dump, without timestamps.
fn lines(dump: &str, options: &str) -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("test").replace("::", "-");
    let file = std::env::temp_dir().join(format!("ashlar-{}-{name}", std::process::id()));
    let text = format!(
        "FromIPSummaryDump(DATA {}, CHECKSUM true) -> IPPrint(a, OUTFILE {}{options}) -> Discard",
        lang::args::quote(dump),
        file.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    drop(bench);
    let text = std::fs::read_to_string(&file).expect("the file was written");
    let _ = std::fs::remove_file(file);
    text
}

#[test]
fn transport_headers_are_shown_as_click_shows_them() {
    let dump = "!data timestamp link src sport dst dport proto ip_tos\n\
                0 2 18.26.4.44 20 10.0.0.8 80 T 0\n1.5 3 18.26.4.44 20 10.0.0.8 80 U 3\n\
                0 0 1.0.0.1 - 1.0.0.2 - 9 0\n";
    assert_eq!(
        lines(dump, ", TIMESTAMP false, PAINT true"),
        "a: paint 2: 18.26.4.44.20 > 10.0.0.8.80: . 0:0(0,40,40) win 0\n\
         a: paint 3: 18.26.4.44.20 > 10.0.0.8.80: udp 8\n\
         a: paint 0: 1.0.0.1 > 1.0.0.2: ip-proto-9\n"
    );
    assert_eq!(
        lines(dump, ", TOS true").lines().nth(1),
        Some("a: 1.500000: tos 3 18.26.4.44.20 > 10.0.0.8.80: udp 8")
    );
    let dump = "!data src dst tcp_flags tcp_seq tcp_ack tcp_window payload\n\
                1.0.0.1 1.0.0.2 SA 5 6 7 \"\"\n1.0.0.1 1.0.0.2 FP 5 6 7 abc\n";
    assert_eq!(
        lines(dump, ", TIMESTAMP false"),
        "a: 1.0.0.1.0 > 1.0.0.2.0: S 5:6(1,40,40) ack 6 win 7\n\
         a: 1.0.0.1.0 > 1.0.0.2.0: FP 5:9(4,43,43) win 7\n"
    );
}

#[test]
fn icmp_messages_are_named() {
    let dump = "!data src dst proto icmp_type icmp_code icmp_flowid icmp_seq payload\n\
                1.0.0.1 5.0.0.5 I echo 0 10 1 \"\"\n\
                1.0.0.1 5.0.0.5 I timeexceeded 0 - - \"\"\n\
                1.0.0.1 5.0.0.5 I 77 0 - - \"\"\n";
    assert_eq!(
        lines(dump, ", TIMESTAMP false"),
        "a: 1.0.0.1 > 5.0.0.5: icmp echo (10, 1)\n\
         a: 1.0.0.1 > 5.0.0.5: icmp timeexceeded transit\n\
         a: 1.0.0.1 > 5.0.0.5: icmp type 77\n"
    );
}

#[test]
fn fragments_and_contents_are_shown() {
    let dump = "!data src dst proto ip_fragoff payload ip_id\n\
                1.0.0.1 3.0.0.3 U 0+ 0123456789abcdef 7\n\
                1.0.0.1 3.0.0.3 U 24 12345 7\n";
    assert_eq!(
        lines(dump, ", TIMESTAMP false, PAYLOAD ascii"),
        "a: 1.0.0.1.0 > 3.0.0.3.0: udp 24 (frag 7:24@0+)\n  01234567 89abcdef\n\
         a: 1.0.0.1 > 3.0.0.3: udp (frag 7:5@24)\n  12345\n"
    );
    let hex = lines(dump, ", TIMESTAMP false, CONTENTS hex, MAXLENGTH 26");
    assert!(hex.contains("\n  4500002c 00072000 6411"), "{hex}");
    assert_eq!(hex.lines().nth(2).map(str::len), Some(2 + 4), "{hex}");
}

#[test]
fn non_ip_packets_are_labelled() {
    let file = std::env::temp_dir().join(format!("ashlar-{}-no-ip", std::process::id()));
    let text = format!(
        "p :: IPPrint(OUTFILE {}, TIMESTAMP false) -> out :: Collect",
        file.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.push("p", &[b"abc"]);
    assert_eq!(bench.take("out").len(), 1);
    drop(bench);
    let text = std::fs::read_to_string(&file).expect("the file was written");
    let _ = std::fs::remove_file(file);
    assert_eq!(text, "(Not an IP packet)\n");
}
