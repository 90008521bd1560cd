//! Makes ICMP error messages about packets that cannot be forwarded.
//!
//! The packet becomes the message, which returns its header, and as much of its data as fits into `MTU` bytes,
//! to its source. The destination address annotation is set, so that the message can be routed like a packet
//! that came in.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL -> Discard;
//! ttl[1] -> ICMPError(10.0.0.1, timeexceeded, INTERFACES 10.0.0.1/24 10.0.1.1/24) -> Discard;
//! ```
//!
//! No message is made (RFC 1812, 4.3.2.7), and the packet is dropped under the name given here, about
//!
//! - an ICMP error message, or an ICMP message that is too short to have a type (`about_error`);
//! - a fragment other than the first (`fragment`);
//! - a packet that came as a link-layer broadcast or multicast (`link_group`), or is addressed to an IP
//!   broadcast or multicast (`group`);
//! - a packet whose source is not one host: network 0, loopback, multicast, class E, or a broadcast
//!   (`bad_source`);
//!
//! No message is made above the rate limit (`rate_limited`). No redirect is made if RFC 1812, 5.2.7.2, forbids
//! it (`no_redirect`): the source must be on the network of the better router, and the packet must not be
//! source-routed.
//!
//! The message has the type of service of the packet, with precedence 6 (4.3.2.5). A source route that the
//! packet has travelled is reversed (4.3.2.6). The message has no paint, and FixIPSrc will give it the address
//! of the interface by which it leaves (4.3.2.4).
//!
//! Arguments:
//!
//! - `SRC`: source address, if no FixIPSrc follows.
//! - `TYPE`: a number, or `unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`.
//! - `CODE`: a number, or, after the type: `net`, `host`, `protocol`, `port`, `needfrag`, `srcroutefail`,
//!   `filterprohibited`; `net`, `host`; `transit`, `reassembly`; `erroratptr`, `missingopt`, `length`.
//!   Default 0.
//!
//! Keyword arguments:
//!
//! - `INTERFACES`: the router's addresses with prefix lengths, for the checks of directed broadcasts and
//!   redirects. Without it these checks are not made.
//! - `BADADDRS`: further source and destination addresses about which no message is made.
//! - `MTU`: maximum length of a message. Default 576 (4.3.2.3).
//! - `PMTU`: the MTU to report in `unreachable needfrag` (RFC 1191): bytes, or `eth0:mtu` for that of the port eth0.
//! - `ANNO`: true if the MTU to report is that of the packet's annotation, as IPsecEncap notes it. Default false.
//! - `RATE`, `BURST`: a limit for this element alone, over all workers: messages per second (0 = no limit) and at
//!   once. Without these arguments the element shares the router's limit with all ICMPError and ICMP6Error elements
//!   (RFC 1812, 4.3.2.8): 1000 per second and 50 at once, unless the `rate` handler of one of them changes it.
//!   Another burst of this size is reserved for hosts that get at most an eighth of it, so that one host that causes
//!   many errors does not keep errors from others. In `ashlar click` there is no limit without these arguments.
//! - `TTL`: time to live of messages. Default 64.
//! - `MPLS`: true if a stack of MPLS labels precedes the IP header, as after MPLSPayload; the message then quotes it
//!   as well (RFC 4950). Default false.
//! - `USE_FIX_ANNO`, or `SET_FIX_ANNO`: true if FixIPSrc is to set the source. Default true.

use crate::ip4::{self, Addresses, Interfaces, PARAMETER, Reversed, SOURCE_ROUTED};
use crate::prelude::*;
use crate::rate_limit::Limit;
use arguments::icmp::kind_and_code;
use engine::packet::anno::{Anno, PacketType};
use std::net::Ipv4Addr;
use wire::icmp::{PARAMETER_PROBLEM, REDIRECT, UNREACHABLE, unreachable};
use wire::ipv4_options::{LSRR, Options, SSRR};
use wire::{Icmp, Ipv4, addr, icmp, ipv4, mpls, proto};

drops! {
    ABOUT_ERROR = "about_error",
    FRAGMENT = "fragment",
    LINK_GROUP = "link_group",
    GROUP = "group",
    BAD_SOURCE = "bad_source",
    NO_REDIRECT = "no_redirect",
    RATE_LIMITED = "rate_limited",
    NO_HEADER = "no_header",
    NO_ROOM = "no_room",
}

/// Precedence 6, internetwork control.
const PRECEDENCE: u8 = 0xc0;
/// Bits of the type of service copied into errors, without the ECN bits.
const TOS: u8 = 0x1c;
/// Headroom of a message in bytes, for link-layer headers.
const HEADROOM: usize = 64;

