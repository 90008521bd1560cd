//! Makes a packet from a record: headers with the values of the record, and defaults for the rest.

use super::names;
use super::record::{IcmpCode, Record};
use arguments::icmp;
use packet::Packet;
use std::net::Ipv4Addr;
use wire::icmp::{Icmp, UNREACHABLE};
use wire::ipv4::Ipv4;
use wire::tcp::Tcp;
use wire::udp::Udp;
use wire::{checksum, proto};

/// Default values of a dump: addresses, ports, protocol, aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Addresses and ports.
    pub flow: Flow,
    /// IP protocol number.
    pub protocol: u8,
    /// Aggregate annotation.
    pub aggregate: u32,
}

/// A flow, as `FLOWID` and `!flowid` define it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    src: Option<Ipv4Addr>,
    dst: Option<Ipv4Addr>,
    sport: u16,
    dport: u16,
}

impl Flow {
    /// Reads `SRC SPORT DST DPORT [PROTO]`; a part that is `-` stays open. Gives the protocol too.
    pub fn parse(words: &[&str]) -> Option<(Flow, Option<u8>)> {
        let (flow, protocol) = match words {
            [src, sport, dst, dport] => ([src, sport, dst, dport], None),
            [src, sport, dst, dport, protocol] => {
                let protocol = match *protocol {
                    "-" => None,
                    word => Some(names::protocol(word)?),
                };
                ([src, sport, dst, dport], protocol)
            }
            _ => return None,
        };
        let address = |word: &str| match word {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        };
        let port = |word: &str| match word {
            "-" => Some(0),
            word => word.parse().ok(),
        };
        let [src, sport, dst, dport] = flow;
        let flow = Flow {
            src: address(src)?,
            dst: address(dst)?,
            sport: port(sport)?,
            dport: port(dport)?,
        };
        Some((flow, protocol))
    }
}

/// Reason why a record gives no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The packet is longer than a packet buffer.
    TooLong,
    /// The packet pool has run dry.
    NoBuffer,
}

const IP_MIN: usize = 20;
const MAX: usize = 65_535;

/// Bounds of a packet's parts, in bytes from the IP header.
struct Layout {
    hl: usize,
    /// Flags and offset of the IP header.
    fragment: u16,
    /// Length of the transport header; 0 without one.
    transport: usize,
    protocol: u8,
    /// Start of the payload.
    payload_at: usize,
    /// Bytes that the record has.
    data: usize,
    /// Bytes that the packet had, as the IP header says.
    ip_len: usize,
    /// Bytes of the packet that is made, at most.
    length_max: usize,
}

impl Layout {
    fn of(record: &Record, defaults: &Defaults) -> Layout {
        let options = record.ip_opt.len().min(40);
        let hl = usize::from(record.ip_hl.unwrap_or(0)).max(IP_MIN + options);
        let protocol = record.protocol.unwrap_or(defaults.protocol);
        let fragment = record.fragment.or(record.fragment_mark).unwrap_or(0);
        let first = fragment & 0x1fff == 0;
        let transport = match protocol {
            proto::TCP if first => {
                let options = record.tcp_opt.len().min(40);
                usize::from(record.tcp_off.unwrap_or(0)).max(20 + options)
            }
            proto::UDP | proto::UDP_LITE | proto::ICMP if first => 8,
            proto::DCCP if first => 12,
            _ => 0,
        };
        let head = hl + transport;
        // The payload of ICMP and DCCP begins behind the IP header, as in ToIPSummaryDump.
        let payload_at = match protocol {
            proto::ICMP | proto::DCCP => hl,
            _ => head,
        };
        let data = head.max(payload_at + record.payload.len());
        let from_payload = record.payload_len.map(|len| payload_at + len as usize);
        let from_data = match record.payload.len() {
            0 => head,
            len => payload_at + len,
        };
        let from_udp = record.udp_len.filter(|_| protocol == proto::UDP && first);
        let from_udp = from_udp.map(|len| hl + usize::from(len));
        // A length of 0 is none, as in Click.
        let whole = [record.ip_len, record.wire_len].map(|len| len.filter(|len| *len > 0));
        let whole = whole.into_iter().flatten().next().map(|len| len as usize);
        let said = whole.or(from_payload).or(from_udp);
        let ip_len = said.unwrap_or(from_data).min(MAX);
        // Click writes a header that does not fit into the IP packet all the same, completely and beyond the packet's
        // end, unless the record gives an IP length and no field that requires such a header.
        let least = if whole.is_none() || record.tells_header(protocol) {
            head
        } else {
            hl
        };
        Layout {
            hl,
            fragment,
            transport,
            protocol,
            payload_at,
            data,
            ip_len,
            length_max: ip_len.max(least),
        }
    }
}

