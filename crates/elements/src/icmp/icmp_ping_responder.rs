//! Answers pings: turns ICMP echo requests into their replies.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> IPReassembler -> CheckICMPHeader -> p :: ICMPPingResponder -> Discard;
//! ```
//!
//! Addresses are swapped, the TTL is set, and the checksum is updated incrementally. Type of service and data
//! stay as they are (RFC 1812, 4.3.2.5 and 4.3.3.6). Record route and timestamp options are filled in and kept,
//! and source routes are reversed (RFC 1122, 3.2.2.6). The destination address annotation is set, so that the
//! reply can be routed; the timestamp is that of the reply.
//!
//! Requests that were sent to a multicast or broadcast address, in the link layer or in IP, are not answered, and
//! neither are requests whose source is not one host. (`ashlar click` ignores the link layer, because Click's
//! configurations have stations with group addresses.) Packets that are not echo requests leave by output 1, or are
//! dropped.
//!
//! Keyword arguments:
//!
//! - `TTL`: time to live of replies. Default 64.

use crate::ip4::{self, Reversed, day_ms, record};
use crate::prelude::*;
use engine::packet::anno::PacketType;
use std::net::Ipv4Addr;
use wire::ipv4_options::{Opt, Options};
use wire::{Icmp, addr, icmp, proto};

drops! {
    NOT_ECHO = "not_echo",
    GROUP = "group",
    BAD_SOURCE = "bad_source",
    BAD_OPTION = "bad_option",
}

pub(super) struct ICMPPingResponder {
    ttl: u8,
    /// True for Click's behaviour: replies to requests at any link-layer address, with unchanged identification.
    as_click: bool,
}

impl Element for ICMPPingResponder {
    const CONTRACT: Contract = Contract::new("ICMPPingResponder", manual!())
        .ports(Ports::new(&["in"], &["out", "other?"]))
        .needs(&[Facts::IP4])
        .gives(&[Facts::DST4, Facts::NONE])
        .drops(DROPS);

    type Config = u8;

    fn configure(args: &mut Args) -> u8 {
        let usual = if args.as_click { 255 } else { 64 };
        args.key("TTL", usual, "time to live of replies")
    }

    fn new(ttl: &Arc<u8>, init: &Init) -> ICMPPingResponder {
        ICMPPingResponder {
            ttl: **ttl,
            as_click: init.as_click(),
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let Some((src, dst)) = request(packet) else {
            return Verdict::reject(NOT_ECHO, 1);
        };
        let to_host = self.as_click || packet.anno().packet_type == PacketType::Host;
        if !to_host || addr::is_multicast4(dst) || addr::is_class_e(dst) {
            return Verdict::drop(GROUP);
        }
        if addr::is_martian_source4(src) {
            return Verdict::drop(BAD_SOURCE);
        }
        let ident = (!self.as_click).then(|| cx.random() as u16);
        let first = match self.answer(packet, src, dst, ident, day_ms(cx.timestamp())) {
            Ok(first) => first,
            Err(reason) => return Verdict::drop(reason),
        };
        packet.cold_mut().timestamp = cx.timestamp();
        let anno = packet.anno_mut();
        anno.set_dst4(first.octets());
        anno.paint = 0;
        Verdict::ON
    }
}

/// Source and destination of a complete echo request.
fn request(packet: &Packet) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let ip = ip4::header(packet)?;
    let message = ip4::datagram(packet).get(ip.header_len()..)?;
    let is_echo = ip.protocol() == proto::ICMP
        && !ip.is_fragment()
        && message.len() >= icmp::LEN
        && message[0] == icmp::ECHO;
    is_echo.then(|| (ip.src(), ip.dst()))
}

impl ICMPPingResponder {
    /// Turns the request into the reply. Returns the reply's first destination.
    fn answer(
        &self,
        packet: &mut Packet,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        ident: Option<u16>,
        time: u32,
    ) -> Result<Ipv4Addr, u8> {
        let mut ip = ip4::header_mut(packet).ok_or(NOT_ECHO)?;
        let header_len = ip.header_len();
        let header = ip.header_mut();
        record(header, dst, &[], time).map_err(|_| BAD_OPTION)?;
        let mut first = src;
        if let Some(at) = source_route(header)
            && let Some(back) = Reversed::of(header, 0)
        {
            first = back.first;
            header[at..at + back.option().len()].copy_from_slice(back.option());
        }
        ip.set_src(dst);
        ip.set_dst(first);
        ip.set_ttl(self.ttl);
        if let Some(ident) = ident {
            ip.set_ident(ident);
        }
        ip.set_fragment_word(0);
        ip.fill_checksum();
        Icmp::new_unchecked(&mut packet.network_mut()[header_len..]).answer_echo();
        Ok(first)
    }
}

