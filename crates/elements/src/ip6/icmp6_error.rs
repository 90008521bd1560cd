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
//! No answer is made (RFC 4443, 2.4 e) to: ICMPv6 errors and redirects, and later fragments of ICMPv6, whose
//! type is unknown (`about_error`); packets whose source is not one host, or is the router itself
//! (`bad_source`); packets to a group, in IP or in the link layer (`multicast`), except for Packet Too Big and
//! a Parameter Problem about an option whose highest bits are 10. Above the rate limit, which all workers
//! share, packets are dropped, too (`rate_limited`).
//!
//! Arguments:
//!
//! - `SRC`: the router's addresses, as one argument. A packet to one of them is answered from that address, any
//!   other packet from the first address with the scope of its source.
//! - `TYPE`: `unreachable`, `packettoobig`, `timeexceeded`, `parameterproblem`, or a number from 1 to 4.
//! - `CODE`: a number or a name: `noroute`, `prohibited`, `scope`, `address`, `port`, `policy`, `reject`;
//!   `transit`, `reassembly`; `field`, `nextheader`, `option`, `chain`. Default 0. A Parameter Problem without
//!   `CODE` gets code and pointer from the element that found the fault.
//!
//! Keyword arguments:
//!
//! - `MTU`: MTU of the link for which the packet is too big. Required for Packet Too Big.
//! - `POINTER`: offset of the fault, for a Parameter Problem with a code. Default 0.
//! - `BADADDRS`: further sources that are not answered, such as anycast addresses and the router's
//!   own on other interfaces, as one argument.
//! - `MPLS`: true if a stack of MPLS labels precedes the IP header, as after MPLSPayload; the answer then quotes it
//!   as well (RFC 4950). Default false.
//! - `USE_FIX_ANNO`: true if FixIP6Src may later set the source address to that of the interface by which the
//!   answer leaves. It never does for packets to one of `SRC`. Default true.
//! - `RATE`, `BURST`: a limit for this element alone, over all workers: answers per second (0 = no limit) and at
//!   once. Without these arguments the element shares the router's limit with all ICMPError and ICMP6Error elements
//!   (RFC 4443, 2.4 (f)): 1000 per second and 50 at once, unless the `rate` handler of one of them changes it.
//!   Another burst of this size is reserved for networks (/64) that get at most an eighth of it, so that one host
//!   that causes many errors does not keep errors from others.

use super::addresses::Addresses6;
use super::fault;
use super::header_chain::{self, Link};
use super::icmp6_types::{Code, Kind};
use super::network;
use crate::prelude::*;
use crate::rate_limit::Limit;
use engine::packet::HEADROOM;
use engine::packet::anno::PacketType;
use std::net::Ipv6Addr;
use wire::icmp6::{self, PACKET_TOO_BIG, PARAMETER_PROBLEM};
use wire::{Icmp6, Ipv6, addr, checksum, ipv6, mpls, proto};

drops! {
    BAD_HEADER = "bad_header",
    ABOUT_ERROR = "about_error",
    BAD_SOURCE = "bad_source",
    MULTICAST = "multicast",
    RATE_LIMITED = "rate_limited",
    NO_ROOM = "no_room",
}

/// Bytes before the quoted packet.
const BEFORE: usize = ipv6::LEN + icmp6::LEN;
/// IANA's default for the hop limit of packets that a node makes.
const HOPS: u8 = 64;

pub(super) struct Config {
    sources: Vec<Ipv6Addr>,
    kind: u8,
    code: Option<u8>,
    rest: u32,
    by_anno: bool,
    bad: Vec<Ipv6Addr>,
    fix: bool,
    mpls: bool,
    limit: Limit,
    as_click: bool,
}

/// Content of an answer.
struct Answer {
    kind: u8,
    code: u8,
    rest: u32,
}

pub(super) struct ICMP6Error {
    config: Arc<Config>,
    count: u64,
}

