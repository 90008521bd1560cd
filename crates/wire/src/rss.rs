//! The Toeplitz hash by which network cards spread packets over queues (Microsoft's RSS).

use crate::FlowKey;
use crate::plain_frame::Plain;

/// Length of a key: enough for two IPv6 addresses and two ports.
pub const KEY_LEN: usize = 40;

/// The key of Microsoft's verification suite.
pub const MICROSOFT: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key of period 16 bits, which gives both directions of a flow the same hash.
pub const SYMMETRIC: [u8; KEY_LEN] = {
    let mut key = [0x6d; KEY_LEN];
    let mut i = 1;
    while i < KEY_LEN {
        key[i] = 0x5a;
        i += 2;
    }
    key
};

/// The Toeplitz hash of at most 36 bytes; later input is ignored.
#[inline]
pub fn toeplitz(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
    let mut hash = 0;
    for (at, &byte) in input.iter().take(KEY_LEN - 4).enumerate() {
        // 40 bits of the key: they contain the windows for all eight bits of this byte.
        let k = &key[at..at + 5];
        let window = u64::from_be_bytes([0, 0, 0, k[0], k[1], k[2], k[3], k[4]]);
        for bit in 0..8 {
            let set = u32::from(byte >> (7 - bit) & 1);
            hash ^= (window >> (8 - bit)) as u32 & set.wrapping_neg();
        }
    }
    hash
}

/// The hash of a flow: addresses, then ports. Without ports it equals the hash over addresses alone, since
/// zeros add nothing.
#[inline]
pub fn rss(key: &[u8; KEY_LEN], flow: &FlowKey) -> u32 {
    let mut input = [0; 36];
    let (len, ports) = match flow {
        FlowKey::V4(f) => {
            input[..4].copy_from_slice(&f.src.octets());
            input[4..8].copy_from_slice(&f.dst.octets());
            (8, [f.src_port, f.dst_port])
        }
        FlowKey::V6(f) => {
            input[..16].copy_from_slice(&f.src.octets());
            input[16..32].copy_from_slice(&f.dst.octets());
            (32, [f.src_port, f.dst_port])
        }
    };
    input[len..len + 2].copy_from_slice(&ports[0].to_be_bytes());
    input[len + 2..len + 4].copy_from_slice(&ports[1].to_be_bytes());
    toeplitz(key, &input[..len + 4])
}

/// A key prepared for many packets: one table per byte of the input, which suffices because the hash is linear.
///
/// A key that repeats every 16 bits, such as [`SYMMETRIC`], needs only the first two tables: all 16-bit words of the
/// input are first combined by exclusive or.
pub struct Toeplitz {
    key: [u8; KEY_LEN],
    is_folding: bool,
    tables: [[u32; 256]; KEY_LEN - 4],
}

impl Toeplitz {
    /// The tables of a key: 36 KiB.
    pub fn new(key: &[u8; KEY_LEN]) -> Toeplitz {
        let mut tables = [[0; 256]; KEY_LEN - 4];
        for (at, table) in tables.iter_mut().enumerate() {
            let mut input = [0; KEY_LEN - 4];
            for byte in 0..=u8::MAX {
                input[at] = byte;
                table[usize::from(byte)] = toeplitz(key, &input);
            }
        }
        Toeplitz {
            key: *key,
            is_folding: (2..KEY_LEN).all(|i| key[i] == key[i - 2]),
            tables,
        }
    }

    /// The key.
    pub fn key(&self) -> &[u8; KEY_LEN] {
        &self.key
    }

    /// True if both directions of a flow have the same hash.
    pub fn is_symmetric(&self) -> bool {
        // Swapping words of 32, 128 and 16 bits must not change the hash, which the shortest period ensures.
        self.is_folding
    }

    #[inline]
    fn table(&self, at: usize, byte: u8) -> u32 {
        self.tables[at][usize::from(byte)]
    }

    #[inline]
    fn folded(&self, word: u32) -> u32 {
        let sum = (word ^ word >> 16) as u16;
        let [high, low] = sum.to_be_bytes();
        self.table(0, high) ^ self.table(1, low)
    }

    /// Adds a word of the input, whose first byte has index `at`.
    #[inline]
    fn word(&self, at: usize, word: u32) -> u32 {
        let [a, b, c, d] = word.to_be_bytes();
        self.table(at, a) ^ self.table(at + 1, b) ^ self.table(at + 2, c) ^ self.table(at + 3, d)
    }

