//! Class and sender of a frame for the kernel: the classes of a ControlPlanePolicer.

use wire::{ether, ipv4};

/// TCP flags (RFC 9293, 3.1). A SYN without ACK opens a connection.
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const OSPF: u8 = 89;
/// IPv6 extension headers (RFC 8200, 4.1), and the maximum number of them that are skipped.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const EXTENSIONS_MAX: usize = 4;
/// Neighbour Discovery messages (RFC 4861, 4): solicitations, then advertisements.
const ND_SOLICITATIONS: [u8; 2] = [133, 135];
const ND_ADVERTISEMENTS: [u8; 3] = [134, 136, 137];
const BGP: u16 = 179;
/// UDP ports of BFD: single hop, echo, multihop (RFC 5881, 4 and RFC 5883, 5).
const BFD: [u16; 3] = [3784, 3785, 4784];

/// Tunnel protocols without ports, which end in the kernel: IP in IP, IPv6 in IPv4, GRE, ESP, AH and L2TP.
const TUNNELS: [u8; 6] = [4, 41, 47, 50, 51, 115];
/// UDP ports of tunnels: L2TP, ESP behind NAT (RFC 3948), VXLAN, Linux's original VXLAN port, GENEVE and WireGuard.
const UDP_TUNNELS: [u16; 6] = [1701, 4500, 4789, 8472, 6081, 51_820];

/// Traffic classes, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    ArpRequest,
    ArpReply,
    Nd,
    NdReply,
    Bfd,
    Ospf,
    Bgp,
    Syn,
    Icmp,
    Tunnel,
    Exception,
    Other,
}

/// Names of the classes.
pub(super) const NAMES: [&str; 12] = [
    "arp_request",
    "arp_reply",
    "nd",
    "nd_reply",
    "bfd",
    "ospf",
    "bgp",
    "syn",
    "icmp",
    "tunnel",
    "exception",
    "other",
];

/// Class of a frame, and a hash of its sender: the IP source address, or else the Ethernet source. A frame that is too
/// short is in the class for other traffic.
pub(super) fn of(frame: &[u8]) -> (Class, u64) {
    let Some((head, packet)) = frame.split_at_checked(ether::LEN) else {
        return (Class::Other, 0);
    };
    let station = word(&head[6..12]);
    match u16::from_be_bytes([head[12], head[13]]) {
        ether::ARP => match packet.get(6..8) {
            Some([0, 1]) => (Class::ArpRequest, station),
            Some([0, 2]) => (Class::ArpReply, station),
            _ => (Class::Other, station),
        },
        ether::IPV4 if packet.len() >= ipv4::MIN_LEN => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let later = (u16::from(packet[6]) << 8 | u16::from(packet[7])) & 0x1fff != 0;
            let payload = packet.get(header..).filter(|_| !later);
            (upper(packet[9], payload), word(&packet[12..16]))
        }
        ether::IPV6 if packet.len() >= 40 => {
            // Both halves of the address count: the low half distinguishes hosts, the high half networks.
            let source = word(&packet[8..16]) ^ word(&packet[16..24]).rotate_left(1);
            let (next, payload) = behind_extensions(packet);
            (upper(next, payload), source)
        }
        _ => (Class::Other, station),
    }
}

/// Protocol and payload after an IPv6 packet's extension headers; the payload is `None` if it is missing. Hop-by-hop
/// options precede MLD and RSVP, authentication precedes OSPF (RFC 4552), and long OSPF messages are fragmented.
fn behind_extensions(packet: &[u8]) -> (u8, Option<&[u8]>) {
    let (mut next, mut rest) = (packet[6], packet.get(40..));
    for _ in 0..EXTENSIONS_MAX {
        let Some(&[after, len, a, b]) = rest.and_then(<[u8]>::first_chunk) else {
            break;
        };
        let skip = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 + 8 * usize::from(len),
            AUTHENTICATION => 8 + 4 * usize::from(len),
            FRAGMENT if u16::from_be_bytes([a, b]) & 0xfff8 != 0 => return (after, None),
            FRAGMENT => 8,
            _ => break,
        };
        (next, rest) = (after, rest.and_then(|r| r.get(skip..)));
    }
    (next, rest)
}

