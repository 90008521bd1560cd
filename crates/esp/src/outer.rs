//! The headers around an encrypted packet, and the copying of DSCP, ECN and "don't fragment" between them and the
//! inner header (RFC 4301, 5.1.2; RFC 6040).

use std::net::IpAddr;
use wire::{Ipv4, Ipv6, Udp, checksum, ipv4, ipv6, proto, udp};

/// Bits of the ECN field.
const ECN: u8 = 3;
/// Congestion experienced.
const CE: u8 = 3;
/// ECN-capable transport, codepoint ECT(1).
const ECT1: u8 = 1;

/// Treatment of the inner header's "don't fragment" bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Df {
    /// The outer header copies it. IPv6 packets count as having it.
    Copy,
    /// The outer header has DF set.
    Set,
    /// The outer header has DF clear.
    Clear,
}

/// Ends and header options of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Address of the encrypting end.
    pub src: IpAddr,
    /// Address of the decrypting end.
    pub dst: IpAddr,
    /// Treatment of the inner header's "don't fragment", for tunnels over IPv4.
    pub df: Df,
    /// DSCP of the outer header; `None` copies that of the inner one.
    pub dscp: Option<u8>,
    /// True if ECN passes between the headers (RFC 6040, normal mode); otherwise the outer header is marked as not
    /// ECN-capable.
    pub ecn: bool,
    /// Time to live or hop limit of the outer header.
    pub ttl: u8,
}

/// The constant part of the outer headers of an association's packets.
#[derive(Clone, Debug)]
pub struct Outer {
    tunnel: Option<Tunnel>,
    udp: Option<(u16, u16)>,
    /// Length of a tunnel's headers before the ESP header, in bytes.
    len: usize,
    /// Masks of the bits that are copied from the inner header, and the outer header's constant bits: for DSCP and
    /// ECN, and for the word with the fragment flags.
    tos: (u8, u8),
    fragment: (u16, u16),
    /// For a tunnel over IPv4: the header without copied bits, length and identification; and its checksum so far.
    header4: [u8; ipv4::MIN_LEN],
    sum4: u64,
}

/// Protocol number in a tunnel's IP header.
#[inline]
fn protocol(udp: Option<(u16, u16)>) -> u8 {
    match udp {
        Some(_) => proto::UDP,
        None => proto::ESP,
    }
}

impl Outer {
    pub(crate) fn new(tunnel: Option<Tunnel>, udp: Option<(u16, u16)>) -> Result<Outer, String> {
        if let Some(tunnel) = &tunnel {
            if tunnel.src.is_ipv4() != tunnel.dst.is_ipv4() {
                return Err("both ends of a tunnel must be of one family".to_owned());
            }
            if tunnel.dscp.is_some_and(|dscp| dscp > 63) {
                return Err("a DSCP is at most 63".to_owned());
            }
        }
        let mut header4 = [0; ipv4::MIN_LEN];
        if let Some(tunnel) = &tunnel
            && let (IpAddr::V4(src), IpAddr::V4(dst)) = (tunnel.src, tunnel.dst)
        {
            let mut ip = Ipv4::new_unchecked(&mut header4[..]);
            ip.set_header_len(ipv4::MIN_LEN);
            ip.set_ttl(tunnel.ttl);
            ip.set_protocol(protocol(udp));
            ip.set_src(src);
            ip.set_dst(dst);
        }
        let udp_len = if udp.is_some() { udp::LEN } else { 0 };
        let own = tunnel.and_then(|t| t.dscp).map(|dscp| dscp << 2);
        let ecn = tunnel.is_some_and(|t| t.ecn);
        let taken = if own.is_none() { !ECN } else { 0 } | if ecn { ECN } else { 0 };
        let is_v4 = tunnel.is_some_and(|t| t.dst.is_ipv4());
        Ok(Outer {
            tunnel,
            udp,
            len: udp_len + if is_v4 { ipv4::MIN_LEN } else { ipv6::LEN },
            tos: (taken, own.unwrap_or(0)),
            fragment: match tunnel.map(|t| t.df) {
                Some(Df::Copy) => (ipv4::DF, 0),
                Some(Df::Set) => (0, ipv4::DF),
                Some(Df::Clear) | None => (0, 0),
            },
            header4,
            sum4: checksum::sum(&header4),
        })
    }

    /// The tunnel; `None` in transport mode.
    #[inline]
    pub fn tunnel(&self) -> Option<&Tunnel> {
        self.tunnel.as_ref()
    }

