//! Adds MPLS labels to IP packets.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> rt :: DirectIPLookup(0/0 0, 10.9.0.0/16 1);
//! rt[0] -> DecIPTTL -> MPLSEncap(100) -> MPLSEtherEncap(02:00:00:00:00:01, 02:00:00:00:01:02) -> Discard;
//! rt[1] -> Discard;
//! ```
//!
//! This is the entry to a label-switched path: a route lookup chooses it. With `MODE uniform` the labels get the
//! packet's time to live, which DecIPTTL has lowered before; with `pipe` they get `TTL`. Their traffic class is
//! `EXP`, or else the precedence of the packet: the upper three bits of its DSCP. A packet that is neither IPv4 nor
//! IPv6 is dropped (`not_ip`), and so is one without room before its data (`no_headroom`).
//!
//! Arguments:
//!
//! - `LABELS`: one label, or several with the outermost first, such as `300/100`.
//!
//! Keyword arguments:
//!
//! - `MODE`: `uniform` or `pipe` (RFC 3443). Default uniform.
//! - `EXP`: the traffic class, 0 to 7. Default: the packet's precedence.
//! - `TTL`: the time to live of the labels with `pipe`. Default 255.

use super::header::{Life, Mode};
use super::syntax::Stack;
use crate::prelude::*;
use wire::mpls::{Entry, LEN, Labels};

drops! {
    pub(crate) NOT_IP = "not_ip",
    pub(crate) NO_HEADROOM = "no_headroom",
}

#[derive(Clone, Copy)]
pub(super) struct MplsEncap {
    labels: Labels,
    mode: Mode,
    exp: Option<u8>,
    ttl: u8,
}

impl Element for MplsEncap {
    const CONTRACT: Contract = Contract::new("MPLSEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::NETWORK])
        .spoils(Facts::AT_NETWORK.and(Facts::ETHER))
        .drops(DROPS)
        .ignores_annotations();

    type Config = MplsEncap;

    fn configure(args: &mut Args) -> MplsEncap {
        let Stack(labels) = args.required("LABELS", "labels, the outermost first");
        let mode = args.key("MODE", Mode::Uniform, "time to live: uniform or pipe");
        let exp: Option<u8> = args.key_maybe("EXP", "the traffic class");
        let ttl = args.key("TTL", 255, "time to live of the labels with MODE pipe");
        if exp.is_some_and(|exp| exp > 7) {
            args.error_in_whole(
                "EXP must be between 0 and 7",
                "leave it out for the packet's",
            );
        }
        if ttl == 0 {
            args.error_in_whole("TTL must not be 0", "leave it out for 255");
        }
        MplsEncap {
            labels,
            mode,
            exp,
            ttl,
        }
    }

    fn new(config: &Arc<MplsEncap>, _: &Init) -> MplsEncap {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match push_labels(packet, &self.labels, self.mode, self.exp, self.ttl) {
            Ok(()) => Verdict::ON,
            Err(reason) => Verdict::drop(reason),
        }
    }
}

/// Puts labels on a packet that begins with its IP header.
#[inline]
pub(crate) fn push_labels(
    packet: &mut Packet,
    labels: &Labels,
    mode: Mode,
    exp: Option<u8>,
    ttl: u8,
) -> Result<(), u8> {
    let life = Life::of_ip(packet.data()).ok_or(NOT_IP)?;
    packet.set_network_offset(0);
    let room = packet.push(labels.len() * LEN).ok_or(NO_HEADROOM)?;
    let ttl = match mode {
        Mode::Uniform => life.ttl,
        Mode::Pipe => ttl,
    };
    for (i, label) in labels.outermost_first().enumerate() {
        let entry = Entry {
            label,
            exp: exp.unwrap_or(life.exp),
            bottom: i + 1 == labels.len(),
            ttl,
        };
        entry.write(room, i * LEN);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6};

    fn labelled(options: &str, packet: &[u8]) -> Vec<u8> {
        let text = format!("e :: MPLSEncap({options}) -> out :: Collect");
        let mut bench = Bench::new(crate::with_basics(), &text);
        bench.push("e", &[packet]);
        let out = bench.take_packets("out").remove(0);
        assert_eq!(out.bytes[out.network_offset..], *packet);
        out.bytes
    }

    #[test]
    fn labels_tell_class_and_time_to_live_of_the_packet_or_their_own() {
        let four = ip4().ttl(9).tos(0xb8).bytes();
        let six = ip6().ttl(7).tos(0x28).bytes();
        assert_eq!(labelled("1000", &four)[..4], [0x00, 0x3e, 0x8b, 9]);
        assert_eq!(labelled("1000", &six)[..4], [0x00, 0x3e, 0x83, 7]);
        let stack = labelled("16/1000, MODE pipe, EXP 0", &four);
        assert_eq!(stack[..8], [0x00, 0x01, 0x00, 255, 0x00, 0x3e, 0x81, 255]);
    }

    #[test]
    fn non_ip_packets_are_dropped() {
        let mut bench = Bench::new(crate::with_basics(), "e :: MPLSEncap(16) -> out :: Collect");
        bench.push("e", &[&b""[..], b"\x45short", b"\x15"]);
        assert_eq!(bench.drops("e", "not_ip"), 3);
    }

    #[test]
    fn mistakes_are_named() {
        for (options, wrong) in [
            ("3", "implicit null"),
            ("16, EXP 8", "EXP must be"),
            ("16, TTL 0", "TTL must not"),
        ] {
            let text = format!("Idle -> MPLSEncap({options}) -> Discard");
            assert!(testkit::errors(crate::with_basics(), &text).contains(wrong));
        }
    }
}
