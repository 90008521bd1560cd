//! Merges segments of a TCP flow into one super-frame, for a kernel that accepts super-frames: the reverse of
//! [`cut`](super::cut).
//!
//! A run of segments is merged only if cutting the super-frame gives back the same bytes: all headers are equal except
//! for the fields that count up, and all checksums are right, since the kernel does not verify those of a super-frame.

use super::{GSO_ECN, GSO_TCPV4, GSO_TCPV6, NEEDS_CSUM, VNET_LEN, VnetHeader};
use engine::packet::Packet;
use engine::packet::super_frame::{Shape, TCP_CSUM, TCP_FLAGS};
use wire::tcp::{ACK, CWR, PSH};
use wire::{checksum, ether};

/// Ethernet, IPv6, and TCP with all its options.
const HEADER_BYTES_MAX: usize = ether::LEN + 40 + 60;
/// The longest IP packet, and the greatest payload length of IPv6.
const PACKET_LEN_MAX: usize = 65_535;

/// Bytes before the payloads of a super-frame: a virtio-net header and the frame's headers.
pub(crate) struct Head {
    bytes: [u8; VNET_LEN + HEADER_BYTES_MAX],
    len: usize,
}

impl Head {
    /// Head of frames that are sent unchanged.
    pub(crate) const PLAIN: Head = Head {
        bytes: [0; VNET_LEN + HEADER_BYTES_MAX],
        len: VNET_LEN,
    };

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Number of bytes at the front of each frame that the head replaces.
    pub(crate) fn replaces(&self) -> usize {
        self.len - VNET_LEN
    }

    /// Looks for a super-frame at the front of `frames`. Returns how many of them it has; less than two mean that the
    /// first frame is sent as it is.
    pub(crate) fn merge<'a>(&mut self, mut frames: impl Iterator<Item = &'a [u8]>) -> usize {
        self.len = VNET_LEN;
        self.bytes[..VNET_LEN].fill(0);
        let Some(first) = frames.next().and_then(Segment::of) else {
            return 0;
        };
        let room = PACKET_LEN_MAX - (first.payload - ether::LEN);
        let (mut n, mut len, mut pushes, mut short) = (1, first.len(), first.pushes(), false);
        while !(pushes || short)
            && let Some(next) = frames.next().and_then(Segment::of)
            && next.follows(&first, n, len)
            && len + next.len() <= room
            && (n > 1 || first.is_sound())
            && next.is_sound()
        {
            (n, len) = (n + 1, len + next.len());
            (pushes, short) = (next.pushes(), next.len() < first.len());
        }
        if n > 1 {
            self.write(&first, len, pushes);
        }
        n
    }

    /// Sets this to the virtio-net header of a super-frame that is sent unsegmented; the whole frame follows the
    /// header. Returns false if the segments would be frames of more than `longest` bytes, or if the packet's headers
    /// are not valid; this is then the header of a plain frame.
    pub(crate) fn carry(&mut self, packet: &Packet, longest: usize) -> bool {
        *self = Head::PLAIN;
        let shape = Shape::of(packet).filter(|_| packet.segment_len() <= longest);
        let Some(shape) = shape else {
            return false;
        };
        let mut kind = if shape.v6 { GSO_TCPV6 } else { GSO_TCPV4 };
        if packet.data()[shape.transport + TCP_FLAGS] & CWR != 0 {
            kind |= GSO_ECN;
        }
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            kind,
            segment: (packet.segment_len() - shape.payload) as u16,
            csum_start: shape.transport as u16,
            csum_offset: TCP_CSUM as u16,
        };
        self.bytes[..VNET_LEN].copy_from_slice(&header.bytes(shape.payload));
        true
    }

    /// Writes the headers of a super-frame with `len` bytes of payload.
    fn write(&mut self, first: &Segment, len: usize, pushes: bool) {
        let (vnet, headers) = self.bytes.split_at_mut(VNET_LEN);
        let headers = &mut headers[..first.payload];
        headers.copy_from_slice(&first.frame[..first.payload]);
        let (ip, tcp) = headers[ether::LEN..].split_at_mut(first.transport - ether::LEN);
        let tcp_len = tcp.len() + len;
        let pseudo = if first.v6 {
            ip[4..6].copy_from_slice(&(tcp_len as u16).to_be_bytes());
            checksum::sum(&ip[8..40])
        } else {
            let total = ((ip.len() + tcp_len) as u16).to_be_bytes();
            ip[2..4].copy_from_slice(&total);
            ip[10..12].fill(0);
            let check = checksum::checksum(ip);
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            checksum::sum(&ip[12..20])
        };
        if pushes {
            tcp[TCP_FLAGS] |= PSH;
        }
        let sum = checksum::fold(pseudo + 6 + tcp_len as u64);
        tcp[TCP_CSUM..TCP_CSUM + 2].copy_from_slice(&sum.to_be_bytes());
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            kind: if first.v6 { GSO_TCPV6 } else { GSO_TCPV4 },
            segment: first.len() as u16,
            csum_start: first.transport as u16,
            csum_offset: TCP_CSUM as u16,
        };
        vnet.copy_from_slice(&header.bytes(first.payload));
        self.len = VNET_LEN + first.payload;
    }
}

