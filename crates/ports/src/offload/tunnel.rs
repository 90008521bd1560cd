//! Headers outside the segmented ones: super-frames in tunnels.
//!
//! Linux describes a super-frame in a tunnel like any other; only the start of the unfinished checksum shows that there
//! is a tunnel. Of all tunnels that Linux segments (GRE, IP in IP, and VXLAN, Geneve and others over UDP), only IP, UDP
//! and GRE headers hold a length or a checksum. All other bytes between are the same in each segment.

use engine::packet::super_frame::UDP_CSUM;
use wire::{checksum, ext, ipv4, ipv6, proto, udp};

/// Headers of tunnels that a frame may have: IP and UDP or GRE, twice.
const HEADERS_MAX: usize = 4;
/// GRE's flags: there is a checksum; the packets are numbered.
const GRE_CHECKSUM: u8 = 0x80;
const GRE_SEQUENCE: u8 = 0x10;

/// A header around others, by where it lies in the frame.
#[derive(Clone, Copy, Debug)]
enum Header {
    Ipv4(usize),
    Ipv6(usize),
    /// UDP; its checksum covers addresses of the IP header at this index.
    Udp(usize),
    Gre(usize),
}

/// The headers of the tunnels around a super-frame, outermost first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tunnel {
    headers: [Option<Header>; HEADERS_MAX],
}

impl Tunnel {
    /// The tunnel around a frame, and the offset of the inner IP header. The outer IP header is at `network`, and the
    /// unfinished checksum begins at `start`. `None` if the frame is in no tunnel, or in one of an unknown kind. `len`
    /// is the frame's length in bytes.
    pub(super) fn of(
        head: &[u8],
        len: usize,
        network: usize,
        (start, protocol): (usize, u8),
    ) -> Option<(Tunnel, usize)> {
        let inner = inner_header(head, len, start, protocol)?;
        let (mut tunnel, mut count, mut at) = (Tunnel::default(), 0, network);
        let mut add = |header| {
            *tunnel.headers.get_mut(count)? = Some(header);
            count += 1;
            Some(())
        };
        while at < inner {
            let ip = head.get(at..inner)?;
            let (upper, next) = match ip.first()? >> 4 {
                4 => {
                    add(Header::Ipv4(at))?;
                    let header = usize::from(ip[0] & 0xf) * 4;
                    (*ip.get(9)?, at + header.max(ipv4::MIN_LEN))
                }
                6 => {
                    add(Header::Ipv6(at))?;
                    let upper = ext::walk(ip).ok()?;
                    (upper.protocol, at + upper.offset)
                }
                _ => return None,
            };
            at = match upper {
                proto::UDP if next + udp::LEN <= inner => {
                    add(Header::Udp(next))?;
                    inner
                }
                proto::GRE if next + 4 <= inner && head[next] & GRE_SEQUENCE == 0 => {
                    add(Header::Gre(next))?;
                    inner
                }
                proto::IPIP | proto::IPV6 => next,
                _ => return None,
            };
        }
        (at == inner && count > 0).then_some((tunnel, inner))
    }

    /// Completes the headers of a segment's tunnels, copied from the super-frame; the inner headers are done. `index`
    /// counts segments.
    pub(super) fn finish(&self, segment: &mut [u8], index: usize) {
        for i in (0..HEADERS_MAX).rev() {
            let pseudo = i.checked_sub(1).and_then(|before| self.headers[before]);
            match self.headers[i] {
                None => {}
                Some(Header::Ipv4(at)) => finish_ip4(&mut segment[at..], index),
                Some(Header::Ipv6(at)) => {
                    let payload = segment.len() - at - ipv6::LEN;
                    segment[at + 4..at + 6].copy_from_slice(&(payload as u16).to_be_bytes());
                }
                Some(Header::Gre(at)) => finish_gre(&mut segment[at..]),
                Some(Header::Udp(at)) => {
                    let addresses = match pseudo {
                        Some(Header::Ipv4(ip)) => checksum::sum(&segment[ip + 12..ip + 20]),
                        Some(Header::Ipv6(ip)) => checksum::sum(&segment[ip + 8..ip + 40]),
                        _ => 0,
                    };
                    finish_udp(&mut segment[at..], addresses);
                }
            }
        }
    }
}

/// Offset of the IP header before the start of the unfinished checksum, if its packet ends with the frame.
fn inner_header(head: &[u8], len: usize, start: usize, protocol: u8) -> Option<usize> {
    let word = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *head.get(at)?,
            *head.get(at + 1)?,
        ])))
    };
    let is_ip4 = |at: usize| {
        let here =
            [*head.get(at)?, *head.get(at + 9)?] == [0x40 | ((start - at) / 4) as u8, protocol];
        (here && word(at + 2)? == len.checked_sub(at)?).then_some(at)
    };
    let is_ip6 = |at: usize| {
        let here = head.get(at)? >> 4 == 6 && *head.get(at + 6)? == protocol;
        (here && word(at + 4)? == len.checked_sub(at + ipv6::LEN)?).then_some(at)
    };
    let ip4 = (5..=15).find_map(|words| is_ip4(start.checked_sub(words * 4)?));
    ip4.or_else(|| is_ip6(start.checked_sub(ipv6::LEN)?))
}

fn finish_ip4(ip: &mut [u8], index: usize) {
    let len = ip.len() as u16;
    let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[10..12].fill(0);
    let header = (usize::from(ip[0] & 0xf) * 4).clamp(ipv4::MIN_LEN, ip.len());
    let check = checksum::checksum(&ip[..header]);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
}

fn finish_udp(udp: &mut [u8], addresses: u64) {
    let len = udp.len() as u16;
    udp[4..6].copy_from_slice(&len.to_be_bytes());
    let field = UDP_CSUM..UDP_CSUM + 2;
    if udp[field.clone()] == [0, 0] {
        return; // the tunnel has none
    }
    udp[field.clone()].fill(0);
    let pseudo = addresses + u64::from(proto::UDP) + u64::from(len);
    let check = checksum::finish_udp(pseudo + checksum::sum(udp));
    udp[field].copy_from_slice(&check.to_be_bytes());
}

fn finish_gre(gre: &mut [u8]) {
    if gre[0] & GRE_CHECKSUM != 0 && gre.len() >= 8 {
        gre[4..6].fill(0);
        let check = checksum::checksum(gre);
        gre[4..6].copy_from_slice(&check.to_be_bytes());
    }
}
