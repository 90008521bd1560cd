//! Sends packets to outputs by the protocol after their extension headers.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!   -> p :: IP6ProtocolSwitch(icmp6 128, tcp udp, -);
//! p[0] -> ICMP6PingResponder -> Discard;
//! p[1] -> Discard;
//! p[2] -> ICMP6Error(2001:db8::1, parameterproblem) -> Discard;
//! ```
//!
//! Each argument stands for an output: protocols by number or name (`icmp6`, `tcp`, `udp`, `ospf`, `ipv6`,
//! `gre`, `none` and others), or `icmp6` followed by types of messages, or `-` for every packet. A packet
//! leaves by the first output that matches it; if none does, it is dropped (`unmatched`). For ICMP6Error,
//! packets that leave by `-` are annotated as having an unrecognised next header (RFC 4443, 3.4). Later
//! fragments and broken header chains match only `-`.
//!
//! Arguments:
//!
//! - `PROTOCOLS`: one argument per output.

use super::fault;
use super::header_chain::{self, Link};
use crate::prelude::*;
use wire::ext::{self, BadExt, Report};
use wire::proto;

/// Packets that an output takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Any,
    Protocols(Vec<u8>),
    Icmp6(Vec<u8>),
}

pub(super) struct IP6ProtocolSwitch {
    rules: Arc<Vec<Rule>>,
}

fn protocol(word: &str) -> Option<u8> {
    match word {
        "icmpv6" => Some(proto::ICMP6),
        "none" => Some(proto::NO_NEXT),
        _ => proto::named(word).or_else(|| word.parse().ok()),
    }
}

fn rule(words: &[String]) -> Result<Rule, String> {
    let protocols = |words: &[String]| -> Result<Vec<u8>, String> {
        let each = words.iter();
        each.map(|w| protocol(w).ok_or_else(|| format!("`{w}` is no protocol")))
            .collect()
    };
    let types = |words: &[String]| -> Result<Vec<u8>, String> {
        let each = words.iter();
        each.map(|w| w.parse().map_err(|_| format!("`{w}` is no ICMPv6 type")))
            .collect()
    };
    match words {
        [] => Err("an output needs a protocol or `-`".to_owned()),
        [dash] if dash == "-" => Ok(Rule::Any),
        [first, kinds @ ..] if protocol(first) == Some(proto::ICMP6) && !kinds.is_empty() => {
            types(kinds).map(Rule::Icmp6)
        }
        all => protocols(all).map(Rule::Protocols),
    }
}

impl Rule {
    fn fits(&self, packet: &[u8], upper: Option<Link>) -> bool {
        match (self, upper) {
            (Rule::Any, _) => true,
            (_, None) => false,
            (Rule::Protocols(all), Some(upper)) => all.contains(&upper.protocol),
            (Rule::Icmp6(types), Some(upper)) => {
                let kind = packet.get(upper.at);
                upper.protocol == proto::ICMP6 && kind.is_some_and(|k| types.contains(k))
            }
        }
    }
}

/// End of the chain of headers, also if it is "no next header" (RFC 8200, 4.7).
fn end(packet: &[u8]) -> Option<Link> {
    let nothing = || {
        let last = header_chain::links(packet).last()?;
        (last.protocol == proto::NO_NEXT && ext::walk(packet).is_ok()).then_some(last)
    };
    header_chain::upper(packet).or_else(nothing)
}

impl Element for IP6ProtocolSwitch {
    const CONTRACT: Contract = Contract::new("IP6ProtocolSwitch", manual!())
        .ports(Ports::new(&["in"], &["out+"]))
        .needs(&[Facts::IP6])
        .drops(&["unmatched"])
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Vec<Rule>;

    fn configure(args: &mut Args) -> Vec<Rule> {
        let mut rules = Vec::new();
        for arg in args.rest("PROTOCOLS", "protocols or -", "protocols of an output") {
            match rule(&arg.words()) {
                Ok(rule) => rules.push(rule),
                Err(wrong) => {
                    let help = "write names such as icmp6, tcp, udp or none, or numbers";
                    args.error_with_help(&arg, wrong, help);
                    rules.push(Rule::Any);
                }
            }
        }
        if rules.is_empty() {
            args.error_in_whole("no output is described", "write protocols, or `-`");
        }
        rules
    }

