//! Answers ICMPv6 echo requests.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> CheckICMP6Header
//!   -> p :: ICMP6PingResponder(2001:db8::1 fe80::1) -> Discard;
//! p[1] -> Discard;
//! ```
//!
//! Each request becomes its reply (RFC 4443, 4.2), without extension headers. It keeps its paint, and its
//! destination annotation is set to the asking host; send it to the route lookup. A wrong checksum stays wrong.
//! Other packets leave by output 1, or are dropped (`not_echo`) if output 1 is not connected.
//!
//! A request to a group is answered from the first address of `IP6` with the scope of the asking host. It is
//! dropped (`multicast`) if there is no such address.
//!
//! Arguments:
//!
//! - `IP6`: addresses of the interface, as one argument. May be left out.

use super::addresses::Addresses6;
use super::header_chain;
use super::icmp6_error::{own_packet, write_header};
use crate::prelude::*;
use std::net::Ipv6Addr;
use wire::{Icmp6, Ipv6, addr, checksum, icmp6, ipv6, proto};

drops! {
    NOT_ECHO = "not_echo",
    MULTICAST = "multicast",
    BAD_SOURCE = "bad_source",
}

pub(super) struct ICMP6PingResponder {
    addresses: Arc<Vec<Ipv6Addr>>,
    count: u64,
}

/// Offset of the echo request.
fn request(packet: &[u8]) -> Option<usize> {
    let upper = header_chain::upper(packet)?;
    let message = packet.get(upper.at..)?;
    let icmp = Icmp6::new_checked(message).ok()?;
    let wanted = (proto::ICMP6, icmp6::ECHO, 0);
    ((upper.protocol, icmp.kind(), icmp.code()) == wanted).then_some(upper.at)
}

impl ICMP6PingResponder {
    fn reply(&self, packet: &mut Packet) -> Result<(), u8> {
        let whole = header_chain::whole(packet).ok_or(NOT_ECHO)?;
        let at = request(whole).ok_or(NOT_ECHO)?;
        let ip = Ipv6::new_unchecked(whole);
        if addr::is_martian_source6(ip.src()) {
            return Err(BAD_SOURCE);
        }
        let (peer, asked, len) = (ip.src(), ip.dst(), whole.len());
        let source = match addr::is_multicast6(asked) {
            true => header_chain::source_for(&self.addresses, peer).ok_or(MULTICAST)?,
            false => asked,
        };
        packet.truncate(packet.network_offset() + len);
        // The header moves up to the message, because the extension headers belong to the request.
        if !packet.pull(packet.network_offset() + at - ipv6::LEN) {
            return Err(NOT_ECHO);
        }
        let bytes = packet.data_mut();
        let (header, message) = bytes.split_at_mut_checked(ipv6::LEN).ok_or(NOT_ECHO)?;
        write_header(header, source, peer, message.len());
        let mut icmp = Icmp6::new_unchecked(message);
        icmp.set_kind(icmp6::ECHO_REPLY);
        let check = icmp.checksum();
        let check = checksum::update(check, &asked.octets(), &source.octets());
        let kinds = [icmp6::ECHO, icmp6::ECHO_REPLY].map(|k| [k, 0]);
        icmp.set_checksum(checksum::update(check, &kinds[0], &kinds[1]));
        own_packet(packet, peer);
        Ok(())
    }
}

impl Element for ICMP6PingResponder {
    const CONTRACT: Contract = Contract::new("ICMP6PingResponder", manual!())
        .ports(Ports::new(&["in"], &["out", "other?"]))
        .needs(&[Facts::IP6])
        .gives(&[
            Facts::IP6.and(Facts::AT_NETWORK).and(Facts::DST6),
            Facts::NONE,
        ])
        .spoils(Facts::ETHER)
        .drops(DROPS);

    type Config = Vec<Ipv6Addr>;

    fn configure(args: &mut Args) -> Vec<Ipv6Addr> {
        let addresses: Option<Addresses6> = args.maybe("IP6", "addresses of the interface");
        addresses.unwrap_or_default().plain()
    }

