use super::super::testing::{both, ip6};
use std::time::Duration;
use testkit::Bench;
use wire::ext;

const TEXT: &str = "r :: IP6Reassembler(DATAGRAMS 4) -> out :: Collect;
        r[1] -> late :: Collect; r[2] -> told :: Collect";
const SRC: &str = "2001:db8::1";
const DST: &str = "2001:db8::ff";

/// A fragment of a UDP packet's body.
fn part(ident: u32, body: &[u8], from: usize, to: usize) -> Vec<u8> {
    let more = to < body.len();
    let header = ext::fragment_header(17, from, more, ident);
    ip6(SRC, DST, 44, 64, &[&header[..], &body[from..to]].concat())
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

fn whole(body: &[u8]) -> Vec<u8> {
    ip6(SRC, DST, 17, 64, body)
}

fn lost(bench: &Bench, name: &str) -> u64 {
    bench.drops("r", name)
}

#[test]
fn fragments_in_every_order_make_the_packet_that_was_cut() {
    let data = body(53);
    let cuts = [(0, 16), (16, 24), (24, 48), (48, 53)];
    both(TEXT, |bench| {
        let mut order = vec![0, 1, 2, 3];
        for n in 0..24u32 {
            let parts: Vec<_> = order
                .iter()
                .map(|&i: &usize| part(n, &data, cuts[i].0, cuts[i].1))
                .collect();
            bench.push("r", &parts[..3]);
            assert!(bench.take("out").is_empty());
            bench.push("r", &parts[3..]);
            assert_eq!(bench.take("out"), [whole(&data)], "{order:?}");
            // The next permutation.
            let at = (0..3).rev().find(|&i| order[i] < order[i + 1]);
            if let Some(at) = at {
                let to = (at + 1..4).rev().find(|&i| order[i] > order[at]).unwrap();
                order.swap(at, to);
                order[at + 1..].reverse();
            }
        }
        assert_eq!(lost(bench, "merged"), 24 * 3);
        assert_eq!(bench.read("r.length"), "0");
    });
}

#[test]
fn fragments_of_any_length_and_headers_are_reassembled() {
    let text = "f :: IP6Fragmenter(1280) -> r :: IP6Reassembler -> out :: Collect";
    both(text, |bench| {
        let mut random = 1u64;
        for _ in 0..300 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            let data = body(8 + (random >> 33) as usize % 1800);
            let packet = match random >> 62 {
                0 => whole(&data),
                1 => ip6(
                    SRC,
                    DST,
                    0,
                    9,
                    &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &data].concat(),
                ),
                2 => ip6(
                    SRC,
                    DST,
                    60,
                    9,
                    &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &data].concat(),
                ),
                _ => {
                    let chain = [0x2b, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0];
                    ip6(SRC, DST, 0, 9, &[&chain[..], &data].concat())
                }
            };
            bench.push("f", &[&packet]);
            assert_eq!(bench.take("out"), [packet]);
        }
    });
}

#[test]
fn a_whole_packet_loses_its_fragment_header_and_meets_no_others() {
    both(TEXT, |bench| {
        let data = body(40);
        bench.push("r", &[part(7, &data, 0, 16)]);
        bench.push("r", &[part(7, &data[..20], 0, 20)]);
        assert_eq!(bench.take("out"), [whole(&data[..20])]);
        bench.push("r", &[part(7, &data, 16, 40)]);
        assert_eq!(bench.take("out"), [whole(&data)]);
        let other = ip6(SRC, DST, 58, 64, b"\x80\0\0\0\0\0\0\0");
        bench.push("r", &[&other]);
        assert_eq!(bench.take("out"), [other]);
    });
}

#[test]
fn overlapping_fragments_end_their_packet_and_copies_do_not() {
    both(TEXT, |bench| {
        let data = body(64);
        bench.push("r", &[part(1, &data, 0, 32), part(1, &data, 0, 32)]);
        assert_eq!(lost(bench, "duplicate"), 1);
        bench.push("r", &[part(1, &data, 32, 64), part(1, &data, 32, 64)]);
        assert_eq!(bench.take("out"), [whole(&data)]);
        // The last one began a new packet with the same identification; an overlap follows.
        bench.push("r", &[part(1, &data, 24, 64)]);
        assert_eq!(lost(bench, "overlap"), 1);
        bench.push("r", &[part(1, &data, 0, 32)]);
        assert_eq!(lost(bench, "overlap"), 2, "nothing of it is taken any more");
        let mut other = part(2, &data, 8, 16);
        bench.push("r", &[&other]);
        other[50] ^= 1;
        bench.push("r", &[&other]);
        assert_eq!(lost(bench, "overlap"), 3, "the same place, other bytes");
        assert!(bench.take("out").is_empty());
    });
}

