//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and pseudo-headers.
//!
//! A *sum* is an unfolded one's complement sum in a `u64`; sums of even-length pieces are simply added. A *checksum*
//! is the 16-bit value of a header field: the complement of the folded sum.

use core::net::{Ipv4Addr, Ipv6Addr};

/// One's complement sum of `bytes` as big-endian 16-bit words; an odd last byte counts as a high byte.
///
/// A sum has at most 17 significant bits, so billions of sums may be added before [`fold`].
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // Byte order does not affect the sum, except for a final swap.
    u64::from(u16::from_be_bytes(fold(native_sum(bytes)).to_ne_bytes()))
}

/// Like [`sum`], over words in native byte order, not folded.
#[inline]
fn native_sum(bytes: &[u8]) -> u64 {
    // 32-bit halves in a 64-bit accumulator need no carry handling below 16 GiB.
    let mut acc = 0u64;
    let mut words = bytes.chunks_exact(4);
    for w in &mut words {
        acc += u64::from(u32::from_ne_bytes([w[0], w[1], w[2], w[3]]));
    }
    let mut rest = [0u8; 4];
    let tail = words.remainder();
    rest[..tail.len()].copy_from_slice(tail);
    acc + u64::from(u32::from_ne_bytes(rest))
}

/// Folds a sum to 16 bits, adding the carries.
#[inline]
pub const fn fold(sum: u64) -> u16 {
    let s = (sum & 0xffff_ffff) + (sum >> 32);
    let s = (s & 0xffff) + (s >> 16);
    let s = (s & 0xffff) + (s >> 16);
    let s = (s & 0xffff) + (s >> 16);
    s as u16
}

/// The checksum of `bytes`, whose checksum field must hold zero.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// The checksum that belongs to a sum.
#[inline]
pub const fn finish(sum: u64) -> u16 {
    !fold(sum)
}

/// Like [`finish`], for UDP: a computed zero is sent as 0xffff, since zero means "no checksum" (RFC 768).
#[inline]
pub const fn finish_udp(sum: u64) -> u16 {
    match finish(sum) {
        0 => 0xffff,
        check => check,
    }
}

/// True if `bytes`, including the checksum field, sum up to minus zero.
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    is_valid(native_sum(bytes)) // minus zero is the same in either order
}

/// Like [`verify`], for an IPv4 header without options.
#[inline]
pub fn verify20(header: &[u8; 20]) -> bool {
    let ([first, second], [a, b, c, d]) = header.as_chunks::<8>() else {
        return false;
    };
    let (sum, carry) = u64::from_ne_bytes(*first).overflowing_add(u64::from_ne_bytes(*second));
    // A carry counts as 1, because 2^64 modulo 0xffff is 1.
    let last = u64::from(u32::from_ne_bytes([*a, *b, *c, *d])) + u64::from(carry);
    let (sum, carry) = sum.overflowing_add(last);
    is_valid(sum + u64::from(carry))
}

/// True if a sum that includes the checksum field is right.
#[inline]
pub const fn is_valid(sum: u64) -> bool {
    // Valid sums fold to 0xffff, so they are its multiples. Multiplied by this inverse of 0xffff modulo 2^64, only its
    // multiples become small.
    const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
    const { assert!(INVERSE.wrapping_mul(0xffff) == 1) };
    sum.wrapping_mul(INVERSE).wrapping_sub(1) < u64::MAX / 0xffff // 0 is not right
}

/// The sum of two adjacent pieces when the first has `first_len` bytes, odd or even.
#[inline]
pub const fn join(first: u64, first_len: usize, second: u64) -> u64 {
    let second = fold(second);
    let second = if first_len % 2 == 1 {
        second.swap_bytes()
    } else {
        second
    };
    first + second as u64
}

/// New checksum after a covered 16-bit word changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub const fn update16(check: u16, old: u16, new: u16) -> u16 {
    finish(!check as u64 + !old as u64 + new as u64)
}

/// New checksum after a covered 32-bit word, aligned to 16 bits, changed from `old` to `new`.
#[inline]
pub const fn update32(check: u16, old: u32, new: u32) -> u16 {
    finish(!check as u64 + !old as u64 + new as u64)
}

