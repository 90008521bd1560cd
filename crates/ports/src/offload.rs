//! Offloads that Linux leaves to the device and that a router must do itself: unfinished checksums and segmentation of
//! super-frames (GSO), announced by a virtio-net header (virtio 1.2, 5.1.6).
//!
//! A frame between two Linux network namespaces, or from a TAP, may carry a checksum field that holds only the
//! pseudo-header's sum, and may be 64 KiB of uncut TCP. Such frames must not reach a real wire. Linux announces TCP
//! over IPv4 and IPv6 and UDP (UDP_L4); each may be in [tunnels](tunnel). In place of a frame of another kind (SCTP,
//! lists of fragments), the socket returns an error. On the way out, consecutive segments of a flow become a
//! super-frame again (see [`merge`]): the kernel's path to a peer on the same machine costs the same for 64 KiB as for
//! a segment. For a device that cannot segment, the kernel does.

pub(crate) mod merge;
mod tunnel;

use engine::packet::Packet;
use engine::packet::super_frame::{Shape, TCP_CSUM, UDP_CSUM};
use tunnel::Tunnel;
use wire::{checksum, ext, proto};

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Set beside the kind when the segment carries CWR; segments keep to RFC 3168 either way.
const GSO_ECN: u8 = 0x80;

/// The virtio-net header before a frame, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    flags: u8,
    kind: u8,
    pub(crate) segment: u16,
    csum_start: u16,
    csum_offset: u16,
}

/// Length of a virtio-net header in bytes.
pub(crate) const VNET_LEN: usize = 10;

impl VnetHeader {
    /// Reads a header.
    pub(crate) fn parse(b: &[u8; VNET_LEN]) -> VnetHeader {
        let word = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        VnetHeader {
            flags: b[0],
            kind: b[1] & !GSO_ECN,
            segment: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Encodes the header for a frame whose own headers have `headers` bytes.
    fn bytes(&self, headers: usize) -> [u8; VNET_LEN] {
        let mut b = [0; VNET_LEN];
        (b[0], b[1]) = (self.flags, self.kind);
        let words = [
            headers as u16,
            self.segment,
            self.csum_start,
            self.csum_offset,
        ];
        for (to, word) in b[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        b
    }

    /// True if the frame must be cut.
    pub(crate) fn is_gso(&self) -> bool {
        self.kind != GSO_NONE
    }

    /// Finishes the checksum of a whole frame, if it is unfinished. False if the header points
    /// outside the frame.
    pub(crate) fn complete(&self, frame: &mut [u8]) -> bool {
        if self.flags & NEEDS_CSUM == 0 {
            return true;
        }
        let (start, offset) = (usize::from(self.csum_start), usize::from(self.csum_offset));
        let Some(covered) = frame.get_mut(start..) else {
            return false;
        };
        if offset + 2 > covered.len() {
            return false;
        }
        // The field contains the pseudo-header's sum, so it is included in the sum unchanged.
        let sum = checksum::sum(covered);
        let udp = offset == UDP_CSUM;
        let check = if udp {
            checksum::finish_udp(sum)
        } else {
            checksum::finish(sum)
        };
        covered[offset..offset + 2].copy_from_slice(&check.to_be_bytes());
        true
    }
}

/// Maximum number of segments of a super-frame: 64 KiB in the smallest that Linux makes of TCP (sysctl
/// tcp_min_snd_mss). One byte in each segment would make 65,000 packets of one frame.
const SEGMENTS_MAX: usize = 1366;
/// Maximum number of segments of a super-frame that is carried whole: it is cut in one turn.
const CARRIED_SEGMENTS_MAX: usize = 128;

/// Reason why a super-frame could not be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutError {
    /// A kind of offload that is not known here, or headers that do not fit it.
    Unknown,
    /// The super-frame would become too many packets.
    TooMany,
    /// The pool ran dry; earlier segments were delivered.
    NoBuffer,
    /// A segment is longer than a packet buffer.
    TooLong,
}

/// Offsets of the headers of a super-frame of `len` bytes, and its tunnels; `None` if they do not fit its virtio-net
/// header.
fn segment_layout(vnet: &VnetHeader, head: &[u8], len: usize) -> Option<(Shape, Tunnel)> {
    let mut at = 12;
    while matches!(head.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
        at += 4;
    }
    let mut v6 = head[at..at + 2] == [0x86, 0xdd];
    let mut network = at + 2;
    let tcp = vnet.kind != GSO_UDP_L4;
    let mut tunnel = Tunnel::default();
    let start = usize::from(vnet.csum_start);
    if vnet.flags & NEEDS_CSUM != 0
        && !begins_at(head.get(network..)?, start.checked_sub(network)?, tcp)
    {
        let protocol = if tcp { proto::TCP } else { proto::UDP };
        (tunnel, network) = Tunnel::of(head, len, network, (start, protocol))?;
        v6 = head[network] >> 4 == 6;
    }
    let known = match vnet.kind {
        GSO_TCPV4 => !v6,
        GSO_TCPV6 => v6,
        GSO_UDP_L4 => true,
        _ => false,
    };
    let ip_len = if v6 {
        40
    } else {
        usize::from(head.get(network)? & 0xf) * 4
    };
    // GSO frames have a partial checksum, which starts at the transport header, also after IPv6 extension headers.
    let transport = if vnet.flags & NEEDS_CSUM != 0 {
        usize::from(vnet.csum_start)
    } else {
        network + ip_len
    };
    if !known || transport < network + ip_len.max(20) {
        return None;
    }
    let payload = if tcp {
        let len = usize::from(head.get(transport + 12)? >> 4) * 4;
        (len >= 20).then_some(transport + len)?
    } else {
        transport + 8
    };
    let shape = Shape {
        network,
        transport,
        payload,
        v6,
        tcp,
    };
    (payload <= head.len() && vnet.segment > 0).then_some((shape, tunnel))
}

/// True if the transport header of an IP packet begins there: without a tunnel.
fn begins_at(packet: &[u8], start: usize, tcp: bool) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(6) => ext::walk(packet).is_ok_and(|upper| {
            let protocol = if tcp { proto::TCP } else { proto::UDP };
            (upper.offset, upper.protocol) == (start, protocol)
        }),
        Some(_) => usize::from(packet[0] & 0xf) * 4 == start,
        None => false,
    }
}

