use crate::ip4::tests::{Random, edited, ip, make};
use std::time::Duration;
use testkit::Bench;
use wire::Ipv4;
use wire::ipv4::MF;
use wire::ipv4_options::{LSRR, NOP, RR};

const ALONE: &str = "c :: CheckIPHeader -> r :: IPReassembler -> out :: Collect";

/// The packet's bytes `from..to` of payload as a fragment.
fn piece(packet: &[u8], from: usize, to: usize) -> Vec<u8> {
    let whole = Ipv4::new_checked(packet).unwrap();
    let (header, payload) = (whole.header(), whole.payload());
    let more = if to < payload.len() { MF } else { 0 };
    edited([header, &payload[from..to]].concat(), |ip| {
        ip.set_total_len((header.len() + to - from) as u16);
        ip.set_fragment_word(more | (from / 8) as u16);
    })
}

fn packet(ident: u16, len: usize) -> Vec<u8> {
    let payload = Random(u64::from(ident) + 1).bytes(len);
    edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &payload), |ip| {
        ip.set_ident(ident);
    })
}

#[test]
fn fragments_in_any_order_are_reassembled_to_the_original() {
    let mut random = Random(5);
    for round in 0..300 {
        let mtu = 68 + random.below(300);
        let text = format!("c :: CheckIPHeader -> IPFragmenter({mtu}) -> out :: Collect");
        let mut cutter = Bench::new(crate::CLASSES, &text);
        let options: &[u8] = match random.below(3) {
            0 => &[],
            1 => &[NOP, RR, 7, 4, 0, 0, 0, 0],
            _ => &[LSRR, 7, 8, 9, 9, 9, 9, NOP],
        };
        let packets: Vec<_> = (0..3)
            .map(|i| {
                let len = random.below(1500);
                let payload = random.bytes(len);
                edited(make([1, 1, 1, 1], [2, 2, 2, 2], options, &payload), |ip| {
                    ip.set_ident(round * 3 + i);
                })
            })
            .collect();
        cutter.push("c", &packets);
        let mut fragments = cutter.take("out");
        random.shuffle(&mut fragments);
        let mut bench = Bench::new(crate::CLASSES, ALONE);
        bench.push("c", &fragments);
        let mut out = bench.take("out");
        out.sort_by_key(|p| Ipv4::new_checked(p).unwrap().ident());
        assert_eq!(out, packets);
        assert_eq!(bench.read("r.waiting"), "0");
        let merged = fragments.len() - packets.len();
        assert_eq!(bench.drops("r", "merged"), merged as u64);
    }
}

#[test]
fn packets_of_every_length_come_together_and_are_cut_again() {
    let text = ALONE.replace("-> out", "-> IPFragmenter(1500) -> out");
    let mut random = Random(3);
    for len in [2000, 2100, 2200, 8000, 40_000, 65_000, 65_515] {
        let packet = packet(7, len);
        let mut parts: Vec<_> = (0..len)
            .step_by(1480)
            .map(|from| piece(&packet, from, (from + 1480).min(len)))
            .collect();
        random.shuffle(&mut parts);
        let mut bench = Bench::new(crate::CLASSES, ALONE);
        bench.push("c", &parts);
        assert!(bench.take("out") == [packet], "{len}");
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("c", &parts);
        parts.sort_by_key(|p| Ipv4::new_checked(p).unwrap().fragment_offset());
        assert!(bench.take("out") == parts, "{len}");
    }
}

#[test]
fn the_path_reports_lost_time_with_the_first_fragment() {
    let text = format!("{ALONE}; r[1] -> late :: Collect");
    let mut bench = Bench::new(crate::CLASSES, &text);
    let (a, b) = (packet(1, 100), packet(2, 100));
    bench.push(
        "c",
        &[piece(&a, 0, 48), piece(&a, 48, 96), piece(&b, 48, 100)],
    );
    bench.advance(Duration::from_secs(59));
    assert_eq!(bench.read("r.waiting"), "3");
    bench.advance(Duration::from_secs(1));
    assert_eq!(bench.take("late"), [piece(&a, 0, 48)]);
    assert_eq!(bench.drops("r", "timeout"), 2);
    assert_eq!(bench.read("r.waiting"), "0");
    bench.push("c", &[piece(&a, 96, 100)]);
    assert_eq!(bench.take("out").len(), 0, "it begins anew");
}