    /// True if routers must not fragment the encrypted packet, given the `fragment` of [`write`](Self::write); always
    /// true for IPv6.
    #[inline]
    pub fn stays_whole(&self, tunnel: &Tunnel, fragment: u16) -> bool {
        tunnel.dst.is_ipv6() || (fragment & self.fragment.0 | self.fragment.1) & ipv4::DF != 0
    }

    /// Number of bytes between the IP header and the ESP header.
    #[inline]
    pub fn udp_len(&self) -> usize {
        if self.udp.is_some() { udp::LEN } else { 0 }
    }

    /// Length of a tunnel's headers before the ESP header, in bytes.
    #[inline]
    pub fn tunnel_len(&self) -> usize {
        self.len
    }

    /// Writes a tunnel's headers at the front of a packet. `tos` and `fragment` are those of the inner header; an
    /// IPv6 packet counts as one with "don't fragment".
    #[inline]
    pub fn write(&self, tunnel: &Tunnel, packet: &mut [u8], tos: u8, fragment: u16, ident: u16) {
        let tos = tos & self.tos.0 | self.tos.1;
        let total = packet.len();
        match (tunnel.src, tunnel.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) => {
                if self.udp.is_some() {
                    self.write_udp(&mut packet[ipv4::MIN_LEN..]);
                }
                let fragment = fragment & self.fragment.0 | self.fragment.1;
                // A packet that is never fragmented needs no identification.
                let ident = if fragment == 0 { ident } else { 0 };
                let header = &mut packet[..ipv4::MIN_LEN];
                header.copy_from_slice(&self.header4);
                let mut ip = Ipv4::new_unchecked(header);
                ip.set_tos(tos);
                ip.set_total_len(total as u16);
                ip.set_ident(ident);
                ip.set_fragment_word(fragment);
                let words = [u16::from(tos), total as u16, ident, fragment];
                let sum = words.into_iter().map(u64::from).sum::<u64>();
                ip.set_checksum(checksum::finish(self.sum4 + sum));
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.write_udp(&mut packet[ipv6::LEN..]);
                let mut ip = Ipv6::new_unchecked(&mut packet[..ipv6::LEN]);
                ip.set_first_word(tos, 0);
                ip.set_payload_len((total - ipv6::LEN) as u16);
                ip.set_next_header(protocol(self.udp));
                ip.set_hop_limit(tunnel.ttl);
                ip.set_src(src);
                ip.set_dst(dst);
            }
            _ => {}
        }
    }

    /// Writes the UDP header, if the tunnel has one, at the front of its payload, with a checksum of zero (RFC 3948,
    /// 2.1).
    #[inline]
    pub fn write_udp(&self, datagram: &mut [u8]) {
        let Some((src, dst)) = self.udp else {
            return;
        };
        let len = datagram.len() as u16;
        let mut header = Udp::new_unchecked(datagram);
        header.set_src_port(src);
        header.set_dst_port(dst);
        header.set_len(len);
        header.set_checksum(0);
    }
}

/// Computes the UDP checksum of an encrypted IPv6 packet: IPv6 requires one, and Linux drops datagrams without. `at`
/// is the offset of the UDP header.
pub fn fill_checksum6(packet: &mut [u8], at: usize) {
    let len = packet.len() - at;
    let pseudo = Ipv6::new_unchecked(&packet[..]).pseudo(proto::UDP, len);
    Udp::new_unchecked(&mut packet[at..]).fill_checksum(pseudo);
}

/// ECN field of a decapsulated packet, from the fields of the inner and the outer header (RFC 6040, 4.2). `None` if
/// the packet must be dropped: it met congestion, and its sender is not ECN-capable.
#[inline]
pub fn ecn_after(inner: u8, outer: u8) -> Option<u8> {
    match (inner & ECN, outer & ECN) {
        (0, CE) => None,
        (0, _) => Some(0),
        (_, CE) => Some(CE),
        (CE, _) => Some(CE),
        (_, ECT1) => Some(ECT1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_is_as_the_table_of_rfc_6040_says() {
        // Rows: inner Not-ECT, ECT(0), ECT(1), CE; columns: outer in the same order.
        let (not, ect0, ect1) = (0, 2, 1);
        let order = [not, ect0, ect1, CE];
        let table = [
            [Some(not), Some(not), Some(not), None],
            [Some(ect0), Some(ect0), Some(ect1), Some(CE)],
            [Some(ect1), Some(ect1), Some(ect1), Some(CE)],
            [Some(CE), Some(CE), Some(CE), Some(CE)],
        ];
        for (inner, row) in order.iter().zip(table) {
            for (outer, after) in order.iter().zip(row) {
                assert_eq!(ecn_after(*inner, *outer), after, "{inner} {outer}");
            }
        }
    }
}