/// Builds a packet from a record. With `checksums` the packet has its full length, with zeros for missing bytes, and
/// valid checksums. Otherwise the EXTRA_LENGTH annotation counts missing bytes.
pub fn packet(record: &Record, defaults: &Defaults, checksums: bool) -> Result<Packet, Fault> {
    let layout = Layout::of(record, defaults);
    let bytes = if checksums {
        layout.data.max(layout.ip_len)
    } else {
        layout.data
    };
    let kept = bytes.min(layout.length_max);
    let mut packet = Packet::new().ok_or(Fault::NoBuffer)?;
    let link = record.eth_src.is_some() || record.eth_dst.is_some();
    if link {
        let ether = packet.put(14).ok_or(Fault::TooLong)?;
        ether[..6].copy_from_slice(&record.eth_dst.unwrap_or_default().0);
        ether[6..12].copy_from_slice(&record.eth_src.unwrap_or_default().0);
        ether[12..].copy_from_slice(&[8, 0]);
        packet.set_mac_here();
    }
    let data = packet.put(bytes).ok_or(Fault::TooLong)?;
    data.fill(0);
    let dst = fill_ip(data, record, defaults, &layout, checksums);
    fill_transport(data, record, defaults, &layout);
    data[layout.payload_at..][..record.payload.len()].copy_from_slice(&record.payload);
    if checksums {
        sum_transport(data, &layout);
    }
    packet.truncate(kept + if link { 14 } else { 0 });
    // The link header is in the packet only to be remembered as its MAC header.
    let _ = packet.pull(if link { 14 } else { 0 });
    packet.set_network_offset(0);
    packet.set_transport_offset(layout.hl);
    annotate(&mut packet, record, defaults, dst);
    let extra = layout.ip_len.saturating_sub(kept);
    if extra > 0 {
        packet.cold_mut().set_extra_length(extra as u32);
    }
    Ok(packet)
}

fn annotate(packet: &mut Packet, record: &Record, defaults: &Defaults, dst: Ipv4Addr) {
    let anno = packet.anno_mut();
    anno.paint = record.paint.unwrap_or(0);
    anno.set_dst4(dst.octets());
    let cold = packet.cold_mut();
    cold.timestamp = record.timestamp.unwrap_or(0) as u64;
    cold.set_first_timestamp(record.first_timestamp.unwrap_or(0) as u64);
    cold.set_aggregate(record.aggregate.unwrap_or(defaults.aggregate));
    cold.set_extra_packets(record.count().saturating_sub(1));
}

fn fill_ip(
    data: &mut [u8],
    record: &Record,
    defaults: &Defaults,
    layout: &Layout,
    checksums: bool,
) -> Ipv4Addr {
    data[0] = 0x40;
    data[IP_MIN..IP_MIN + record.ip_opt.len()].copy_from_slice(&record.ip_opt);
    let dst = record.dst.or(defaults.flow.dst);
    let dst = dst.unwrap_or(Ipv4Addr::UNSPECIFIED);
    let mut ip = Ipv4::new_unchecked(data);
    ip.set_header_len(layout.hl);
    ip.set_tos(record.tos.unwrap_or(0));
    ip.set_total_len(layout.ip_len as u16);
    ip.set_ident(record.ip_id.unwrap_or(0));
    ip.set_fragment_word(layout.fragment);
    ip.set_ttl(record.ttl.unwrap_or(100));
    ip.set_protocol(layout.protocol);
    ip.set_src(
        record
            .src
            .or(defaults.flow.src)
            .unwrap_or(Ipv4Addr::UNSPECIFIED),
    );
    ip.set_dst(dst);
    match record.ip_sum {
        Some(sum) => ip.set_checksum(sum),
        None if checksums => ip.fill_checksum(),
        None => {}
    }
    dst
}

