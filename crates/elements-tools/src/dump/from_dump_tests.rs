use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::Bench;

fn tempfile(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ashlar-{}-{name}", std::process::id()))
}

/// Writes IP packets to a capture file with ToDump: three, half a second apart, from 10 s on.
fn capture(name: &str, options: &str) -> PathBuf {
    let file = tempfile(name);
    let text = format!(
        "FromIPSummaryDump(DATA \"!data timestamp ip_id ip_len\n10 1 40\n10.5 2 99\n11 3 40\n\")
         -> to :: ToDump({}{options})",
        file.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    assert_eq!(bench.read("to.count"), "3");
    file
}

/// Packets of a FromDump with some options: identifications and lengths.
/// A router that passes the packets of a file on to `to`.
fn dump(file: &Path, options: &str, to: &str) -> Bench {
    let text = format!("f :: FromDump({}{options}) -> {to}", file.display());
    Bench::strict(crate::with_basics(), &text)
}

fn ids(file: &Path, options: &str) -> Vec<u8> {
    let text = format!("FromDump({}{options}) -> out :: Collect", file.display());
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    bench.take("out").iter().map(|bytes| bytes[5]).collect()
}

#[test]
fn written_packets_are_read_with_times_and_lengths() {
    let file = capture("dump-a", ", ENCAP IP, SNAPLEN 30");
    let back = tempfile("dump-a-back");
    let text = format!(
        "f :: FromDump({}, STOP true, FORCE_IP true) -> ToIPSummaryDump({}, HEADER false, \
         FIELDS timestamp ip_id ip_len ip_capture_len, CAREFUL_TRUNC false)",
        file.display(),
        back.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    assert!(bench.graph().stopped());
    assert_eq!(bench.read("f.encap"), "IP");
    assert_eq!(bench.read("f.count"), "3");
    assert_eq!(bench.read("f.filesize"), (24 + 3 * (16 + 30)).to_string());
    let at_end = bench.read("f.packet_filepos");
    assert_eq!(at_end, (24 + 3 * 46).to_string(), "as in Click");
    drop(bench);
    let text = std::fs::read_to_string(&back).expect("the dump was written");
    assert_eq!(
        text,
        "10.000000 1 40 30\n10.500000 2 99 30\n11.000000 3 40 30\n"
    );
    for file in [file, back] {
        let _ = std::fs::remove_file(file);
    }
}

#[test]
fn a_window_of_times_can_be_taken() {
    let file = capture("dump-b", ", ENCAP IP, NANO true");
    assert_eq!(ids(&file, ""), [1, 2, 3]);
    assert_eq!(ids(&file, ", START 10.5"), [2, 3]);
    assert_eq!(ids(&file, ", START_AFTER 600ms"), [3]);
    assert_eq!(ids(&file, ", END 11"), [1, 2]);
    assert_eq!(ids(&file, ", START 10.2, INTERVAL 0.5"), [2]);
    assert_eq!(ids(&file, ", END_AFTER 0.5"), [1]);
    assert_eq!(ids(&file, ", FILEPOS 80"), [2, 3]);
    assert_eq!(ids(&file, ", SAMPLE 0"), []);
    let _ = std::fs::remove_file(file);
}

#[test]
fn an_extended_window_goes_on() {
    let file = capture("dump-c", ", ENCAP IP");
    let mut bench = dump(&file, ", END 10.5", "out :: Collect");
    bench.run();
    assert_eq!(bench.take("out").len(), 1);
    assert_eq!(bench.read("f.active"), "false");
    bench.write("f.extend_interval", "0.5");
    bench.run();
    assert_eq!(bench.take("out").len(), 1);
    bench.write("f.filepos", "24");
    bench.write("f.active", "true");
    bench.run();
    assert_eq!(bench.take("out").len(), 3, "the end was passed");
    let _ = std::fs::remove_file(file);
}

#[test]
fn an_end_with_a_call_is_passed_and_counts_once() {
    let file = capture("dump-j", ", ENCAP IP");
    let options = ", END 10.5, END_CALL s.run";
    for way in ["Discard", "Unqueue -> Discard"] {
        let to = format!("{way}; s :: Script(TYPE PASSIVE)");
        let mut bench = dump(&file, options, &to);
        bench.run();
        assert_eq!(bench.read("f.active"), "true", "as in Click");
        assert_eq!(bench.read("f.count"), "3", "as in Click");
    }
    let _ = std::fs::remove_file(file);
}

#[test]
fn extending_a_window_without_an_end_does_nothing() {
    let file = capture("dump-i", ", ENCAP IP");
    let mut bench = dump(&file, ", ACTIVE false", "Discard");
    bench.write("f.extend_interval", "5");
    assert_eq!(bench.read("f.active"), "false");
    let _ = std::fs::remove_file(file);
}

/// A script that counts its runs: its answer is the number of the run.
const COUNTS: &str = "s :: Script(TYPE PASSIVE, init n 0, set n $(add $n 1), return $n)";

#[test]
fn an_end_without_a_window_can_be_extended() {
    let file = capture("dump-k", ", ENCAP IP");
    let options = ", ACTIVE false, END_CALL s.run";
    let mut bench = dump(&file, options, &format!("Discard; {COUNTS}"));
    bench.run();
    bench.write("f.extend_interval", "10.5");
    bench.run();
    assert_eq!(bench.read("f.count"), "3");
    let runs = bench.read("s.run");
    assert_eq!(
        runs, "3",
        "the window's end, the file's, and this one, as in Click"
    );
    let _ = std::fs::remove_file(file);
}

#[test]
fn an_end_is_told_once_also_to_those_who_pull() {
    let file = capture("dump-l", ", ENCAP IP");
    let options = ", SAMPLE 0, END_CALL s.run";
    let mut bench = dump(&file, options, &format!("Unqueue -> Discard; {COUNTS}"));
    bench.run();
    bench.write("f.active", "true");
    bench.run();
    assert_eq!(bench.read("s.run"), "3", "one for each end, and this one");
    let _ = std::fs::remove_file(file);
}

#[test]
fn a_file_that_is_cut_off_is_read_up_to_its_end() {
    let file = capture("dump-m", ", ENCAP IP");
    let whole = std::fs::read(&file).expect("it was written");
    // A record has a header of 16 bytes, and here a packet of 40.
    let second = 24 + 56;
    for (kept, starts) in [
        (second + 7, second),
        (second + 30, second),
        (27, 24),
        (24, 24),
    ] {
        std::fs::write(&file, &whole[..kept]).expect("it can be written");
        let mut bench = dump(&file, "", "Discard");
        assert_eq!(bench.read("f.packet_filepos"), "0");
        bench.run();
        assert_eq!(bench.read("f.filepos"), kept.to_string());
        assert_eq!(bench.read("f.packet_filepos"), starts.to_string());
        bench.write("f.active", "true");
        bench.run();
        assert_eq!(
            bench.read("f.packet_filepos"),
            kept.to_string(),
            "as in Click"
        );
    }
    let _ = std::fs::remove_file(file);
}

#[test]
fn ipv6_packets_are_ip_too() {
    let file = tempfile("dump-n");
    let out = std::fs::File::create(&file).expect("it can be written");
    let head = captures::FileHeader {
        link: 101,
        ..captures::FileHeader::default()
    };
    let mut writer = captures::Writer::with_header(out, head).expect("it can be written");
    let packet = [[0x60].as_slice(), &[0; 39]].concat();
    for len in [40, 39] {
        writer.write(0, &packet[..len]).expect("it can be written");
    }
    drop(writer);
    let mut bench = dump(&file, "", "out :: Collect; f[1] -> other :: Collect");
    bench.run();
    assert_eq!(bench.take("other").len(), 1);
    let packets = bench.take_packets("out");
    assert_eq!(
        (packets.len(), packets[0].anno.transport),
        (1, packets[0].anno.network + 40)
    );
    let _ = std::fs::remove_file(file);
}

#[test]
fn arguments_that_fit_no_file_are_refused() {
    let said = testkit::errors(crate::with_basics(), "FromDump(a b) -> Discard");
    assert!(said.contains("quotes"), "{said}");
    let file = tempfile("dump-o");
    let head = captures::FileHeader {
        link: 999,
        ..captures::FileHeader::default()
    };
    let out = std::fs::File::create(&file).expect("it can be written");
    drop(captures::Writer::with_header(out, head));
    let text = format!("FromDump({}, FORCE_IP true) -> Discard", file.display());
    let started = std::panic::catch_unwind(|| Bench::strict(crate::with_basics(), &text));
    let said = started.err().and_then(|e| e.downcast::<String>().ok());
    let said = said.expect("the router does not start");
    assert!(said.contains("unknown linktype 999"), "{said}");
    let _ = std::fs::remove_file(file);
}

#[test]
fn an_end_that_was_reached_is_passed_by_active() {
    let file = capture("dump-f", ", ENCAP IP");
    let mut bench = dump(&file, ", END 10.5", "out :: Collect");
    bench.run();
    assert_eq!(bench.take("out").len(), 1);
    bench.write("f.active", "true");
    bench.run();
    assert_eq!(bench.take("out").len(), 2);
    let _ = std::fs::remove_file(file);
}

#[test]
fn a_packet_that_waits_keeps_its_time_when_timing_starts_again() {
    let file = capture("dump-g", "");
    let mut bench = dump(&file, ", TIMING true", "out :: Collect");
    bench.run();
    assert_eq!(bench.take("out").len(), 1);
    bench.write("f.reset_timing", "");
    bench.advance(Duration::from_millis(400));
    assert_eq!(bench.take("out").len(), 0);
    bench.advance(Duration::from_millis(100));
    assert_eq!(
        bench.take("out").len(),
        2,
        "the packet that was read then is the first"
    );
    let _ = std::fs::remove_file(file);
}

#[test]
fn packets_of_an_ip_file_are_marked() {
    let file = capture("dump-h", ", ENCAP IP");
    let text = format!("FromDump({}) -> out :: Collect", file.display());
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    let packets = bench.take_packets("out");
    assert_eq!(packets.len(), 3);
    assert!(packets.iter().all(|packet| packet.anno.network != 0));
    let _ = std::fs::remove_file(file);
}

#[test]
fn delays_are_kept_and_what_is_not_ip_goes_aside() {
    // These packets contain no IP when they are read as Ethernet frames.
    let file = capture("dump-d", "");
    let text = format!(
        "f :: FromDump({}, TIMING true, FORCE_IP true) -> out :: Collect; f[1] -> other :: Collect",
        file.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    assert_eq!(bench.take("other").len(), 1, "they keep their delays, too");
    bench.advance(Duration::from_secs(1));
    assert_eq!(bench.take("other").len(), 2);
    let text = format!(
        "FromDump({}, TIMING true) -> out :: Collect",
        file.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    assert_eq!(bench.take("out").len(), 1);
    bench.advance(Duration::from_millis(500));
    assert_eq!(bench.take("out").len(), 1);
    let _ = std::fs::remove_file(file);
}

#[test]
fn the_encapsulation_can_come_from_another_element() {
    let file = capture("dump-e", ", ENCAP IP");
    let copy = tempfile("dump-e-copy");
    let text = format!(
        "f :: FromDump({}) -> ToDump({}, USE_ENCAP_FROM f)",
        file.display(),
        copy.display()
    );
    let mut bench = Bench::strict(crate::with_basics(), &text);
    bench.run();
    drop(bench);
    let read = |path| std::fs::read(path).expect("the file is there");
    assert_eq!(read(&file), read(&copy));
    for file in [file, copy] {
        let _ = std::fs::remove_file(file);
    }
}