/// Class of a payload by its protocol number, and by its content if present.
fn upper(protocol: u8, payload: Option<&[u8]>) -> Class {
    let bytes = payload.unwrap_or(&[]);
    let ports = bytes
        .first_chunk()
        .map(|&[a, b, c, d]| [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
    match (protocol, bytes.first(), ports) {
        (ICMP6, Some(kind), _) if ND_SOLICITATIONS.contains(kind) => Class::Nd,
        (ICMP6, Some(kind), _) if ND_ADVERTISEMENTS.contains(kind) => Class::NdReply,
        (ICMP | ICMP6, ..) => Class::Icmp,
        (OSPF, ..) => Class::Ospf,
        (protocol, ..) if TUNNELS.contains(&protocol) => Class::Tunnel,
        (UDP, _, Some([_, to])) if BFD.contains(&to) => Class::Bfd,
        (UDP, _, Some([_, to])) if UDP_TUNNELS.contains(&to) => Class::Tunnel,
        (TCP, _, Some(ports)) => match bytes.get(13) {
            Some(flags) if flags & (SYN | ACK) == SYN => Class::Syn,
            _ if ports.contains(&BGP) => Class::Bgp,
            _ => Class::Other,
        },
        _ => Class::Other,
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{arp_reply, arp_request, ip4, ip6, nd_solicit};

    const A: &str = "02:00:00:00:00:0a";

    fn class(frame: &[u8]) -> Class {
        of(frame).0
    }

    fn four(build: testkit::Build) -> Class {
        class(&build.ether(A, A).bytes())
    }

    #[test]
    fn daemons_messages_are_told_apart() {
        assert_eq!(
            class(&arp_request(A, "10.0.0.9", "10.0.0.1")),
            Class::ArpRequest
        );
        let address = "02:00:00:00:00:0b";
        assert_eq!(
            class(&arp_reply(A, "10.0.0.9", address, "10.0.0.1")),
            Class::ArpReply
        );
        assert_eq!(class(&nd_solicit(A, "fe80::9", "fe80::1")), Class::Nd);
        for port in [3784, 3785, 4784] {
            assert_eq!(four(ip4().udp(50000, port)), Class::Bfd);
            assert_eq!(four(ip6().udp(50000, port)), Class::Bfd);
        }
        assert_eq!(four(ip4().udp(3784, 53)), Class::Other);
        assert_eq!(four(ip4().icmp_echo(1, 1)), Class::Icmp);
        assert_eq!(four(ip6().icmp_echo(1, 1)), Class::Icmp);
        assert_eq!(class(&[0; 13]), Class::Other);
        let mut lldp = [0; 60];
        lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
        assert_eq!(class(&lldp), Class::Other);
    }

    #[test]
    fn a_bare_syn_is_no_bgp() {
        let mut frame = ip4().tcp(40000, 179).ether(A, A).bytes();
        let flags = 14 + 20 + 13;
        for (set, wanted) in [
            (0x02, Class::Syn),
            (0x12, Class::Bgp),
            (0x18, Class::Bgp),
            (0x04, Class::Bgp),
        ] {
            frame[flags] = set;
            assert_eq!(class(&frame), wanted);
        }
        let mut back = ip4().tcp(179, 40000).ether(A, A).bytes();
        back[flags] = 0x10;
        assert_eq!(class(&back), Class::Bgp);
        back[14 + 20..14 + 22].copy_from_slice(&[0, 22]);
        assert_eq!(class(&back), Class::Other);
    }

    #[test]
    fn ospf_and_later_fragments() {
        let mut frame = ip4().udp(50000, 3784).ether(A, A).bytes();
        frame[14 + 7] = 1;
        assert_eq!(class(&frame), Class::Other, "its ports are not there");
        frame[14 + 9] = OSPF;
        assert_eq!(class(&frame), Class::Ospf);
        let mut frame = ip6().udp(50000, 3784).ether(A, A).bytes();
        frame[14 + 6] = OSPF;
        assert_eq!(class(&frame), Class::Ospf);
    }

    #[test]
    fn extension_headers_of_ipv6_do_not_hide_the_transport_header() {
        // The headers between, then the offset of the last one.
        let behind = |protocol: u8, headers: &[[u8; 8]]| {
            let mut frame = ip6().udp(50000, 3784).ether(A, A).bytes();
            let mut next = protocol;
            for header in headers.iter().rev() {
                let mut header = *header;
                let own = std::mem::replace(&mut header[0], next);
                next = own;
                frame.splice(14 + 40..14 + 40, header);
            }
            frame[14 + 6] = next;
            class(&frame)
        };
        let options = [HOP_BY_HOP, 0, 0, 0, 0, 0, 0, 0];
        let first = [FRAGMENT, 0, 0, 1, 0, 0, 0, 7];
        let later = [FRAGMENT, 0, 0, 9, 0, 0, 0, 7];
        assert_eq!(behind(UDP, &[options]), Class::Bfd);
        assert_eq!(behind(UDP, &[options, first]), Class::Bfd);
        assert_eq!(
            behind(UDP, &[later]),
            Class::Other,
            "its ports are not there"
        );
        assert_eq!(behind(OSPF, &[later]), Class::Ospf);
        assert_eq!(
            behind(OSPF, &[[AUTHENTICATION, 0, 0, 0, 0, 0, 0, 1]]),
            Class::Ospf
        );
        assert_eq!(behind(UDP, &[options; EXTENSIONS_MAX + 1]), Class::Other);
    }

    #[test]
    fn every_beginning_of_a_frame_is_something() {
        for frame in testkit::traffic::mix(3, 300) {
            for len in 0..frame.len().min(80) {
                of(&frame[..len]);
            }
        }
    }

    #[test]
    fn sources_differ_by_address() {
        let from = |src: &str| of(&ip4().src(src).icmp_echo(1, 1).ether(A, A).bytes()).1;
        assert_ne!(from("10.0.0.1"), from("10.0.0.2"));
        let from = |src: &str| of(&ip6().src(src).icmp_echo(1, 1).ether(A, A).bytes()).1;
        assert_ne!(from("fe80::1"), from("fe80::2"));
        assert_ne!(from("2001:db8::1"), from("2001:db9::1"));
    }
}