    fn new(addresses: &Arc<Vec<Ipv6Addr>>, _: &Init) -> ICMP6PingResponder {
        ICMP6PingResponder {
            addresses: Arc::clone(addresses),
            count: 0,
        }
    }

    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match self.reply(packet) {
            Ok(()) => {
                self.count += 1;
                Verdict::ON
            }
            Err(NOT_ECHO) => Verdict::reject(NOT_ECHO, 1),
            Err(why) => Verdict::drop(why),
        }
    }

    const HANDLERS: &'static [Handler<ICMP6PingResponder>] =
        &[counter!("count", "replies sent", count)];
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, checksum_holds, icmp6, ip6};
    use wire::Ipv6;

    const TEXT: &str = "p :: ICMP6PingResponder(2001:db8::ff fe80::ff) -> out :: Collect;
        p[1] -> other :: Collect";

    #[test]
    fn requests_are_answered_from_the_address_asked() {
        both(TEXT, |bench| {
            for len in [0, 1, 56, 1400] {
                let data = [&[128, 0, 0, 0, 0x12, 0x34, 0, 7], &vec![0x5a; len][..]].concat();
                bench.push("p", &[icmp6("2001:db8::1", "2001:db8:7::7", &data)]);
                let out = bench.take_packets("out").remove(0);
                let ip = Ipv6::new_checked(&out.bytes).unwrap();
                assert_eq!((ip.src(), ip.dst()), (a("2001:db8:7::7"), a("2001:db8::1")));
                assert_eq!((out.bytes[40], ip.hop_limit()), (129, 64));
                assert_eq!(out.bytes[44..], data[4..]);
                assert!(checksum_holds(&out.bytes));
                assert_eq!(out.anno.dst6(), a("2001:db8::1").octets());
            }
        });
    }

    #[test]
    fn requests_to_a_group_are_answered_from_an_address_of_the_hosts_scope() {
        both(TEXT, |bench| {
            for (host, source) in [("2001:db8::1", "2001:db8::ff"), ("fe80::1", "fe80::ff")] {
                bench.push(
                    "p",
                    &[icmp6(host, "ff02::1", b"\x80\0\0\0\x01\x02\x03\x04")],
                );
                let out = bench.take("out").remove(0);
                assert_eq!(Ipv6::new_checked(&out).unwrap().src(), a(source));
                assert!(checksum_holds(&out));
            }
        });
        both("p :: ICMP6PingResponder -> out :: Collect", |bench| {
            bench.push(
                "p",
                &[icmp6("fe80::1", "ff02::1", b"\x80\0\0\0\x01\x02\x03\x04")],
            );
            assert_eq!(bench.drops("p", "multicast"), 1);
        });
    }

    #[test]
    fn extension_headers_of_the_request_are_left_out_and_padding_is_cut_off() {
        both(TEXT, |bench| {
            let message = icmp6("fe80::1", "fe80::ff", b"\x80\0\0\0\0\x01\0\x02data");
            let payload = [&[58, 0, 1, 4, 0, 0, 0, 0], &message[40..]].concat();
            let packet = ip6("fe80::1", "fe80::ff", 60, 255, &payload);
            bench.push("p", &[[&packet[..], &[0; 9]].concat()]);
            let out = bench.take("out").remove(0);
            assert_eq!(out.len(), message.len());
            assert!(checksum_holds(&out));
        });
    }

    #[test]
    fn non_requests_leave_by_output_1() {
        both(TEXT, |bench| {
            let others = [
                icmp6("fe80::1", "fe80::ff", b"\x81\0\0\0\0\x01\0\x02"),
                icmp6("fe80::1", "fe80::ff", b"\x80\x01\0\0\0\x01\0\x02"),
                ip6("fe80::1", "fe80::ff", 17, 64, b"12345678"),
                ip6("fe80::1", "fe80::ff", 58, 64, b"\x80\0\0"),
            ];
            bench.push("p", &others);
            assert_eq!(bench.take("other"), others);
            bench.push("p", &[icmp6("::", "ff02::1", b"\x80\0\0\0\0\x01\0\x02")]);
            assert_eq!(bench.drops("p", "bad_source"), 1);
        });
    }

    #[test]
    fn a_wrong_checksum_stays_wrong() {
        both(TEXT, |bench| {
            let mut packet = icmp6("fe80::1", "fe80::ff", b"\x80\0\0\0\0\x01\0\x02");
            packet[42] ^= 0xff;
            bench.push("p", &[packet]);
            assert!(!checksum_holds(&bench.take("out")[0]));
        });
    }
}
