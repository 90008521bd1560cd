//! Tests of IPv4 headers.

use super::*;
use crate::testing::{Rng, hammer};
use std::vec::Vec;

/// UDP from 192.168.0.1 to 10.0.0.2, TTL 64, DF, ident 0x1234, four bytes of payload, two of padding.
const BYTES: [u8; 26] = [
    0x45, 0xb8, 0, 24, 0x12, 0x34, 0x40, 0, 64, 17, 0x5d, 0x3e, 192, 168, 0, 1, 10, 0, 0, 2, 1, 2,
    3, 4, 0xee, 0xee,
];

#[test]
fn deconstructs() {
    let ip = Ipv4::new_checked(&BYTES).unwrap();
    assert_eq!((ip.version(), ip.header_len(), ip.total_len()), (4, 20, 24));
    assert_eq!((ip.tos(), ip.dscp(), ip.ecn()), (0xb8, 46, 0));
    assert_eq!((ip.ident(), ip.ttl(), ip.protocol()), (0x1234, 64, 17));
    assert!(ip.dont_fragment() && !ip.more_fragments() && !ip.is_fragment());
    assert_eq!(ip.fragment_offset(), 0);
    assert_eq!(ip.src(), Ipv4Addr::new(192, 168, 0, 1));
    assert_eq!(ip.dst(), Ipv4Addr::new(10, 0, 0, 2));
    assert!(ip.verify_checksum());
    assert_eq!(ip.payload(), [1, 2, 3, 4]);
    assert_eq!(ip.options().count(), 0);
}

#[test]
fn constructs() {
    let mut bytes = [0xee; 26];
    let mut ip = Ipv4::new_unchecked(&mut bytes);
    ip.set_header_len(20);
    ip.set_tos(0xb8);
    ip.set_total_len(24);
    ip.set_ident(0x1234);
    ip.set_fragment_word(DF);
    ip.set_ttl(64);
    ip.set_protocol(17);
    ip.set_src(Ipv4Addr::new(192, 168, 0, 1));
    ip.set_dst(Ipv4Addr::new(10, 0, 0, 2));
    ip.payload_mut().copy_from_slice(&[1, 2, 3, 4]);
    ip.fill_checksum();
    assert_eq!(bytes, BYTES);
}

#[test]
fn each_fault_has_its_reason_in_the_order_of_rfc_1812() {
    let fault = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut b = BYTES.to_vec();
        edit(&mut b);
        check(&b).err().map(BadHeader::name)
    };
    let sum = |b: &mut Vec<u8>| Ipv4::new_unchecked(b).fill_checksum();
    assert_eq!(fault(&|_| ()), None);
    assert_eq!(fault(&|b| b.truncate(19)), Some("too_short"));
    assert_eq!(fault(&|b| b[0] = 0x65), Some("bad_version"));
    assert_eq!(fault(&|b| b[0] = 0x44), Some("bad_header_length"));
    assert_eq!(fault(&|b| b[0] = 0x47), Some("too_short"));
    assert_eq!(fault(&|b| b[8] = 63), Some("bad_checksum"));
    assert_eq!(fault(&|b| b[0] = 0x46), Some("bad_checksum"));
    assert_eq!(
        fault(&|b| {
            b[3] = 19;
            sum(b)
        }),
        Some("bad_length")
    );
    assert_eq!(
        fault(&|b| {
            b[3] = 27;
            sum(b)
        }),
        Some("truncated")
    );
    assert_eq!(
        fault(&|b| {
            b[3] = 26;
            sum(b)
        }),
        None
    );
    assert_eq!(
        fault(&|b| {
            b[3] = 20;
            sum(b)
        }),
        None
    );
    let mut bad_sum = BYTES;
    bad_sum[10] ^= 1;
    assert!(check_unsummed(&bad_sum).is_ok());
}

#[test]
fn every_first_byte_is_judged_by_version_then_length() {
    for first in 0..=255u8 {
        let mut b = [0u8; 64];
        b[0] = first;
        b[3] = 64;
        let expected = match (first >> 4, first & 0xf) {
            (4, 0..=4) => Err(BadHeader::BadHeaderLength),
            (4, words) => Ok(usize::from(words) * 4),
            _ => Err(BadHeader::BadVersion),
        };
        assert_eq!(check_unsummed(&b).map(|c| c.header_len), expected);
    }
}

