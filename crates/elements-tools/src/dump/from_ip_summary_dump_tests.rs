use engine::graph::Walker;
use engine::port::NoPorts;
use std::sync::Arc;
use std::time::Duration;
use testkit::Bench;

/// Runs a dump through a configuration. Returns the output of ToIPSummaryDump, without headers.
fn through(dump: &str, options: &str, path: &str, fields: &str) -> String {
    let file = tempfile(&format!("{}{}", fields.len(), dump.len()));
    let text = format!(
        "FromIPSummaryDump(DATA {}{options}) {path} -> to :: ToIPSummaryDump({}, FIELDS {fields}, HEADER false)",
        lang::args::quote(dump),
        file.display(),
    );
    let mut bench = Bench::with(
        crate::with_basics(),
        &text,
        Walker::Strict,
        Arc::new(NoPorts),
    );
    bench.run();
    bench.write("to.flush", "");
    let written = std::fs::read_to_string(&file).expect("the dump was written");
    let _ = std::fs::remove_file(file);
    written
}

fn tempfile(name: &str) -> std::path::PathBuf {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test").replace("::", "-");
    std::env::temp_dir().join(format!("ashlar-{}-{test}-{name}", std::process::id()))
}

/// Checks that lines with complete fields are written unchanged.
fn same(fields: &str, lines: &str) {
    let dump = format!("!data {fields}\n{lines}");
    assert_eq!(through(&dump, "", "", fields), lines);
}

#[test]
fn dump_is_read_and_written_unchanged() {
    same(
        "timestamp ip_src sport ip_dst dport ip_proto ip_ttl ip_id ip_tos",
        "1.000030 1.0.0.2 20 10.0.0.8 80 T 64 7 3\n0.500000 1.0.0.3 1 1.0.0.4 2 U 100 0 0\n",
    );
    same(
        "tcp_seq tcp_ack tcp_flags tcp_window tcp_urp tcp_off",
        "1 4000000000 SA 65535 2 20\n0 0 . 0 0 20\n5 6 FSRPAUECN 1 1 20\n",
    );
    same("ip_fragoff ip_proto", "0 U\n0! T\n8+ T\n1480 I\n");
    same("ip_id ip_frag", "1 F\n2 !\n3 .\n");
    same("ip_ecn ip_dscp", "no 1\nect1 0\nect2 63\nce 9\n");
    same(
        "direction link aggregate count",
        "> 0 7 1\n< 1 8 20\n2 2 9 1\n",
    );
    same(
        "ip_proto icmp_type_name icmp_code_name icmp_flowid icmp_seq icmp_nextmtu",
        "I echo 0 10 11 -\nI unreachable needfrag - - 1400\nI timeexceeded transit - - -\n",
    );
    same("link paint", "3 3\n");
    same("ntimestamp first_timestamp", "1.000000001 0.999999\n");
    same("ts_usec1", "996033261451094\n");
    same("eth_src eth_dst", "00-0A-95-A6-D9-BC 02-00-00-00-00-01\n");
}

#[test]
fn options_are_read_and_written() {
    same(
        "tcp_opt tcp_ntopt tcp_sack",
        "mss1400;wscale10;sackok mss1400;wscale10;sackok sackok\n. . .\n",
    );
    same(
        "tcp_opt",
        "sack95-98;sack100-110\nts669063908:38382731\n98;99=0:5:10\n",
    );
    same(
        "ip_opt",
        "rr{10.0.0.1,20.0.0.2}+5\nssrr{1.0.0.1,1.0.0.2^1.0.0.3}\nts{1,10000,!45}+2++3\n\
         ts.ip{1.0.0.1=1,1.0.0.2=2}+2\nts.preip{1.0.0.1=1^1.0.0.2,1.0.0.3}\n148=0:0\n.\n",
    );
    // Options of one layer do not shift the other's fields.
    same(
        "ip_opt sport tcp_opt ip_hl tcp_off",
        "rr{}+1 7 mss9 28 24\n",
    );
}

#[test]
fn lengths_count_bytes_that_were_not_captured() {
    let dump = "!data ip_src ip_len payload\n1.0.0.1 50 \"HiFart\"\n1.0.0.2 - HiFart\n";
    let fields = "ip_len ip_capture_len payload_len payload";
    assert_eq!(
        through(dump, "", "", fields),
        "50 46 10 \"HiFart\"\n46 46 6 \"HiFart\"\n"
    );
    assert_eq!(
        through(dump, ", CHECKSUM true", "", fields),
        "50 50 10 \"HiFart\\000\\000\\000\\000\"\n46 46 6 \"HiFart\"\n"
    );
}