/// A frame that may be a part of a super-frame: TCP with data, without fragments, IP options or flags that a cut would
/// change.
struct Segment<'a> {
    frame: &'a [u8],
    v6: bool,
    transport: usize,
    payload: usize,
}

impl<'a> Segment<'a> {
    fn of(frame: &'a [u8]) -> Option<Segment<'a>> {
        let kind = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
        let ip = &frame[ether::LEN..];
        let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
        let (v6, ip_len, plain) = match kind {
            ether::IPV4 if ip.len() >= 40 => {
                let whole = usize::from(word(2)) == ip.len() && word(6) & !0x4000 == 0;
                (false, 20, ip[0] == 0x45 && ip[9] == 6 && whole)
            }
            ether::IPV6 if ip.len() >= 60 => {
                let whole = usize::from(word(4)) + 40 == ip.len();
                (true, 40, ip[0] >> 4 == 6 && ip[6] == 6 && whole)
            }
            _ => return None,
        };
        let tcp = &ip[ip_len..];
        let tcp_len = usize::from(tcp[12] >> 4) * 4;
        // Only plain data segments are merged: splitting clears no flag but PSH, and repeats no urgent pointer.
        let data = tcp[TCP_FLAGS] & !PSH == ACK && tcp[18..20] == [0, 0] && tcp[12] & 0xf == 0;
        let transport = ether::LEN + ip_len;
        (plain && data && (20..tcp.len()).contains(&tcp_len)).then_some(Segment {
            frame,
            v6,
            transport,
            payload: transport + tcp_len,
        })
    }

    /// Number of bytes of payload.
    fn len(&self) -> usize {
        self.frame.len() - self.payload
    }

    fn pushes(&self) -> bool {
        self.frame[self.transport + TCP_FLAGS] & PSH != 0
    }

    /// True if this is the segment with number `n`, `before` bytes of payload after the start of `first`.
    fn follows(&self, first: &Segment, n: usize, before: usize) -> bool {
        if self.payload != first.payload || self.v6 != first.v6 || self.len() > first.len() {
            return false;
        }
        let same = |from: usize, to: usize| self.frame[from..to] == first.frame[from..to];
        let word = |s: &Segment, at: usize| u16::from_be_bytes([s.frame[at], s.frame[at + 1]]);
        let network = ether::LEN;
        let ip = if self.v6 {
            same(0, network + 4) && same(network + 6, self.transport)
        } else {
            let id = word(first, network + 4).wrapping_add(n as u16);
            word(self, network + 4) == id
                && same(0, network + 2)
                && same(network + 6, network + 10)
                && same(network + 12, self.transport)
        };
        let tcp = self.transport;
        let seq = |s: &Segment| {
            let seq = &s.frame[tcp + 4..tcp + 8];
            u32::from_be_bytes([seq[0], seq[1], seq[2], seq[3]])
        };
        ip && seq(self) == seq(first).wrapping_add(before as u32)
            && same(tcp, tcp + 4)
            && same(tcp + 8, tcp + TCP_FLAGS)
            && same(tcp + TCP_FLAGS + 1, tcp + TCP_CSUM)
            && same(tcp + TCP_CSUM + 2, self.payload)
    }

    /// True if the segment's checksums are correct.
    fn is_sound(&self) -> bool {
        let (ip, tcp) = self.frame[ether::LEN..].split_at(self.transport - ether::LEN);
        let addresses = if self.v6 { &ip[8..40] } else { &ip[12..20] };
        let pseudo = checksum::sum(addresses) + 6 + tcp.len() as u64;
        (self.v6 || checksum::verify(ip)) && checksum::is_valid(pseudo + checksum::sum(tcp))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{merge_frames, segment_frame};
    use super::VNET_LEN;
    use testkit::Rng;
    use wire::checksum;

    /// A segment with `len` bytes of payload, `before` bytes after the start of its flow.
    fn segment(v6: bool, flow: u8, number: u16, before: u32, len: usize, flags: u8) -> Vec<u8> {
        let mut f = vec![2; 12];
        let tcp_len = 32 + len;
        if v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend((tcp_len as u16).to_be_bytes());
            f.extend([6, 63]);
            f.extend([0xfd; 31]);
            f.push(flow);
        } else {
            f.extend([8, 0, 0x45, 0]);
            f.extend((20 + tcp_len as u16).to_be_bytes());
            f.extend(number.wrapping_sub(3).to_be_bytes());
            f.extend([0x40, 0, 63, 6, 0, 0, 10, 0, 0, 1, 10, 0, 1, flow]);
            let check = checksum::checksum(&f[14..34]);
            f[24..26].copy_from_slice(&check.to_be_bytes());
        }
        let tcp = f.len();
        f.extend([0, 80, 0, 81]);
        f.extend(0xffff_f000u32.wrapping_add(before).to_be_bytes());
        f.extend([
            0, 0, 0, 9, 0x80, flags, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8,
        ]);
        f.extend((0..len).map(|i| (i + before as usize) as u8));
        finish(&mut f, tcp);
        f
    }

    fn finish(f: &mut [u8], tcp: usize) {
        let addresses = if tcp == 54 { 22..54 } else { 26..34 };
        let pseudo = checksum::sum(&f[addresses]) + 6 + (f.len() - tcp) as u64;
        f[tcp + 16..tcp + 18].fill(0);
        let check = checksum::finish(pseudo + checksum::sum(&f[tcp..]));
        f[tcp + 16..tcp + 18].copy_from_slice(&check.to_be_bytes());
    }

    /// Frames that a kernel makes of these messages.
    fn cut_again(sent: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let packets = sent.iter().flat_map(|message| {
            let (vnet, frame) = message.split_first_chunk::<VNET_LEN>().unwrap();
            segment_frame(vnet, frame, 2000)
        });
        packets.map(|packet| packet.data().to_vec()).collect()
    }

    /// A stream of `n` full segments.
    fn stream(v6: bool, n: u16, len: usize) -> Vec<Vec<u8>> {
        let one = |i: u16| segment(v6, 1, i, u32::from(i) * len as u32, len, 0x10);
        (0..n).map(one).collect()
    }

    #[test]
    fn a_stream_becomes_super_frames_of_at_most_64_kib() {
        for (v6, len) in [(false, 1448), (true, 1428), (false, 100), (false, 9)] {
            let frames = stream(v6, 100, len);
            let sent = merge_frames(&frames);
            assert_eq!(cut_again(&sent), frames);
            assert_eq!(sent.len(), (100 * len).div_ceil(65_000).max(1));
        }
    }

    #[test]
    fn a_push_and_a_short_segment_end_a_super_frame() {
        for v6 in [false, true] {
            let mut frames = stream(v6, 6, 1000);
            frames[2] = segment(v6, 1, 2, 2000, 1000, 0x18);
            frames[5] = segment(v6, 1, 5, 5000, 7, 0x10);
            frames.push(segment(v6, 1, 6, 5007, 7, 0x10));
            let sent = merge_frames(&frames);
            assert_eq!(sent.len(), 3);
            assert_eq!(cut_again(&sent), frames);
        }
    }

    /// Whatever is changed in a segment, it leaves with the change.
    #[test]
    fn no_bit_of_a_header_is_lost() {
        for v6 in [false, true] {
            let frames = stream(v6, 3, 20);
            for bit in 0..(frames[0].len() - 20) * 8 {
                for sound in [false, true] {
                    let mut frames = frames.clone();
                    frames[1][bit / 8] ^= 1 << (bit % 8);
                    if sound && frames[1][12..14] == frames[0][12..14] {
                        let ip = &mut frames[1][14..34];
                        if !v6 {
                            ip[10..12].fill(0);
                            let check = checksum::checksum(ip);
                            ip[10..12].copy_from_slice(&check.to_be_bytes());
                        }
                        finish(&mut frames[1], if v6 { 54 } else { 34 });
                    }
                    assert_eq!(cut_again(&merge_frames(&frames)), frames, "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn any_mixture_of_frames_arrives_as_it_was() {
        let mut rng = Rng::seed(7);
        for _ in 0..400 {
            let (mut frames, mut at, mut number) = (Vec::new(), 0u32, 0u16);
            let (v6, size) = (rng.one_in(2), rng.range(1..1448));
            for _ in 0..rng.range(1..70) {
                let len = if rng.one_in(8) {
                    rng.below(size + 2)
                } else {
                    size
                };
                let flags =
                    *rng.pick(&[0x10, 0x10, 0x10, 0x10, 0x10, 0x18, 0x11, 0x50, 0x90, 0x02]);
                let flow = u8::from(rng.one_in(10));
                let mut frame = segment(v6, flow, number, at, len, flags);
                if rng.one_in(20) {
                    let bad = rng.below(frame.len());
                    frame[bad] ^= 1 << rng.below(8);
                }
                if rng.one_in(40) {
                    frame.truncate(rng.below(frame.len()));
                }
                if rng.one_in(40) {
                    frame.push(0); // Ethernet's padding
                }
                frames.push(frame);
                at = at.wrapping_add(len as u32);
                number = number.wrapping_add(1);
            }
            assert_eq!(cut_again(&merge_frames(&frames)), frames);
        }
    }
}
