//! Answers packets with an ICMPv6 error message.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> d :: DecIP6HLIM -> Discard;
//! d[1] -> ICMP6Error(2001:db8::1 fe80::1, timeexceeded, transit) -> Discard;
//! ```
//!
//! The answer quotes as much of the packet as fits into 1280 bytes (RFC 4443, 2.4 c), carries the
//! packet's paint, and has its destination annotation set to the packet's source; send it to the
//! route lookup.
//!
//! No answer is given (RFC 4443, 2.4 e) about ICMPv6 errors and redirects, nor about later
//! fragments of ICMPv6, whose type is unknown (`about_error`); to sources that are not one host
//! (`bad_source`); about packets to a group or that the link layer sent to many (`multicast`), except Packet
//! Too Big and a Parameter Problem about an option whose highest bits are 10. Above the rate limit,
//! which all cores share, packets are dropped too (`rate_limited`).
//!
//! Arguments:
//!
//! - `SRC`: the router's addresses, as one argument. A packet to one of them is answered from that
//!   address, another one from the first of the scope of its source.
//! - `TYPE`: `unreachable`, `packettoobig`, `timeexceeded`, `parameterproblem`, or a number.
//! - `CODE`: a number or a name: `noroute`, `prohibited`, `scope`, `address`, `port`, `policy`,
//!   `reject`; `transit`, `reassembly`; `field`, `nextheader`, `option`, `chain`. Default 0. A
//!   Parameter Problem without code takes code and pointer from the element that found the fault.
//!
//! Keyword arguments:
//!
//! - `MTU`: of the link for which the packet is too big. Needed for Packet Too Big.
//! - `POINTER`: offset of the fault, for a Parameter Problem with a code. Default 0.
//! - `BADADDRS`: sources that are not answered, such as anycast addresses, as one argument.
//! - `USE_FIX_ANNO`: whether FixIP6Src may put another source address where the answer leaves,
//!   unless the packet was to one of `SRC`. Default true.
//! - `RATE`: answers per second, of the whole router; 0 = no limit. Default 1000.
//! - `BURST`: answers at once. Default 50.

use super::addresses::Addresses6;
use super::chain::{self, Link};
use super::fault;
use crate::limit::Limit;
use crate::prelude::*;
use engine::anno::PacketType;
use engine::args::Names;
use engine::packet::HEADROOM;
use engine::units::FromArg;
use std::net::Ipv6Addr;
use wire::icmp6::{self, PACKET_TOO_BIG, PARAMETER_PROBLEM, TIME_EXCEEDED, UNREACHABLE};
use wire::{Icmp6, Ipv6, addr, checksum, ipv6, proto};

const BAD_HEADER: u8 = 0;
const ABOUT_ERROR: u8 = 1;
const BAD_SOURCE: u8 = 2;
const MULTICAST: u8 = 3;
const RATE_LIMITED: u8 = 4;
const NO_ROOM: u8 = 5;

/// Bytes before the quoted packet.
const BEFORE: usize = ipv6::LEN + icmp6::LEN;
/// IANA's default for the hop limit of packets that a node makes.
const HOPS: u8 = 64;

/// A type by number or name.
struct Kind(u8);

const KINDS: [(&str, u8); 6] = [
    ("unreachable", UNREACHABLE),
    ("packettoobig", PACKET_TOO_BIG),
    ("toobig", PACKET_TOO_BIG),
    ("timeexceeded", TIME_EXCEEDED),
    ("parameterproblem", PARAMETER_PROBLEM),
    ("paramprob", PARAMETER_PROBLEM),
];

impl FromArg for Kind {
    const KIND: &'static str =
        "unreachable, packettoobig, timeexceeded, parameterproblem or a number below 128";

