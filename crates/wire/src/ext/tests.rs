//! Tests of the walk over extension headers and their options.

use super::*;
use crate::testing::hammer;
use std::vec;
use std::vec::Vec;

/// An IPv6 packet whose header names `first`, followed by `rest`.
fn packet(first: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut p = vec![0; 40];
    p[0] = 0x60;
    p[6] = first;
    rest.iter().for_each(|r| p.extend(*r));
    p
}

const HBH: u8 = proto::HOP_BY_HOP;

/// An options header of eight bytes, filled with one PadN.
fn padded(next: u8) -> [u8; 8] {
    [next, 0, PADN, 4, 0, 0, 0, 0]
}

#[test]
fn without_extension_headers_the_upper_layer_is_at_forty() {
    let w = walk(&packet(proto::UDP, &[&[0; 8]])).unwrap();
    assert_eq!((w.protocol, w.offset), (proto::UDP, 40));
    assert_eq!((w.per_fragment_len, w.per_fragment_next_at), (40, 6));
    assert!(w.has_upper_header() && w.fragment.is_none());
}

#[test]
fn a_full_chain_is_walked_and_the_part_before_fragments_is_told() {
    let p = packet(
        HBH,
        &[
            &padded(proto::DEST_OPTS),
            &padded(proto::ROUTING),
            &[
                proto::AH,
                2,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ],
            &[
                proto::DEST_OPTS,
                4,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ],
            &padded(proto::TCP),
            &[9; 20],
        ],
    );
    let w = walk(&p).unwrap();
    assert_eq!((w.protocol, w.offset), (proto::TCP, 112));
    assert_eq!(w.hop_by_hop, Some(40));
    assert_eq!(w.routing, Some(56));
    assert_eq!(w.dest_opts, Some(104));
    assert_eq!((w.per_fragment_len, w.per_fragment_next_at), (80, 56));
}

#[test]
fn fragments_are_told_and_later_ones_end_the_walk() {
    let first = packet(
        44,
        &[&fragment_header(60, 0, true, 7), &padded(17), &[0; 8]],
    );
    let w = walk(&first).unwrap();
    let f = w.fragment.unwrap();
    assert_eq!(
        f,
        Fragment {
            at: 40,
            offset: 0,
            more_fragments: true,
            ident: 7
        }
    );
    assert_eq!((w.protocol, w.offset), (proto::UDP, 56));
    assert!(w.has_upper_header() && !f.is_atomic());
    assert_eq!(w.per_fragment_len, 40);

    let later = packet(44, &[&fragment_header(60, 1448, false, 7), &[0xff; 8]]);
    let w = walk(&later).unwrap();
    assert_eq!((w.protocol, w.offset), (proto::DEST_OPTS, 48));
    assert_eq!(
        w.fragment.map(|f| (f.offset, f.more_fragments)),
        Some((1448, false))
    );
    assert!(!w.has_upper_header());

    let atomic = packet(44, &[&fragment_header(6, 0, false, 7), &[0; 20]]);
    assert!(walk(&atomic).unwrap().fragment.unwrap().is_atomic());
}

#[test]
fn headers_behind_a_fragment_header_are_not_repeated_in_every_fragment() {
    let p = packet(
        43,
        &[
            &padded(44),
            &fragment_header(43, 0, true, 7),
            &padded(17),
            &[0; 8],
        ],
    );
    let w = walk(&p).unwrap();
    assert_eq!(
        (w.protocol, w.offset, w.routing),
        (proto::UDP, 64, Some(40))
    );
    assert_eq!((w.per_fragment_len, w.per_fragment_next_at), (48, 40));
}

#[test]
fn no_next_header_and_esp_end_the_walk() {
    let w = walk(&packet(60, &[&padded(proto::NO_NEXT)])).unwrap();
    assert_eq!((w.protocol, w.offset), (proto::NO_NEXT, 48));
    assert!(!w.has_upper_header());
    let w = walk(&packet(60, &[&padded(proto::ESP), &[0; 8]])).unwrap();
    assert_eq!((w.protocol, w.offset), (proto::ESP, 48));
}

