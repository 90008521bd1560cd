//! Checks ICMPv6 messages: length and checksum.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> c :: CheckICMP6Header -> Discard;
//! c[1] -> Discard;
//! ```
//!
//! The message follows the extension headers. A packet without an ICMPv6 message (`not_icmp6`), with one of fewer
//! than eight bytes (`too_short`) or with a wrong checksum (`bad_checksum`; RFC 4443, 2.3) leaves by output 1, or is
//! dropped if output 1 is not connected. The transport header annotation is set. Fragments have no separate checksum:
//! put IP6Reassembler before.

use super::header_chain;
use crate::prelude::*;
use wire::{Icmp6, Ipv6, checksum, proto};

drops! {
    NOT_ICMP6 = "not_icmp6",
    TOO_SHORT = "too_short",
    BAD_CHECKSUM = "bad_checksum",
}

pub(super) struct CheckICMP6Header;

/// Offset of a valid ICMPv6 message in a packet. The error is a drop reason.
pub(super) fn sound_message(packet: &[u8]) -> Result<usize, u8> {
    let upper = header_chain::upper(packet).ok_or(NOT_ICMP6)?;
    if upper.protocol != proto::ICMP6 {
        return Err(NOT_ICMP6);
    }
    let message = packet.get(upper.at..).unwrap_or(&[]);
    let icmp = Icmp6::new_checked(message).map_err(|_| TOO_SHORT)?;
    let ip = Ipv6::new_unchecked(packet);
    let pseudo = checksum::pseudo6(ip.src(), ip.dst(), proto::ICMP6, message.len());
    match icmp.verify_checksum(pseudo) {
        true => Ok(upper.at),
        false => Err(BAD_CHECKSUM),
    }
}

impl Element for CheckICMP6Header {
    const CONTRACT: Contract = Contract::new("CheckICMP6Header", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .needs(&[Facts::IP6])
        .drops(DROPS);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> CheckICMP6Header {
        CheckICMP6Header
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match sound_message(header_chain::whole(packet).unwrap_or(&[])) {
            Ok(at) => {
                packet.set_transport_offset(packet.network_offset() + at);
                Verdict::ON
            }
            Err(why) => Verdict::reject(why, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both, icmp6, ip6};

    #[test]
    fn any_flipped_bit_and_any_cut_is_seen() {
        both("c :: CheckICMP6Header -> out :: Collect", |bench| {
            let good = icmp6("fe80::1", "fe80::2", b"\x80\0\0\0\0\x01\0\x02data");
            bench.push("c", &[&good]);
            assert_eq!(bench.take("out").len(), 1);
            for bit in 8 * 8..8 * good.len() {
                let mut bad = good.clone();
                bad[bit / 8] ^= 0x80 >> (bit % 8);
                bench.push("c", &[bad]);
            }
            assert!(bench.take("out").is_empty());
            for len in 0..8 {
                bench.push(
                    "c",
                    &[ip6("fe80::1", "fe80::2", 58, 255, &good[40..40 + len])],
                );
            }
            assert_eq!(bench.drops("c", "too_short"), 8);
            bench.push("c", &[ip6("fe80::1", "fe80::2", 17, 255, &good[40..])]);
            assert_eq!(bench.drops("c", "not_icmp6"), 1);
        });
    }

    #[test]
    fn the_message_is_found_behind_extension_headers() {
        let text = "c :: CheckICMP6Header -> out :: Collect; c[1] -> bad :: Collect";
        both(text, |bench| {
            let message = icmp6("fe80::1", "fe80::2", b"\x80\0\0\0\0\x01\0\x02data");
            let payload = [&[58, 0, 1, 4, 0, 0, 0, 0], &message[40..]].concat();
            let mut packet = ip6("fe80::1", "fe80::2", 60, 255, &payload);
            bench.push("c", &[&packet]);
            assert_eq!(bench.take("out").len(), 1);
            packet[55] ^= 1;
            bench.push("c", &[&packet]);
            assert_eq!(bench.take("bad").len(), 1);
        });
    }
}
