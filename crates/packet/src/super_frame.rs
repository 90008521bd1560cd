//! Super-frames: TCP segments of up to 64 KiB in one frame, as Linux passes them on before segmentation (GSO).
//!
//! A packet is a super-frame if its annotation [`tail`](crate::anno::Anno::tail) is not 0. It is then in a large
//! buffer, and its network and transport header annotations are set. IP's length is that of the whole packet, and
//! TCP's checksum field contains only the sum of the pseudo-header. An element either processes super-frames like
//! other packets, or gets their segments (`Contract::carries_super_frames`).

use crate::{Batch, Packet};
use wire::tcp::{CWR, FIN, PSH};
use wire::{checksum, ether, proto};

/// Offset of the checksum in the UDP header.
pub const UDP_CSUM: usize = 6;
/// Offset of the checksum in the TCP header.
pub const TCP_CSUM: usize = 16;
/// Offset of the flags in the TCP header.
pub const TCP_FLAGS: usize = 13;

/// Offsets of the headers of a super-frame, from the start of the frame.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The IP header.
    pub network: usize,
    /// The header of TCP or UDP.
    pub transport: usize,
    /// Offset of the payload, which is cut into segments.
    pub payload: usize,
    /// True if the packet is IPv6; false if IPv4.
    pub v6: bool,
    /// True if the packet is TCP; false if UDP.
    pub tcp: bool,
}

impl Shape {
    /// Turns a copy of the super-frame's headers into those of segment `index`, whose payload begins at `start` of
    /// the whole payload.
    pub fn finish(&self, segment: &mut [u8], index: usize, start: usize, last: bool) {
        let (headers, transport) = segment.split_at_mut(self.transport);
        let ip = &mut headers[self.network..];
        let ip_len = ip.len() + transport.len();
        let pseudo = if self.v6 {
            ip[4..6].copy_from_slice(&((ip_len - 40) as u16).to_be_bytes());
            checksum::sum(&ip[8..40])
        } else {
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
            ip[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let check = checksum::checksum(ip);
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            checksum::sum(&ip[12..20])
        };
        let pseudo = pseudo + transport.len() as u64;
        if self.tcp {
            finish_tcp(transport, pseudo + 6, index, start, last);
        } else {
            let len = transport.len() as u16;
            transport[4..6].copy_from_slice(&len.to_be_bytes());
            transport[UDP_CSUM..UDP_CSUM + 2].fill(0);
            let check = checksum::finish_udp(pseudo + 17 + checksum::sum(transport));
            transport[UDP_CSUM..UDP_CSUM + 2].copy_from_slice(&check.to_be_bytes());
        }
    }

    /// Shape of an Ethernet frame of `len` bytes whose first bytes are `head`. Returns `None` unless the frame is
    /// plain TCP with all headers in `head`, without VLAN tags, IPv6 extension headers or bytes after the IP packet.
    pub fn of_frame(head: &[u8], len: usize) -> Option<Shape> {
        let network = ether::LEN;
        let ip = head.get(network..network + 20)?;
        let word = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
        let (v6, header, ip_len, protocol) = match (ip[0] >> 4, &head[12..14]) {
            (4, [8, 0]) => (false, usize::from(ip[0] & 0xf) * 4, word(2), ip[9]),
            (6, [0x86, 0xdd]) => (true, 40, 40 + word(4), ip[6]),
            _ => return None,
        };
        let shape = Shape::of_tcp(head, network, network + header, v6)?;
        (network + ip_len == len && protocol == proto::TCP).then_some(shape)
    }

    /// Shape of a packet; `None` if the packet is not a valid super-frame.
    pub fn of(packet: &Packet) -> Option<Shape> {
        let anno = packet.anno();
        let place = |place: u16| usize::from(place).checked_sub(packet.headroom());
        let (network, transport) = (place(anno.network)?, place(anno.transport)?);
        let data = packet.data();
        let v6 = data.get(network)? >> 4 == 6;
        let shape = Shape::of_tcp(data, network, transport, v6)?;
        let tail = usize::from(anno.tail);
        (tail > 0 && shape.payload + tail < data.len()).then_some(shape)
    }

    /// Shape of `bytes` with IP and TCP headers at these offsets; `None` if the headers are incomplete.
    fn of_tcp(bytes: &[u8], network: usize, transport: usize, v6: bool) -> Option<Shape> {
        let payload = transport + usize::from(bytes.get(transport + 12)? >> 4) * 4;
        let sound = transport >= network + if v6 { 40 } else { 20 }
            && payload >= transport + 20
            && payload <= bytes.len();
        sound.then_some(Shape {
            network,
            transport,
            payload,
            v6,
            tcp: true,
        })
    }
}

fn finish_tcp(tcp: &mut [u8], pseudo: u64, index: usize, start: usize, last: bool) {
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(start as u32);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if !last {
        tcp[TCP_FLAGS] &= !(FIN | PSH);
    }
    if index > 0 {
        tcp[TCP_FLAGS] &= !CWR;
    }
    tcp[TCP_CSUM..TCP_CSUM + 2].fill(0);
    let check = checksum::finish(pseudo + checksum::sum(tcp));
    tcp[TCP_CSUM..TCP_CSUM + 2].copy_from_slice(&check.to_be_bytes());
}

impl Packet {
    /// True if the packet is a super-frame. Do not call it where packets have no annotations.
    #[inline]
    pub fn is_super_frame(&self) -> bool {
        self.anno().tail != 0
    }

