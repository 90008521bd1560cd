//! Processes the hop-by-hop options of IPv6 packets.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> h :: IP6HopByHop -> Discard;
//! h[1] -> ICMP6Error(2001:db8::1, parameterproblem) -> Discard;
//! ```
//!
//! Packets without a hop-by-hop options header pass at once. In other packets each option is processed as in
//! RFC 8200, 4.2 and 4.3: the two highest bits of an unknown option say whether to skip the option or to
//! discard the packet. A packet with a fault that must be reported to the source leaves by output 1, with code
//! and pointer set for ICMP6Error, or is dropped (`bad_option`) if output 1 is not connected. A packet with a
//! fault that must not be reported is dropped (`unreported`). A jumbo payload is a fault, because no port
//! carries it. A packet with more options than `OPTIONS` is dropped (`too_many_options`; RFC 9673, 5).
//!
//! A packet with a router alert (RFC 2711) leaves by output 2 if that is connected; otherwise it passes.
//!
//! Keyword arguments:
//!
//! - `OPTIONS`: options in a header, padding not counted. Default 8.

use super::{fault, header_chain};
use crate::prelude::*;
use wire::ext::{self, BadExt, Options, Report};
use wire::{ipv6, proto};

drops! {
    BAD_HEADER = "bad_header",
    BAD_OPTION = "bad_option",
    UNREPORTED = "unreported",
    TOO_MANY = "too_many_options",
}

pub(crate) struct IP6HopByHop {
    options: usize,
}

/// True if the header at `at` is wholly in the packet.
fn present(packet: &[u8], at: usize) -> Result<(), BadExt> {
    let fault = |pointer| BadExt {
        code: 0,
        pointer,
        report: Report::Unicast,
    };
    let &units = packet.get(at + 1).ok_or(fault(6))?;
    match at + (usize::from(units) + 1) * 8 <= packet.len() {
        true => Ok(()),
        false => Err(fault(at + 1)),
    }
}

impl IP6HopByHop {
    #[cold]
    fn examine(&self, packet: &mut Packet, cx: &Cx) -> Verdict {
        let Some(whole) = header_chain::whole(packet) else {
            return Verdict::drop(BAD_HEADER);
        };
        let at = ipv6::LEN;
        if Options::new(whole, at).count() > self.options {
            return Verdict::drop(TOO_MANY);
        }
        match present(whole, at).and_then(|()| ext::check_hop_by_hop(whole, at)) {
            Ok(Some(_)) if cx.connected(2) => Verdict::out(2),
            Ok(_) => Verdict::ON,
            Err(bad) if fault::record(packet, bad) => Verdict::reject(BAD_OPTION, 1),
            Err(_) => Verdict::drop(UNREPORTED),
        }
    }
}

impl Element for IP6HopByHop {
    const CONTRACT: Contract = Contract::new("IP6HopByHop", manual!())
        .ports(Ports::new(&["in"], &["out", "problem?", "alert?"]))
        .needs(&[Facts::IP6])
        .drops(DROPS)
        .carries_super_frames();

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.key("OPTIONS", 8, "options in a header")
    }

    fn new(options: &Arc<usize>, _: &Init) -> IP6HopByHop {
        IP6HopByHop { options: **options }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }
}