#[test]
fn only_a_piece_that_came_before_is_a_copy() {
    both(TEXT, |bench| {
        let data = body(96);
        // RFC 8200, 4.5: a part of a fragment, or parts of two, overlap, with the same bytes or not.
        for (ident, from, to) in [(1, 8, 24), (2, 0, 24), (3, 8, 32), (4, 0, 64), (5, 24, 40)] {
            bench.push(
                "r",
                &[part(ident, &data, 0, 32), part(ident, &data, 32, 64)],
            );
            let before = lost(bench, "overlap");
            bench.push("r", &[part(ident, &data, from, to)]);
            // The first fragment is dropped with it.
            assert_eq!(lost(bench, "overlap"), before + 2, "{from} to {to}");
        }
        bench.push("r", &[part(6, &data, 0, 32), part(6, &data, 32, 64)]);
        bench.push("r", &[part(6, &data, 0, 32), part(6, &data, 32, 64)]);
        assert_eq!(lost(bench, "duplicate"), 2);
    });
}

#[test]
fn pieces_behind_the_end_and_two_ends_are_overlaps() {
    both(TEXT, |bench| {
        let data = body(64);
        bench.push("r", &[part(1, &data, 32, 64), part(1, &body(72), 64, 72)]);
        bench.push("r", &[part(2, &data, 32, 64), part(2, &body(40), 32, 40)]);
        bench.push("r", &[part(3, &data, 40, 48), part(3, &data[..32], 24, 32)]);
        assert_eq!(lost(bench, "overlap"), 3);
    });
}

#[test]
fn after_a_minute_the_first_fragment_is_handed_back() {
    both(TEXT, |bench| {
        let data = body(64);
        let first = part(1, &data, 0, 32);
        bench.push("r", &[&first, &part(2, &data, 32, 64)]);
        bench.advance(Duration::from_secs(59));
        assert!(bench.take("late").is_empty());
        bench.advance(Duration::from_secs(2));
        assert_eq!(bench.take("late"), [first]);
        assert_eq!(bench.read("r.length"), "0");
        bench.push("r", &[part(1, &data, 32, 64)]);
        assert!(bench.take("out").is_empty());
    });
}

#[test]
fn faults_are_told_with_code_and_pointer() {
    let text = "r :: IP6Reassembler -> Discard; r[2] -> ICMP6Error(2001:db8::ff,
        parameterproblem) -> out :: Collect";
    both(text, |bench| {
        let data = body(64);
        let odd = part(1, &data, 0, 20);
        let far = {
            let header = ext::fragment_header(17, 65528, true, 2);
            ip6(SRC, DST, 44, 64, &[&header[..], &data[..16]].concat())
        };
        let headless = part(3, &data[8..], 0, 0);
        let half_udp = {
            let header = ext::fragment_header(6, 0, true, 3);
            ip6(SRC, DST, 44, 64, &[&header[..], &data[..16]].concat())
        };
        for (packet, code, pointer) in [(&odd, 0, 4), (&far, 0, 42), (&half_udp, 3, 0)] {
            bench.push("r", &[packet]);
            let out = bench.take("out").remove(0);
            assert_eq!((out[40], out[41], out[47]), (4, code, pointer));
        }
        bench.push("r", &[headless]);
        assert_eq!(lost(bench, "unreported"), 1);
    });
}

#[test]
fn packets_of_every_length_come_together_in_any_order() {
    let mut order = testkit::Rng::seed(7);
    for len in [2000, 2176, 2177, 8000, 40_000, 65_000, 65_495] {
        let data = body(len);
        // No link carries a packet of that length: the fragments are made by hand.
        let mut parts: Vec<_> = (0..len)
            .step_by(1232)
            .map(|from| part(1, &data, from, (from + 1232).min(len)))
            .collect();
        order.shuffle(&mut parts);
        both(TEXT, |bench| {
            bench.push("r", &parts);
            let out = bench.take("out");
            assert!(out == [whole(&data)], "{len}");
            assert_eq!(lost(bench, "merged"), parts.len() as u64 - 1);
        });
    }
    let data = body(65_496);
    both(TEXT, |bench| {
        bench.push("r", &[part(1, &data, 65_488, 65_496)]);
        for from in (0..65_488).step_by(1024) {
            bench.push("r", &[part(1, &data, from, (from + 1024).min(65_488))]);
        }
        assert_eq!(lost(bench, "too_long"), 1, "one byte more than may be");
        assert_eq!(bench.read("r.length"), "0");
    });
}

