//! Prepends a GRE header to packets (RFC 2784, RFC 2890).
//!
//! ```click
//! FromDevice(null:64) -> Strip(14)
//!     -> GREEncap(KEY 7)
//!     -> IPEncap(gre, 192.0.2.1, 198.51.100.1)
//!     -> arp :: ARPQuerier(192.0.2.1/24, 02:00:00:00:00:01)
//!     -> ToDevice(null:);
//! Idle -> [1]arp;
//! ```
//!
//! IPEncap makes the outer header. Packets of several protocols take a GREEncap each. A packet without
//! room before its data is dropped (`no_headroom`).
//!
//! Arguments:
//!
//! - `ETHERTYPE`: Ethertype of the inner packets. Default 0x0800, IPv4; 0x86dd for IPv6, 0x6558 for Ethernet frames.
//!
//! Keyword arguments:
//!
//! - `KEY`: number that distinguishes the tunnels between two addresses. Default none.
//! - `CHECKSUM`: true if the header has a checksum of itself and the packet. Default false.
//! - `SEQUENCE`: true if packets are numbered. Numbers begin at 0 and are one sequence for all workers. Default false.

use super::gre::{self, CHECKSUM, KEY, LEN, LEN_MAX, SEQUENCE};
use crate::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wire::{checksum, ether};

drops! {
    NO_HEADROOM = "no_headroom",
}

pub(super) struct Config {
    flags: u16,
    ethertype: u16,
    key: u32,
    /// Sequence number of the next packet.
    next: AtomicU32,
}

pub(super) struct GreEncap {
    config: Arc<Config>,
}

impl Element for GreEncap {
    const CONTRACT: Contract = Contract::new("GREEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .spoils(
            Facts::ETHER
                .and(Facts::AT_NETWORK)
                .and(Facts::IP4)
                .and(Facts::IP6),
        )
        .drops(DROPS)
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let ethertype = args.optional("ETHERTYPE", ether::IPV4, "Ethertype of the packets inside");
        let key: Option<u32> = args.key_maybe("KEY", "number of the tunnel");
        let check = args.key("CHECKSUM", false, "true if the header has a checksum");
        let number = args.key("SEQUENCE", false, "true if packets are numbered");
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        Config {
            flags: flag(check, CHECKSUM) | flag(key.is_some(), KEY) | flag(number, SEQUENCE),
            ethertype,
            key: key.unwrap_or(0),
            next: AtomicU32::new(0),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> GreEncap {
        GreEncap {
            config: Arc::clone(config),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let config = &*self.config;
        let mut header = [0; LEN_MAX];
        header[..2].copy_from_slice(&config.flags.to_be_bytes());
        header[2..LEN].copy_from_slice(&config.ethertype.to_be_bytes());
        let mut at = gre::key_at(config.flags);
        if config.flags & KEY != 0 {
            header[at..at + LEN].copy_from_slice(&config.key.to_be_bytes());
            at += LEN;
        }
        if config.flags & SEQUENCE != 0 {
            let number = config.next.fetch_add(1, Relaxed);
            header[at..at + LEN].copy_from_slice(&number.to_be_bytes());
        }
        let len = gre::len(config.flags);
        let Some(room) = packet.push(len) else {
            return Verdict::drop(NO_HEADROOM);
        };
        room.copy_from_slice(&header[..len]);
        if config.flags & CHECKSUM != 0 {
            let check = checksum::checksum(packet.data());
            packet.data_mut()[LEN..LEN + 2].copy_from_slice(&check.to_be_bytes());
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    /// Packets of GREEncap with these arguments for `ab`, twice.
    fn encap(arguments: &str) -> Vec<Vec<u8>> {
        let text = format!("e :: GREEncap({arguments}) -> out :: Collect");
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("e", &[b"ab", b"ab"]);
        bench.take("out")
    }

    #[test]
    fn fields_are_there_as_the_arguments_say() {
        let plain = [0, 0, 8, 0, b'a', b'b'];
        assert_eq!(encap(""), [plain, plain]);
        assert_eq!(encap("0x86dd")[0][..4], [0, 0, 0x86, 0xdd]);
        let keyed = [0x20, 0, 8, 0, 0x12, 0x34, 0x56, 0x78, b'a', b'b'];
        assert_eq!(encap("KEY 0x12345678")[1], keyed);
        let numbered = [0x30, 0, 8, 0, 0, 0, 0, 7, 0, 0, 0, 1, b'a', b'b'];
        assert_eq!(encap("KEY 7, SEQUENCE true")[1], numbered);
    }

    #[test]
    fn the_checksum_covers_header_and_packet() {
        // 0xb000 + 0x0800 + 7 + 0x6162 = 0x11969, folded 0x196a.
        let whole = [
            0xb0, 0, 8, 0, 0xe6, 0x95, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, b'a', b'b',
        ];
        assert_eq!(encap("KEY 7, SEQUENCE true, CHECKSUM true")[0], whole);
    }
}