impl Fuse for IP6HopByHop {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        #[inline(always)]
        |packet| {
            let next = packet.network().get(6);
            (next != Some(&proto::HOP_BY_HOP)).then_some(Verdict::ON)
        }
    }

    #[inline]
    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        match packet.network().get(6) {
            Some(&proto::HOP_BY_HOP) => self.examine(packet, cx),
            _ => Verdict::ON,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault;
    use super::super::testing::{both, ip6};
    use testkit::Bench;

    const TEXT: &str = "h :: IP6HopByHop -> out :: Collect; h[1] -> told :: Collect;
        h[2] -> alert :: Collect";

    /// A packet with these eight or more bytes as hop-by-hop header, then nothing.
    fn with(dst: &str, header: &[u8]) -> Vec<u8> {
        ip6("2001:db8::1", dst, 0, 64, header)
    }

    fn drops(bench: &Bench) -> [u64; 3] {
        ["unreported", "too_many_options", "bad_header"].map(|name| bench.drops("h", name))
    }

    #[test]
    fn unknown_options_are_skipped_or_end_the_packet_by_their_highest_bits() {
        both(TEXT, |bench| {
            for (kind, one, group) in [
                (0x1e, "out", "out"),
                (0x5e, "unreported", "unreported"),
                (0x9e, "told", "told"),
                (0xde, "told", "unreported"),
            ] {
                for (dst, expected) in [("2001:db8::2", one), ("ff0e::1", group)] {
                    let packet = with(dst, &[59, 0, kind, 2, 9, 9, 0, 0]);
                    let before = bench.drops("h", "unreported");
                    bench.push("h", &[packet]);
                    match expected {
                        "unreported" => assert_eq!(bench.drops("h", expected), before + 1),
                        port => assert_eq!(bench.take(port).len(), 1, "{kind:x} {dst}"),
                    }
                }
            }
        });
    }

    #[test]
    fn the_fault_is_noted_with_its_pointer() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "h :: IP6HopByHop -> Discard; h[1] -> e :: ICMP6Error(2001:db8::ff, parameterproblem)
             -> out :: Collect",
        );
        bench.push("h", &[with("2001:db8::2", &[59, 0, 1, 0, 0xde, 2, 0, 0])]);
        let out = bench.take("out");
        assert_eq!((out[0][40], out[0][41]), (4, 2));
        assert_eq!(out[0][44..48], [0, 0, 0, 44]);
    }

    #[test]
    fn router_alerts_take_output_2_if_it_is_connected() {
        let packet = with("2001:db8::2", &[59, 0, 5, 2, 0, 0, 1, 0]);
        both(TEXT, |bench| {
            bench.push("h", &[&packet]);
            assert_eq!(bench.take("alert").len(), 1);
        });
        both("h :: IP6HopByHop -> out :: Collect", |bench| {
            bench.push("h", &[&packet]);
            assert_eq!(bench.take("out").len(), 1);
        });
    }

    #[test]
    fn too_many_options_and_jumbo_payloads_are_refused() {
        both(TEXT, |bench| {
            let mut header = vec![59, 2];
            header.extend([0x1e, 0].repeat(9));
            header.extend([0; 4]);
            bench.push("h", &[with("2001:db8::2", &header)]);
            assert_eq!(drops(bench), [0, 1, 0]);
            bench.push("h", &[with("2001:db8::2", &[59, 0, 0xc2, 4, 0, 1, 0, 0])]);
            assert_eq!(bench.take("told").len(), 1);
        });
    }

    #[test]
    fn headers_cut_at_every_length_and_of_every_length_do_no_harm() {
        both(TEXT, |bench| {
            let header = [59, 1, 5, 2, 0, 0, 0x1e, 4, 1, 2, 3, 4, 1, 2, 0, 0];
            let mut sent = 0;
            for len in 0..=header.len() {
                for units in [0, 1, 2, 31, 255] {
                    let mut cut = header[..len].to_vec();
                    if let Some(byte) = cut.get_mut(1) {
                        *byte = units;
                    }
                    let packet = with("2001:db8::2", &cut);
                    bench.push("h", &[&packet[..], &packet[..packet.len() - len / 2]]);
                    sent += 2;
                }
            }
            let came: usize = ["out", "told", "alert"]
                .map(|port| bench.take(port).len())
                .iter()
                .sum();
            assert_eq!(came as u64 + drops(bench).iter().sum::<u64>(), sent);
        });
    }

    #[test]
    fn without_a_note_the_fault_is_an_erroneous_field_at_the_start() {
        let packet = engine::packet::Packet::from_bytes(b"x").unwrap();
        let fault = fault::recorded(&packet);
        assert_eq!((fault.code, fault.pointer, fault.always), (0, 0, false));
    }
}