/// New checksum after covered bytes, at an even offset, changed from `old` to `new`.
///
/// The length may change for the last covered bytes, as in changes of the pseudo-header.
#[inline]
pub fn update(check: u16, old: &[u8], new: &[u8]) -> u16 {
    finish(u64::from(!check) + u64::from(!fold(sum(old))) + sum(new))
}

/// Corrects an incrementally updated checksum of an ICMP message, whose other bytes have their final values.
///
/// Without a pseudo-header all words may be zero, as in the reply to an echo request of zeros. Their checksum is
/// 0xffff, but an incremental update cannot distinguish the two zeros and gives 0.
#[inline]
pub fn updated_icmp(check: u16, message: &[u8]) -> u16 {
    let zeros = |bytes: Option<&[u8]>| bytes.is_some_and(|b| b.iter().all(|b| *b == 0));
    match check {
        0 if zeros(message.get(..2)) && zeros(message.get(4..)) => 0xffff,
        check => check,
    }
}

/// UDP checksum after a change of covered bytes: "none" stays none, and a computed zero becomes 0xffff.
#[inline]
pub const fn update_udp32(check: u16, old: u32, new: u32) -> u16 {
    match check {
        0 => 0,
        _ => finish_udp(!check as u64 + !old as u64 + new as u64),
    }
}

/// Sum of the IPv4 pseudo-header (RFC 768, RFC 9293); `len` is that of the transport header and its data.
#[inline]
pub fn pseudo4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: usize) -> u64 {
    u64::from(src.to_bits()) + u64::from(dst.to_bits()) + u64::from(protocol) + len as u64
}

