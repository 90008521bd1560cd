//! The packets of a trial: UDP datagrams of many flows, each with a mark in its last bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{EtherAddr, Ipv4, Ipv6, Prefix4, Prefix6, Udp, checksum, ether, ipv4, ipv6, proto, udp};

/// Length in bytes of the mark: a magic number, the trial, and the packet's number.
pub const MARK: usize = 16;
/// Length in bytes of a frame's CRC, which is never in memory. Frame lengths include it, as in RFC 2544.
pub const CRC: usize = 4;
const MAGIC: u32 = 0xa5_7e_b3_c1;
/// UDP port of the discard protocol (RFC 863): receivers drop all packets to it.
const DISCARD: u16 = 9;

/// Addresses of a trial's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Hosts of an IPv4 prefix.
    V4(Prefix4),
    /// Hosts of an IPv6 prefix.
    V6(Prefix6),
}

impl std::str::FromStr for Hosts {
    type Err = String;

    /// An address, or a prefix whose hosts are meant.
    fn from_str(text: &str) -> Result<Hosts, String> {
        let wrong = || format!("`{text}` is no address and no prefix such as 10.0.2.0/24");
        let (whole4, whole6) = (format!("{text}/32"), format!("{text}/128"));
        let (four, six) = match text.contains('/') {
            true => (text, text),
            false => (&*whole4, &*whole6),
        };
        match text.contains(':') {
            true => six.parse().map(Hosts::V6).map_err(|_| wrong()),
            false => four.parse().map(Hosts::V4).map_err(|_| wrong()),
        }
    }
}

impl Hosts {
    /// The `n`-th host, spread over the prefix; equal numbers give equal hosts. The first and the last address of a
    /// larger prefix are left out, because they may be network and broadcast address.
    fn host(self, n: usize) -> IpAddr {
        // An odd factor visits every place of a power of two.
        let spread = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let pick = |bits: u32| match bits {
            0 => 0,
            1 => spread >> 63,
            bits => 1 + spread % ((1u64 << bits.min(62)) - 2),
        };
        match self {
            Hosts::V4(p) => {
                let host = pick(32 - u32::from(p.len())) as u32;
                Ipv4Addr::from_bits(p.addr().to_bits() | host).into()
            }
            Hosts::V6(p) => {
                let host = u128::from(pick(128 - u32::from(p.len())));
                Ipv6Addr::from_bits(p.addr().to_bits() | host).into()
            }
        }
    }
}

/// Traffic of a trial.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Length of a frame in bytes, its CRC included.
    pub size: usize,
    /// Number of flows; packets belong to one after the other.
    pub flows: usize,
    /// Sources of packets.
    pub source: Hosts,
    /// Destinations of packets.
    pub destination: Hosts,
    /// Ethernet address of the sender.
    pub from: EtherAddr,
    /// Ethernet address of the receiver.
    pub to: EtherAddr,
}

/// A flow's packet without its mark.
#[derive(Clone, Debug)]
struct Template {
    frame: Vec<u8>,
    /// Sum over the bytes that the UDP checksum covers, without the mark, which comes last.
    sum: u64,
}

/// The packets of all flows.
#[derive(Clone, Debug)]
pub struct Templates {
    flows: Vec<Template>,
    /// Offset of the UDP header.
    udp: usize,
}

impl Traffic {
    /// Makes the packets. The error is a sentence.
    pub fn templates(&self) -> Result<Templates, String> {
        let udp = ether::LEN
            + match (self.source, self.destination) {
                (Hosts::V4(_), Hosts::V4(_)) => ipv4::MIN_LEN,
                (Hosts::V6(_), Hosts::V6(_)) => ipv6::LEN,
                _ => return Err("source and destination are of different IP versions".to_owned()),
            };
        let least = (udp + udp::LEN + MARK + CRC).max(64);
        let most = engine::packet::pool::data_bytes() + CRC;
        if !(least..=most).contains(&self.size) {
            let size = self.size;
            return Err(format!(
                "frames of {size} bytes cannot be made: {least} to {most} are possible here"
            ));
        }
        let flows = (0..self.flows.max(1)).map(|n| self.template(n, udp));
        Ok(Templates {
            flows: flows.collect(),
            udp,
        })
    }

    fn template(&self, n: usize, udp: usize) -> Template {
        let mut frame = vec![0; self.size - CRC];
        let len = frame.len() - udp;
        let ip = &mut frame[ether::LEN..];
        let (kind, pseudo) = match (self.source.host(n), self.destination.host(n)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let all = ip.len() as u16;
                let mut ip = Ipv4::new_unchecked(ip);
                ip.set_header_len(ipv4::MIN_LEN);
                ip.set_total_len(all);
                ip.set_ttl(64);
                ip.set_protocol(proto::UDP);
                ip.set_src(src);
                ip.set_dst(dst);
                ip.fill_checksum();
                (ether::IPV4, checksum::pseudo4(src, dst, proto::UDP, len))
            }
            (src, dst) => {
                let six = |a: IpAddr| match a {
                    IpAddr::V6(a) => a,
                    IpAddr::V4(a) => a.to_ipv6_mapped(),
                };
                let (src, dst) = (six(src), six(dst));
                let mut ip = Ipv6::new_unchecked(ip);
                ip.set_first_word(0, 0);
                ip.set_payload_len(len as u16);
                ip.set_next_header(proto::UDP);
                ip.set_hop_limit(64);
                ip.set_src(src);
                ip.set_dst(dst);
                (ether::IPV6, checksum::pseudo6(src, dst, proto::UDP, len))
            }
        };
        frame[..ether::LEN].copy_from_slice(&ether::header(self.to, self.from, kind));
        let mut header = Udp::new_unchecked(&mut frame[udp..]);
        header.set_src_port(1024 + (n % 60_000) as u16);
        header.set_dst_port(DISCARD);
        header.set_len(len as u16);
        let sum = pseudo + checksum::sum(&frame[udp..]);
        Template { frame, sum }
    }
}

