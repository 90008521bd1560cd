//! Pieces of a fragmented IPv6 packet, and the body that they make (RFC 8200, 4.5).

use super::header_chain;
use engine::packet::pool;
use engine::packet::{HEADROOM, Packet};
use wire::ext::{self, BadExt, Report};
use wire::{Ipv6, icmp6, ipv6, proto, tcp, udp};

/// Fragment header, and the length of the data after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentInfo {
    /// Offset of the fragment header, in bytes.
    pub(super) at: usize,
    /// Offset of the next-header field that announces the fragment header.
    pub(super) named_at: usize,
    /// Type of the header after the fragment header.
    pub(super) next: u8,
    pub(super) ident: u32,
    /// Offset of the data in the body, in bytes.
    pub(super) offset: usize,
    /// Length of the data after the fragment header, in bytes.
    pub(super) len: usize,
    more: bool,
}

impl FragmentInfo {
    /// Fragment header of a packet; `None` if it has none.
    pub(super) fn of(packet: &[u8]) -> Option<FragmentInfo> {
        let link = header_chain::links(packet).find(|l| l.protocol == proto::FRAGMENT)?;
        let &[next, _, high, low, a, b, c, d] = packet.get(link.at..)?.first_chunk()?;
        let word = u16::from_be_bytes([high, low]);
        Some(FragmentInfo {
            at: link.at,
            named_at: link.named_at,
            next,
            ident: u32::from_be_bytes([a, b, c, d]),
            offset: usize::from(word & !7),
            len: packet.len() - link.at - ext::FRAGMENT_LEN,
            more: word & 1 != 0,
        })
    }

    /// True if the packet is an atomic fragment, which contains the whole body.
    pub(super) fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    pub(super) fn end(&self) -> usize {
        self.offset + self.len
    }

    /// Data of the fragment in the packet.
    fn bytes<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.at + ext::FRAGMENT_LEN..).unwrap_or(&[])
    }
}

/// Error in a single fragment.
pub(super) fn bad_fragment(packet: &[u8], piece: &FragmentInfo) -> Option<BadExt> {
    let fault = |code, pointer, report| {
        Some(BadExt {
            code,
            pointer,
            report,
        })
    };
    if piece.more && !piece.len.is_multiple_of(8) {
        return fault(0, 4, Report::Unicast);
    }
    if piece.at - ipv6::LEN + piece.end() > usize::from(u16::MAX) {
        return fault(0, piece.at + 2, Report::Unicast);
    }
    if piece.len == 0 {
        return fault(0, piece.at, Report::Never);
    }
    if piece.offset == 0 && !has_all_headers(packet) {
        let chain = icmp6::parameter_problem::CHAIN;
        return fault(chain, 0, Report::Unicast);
    }
    None
}

/// RFC 7112, 5: a first fragment holds the upper layer's header too.
fn has_all_headers(packet: &[u8]) -> bool {
    let Some(upper) = header_chain::upper(packet) else {
        return ext::walk(packet).is_ok_and(|w| w.protocol == proto::NO_NEXT);
    };
    let least = match upper.protocol {
        proto::TCP => tcp::MIN_LEN,
        proto::UDP => udp::LEN,
        proto::ICMP6 => icmp6::LEN,
        _ => 0,
    };
    packet.len() >= upper.at + least
}

/// Result of adding a fragment to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    New,
    /// The fragment is a duplicate.
    Duplicate,
    /// The fragment overlaps others, or lies beyond the end of the body.
    Overlap,
}

/// Received part of a packet's body: the data after the fragment header.
pub(super) struct PartialBody {
    bytes: Packet,
    /// Bitmap of received bytes, one bit per eight bytes.
    map: Vec<u64>,
    /// Offsets of fragments, in units of eight bytes.
    starts: Vec<u16>,
    units: usize,
    /// Length of the body in bytes, known once the last fragment has arrived.
    len: Option<usize>,
    /// True if a piece had met congestion; true if one could not be marked.
    ecn: (bool, bool),
}

impl PartialBody {
    /// An empty body that uses the memory of `map`; `None` if the pool has run dry.
    pub(super) fn new(mut map: Vec<u64>) -> Option<PartialBody> {
        let bytes = Packet::new()?;
        map.clear();
        let mut body = PartialBody {
            bytes,
            map,
            starts: Vec::new(),
            units: 0,
            len: None,
            ecn: (false, false),
        };
        body.open();
        Some(body)
    }