    fn new(rules: &Arc<Vec<Rule>>, _: &Init) -> IP6ProtocolSwitch {
        IP6ProtocolSwitch {
            rules: Arc::clone(rules),
        }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let whole = header_chain::whole(packet).unwrap_or(&[]);
        let upper = end(whole);
        let Some(output) = self.rules.iter().position(|r| r.fits(whole, upper)) else {
            return Verdict::drop(0);
        };
        if self.rules[output] == Rule::Any {
            let unrecognised = BadExt {
                code: wire::icmp6::parameter_problem::NEXT_HEADER,
                pointer: upper.map_or(6, |u| u.named_at),
                report: Report::Unicast,
            };
            fault::record(packet, unrecognised);
        }
        Verdict::out(output as u8)
    }
}

impl Resources for IP6ProtocolSwitch {
    fn port_count(rules: &Vec<Rule>) -> (Option<usize>, Option<usize>) {
        (None, Some(rules.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{both, icmp6, ip6};

    const TEXT: &str = "p :: IP6ProtocolSwitch(icmp6 128 135, icmp6, tcp 17) -> echo :: Collect;
        p[1] -> other :: Collect; p[2] -> transport :: Collect";

    #[test]
    fn packets_go_by_protocol_and_icmp_type_behind_all_extension_headers() {
        both(TEXT, |bench| {
            let echo = icmp6("fe80::1", "fe80::2", &[128, 0, 0, 0, 0, 1, 0, 1]);
            let reply = icmp6("fe80::1", "fe80::2", &[129, 0, 0, 0, 0, 1, 0, 1]);
            let udp = ip6("fe80::1", "fe80::2", 60, 64, &[17, 0, 1, 4, 0, 0, 0, 0]);
            bench.push("p", &[&echo, &reply, &udp]);
            assert_eq!(bench.take("echo"), [echo]);
            assert_eq!(bench.take("other"), [reply]);
            assert_eq!(bench.take("transport"), [udp]);
            bench.push("p", &[ip6("fe80::1", "fe80::2", 59, 64, b"")]);
            bench.push(
                "p",
                &[ip6(
                    "fe80::1",
                    "fe80::2",
                    44,
                    64,
                    &[17, 0, 0, 8, 0, 0, 0, 1],
                )],
            );
            assert_eq!(bench.drops("p", "unmatched"), 2);
        });
    }

    #[test]
    fn no_next_header_is_a_protocol_and_a_later_fragment_has_none() {
        let text = "p :: IP6ProtocolSwitch(none, -) -> nothing :: Collect; p[1] -> rest :: Collect";
        both(text, |bench| {
            let options = [59, 0, 1, 4, 0, 0, 0, 0];
            let alone = ip6("fe80::1", "fe80::2", 59, 64, b"ignored");
            let behind = ip6("fe80::1", "fe80::2", 60, 64, &options);
            let fragment = ip6("fe80::1", "fe80::2", 44, 64, &[59, 0, 0, 8, 0, 0, 0, 1]);
            bench.push("p", &[&alone, &behind, &fragment]);
            assert_eq!(bench.take("nothing"), [alone, behind]);
            assert_eq!(bench.take("rest"), [fragment]);
        });
    }

    #[test]
    fn other_protocols_are_recorded_as_unrecognised_next_headers() {
        let text = "p :: IP6ProtocolSwitch(udp, -) -> Discard;
            p[1] -> ICMP6Error(2001:db8::ff, parameterproblem) -> out :: Collect";
        both(text, |bench| {
            let bytes = [200, 0, 1, 4, 0, 0, 0, 0];
            bench.push("p", &[ip6("2001:db8::1", "2001:db8::ff", 60, 64, &bytes)]);
            let out = bench.take("out");
            assert_eq!((out[0][40], out[0][41], out[0][47]), (4, 1, 40));
        });
    }

    #[test]
    fn unknown_protocols_are_refused() {
        let text = "Idle -> p :: IP6ProtocolSwitch(tpc, icmp6 300); p[0], p[1] -> Discard";
        let errors = testkit::errors(
            crate::CLASSES,
            &text.replace("p[0], p[1] -> Discard", "p[0] -> Discard; p[1] -> Discard"),
        );
        assert!(
            errors.contains("`tpc` is no protocol") && errors.contains("`300` is no ICMPv6 type"),
            "{errors}"
        );
    }
}