#[test]
fn faults_point_at_the_offending_byte() {
    // Hop-by-hop options after another header: the reported byte is the one that names them.
    let p = packet(60, &[&padded(HBH), &padded(17)]);
    assert_eq!(
        walk(&p),
        Err(BadExt {
            code: 1,
            pointer: 40,
            report: Report::Unicast
        })
    );
    let p = packet(HBH, &[&padded(HBH), &padded(17)]);
    assert_eq!(
        walk(&p),
        Err(BadExt {
            code: 1,
            pointer: 40,
            report: Report::Unicast
        })
    );
    // A header that exceeds the packet: the reported byte is its length byte.
    let p = packet(HBH, &[&[17, 1, PADN, 4, 0, 0, 0, 0]]);
    assert_eq!(walk(&p), Err(BadExt::field(41)));
    // An announced header is missing: the reported byte is the one that announces it.
    assert_eq!(walk(&packet(60, &[&[17]])), Err(BadExt::field(6)));
    assert_eq!(walk(&packet(60, &[&padded(43)])), Err(BadExt::field(40)));
    assert_eq!(walk(&packet(44, &[&[17, 0, 0, 0]])), Err(BadExt::field(6)));
    assert_eq!(walk(&[]), Err(BadExt::field(0)));
}

#[test]
fn the_walk_is_bounded() {
    for headers in 1..=20usize {
        let mut p = packet(60, &[]);
        for i in 1..=headers {
            p.extend(padded(if i == headers { 17 } else { 60 }));
        }
        assert_eq!(walk(&p).is_ok(), headers <= MAX_HEADERS, "{headers}");
        assert!(walk(&p).err().is_none_or(|e| e.report == Report::Never));
    }
}

#[test]
fn the_highest_bits_of_an_unknown_option_select_the_treatment() {
    for (kind, report) in [
        (0x1e, None),
        (0x5e, Some(Report::Never)),
        (0x9e, Some(Report::Always)),
        (0xde, Some(Report::Unicast)),
    ] {
        let p = packet(HBH, &[&[17, 0, PAD1, PAD1, kind, 2, 0, 0]]);
        let expected = match report {
            None => Ok(None),
            Some(report) => Err(BadExt {
                code: 2,
                pointer: 44,
                report,
            }),
        };
        assert_eq!(check_hop_by_hop(&p, 40), expected);
    }
}

#[test]
fn known_options_are_read_and_padding_is_skipped() {
    let p = packet(HBH, &[&[17, 0, 5, 2, 0x12, 0x34, PADN, 0]]);
    assert_eq!(check_hop_by_hop(&p, 40), Ok(Some(0x1234)));
    let items: Vec<_> = Options::new(&p, 40).collect();
    assert_eq!(
        items,
        [Ok(Item {
            at: 42,
            kind: 5,
            data: &[0x12, 0x34]
        })]
    );
    assert_eq!(check_hop_by_hop(&packet(HBH, &[&padded(17)]), 40), Ok(None));
    let jumbo = packet(HBH, &[&[17, 0, JUMBO, 4, 0, 1, 0, 0]]);
    assert_eq!(check_hop_by_hop(&jumbo, 40), Err(BadExt::field(42)));
}

#[test]
fn an_option_that_leaves_its_header_is_a_fault_at_its_length() {
    for bytes in [[17, 0, 0x1e, 5, 0, 0, 0, 0], [17, 0, PADN, 5, 0, 0, 0, 0]] {
        let p = packet(HBH, &[&bytes, &[0; 8]]);
        assert_eq!(check_hop_by_hop(&p, 40), Err(BadExt::field(43)));
        assert_eq!(Options::new(&p, 40).count(), 1);
    }
    let p = packet(HBH, &[&[17, 0, PADN, 3, 0, 0, 0, 0x1e], &[0; 8]]);
    assert_eq!(check_hop_by_hop(&p, 40), Err(BadExt::field(48)));
    let p = packet(HBH, &[&[17, 0, ROUTER_ALERT, 1, 0, 0, 0, 0]]);
    assert_eq!(check_hop_by_hop(&p, 40), Err(BadExt::field(43)));
}

#[test]
fn no_bytes_make_it_panic_and_offsets_stay_inside() {
    let sample = packet(
        HBH,
        &[
            &[43, 0, 5, 2, 0, 0, PADN, 0],
            &padded(44),
            &fragment_header(51, 0, true, 1),
            &[60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &padded(17),
            &[1; 8],
        ],
    );
    assert_eq!(walk(&sample).unwrap().offset, 84);
    hammer(&sample, |bytes| {
        if let Ok(w) = walk(bytes) {
            assert!(w.offset <= bytes.len().max(40) && w.per_fragment_len <= w.offset);
        }
        for at in 0..bytes.len() + 2 {
            let _ = check_hop_by_hop(bytes, at);
            assert!(Options::new(bytes, at).count() <= bytes.len());
        }
    });
}
