//! Removes GRE headers (RFC 2784, RFC 2890), and sends packets to outputs by the inner protocol.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> c :: IPClassifier(unfrag and ip proto gre)
//!     -> StripIPHeader
//!     -> d :: GREDecap(0x0800, 0x86dd, KEY 7);
//! d[0] -> CheckIPHeader -> Discard;
//! d[1] -> CheckIP6Header -> Discard;
//! ```
//!
//! Packets must begin with the GRE header: StripIPHeader removes the IP header. A packet shorter than its header is
//! dropped (`too_short`), and so is one of another version or with fields of RFC 1701 (`bad_header`). A wrong checksum
//! (`bad_checksum`), a missing or wrong key (`other_key`) or a protocol without an output (`other_protocol`) also leads
//! to a drop. Sequence numbers are ignored.
//!
//! Arguments:
//!
//! - `ETHERTYPE`, any number of: Ethertype of the packets that leave by output 0, by output 1 and so on. Default
//!   0x0800, IPv4.
//!
//! Keyword arguments:
//!
//! - `KEY`: packets with another key, or without, are dropped. Default: the key is ignored.

use super::gre::{self, CHECKSUM, KEY, LEN, REFUSED, VERSION};
use crate::prelude::*;
use wire::{checksum, ether};

drops! {
    TOO_SHORT = "too_short",
    BAD_HEADER = "bad_header",
    BAD_CHECKSUM = "bad_checksum",
    OTHER_KEY = "other_key",
    OTHER_PROTOCOL = "other_protocol",
}

pub(super) struct Config {
    key: Option<u32>,
    /// Ethertypes by output.
    inside: Vec<u16>,
}

pub(super) struct GreDecap {
    config: Arc<Config>,
}

impl Element for GreDecap {
    const CONTRACT: Contract = Contract::new("GREDecap", manual!())
        .ports(Ports::new(&["in"], &["out+"]))
        .spoils(
            Facts::ETHER
                .and(Facts::AT_NETWORK)
                .and(Facts::IP4)
                .and(Facts::IP6),
        )
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let key = args.key_maybe("KEY", "number of the tunnel");
        let mut inside = Vec::new();
        for arg in args.rest(
            "ETHERTYPE",
            "an Ethertype",
            "Ethertype of an output's packets",
        ) {
            inside.push(args.value("ETHERTYPE", &arg.unquoted(), &arg).unwrap_or(0));
        }
        if inside.is_empty() {
            inside.push(ether::IPV4);
        }
        Config { key, inside }
    }

    fn new(config: &Arc<Config>, _: &Init) -> GreDecap {
        GreDecap {
            config: Arc::clone(config),
        }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let data = packet.data();
        let Some(&[a, b, c, d]) = data.first_chunk::<LEN>() else {
            return Verdict::drop(TOO_SHORT);
        };
        let flags = u16::from_be_bytes([a, b]);
        if flags & (REFUSED | VERSION) != 0 {
            return Verdict::drop(BAD_HEADER);
        }
        let len = gre::len(flags);
        if data.len() < len {
            return Verdict::drop(TOO_SHORT);
        }
        if flags & CHECKSUM != 0 && !checksum::verify(data) {
            return Verdict::drop(BAD_CHECKSUM);
        }
        if let Some(key) = self.config.key {
            let at = gre::key_at(flags);
            if flags & KEY == 0 || data[at..at + LEN] != key.to_be_bytes() {
                return Verdict::drop(OTHER_KEY);
            }
        }
        let ethertype = u16::from_be_bytes([c, d]);
        let Some(output) = self.config.inside.iter().position(|of| *of == ethertype) else {
            return Verdict::drop(OTHER_PROTOCOL);
        };
        if !packet.pull(len) {
            return Verdict::drop(TOO_SHORT);
        }
        Verdict::out(output as u8)
    }
}

impl Resources for GreDecap {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (None, Some(config.inside.len()))
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, Rng};

    #[test]
    fn inner_packets_leave_by_their_protocol() {
        for fields in [
            "",
            ", KEY 9",
            ", CHECKSUM true",
            ", KEY 9, SEQUENCE true, CHECKSUM true",
        ] {
            let text = format!(
                "a :: GREEncap(0x0800{fields}) -> d :: GREDecap(0x0800, 0x86dd) -> four :: Collect;
                b :: GREEncap(0x86dd{fields}) -> d; d[1] -> six :: Collect"
            );
            let mut bench = Bench::new(crate::CLASSES, &text);
            bench.push("a", &[b"four"]);
            bench.push("b", &[b"six"]);
            assert_eq!(bench.take("four"), [b"four"], "{fields}");
            assert_eq!(bench.take("six"), [b"six"], "{fields}");
        }
    }

    #[test]
    fn packets_of_other_tunnels_are_dropped_by_name() {
        let mut bench = Bench::new(crate::CLASSES, "d :: GREDecap(KEY 7) -> out :: Collect");
        let keyed = |key: u8| vec![0x20, 0, 8, 0, 0, 0, 0, key, b'x'];
        let mut sourced = keyed(7);
        sourced[0] |= 0x40; // routing of RFC 1701
        let mut point = keyed(7);
        point[1] = 1; // PPTP
        let mut other = keyed(7);
        other[3] = 6;
        let mut wrong = vec![0xa0, 0, 8, 0, 0, 1, 0, 0, 0, 0, 0, 7, b'x', 0];
        let packets = [
            keyed(7),
            keyed(8),
            vec![0, 0, 8, 0, b'x'],
            sourced,
            point,
            other,
            wrong.clone(),
            keyed(7)[..7].to_vec(),
            vec![0; 3],
        ];
        bench.push("d", &packets);
        assert_eq!(bench.take("out"), [b"x"]);
        let drops = [
            "other_key",
            "bad_header",
            "other_protocol",
            "bad_checksum",
            "too_short",
        ];
        assert_eq!(drops.map(|name| bench.drops("d", name)), [2, 2, 1, 1, 2]);
        // 0xa000 + 0x0800 + 7 + 0x7800 = 0x12007, folded 0x2008.
        wrong[4..6].copy_from_slice(&[0xdf, 0xf7]);
        bench.push("d", &[wrong]);
        assert_eq!(bench.take("out"), [b"x\0"]);
    }

    #[test]
    fn random_bytes_are_passed_or_dropped() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "d :: GREDecap(0x0800, 0) -> out :: Collect; d[1] -> out",
        );
        let mut rng = Rng::seed(1);
        for _ in 0..2_000 {
            let mut bytes = vec![0; rng.below(24)];
            bytes.fill_with(|| rng.below(4) as u8 * 0x20);
            bench.push("d", &[bytes]);
        }
        let names = [
            "too_short",
            "bad_header",
            "bad_checksum",
            "other_key",
            "other_protocol",
        ];
        let dropped: u64 = names.iter().map(|name| bench.drops("d", name)).sum();
        assert_eq!(bench.take("out").len() as u64 + dropped, 2_000);
    }
}
