//! Flows inside tunnels: IP in IP (RFC 2003, RFC 2473), GRE (RFC 2784, RFC 2890) and VXLAN (RFC 7348).
//!
//! These functions only tell flows apart and do not terminate tunnels: a malformed tunnel is taken for a plain packet.

use crate::bytes::be16;
use crate::{FlowKey, ether, ext, ipv4, ipv6, proto, udp, vlan};

/// UDP port of VXLAN.
pub const VXLAN_PORT: u16 = 4789;
/// Length of VXLAN's header.
const VXLAN_LEN: usize = 8;
/// The flag that a VXLAN header must have: its network identifier counts.
const VXLAN_VALID: u8 = 0x08;
/// Ethertype of Ethernet frames in GRE (transparent Ethernet bridging).
const BRIDGED: u16 = 0x6558;
/// Maximum depth of nested tunnels.
const DEPTH: usize = 3;
/// Maximum number of VLAN tags that are skipped.
const TAGS: usize = 2;

/// The IP packet of an Ethernet frame, after up to two VLAN tags; `None` if the frame carries another protocol.
#[inline]
pub fn ip_of_ether(frame: &[u8]) -> Option<&[u8]> {
    let mut at = ether::LEN;
    for _ in 0..=TAGS {
        match be16(frame.get(at - 2..at)?, 0) {
            ether::IPV4 | ether::IPV6 => return frame.get(at..),
            ether::VLAN | ether::QINQ => at += vlan::LEN,
            _ => return None,
        }
    }
    None
}

/// Flow of an IP packet, or of the innermost packet of a tunnel; of an ICMP error, the flow of the packet it
/// [quotes](FlowKey::quoted). `None` if the headers are malformed. Fragments of a tunnel's packets are distinguished by
/// the tunnel's addresses alone, as only the first fragment has the inner header.
#[inline]
pub fn innermost(packet: &[u8]) -> Option<FlowKey> {
    let flow = FlowKey::of_ip_or_quoted(packet)?;
    if is_plain(&flow) {
        return Some(flow);
    }
    Some(inside_of(packet, flow))
}

/// True if a flow's packets cannot be a tunnel's.
#[inline]
fn is_plain(flow: &FlowKey) -> bool {
    let (protocol, port) = match flow {
        FlowKey::V4(f) => (f.protocol, f.dst_port),
        FlowKey::V6(f) => (f.protocol, f.dst_port),
    };
    match protocol {
        proto::UDP => port != VXLAN_PORT,
        proto::IPIP | proto::IPV6 | proto::GRE => false,
        _ => true,
    }
}

#[cold]
fn inside_of(mut packet: &[u8], mut flow: FlowKey) -> FlowKey {
    for _ in 0..DEPTH {
        if is_plain(&flow) {
            break;
        }
        let inner = payload(packet).and_then(|(protocol, payload)| inner(protocol, payload));
        let Some((inside, key)) = inner.and_then(|p| Some((p, FlowKey::of_ip_or_quoted(p)?)))
        else {
            break;
        };
        (packet, flow) = (inside, key);
    }
    flow
}

/// Protocol and payload of an IP packet that is no fragment.
fn payload(packet: &[u8]) -> Option<(u8, &[u8])> {
    if packet.first()? >> 4 == 6 {
        let walk = ext::walk(packet.get(..)?).ok()?;
        let whole = walk.fragment.is_none_or(|f| f.is_atomic());
        return whole
            .then_some((walk.protocol, packet.get(walk.offset..)?))
            .filter(|_| packet.len() >= ipv6::LEN);
    }
    let ip = crate::Ipv4::new_unchecked(packet.first_chunk::<{ ipv4::MIN_LEN }>()?);
    if ip.is_fragment() {
        return None;
    }
    Some((ip.protocol(), packet.get(ip.header_len()..)?))
}

/// The IP packet in a tunnel's payload.
fn inner(protocol: u8, payload: &[u8]) -> Option<&[u8]> {
    match protocol {
        proto::IPIP | proto::IPV6 => Some(payload),
        proto::GRE => of_gre(payload),
        proto::UDP => {
            let behind = payload.get(udp::LEN..)?;
            let valid = behind.first()? & VXLAN_VALID != 0;
            ip_of_ether(behind.get(VXLAN_LEN..).filter(|_| valid)?)
        }
        _ => None,
    }
}

