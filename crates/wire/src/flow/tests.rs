//! Tests of flow keys and their hash.

use super::*;
use crate::testing::{Rng, hammer};
use std::vec;
use std::vec::Vec;

fn packet4(protocol: u8, fragment_word: u16, options: usize) -> Vec<u8> {
    let mut b = vec![0; 20 + options];
    b.extend([0x04, 0xd2, 0, 80, 9, 9, 9, 9]);
    let mut ip = Ipv4::new_unchecked(&mut b);
    ip.set_header_len(20 + options);
    ip.set_protocol(protocol);
    ip.set_fragment_word(fragment_word);
    ip.set_src(Ipv4Addr::new(10, 0, 0, 1));
    ip.set_dst(Ipv4Addr::new(10, 0, 0, 2));
    b
}

fn packet6(next: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut b = vec![0; 40];
    let mut ip = Ipv6::new_unchecked(&mut b);
    ip.set_first_word(0, 0);
    ip.set_next_header(next);
    ip.set_src(Ipv6Addr::LOCALHOST);
    rest.iter().for_each(|r| b.extend(*r));
    b
}

fn summary(packet: &[u8]) -> (u16, u16, u8) {
    match FlowKey::of_ip(packet).unwrap() {
        FlowKey::V4(f) => (f.src_port, f.dst_port, f.protocol),
        FlowKey::V6(f) => (f.src_port, f.dst_port, f.protocol),
    }
}

#[test]
fn ports_are_read_where_the_protocol_has_them() {
    for protocol in 0..=255 {
        let expected = match protocol {
            6 | 17 | 33 | 132 | 136 => (1234, 80, protocol),
            _ => (0, 0, protocol),
        };
        assert_eq!(summary(&packet4(protocol, 0, 0)), expected);
        assert_eq!(summary(&packet4(protocol, ipv4::DF, 40)), expected);
    }
    let key = FlowKey::of_ip(&packet4(6, 0, 0)).unwrap();
    assert_eq!(key.src(), IpAddr::from([10, 0, 0, 1]));
    assert_eq!(key.reversed().src(), key.dst());
    assert_eq!(key.reversed().reversed(), key);
}

#[test]
fn all_fragments_of_a_datagram_share_a_key() {
    let first = FlowKey::of_ip(&packet4(17, ipv4::MF, 0)).unwrap();
    let last = FlowKey::of_ip(&packet4(17, 185, 0)).unwrap();
    assert_eq!(first, last);
    assert_eq!(summary(&packet4(17, 185, 0)), (0, 0, 17));

    let upper = [0x04, 0xd2, 0, 80, 9, 9, 9, 9];
    let pad = [17, 0, 1, 4, 0, 0, 0, 0];
    let first = packet6(44, &[&ext::fragment_header(60, 0, true, 1), &pad, &upper]);
    let later = packet6(44, &[&ext::fragment_header(60, 800, false, 1), &upper]);
    assert_eq!(FlowKey::of_ip(&first), FlowKey::of_ip(&later));
    let atomic = packet6(44, &[&ext::fragment_header(60, 0, false, 1), &pad, &upper]);
    assert_eq!(summary(&atomic), (1234, 80, 17));
}

#[test]
fn ports_are_found_behind_extension_headers() {
    let upper = [0x04, 0xd2, 0, 80];
    let pad = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(summary(&packet6(6, &[&upper])), (1234, 80, 6));
    assert_eq!(
        summary(&packet6(0, &[&pad(60), &pad(6), &upper])),
        (1234, 80, 6)
    );
    assert_eq!(summary(&packet6(58, &[&upper])), (0, 0, 58));
    assert_eq!(
        summary(&packet6(0, &[&pad(60)])),
        (0, 0, 0),
        "a broken chain"
    );
    assert_eq!(summary(&packet6(6, &[&upper[..3]])), (0, 0, 6));
}

/// Largest deviation of `buckets` counts from their mean, in standard deviations.
fn unevenness(hashes: impl Iterator<Item = u32>, buckets: usize) -> f64 {
    let mut counts = vec![0f64; buckets];
    let mut n = 0f64;
    for h in hashes {
        counts[h as usize % buckets] += 1.0;
        n += 1.0;
    }
    let mean = n / buckets as f64;
    counts
        .iter()
        .fold(0f64, |m, c| m.max((c - mean).abs() / mean.sqrt()))
}