/// Offset of a completely travelled source route option.
fn source_route(header: &[u8]) -> Option<usize> {
    let mut found = Options::new(header).map_while(Result::ok);
    found.find_map(|item| match item.option {
        Opt::LooseRoute(r) | Opt::StrictRoute(r) if r.slot.is_none() => Some(item.at),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, make};
    use engine::packet::anno::PacketType;
    use engine::packet::{Batch, Packet};
    use testkit::Bench;
    use wire::ipv4_options::{LSRR, RR};
    use wire::{Icmp, Ipv4, icmp, proto};

    const TEXT: &str = "c :: CheckIPHeader -> p :: ICMPPingResponder -> out :: Collect;
        p[1] -> other :: Collect";
    const HOST: [u8; 4] = [192, 0, 2, 1];
    const ROUTER: [u8; 4] = [10, 0, 0, 1];

    fn ping(src: [u8; 4], dst: [u8; 4], options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut message = [&[icmp::ECHO, 0, 0, 0, 1, 2, 3, 4], data].concat();
        Icmp::new_unchecked(&mut message[..]).fill_checksum();
        edited(make(src, dst, options, &message), |ip| {
            ip.set_protocol(proto::ICMP);
            ip.set_tos(0x28);
            ip.set_ttl(3);
        })
    }

    fn answer(request: &[u8]) -> Vec<u8> {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        bench.push("c", &[request]);
        bench.take("out").remove(0)
    }

    #[test]
    fn a_request_comes_back_as_its_reply_whatever_its_data() {
        for len in 0..200usize {
            let data: Vec<u8> = (0..len).map(|i| (i * 37 + len) as u8).collect();
            let reply = answer(&ping(HOST, ROUTER, &[], &data));
            let ip = Ipv4::new_checked(&reply).unwrap();
            assert!(ip.verify_checksum());
            assert_eq!((ip.src().octets(), ip.dst().octets()), (ROUTER, HOST));
            assert_eq!((ip.ttl(), ip.tos()), (64, 0x28));
            let message = Icmp::new_checked(ip.payload()).unwrap();
            assert!(message.verify_checksum());
            assert_eq!((message.kind(), message.code()), (icmp::ECHO_REPLY, 0));
            assert_eq!((message.ident(), message.seq()), (0x0102, 0x0304));
            assert_eq!(message.payload(), data);
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong() {
        let mut request = ping(HOST, ROUTER, &[], b"data");
        request[29] ^= 1;
        let reply = answer(&request);
        assert!(!Icmp::new_checked(&reply[20..]).unwrap().verify_checksum());
    }

    #[test]
    fn recorded_routes_come_back_and_source_routes_are_reversed() {
        let recorded = answer(&ping(
            HOST,
            ROUTER,
            &[RR, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0],
            b"",
        ));
        assert_eq!(recorded[20..27], [RR, 11, 8, 10, 0, 0, 1]);
        let routed = answer(&ping(
            HOST,
            ROUTER,
            &[LSRR, 11, 12, 1, 1, 1, 1, 2, 2, 2, 2],
            b"",
        ));
        assert_eq!(routed[20..31], [LSRR, 11, 4, 1, 1, 1, 1, 192, 0, 2, 1]);
        let ip = Ipv4::new_checked(&routed).unwrap();
        assert_eq!(ip.dst().octets(), [2, 2, 2, 2]);
        assert!(ip.verify_checksum());
    }

    #[test]
    fn annotations_say_where_the_reply_goes() {
        let mut bench = Bench::new(crate::CLASSES, &format!("a :: Paint(2) -> {TEXT}"));
        bench.push("a", &[ping(HOST, ROUTER, &[], b"")]);
        let out = &bench.take_packets("out")[0];
        assert_eq!((out.anno.dst4(), out.anno.paint), (HOST, 0));
        assert!(
            !out.anno.fix_ip_src(),
            "the source is the address that was asked"
        );
    }

    #[test]
    fn groups_and_impossible_sources_get_no_answer() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        for group in [[224, 0, 0, 1], [255, 255, 255, 255]] {
            bench.push("c", &[ping(HOST, group, &[], b"")]);
        }
        let mut broadcast = Packet::from_bytes(&ping(HOST, ROUTER, &[], b"")).unwrap();
        broadcast.anno_mut().packet_type = PacketType::Broadcast;
        bench.push_packets("c", 0, Batch::from_iter([broadcast]));
        assert_eq!(bench.drops("p", "group"), 3);
        for source in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1]] {
            bench.push("c", &[ping(source, ROUTER, &[], b"")]);
        }
        assert_eq!(bench.drops("p", "bad_source"), 3);
        assert!(bench.take("out").is_empty());
    }

    #[test]
    fn clicks_driver_answers_link_layer_multicast_frames() {
        let mut bench = Bench::click(crate::CLASSES, TEXT);
        let mut packet = Packet::from_bytes(&ping(HOST, ROUTER, &[], b"")).unwrap();
        packet.anno_mut().packet_type = PacketType::Multicast;
        bench.push_packets("c", 0, Batch::from_iter([packet]));
        let out = bench.take("out").remove(0);
        let (reply, request) = (
            Ipv4::new_checked(&out).unwrap(),
            ping(HOST, ROUTER, &[], b""),
        );
        assert_eq!(reply.ttl(), 255);
        assert_eq!(reply.ident(), Ipv4::new_checked(&request).unwrap().ident());
    }

    #[test]
    fn other_packets_leave_by_output_1() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        let reply = answer(&ping(HOST, ROUTER, &[], b""));
        let short = make(HOST, ROUTER, &[], b"short");
        bench.push("c", &[&reply, &short]);
        assert_eq!(bench.take("other"), [reply, short]);
    }
}
