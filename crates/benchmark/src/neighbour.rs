//! Simulated hosts: they answer every ARP request and neighbour solicitation.

use std::net::Ipv6Addr;
use wire::{Arp, EtherAddr, Icmp6, Ipv6, Nd, arp, ether, ipv6, nd, proto};

/// The answer to an ARP request or neighbour solicitation, with the address `mac`; `None` for any other frame.
pub fn answer(frame: &[u8], mac: EtherAddr) -> Option<Vec<u8>> {
    match ether::network(frame)? {
        (ether::ARP, at) => arp_reply(frame.get(at..)?, mac),
        (ether::IPV6, at) => advertisement(frame.get(at..)?, mac),
        _ => None,
    }
}

fn arp_reply(packet: &[u8], mac: EtherAddr) -> Option<Vec<u8>> {
    let question = Arp::new_checked(packet).ok()?;
    // An ARP announcement (RFC 5227) asks for the sender's own address.
    if question.op() != arp::REQUEST || question.sender_ip() == question.target_ip() {
        return None;
    }
    let asker = (question.sender_ether(), question.sender_ip());
    let own = (mac, question.target_ip());
    Some(arp::frame(asker.0, arp::REPLY, own, asker).to_vec())
}

fn advertisement(packet: &[u8], mac: EtherAddr) -> Option<Vec<u8>> {
    let ip = Ipv6::new_checked(packet).ok()?;
    if ip.next_header() != proto::ICMP6 {
        return None;
    }
    let question = Nd::new_checked(ip.payload()).ok()?;
    // Unspecified source: duplicate address detection.
    if question.kind() != nd::NEIGHBOR_SOLICIT || ip.src() == Ipv6Addr::UNSPECIFIED {
        return None;
    }
    let (target, to) = (question.target()?, question.source_ether()?);
    let message = nd::advert(nd::SOLICITED | nd::OVERRIDE, target, mac);
    let mut frame = ether::header(to, mac, ether::IPV6).to_vec();
    let at = frame.len();
    frame.resize(at + ipv6::LEN, 0);
    let mut head = Ipv6::new_unchecked(&mut frame[at..]);
    head.set_first_word(0, 0);
    head.set_payload_len(message.len() as u16);
    head.set_next_header(proto::ICMP6);
    // RFC 4861, 7.1.2: 255 proves that the packet is from the link itself.
    head.set_hop_limit(255);
    head.set_src(target);
    head.set_dst(ip.src());
    let pseudo = head.pseudo(proto::ICMP6, message.len());
    frame.extend(message);
    Icmp6::new_unchecked(&mut frame[at + ipv6::LEN..]).fill_checksum(pseudo);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{arp_reply, arp_request, nd_advert, nd_solicit};

    const ROUTER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const HOST: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);

    #[test]
    fn every_requested_host_answers() {
        let asked = arp_request(ROUTER, "10.0.2.1", "10.0.2.77");
        let right = arp_reply(HOST, "10.0.2.77", ROUTER, "10.0.2.1");
        assert_eq!(answer(&asked, HOST), Some(right));
        let asked = nd_solicit(ROUTER, "fe80::1", "fd00:2::77");
        let right = nd_advert(HOST, "fd00:2::77", ROUTER, "fe80::1");
        assert_eq!(answer(&asked, HOST), Some(right));
    }

    #[test]
    fn nothing_else_is_answered() {
        for frame in [
            arp_reply(HOST, "10.0.2.77", ROUTER, "10.0.2.1"),
            arp_request(ROUTER, "10.0.2.1", "10.0.2.1"),
            nd_advert(HOST, "fd00:2::77", ROUTER, "fe80::1"),
            vec![0; 60],
            vec![],
        ] {
            assert_eq!(answer(&frame, HOST), None);
        }
    }
}
