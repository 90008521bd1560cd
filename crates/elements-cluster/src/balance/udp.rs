//! Frames of a balancer to its neighbours on the back network: UDP over IPv4, never forwarded.

use std::net::Ipv4Addr;
use wire::{Ether, EtherAddr, Ipv4, Udp, ether, ipv4, proto};

/// TTL of sent packets; forwarded packets have a lower one (RFC 5082).
const TTL: u8 = 255;
/// Traffic class of network control (RFC 4594).
const CS6: u8 = 48 << 2;
const AT_UDP: usize = ether::LEN + ipv4::MIN_LEN;
const AT_BODY: usize = AT_UDP + 8;

/// Ethernet and IP addresses of sender and receiver.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) from: (EtherAddr, Ipv4Addr),
    pub(super) to: (EtherAddr, Ipv4Addr),
}

/// Frame of a UDP packet from one port to another, with the payload `body`.
pub(super) fn frame(ends: Ends, (from, to): (u16, u16), body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; AT_BODY + body.len()];
    frame[..ether::LEN].copy_from_slice(&ether::header(ends.to.0, ends.from.0, ether::IPV4));
    frame[AT_BODY..].copy_from_slice(body);
    frame[ether::LEN] = 0x45;
    let len = frame.len();
    let mut ip = Ipv4::new_unchecked(&mut frame[ether::LEN..]);
    ip.set_tos(CS6);
    ip.set_total_len((len - ether::LEN) as u16);
    ip.set_ttl(TTL);
    ip.set_protocol(proto::UDP);
    ip.set_src(ends.from.1);
    ip.set_dst(ends.to.1);
    ip.fill_checksum();
    let pseudo = ip.pseudo(len - AT_UDP);
    let mut udp = Udp::new_unchecked(&mut frame[AT_UDP..]);
    udp.set_src_port(from);
    udp.set_dst_port(to);
    udp.set_len((len - AT_UDP) as u16);
    udp.fill_checksum(pseudo);
    frame
}

/// Sender and payload of a frame to an address and a port.
pub(super) fn read(
    frame: &[u8],
    own: Ipv4Addr,
    port: u16,
) -> Option<((EtherAddr, Ipv4Addr), &[u8])> {
    let from = Ether::new_checked(frame).ok()?.src();
    let packet = frame.get(ether::LEN..)?;
    let ip = Ipv4::new_checked(packet).ok()?;
    let is_right = ip.verify_checksum()
        && ip.dst() == own
        && ip.protocol() == proto::UDP
        && ip.ttl() == TTL
        && !ip.is_fragment();
    if !is_right {
        return None;
    }
    let datagram = packet.get(ip.header_len()..ip.total_len())?;
    let udp = Udp::new_checked(datagram).ok()?;
    if udp.dst_port() != port || !udp.verify_checksum(ip.pseudo(udp.len())) {
        return None;
    }
    let body = datagram.get(8..udp.len())?;
    Some(((from, ip.src()), body))
}