#[test]
fn payloads_have_digests_and_escapes() {
    let dump = "!data payload\n\"hi there\\n\"\n\"\"\n";
    assert_eq!(
        through(dump, "", "", "payload payload_len payload_md5"),
        "\"hi there\\n\" 9 sy@Uze03MHB84qQruJ_zma\n\"\" 0 u3bJz@iaYsq6aMaMSJVq_b\n"
    );
}

#[test]
fn icmp_headers_are_part_of_the_payload() {
    let dump = "!data ip_proto icmp_type icmp_code ip_len\nI 8 0 28\n";
    assert_eq!(
        through(dump, ", CHECKSUM true", "", "payload_len payload"),
        "8 \"\\010\\000\\367\\377\\000\\000\\000\\000\"\n"
    );
}

#[test]
fn checksums_hold_at_every_layer() {
    let dump = "!data ip_proto payload\nT abc\nU abcd\nI a\n9 -\n";
    assert_eq!(
        through(dump, ", CHECKSUM true", "-> CheckIPHeader", "ip_proto"),
        "T\nU\nI\n9\n"
    );
    let icmp = "!data src dst icmp_type\n!proto I\n18.26.4.44 10.0.0.4 echo\n";
    assert_eq!(
        through(
            icmp,
            ", CHECKSUM true",
            "-> CheckIPHeader -> CheckICMPHeader",
            "src dst icmp_type_name"
        ),
        "18.26.4.44 10.0.0.4 echo\n"
    );
}

#[test]
fn bad_lines_comments_and_further_words_are_passed_over() {
    let dump = "# a comment\n\n!data ip_src unheard_of ip_ttl\n1.0.0.1 x 5 # and more\nrubbish\n- - 6\n1.0.0.2\n";
    assert_eq!(
        through(dump, "", "", "ip_src ip_ttl"),
        "1.0.0.1 5\n0.0.0.0 6\n1.0.0.2 100\n"
    );
    assert_eq!(through("1.0.0.1\n", "", "", "ip_src"), "");
}

#[test]
fn defaults_come_from_keywords_and_directives() {
    let dump = "!flowid 1.0.0.1 10 1.0.0.2 20 U\n!aggregate 5\n1\n!proto 9\n2\n";
    assert_eq!(
        through(
            dump,
            ", FIELDS ip_id",
            "",
            "ip_id src sport dst dport proto aggregate"
        ),
        "1 1.0.0.1 10 1.0.0.2 20 U 5\n2 1.0.0.1 - 1.0.0.2 - 9 5\n"
    );
    assert_eq!(
        through(
            "1\n",
            ", FIELDS ip_id, FLOWID 9.0.0.1 1 9.0.0.2 2, PROTO 17",
            "",
            "src sport dst dport proto"
        ),
        "9.0.0.1 1 9.0.0.2 2 U\n"
    );
}

#[test]
fn names_of_fields_may_be_quoted_and_have_spaces() {
    let dump = "!data \"ip src\" 'tcp seq' \"tcp ack\"\n1.0.0.1 2 3\n";
    for fields in ["src \"tcp seq\" tcp_ack", "\"src tcp_seq tcp_ack\""] {
        assert_eq!(through(dump, "", "", fields), "1.0.0.1 2 3\n");
    }
    let older = "DEFAULT_CONTENTS \"ip id\" ip_ttl, DEFAULT_FLOWID 9.0.0.1 1 9.0.0.2 2, PROTO udp";
    assert_eq!(
        through("7 8\n", &format!(", {older}"), "", "id ttl dport proto"),
        "7 8 2 U\n"
    );
}

#[test]
fn several_packets_of_a_line_may_leave_one_by_one() {
    let dump = "!data first_timestamp timestamp count\n1.0 2.0 3\n";
    assert_eq!(
        through(dump, ", MULTIPACKET true", "", "timestamp count"),
        "1.000000 1\n1.500000 1\n2.000000 1\n"
    );
}