/// Sum of the IPv6 pseudo-header (RFC 8200, 8.1); `next` is the upper layer's number, not the first next
/// header, and `dst` the final destination.
#[inline]
pub fn pseudo6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, len: usize) -> u64 {
    sum(&src.octets()) + sum(&dst.octets()) + u64::from(next) + len as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use std::vec::Vec;

    /// Reference model: word by word, as in RFC 1071.
    fn naive(bytes: &[u8]) -> u16 {
        let mut s = 0u32;
        for pair in bytes.chunks(2) {
            s += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            s = (s & 0xffff) + (s >> 16);
        }
        s as u16
    }

    #[test]
    fn sum_equals_the_word_by_word_sum_at_every_length_and_alignment() {
        let mut rng = Rng(1);
        let bytes: Vec<u8> = (0..2100).map(|_| rng.byte()).collect();
        for len in 0..2048 {
            for start in 0..3 {
                let piece = &bytes[start..start + len];
                assert_eq!(fold(sum(piece)), naive(piece), "{start}+{len}");
            }
        }
    }

    #[test]
    fn carries_are_not_lost_in_long_runs_of_ones() {
        for len in [0usize, 1, 2, 3, 4, 1500, 65535, 1 << 20] {
            let ones = std::vec![0xff; len];
            assert_eq!(fold(sum(&ones)), naive(&ones), "{len}");
        }
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0xffff_fffe_ffff_ffff), 0xfffe);
        assert_eq!(fold(0), 0);
        let near = |sum: u64| [sum.wrapping_sub(1), sum, sum.wrapping_add(1)];
        for sum in [0, 0xffff, 0x1_fffe, 0xffff_0000, 0xffff_ffff_0000, u64::MAX]
            .map(near)
            .concat()
        {
            assert_eq!(is_valid(sum), fold(sum) == 0xffff, "{sum:#x}");
        }
    }

    #[test]
    fn a_checksum_put_in_place_verifies_and_a_flipped_bit_does_not() {
        // The header of RFC 1071's kind of example: a real ping, checksum at 10.
        let mut h = [
            0x45, 0, 0, 0x54, 0, 0, 0x40, 0, 0x40, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        assert_eq!(checksum(&h), 0x26a7);
        let check = checksum(&h);
        h[10..12].copy_from_slice(&check.to_be_bytes());
        assert!(verify(&h));
        for bit in 0..160 {
            h[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify(&h), "bit {bit}");
            h[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn pieces_join_at_odd_and_even_places() {
        let mut rng = Rng(2);
        let bytes: Vec<u8> = (0..301).map(|_| rng.byte()).collect();
        for cut in 0..=bytes.len() {
            let joined = join(sum(&bytes[..cut]), cut, sum(&bytes[cut..]));
            assert_eq!(fold(joined), naive(&bytes), "cut at {cut}");
        }
    }

    #[test]
    fn incremental_update_equals_recomputation_over_random_edits() {
        let mut rng = Rng(3);
        let corner = [0u16, 0xffff, 1, 0xfffe, 0x8000];
        for round in 0..20_000 {
            let mut h: Vec<u8> = (0..20).map(|_| rng.byte()).collect();
            if round % 4 == 0 {
                h.fill([0, 0xff][round / 4 % 2]);
            }
            h[0] = 0x45;
            h[10..12].fill(0);
            let check = checksum(&h);
            let at = [2, 4, 6, 8, 12, 14, 16, 18][rng.below(8)];
            let old = u16::from_be_bytes([h[at], h[at + 1]]);
            let new = match round % 3 {
                0 => corner[rng.below(corner.len())],
                _ => rng.next() as u16,
            };
            h[at..at + 2].copy_from_slice(&new.to_be_bytes());
            assert_eq!(update16(check, old, new), checksum(&h));

            let check = checksum(&h);
            let old = u32::from_be_bytes([h[12], h[13], h[14], h[15]]);
            let new = [0, u32::MAX, rng.next() as u32][round % 3];
            h[12..16].copy_from_slice(&new.to_be_bytes());
            assert_eq!(update32(check, old, new), checksum(&h));
            assert_eq!(
                update(check, &old.to_be_bytes(), &new.to_be_bytes()),
                checksum(&h)
            );
        }
    }

    #[test]
    fn every_ttl_decrement_is_right_for_every_checksum_value() {
        // The case of RFC 1624: the older formula of RFC 1141 fails where the sum passes minus zero.
        for check in 0..=u16::MAX {
            let (old, new) = (0x4006u16, 0x3f06u16);
            // A header of three words: 0x4500, the TTL word, and a word chosen to result in this checksum.
            let filler = fold(u64::from(!check) + u64::from(!old) + u64::from(!0x4500u16));
            let whole = |ttl: u16| finish(u64::from(ttl) + 0x4500 + u64::from(filler));
            assert_eq!(update16(whole(old), old, new), whole(new));
        }
    }

    #[test]
    fn udp_never_sends_a_computed_zero_and_keeps_the_absent_checksum_absent() {
        assert_eq!(finish(0xffff), 0);
        assert_eq!(finish_udp(0xffff), 0xffff);
        assert_eq!(update_udp32(0, 1, 2), 0);
        for new in 0..=u16::MAX {
            let full = finish_udp(0x1234 + u64::from(new));
            assert_ne!(full, 0);
            assert_eq!(update_udp32(finish_udp(0x1234 + 7), 7, new.into()), full);
        }
    }

    #[test]
    fn pseudo_headers_equal_the_sum_of_their_bytes() {
        let (a, b) = (
            Ipv4Addr::new(192, 168, 255, 1),
            Ipv4Addr::new(10, 0, 0, 254),
        );
        let mut bytes: Vec<u8> = Vec::new();
        bytes.extend(a.octets());
        bytes.extend(b.octets());
        bytes.extend([0, 17, 0xff, 0xf0]);
        assert_eq!(fold(pseudo4(a, b, 17, 0xfff0)), naive(&bytes));

        let (a, b): (Ipv6Addr, Ipv6Addr) =
            ("2001:db8::1".parse().unwrap(), "ff02::fb".parse().unwrap());
        let mut bytes: Vec<u8> = Vec::new();
        bytes.extend(a.octets());
        bytes.extend(b.octets());
        bytes.extend(70_000u32.to_be_bytes());
        bytes.extend([0, 0, 0, 58]);
        assert_eq!(fold(pseudo6(a, b, 58, 70_000)), naive(&bytes));
    }
}