/// True if a packet is an ICMPv6 error or redirect, or could be.
fn about_error(packet: &[u8]) -> bool {
    match header_chain::links(packet).last() {
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
    /// Answer to a packet, unless RFC 4443, 2.4 e forbids it.
    fn error_for(&self, packet: &Packet) -> Result<Answer, u8> {
        let config = &*self.config;
        let whole = header_chain::whole(packet).ok_or(BAD_HEADER)?;
        let ip = Ipv6::new_unchecked(whole);
        let (mut code, mut rest) = (config.code.unwrap_or(0), config.rest);
        if config.by_anno && config.kind == PACKET_TOO_BIG {
            rest = packet.cold().path_mtu().max(ipv6::MIN_MTU as u32);
        }
        let mut always = config.kind == PACKET_TOO_BIG;
        if config.kind == PARAMETER_PROBLEM && config.code.is_none() {
            let fault = fault::recorded(packet);
            (code, rest) = (fault.code, fault.pointer);
            always = fault.always && code == icmp6::parameter_problem::OPTION;
        }
        let src = ip.src();
        let ours = config.sources.contains(&src) || config.bad.contains(&src);
        if addr::is_martian_source6(src) || ours {
            return Err(BAD_SOURCE);
        }
        if !always && (addr::is_multicast6(ip.dst()) || header_chain::sent_to_many(packet)) {
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
        let ip = header_chain::header(packet)?;
        let (peer, asked, len) = (ip.src(), ip.dst(), ip.total_len());
        let own = self.config.sources.contains(&asked);
        let source = match own {
            true => asked,
            false => header_chain::source_for(&self.config.sources, peer)?,
        };
        let mut quoted = len.min(ipv6::MIN_MTU - BEFORE);
        let mut rest = answer.rest;
        if self.config.mpls && packet.network_offset() > 0 {
            rest |= quote_labels(packet, len)?;
            quoted = packet.network().len();
        }
        if !packet.pull(packet.network_offset()) {
            return None;
        }
        packet.truncate(quoted);
        packet.leave_large();
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
        icmp.set_rest(rest);
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

/// Quotes the labels before the IP header, behind the quoted part of the packet of `len` bytes. Returns the second word
/// of the message's header with the length of that part.
fn quote_labels(packet: &mut Packet, len: usize) -> Option<u32> {
    let labels = packet.network_offset();
    let (extension, more) = mpls::extension(packet.data().get(..labels)?);
    let quoted = len.min(ipv6::MIN_MTU - BEFORE - more);
    let quoted = quoted.max(mpls::QUOTED_MIN) / 8 * 8;
    packet.truncate(labels + quoted.min(len));
    packet.leave_large();
    let padding = quoted - len.min(quoted);
    let behind = packet.put(padding + more)?;
    behind[..padding].fill(0);
    behind[padding..].copy_from_slice(&extension[..more]);
    Some((quoted as u32 / 8) << 24)
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
    anno.packet_type = PacketType::Host;
    anno.set_fix_ip_src(false);
    anno.set_dst6(dst.octets());
}

impl Element for ICMP6Error {
    const CONTRACT: Contract = Contract::new("ICMP6Error", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP6])
        .gives(&[Facts::IP6.and(Facts::AT_NETWORK).and(Facts::DST6)])
        .spoils(Facts::ETHER.and(Facts::IP4).and(Facts::DST4))
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let sources: Addresses6 = args.required("SRC", "the router's addresses");
        let Kind(kind) = args.required("TYPE", "type of the message");
        let code: Option<Code> = args.maybe("CODE", "code of the message");
        let mtu: Option<Mtu> = args.key_maybe("MTU", "MTU of the next link");
        let mtu = mtu.map(|mtu| {
            // No node has a smaller MTU (RFC 8201, 4), whatever the device reports.
            let least = if mtu.of_device { ipv6::MIN_MTU } else { 0 };
            u32::try_from(mtu.bytes.max(least)).unwrap_or(u32::MAX)
        });
        let by_anno = args.key(
            "ANNO",
            false,
            "true if the MTU is that of the packet's annotation",
        );
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
            || (kind == PACKET_TOO_BIG && mtu.is_none() && !by_anno)
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
            by_anno,
            bad: bad.unwrap_or_default().plain(),
            fix: args.key(
                "USE_FIX_ANNO",
                true,
                "true if FixIP6Src may change the source",
            ),
            mpls: args.key("MPLS", false, "true if labels stand before the IP header"),
            limit: Limit::of_errors(args),
            as_click: args.as_click,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> ICMP6Error {
        ICMP6Error {
            config: Arc::clone(config),
            count: 0,
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let answer = match self.error_for(packet) {
            Ok(answer) => answer,
            Err(why) => return Verdict::drop(why),
        };
        if !self.config.limit.take(network(packet), cx) {
            return Verdict::drop(RATE_LIMITED);
        }
        if self.answer(packet, &answer).is_none() {
            return Verdict::drop(NO_ROOM);
        }
        self.count += 1;
        if self.config.as_click {
            Ipv6::new_unchecked(packet.data_mut()).set_hop_limit(u8::MAX);
            packet.cold_mut().timestamp = 0;
            packet.anno_mut().set_fix_ip_src(self.config.fix);
        }
        Verdict::ON
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.limit.inherit(&old.limit);
    }

    const HANDLERS: &'static [Handler<ICMP6Error>] = &[
        counter!("count", "answers sent", count),
        Handler::shared(
            "rate",
            "the limit: messages per second, messages at once, and if it is the router's or its own",
            |config: &Config, _| Ok(config.limit.show()),
        ),
        Handler::action(
            "rate",
            "`RATE [BURST]`: changes the limit, of all elements that share it",
            |config: &Config, value| config.limit.set(value),
        ),
    ];
}

#[cfg(test)]
mod tests;
