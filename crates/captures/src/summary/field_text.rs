//! A packet's fields for a dump, as text.

use super::tcp_options::ShownOptions;
use super::{Field, digest, ip_options, names, record, tcp_options};
use arguments::icmp;
use packet::Packet;
use std::io::Write as _;
use wire::icmp::{Icmp, UNREACHABLE, unreachable};
use wire::ipv4::Ipv4;
use wire::tcp::Tcp;
use wire::{EtherAddr, proto};

/// The headers of a packet, as far as they are there and sound.
pub struct View<'a> {
    packet: &'a Packet,
    /// Bytes on the wire that were not captured, if they count.
    extra: usize,
    ip: Option<Ipv4<&'a [u8]>>,
    /// Captured bytes after the IP header, without link padding.
    body: &'a [u8],
    /// Transport protocol, if this is no later fragment.
    protocol: Option<u8>,
    /// The ICMP header.
    icmp: Option<Icmp<&'a [u8]>>,
    /// Length of the TCP or UDP header, in bytes. An ICMP header is part of the payload, as in Click.
    transport_len: usize,
    /// Fault of the headers.
    bad: Option<&'static str>,
}

/// Two bytes at `at`, if they are there.
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> View<'a> {
    /// View of a packet whose network header annotation is set. `count_extra` is true if the EXTRA_LENGTH annotation
    /// counts.
    pub fn new(packet: &'a Packet, count_extra: bool) -> View<'a> {
        let extra = if count_extra {
            packet.cold().extra_length() as usize
        } else {
            0
        };
        let mut view = View {
            packet,
            extra,
            ip: None,
            body: &[],
            protocol: None,
            icmp: None,
            transport_len: 0,
            bad: None,
        };
        view.bad = view.find_ip().and_then(|()| view.find_transport()).err();
        view
    }

    fn find_ip(&mut self) -> Result<(), &'static str> {
        if self.packet.anno().network == 0 {
            return Err("no IP header");
        }
        let bytes = self.packet.network();
        let version = bytes.first().map(|b| b >> 4);
        if version.is_some_and(|v| v != 4) {
            return Err("bad IP version");
        }
        if bytes.len() < wire::ipv4::MIN_LEN {
            return Err("truncated IP header");
        }
        let ip = Ipv4::new_unchecked(bytes);
        let hl = ip.header_len();
        if hl < wire::ipv4::MIN_LEN {
            return Err("bad IP header length");
        }
        if bytes.len() < hl {
            return Err("truncated IP header");
        }
        if ip.total_len() < hl {
            return Err("bad IP length");
        }
        self.body = &bytes[hl..ip.total_len().min(bytes.len())];
        self.ip = Some(ip);
        Ok(())
    }

    fn find_transport(&mut self) -> Result<(), &'static str> {
        let Some(ip) = &self.ip else {
            return Ok(());
        };
        if ip.fragment_offset() > 0 {
            return Ok(());
        }
        self.protocol = Some(ip.protocol());
        let body = self.body;
        match ip.protocol() {
            proto::TCP => {
                self.transport_len = 20;
                if body.len() < 20 {
                    return Err("truncated TCP header");
                }
                let tcp = Tcp::new_unchecked(body);
                if tcp.header_len() < 20 {
                    return Err("bad TCP header length");
                }
                self.transport_len = tcp.header_len();
                if body.len() < self.transport_len {
                    return Err("truncated TCP header");
                }
            }
            proto::UDP | proto::UDP_LITE => {
                self.transport_len = 8;
                if body.len() < 8 {
                    return Err("truncated UDP header");
                }
            }
            proto::ICMP => {
                if body.len() < 8 {
                    return Err("truncated ICMP header");
                }
                self.icmp = Some(Icmp::new_unchecked(body));
            }
            _ => {}
        }
        Ok(())
    }

    /// Fault of the headers, if any.
    pub fn header_fault(&self) -> Option<&'static str> {
        self.bad
    }

    /// True if bytes of the IP packet are neither in the packet nor counted by its EXTRA_LENGTH.
    pub fn is_truncated(&self) -> bool {
        let there = self.packet.network().len() + self.extra;
        self.ip.as_ref().is_some_and(|ip| there < ip.total_len())
    }

    fn payload(&self) -> Option<&'a [u8]> {
        self.ip.as_ref()?;
        self.body.get(self.transport_len..)
    }

    fn icmp(&self) -> Option<&Icmp<&'a [u8]>> {
        self.icmp.as_ref()
    }

    /// The transport header from its start, as far as it was captured.
    fn start(&self, protocols: &[u8]) -> Option<&'a [u8]> {
        let body = self.body;
        protocols.contains(&self.protocol?).then_some(body)
    }

    /// The TCP header from its start, unless it says that it is too short.
    fn tcp_start(&self) -> Option<&'a [u8]> {
        let long = |body: &&[u8]| body.get(12).is_none_or(|byte| byte >> 4 >= 5);
        self.start(&[proto::TCP]).filter(long)
    }

    fn port(&self, at: usize) -> Option<u16> {
        self.transport_u16(&[proto::TCP, proto::UDP, proto::DCCP, proto::UDP_LITE], at)
    }

    /// Two bytes of a transport header that may be cut off behind them.
    fn transport_u16(&self, protocols: &[u8], at: usize) -> Option<u16> {
        be16(self.start(protocols)?, at)
    }

    /// Two bytes of a TCP header that may be cut off behind them.
    fn tcp_short(&self, at: usize) -> Option<u16> {
        be16(self.tcp_start()?, at)
    }

    /// Four bytes of a TCP header that may be cut off behind them.
    fn tcp_long(&self, at: usize) -> Option<u32> {
        let bytes = self.tcp_start()?.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }

    fn icmp_byte(&self, at: usize) -> Option<u8> {
        self.start(&[proto::ICMP])?.get(at).copied()
    }

    fn tcp_flags(&self) -> Option<u16> {
        let bytes = self.tcp_start()?.get(12..14)?;
        Some(u16::from(bytes[0] & 1) << 8 | u16::from(bytes[1]))
    }

    /// Length of a TCP header, which may be truncated after its length field.
    fn tcp_header_len(&self) -> Option<usize> {
        let byte = self.tcp_start()?.get(12)?;
        Some(usize::from(byte >> 4) * 4)
    }

    /// Options of a TCP header; none if it says so, also if it is cut off.
    fn tcp_options(&self) -> Option<&'a [u8]> {
        match self.tcp_header_len()? {
            20 => Some(&[]),
            len => self.body.get(20..len),
        }
    }

    fn ip_options(&self) -> Option<&'a [u8]> {
        let hl = self.ip.as_ref()?.header_len();
        self.packet.network().get(20..hl)
    }

    /// A query's identifier and sequence number; those of address masks have none here, as in Click.
    fn icmp_query(&self) -> Option<&Icmp<&'a [u8]>> {
        let query = |m: &&Icmp<&[u8]>| matches!(m.kind(), 0 | 8 | 13..=16);
        self.icmp().filter(query)
    }

    /// Ethernet header of a packet that has one before its network header.
    fn ether_header(&self) -> Option<&'a [u8]> {
        let mac = self.packet.mac()?;
        let behind = self.packet.network().len();
        mac.get(..14).filter(|_| mac.len() >= behind + 14)
    }

    fn ether(&self, at: usize) -> Option<EtherAddr> {
        let bytes = self.ether_header()?.get(at..at + 6)?;
        Some(EtherAddr(bytes.try_into().ok()?))
    }

    fn ether_type(&self) -> Option<u16> {
        let header = self.ether_header()?;
        Some(u16::from_be_bytes([header[12], header[13]]))
    }

    /// The value of a field as a number, also if the field's text is a name.
    pub(super) fn number(&self, field: Field) -> Option<u64> {
        let cold = self.packet.cold();
        let stamp = cold.timestamp;
        Some(match field {
            Field::TsSec => stamp / SECOND,
            Field::TsUsec => stamp % SECOND / 1000,
            Field::TsUsec1 => stamp / 1000,
            Field::Count => u64::from(cold.extra_packets()) + 1,
            Field::Direction | Field::Link | Field::Paint => u64::from(self.packet.anno().paint),
            Field::Aggregate => u64::from(cold.aggregate()),
            Field::WireLen => {
                let whole = self.packet.mac().map_or(0, <[u8]>::len);
                (whole.max(self.packet.len()) + self.extra) as u64
            }
            Field::IpLen => match &self.ip {
                Some(ip) => ip.total_len() as u64,
                None => (self.packet.len() + self.extra) as u64,
            },
            Field::EthType => u64::from(self.ether_type()?),
            Field::PayloadLen => match &self.ip {
                Some(ip) => {
                    let body = ip.total_len() - ip.header_len();
                    body.saturating_sub(self.transport_len) as u64
                }
                None => (self.packet.len() + self.extra) as u64,
            },
            Field::IpCaptureLen => match &self.ip {
                Some(ip) => (ip.header_len() + self.body.len()) as u64,
                None => self.packet.len() as u64,
            },
            _ => {
                return self
                    .ip_number(field)
                    .or_else(|| self.transport_number(field));
            }
        })
    }

    fn ip_number(&self, field: Field) -> Option<u64> {
        let ip = self.ip.as_ref()?;
        Some(match field {
            Field::IpSrc => u64::from(ip.src().to_bits()),
            Field::IpDst => u64::from(ip.dst().to_bits()),
            Field::IpFragoff => u64::from(ip.fragment_word()),
            Field::IpProto => u64::from(ip.protocol()),
            Field::IpHl => ip.header_len() as u64,
            Field::IpId => u64::from(ip.ident()),
            Field::IpTos => u64::from(ip.tos()),
            Field::IpDscp => u64::from(ip.dscp()),
            Field::IpEcn => u64::from(ip.ecn()),
            Field::IpTtl => u64::from(ip.ttl()),
            Field::IpSum => u64::from(ip.checksum()),
            _ => return None,
        })
    }

    fn transport_number(&self, field: Field) -> Option<u64> {
        Some(match field {
            Field::Sport => u64::from(self.port(0)?),
            Field::Dport => u64::from(self.port(2)?),
            Field::TcpSeq => u64::from(self.tcp_long(4)?),
            Field::TcpAck => u64::from(self.tcp_long(8)?),
            Field::TcpOff => self.tcp_header_len()? as u64,
            Field::TcpFlags => u64::from(self.tcp_flags()?),
            Field::TcpWindow => u64::from(self.tcp_short(14)?),
            Field::TcpUrp => u64::from(self.tcp_short(18)?),
            Field::UdpLen => u64::from(self.transport_u16(&[proto::UDP], 4)?),
            Field::IcmpType | Field::IcmpTypeName => u64::from(self.icmp_byte(0)?),
            Field::IcmpCode | Field::IcmpCodeName => u64::from(self.icmp_byte(1)?),
            Field::IcmpFlowid => u64::from(self.icmp_query()?.ident()),
            Field::IcmpSeq => u64::from(self.icmp_query()?.seq()),
            Field::IcmpNextmtu => {
                let needs = |m: &&Icmp<&[u8]>| {
                    m.kind() == UNREACHABLE && m.code() == unreachable::FRAG_NEEDED
                };
                u64::from(self.icmp().filter(needs)?.mtu())
            }
            _ => return None,
        })
    }

    /// Writes a field; `-` if it does not apply.
    pub fn push(&self, field: Field, out: &mut Vec<u8>) {
        let from = out.len();
        if self.push_special(field, out).is_none() {
            out.truncate(from);
            // Writing to a vector cannot fail, here and below.
            let _ = match self.number(field) {
                Some(number) => write!(out, "{number}"),
                None => write!(out, "-"),
            };
        }
    }

    /// Writes a field that is more than a number; `None` if this is none, or does not apply.
    fn push_special(&self, field: Field, out: &mut Vec<u8>) -> Option<()> {
        let cold = self.packet.cold();
        let ip = self.ip.as_ref();
        let _ = match field {
            Field::Timestamp(stamp) => {
                record::push_time(cold.timestamp as i64, stamp, out);
                return Some(());
            }
            Field::FirstTimestamp(stamp) => {
                record::push_time(cold.first_timestamp() as i64, stamp, out);
                return Some(());
            }
            Field::IpSrc => write!(out, "{}", ip?.src()),
            Field::IpDst => write!(out, "{}", ip?.dst()),
            Field::IpFrag => write!(out, "{}", char::from(self.fragment_mark()?)),
            Field::IpFragoff => {
                let ip = ip?;
                let more = if ip.more_fragments() { "+" } else { "" };
                let whole = if ip.dont_fragment() { "!" } else { "" };
                write!(out, "{}{more}{whole}", ip.fragment_offset())
            }
            Field::IpProto => match ip?.protocol() {
                proto::TCP => write!(out, "T"),
                proto::UDP => write!(out, "U"),
                proto::ICMP => write!(out, "I"),
                _ => return None,
            },
            Field::IpEcn => write!(out, "{}", names::ecn_name(ip?.ecn())),
            Field::IcmpTypeName => write!(out, "{}", icmp::type_name(self.icmp()?.kind())?),
            Field::IcmpCodeName => {
                let icmp = self.icmp()?;
                write!(out, "{}", icmp::code_name(icmp.kind(), icmp.code())?)
            }
            Field::Direction => match self.packet.anno().paint {
                0 => write!(out, ">"),
                1 => write!(out, "<"),
                _ => return None,
            },
            Field::EthType => write!(out, "{:04x}", self.ether_type()?),
            Field::EthSrc => push_ether(self.ether(6)?, out),
            Field::EthDst => push_ether(self.ether(0)?, out),
            _ => return self.push_list(field, out),
        };
        Some(())
    }

    fn push_list(&self, field: Field, out: &mut Vec<u8>) -> Option<()> {
        match field {
            Field::TcpFlags => names::push_flags(self.tcp_flags()?, out),
            Field::IpOpt => ip_options::push(self.ip_options()?, out),
            Field::TcpOpt => tcp_options::push(self.tcp_options()?, ShownOptions::All, out),
            Field::TcpNtopt => {
                tcp_options::push(self.tcp_options()?, ShownOptions::NoTimestamp, out)
            }
            Field::TcpSack => tcp_options::push(self.tcp_options()?, ShownOptions::Sack, out),
            Field::Payload => push_quoted(self.payload()?, out),
            Field::PayloadMd5 => digest::push_short(&digest::md5(self.payload()?), out),
            Field::PayloadMd5Hex => digest::push_hex(&digest::md5(self.payload()?), out),
            _ => return None,
        }
        Some(())
    }

    fn fragment_mark(&self) -> Option<u8> {
        let ip = self.ip.as_ref()?;
        Some(if ip.fragment_offset() > 0 {
            b'f'
        } else if ip.more_fragments() {
            b'F'
        } else if ip.dont_fragment() {
            b'!'
        } else {
            b'.'
        })
    }

    /// Bytes of a field whose binary form is no number.
    pub(super) fn push_bytes(&self, field: Field, out: &mut Vec<u8>) -> Option<()> {
        match field {
            Field::IpFrag => out.push(self.fragment_mark()?),
            Field::IpOpt => out.extend(self.ip_options()?),
            Field::TcpOpt => out.extend(self.tcp_options()?),
            Field::TcpNtopt => {
                tcp_options::push_binary(self.tcp_options()?, ShownOptions::NoTimestamp, out);
            }
            Field::TcpSack => {
                tcp_options::push_binary(self.tcp_options()?, ShownOptions::Sack, out)
            }
            Field::PayloadMd5 | Field::PayloadMd5Hex => {
                out.extend(digest::md5(self.payload()?));
            }
            Field::EthSrc => out.extend(self.ether(6)?.0),
            Field::EthDst => out.extend(self.ether(0)?.0),
            _ => return None,
        }
        Some(())
    }

    /// Timestamp and first timestamp in nanoseconds.
    pub(super) fn times(&self) -> (u64, u64) {
        let cold = self.packet.cold();
        (cold.timestamp, cold.first_timestamp())
    }
}

const SECOND: u64 = 1_000_000_000;

/// Writes an Ethernet address as `00-0A-95-A6-D9-BC`.
pub fn push_ether(address: EtherAddr, out: &mut Vec<u8>) -> std::io::Result<()> {
    for (i, byte) in address.0.iter().enumerate() {
        let gap = if i > 0 { "-" } else { "" };
        write!(out, "{gap}{byte:02X}")?;
    }
    Ok(())
}

/// Writes bytes as a string in quotes, with the escapes of configurations.
pub fn push_quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | b'$' => out.extend([b'\\', byte]),
            b'\t' => out.extend(b"\\t"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b' '..=b'~' => out.push(byte),
            _ => {
                // Writing to a vector cannot fail.
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push(b'"');
}