#[test]
fn few_unfinished_packets_have_large_buffers() {
    let text = TEXT.replace("DATAGRAMS 4", "DATAGRAMS 16");
    both(&text, |bench| {
        let data = body(65_000);
        let before = engine::packet::pool::memory_bytes();
        for n in 0..50 {
            bench.push("r", &[part(n, &data, 64_000, 64_800)]);
        }
        assert_eq!(lost(bench, "merged") + lost(bench, "no_buffer"), 50);
        assert_eq!(bench.read("r.length"), "2");
        assert!(engine::packet::pool::memory_bytes() - before <= 16 << 20);
        let small = body(64);
        bench.push("r", &[part(99, &small, 0, 32), part(99, &small, 32, 64)]);
        assert_eq!(bench.take("out"), [whole(&small)]);
    });
}

#[test]
fn marks_of_congestion_are_kept() {
    both(TEXT, |bench| {
        let data = body(64);
        for (one, other, mark) in [
            (2, 3, Some(3)),
            (1, 2, Some(1)),
            (0, 3, None),
            (3, 3, Some(3)),
        ] {
            let mut parts = [part(9, &data, 0, 32), part(9, &data, 32, 64)];
            parts[0][1] |= one << 4;
            parts[1][1] |= other << 4;
            bench.push("r", &parts);
            let out = bench.take("out");
            assert_eq!(out.first().map(|p| p[1] >> 4 & 3), mark);
        }
        assert_eq!(lost(bench, "ecn"), 1);
    });
}

#[test]
fn a_flood_of_unfinished_packets_takes_bounded_memory() {
    both(TEXT, |bench| {
        let before = engine::packet::pool::balance();
        let data = body(64);
        for n in 0..1000 {
            bench.push("r", &[part(n, &data, 0, 32)]);
        }
        assert!(engine::packet::pool::balance() - before <= 8);
        assert_eq!(lost(bench, "evicted"), 996);
        bench.push("r", &[part(999, &data, 32, 64)]);
        assert_eq!(bench.take("out"), [whole(&data)]);
    });
}

#[test]
fn source_of_many_fragments_does_not_displace_others() {
    for (datagrams, size, piece) in [(4, 64, 32), (32, 36_000, 1200)] {
        let text = TEXT.replace("DATAGRAMS 4", &format!("DATAGRAMS {datagrams}"));
        both(&text, |bench| {
            let data = body(size);
            let cuts = (0..size).step_by(piece);
            let mut parts: Vec<_> = cuts.map(|at| part(7, &data, at, at + piece)).collect();
            let last = parts.pop().expect("there are some");
            bench.push("r", &parts);
            let header = ext::fragment_header(17, size - piece, true, 7);
            let flood = [&header[..], &data[..piece]].concat();
            for n in 0..64 {
                // From all addresses of one network.
                let src = format!("2001:db8:0:1::{n:x}");
                bench.push("r", &[ip6(&src, DST, 44, 64, &flood)]);
            }
            bench.push("r", &[last]);
            assert_eq!(bench.take("out"), [whole(&data)], "{size}");
        });
    }
}

#[test]
fn fragments_cut_at_every_length_do_no_harm() {
    both(TEXT, |bench| {
        let chain = [44, 0, 1, 4, 0, 0, 0, 0];
        let header = ext::fragment_header(60, 0, true, 1);
        let rest = [17, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let all = [&chain[..], &header, &rest].concat();
        for len in 0..=all.len() {
            bench.push("r", &[ip6(SRC, DST, 60, 64, &all[..len])]);
        }
        let came = ["out", "told", "late"].map(|port| bench.take(port).len());
        let dropped: u64 = bench.all_drops().iter().map(|d| d.2).sum();
        let held: u64 = bench.read("r.length").parse().unwrap();
        let sum = came.iter().sum::<usize>() as u64 + dropped + held;
        assert_eq!(sum, all.len() as u64 + 1);
    });
}