fn fill_transport(data: &mut [u8], record: &Record, defaults: &Defaults, layout: &Layout) {
    if layout.transport == 0 {
        return;
    }
    let sport = record.sport.unwrap_or(defaults.flow.sport);
    let dport = record.dport.unwrap_or(defaults.flow.dport);
    let segment = &mut data[layout.hl..];
    match layout.protocol {
        proto::TCP => {
            segment[20..20 + record.tcp_opt.len()].copy_from_slice(&record.tcp_opt);
            let flags = record.flags.unwrap_or(0);
            let mut tcp = Tcp::new_unchecked(&mut *segment);
            tcp.set_header_len(layout.transport);
            tcp.set_flags(flags as u8);
            tcp.set_src_port(sport);
            tcp.set_dst_port(dport);
            tcp.set_seq(record.seq.unwrap_or(0));
            tcp.set_ack(record.ack.unwrap_or(0));
            tcp.set_window(record.window.unwrap_or(0));
            tcp.set_urgent(record.urgent.unwrap_or(0));
            // The ninth flag is in the byte of the header's length.
            segment[12] |= (flags >> 8) as u8 & 1;
        }
        proto::UDP => {
            let len = layout.ip_len.saturating_sub(layout.hl) as u16;
            let mut udp = Udp::new_unchecked(segment);
            udp.set_src_port(sport);
            udp.set_dst_port(dport);
            udp.set_len(record.udp_len.unwrap_or(len));
        }
        proto::ICMP => fill_icmp(segment, record),
        _ => {
            segment[..2].copy_from_slice(&sport.to_be_bytes());
            segment[2..4].copy_from_slice(&dport.to_be_bytes());
        }
    }
}

fn fill_icmp(segment: &mut [u8], record: &Record) {
    let kind = record.icmp_type.unwrap_or(0);
    let code = match &record.icmp_code {
        None => 0,
        Some(IcmpCode::Number(number)) => *number,
        Some(IcmpCode::Name(name)) => icmp::code_number(kind, name).unwrap_or(0),
    };
    let mut message = Icmp::new_unchecked(segment);
    message.set_kind(kind);
    message.set_code(code);
    if record.icmp_id.is_some() || record.icmp_seq.is_some() {
        message.set_echo(record.icmp_id.unwrap_or(0), record.icmp_seq.unwrap_or(0));
    }
    if let Some(mtu) = record.icmp_mtu.filter(|_| kind == UNREACHABLE) {
        message.set_mtu(mtu);
    }
}

/// Sets the checksum of a complete transport header outside of fragments.
fn sum_transport(data: &mut [u8], layout: &Layout) {
    let ip = Ipv4::new_unchecked(&*data);
    let len = layout.length_max - layout.hl;
    if layout.transport == 0 || ip.is_fragment() || len < layout.transport {
        return;
    }
    let pseudo = checksum::pseudo4(ip.src(), ip.dst(), layout.protocol, len);
    let segment = &mut data[layout.hl..layout.hl + len];
    match layout.protocol {
        proto::TCP => Tcp::new_unchecked(segment).fill_checksum(pseudo),
        proto::UDP => {
            let sum = pseudo + checksum::sum(segment);
            Udp::new_unchecked(segment).set_checksum(checksum::finish_udp(sum));
        }
        proto::ICMP => Icmp::new_unchecked(segment).fill_checksum(),
        _ => {}
    }
}
