//! Writes a line about each IPv4 packet, in the format of tcpdump, to the standard error stream.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> UDPIPEncap(192.0.2.1, 9, 192.0.2.2, 9) -> IPPrint(out) -> Discard;
//! ```
//!
//! Prints the packet from the network header annotation on. Packets pass unchanged. For TCP the line has the flags,
//! the first and last sequence number, and in parentheses three lengths: of the data, of the packet, and of the IP
//! packet by its header.
//!
//! Arguments:
//!
//! - `LABEL`: beginning of the line.
//!
//! Keyword arguments:
//!
//! - `CONTENTS`: form of the packet's bytes: `HEX`, `ASCII` or `NONE`. Default NONE.
//! - `PAYLOAD`: the same for the bytes after the transport header.
//! - `MAXLENGTH`: most bytes shown by `CONTENTS` and `PAYLOAD`; negative = all. Default 1500.
//! - `ID`, `TTL`, `TOS`, `LENGTH`: true to show these fields of the header. Default false.
//! - `TIMESTAMP`: true if the packet's timestamp is shown. Default true.
//! - `AGGREGATE`, `PAINT`: true to show these annotations. Default false.
//! - `SWAP`: true if ICMP identifiers are in network order. Default true.
//! - `OUTFILE`: a file to write to.
//! - `ACTIVE`: if false, writes nothing. Default true.

use super::contents::{Contents, max_length};
use super::printer::Style;
use crate::prelude::*;
use arguments::icmp;
use std::io::Write as _;
use wire::icmp::{Icmp, PARAMETER_PROBLEM, REDIRECT, TIME_EXCEEDED, UNREACHABLE};
use wire::ipv4::Ipv4;
use wire::proto;
use wire::tcp::Tcp;
use wire::udp::Udp;

pub(super) struct IpPrint {
    contents: Contents,
    payload: Contents,
    length_max: usize,
    id: bool,
    ttl: bool,
    tos: bool,
    length: bool,
    aggregate: bool,
    paint: bool,
    network_order: bool,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;
const URG: u8 = 32;
/// Letters of the flags that are shown, in their order.
const LETTERS: [(u8, u8); 4] = [(SYN, b'S'), (FIN, b'F'), (4, b'R'), (8, b'P')];

type Line = Vec<u8>;

impl IpPrint {
    fn push_annotations(&self, packet: &Packet, out: &mut Line) {
        let paint = packet.anno().paint;
        // Writing to a vector cannot fail, here and below.
        let _ = match (self.aggregate, self.paint) {
            (true, true) => write!(out, "#{}.{paint}: ", packet.cold().aggregate()),
            (true, false) => write!(out, "#{}: ", packet.cold().aggregate()),
            (false, true) => write!(out, "paint {paint}: "),
            (false, false) => Ok(()),
        };
    }

    /// Writes about a packet; gives the bytes behind its transport header.
    fn push_packet<'a>(&self, packet: &'a Packet, out: &mut Line) -> &'a [u8] {
        let bytes = packet.network();
        if packet.anno().network == 0 {
            out.extend(b"(Not an IP packet)");
            return &[];
        }
        if bytes.len() < wire::ipv4::MIN_LEN {
            let missing = wire::ipv4::MIN_LEN - bytes.len();
            let _ = write!(out, "truncated-ip - {missing} bytes missing");
            return &[];
        }
        let ip = Ipv4::new_unchecked(bytes);
        let fields = [
            (self.id, "id", usize::from(ip.ident())),
            (self.ttl, "ttl", usize::from(ip.ttl())),
            (self.tos, "tos", usize::from(ip.tos())),
            (self.length, "length", ip.total_len()),
        ];
        for (_, name, value) in fields.iter().filter(|f| f.0) {
            let _ = write!(out, "{name} {value} ");
        }
        let body = bytes.get(ip.header_len()..).unwrap_or(&[]);
        let head = if ip.fragment_offset() > 0 {
            push_addresses(&ip, None, out);
            push_protocol(ip.protocol(), out);
            0
        } else {
            self.push_transport(packet, &ip, body, out)
        };
        if ip.is_fragment() {
            let len = ip.total_len().saturating_sub(ip.header_len());
            let more = if ip.more_fragments() { "+" } else { "" };
            let (id, at) = (ip.ident(), ip.fragment_offset());
            let _ = write!(out, " (frag {id}:{len}@{at}{more})");
        }
        body.get(head..).unwrap_or(&[])
    }

    /// Writes addresses and transport header, whose length it gives.
    fn push_transport(
        &self,
        packet: &Packet,
        ip: &Ipv4<&[u8]>,
        body: &[u8],
        out: &mut Line,
    ) -> usize {
        let protocol = ip.protocol();
        let needed = match protocol {
            proto::TCP => 20,
            proto::UDP | proto::ICMP => 8,
            _ => 0,
        };
        if body.len() < needed {
            push_addresses(ip, None, out);
            push_protocol(protocol, out);
            let _ = write!(
                out,
                " truncated-{}",
                protocol_name(protocol).unwrap_or("ip")
            );
            return body.len();
        }
        match protocol {
            proto::TCP => push_tcp(packet, ip, &Tcp::new_unchecked(body), out),
            proto::UDP => {
                let udp = Udp::new_unchecked(body);
                push_addresses(ip, Some((udp.src_port(), udp.dst_port())), out);
                let _ = write!(out, "udp {}", udp.len());
                8
            }
            proto::ICMP => {
                push_addresses(ip, None, out);
                self.push_icmp(&Icmp::new_unchecked(body), out);
                8
            }
            _ => {
                push_addresses(ip, None, out);
                push_protocol(protocol, out);
                0
            }
        }
    }

    fn push_icmp(&self, message: &Icmp<&[u8]>, out: &mut Line) {
        let kind = message.kind();
        out.extend(b"icmp ");
        // The destination of the packet that an error is about.
        let about = message.payload().get(..wire::ipv4::MIN_LEN);
        if let (UNREACHABLE | REDIRECT, Some(about)) = (kind, about) {
            let _ = write!(out, "{} ", Ipv4::new_unchecked(about).dst());
        }
        let _ = match icmp::type_name(kind) {
            Some(name) => write!(out, "{name}"),
            None => write!(out, "type {kind}"),
        };
        let _ = match kind {
            UNREACHABLE | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM => {
                let code = message.code();
                match icmp::code_name(kind, code) {
                    Some(name) => write!(out, " {name}"),
                    None => write!(out, " code {code}"),
                }
            }
            0 | 8 | 13..=18 => {
                let order = |n: u16| {
                    if self.network_order {
                        n
                    } else {
                        n.swap_bytes()
                    }
                };
                let (id, seq) = (order(message.ident()), order(message.seq()));
                write!(out, " ({id}, {seq})")
            }
            _ => Ok(()),
        };
    }
}

