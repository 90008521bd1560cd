//! Messages of neighbour discovery in Ethernet frames.

use engine::packet::Packet;
use std::net::Ipv6Addr;
use wire::nd::{NEIGHBOR_ADVERT, OPT_SOURCE};
use wire::{Ether, EtherAddr, Icmp6, Ipv6, Nd, ether, ipv6, proto};

/// Length of the headers in front of a message, in bytes.
const AHEAD: usize = ether::LEN + ipv6::LEN;

/// Neighbour Discovery message and the Ethernet source of its frame.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) from: EtherAddr,
    pub(super) kind: u8,
    pub(super) src: Ipv6Addr,
    pub(super) target: Ipv6Addr,
    /// Link-layer address option: the sender's address, or the target's in an advertisement.
    pub(super) told: Option<EtherAddr>,
}

impl Message {
    /// Parses a frame. `None` for all but valid messages from the local link (RFC 4861, 6.1 and 7.1).
    pub(super) fn parse(frame: &[u8]) -> Option<Message> {
        let header = Ether::new_checked(frame).ok()?;
        if header.ethertype() != ether::IPV6 {
            return None;
        }
        let ip = Ipv6::new_checked(frame.get(ether::LEN..)?).ok()?;
        if ip.next_header() != proto::ICMP6 {
            return None;
        }
        let body = ip.payload();
        let icmp = Icmp6::new_checked(body).ok()?;
        if !icmp.verify_checksum(ip.pseudo(proto::ICMP6, body.len())) {
            return None;
        }
        let nd = Nd::new_checked(body).ok()?;
        nd.check_received(ip.src(), ip.dst(), ip.hop_limit()).ok()?;
        let told = match nd.kind() {
            NEIGHBOR_ADVERT => nd.target_ether(),
            _ => nd.source_ether(),
        };
        Some(Message {
            from: header.src(),
            kind: nd.kind(),
            src: ip.src(),
            target: nd.target().unwrap_or(Ipv6Addr::UNSPECIFIED),
            told,
        })
    }
}

/// Frame that contains a message.
pub(super) fn frame(
    (from, to): (EtherAddr, EtherAddr),
    (src, dst): (Ipv6Addr, Ipv6Addr),
    message: &[u8],
) -> Option<Packet> {
    let mut bytes = vec![0; AHEAD + message.len()];
    bytes[..ether::LEN].copy_from_slice(&ether::header(to, from, ether::IPV6));
    bytes[AHEAD..].copy_from_slice(message);
    let mut ip = Ipv6::new_unchecked(&mut bytes[ether::LEN..]);
    ip.set_first_word(0, 0);
    ip.set_payload_len(message.len() as u16);
    ip.set_next_header(proto::ICMP6);
    ip.set_hop_limit(255);
    ip.set_src(src);
    ip.set_dst(dst);
    let pseudo = ip.pseudo(proto::ICMP6, message.len());
    Icmp6::new_unchecked(&mut bytes[AHEAD..]).fill_checksum(pseudo);
    Packet::from_bytes(&bytes)
}

/// Replaces the Ethernet address in a valid router advertisement and in the header of its frame.
pub(super) fn rewrite(frame: &mut [u8], own: EtherAddr) {
    frame[6..12].copy_from_slice(&own.0);
    let ip = Ipv6::new_unchecked(&frame[ether::LEN..]);
    let end = (AHEAD + ip.payload_len()).min(frame.len());
    let mut at = AHEAD + 16;
    while let Some(&[kind, units, ..]) = frame.get(at..end) {
        let next = at + usize::from(units) * 8;
        if kind == OPT_SOURCE && units == 1 && next <= end {
            frame[at + 2..at + 8].copy_from_slice(&own.0);
        }
        if units == 0 {
            break;
        }
        at = next;
    }
    let pseudo = Ipv6::new_unchecked(&frame[ether::LEN..]).pseudo(proto::ICMP6, end - AHEAD);
    Icmp6::new_unchecked(&mut frame[AHEAD..end]).fill_checksum(pseudo);
}