#[test]
fn binary_dumps_are_read_as_text_dumps_are() {
    let file = tempfile("binary");
    let fields =
        "timestamp ip_src dport tcp_opt payload_len count link eth_src ip_fragoff tcp_flags";
    let lines = "1.000002 1.0.0.1 80 mss1400 9 2 3 00-00-00-00-00-07 0! SA\n";
    let text = format!(
        "FromIPSummaryDump(DATA \"!data {fields}\n{lines}\") -> to :: ToIPSummaryDump({}, FIELDS {fields}, BINARY \
            true)",
        file.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    drop(bench);
    let back = tempfile("text");
    let text = format!(
        "FromIPSummaryDump({}) -> ToIPSummaryDump({}, FIELDS {fields}, HEADER false)",
        file.display(),
        back.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    drop(bench);
    let written = std::fs::read_to_string(&back).expect("the dump was written");
    assert_eq!(written, lines);
    for file in [file, back] {
        let _ = std::fs::remove_file(file);
    }
}

#[test]
fn packets_keep_their_delays_with_timing() {
    let mut bench = Bench::strict(
        crate::with_basics(),
        "FromIPSummaryDump(DATA \"!data timestamp ip_id\n5 1\n5.5 2\n7 3\n\", TIMING true) -> out :: Collect",
    );
    bench.run();
    assert_eq!(bench.take("out").len(), 1);
    bench.advance(Duration::from_millis(499));
    assert_eq!(bench.take("out").len(), 0);
    bench.advance(Duration::from_millis(1));
    assert_eq!(bench.take("out").len(), 1);
    bench.advance(Duration::from_millis(1500));
    assert_eq!(bench.take("out").len(), 1);
}

#[test]
fn the_packet_is_as_click_makes_it() {
    let mut bench = Bench::strict(
        crate::with_basics(),
        "f :: FromIPSummaryDump(DATA \"!data ip_dst\n2.0.0.1\n\", ACTIVE false, STOP true) -> out :: Collect",
    );
    bench.run();
    assert!(bench.take("out").is_empty());
    bench.write("f.active", "true");
    bench.run();
    let packets = bench.take_packets("out");
    let [packet] = packets.as_slice() else {
        panic!("there should be one packet, not {packets:?}");
    };
    let head = [
        0x45, 0, 0, 40, 0, 0, 0, 0, 100, 6, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1,
    ];
    assert_eq!(packet.bytes[..20], head);
    assert_eq!(packet.bytes.len(), 40);
    assert_eq!(packet.anno.dst4(), [2, 0, 0, 1]);
    assert!(bench.graph().stopped());
    assert_eq!(bench.read("f.encap"), "IP");
    assert_eq!(bench.read("f.filesize"), "21");
    assert_eq!(bench.read("f.sampling_prob"), "1");
}

#[test]
fn files_that_cannot_be_opened_are_told_before_start() {
    let wrong = std::panic::catch_unwind(|| {
        Bench::new(
            crate::with_basics(),
            "FromIPSummaryDump(/nowhere/dump) -> Discard",
        )
    });
    let wrong = wrong.err().and_then(|e| e.downcast::<String>().ok());
    let wrong = wrong.expect("the router does not start");
    assert!(
        wrong.contains("/nowhere/dump: No such file or directory"),
        "{wrong}"
    );
    let errors = testkit::errors(
        crate::with_basics(),
        "Idle -> ToIPSummaryDump(-, FIELDS sprt)",
    );
    assert!(errors.contains("unknown content type 'sprt'"), "{errors}");
}

#[test]
fn a_header_that_is_cut_off_has_the_fields_that_are_there() {
    let tcp = "!data ip_len sport tcp_seq tcp_flags\n60 7 3 S\n";
    let fields = "sport tcp_seq tcp_flags payload_len payload";
    assert_eq!(
        through(tcp, "", "-> Truncate(30)", fields),
        "7 3 - 20 -\n",
        "as in Click"
    );
    let fields = "tcp_off tcp_opt tcp_sack tcp_window";
    let cut = |bytes: usize| through(tcp, "", &format!("-> Truncate({bytes})"), fields);
    assert_eq!(cut(33), "20 . . -\n", "as in Click");
    assert_eq!(cut(32), "- - - -\n", "as in Click");
    let masks = "!data ip_proto icmp_type icmp_flowid icmp_seq\nI 17 3 4\nI 15 3 4\n";
    let shown = through(masks, "", "", "icmp_flowid icmp_seq");
    assert_eq!(shown, "- -\n3 4\n", "as in Click");
    let icmp = "!data ip_proto icmp_type\nI 8\n";
    assert_eq!(
        through(icmp, "", "-> Truncate(21)", "icmp_type icmp_code"),
        "8 -\n"
    );
}

#[test]
fn columns_that_tell_the_same_count_as_in_click() {
    let shown = |fields: &str, line: &str, shown: &str| {
        through(&format!("!data {fields}\n{line}\n"), "", "", shown)
    };
    for (fields, line) in [
        ("ip_frag ip_fragoff", "f 8+"),
        ("ip_fragoff ip_frag", "8+ f"),
    ] {
        assert_eq!(shown(fields, line, "ip_fragoff"), "8+\n", "{fields}");
    }
    assert_eq!(shown("ip_fragoff ip_frag", "- F", "ip_frag"), "F\n");
    assert_eq!(shown("ip_dscp ip_tos", "10 255", "ip_tos"), "255\n");
    assert_eq!(shown("ip_tos ip_dscp", "255 10", "ip_tos"), "43\n");
    assert_eq!(shown("ip_ecn ip_tos", "ce 252", "ip_tos"), "252\n");
    assert_eq!(shown("ip_tos ip_ecn", "252 ce", "ip_tos"), "255\n");
    assert_eq!(shown("wire_len payload_len", "50 100", "ip_len"), "50\n");
    assert_eq!(shown("ip_len", "0", "ip_len"), "40\n");
}

#[test]
fn an_icmp_header_is_whole_where_its_payload_is_shorter() {
    let text = "FromIPSummaryDump(DATA \"!data ip_proto icmp_type payload_len ip_len
I 8 3 -\nI 8 - 23\n\", CHECKSUM true) -> out :: Collect";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    let packets = bench.take("out");
    assert_eq!((packets[0].len(), packets[0][3]), (28, 23));
    assert_eq!(packets[0][20..], [8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    assert_eq!((packets[1].len(), packets[1][3]), (28, 23));
    let text = "FromIPSummaryDump(DATA \"!data ip_proto sport ip_len
I 1 23\nU 1 23\nI 1 0\nI 1 -\n\", CHECKSUM true) -> out :: Collect";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    let lengths: Vec<_> = bench.take("out").iter().map(Vec::len).collect();
    assert_eq!(lengths, [23, 23, 28, 28], "as in Click");
}

#[test]
fn the_payload_of_icmp_stands_over_its_header() {
    let text = "FromIPSummaryDump(DATA \"!data ip_proto icmp_type icmp_seq payload
I 8 2 abc\nI - - abcdefghij\n\") -> out :: Collect";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    let packets = bench.take("out");
    assert_eq!(
        (packets[0][3], &packets[0][20..]),
        (23, b"abc\0\0\0\0\x02".as_slice())
    );
    assert_eq!(
        (packets[1][3], &packets[1][20..]),
        (30, b"abcdefghij".as_slice())
    );
}

#[test]
fn timestamps_of_tcp_are_aligned() {
    let text =
        "FromIPSummaryDump(DATA \"!data tcp_opt\nts1:2\n\", CHECKSUM true) -> out :: Collect";
    let mut bench = Bench::strict(crate::with_basics(), text);
    bench.run();
    let options = bench.take("out")[0][40..].to_vec();
    assert_eq!(options, [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
}

#[test]
fn lengths_and_offsets_are_those_of_click() {
    for (fields, line, shown, written) in [
        ("ip_proto payload_len", "I 100", "ip_len", "120"),
        ("ip_proto payload_len", "U 100", "ip_len", "128"),
        ("ip_proto ip_len", "T 20", "ip_capture_len", "20"),
        ("ip_fragoff ip_id", "1481+ 7", "ip_fragoff", "1480+"),
        ("eth_src ip_id", "00-0A-95-A6-D9-BC 7", "eth_type", "0800"),
    ] {
        let dump = format!("!data {fields}\n{line}\n");
        assert_eq!(through(&dump, "", "", shown), format!("{written}\n"));
    }
    let nothing = through("!data sport dport\n- -\n", "", "", "sport");
    assert_eq!(nothing, "", "a line of '-' is none");
}