#[test]
fn repeated_fragments_do_no_harm() {
    let mut bench = Bench::new(crate::CLASSES, ALONE);
    let a = packet(1, 100);
    let (head, tail) = (piece(&a, 0, 48), piece(&a, 48, 100));
    bench.push("c", &[&head, &head, &tail]);
    assert_eq!(bench.take("out"), [a]);
    assert_eq!(bench.drops("r", "duplicate"), 1);
}

#[test]
fn fragments_that_contradict_each_other_take_their_packet_down() {
    let (a, other) = (packet(1, 100), packet(9, 100));
    let forged = |from, to| edited(piece(&other, from, to), |ip| ip.set_ident(1));
    for (first, second) in [
        (piece(&a, 0, 48), forged(40, 80)),
        (piece(&a, 0, 48), forged(0, 48)),
        (piece(&a, 48, 96), forged(40, 56)),
        (
            piece(&a, 48, 100),
            edited(forged(48, 100), |ip| ip.set_fragment_word(MF | 20)),
        ),
        (
            piece(&a, 48, 100),
            edited(forged(80, 100), |ip| ip.set_fragment_word(20)),
        ),
        (
            piece(&a, 48, 96),
            edited(forged(80, 100), |ip| ip.set_fragment_word(2)),
        ),
    ] {
        let (first, second) = (aligned(first), aligned(second));
        let mut bench = Bench::new(crate::CLASSES, ALONE);
        bench.push("c", &[first, second]);
        assert_eq!(bench.drops("r", "overlap"), 2);
        assert_eq!(bench.read("r.waiting"), "0");
    }
}

/// A fragment cut to a multiple of 8 bytes if others follow it.
fn aligned(mut fragment: Vec<u8>) -> Vec<u8> {
    let ip = Ipv4::new_checked(&fragment[..]).unwrap();
    let len = ip.payload().len();
    if ip.more_fragments() && !len.is_multiple_of(8) {
        fragment.truncate(20 + len / 8 * 8);
        let total = fragment.len() as u16;
        return edited(fragment, |ip| ip.set_total_len(total));
    }
    fragment
}

#[test]
fn impossible_fragments_are_dropped_by_name() {
    let mut bench = Bench::new(crate::CLASSES, ALONE);
    let odd = edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &[0; 12]), |ip| {
        ip.set_fragment_word(MF);
    });
    let empty = edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &[]), |ip| {
        ip.set_fragment_word(9);
    });
    let beyond = edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &[0; 80]), |ip| {
        ip.set_fragment_word(0x1fff);
    });
    bench.push("c", &[odd, empty, beyond]);
    assert_eq!(bench.drops("r", "bad_fragment"), 2);
    assert_eq!(bench.drops("r", "too_long"), 1);
}

#[test]
fn a_flood_of_fragments_pushes_the_oldest_out() {
    let himem = 16 * engine::packet::pool::data_bytes();
    let text = format!("c :: CheckIPHeader -> r :: IPReassembler(HIMEM {himem}) -> out :: Collect");
    let mut bench = Bench::new(crate::CLASSES, &text);
    for ident in 0..1000 {
        bench.push("c", &[piece(&packet(ident, 100), 0, 48)]);
        let waiting: usize = bench.read("r.waiting").parse().unwrap();
        assert!(waiting <= 16);
    }
    let young = packet(999, 100);
    bench.push("c", &[piece(&young, 48, 100)]);
    assert_eq!(bench.take("out"), [young]);
    let waiting: u64 = bench.read("r.waiting").parse().unwrap();
    assert_eq!(bench.drops("r", "evicted") + waiting, 999);
}

