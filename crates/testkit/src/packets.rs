//! Packet builder: `ip4().dst("10.0.0.2").udp(1, 2).payload("hello").bytes()`.
//!
//! Every length and checksum is right unless a method changes it. Addresses may be given as text or as values that
//! print as one. Mistakes in a test's own arguments panic.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::mpls::Entry;
use wire::{EtherAddr, Icmp, Icmp6, Ipv4, Ipv6, Tcp, Udp};
use wire::{checksum, ether, ext, icmp, icmp6, ipv4, ipv6, proto, tcp, vlan};

/// The upper layer of a packet.
#[derive(Clone, Debug)]
enum Upper {
    Raw,
    Udp { src: u16, dst: u16 },
    Tcp { src: u16, dst: u16 },
    Icmp { kind: u8, code: u8, rest: u32 },
}

/// A packet under construction, made by [`ip4`] or [`ip6`] and finished by [`Build::bytes`].
#[derive(Clone, Debug)]
pub struct Build {
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    tos: u8,
    ident: u32,
    flow_label: u32,
    proto: Option<u8>,
    options: Vec<u8>,
    fragment: Option<(usize, bool)>,
    dont_fragment: bool,
    ext: Vec<(u8, Vec<u8>)>,
    upper: Upper,
    tcp: (u32, u32, u8, Vec<u8>),
    payload: Vec<u8>,
    ether: Option<(EtherAddr, EtherAddr)>,
    vlans: Vec<u16>,
    labels: Vec<u32>,
    padding: usize,
    bad_checksum: bool,
    bad_upper_checksum: bool,
    no_udp_checksum: bool,
    total_len: Option<u16>,
    first_byte: Option<u8>,
}

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2, TTL 64, no options, protocol 253 unless an upper layer is chosen.
pub fn ip4() -> Build {
    build([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
}

/// An IPv6 packet from 2001:db8::1 to 2001:db8::2, hop limit 64, next header 253 unless one is chosen.
pub fn ip6() -> Build {
    let addr = |low| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, low));
    build(addr(1), addr(2))
}

fn build(src: IpAddr, dst: IpAddr) -> Build {
    Build {
        src,
        dst,
        ttl: 64,
        tos: 0,
        ident: 0,
        flow_label: 0,
        proto: None,
        options: Vec::new(),
        fragment: None,
        dont_fragment: false,
        ext: Vec::new(),
        upper: Upper::Raw,
        tcp: (0, 0, tcp::ACK, Vec::new()),
        payload: Vec::new(),
        ether: None,
        vlans: Vec::new(),
        labels: Vec::new(),
        padding: 0,
        bad_checksum: false,
        bad_upper_checksum: false,
        no_udp_checksum: false,
        total_len: None,
        first_byte: None,
    }
}

/// Parses an address; panics if the test has misspelt it.
pub(crate) fn address<T: std::str::FromStr>(text: impl Display) -> T {
    let text = text.to_string();
    match text.parse() {
        Ok(address) => address,
        Err(_) => panic!("the test means {text:?} to be an address"),
    }
}

/// Fields of the IP header.
impl Build {
    /// Source address, of the packet's version.
    pub fn src(mut self, addr: impl Display) -> Build {
        self.src = self.same_version(address(addr));
        self
    }

    /// Destination address, of the packet's version.
    pub fn dst(mut self, addr: impl Display) -> Build {
        self.dst = self.same_version(address(addr));
        self
    }

    fn same_version(&self, addr: IpAddr) -> IpAddr {
        assert_eq!(
            addr.is_ipv4(),
            self.src.is_ipv4(),
            "{addr} is of the other IP version"
        );
        addr
    }

    /// Time to live or hop limit.
    pub fn ttl(mut self, ttl: u8) -> Build {
        self.ttl = ttl;
        self
    }

    /// Type of service or traffic class: DSCP and ECN.
    pub fn tos(mut self, tos: u8) -> Build {
        self.tos = tos;
        self
    }