pub(super) struct Config {
    src: Ipv4Addr,
    kind: u8,
    code: u8,
    interfaces: Interfaces,
    bad: Vec<Ipv4Addr>,
    mtu: usize,
    pmtu: u16,
    by_anno: bool,
    ttl: u8,
    fix_src: bool,
    mpls: bool,
    limit: Limit,
    /// True if messages are like Click's: without precedence, with ascending numbers, and with Click's form of source
    /// routes.
    as_click: bool,
}

pub(super) struct ICMPError {
    config: Arc<Config>,
    limited: bool,
    /// Number of messages created.
    made: u16,
}

impl Element for ICMPError {
    const CONTRACT: Contract = Contract::new("ICMPError", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::IP4])
        .gives(&[Facts::IP4.and(Facts::DST4).and(Facts::AT_NETWORK)])
        .spoils(Facts::ETHER)
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let interfaces: Option<Interfaces> =
            args.key_maybe("INTERFACES", "the router's addresses with prefix lengths");
        let bad: Option<Addresses> =
            args.key_maybe("BADADDRS", "further addresses that get no message");
        // The packet must have room for two headers.
        let least = 2 * ipv4::MAX_LEN + icmp::LEN;
        let mtu = args.key_in("MTU", 576, least..=SIZE_MAX, "the longest message");
        let doc = "the MTU to report in `unreachable needfrag`";
        let pmtu = args.key("PMTU", Mtu::of(0), doc).bytes;
        let limit = Limit::of_errors(args);
        let usual = if args.as_click { 200 } else { 64 };
        let ttl = args.key("TTL", usual, "time to live of messages");
        let fix_src = args.key(
            "USE_FIX_ANNO",
            true,
            "true if FixIPSrc is to set the source",
        );
        let fix_src = args.key("SET_FIX_ANNO", fix_src, "another name of USE_FIX_ANNO");
        let mpls = args.key("MPLS", false, "true if labels stand before the IP header");
        let src = args.required("SRC", "source address, if no FixIPSrc follows");
        let (kind, code) = kind_and_code(args, false);
        if !icmp::is_error(kind) {
            let names = "unreachable, sourcequench, redirect, timeexceeded, parameterproblem";
            args.error_in_whole(
                format!("ICMP type {kind} is not an error type"),
                format!("error types are {names}"),
            );
        }
        Config {
            src,
            kind,
            code,
            interfaces: interfaces.unwrap_or_default(),
            bad: bad.unwrap_or_default().0,
            mtu,
            pmtu: u16::try_from(pmtu).unwrap_or(u16::MAX),
            by_anno: args.key(
                "ANNO",
                false,
                "true if the MTU is that of the packet's annotation",
            ),
            ttl,
            fix_src,
            mpls,
            limit,
            as_click: args.as_click,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> ICMPError {
        ICMPError {
            limited: config.limit.applies(init.as_click()),
            config: Arc::clone(config),
            made: 0,
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        if let Some(reason) = self.config.forbidden(packet) {
            return Verdict::drop(reason);
        }
        if self.limited && !self.config.limit.take(host(packet), cx) {
            return Verdict::drop(RATE_LIMITED);
        }
        self.made = self.made.wrapping_add(1);
        let ident = match self.config.as_click {
            true => self.made,
            false => cx.random() as u16,
        };
        let made = self.config.message(packet, ident);
        if self.config.as_click {
            packet.cold_mut().timestamp = cx.timestamp();
        }
        on_if(made.is_some(), NO_ROOM)
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.limit.inherit(&old.limit);
    }

    const HANDLERS: &'static [Handler<ICMPError>] = &[
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

/// Destination host of a message about a packet, for rate limits.
fn host(packet: &Packet) -> u64 {
    ip4::header(packet).map_or(0, |ip| u64::from(ip.src().to_bits()))
}

impl Config {
    /// Drop reason of a packet about which no message may be sent; `None` if one may be sent.
    fn forbidden(&self, packet: &Packet) -> Option<u8> {
        let Some(ip) = ip4::header(packet) else {
            return Some(NO_HEADER);
        };
        let (src, dst) = (ip.src(), ip.dst());
        let no_host = |a| self.bad.contains(&a) || self.interfaces.is_broadcast(a);
        let kind = ip4::datagram(packet).get(ip.header_len());
        if matches!(
            packet.anno().packet_type,
            PacketType::Broadcast | PacketType::Multicast
        ) {
            Some(LINK_GROUP)
        } else if ip.fragment_offset() != 0 {
            Some(FRAGMENT)
        } else if ip.protocol() == proto::ICMP && kind.is_none_or(|&k| icmp::is_error(k)) {
            Some(ABOUT_ERROR)
        } else if addr::is_martian_source4(src) || no_host(src) {
            Some(BAD_SOURCE)
        } else if addr::is_multicast4(dst) || addr::is_class_e(dst) || no_host(dst) {
            Some(GROUP)
        } else if self.kind == REDIRECT && !self.may_redirect(&ip, packet.anno().dst4().into()) {
            Some(NO_REDIRECT)
        } else {
            None
        }
    }

    fn may_redirect(&self, ip: &Ipv4<&[u8]>, gateway: Ipv4Addr) -> bool {
        let mut options = Options::new(ip.header()).map_while(Result::ok);
        let source_routed = options.any(|item| [LSRR, SSRR].contains(&item.bytes[0]));
        !source_routed && (self.interfaces.is_empty() || self.interfaces.share(ip.src(), gateway))
    }

    /// Second 32-bit word of the message's ICMP header.
    fn second_word(&self, packet: &Packet) -> u32 {
        match (self.kind, self.code) {
            (PARAMETER_PROBLEM, 0) => u32::from(packet.cold().user[PARAMETER]) << 24,
            (REDIRECT, _) => u32::from_be_bytes(packet.anno().dst4()),
            (UNREACHABLE, unreachable::FRAG_NEEDED) => match packet.cold().path_mtu() {
                noted if self.by_anno && noted > 0 => noted.min(u32::from(u16::MAX)),
                _ => u32::from(self.pmtu),
            },
            _ => 0,
        }
    }

    /// Appends the MPLS labels in front of the IP header to the quoted part of the packet. Returns the second word of
    /// the message's header, which contains the length of that part.
    fn quote_labels(&self, packet: &mut Packet, room: usize) -> Option<u32> {
        let labels = packet.network_offset();
        let (extension, len) = mpls::extension(&packet.data()[..labels]);
        let there = packet.network().len();
        let quoted = there.min(room.checked_sub(len)?).max(mpls::QUOTED_MIN) / 4 * 4;
        if quoted + len > room {
            return None; // the MTU is too small
        }
        packet.truncate(labels + quoted);
        packet.leave_large();
        let padding = quoted - there.min(quoted);
        let behind = packet.put(padding + len)?;
        behind[..padding].fill(0);
        behind[padding..].copy_from_slice(&extension[..len]);
        Some((quoted as u32 / 4) << 16)
    }

    /// Turns the packet into the message about it; `None` without room for the headers.
    fn message(&self, packet: &mut Packet, ident: u16) -> Option<()> {
        let own = usize::from(packet.cold().user[SOURCE_ROUTED]);
        let rest = self.second_word(packet);
        let ip = ip4::header(packet)?;
        let (src, tos) = (ip.src(), ip.tos());
        let back = match self.as_click {
            true => Reversed::of_click(ip.header()),
            false => Reversed::of(ip.header(), own),
        };
        let option = back.as_ref().map_or(&[][..], Reversed::padded);
        let dst = back.as_ref().map_or(src, |b| b.first);
        let header_len = ipv4::MIN_LEN + option.len();
        let mut quoted = ip4::datagram(packet).len();
        let room = self.mtu - header_len - icmp::LEN;
        let mut rest = rest;
        if self.mpls && packet.network_offset() > 0 {
            rest |= self.quote_labels(packet, room)?;
            quoted = packet.network().len();
        }
        if !packet.pull(packet.network_offset()) {
            return None;
        }
        packet.truncate(quoted.min(room));
        packet.leave_large();
        let needed = header_len + icmp::LEN + HEADROOM;
        if packet.headroom() < needed && !packet.realign(needed) {
            return None;
        }
        packet.push(header_len + icmp::LEN)?;
        let bytes = packet.data_mut();
        let total_len = bytes.len() as u16;
        let (header, message) = bytes.split_at_mut(header_len);
        let mut message = Icmp::new_unchecked(message);
        message.set_kind(self.kind);
        message.set_code(self.code);
        message.set_rest(rest);
        message.fill_checksum();
        header[ipv4::MIN_LEN..].copy_from_slice(option);
        let mut ip = Ipv4::new_unchecked(header);
        ip.set_header_len(header_len);
        ip.set_tos(match self.as_click {
            true => 0,
            false => PRECEDENCE | tos & TOS,
        });
        ip.set_total_len(total_len);
        ip.set_ident(ident);
        ip.set_fragment_word(0);
        ip.set_ttl(self.ttl);
        ip.set_protocol(proto::ICMP);
        ip.set_src(self.src);
        ip.set_dst(dst);
        ip.fill_checksum();
        self.annotate(packet, dst, header_len);
        Some(())
    }

    /// Sets the annotations of a packet from this router; a traced packet remains traced.
    fn annotate(&self, packet: &mut Packet, dst: Ipv4Addr, header_len: usize) {
        let trace = packet.anno().trace;
        let anno = packet.anno_mut();
        *anno = Anno::EMPTY;
        anno.trace = trace;
        anno.set_dst4(dst.octets());
        anno.set_fix_ip_src(self.fix_src);
        packet.set_network_offset(0);
        packet.set_transport_offset(header_len);
        packet.set_hash(0);
        packet.set_vlan_tci(0);
    }
}

#[cfg(test)]
#[path = "icmp_error_tests.rs"]
mod tests;