/// Offsets of the headers of a super-frame of `len` bytes, if it can be carried whole and its segments fit into `room`
/// bytes. All headers must lie in `head`.
pub(crate) fn super_frame_shape(
    vnet: &VnetHeader,
    head: &[u8],
    len: usize,
    room: usize,
) -> Option<Shape> {
    let shape = Shape::of_frame(head, len)?;
    let kind = if shape.v6 { GSO_TCPV6 } else { GSO_TCPV4 };
    let checksum = (usize::from(vnet.csum_start), usize::from(vnet.csum_offset));
    let first = shape.payload + usize::from(vnet.segment);
    let carried = vnet.kind == kind
        && vnet.flags & NEEDS_CSUM != 0
        && checksum == (shape.transport, TCP_CSUM)
        && vnet.segment > 0
        && len.saturating_sub(shape.payload) <= CARRIED_SEGMENTS_MAX * usize::from(vnet.segment)
        && first < len
        && first <= room;
    carried.then_some(shape)
}

/// A super-frame that is being cut, which lies in a `head` that has all headers, and then in a `tail`.
pub(crate) struct Segmenter {
    shape: Shape,
    tunnel: Tunnel,
    segment: usize,
    /// Length of the payload, and of the segments made so far, in bytes.
    total: usize,
    start: usize,
    index: usize,
    is_done: bool,
}

impl Segmenter {
    /// Begins to cut a frame with `tail` bytes after its head.
    ///
    /// # Errors
    /// The header or the frame is not valid; [`CutError`] has the reasons.
    pub(crate) fn new(vnet: &VnetHeader, head: &[u8], tail: usize) -> Result<Segmenter, CutError> {
        let (shape, tunnel) =
            segment_layout(vnet, head, head.len() + tail).ok_or(CutError::Unknown)?;
        let segment = usize::from(vnet.segment);
        let total = head.len() - shape.payload + tail;
        if total.div_ceil(segment) > SEGMENTS_MAX {
            return Err(CutError::TooMany);
        }
        Ok(Segmenter {
            shape,
            tunnel,
            segment,
            total,
            start: 0,
            index: 0,
            is_done: false,
        })
    }