    /// The hash of a plain frame's flow, equal to that of [`hash`](Self::hash).
    #[inline]
    pub fn hash_of_plain(&self, plain: &Plain) -> u32 {
        match self.is_folding {
            true => self.folded(plain.src ^ plain.dst ^ plain.ports),
            false => self.word(0, plain.src) ^ self.word(4, plain.dst) ^ self.word(8, plain.ports),
        }
    }

    /// The RSS hash of a flow by this key; equal to [`rss`].
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> u32 {
        match flow {
            FlowKey::V4(f) => {
                let (src, dst) = (f.src.to_bits(), f.dst.to_bits());
                let ports = u32::from(f.src_port) << 16 | u32::from(f.dst_port);
                match self.is_folding {
                    true => self.folded(src ^ dst ^ ports),
                    false => self.word(0, src) ^ self.word(4, dst) ^ self.word(8, ports),
                }
            }
            FlowKey::V6(f) => {
                let (src, dst) = (f.src.octets(), f.dst.octets());
                let ports = u32::from(f.src_port) << 16 | u32::from(f.dst_port);
                let word = |of: &[u8; 16], i: usize| crate::bytes::be32(of, 4 * i);
                if self.is_folding {
                    let sum = (0..4).fold(ports, |sum, i| sum ^ word(&src, i) ^ word(&dst, i));
                    return self.folded(sum);
                }
                (0..4).fold(self.word(32, ports), |sum, i| {
                    sum ^ self.word(4 * i, word(&src, i)) ^ self.word(16 + 4 * i, word(&dst, i))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::testing::Rng;
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::string::String;
    use std::vec::Vec;

    /// Source, destination, source port, destination port, hash of addresses, hash of all: the published suite.
    const SUITE: [(&str, &str, u16, u16, u32, u32); 8] = [
        (
            "66.9.149.187",
            "161.142.100.80",
            2794,
            1766,
            0x323e_8fc2,
            0x51cc_c178,
        ),
        (
            "199.92.111.2",
            "65.69.140.83",
            14230,
            4739,
            0xd718_262a,
            0xc626_b0ea,
        ),
        (
            "24.19.198.95",
            "12.22.207.184",
            12898,
            38024,
            0xd2d0_a5de,
            0x5c2b_394a,
        ),
        (
            "38.27.205.30",
            "209.142.163.6",
            48228,
            2217,
            0x8298_9176,
            0xafc7_327f,
        ),
        (
            "153.39.163.191",
            "202.188.127.2",
            44251,
            1303,
            0x5d18_09c5,
            0x10e8_28a2,
        ),
        (
            "3ffe:2501:200:1fff::7",
            "3ffe:2501:200:3::1",
            2794,
            1766,
            0x2cc1_8cd5,
            0x4020_7d3d,
        ),
        (
            "3ffe:501:8::260:97ff:fe40:efab",
            "ff02::1",
            14230,
            4739,
            0x0f0c_461c,
            0xdde5_1bbf,
        ),
        (
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            "fe80::200:f8ff:fe21:67cf",
            44251,
            38024,
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    fn flow(src: &str, dst: &str, src_port: u16, dst_port: u16) -> FlowKey {
        match (src.parse().unwrap(), dst.parse().unwrap()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => FlowKey::V4(Flow {
                src,
                dst,
                src_port,
                dst_port,
                protocol: 6,
            }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => FlowKey::V6(Flow {
                src,
                dst,
                src_port,
                dst_port,
                protocol: 6,
            }),
            _ => panic!("two versions"),
        }
    }

    #[test]
    fn the_verification_suite_is_met() {
        for (src, dst, sport, dport, l3, l4) in SUITE {
            assert_eq!(rss(&MICROSOFT, &flow(src, dst, 0, 0)), l3, "{src}");
            assert_eq!(rss(&MICROSOFT, &flow(src, dst, sport, dport)), l4, "{src}");
        }
    }

    #[test]
    fn the_vectors_of_shared_data_are_met() {
        let root = std::env::var("ASHLAR_SHARED").unwrap_or_else(|_| {
            String::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"))
        });
        let path = root + "/data/vectors/toeplitz_rss.json";
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| {
            panic!("{path}: {e}; leave out what needs it: cargo test -- --skip shared_data")
        });
        // Each vector is a flat object, so no JSON parser is needed.
        let (mut seen, tables) = (0, Toeplitz::new(&MICROSOFT));
        for object in text.split('{').filter(|o| o.contains("hash_l3l4")) {
            let field = |key: &str| -> String {
                let marker = std::format!("\"{key}\":");
                let value = object.split(&marker).nth(1).unwrap();
                let value = value.split([',', '}', '\n']).next().unwrap();
                String::from(value.trim().trim_matches('"'))
            };
            let hash = |key: &str| u32::from_str_radix(&field(key), 16).unwrap();
            let port = |key: &str| field(key).parse().unwrap();
            let (src, dst) = (field("src"), field("dst"));
            let all = flow(&src, &dst, port("src_port"), port("dst_port"));
            let addresses = flow(&src, &dst, 0, 0);
            assert_eq!(rss(&MICROSOFT, &addresses), hash("hash_l3"));
            assert_eq!(rss(&MICROSOFT, &all), hash("hash_l3l4"));
            assert_eq!(tables.hash(&addresses), hash("hash_l3"));
            assert_eq!(tables.hash(&all), hash("hash_l3l4"));
            seen += 1;
        }
        assert!(seen >= 6, "{seen} vectors");
    }

    #[test]
    fn the_symmetric_key_hashes_both_directions_alike() {
        for (src, dst, sport, dport, ..) in SUITE {
            let f = flow(src, dst, sport, dport);
            assert_eq!(rss(&SYMMETRIC, &f), rss(&SYMMETRIC, &f.reversed()));
        }
    }

    #[test]
    fn tables_hash_as_the_definition_does() {
        let mut rng = Rng(4);
        let mut random = MICROSOFT;
        random.iter_mut().for_each(|byte| *byte = rng.byte());
        for key in [MICROSOFT, SYMMETRIC, random] {
            let tables = Toeplitz::new(&key);
            assert_eq!(tables.is_symmetric(), key == SYMMETRIC);
            let mut word = || u16::from_be_bytes([rng.byte(), rng.byte()]);
            for _ in 0..500 {
                let (src_port, dst_port) = (word(), word());
                let f4 = Flow {
                    src: Ipv4Addr::new(word() as u8, word() as u8, word() as u8, word() as u8),
                    dst: Ipv4Addr::new(word() as u8, word() as u8, word() as u8, word() as u8),
                    src_port,
                    dst_port,
                    protocol: 6,
                };
                let mut addr = || Ipv6Addr::from([(); 8].map(|()| word()));
                let f6 = Flow {
                    src: addr(),
                    dst: addr(),
                    src_port,
                    dst_port,
                    protocol: 6,
                };
                for flow in [FlowKey::V4(f4), FlowKey::V6(f6)] {
                    assert_eq!(tables.hash(&flow), rss(&key, &flow));
                    let back = tables.hash(&flow.reversed());
                    assert!(key != SYMMETRIC || back == rss(&key, &flow));
                }
            }
        }
    }

    #[test]
    fn plain_frames_are_hashed_as_all_others() {
        let mut rng = Rng(12);
        let tables = [Toeplitz::new(&MICROSOFT), Toeplitz::new(&SYMMETRIC)];
        let (mut plain, mut others) = (0, 0);
        for _ in 0..20_000 {
            let mut frame: Vec<u8> = (0..60).map(|_| rng.byte()).collect();
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            (frame[20], frame[21]) = (0x40, 0);
            frame[23] = [6, 17, 1, 132][usize::from(rng.byte() % 4)];
            match rng.byte() % 8 {
                0 => frame[36..38].copy_from_slice(&crate::tunnel::VXLAN_PORT.to_be_bytes()),
                1 => frame[20] = rng.byte(),
                2 => frame[21] = rng.byte(),
                3 => frame[14] = rng.byte(),
                4 => frame.truncate(usize::from(rng.byte() % 60)),
                _ => {}
            }
            for table in &tables {
                let Some(hash) = Plain::of_ether(&frame).map(|p| table.hash_of_plain(&p)) else {
                    others += 1;
                    continue;
                };
                plain += 1;
                let packet = crate::tunnel::ip_of_ether(&frame).unwrap();
                let flow = crate::tunnel::innermost(packet).unwrap();
                assert_eq!(hash, table.hash(&flow), "{frame:?}");
            }
        }
        assert!(plain > 5000 && others > 5000, "{plain} {others}");
    }

    #[test]
    fn the_hash_is_linear_and_ignores_bits_beyond_the_key() {
        let mut rng = Rng(9);
        for _ in 0..200 {
            let a: Vec<u8> = (0..36).map(|_| rng.byte()).collect();
            let b: Vec<u8> = (0..36).map(|_| rng.byte()).collect();
            let both: Vec<u8> = a.iter().zip(&b).map(|(x, y)| x ^ y).collect();
            let h = |x: &[u8]| toeplitz(&MICROSOFT, x);
            assert_eq!(h(&a) ^ h(&b), h(&both));
            let mut longer = a.clone();
            longer.extend([7; 30]);
            assert_eq!(h(&longer), h(&a));
        }
        assert_eq!(toeplitz(&MICROSOFT, &[]), 0);
    }
}