    /// Sets the identification; in IPv6 that of the fragment header.
    pub fn ident(mut self, ident: u32) -> Build {
        self.ident = ident;
        self
    }

    /// IPv6 flow label.
    pub fn flow_label(mut self, label: u32) -> Build {
        self.flow_label = label;
        self
    }

    /// Protocol or last next header, independent of the upper layer.
    pub fn proto(mut self, proto: u8) -> Build {
        self.proto = Some(proto);
        self
    }

    /// IPv4 options; padded with EOL to a multiple of 4.
    pub fn options(mut self, options: &[u8]) -> Build {
        assert!(options.len() <= 40, "{} bytes of options", options.len());
        self.options = options.to_vec();
        self.options.resize(options.len().next_multiple_of(4), 0);
        self
    }

    /// "Don't fragment" (IPv4).
    pub fn df(mut self) -> Build {
        self.dont_fragment = true;
        self
    }

    /// Makes this a fragment at `offset` bytes, a multiple of 8. The packet's content is copied unchanged: a later
    /// fragment takes a payload and no upper layer.
    pub fn fragment(mut self, offset: usize, more: bool) -> Build {
        assert_eq!(offset % 8, 0, "fragments start at multiples of 8");
        self.fragment = Some((offset, more));
        self
    }

    /// Adds an IPv6 extension header; `body` follows its first two bytes and is padded with zeros to a multiple of 8.
    pub fn ext(mut self, kind: u8, body: &[u8]) -> Build {
        let mut body = body.to_vec();
        body.resize((body.len() + 2).next_multiple_of(8) - 2, 0);
        self.ext.push((kind, body));
        self
    }

    /// Adds a hop-by-hop options header; zeros after the options are Pad1.
    pub fn hop_by_hop(self, options: &[u8]) -> Build {
        self.ext(proto::HOP_BY_HOP, options)
    }

    /// Adds a destination options header.
    pub fn dest_opts(self, options: &[u8]) -> Build {
        self.ext(proto::DEST_OPTS, options)
    }

    /// Adds a routing header of type `kind` without addresses.
    pub fn routing(self, kind: u8, segments_left: u8) -> Build {
        self.ext(proto::ROUTING, &[kind, segments_left])
    }

    /// Ends the packet after the last IPv6 header.
    pub fn no_next(self) -> Build {
        self.proto(proto::NO_NEXT)
    }

    /// Makes the IPv4 header checksum wrong; in IPv6 that of the upper layer.
    pub fn bad_checksum(mut self) -> Build {
        match self.src {
            IpAddr::V4(_) => self.bad_checksum = true,
            IpAddr::V6(_) => self.bad_upper_checksum = true,
        }
        self
    }

    /// Sets a false length: IPv4 total length, IPv6 payload length.
    pub fn claim_len(mut self, len: u16) -> Build {
        self.total_len = Some(len);
        self
    }

    /// Sets the first byte: version, and IPv4 header length in words or the traffic class's upper half.
    pub fn first_byte(mut self, byte: u8) -> Build {
        self.first_byte = Some(byte);
        self
    }
}

/// The upper layer.
impl Build {
    /// UDP.
    pub fn udp(mut self, src: u16, dst: u16) -> Build {
        self.upper = Upper::Udp { src, dst };
        self
    }

    /// UDP without a checksum.
    pub fn no_udp_checksum(mut self) -> Build {
        self.no_udp_checksum = true;
        self
    }

    /// TCP, an ACK unless [`Build::tcp_flags`] says otherwise.
    pub fn tcp(mut self, src: u16, dst: u16) -> Build {
        self.upper = Upper::Tcp { src, dst };
        self
    }

    /// TCP flags; see [`wire::tcp`].
    pub fn tcp_flags(mut self, flags: u8) -> Build {
        self.tcp.2 = flags;
        self
    }

    /// TCP sequence and acknowledgement numbers.
    pub fn seq_ack(mut self, seq: u32, ack: u32) -> Build {
        (self.tcp.0, self.tcp.1) = (seq, ack);
        self
    }

