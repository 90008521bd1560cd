//! Sends packets to outputs by a hash of some of their bytes.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> h :: HashSwitch(16, 4);   // by IPv4 destination
//! h[0] -> Discard;
//! h[1] -> Discard;
//! ```
//!
//! Packets with the same bytes leave by the same output. Bytes beyond the packet's end are not hashed.
//!
//! Arguments:
//!
//! - `OFFSET`: offset of the bytes in the packet.
//! - `LENGTH`: number of bytes.

use crate::prelude::*;

pub(super) struct HashSwitch {
    offset: usize,
    length: usize,
    outputs: u64,
}

impl Element for HashSwitch {
    const CONTRACT: Contract = Contract::new("HashSwitch", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .ignores_annotations();

    type Config = (usize, usize);

    fn configure(args: &mut Args) -> (usize, usize) {
        let offset = args.required("OFFSET", "where the bytes begin");
        let length = args.required_in("LENGTH", 1..=SIZE_MAX, "number of bytes");
        (offset, length)
    }

    fn new(config: &Arc<(usize, usize)>, init: &Init) -> HashSwitch {
        HashSwitch {
            offset: config.0,
            length: config.1,
            outputs: init.outputs.min(255) as u64,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let bytes = packet.data().get(self.offset..).unwrap_or(&[]);
        let hash = hash(&bytes[..self.length.min(bytes.len())]);
        Verdict::out(((u64::from(hash) * self.outputs) >> 32) as u8)
    }
}

/// Multiplication by an odd constant, word by word; the upper half, which all bits reach.
#[inline]
fn hash(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 divided by the golden ratio
    let mut hash = 0u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    (hash.wrapping_mul(FACTOR) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn equal_bytes_leave_by_one_output_and_others_spread() {
        let text =
            "h :: HashSwitch(2, 4) -> a :: Collect; h[1] -> b :: Collect; h[2] -> c :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let packets: Vec<Vec<u8>> = (0..900u32)
            .map(|n| [&[n as u8; 2][..], &(n / 3).to_be_bytes()].concat())
            .collect();
        bench.push("h", &packets);
        let mut home = std::collections::HashMap::new();
        for out in ["a", "b", "c"] {
            let got = bench.take(out);
            assert!((220..380).contains(&got.len()), "{}", got.len());
            for packet in got {
                assert_eq!(*home.entry(packet[2..6].to_vec()).or_insert(out), out);
            }
        }
        bench.push("h", &[&b""[..], b"abc"]);
    }
}
