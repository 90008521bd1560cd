//! Examines all extension headers of packets to the router itself.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> IP6Reassembler
//!   -> x :: CheckIP6Extensions -> Discard;
//! x[1] -> ICMP6Error(2001:db8::1, parameterproblem) -> Discard;
//! ```
//!
//! Follows the chain of at most eight headers (RFC 8200, 4) and sets the transport header annotation to its
//! end. A packet with a fault that must be reported to the source leaves by output 1, with code and pointer set
//! for ICMP6Error, or is dropped (`bad_extension`) if output 1 is not connected. A packet with a fault that
//! must not be reported is dropped (`unreported`).
//!
//! Faults are: headers that do not fit into the packet, hop-by-hop options that are not first, unknown destination
//! options whose highest bits request an error, and routing headers with segments left. The router does not process
//! routing headers, so all types, also type 0 (RFC 5095), are answered as unrecognised. IP6HopByHop checks the
//! options of the hop-by-hop header. A packet with more than `OPTIONS` destination options is dropped
//! (`too_many_options`), and so is a fragment (`fragment`): put IP6Reassembler before.
//!
//! Keyword arguments:
//!
//! - `OPTIONS`: destination options in a packet, padding not counted. Default 8.

use super::fault;
use super::header_chain::{self, Link};
use crate::prelude::*;
use wire::ext::{self, BadExt, Options, Report};
use wire::proto;

drops! {
    BAD_HEADER = "bad_header",
    BAD_EXTENSION = "bad_extension",
    UNREPORTED = "unreported",
    TOO_MANY = "too_many_options",
    FRAGMENT = "fragment",
}

pub(super) struct CheckIP6Extensions {
    options: usize,
}

enum Refusal {
    Fault(BadExt),
    TooMany,
    Fragment,
}

impl From<BadExt> for Refusal {
    fn from(bad: BadExt) -> Refusal {
        Refusal::Fault(bad)
    }
}

impl CheckIP6Extensions {
    /// Offset of the upper-layer header.
    fn examine(&self, packet: &[u8]) -> Result<usize, Refusal> {
        let walk = ext::walk(packet)?;
        let mut options = self.options;
        for Link { protocol, at, .. } in
            header_chain::links(packet).take_while(|l| l.at < walk.offset)
        {
            match protocol {
                // Without segments left, a routing header of any type has no effect.
                proto::ROUTING if packet.get(at + 3) != Some(&0) => {
                    return Err(Refusal::Fault(BadExt {
                        code: 0,
                        pointer: at + 2,
                        report: Report::Unicast,
                    }));
                }
                proto::DEST_OPTS => {
                    for item in Options::new(packet, at) {
                        item?.unknown().map_or(Ok(()), Err)?;
                        options = options.checked_sub(1).ok_or(Refusal::TooMany)?;
                    }
                }
                _ => {}
            }
        }
        match walk.fragment {
            Some(fragment) if !fragment.is_atomic() => Err(Refusal::Fragment),
            _ => Ok(walk.offset),
        }
    }
}