    /// TCP options; padded with zeros to a multiple of 4.
    pub fn tcp_options(mut self, options: &[u8]) -> Build {
        self.tcp.3 = options.to_vec();
        self.tcp.3.resize(options.len().next_multiple_of(4), 0);
        self
    }

    /// ICMP of the packet's version.
    pub fn icmp(mut self, kind: u8, code: u8, rest: u32) -> Build {
        self.upper = Upper::Icmp { kind, code, rest };
        self
    }

    /// An echo request of the packet's version.
    pub fn icmp_echo(self, ident: u16, seq: u16) -> Build {
        let kind = if self.src.is_ipv4() {
            icmp::ECHO
        } else {
            icmp6::ECHO
        };
        self.icmp(kind, 0, u32::from(ident) << 16 | u32::from(seq))
    }

    /// An echo reply of the packet's version.
    pub fn icmp_echo_reply(self, ident: u16, seq: u16) -> Build {
        let kind = if self.src.is_ipv4() {
            icmp::ECHO_REPLY
        } else {
            icmp6::ECHO_REPLY
        };
        self.icmp(kind, 0, u32::from(ident) << 16 | u32::from(seq))
    }

    /// Makes the checksum of the upper layer wrong.
    pub fn bad_upper_checksum(mut self) -> Build {
        self.bad_upper_checksum = true;
        self
    }

    /// Sets the bytes after the upper layer's header.
    pub fn payload(mut self, bytes: impl AsRef<[u8]>) -> Build {
        self.payload = bytes.as_ref().to_vec();
        self
    }

    /// A payload of `n` bytes that count up from 0.
    pub fn payload_len(mut self, n: usize) -> Build {
        self.payload = (0..n).map(|i| i as u8).collect();
        self
    }
}

/// The link layer.
impl Build {
    /// Puts an Ethernet header in front.
    pub fn ether(mut self, src: impl Display, dst: impl Display) -> Build {
        self.ether = Some((address(src), address(dst)));
        self
    }

    /// Adds an 802.1Q tag after those added before; needs [`Build::ether`].
    pub fn vlan(mut self, id: u16) -> Build {
        self.vlans.push(id);
        self
    }

    /// Adds an MPLS label after those added before.
    pub fn mpls(mut self, label: u32) -> Build {
        self.labels.push(label);
        self
    }

    /// Adds `n` bytes of link-layer padding.
    pub fn pad(mut self, n: usize) -> Build {
        self.padding = n;
        self
    }
}

/// A packet below a label stack; of each label: value, class and time to live, the outermost first.
pub fn labelled(stack: &[(u32, u8, u8)], packet: &[u8]) -> Vec<u8> {
    let entries = stack
        .iter()
        .enumerate()
        .map(|(i, &(label, exp, ttl))| Entry {
            label,
            exp,
            bottom: i + 1 == stack.len(),
            ttl,
        });
    let words = entries.flat_map(|entry| entry.word().to_be_bytes());
    words.chain(packet.iter().copied()).collect()
}

/// Like [`labelled`], with class 0 and the same time to live for all labels.
pub fn mpls_below(labels: &[u32], ttl: u8, packet: &[u8]) -> Vec<u8> {
    let stack: Vec<_> = labels.iter().map(|&label| (label, 0, ttl)).collect();
    labelled(&stack, packet)
}