impl Templates {
    /// Number of flows.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// A flow's packet, without a mark.
    #[inline]
    pub fn frame(&self, flow: usize) -> &[u8] {
        &self.flows[flow].frame
    }

    /// Puts the mark into a copy of a flow's packet and sets its checksum.
    #[inline]
    pub fn mark(&self, flow: usize, packet: &mut [u8], trial: u32, number: u64) {
        let at = packet.len() - MARK;
        let mark = &mut packet[at..];
        mark[..4].copy_from_slice(&MAGIC.to_be_bytes());
        mark[4..8].copy_from_slice(&trial.to_be_bytes());
        mark[8..].copy_from_slice(&number.to_be_bytes());
        let sum = checksum::join(self.flows[flow].sum, at - self.udp, checksum::sum(mark));
        Udp::new_unchecked(&mut packet[self.udp..]).set_checksum(checksum::finish_udp(sum));
    }
}

/// The mark in a packet's last bytes: its trial, and its number there.
#[inline]
pub fn marked(packet: &[u8]) -> Option<(u32, u64)> {
    let mark = packet.last_chunk::<MARK>()?;
    let (magic, rest) = mark.split_first_chunk::<4>()?;
    let (trial, rest) = rest.split_first_chunk::<4>()?;
    let number = rest.first_chunk::<8>()?;
    let ours = u32::from_be_bytes(*magic) == MAGIC;
    ours.then(|| (u32::from_be_bytes(*trial), u64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn traffic(size: usize, from: &str, to: &str) -> Traffic {
        Traffic {
            size,
            flows: 300,
            source: from.parse().unwrap(),
            destination: to.parse().unwrap(),
            from: EtherAddr([2, 0, 0, 0, 0, 9]),
            to: EtherAddr([2, 0, 0, 0, 0, 1]),
        }
    }

    #[test]
    fn every_packet_is_sound_and_carries_its_mark() {
        for (sizes, from, to) in [
            ([64, 65, 1518], "10.0.1.2", "10.0.2.0/24"),
            ([82, 83, 1518], "fd00:1::2", "fd00:2::/64"),
        ] {
            for size in sizes {
                let templates = traffic(size, from, to).templates().unwrap();
                let mut seen = HashSet::new();
                for flow in 0..templates.flows() {
                    let mut frame = templates.frame(flow).to_vec();
                    templates.mark(flow, &mut frame, 7, 0x1234_5678_9abc_def0);
                    assert_eq!(frame.len(), size - CRC);
                    assert_eq!(marked(&frame), Some((7, 0x1234_5678_9abc_def0)));
                    let packet = &frame[14..];
                    let (pseudo, payload, dst) = match packet[0] >> 4 {
                        4 => {
                            let ip = Ipv4::new_checked(packet).unwrap();
                            assert!(ip.verify_checksum());
                            let dst = IpAddr::from(ip.dst());
                            (ip.pseudo(ip.payload().len()), &packet[20..], dst)
                        }
                        _ => {
                            let ip = Ipv6::new_checked(packet).unwrap();
                            let dst = IpAddr::from(ip.dst());
                            (ip.pseudo(17, ip.payload().len()), &packet[40..], dst)
                        }
                    };
                    let udp = Udp::new_checked(payload).unwrap();
                    assert!(udp.checksum() != 0 && udp.verify_checksum(pseudo));
                    seen.insert(dst);
                }
                assert!(seen.len() > 100, "destinations are spread");
                assert!(!seen.contains(&"10.0.2.0".parse().unwrap()));
                assert!(!seen.contains(&"10.0.2.255".parse().unwrap()));
            }
        }
    }

    #[test]
    fn impossible_traffic_is_refused_with_the_reason() {
        let wrong = |size, from, to| traffic(size, from, to).templates().unwrap_err();
        assert!(wrong(63, "10.0.1.2", "10.0.2.2").contains("64 to"));
        assert!(wrong(81, "fd00::1", "fd00::2").contains("82 to"));
        assert!(wrong(9000, "10.0.1.2", "10.0.2.2").contains("cannot be made"));
        assert!(wrong(64, "10.0.1.2", "fd00::2").contains("different"));
        assert!("10.0.2.0/33".parse::<Hosts>().is_err());
        assert!("here".parse::<Hosts>().is_err());
    }

    #[test]
    fn other_packets_have_no_mark() {
        assert_eq!(marked(b"short"), None);
        assert_eq!(marked(&[0; 60]), None);
    }
}