/// Changes of a flow by a number: one field, several, or both ends against each other.
const CHANGES: [fn(&mut Flow<Ipv4Addr>, u32); 10] = [
    |f, i| f.src = Ipv4Addr::from_bits(f.src.to_bits() + i),
    |f, i| f.dst = Ipv4Addr::from_bits(f.dst.to_bits() + (i << 8)),
    |f, i| f.src = Ipv4Addr::from_bits(f.src.to_bits() ^ i << 12),
    |f, i| f.src_port = f.src_port.wrapping_add(i as u16),
    |f, i| f.dst_port = f.dst_port.wrapping_add(i as u16),
    // Ports that NAT gives out in pairs, for each of its addresses.
    |f, i| {
        f.src = Ipv4Addr::from_bits(f.src.to_bits() + i % 4);
        f.src_port = f.src_port.wrapping_add((i / 4 * 2) as u16);
    },
    |f, i| {
        f.src = Ipv4Addr::from_bits(f.src.to_bits() + i);
        f.dst = Ipv4Addr::from_bits(f.dst.to_bits() + i);
    },
    |f, i| {
        f.src = Ipv4Addr::from_bits(f.src.to_bits() + i);
        f.dst = Ipv4Addr::from_bits(f.dst.to_bits() - i);
    },
    |f, i| {
        f.src_port = f.src_port.wrapping_add(i as u16);
        f.dst_port = f.dst_port.wrapping_sub(i as u16);
    },
    // All pairs of 100 clients and 200 servers.
    |f, i| {
        f.src = Ipv4Addr::from_bits(f.src.to_bits() + i % 100);
        f.dst = Ipv4Addr::from_bits(f.dst.to_bits() + i / 100);
    },
];

#[test]
fn similar_flows_spread_evenly() {
    let base = Flow {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(192, 0, 2, 1),
        src_port: 1024,
        dst_port: 80,
        protocol: 6,
    };
    let hashes: [fn(&Flow<Ipv4Addr>, u32) -> u32; 2] =
        [Flow::<Ipv4Addr>::hash, Flow::<Ipv4Addr>::symmetric_hash];
    for (which, hash) in hashes.iter().enumerate() {
        for (change, vary) in CHANGES.iter().enumerate() {
            for seed in [0, 1, 0xdead_beef] {
                let flows = (0..20_000).map(|i| {
                    let mut f = base;
                    vary(&mut f, i);
                    hash(&f, seed)
                });
                let flows: Vec<u32> = flows.collect();
                for buckets in [2, 3, 4, 7, 16, 128] {
                    // Tables take the low bits or the high ones.
                    for shift in [0, 16] {
                        let worst = unevenness(flows.iter().map(|h| h >> shift), buckets);
                        assert!(
                            worst < 5.0,
                            "hash {which}, change {change}, seed {seed}, {buckets} buckets, >> {shift}: {worst}"
                        );
                    }
                }
                let mut high: Vec<u32> = flows.iter().map(|h| h >> 16).collect();
                high.sort_unstable();
                high.dedup();
                // 20,000 random numbers of 16 bits have 17,232 values, give or take 50.
                assert!(
                    (16_900..=17_600).contains(&high.len()),
                    "hash {which}, change {change}, seed {seed}: {} values",
                    high.len()
                );
            }
        }
    }
}

#[test]
fn one_flipped_bit_flips_half_of_the_hash() {
    let random = |rng: &mut Rng| Flow {
        src: Ipv6Addr::from_bits(u128::from(rng.next()) << 64 | u128::from(rng.next())),
        dst: Ipv6Addr::from_bits(u128::from(rng.next())),
        src_port: rng.next() as u16,
        dst_port: rng.next() as u16,
        protocol: rng.byte(),
    };
    let flip = |f: &mut Flow<Ipv6Addr>, bit: usize| match bit {
        0..128 => f.src = Ipv6Addr::from_bits(f.src.to_bits() ^ 1 << bit),
        128..144 => f.src_port ^= 1 << (bit - 128),
        _ => f.dst_port ^= 1 << (bit - 144),
    };
    flips_half("hash", 160, random, flip, |f: &Flow<Ipv6Addr>| f.hash(1));
    flips_half("symmetric hash", 160, random, flip, |f: &Flow<Ipv6Addr>| {
        f.symmetric_hash(1)
    });
}