    fn from_arg(raw: &str, _: &Names) -> Result<Kind, String> {
        let named = KINDS.iter().find(|k| k.0 == raw).map(|k| k.1);
        let kind = named.or(raw.parse().ok()).filter(|&k| icmp6::is_error(k));
        kind.map(Kind)
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> Kind {
        Kind(UNREACHABLE)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A code by number, or by name and then of one type only.
struct Code(Option<u8>, u8);

const CODES: [(&str, u8, u8); 13] = [
    ("noroute", UNREACHABLE, 0),
    ("prohibited", UNREACHABLE, 1),
    ("scope", UNREACHABLE, 2),
    ("address", UNREACHABLE, 3),
    ("port", UNREACHABLE, 4),
    ("policy", UNREACHABLE, 5),
    ("reject", UNREACHABLE, 6),
    ("transit", TIME_EXCEEDED, 0),
    ("reassembly", TIME_EXCEEDED, 1),
    ("field", PARAMETER_PROBLEM, 0),
    ("nextheader", PARAMETER_PROBLEM, 1),
    ("option", PARAMETER_PROBLEM, 2),
    ("chain", PARAMETER_PROBLEM, 3),
];

impl FromArg for Code {
    const KIND: &'static str = "a code such as noroute, transit or 3";

    fn from_arg(raw: &str, _: &Names) -> Result<Code, String> {
        let named = CODES.iter().find(|c| c.0 == raw);
        named
            .map(|c| Code(Some(c.1), c.2))
            .or(raw.parse().ok().map(|n| Code(None, n)))
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> Code {
        Code(None, 0)
    }

    fn show(&self) -> String {
        self.1.to_string()
    }
}

pub(super) struct Config {
    sources: Vec<Ipv6Addr>,
    kind: u8,
    code: Option<u8>,
    rest: u32,
    bad: Vec<Ipv6Addr>,
    fix: bool,
    limit: Limit,
}

/// What an answer says.
struct Answer {
    kind: u8,
    code: u8,
    rest: u32,
}

pub(super) struct ICMP6Error {
    config: Arc<Config>,
    count: u64,
}

/// Whether a packet is an ICMPv6 error or redirect, or could be.
fn about_error(packet: &[u8]) -> bool {
    match chain::links(packet).last() {
        Some(Link {
            protocol: proto::ICMP6,
            at,
            ..
        }) => packet
            .get(at)
            .is_none_or(|&kind| icmp6::is_error(kind) || kind == icmp6::REDIRECT),
        Some(Link {
            protocol: proto::FRAGMENT,
            at,
            ..
        }) => packet.get(at) == Some(&proto::ICMP6),
        _ => false,
    }
}

impl ICMP6Error {
    /// What to answer, unless RFC 4443, 2.4 e forbids it.
    fn judge(&self, packet: &Packet) -> Result<Answer, u8> {
        let config = &*self.config;
        let whole = chain::whole(packet).ok_or(BAD_HEADER)?;
        let ip = Ipv6::new_unchecked(whole);
        let (mut code, mut rest) = (config.code.unwrap_or(0), config.rest);
        let mut always = config.kind == PACKET_TOO_BIG;
        if config.kind == PARAMETER_PROBLEM && config.code.is_none() {
            let fault = fault::noted(packet);
            (code, rest) = (fault.code, fault.pointer);
            always = fault.always && code == icmp6::parameter_problem::OPTION;
        }
        if addr::is_martian_source6(ip.src()) || config.bad.contains(&ip.src()) {
            return Err(BAD_SOURCE);
        }
        if !always && (addr::is_multicast6(ip.dst()) || chain::sent_to_many(packet)) {
            return Err(MULTICAST);
        }
        match about_error(whole) {
            true => Err(ABOUT_ERROR),
            false => Ok(Answer {
                kind: config.kind,
                code,
                rest,
            }),
        }
    }

    /// Turns the packet into the answer.
    fn answer(&self, packet: &mut Packet, answer: &Answer) -> Option<()> {
        let ip = chain::header(packet)?;
        let (peer, asked, len) = (ip.src(), ip.dst(), ip.total_len());
        let own = self.config.sources.contains(&asked);
        let source = match own {
            true => asked,
            false => chain::source_for(&self.config.sources, peer)?,
        };
        let quoted = len.min(ipv6::MIN_MTU - BEFORE);
        if !packet.pull(packet.network_offset()) {
            return None;
        }
        packet.truncate(quoted);
        if packet.headroom() < BEFORE && !packet.realign(HEADROOM) {
            return None;
        }
        packet.push(BEFORE)?;
        let bytes = packet.data_mut();
        let (header, message) = bytes.split_at_mut_checked(ipv6::LEN)?;
        write_header(header, source, peer, message.len());
        let mut icmp = Icmp6::new_unchecked(&mut *message);
        icmp.set_kind(answer.kind);
        icmp.set_code(answer.code);
        icmp.set_rest(answer.rest);
        icmp.fill_checksum(checksum::pseudo6(
            source,
            peer,
            proto::ICMP6,
            icmp6::LEN + quoted,
        ));
        own_packet(packet, peer);
        packet.anno_mut().set_fix_ip_src(self.config.fix && !own);
        Some(())
    }
}

/// Writes the header of an ICMPv6 packet that the router makes.
pub(super) fn write_header(header: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr, len: usize) {
    let mut ip = Ipv6::new_unchecked(header);
    ip.set_first_word(0, 0);
    ip.set_payload_len(len as u16);
    ip.set_next_header(proto::ICMP6);
    ip.set_hop_limit(HOPS);
    ip.set_src(src);
    ip.set_dst(dst);
}

/// Sets the annotations of a packet that the router makes, with its IPv6 header first.
pub(super) fn own_packet(packet: &mut Packet, dst: Ipv6Addr) {
    packet.set_network_offset(0);
    packet.set_transport_offset(ipv6::LEN);
    packet.set_hash(0);
    let anno = packet.anno_mut();
    anno.mac = 0;
    anno.group = 0;
    anno.packet_type = PacketType::Host;
    anno.set_fix_ip_src(false);
    anno.set_dst6(dst.octets());
}

impl Element for ICMP6Error {
    const CLASS: &'static str = "ICMP6Error";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const NEEDS: &'static [Facts] = &[Facts::IP6];
    const GIVES: &'static [Facts] = &[Facts::IP6.and(Facts::AT_NETWORK).and(Facts::DST6)];
    const SPOILS: Facts = Facts::ETHER.and(Facts::IP4).and(Facts::DST4);
    const DROPS: &'static [&'static str] = &[
        "bad_header",
        "about_error",
        "bad_source",
        "multicast",
        "rate_limited",
        "no_room",
    ];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let sources: Addresses6 = args.required("SRC", "the router's addresses");
        let Kind(kind) = args.required("TYPE", "type of the message");
        let code: Option<Code> = args.maybe("CODE", "code of the message");
        let mtu: Option<u32> = args.key_maybe("MTU", "MTU of the next link");
        let pointer: Option<u32> = args.key_maybe("POINTER", "offset of the fault");
        if code
            .as_ref()
            .is_some_and(|c| c.0.is_some_and(|k| k != kind))
        {
            args.error_in_whole(
                "CODE is of another TYPE",
                "see `ashlar doc ICMP6Error` for the codes of each type",
            );
        }
        if mtu.is_some_and(|m| m < ipv6::MIN_MTU as u32)
            || (kind == PACKET_TOO_BIG && mtu.is_none())
        {
            args.error_in_whole(
                "MTU must be 1280 or more for packettoobig",
                "write the MTU of the link that the packets did not fit, such as MTU 1500",
            );
        }
        let bad: Option<Addresses6> = args.key_maybe("BADADDRS", "sources that are not answered");
        Config {
            sources: sources.plain(),
            kind,
            code: code.map(|c| c.1),
            rest: mtu.or(pointer).unwrap_or(0),
            bad: bad.unwrap_or_default().plain(),
            fix: args.key(
                "USE_FIX_ANNO",
                true,
                "whether FixIP6Src may change the source",
            ),
            limit: Limit::configure(args, 1000, 50),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> ICMP6Error {
        ICMP6Error {
            config: Arc::clone(config),
            count: 0,
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let answer = match self.judge(packet) {
            Ok(answer) => answer,
            Err(why) => return Verdict::drop(why),
        };
        if !self.config.limit.take(cx) {
            return Verdict::drop(RATE_LIMITED);
        }
        match self.answer(packet, &answer) {
            Some(()) => {
                self.count += 1;
                Verdict::ON
            }
            None => Verdict::drop(NO_ROOM),
        }
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.limit.inherit(&old.limit);
    }

    fn take(&mut self, old: ICMP6Error) {
        self.count = old.count;
    }

    const HANDLERS: &'static [Handler<ICMP6Error>] =
        &[Handler::sum("count", "answers sent", |e| e.count)];
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, checksum_holds, icmp6, ip6};
    use engine::anno::PacketType;
    use engine::packet::{Batch, Packet};
    use testkit::Bench;
    use wire::Ipv6;

    const HOST: &str = "2001:db8::1";
    const FAR: &str = "2001:db8:9::9";

    fn error(arguments: &str) -> String {
        format!("e :: ICMP6Error({arguments}, RATE 0) -> out :: Collect")
    }

    #[test]
    fn every_type_and_code_is_written_with_a_right_checksum() {
        for (arguments, head) in [
            ("unreachable", [1, 0, 0]),
            ("unreachable, prohibited", [1, 1, 0]),
            ("unreachable, scope", [1, 2, 0]),
            ("unreachable, address", [1, 3, 0]),
            ("unreachable, port", [1, 4, 0]),
            ("unreachable, policy", [1, 5, 0]),
            ("1, 6", [1, 6, 0]),
            ("packettoobig, MTU 1280", [2, 0, 1280]),
            ("timeexceeded, transit", [3, 0, 0]),
            ("timeexceeded, reassembly", [3, 1, 0]),
            ("parameterproblem, field, POINTER 7", [4, 0, 7]),
            ("parameterproblem, nextheader, POINTER 6", [4, 1, 6]),
            ("paramprob, chain", [4, 3, 0]),
        ] {
            both(&error(&format!("2001:db8::ff, {arguments}")), |bench| {
                let packet = ip6(HOST, FAR, 17, 9, b"12345678");
                bench.push("e", &[&packet]);
                let out = bench.take_packets("out").remove(0);
                let answer = &out.bytes;
                let ip = Ipv6::new_checked(answer).unwrap();
                assert_eq!((ip.src(), ip.dst()), (a("2001:db8::ff"), a(HOST)));
                assert_eq!((ip.next_header(), ip.hop_limit()), (58, 64));
                assert_eq!(out.anno.dst6(), a(HOST).octets());
                assert!(checksum_holds(answer), "{arguments}");
                let rest = u32::from_be_bytes([answer[44], answer[45], answer[46], answer[47]]);
                assert_eq!([u32::from(answer[40]), u32::from(answer[41]), rest], head);
                assert_eq!(answer[48..], packet);
            });
        }
    }

    #[test]
    fn the_answer_is_no_longer_than_1280_bytes() {
        both(&error("2001:db8::ff, timeexceeded"), |bench| {
            for len in [0, 1, 1191, 1192, 1193, 1400, 2000] {
                let packet = ip6(HOST, FAR, 17, 1, &vec![7; len]);
                bench.push("e", &[&packet]);
                let out = bench.take("out").remove(0);
                assert_eq!(out.len(), (48 + packet.len()).min(1280));
                assert!(checksum_holds(&out));
            }
        });
    }

    #[test]
    fn no_error_is_sent_about_errors_and_redirects() {
        both(&error("2001:db8::ff, timeexceeded"), |bench| {
            for kind in [0, 1, 2, 3, 4, 127, 137] {
                bench.push("e", &[icmp6(HOST, FAR, &[kind, 0, 0, 0, 0, 0, 0, 0])]);
            }
            assert_eq!(bench.drops("e", "about_error"), 7);
            // Behind extension headers, without a type byte, and in a later fragment.
            let hidden = [60, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0];
            bench.push("e", &[ip6(HOST, FAR, 60, 1, &hidden)]);
            bench.push("e", &[ip6(HOST, FAR, 58, 1, b"")]);
            let later = [58, 0, 0, 8, 0, 0, 0, 1, 128, 0, 0, 0];
            bench.push("e", &[ip6(HOST, FAR, 44, 1, &later)]);
            assert_eq!(bench.drops("e", "about_error"), 10);
            for kind in [128, 129, 135, 143] {
                bench.push("e", &[icmp6(HOST, FAR, &[kind, 0, 0, 0, 0, 0, 0, 0])]);
            }
            assert_eq!(bench.take("out").len(), 4);
        });
    }

    #[test]
    fn no_error_goes_to_what_is_not_one_host() {
        both(
            &error("2001:db8::ff, unreachable, BADADDRS 2001:db8::"),
            |bench| {
                for source in ["::", "::1", "ff02::1", "2001:db8::"] {
                    bench.push("e", &[ip6(source, FAR, 17, 64, b"")]);
                }
                assert_eq!(bench.drops("e", "bad_source"), 4);
            },
        );
    }

    fn push_as(bench: &mut Bench, bytes: &[u8], kind: PacketType) {
        let mut packet = Packet::from_bytes(bytes).unwrap();
        packet.anno_mut().packet_type = kind;
        let mut batch = Batch::new();
        batch.push(packet);
        bench.push_packets("e", 0, batch);
    }

    #[test]
    fn what_was_sent_to_many_is_answered_by_packet_too_big_only() {
        let to_group = ip6(HOST, "ff0e::1", 17, 64, b"");
        let to_one = ip6(HOST, FAR, 17, 64, b"");
        for (arguments, answers) in [
            ("2001:db8::ff, unreachable", 0),
            ("2001:db8::ff, timeexceeded", 0),
            ("2001:db8::ff, parameterproblem", 0),
            ("2001:db8::ff, parameterproblem, option", 0),
            ("2001:db8::ff, packettoobig, MTU 1400", 3),
        ] {
            both(&error(arguments), |bench| {
                bench.push("e", &[&to_group]);
                push_as(bench, &to_one, PacketType::Multicast);
                push_as(bench, &to_one, PacketType::Broadcast);
                assert_eq!(bench.take("out").len(), answers, "{arguments}");
                assert_eq!(bench.drops("e", "multicast"), 3 - answers as u64);
            });
        }
    }

    #[test]
    fn an_option_that_asks_for_it_is_answered_even_to_a_group() {
        let text = "h :: IP6HopByHop -> Discard; h[1] -> e :: ICMP6Error(2001:db8::ff,
            parameterproblem) -> out :: Collect";
        both(text, |bench| {
            let option = |kind| ip6(HOST, "ff0e::1", 0, 64, &[59, 0, kind, 4, 0, 0, 0, 0]);
            bench.push("h", &[option(0x9e)]);
            assert_eq!(bench.take("out")[0][40..42], [4, 2]);
            bench.push("h", &[option(0xde)]);
            assert!(bench.take("out").is_empty());
        });
    }

    #[test]
    fn the_source_is_the_address_asked_or_one_of_the_sources_scope() {
        let text = error("2001:db8::ff fe80::ff 2001:db8:2::ff, unreachable, port");
        both(&text, |bench| {
            for (src, dst, expected, fix) in [
                (HOST, FAR, "2001:db8::ff", true),
                (HOST, "2001:db8:2::ff", "2001:db8:2::ff", false),
                (HOST, "fe80::ff", "fe80::ff", false),
                ("fe80::1", FAR, "fe80::ff", true),
            ] {
                bench.push("e", &[ip6(src, dst, 17, 64, b"")]);
                let out = bench.take_packets("out").remove(0);
                let source = Ipv6::new_checked(&out.bytes).unwrap().src();
                assert_eq!((source, out.anno.fix_ip_src()), (a(expected), fix));
            }
        });
    }

    #[test]
    fn the_rate_is_limited_and_recovers() {
        let text = "e :: ICMP6Error(2001:db8::ff, unreachable, RATE 10, BURST 3) -> out :: Collect";
        both(text, |bench| {
            bench.push("e", &vec![ip6(HOST, FAR, 17, 64, b""); 10]);
            assert_eq!(bench.take("out").len(), 3);
            assert_eq!(bench.drops("e", "rate_limited"), 7);
            bench.advance(std::time::Duration::from_millis(100));
            bench.push("e", &vec![ip6(HOST, FAR, 17, 64, b""); 10]);
            assert_eq!(bench.take("out").len(), 1);
            assert_eq!(bench.read("e.count"), "4");
        });
    }

    #[test]
    fn wrong_arguments_are_told() {
        for (arguments, said) in [
            ("2001:db8::1, timeexceeded, port", "CODE is of another TYPE"),
            ("2001:db8::1, packettoobig", "MTU must be 1280 or more"),
            (
                "2001:db8::1, packettoobig, MTU 1000",
                "MTU must be 1280 or more",
            ),
            ("2001:db8::1, 200", "number below 128"),
            ("10.0.0.1, unreachable", "not `10.0.0.1`"),
        ] {
            let text = format!("Idle -> ICMP6Error({arguments}) -> Discard");
            let errors = testkit::errors(crate::CLASSES, &text);
            assert!(errors.contains(said), "{errors}");
        }
    }
}
