//! Frames by which neighbours find each other: ARP and IPv6 neighbour discovery.

use std::fmt::Display;
use std::net::Ipv6Addr;

use wire::{EtherAddr, arp, icmp6, nd};

use crate::packets::{Build, address, ip6};

/// A broadcast ARP request of `sender` for `target`.
pub fn arp_request(
    sender: impl Display,
    sender_ip: impl Display,
    target_ip: impl Display,
) -> Vec<u8> {
    let sender = (address(sender), address(sender_ip));
    let target = (EtherAddr::ZERO, address(target_ip));
    arp::frame(EtherAddr::BROADCAST, arp::REQUEST, sender, target).to_vec()
}

/// An ARP reply from `sender` to `target`, which says that it has `sender_ip`.
pub fn arp_reply(
    sender: impl Display,
    sender_ip: impl Display,
    target: impl Display,
    target_ip: impl Display,
) -> Vec<u8> {
    let sender = (address(sender), address(sender_ip));
    let target = (address(target), address(target_ip));
    arp::frame(target.0, arp::REPLY, sender, target).to_vec()
}

/// A multicast frame in which `sender`, at `sender_ip`, solicits the neighbour `target`.
pub fn nd_solicit(sender: impl Display, sender_ip: impl Display, target: impl Display) -> Vec<u8> {
    let (sender, target): (EtherAddr, Ipv6Addr) = (address(sender), address(target));
    let group = wire::addr::solicited_node(target);
    neighbor(&nd::solicit(target, sender), sender_ip, group)
        .ether(sender, EtherAddr::multicast6(group))
        .bytes()
}

/// A neighbour advertisement of `sender`, at `sender_ip`, to `target`, as the answer to a solicitation.
pub fn nd_advert(
    sender: impl Display,
    sender_ip: impl Display,
    target: impl Display,
    target_ip: impl Display,
) -> Vec<u8> {
    let (sender, told): (EtherAddr, Ipv6Addr) = (address(sender), address(sender_ip));
    neighbor(
        &nd::advert(nd::SOLICITED | nd::OVERRIDE, told, sender),
        told,
        target_ip,
    )
    .ether(sender, target)
    .bytes()
}

/// The IPv6 packet that carries a neighbour discovery message.
fn neighbor(message: &[u8], src: impl Display, dst: impl Display) -> Build {
    let rest = u32::from_be_bytes([message[4], message[5], message[6], message[7]]);
    ip6()
        .src(src)
        .dst(dst)
        .ttl(255)
        .icmp(message[0], message[1], rest)
        .payload(&message[icmp6::LEN..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use wire::{Arp, Icmp6, Ipv6, Nd};

    #[test]
    fn arp_and_neighbour_frames_have_the_right_fields() {
        let frame = arp_request("2:0:0:0:0:1", "10.0.0.1", "10.0.0.2");
        let arp = Arp::new_checked(&frame[14..]).unwrap();
        assert_eq!(
            (arp.op(), arp.target_ip()),
            (arp::REQUEST, Ipv4Addr::new(10, 0, 0, 2))
        );
        let reply = arp_reply("2:0:0:0:0:2", "10.0.0.2", "2:0:0:0:0:1", "10.0.0.1");
        let mut answered = frame[14..].to_vec();
        Arp::new_checked(&mut answered)
            .unwrap()
            .answer("2:0:0:0:0:2".parse().unwrap());
        assert_eq!(reply[14..], answered);

        for (frame, kind) in [
            (
                nd_solicit("2:0:0:0:0:1", "fe80::1", "fe80::2"),
                nd::NEIGHBOR_SOLICIT,
            ),
            (
                nd_advert("2:0:0:0:0:2", "fe80::2", "2:0:0:0:0:1", "fe80::1"),
                nd::NEIGHBOR_ADVERT,
            ),
        ] {
            let ip = Ipv6::new_checked(&frame[14..]).unwrap();
            let message = ip.payload();
            assert!(Icmp6::new_unchecked(message).verify_checksum(ip.pseudo(58, message.len())));
            let nd = Nd::new_checked(message).unwrap();
            assert_eq!(
                (nd.kind(), nd.target()),
                (kind, Some("fe80::2".parse().unwrap()))
            );
            assert!(
                nd.check_received(ip.src(), ip.dst(), ip.hop_limit())
                    .is_ok()
            );
        }
    }
}