    /// Marks the packet as a super-frame of this shape, whose segments except the last have `segment` bytes of payload.
    pub fn set_super_frame(&mut self, shape: &Shape, segment: u16) {
        let tail = self
            .len()
            .saturating_sub(shape.payload + usize::from(segment));
        self.set_network_offset(shape.network);
        self.set_transport_offset(shape.transport);
        self.anno_mut().tail = tail as u16;
    }

    /// Length in bytes of the longest packet after segmentation; the packet's own length if it is no super-frame.
    #[inline]
    pub fn segment_len(&self) -> usize {
        self.len().saturating_sub(usize::from(self.anno().tail))
    }

    /// Appends the segments of a super-frame, with its annotations. Returns false if no buffer is free or the
    /// super-frame is malformed; earlier segments have been appended.
    fn segment(&self, into: &mut Batch) -> bool {
        let Some(shape) = Shape::of(self) else {
            return false;
        };
        let payload = &self.data()[shape.payload..];
        let size = payload.len() - usize::from(self.anno().tail);
        let count = payload.len().div_ceil(size);
        for (index, part) in payload.chunks(size).enumerate() {
            let Some(mut segment) = self.copy_front(shape.payload) else {
                return false;
            };
            segment.anno_mut().tail = 0;
            let Some(room) = segment.put(part.len()) else {
                return false;
            };
            room.copy_from_slice(part);
            shape.finish(segment.data_mut(), index, index * size, index + 1 == count);
            into.push(segment);
        }
        true
    }
}

/// Replaces super-frames in the batch by their segments. Calls `failed` with each super-frame for whose segments no
/// buffers were free.
pub fn cut_all(batch: &mut Batch, mut failed: impl FnMut(Packet)) {
    if !batch.iter().any(Packet::is_super_frame) {
        return;
    }
    for packet in std::mem::take(batch).drain() {
        if !packet.is_super_frame() {
            batch.push(packet);
        } else if !packet.segment(batch) {
            failed(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A super-frame with `payload` bytes of payload, to be cut into segments of `size`.
    fn super_frame(v6: bool, payload: usize, size: u16) -> Packet {
        let mut f = vec![2; 12];
        let tcp_len = 32 + payload;
        if v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend((tcp_len as u16).to_be_bytes());
            f.extend([proto::TCP, 63]);
            f.extend([0xfd; 32]);
        } else {
            f.extend([8, 0, 0x45, 0]);
            f.extend((20 + tcp_len as u16).to_be_bytes());
            f.extend([
                0xff,
                0xff,
                0x40,
                0,
                63,
                proto::TCP,
                0,
                0,
                10,
                0,
                0,
                1,
                10,
                0,
                1,
                1,
            ]);
        }
        f.extend([
            0, 80, 0, 81, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 9, 0x80, 0x99, 1, 0, 0, 0, 0, 0,
        ]);
        f.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        f.extend((0..payload).map(|i| (i * 7 + i / 251) as u8));
        let shape = Shape::of_frame(&f[..120.min(f.len())], f.len()).expect("it is plain TCP");
        let mut packet = Packet::large(f.len()).expect("there is a buffer");
        packet.put(f.len()).expect("it fits").copy_from_slice(&f);
        packet.set_mac_here();
        packet.set_super_frame(&shape, size);
        packet.anno_mut().paint = 7;
        packet
    }

    #[test]
    fn segments_stand_alone_wherever_the_data_begins() {
        let _turn = crate::tests::large_ones();
        for (v6, payload, size) in [(false, 64_000, 1448), (true, 2001, 1000), (false, 101, 100)] {
            let headers = if v6 { 86 } else { 66 };
            for pulled in [0, 14] {
                let mut packet = super_frame(v6, payload, size);
                let bytes = packet.data().to_vec();
                assert_eq!(packet.segment_len(), headers + usize::from(size));
                assert!(packet.pull(pulled));
                let mut batch = Batch::from(vec![packet, Packet::from_bytes(b"x").expect("room")]);
                cut_all(&mut batch, |_| panic!("there are buffers"));
                assert_eq!(batch.len(), payload.div_ceil(usize::from(size)) + 1);
                let (mut at, mut left) = (headers, batch.iter().peekable());
                while let Some(packet) = left.next_if(|p| p.len() > 1) {
                    assert_eq!((packet.anno().paint, packet.is_super_frame()), (7, false));
                    // The removed bytes can be restored.
                    let frame = packet.mac().expect("it is set");
                    assert_eq!(frame.len(), packet.len() + pulled);
                    assert_eq!(frame[..14], bytes[..14]);
                    assert_eq!(frame[headers..], bytes[at..at + frame.len() - headers]);
                    let (ip, tcp) = frame[14..].split_at(headers - 14 - 32);
                    let addresses = if v6 { &ip[8..40] } else { &ip[12..20] };
                    let pseudo = checksum::sum(addresses) + 6 + tcp.len() as u64;
                    assert!(checksum::is_valid(pseudo + checksum::sum(tcp)));
                    assert_eq!(packet.network(), &frame[14..]);
                    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                    assert_eq!(seq, 0xffff_f000u32.wrapping_add((at - headers) as u32));
                    let (first, last) = (at == headers, at + frame.len() - headers == bytes.len());
                    let flags = 0x10 | if first { 0x80 } else { 0 } | if last { 0x09 } else { 0 };
                    assert_eq!(tcp[TCP_FLAGS], flags);
                    at += frame.len() - headers;
                }
                assert_eq!(
                    (at, left.next().map(Packet::data)),
                    (bytes.len(), Some(&b"x"[..]))
                );
            }
        }
    }

    #[test]
    fn malformed_super_frame_fails_without_harm() {
        let _turn = crate::tests::large_ones();
        let mangle: [fn(&mut Packet); 5] = [
            |p| p.truncate(60),
            |p| p.anno_mut().tail = u16::MAX,
            |p| p.anno_mut().transport = 0,
            |p| p.data_mut()[46] = 0xf0,
            |p| assert!(p.pull(40)),
        ];
        for mangle in mangle {
            let mut packet = super_frame(false, 300, 100);
            mangle(&mut packet);
            let mut batch = Batch::from(vec![packet]);
            let mut failed = 0;
            cut_all(&mut batch, |_| failed += 1);
            assert_eq!(failed, usize::from(batch.is_empty()));
        }
    }
}