impl Element for CheckIP6Extensions {
    const CONTRACT: Contract = Contract::new("CheckIP6Extensions", manual!())
        .ports(Ports::new(&["in"], &["out", "problem?"]))
        .needs(&[Facts::IP6])
        .drops(DROPS);

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.key("OPTIONS", 8, "destination options in a packet")
    }

    fn new(options: &Arc<usize>, _: &Init) -> CheckIP6Extensions {
        CheckIP6Extensions { options: **options }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(whole) = header_chain::whole(packet) else {
            return Verdict::drop(BAD_HEADER);
        };
        match self.examine(whole) {
            Ok(upper) => {
                packet.set_transport_offset(packet.network_offset() + upper);
                Verdict::ON
            }
            Err(Refusal::TooMany) => Verdict::drop(TOO_MANY),
            Err(Refusal::Fragment) => Verdict::drop(FRAGMENT),
            Err(Refusal::Fault(bad)) if fault::record(packet, bad) => {
                Verdict::reject(BAD_EXTENSION, 1)
            }
            Err(Refusal::Fault(_)) => Verdict::drop(UNREPORTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both, ip6};

    const TEXT: &str = "x :: CheckIP6Extensions -> out :: Collect;
        x[1] -> ICMP6Error(2001:db8::ff, parameterproblem, RATE 0) -> told :: Collect";

    fn with(next: u8, headers: &[u8]) -> Vec<u8> {
        ip6("2001:db8::1", "2001:db8::ff", next, 64, headers)
    }

    /// Code and pointer of the answers since the last call.
    fn told(bench: &mut testkit::Bench) -> Vec<(u8, u8)> {
        let all = bench.take("told");
        all.iter().map(|p| (p[41], p[47])).collect()
    }

    #[test]
    fn sound_chains_pass() {
        both(TEXT, |bench| {
            let sound = [
                with(59, b""),
                with(17, b"12345678"),
                with(60, &[17, 0, 1, 4, 0, 0, 0, 0]),
                with(0, &[60, 0, 1, 4, 0, 0, 0, 0, 59, 0, 0x1e, 0, 0, 0, 0, 0]),
                // A routing header of any type without segments left, and an atomic fragment.
                with(43, &[59, 0, 0, 0, 0, 0, 0, 0]),
                with(44, &[59, 0, 0, 0, 1, 2, 3, 4]),
            ];
            bench.push("x", &sound);
            assert_eq!(bench.take("out"), sound);
        });
    }

    #[test]
    fn routing_headers_with_segments_left_are_answered_with_a_pointer_to_the_type() {
        both(TEXT, |bench| {
            for kind in [0, 2, 3, 4, 253] {
                let mut header = vec![59, 2, kind, 1, 0, 0, 0, 0];
                header.extend([0x20; 16]);
                bench.push("x", &[with(43, &header)]);
                assert_eq!(told(bench), [(0, 42)]);
            }
        });
    }

    #[test]
    fn unknown_destination_options_are_answered_with_a_pointer_to_them() {
        both(TEXT, |bench| {
            bench.push("x", &[with(60, &[59, 0, 1, 0, 0x9e, 0, 0, 0])]);
            assert_eq!(told(bench), [(2, 44)]);
            bench.push("x", &[with(60, &[59, 0, 0x5e, 0, 0, 0, 0, 0])]);
            assert_eq!(bench.drops("x", "unreported"), 1);
        });
    }

    #[test]
    fn hop_by_hop_options_out_of_place_are_an_unrecognised_next_header() {
        both(TEXT, |bench| {
            let bytes = [0, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0];
            bench.push("x", &[with(60, &bytes)]);
            assert_eq!(told(bench), [(1, 40)]);
        });
    }

    #[test]
    fn endless_chains_many_options_and_fragments_are_dropped_by_name() {
        both(TEXT, |bench| {
            let mut chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
            bench.push("x", &[with(60, &chain)]);
            assert_eq!(bench.drops("x", "unreported"), 1);
            chain = vec![59, 2];
            chain.extend([0x1e, 0].repeat(9));
            chain.extend([0; 4]);
            bench.push("x", &[with(60, &chain)]);
            assert_eq!(bench.drops("x", "too_many_options"), 1);
            bench.push("x", &[with(44, &[59, 0, 0, 1, 0, 0, 0, 1])]);
            assert_eq!(bench.drops("x", "fragment"), 1);
        });
    }

    #[test]
    fn chains_cut_at_every_length_do_no_harm() {
        let mut chain = vec![60, 0, 5, 2, 0, 0, 1, 0];
        chain.extend([43, 0, 0x1e, 1, 7, 1, 1, 0]);
        chain.extend([51, 0, 0, 0, 0, 0, 0, 0]);
        chain.extend([44, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
        chain.extend([17, 0, 0, 0, 0, 0, 0, 9]);
        chain.extend(b"12345678");
        both(TEXT, |bench| {
            for len in 0..=chain.len() {
                bench.push("x", &[with(0, &chain[..len])]);
                let cut = with(0, &chain);
                bench.push("x", &[&cut[..40 + len]]);
            }
            let sent = 2 * (chain.len() as u64 + 1);
            let came = bench.take("out").len() + bench.take("told").len();
            let lost: u64 = bench.all_drops().iter().map(|d| d.2).sum();
            assert_eq!(came as u64 + lost, sent);
        });
    }
}