#[test]
fn one_flipped_bit_flips_half_of_the_symmetric_hash_of_ipv4() {
    let random = |rng: &mut Rng| Flow {
        src: Ipv4Addr::from_bits(rng.next() as u32),
        dst: Ipv4Addr::from_bits(rng.next() as u32),
        src_port: rng.next() as u16,
        dst_port: rng.next() as u16,
        protocol: 17,
    };
    let flip = |f: &mut Flow<Ipv4Addr>, bit: usize| match bit {
        0..32 => f.dst = Ipv4Addr::from_bits(f.dst.to_bits() ^ 1 << bit),
        _ => f.dst_port ^= 1 << (bit - 32),
    };
    flips_half("symmetric hash", 48, random, flip, |f: &Flow<Ipv4Addr>| {
        f.symmetric_hash(0)
    });
}

/// Asserts that each bit of the hash changes in about half of all flows, whichever of `bits` bits `flip` changes.
fn flips_half<A: Copy>(
    name: &str,
    bits: usize,
    random: impl Fn(&mut Rng) -> Flow<A>,
    flip: impl Fn(&mut Flow<A>, usize),
    hash: impl Fn(&Flow<A>) -> u32,
) {
    let mut rng = Rng(5);
    let mut flips = vec![[0u32; 32]; bits];
    const ROUNDS: u32 = 2_000;
    for _ in 0..ROUNDS {
        let f = random(&mut rng);
        let h = hash(&f);
        for (bit, row) in flips.iter_mut().enumerate() {
            let mut g = f;
            flip(&mut g, bit);
            let change = h ^ hash(&g);
            row.iter_mut()
                .enumerate()
                .for_each(|(i, n)| *n += change >> i & 1);
        }
    }
    for (bit, row) in flips.iter().enumerate() {
        for (out, &n) in row.iter().enumerate() {
            let share = f64::from(n) / f64::from(ROUNDS);
            assert!(
                (0.4..0.6).contains(&share),
                "{name}, input {bit}, output {out}: {share}"
            );
        }
    }
}

#[test]
fn both_directions_have_one_symmetric_hash_and_others_have_others() {
    let mut rng = Rng(7);
    for _ in 0..2_000 {
        let v4 = Flow {
            src: Ipv4Addr::from_bits(rng.next() as u32),
            dst: Ipv4Addr::from_bits(rng.next() as u32),
            src_port: rng.next() as u16,
            dst_port: rng.next() as u16,
            protocol: rng.byte(),
        };
        let v6 = Flow {
            src: v4.src.to_ipv6_mapped(),
            dst: v4.dst.to_ipv6_compatible(),
            src_port: v4.src_port,
            dst_port: v4.dst_port,
            protocol: v4.protocol,
        };
        for seed in [0, 9] {
            let (h4, h6) = (v4.symmetric_hash(seed), v6.symmetric_hash(seed));
            assert_eq!(h4, v4.reversed().symmetric_hash(seed));
            assert_eq!(h6, v6.reversed().symmetric_hash(seed));
            // The ports belong to their addresses.
            let crossed = Flow {
                src_port: v4.dst_port,
                dst_port: v4.src_port,
                ..v4
            };
            assert_ne!(h4, crossed.symmetric_hash(seed));
        }
    }
}

/// Other balancers must compute the same. The values were computed in Python, from the words of docs/multistage.md.
#[test]
fn symmetric_hashes_are_golden() {
    let v4 = |src: [u8; 4], src_port, dst: [u8; 4], dst_port, protocol| Flow {
        src: Ipv4Addr::from(src),
        dst: Ipv4Addr::from(dst),
        src_port,
        dst_port,
        protocol,
    };
    for (flow, seed, hash) in [
        (
            v4([10, 0, 0, 1], 1024, [192, 0, 2, 1], 80, 6),
            0,
            0xac3f_79b4,
        ),
        (
            v4([192, 0, 2, 1], 80, [10, 0, 0, 1], 1024, 6),
            0,
            0xac3f_79b4,
        ),
        (
            v4([10, 0, 0, 1], 1024, [192, 0, 2, 1], 80, 17),
            0,
            0xdc13_21a7,
        ),
        (v4([255; 4], 65_535, [0; 4], 0, 17), 7, 0x71c1_4ea9),
        (
            v4([203, 0, 113, 9], 0, [198, 51, 100, 77], 0, 1),
            0xdead_beef,
            0x41d3_7a0c,
        ),
    ] {
        assert_eq!(flow.symmetric_hash(seed), hash, "{flow:?}, seed {seed}");
    }
    let v6 = Flow {
        src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 0x99),
        src_port: 40_000,
        dst_port: 443,
        protocol: 6,
    };
    assert_eq!(v6.symmetric_hash(0), 0x2f06_505b);
}