#[test]
fn whole_packets_pass_in_their_order() {
    let mut bench = Bench::new(crate::CLASSES, ALONE);
    let (a, b, c) = (packet(1, 10), packet(2, 100), packet(3, 10));
    bench.push("c", &[piece(&b, 0, 48)]);
    bench.push("c", &[a.clone(), piece(&b, 48, 100), c.clone()]);
    assert_eq!(bench.take("out"), [a, b, c]);
}

#[test]
fn waiting_fragments_survive_a_change_of_configuration() {
    let mut bench = Bench::new(crate::CLASSES, ALONE);
    let a = packet(1, 100);
    bench.push("c", &[piece(&a, 0, 48)]);
    let text = ALONE.replace("IPReassembler", "IPReassembler(TIMEOUT 5s)");
    bench.reload(&text).unwrap();
    bench.push("c", &[piece(&a, 48, 100)]);
    assert_eq!(bench.take("out"), [a]);
}

#[test]
fn the_longest_fragment_is_noted_on_demand() {
    let text = "c :: CheckIPHeader -> r :: IPReassembler(MAX_MTU_ANNO 20) -> out :: Collect";
    let mut bench = Bench::new(crate::CLASSES, text);
    let whole = packet(1, 100);
    bench.push(
        "c",
        &[piece(&whole, 64, 100), piece(&whole, 0, 64), packet(2, 9)],
    );
    let out = bench.take_packets("out");
    let noted = |i: usize| u16::from_ne_bytes([out[i].cold.user[20], out[i].cold.user[21]]);
    assert_eq!((noted(0), noted(1)), (84, 0));
}

#[test]
fn clicks_driver_counts_bytes_and_waits_for_half_a_minute() {
    let text = "c :: CheckIPHeader -> r :: IPReassembler(HIMEM 400) -> out :: Collect";
    let mut bench = Bench::click(crate::CLASSES, text);
    for ident in 1..=4 {
        bench.push("c", &[piece(&packet(ident, 100), 0, 80)]);
    }
    assert_eq!(bench.read("r.waiting"), "4");
    bench.push("c", &[piece(&packet(5, 100), 0, 80)]);
    assert_eq!(
        (bench.read("r.waiting"), bench.drops("r", "evicted")),
        ("3".into(), 2)
    );
    bench.advance(Duration::from_secs(29));
    assert_eq!(bench.read("r.waiting"), "3");
    bench.advance(Duration::from_secs(1));
    assert_eq!(bench.drops("r", "timeout"), 3);
}

#[test]
fn clicks_driver_puts_overlapping_fragments_together() {
    let mut bench = Bench::click(crate::CLASSES, ALONE);
    let whole = packet(1, 100);
    let mut other = piece(&whole, 40, 80);
    other[20..44].fill(0);
    let other = edited(other, |_| {});
    bench.push(
        "c",
        &[
            piece(&whole, 0, 64),
            other,
            piece(&whole, 72, 100),
            piece(&whole, 8, 24),
        ],
    );
    assert_eq!(bench.take("out"), [whole]);
    assert_eq!(bench.drops("r", "merged"), 2);
    assert_eq!(bench.read("r.waiting"), "1");
}

#[test]
fn clicks_driver_gives_what_has_come_of_a_packet_whose_time_is_over() {
    let text =
        "c :: CheckIPHeader -> r :: IPReassembler -> out :: Collect; r[1] -> part :: Collect";
    let mut bench = Bench::click(crate::CLASSES, text);
    let whole = packet(1, 100);
    bench.push("c", &[piece(&whole, 0, 16)]);
    bench.advance(Duration::from_secs(20));
    bench.push("c", &[piece(&whole, 64, 100)]);
    bench.push("c", &[piece(&packet(2, 100), 64, 100)]);
    bench.advance(Duration::from_secs(29));
    assert!(bench.take("part").is_empty());
    bench.advance(Duration::from_secs(1));
    let part = &bench.take("part")[0];
    assert_eq!(part[20..36], whole[20..36]);
    assert_eq!(part[36..84], [0; 48]);
    assert_eq!(part[84..], whole[84..]);
    assert!(Ipv4::new_checked(part).unwrap().verify_checksum());
    assert_eq!(bench.drops("r", "timeout"), 2);
    assert_eq!(bench.read("r.waiting"), "0");
}