    /// Makes the whole buffer available for the body.
    fn open(&mut self) {
        let room = self.bytes.tailroom();
        self.bytes.put(room);
        self.map
            .resize(self.bytes.len().div_ceil(8).div_ceil(64), 0);
    }

    /// Maximum end of fragments, in bytes.
    pub(super) fn end_max(&self) -> usize {
        self.bytes.len()
    }

    /// True if the body has a large buffer.
    pub(super) fn is_large(&self) -> bool {
        self.end_max() >= pool::LARGE_BYTES
    }

    /// Moves to a large buffer, which has room for everything; false if there is none.
    pub(super) fn grow(&mut self) -> bool {
        let large = Packet::large(pool::LARGE_BYTES);
        let Some(mut bytes) = large else {
            return false;
        };
        if let Some(place) = bytes.put(self.bytes.len()) {
            place.copy_from_slice(self.bytes.data());
        }
        self.bytes = bytes;
        self.open();
        true
    }

    /// Memory of the bitmap, for reuse.
    pub(super) fn into_map(self) -> Vec<u64> {
        self.map
    }

    fn has(&self, unit: usize) -> bool {
        self.map
            .get(unit / 64)
            .is_some_and(|w| w >> (unit % 64) & 1 != 0)
    }

    /// True if the bytes from `first` to `behind` came in one fragment, which held no other bytes.
    fn is_one_piece(&self, first: usize, behind: usize) -> bool {
        let starts = |unit| self.starts.contains(&(unit as u16));
        let inside = self
            .starts
            .iter()
            .filter(|&&s| (first..behind).contains(&usize::from(s)));
        starts(first) && inside.count() == 1 && (starts(behind) || !self.has(behind))
    }

    /// Adds a fragment that is valid by itself.
    pub(super) fn add(&mut self, packet: &[u8], piece: &FragmentInfo) -> Added {
        let (from, end) = (piece.offset, piece.end());
        if end > self.end_max() {
            return Added::Overlap;
        }
        let (first, behind) = (from / 8, end.div_ceil(8));
        let there = (first..behind).filter(|&unit| self.has(unit)).count();
        let last_known = !piece.more && self.len == Some(end);
        if there == behind - first && (piece.more || last_known) {
            let same = self.bytes.data().get(from..end) == Some(piece.bytes(packet));
            return if same && self.is_one_piece(first, behind) {
                Added::Duplicate
            } else {
                Added::Overlap
            };
        }
        let ends_elsewhere = match self.len {
            Some(len) => end > len || !piece.more,
            None => !piece.more && (behind..64 * self.map.len()).any(|unit| self.has(unit)),
        };
        if there > 0 || ends_elsewhere {
            return Added::Overlap;
        }
        if let Some(place) = self.bytes.data_mut().get_mut(from..end) {
            place.copy_from_slice(piece.bytes(packet));
        }
        for unit in first..behind {
            self.map[unit / 64] |= 1 << (unit % 64);
        }
        self.units += behind - first;
        self.starts.push(first as u16);
        if !piece.more {
            self.len = Some(end);
        }
        match Ipv6::new_unchecked(packet).ecn() {
            3 => self.ecn.0 = true,
            0 => self.ecn.1 = true,
            _ => {}
        }
        Added::New
    }

    /// Length of the body in bytes, known once the last fragment has arrived.
    pub(super) fn len(&self) -> Option<usize> {
        self.len
    }

    /// True if the body is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.len.is_some_and(|len| len.div_ceil(8) == self.units)
    }

    /// Appends the body from byte `from` on to a packet that has the first `from` bytes, and sets the packet's lengths.
    /// `None` if there is no buffer for it, `Some(false)` if the marks of congestion do not fit together.
    pub(super) fn append_to(&self, packet: &mut Packet, from: usize) -> Option<bool> {
        let rest = self.bytes.data().get(from..self.len?)?;
        let fits = |packet: &Packet| packet.tailroom() >= rest.len();
        let fit = fits(packet) || packet.realign(HEADROOM) && fits(packet);
        if !fit {
            *packet = packet.copy_with_room(packet.len() + rest.len())?;
        }
        packet.put(rest.len())?.copy_from_slice(rest);
        let payload = u16::try_from(packet.len().checked_sub(ipv6::LEN)?).ok()?;
        let mut ip = Ipv6::new_unchecked(packet.data_mut());
        ip.set_payload_len(payload);
        if self.ecn.0 {
            let class = ip.traffic_class() | 3;
            ip.set_traffic_class(class);
        }
        Some(self.ecn != (true, true))
    }
}