#[test]
fn two_seeds_choose_independently() {
    // Flows that one router sends to next hop 0 of 4 must spread over all four next hops of the next router.
    let chosen = (0..80_000u32).filter_map(|i| {
        let f = Flow {
            src: Ipv4Addr::from_bits(0x0a00_0000 + i),
            dst: Ipv4Addr::new(192, 0, 2, 1),
            src_port: 5000,
            dst_port: 53,
            protocol: 17,
        };
        (f.hash(1) % 4 == 0).then(|| f.hash(2))
    });
    assert!(unevenness(chosen, 4) < 5.0);
}

#[test]
fn no_bytes_make_it_panic() {
    let pad = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    hammer(&packet6(0, &[&pad(60), &pad(6), &[1; 8]]), |b| {
        FlowKey::of_ip(b);
        FlowKey::of_ip4(b);
        FlowKey::of_ip6(b);
    });
    hammer(&packet4(17, 0, 8), |b| {
        FlowKey::of_ip(b).map(|k| k.hash(0));
    });
}

/// An ICMP message from 192.0.2.9 that quotes a packet.
fn about4(kind: u8, quoted: &[u8]) -> Vec<u8> {
    let mut b = packet4(proto::ICMP, 0, 0);
    b.truncate(20);
    Ipv4::new_unchecked(&mut b).set_src(Ipv4Addr::new(192, 0, 2, 9));
    b.extend([kind, 4, 0, 0, 0, 0, 5, 0xdc]);
    b.extend(quoted);
    b
}

#[test]
fn an_error_has_the_flow_that_its_quoted_packet_answers() {
    for protocol in [proto::TCP, proto::UDP, proto::ICMP] {
        let sent = packet4(protocol, 0x4000, 8);
        let answered = FlowKey::of_ip(&sent).map(FlowKey::reversed);
        for kind in [3, 11, 12] {
            // RFC 792: the header and 8 bytes.
            let error = about4(kind, &sent[..36]);
            assert_eq!(FlowKey::quoted(&error), answered);
            assert_eq!(FlowKey::of_ip_or_quoted(&error), answered);
        }
        // Cases without a quoted flow: an echo reply with the same bytes, a fragment of an error, a truncated one,
        // and one about another IP version.
        let mut fragment = about4(3, &sent);
        Ipv4::new_unchecked(&mut fragment).set_fragment_word(0x2000);
        for other in [
            about4(0, &sent),
            fragment,
            about4(3, &sent[..19]),
            about4(3, &packet6(6, &[])),
        ] {
            assert_eq!(FlowKey::quoted(&other), None);
            assert_eq!(FlowKey::of_ip_or_quoted(&other), FlowKey::of_ip(&other));
        }
        assert_eq!(FlowKey::of_ip_or_quoted(&sent), FlowKey::of_ip(&sent));
    }
    let sent = packet6(proto::TCP, &[&[0x04, 0xd2, 0, 80, 9, 9, 9, 9]]);
    let answered = FlowKey::of_ip(&sent).map(FlowKey::reversed);
    let about6 = |next: u8, before: &[u8], kind: u8, quoted: &[u8]| {
        packet6(next, &[before, &[kind, 0, 0, 0, 0, 0, 5, 0], quoted])
    };
    for kind in [1, 2, 3, 4] {
        assert_eq!(FlowKey::quoted(&about6(58, &[], kind, &sent)), answered);
        // Behind destination options.
        let options = [58, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(
            FlowKey::of_ip_or_quoted(&about6(60, &options, kind, &sent)),
            answered
        );
    }
    assert_eq!(FlowKey::quoted(&about6(58, &[], 129, &sent)), None);
    // Errors that quote any bytes do not panic.
    for error in [about4(3, &packet4(17, 0, 4)), about6(58, &[], 2, &sent)] {
        hammer(&error, |bytes| _ = FlowKey::of_ip_or_quoted(bytes));
    }
}