fn of_gre(payload: &[u8]) -> Option<&[u8]> {
    let flags = be16(payload.get(..4)?, 0);
    // Checksum, key and sequence number; routing, and what a later version holds, is not known.
    let fields = (flags & 0xb000).count_ones() as usize;
    if flags & 0x4007 != 0 {
        return None;
    }
    let behind = payload.get(4 + 4 * fields..)?;
    match be16(payload, 2) {
        ether::IPV4 | ether::IPV6 => Some(behind),
        BRIDGED => ip_of_ether(behind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use std::vec::Vec;

    /// An IPv4 packet without options, of this protocol.
    fn ip4(src: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = (20 + payload.len()) as u16;
        let mut packet = Vec::from([0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0]);
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet.extend([10, 0, 0, src, 10, 0, 1, 1]);
        packet.extend(payload);
        packet
    }

    fn ip6(src: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = payload.len() as u16;
        let mut packet = Vec::from([0x60, 0, 0, 0, 0, 0, protocol, 64]);
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, src]);
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend(payload);
        packet
    }

    fn udp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::new();
        for word in [src, dst, 8 + payload.len() as u16, 0] {
            datagram.extend(word.to_be_bytes());
        }
        datagram.extend(payload);
        datagram
    }

    fn in_ether(ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = Vec::from([2; 12]);
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    fn gre(flags: u16, ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut header = Vec::new();
        header.extend(flags.to_be_bytes());
        header.extend(ethertype.to_be_bytes());
        header.extend(std::vec![9; 4 * (flags & 0xb000).count_ones() as usize]);
        header.extend(payload);
        header
    }

    #[test]
    fn the_flow_inside_of_every_kind_of_tunnel_is_found() {
        let packet = ip4(7, proto::UDP, &udp(1000, 53, b"x"));
        let packet6 = ip6(7, proto::TCP, &[1, 2, 3, 4, 0, 0, 0, 0]);
        for inside in [&packet, &packet6] {
            let six = inside[0] >> 4 == 6;
            let (ethertype, number) = match six {
                true => (ether::IPV6, proto::IPV6),
                false => (ether::IPV4, proto::IPIP),
            };
            let vxlan = [&[8, 0, 0, 0, 0, 0, 1, 0][..], &in_ether(ethertype, inside)].concat();
            let tagged = [&[0, 5][..], &ethertype.to_be_bytes(), inside].concat();
            let tunnels = [
                ip4(1, number, inside),
                ip6(1, number, inside),
                ip4(1, proto::GRE, &gre(0, ethertype, inside)),
                ip4(1, proto::GRE, &gre(0xb000, ethertype, inside)),
                ip6(
                    1,
                    proto::GRE,
                    &gre(0x2000, 0x6558, &in_ether(ethertype, inside)),
                ),
                ip4(1, proto::UDP, &udp(5555, VXLAN_PORT, &vxlan)),
                ip4(1, proto::IPIP, &ip4(2, number, inside)),
            ];
            let tunnels = tunnels.map(|t| {
                in_ether(
                    if t[0] >> 4 == 6 {
                        ether::IPV6
                    } else {
                        ether::IPV4
                    },
                    &t,
                )
            });
            for tunnel in tunnels {
                let outer = ip_of_ether(&tunnel).unwrap();
                assert_eq!(innermost(outer), FlowKey::of_ip(inside), "{tunnel:?}");
            }
            let frame = in_ether(ether::VLAN, &tagged);
            assert_eq!(ip_of_ether(&frame), Some(&inside[..]));
        }
    }

    #[test]
    fn malformed_tunnel_packets_use_their_own_addresses() {
        let inside = ip4(7, proto::UDP, &udp(1000, 53, b"x"));
        let mut fragment = ip4(1, proto::IPIP, &inside);
        fragment[6] = 0x20;
        let routed = ip4(1, proto::GRE, &gre(0x4000, ether::IPV4, &inside));
        let arp = ip4(1, proto::GRE, &gre(0, ether::ARP, &inside));
        let no_id = [&[0; 8][..], &in_ether(ether::IPV4, &inside)].concat();
        let no_id = ip4(1, proto::UDP, &udp(5555, VXLAN_PORT, &no_id));
        for packet in [fragment, routed, arp, no_id] {
            assert_eq!(innermost(&packet), FlowKey::of_ip(&packet));
        }
        assert_eq!(ip_of_ether(&in_ether(ether::ARP, &inside)), None);
    }

    #[test]
    fn any_bytes_are_looked_at_without_harm() {
        let mut rng = Rng(3);
        let inside = ip4(7, proto::UDP, &udp(1000, 53, b"x"));
        let start = ip4(
            1,
            proto::GRE,
            &gre(0xb000, 0x6558, &in_ether(ether::VLAN, &inside)),
        );
        for _ in 0..20_000 {
            let mut packet = start.clone();
            for _ in 0..3 {
                let at = usize::from(rng.byte()) % packet.len();
                packet[at] = rng.byte();
            }
            packet.truncate(usize::from(rng.byte()) % (packet.len() + 1));
            innermost(&packet);
            ip_of_ether(&packet);
        }
    }
}