/// Results.
impl Build {
    /// Bytes of the packet, from its first header on.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.link_header();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => out.extend(self.ip4_bytes(src, dst)),
            (IpAddr::V6(src), IpAddr::V6(dst)) => out.extend(self.ip6_bytes(src, dst)),
            _ => unreachable!("src() and dst() compare versions"),
        }
        out.resize(out.len() + self.padding, 0);
        out
    }

    /// The packet cut into fragments that carry at most `max` bytes each (rounded down to a multiple of 8).
    ///
    /// IPv6 fragments repeat no extension headers: all of them are in the fragmentable part.
    pub fn fragments(&self, max: usize) -> Vec<Vec<u8>> {
        let max = max / 8 * 8;
        assert!(max > 0, "a fragment carries at least 8 bytes");
        let mut whole = self.upper_bytes();
        let mut next = self.last_proto();
        for (kind, body) in self.ext.iter().rev() {
            whole.splice(..0, ext_bytes(next, body));
            next = *kind;
        }
        let count = whole.len().div_ceil(max);
        let piece = |(i, part): (usize, &[u8])| {
            let mut one = self.clone().proto(next).payload(part);
            (one.upper, one.ext) = (Upper::Raw, Vec::new());
            one.fragment(i * max, i + 1 < count).bytes()
        };
        whole.chunks(max).enumerate().map(piece).collect()
    }

    fn last_proto(&self) -> u8 {
        self.proto.unwrap_or(match (&self.upper, self.src) {
            (Upper::Raw, _) => 253,
            (Upper::Udp { .. }, _) => proto::UDP,
            (Upper::Tcp { .. }, _) => proto::TCP,
            (Upper::Icmp { .. }, IpAddr::V4(_)) => proto::ICMP,
            (Upper::Icmp { .. }, IpAddr::V6(_)) => proto::ICMP6,
        })
    }

    fn link_header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let ip = if self.src.is_ipv4() {
            ether::IPV4
        } else {
            ether::IPV6
        };
        let inner = if self.labels.is_empty() {
            ip
        } else {
            ether::MPLS
        };
        if let Some((src, dst)) = self.ether {
            let first = if self.vlans.is_empty() {
                inner
            } else {
                ether::VLAN
            };
            out.extend(ether::header(dst, src, first));
            for (i, &id) in self.vlans.iter().enumerate() {
                let last = i + 1 == self.vlans.len();
                out.extend(vlan::tci(0, false, id).to_be_bytes());
                out.extend(if last { inner } else { ether::VLAN }.to_be_bytes());
            }
        }
        for (i, &label) in self.labels.iter().enumerate() {
            // RFC 3032, 2.1: the label, the bottom of the stack, and a time to live of 64.
            let bottom = u32::from(i + 1 == self.labels.len());
            out.extend((label << 12 | bottom << 8 | 64).to_be_bytes());
        }
        out
    }

    fn ip4_bytes(&self, src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
        let header_len = ipv4::MIN_LEN + self.options.len();
        let mut out = vec![0; ipv4::MIN_LEN];
        out.extend(&self.options);
        out.extend(self.upper_bytes());
        let len = out.len() as u16;
        let mut ip = Ipv4::new_unchecked(&mut out);
        ip.set_header_len(header_len);
        ip.set_tos(self.tos);
        ip.set_total_len(self.total_len.unwrap_or(len));
        ip.set_ident(self.ident as u16);
        let (offset, more) = self.fragment.unwrap_or((0, false));
        let flags = [(self.dont_fragment, ipv4::DF), (more, ipv4::MF)];
        let flags: u16 = flags
            .iter()
            .map(|&(on, flag)| if on { flag } else { 0 })
            .sum();
        ip.set_fragment_word((offset / 8) as u16 | flags);
        ip.set_ttl(self.ttl);
        ip.set_protocol(self.last_proto());
        ip.set_src(src);
        ip.set_dst(dst);
        ip.fill_checksum();
        if let Some(byte) = self.first_byte {
            // The checksum covers the claim and, as far as it can, the header that it claims.
            let claimed = usize::from(byte & 0xf) * 4;
            out[0] = byte;
            out[10..12].fill(0);
            let covered = claimed.clamp(ipv4::MIN_LEN, out.len());
            let check = checksum::checksum(&out[..covered]);
            out[10..12].copy_from_slice(&check.to_be_bytes());
        }
        if self.bad_checksum {
            out[11] ^= 1;
        }
        out
    }

    fn ip6_bytes(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let mut kinds: Vec<u8> = self.ext.iter().map(|(kind, _)| *kind).collect();
        kinds.extend(self.fragment.map(|_| proto::FRAGMENT));
        kinds.push(self.last_proto());
        let mut out = vec![0; ipv6::LEN];
        for ((_, body), &next) in self.ext.iter().zip(&kinds[1..]) {
            out.extend(ext_bytes(next, body));
        }
        if let Some((offset, more)) = self.fragment {
            out.extend(ext::fragment_header(
                self.last_proto(),
                offset,
                more,
                self.ident,
            ));
        }
        out.extend(self.upper_bytes());
        let len = (out.len() - ipv6::LEN) as u16;
        let mut ip = Ipv6::new_unchecked(&mut out);
        ip.set_first_word(self.tos, self.flow_label);
        ip.set_payload_len(self.total_len.unwrap_or(len));
        ip.set_next_header(kinds[0]);
        ip.set_hop_limit(self.ttl);
        ip.set_src(src);
        ip.set_dst(dst);
        out[0] = self.first_byte.unwrap_or(out[0]);
        out
    }

    /// The upper layer's header and data, checksum included.
    fn upper_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.upper_header_len()];
        out.extend(&self.payload);
        let pseudo = match (self.src, self.dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => checksum::pseudo4(s, d, self.last_proto(), out.len()),
            (IpAddr::V6(s), IpAddr::V6(d)) => checksum::pseudo6(s, d, self.last_proto(), out.len()),
            _ => unreachable!("src() and dst() compare versions"),
        };
        // A pseudo-header that is off by one makes a checksum that is wrong by one.
        let pseudo = pseudo + u64::from(self.bad_upper_checksum);
        let len = out.len() as u16;
        match self.upper {
            Upper::Raw => {}
            Upper::Udp { src, dst } => {
                let mut udp = Udp::new_unchecked(&mut out);
                udp.set_src_port(src);
                udp.set_dst_port(dst);
                udp.set_len(len);
                match self.no_udp_checksum {
                    true => udp.set_checksum(0),
                    false => udp.fill_checksum(pseudo),
                }
            }
            Upper::Tcp { src, dst } => self.fill_tcp(&mut out, src, dst, pseudo),
            Upper::Icmp { kind, code, rest } if self.src.is_ipv4() => {
                let mut icmp = Icmp::new_unchecked(&mut out);
                icmp.set_kind(kind);
                icmp.set_code(code);
                icmp.set_rest(rest);
                icmp.fill_checksum();
                icmp.set_checksum(icmp.checksum() ^ u16::from(self.bad_upper_checksum));
            }
            Upper::Icmp { kind, code, rest } => {
                let mut icmp = Icmp6::new_unchecked(&mut out);
                icmp.set_kind(kind);
                icmp.set_code(code);
                icmp.set_rest(rest);
                icmp.fill_checksum(pseudo);
            }
        }
        out
    }

    fn upper_header_len(&self) -> usize {
        match self.upper {
            Upper::Raw => 0,
            Upper::Udp { .. } | Upper::Icmp { .. } => 8,
            Upper::Tcp { .. } => tcp::MIN_LEN + self.tcp.3.len(),
        }
    }

    fn fill_tcp(&self, out: &mut [u8], src: u16, dst: u16, pseudo: u64) {
        let (seq, ack, flags, options) = &self.tcp;
        out[tcp::MIN_LEN..tcp::MIN_LEN + options.len()].copy_from_slice(options);
        let mut tcp = Tcp::new_unchecked(out);
        tcp.set_src_port(src);
        tcp.set_dst_port(dst);
        tcp.set_seq(*seq);
        tcp.set_ack(*ack);
        tcp.set_header_len(tcp::MIN_LEN + options.len());
        tcp.set_flags(*flags);
        tcp.set_window(0xffff);
        tcp.fill_checksum(pseudo);
    }
}

fn ext_bytes(next: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![next, ((body.len() + 2) / 8 - 1) as u8];
    out.extend(body);
    out
}

#[cfg(test)]
mod tests;