    /// The next segment of the same frame; `None` after the last one.
    ///
    /// # Errors
    /// A segment has no buffer, or the frame is not valid; [`CutError`] has the reasons.
    pub(crate) fn next(&mut self, head: &[u8], tail: &[u8]) -> Result<Option<Packet>, CutError> {
        if self.is_done {
            return Ok(None);
        }
        let payload_at = self.shape.payload;
        let len = self.segment.min(self.total - self.start);
        let mut packet = Packet::new().ok_or(CutError::NoBuffer)?;
        let room = packet.put(payload_at + len).ok_or(CutError::TooLong)?;
        let (headers, payload) = room.split_at_mut(payload_at);
        headers.copy_from_slice(&head[..payload_at]);
        copy_from_two(&head[payload_at..], tail, self.start, payload);
        self.is_done = self.start + len == self.total;
        self.shape
            .finish(room, self.index, self.start, self.is_done);
        self.tunnel.finish(room, self.index);
        self.start += len;
        self.index += 1;
        Ok(Some(packet))
    }
}

/// Cuts a whole super-frame into packets, in order.
///
/// # Errors
/// The frame is not valid, or buffers have run out ([`CutError`]). Segments made before the error have been delivered.
fn segment(
    vnet: &VnetHeader,
    head: &[u8],
    tail: &[u8],
    mut deliver: impl FnMut(Packet),
) -> Result<(), CutError> {
    let mut cut = Segmenter::new(vnet, head, tail.len())?;
    while let Some(segment) = cut.next(head, tail)? {
        deliver(segment);
    }
    Ok(())
}

/// The packets that result from a frame with the virtio-net header `vnet`, whose first `head` bytes are contiguous. An
/// invalid frame yields only the packets before the fault. For tests with arbitrary bytes.
pub fn segment_frame(vnet: &[u8; 10], frame: &[u8], head: usize) -> Vec<Packet> {
    let vnet = VnetHeader::parse(vnet);
    let mut packets = Vec::new();
    if vnet.is_gso() {
        let (head, tail) = frame.split_at(head.min(frame.len()));
        // After an error, the segments before it remain.
        let _ = segment(&vnet, head, tail, |packet| packets.push(packet));
    } else if let Some(mut packet) = Packet::from_bytes(frame)
        && vnet.complete(packet.data_mut())
    {
        packets.push(packet);
    }
    packets
}

/// Messages to the kernel for these frames: each super-frame or single frame after its virtio-net header; for tests on
/// arbitrary bytes.
pub fn merge_frames(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut at, mut sent, mut head) = (0, Vec::new(), merge::Head::PLAIN);
    while at < frames.len() {
        let n = head.merge(frames[at..].iter().map(Vec::as_slice)).max(1);
        let mut bytes = head.bytes().to_vec();
        for frame in &frames[at..at + n] {
            bytes.extend(&frame[head.replaces()..]);
        }
        sent.push(bytes);
        at += n;
    }
    sent
}

/// Copies bytes from `from` on out of two adjacent pieces.
fn copy_from_two(first: &[u8], second: &[u8], from: usize, to: &mut [u8]) {
    let part = first.get(from..).unwrap_or(&[]);
    let n = part.len().min(to.len());
    to[..n].copy_from_slice(&part[..n]);
    let behind = (from + n).saturating_sub(first.len());
    let rest = &mut to[n..];
    rest.copy_from_slice(&second[behind..behind + rest.len()]);
}

/// Puts a VLAN tag that the kernel had removed back into an Ethernet frame. False if the frame is too short or has no
/// headroom.
pub(crate) fn insert_tag(packet: &mut Packet, tpid: u16, tci: u16) -> bool {
    if packet.len() < 14 || packet.push(4).is_none() {
        return false;
    }
    let data = packet.data_mut();
    data.copy_within(4..16, 0);
    data[12..14].copy_from_slice(&tpid.to_be_bytes());
    data[14..16].copy_from_slice(&tci.to_be_bytes());
    true
}

#[cfg(test)]
mod tests;