#[test]
fn a_lowered_ttl_leaves_the_checksum_that_a_patch_leaves() {
    for check in 0..=u16::MAX {
        for ttl in [1, 2, 64, 255] {
            let (mut lowered, mut patched) = (BYTES, BYTES);
            for b in [&mut lowered, &mut patched] {
                Ipv4::new_unchecked(&mut *b).set_checksum(check);
                Ipv4::new_unchecked(b).set_ttl(ttl);
            }
            Ipv4::new_unchecked(&mut lowered).dec_ttl();
            Ipv4::new_unchecked(&mut patched).patch16(8, u16::from_be_bytes([ttl - 1, BYTES[9]]));
            assert_eq!(lowered, patched, "{check:#x} {ttl}");
        }
    }
}

#[test]
fn the_sum_of_a_plain_header_is_verified_as_any() {
    let mut rng = Rng(12);
    for round in 0..20_000u32 {
        let mut b: [u8; 20] = std::array::from_fn(|_| rng.byte());
        if round % 2 == 0 {
            b[0] = 0x45;
            Ipv4::new_unchecked(&mut b).fill_checksum();
        }
        assert_eq!(crate::checksum::verify20(&b), crate::checksum::verify(&b));
    }
    for b in [[0; 20], [0xff; 20]] {
        assert_eq!(crate::checksum::verify20(&b), crate::checksum::verify(&b));
    }
}

#[test]
fn a_header_is_plain_if_it_has_no_options_and_no_fault() {
    let mut rng = Rng(13);
    for round in 0..20_000u32 {
        let mut b: [u8; 40] = std::array::from_fn(|_| rng.byte());
        b[0] = [0x45, 0x45, 0x45, 0x46, 0x44, 0x55][rng.below(6)];
        let total = [0, 19, 20, 21, 39, 40, 41, 0xffff][rng.below(8)];
        Ipv4::new_unchecked(&mut b).set_total_len(total);
        if round % 4 > 0 && b[0] & 0xf >= 5 {
            Ipv4::new_unchecked(&mut b).fill_checksum();
        }
        let head = b.first_chunk().unwrap();
        for (sums, judged) in [(true, check(&b)), (false, check_unsummed(&b))] {
            let plain = judged.ok().filter(|c| c.header_len == MIN_LEN);
            let plain = plain.map(|c| c.total_len);
            assert_eq!(check_plain(head, b.len(), sums), plain, "{b:?}");
        }
    }
}

#[test]
fn patches_leave_the_checksum_that_recomputation_gives() {
    let mut rng = Rng(11);
    for round in 0..5_000 {
        let mut b = BYTES;
        for at in [1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19] {
            b[at] = [rng.byte(), 0, 0xff][round % 3];
        }
        let mut ip = Ipv4::new_unchecked(&mut b);
        ip.fill_checksum();
        ip.patch16(8, rng.next() as u16);
        ip.patch_tos(rng.byte());
        ip.patch_total_len(rng.next() as u16);
        ip.patch16(6, [0, 0xffff, rng.next() as u16][rng.below(3)]);
        ip.patch_src(Ipv4Addr::from_bits(
            [0, u32::MAX, rng.next() as u32][rng.below(3)],
        ));
        ip.patch_dst(Ipv4Addr::from_bits(
            [0, u32::MAX, rng.next() as u32][rng.below(3)],
        ));
        let patched = ip.checksum();
        ip.fill_checksum();
        assert_eq!(patched, ip.checksum());
    }
}

#[test]
fn fragments_are_recognised() {
    let mut b = BYTES;
    for (word, fragment, offset) in [
        (0, false, 0),
        (DF, false, 0),
        (MF, true, 0),
        (1, true, 8),
        (MF | 0x1fff, true, 65528),
        (0x8000, false, 0),
    ] {
        let mut ip = Ipv4::new_unchecked(&mut b);
        ip.set_fragment_word(word);
        assert_eq!((ip.is_fragment(), ip.fragment_offset()), (fragment, offset));
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let mut sample = [0u8; 70];
    sample[..26].copy_from_slice(&BYTES);
    sample[0] = 0x4f;
    sample[3] = 70;
    hammer(&sample, |bytes| {
        let _ = check(bytes);
        if let Ok(ip) = Ipv4::new_checked(bytes) {
            let _ = (
                ip.payload(),
                ip.header(),
                ip.verify_checksum(),
                ip.src(),
                ip.dst(),
            );
            ip.options().for_each(drop);
            let mut copy = bytes.to_vec();
            let mut ip = Ipv4::new_unchecked(&mut copy);
            ip.patch_tos(1);
            ip.fill_checksum();
            ip.payload_mut();
        }
    });
}