fn push_tcp(packet: &Packet, ip: &Ipv4<&[u8]>, tcp: &Tcp<&[u8]>, out: &mut Line) -> usize {
    push_addresses(ip, Some((tcp.src_port(), tcp.dst_port())), out);
    let flags = tcp.flags();
    let from = out.len();
    let set = LETTERS.iter().filter(|(bit, _)| flags & bit != 0);
    out.extend(set.map(|(_, letter)| letter));
    if out.len() == from {
        out.push(b'.');
    }
    let head = ip.header_len() + tcp.header_len();
    let mut len = ip.total_len().saturating_sub(head) as u32;
    len += u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let (first, last) = (tcp.seq(), tcp.seq().wrapping_add(len));
    let (whole, ip_len) = (packet.len(), ip.total_len());
    let _ = write!(out, " {first}:{last}({len},{whole},{ip_len})");
    if flags & ACK != 0 {
        let _ = write!(out, " ack {}", tcp.ack());
    }
    let _ = write!(out, " win {}", tcp.window());
    if flags & URG != 0 {
        let _ = write!(out, " urg {}", tcp.urgent());
    }
    tcp.header_len()
}

fn push_addresses(ip: &Ipv4<&[u8]>, ports: Option<(u16, u16)>, out: &mut Line) {
    let (src, dst) = (ip.src(), ip.dst());
    let _ = match ports {
        Some((from, to)) => write!(out, "{src}.{from} > {dst}.{to}: "),
        None => write!(out, "{src} > {dst}: "),
    };
}

fn protocol_name(protocol: u8) -> Option<&'static str> {
    match protocol {
        proto::TCP => Some("tcp"),
        proto::UDP => Some("udp"),
        proto::ICMP => Some("icmp"),
        _ => None,
    }
}

fn push_protocol(protocol: u8, out: &mut Line) {
    let _ = match protocol_name(protocol) {
        Some(name) => write!(out, "{name}"),
        None => write!(out, "ip-proto-{protocol}"),
    };
}

impl Style for IpPrint {
    const CLASS: &'static str = "IPPrint";
    const MANUAL: &'static str = manual!();
    const TIMESTAMP: bool = true;
    const TO_FILE: bool = true;

    fn configure(args: &mut Args) -> IpPrint {
        let contents = args.key(
            "CONTENTS",
            Contents::None,
            "form of the bytes: HEX, ASCII or NONE",
        );
        let payload = args.key(
            "PAYLOAD",
            Contents::None,
            "form of the payload: HEX, ASCII or NONE",
        );
        if contents != Contents::None && payload != Contents::None {
            args.error_in_whole(
                "specify at most one of PAYLOAD and CONTENTS",
                "leave one out",
            );
        }
        IpPrint {
            contents,
            payload,
            length_max: max_length(args, 1500),
            id: args.key("ID", false, "true if the identification is shown"),
            ttl: args.key("TTL", false, "true if the time to live is shown"),
            tos: args.key("TOS", false, "true if the type of service is shown"),
            length: args.key("LENGTH", false, "true if the length is shown"),
            aggregate: args.key("AGGREGATE", false, "true if the aggregate is shown"),
            paint: args.key("PAINT", false, "true if the paint is shown"),
            network_order: args.key("SWAP", true, "true if ICMP's numbers are in network order"),
        }
    }

    fn describe(&self, packet: &Packet, out: &mut Line) {
        self.push_annotations(packet, out);
        let payload = self.push_packet(packet, out);
        let cut = |bytes: &'_ [u8]| bytes.len().min(self.length_max);
        let whole = packet.data();
        self.contents.push_lines(&whole[..cut(whole)], out);
        self.payload.push_lines(&payload[..cut(payload)], out);
    }
}

#[cfg(test)]
#[path = "ip_print_tests.rs"]
mod tests;
