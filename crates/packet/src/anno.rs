//! Annotations: values that elements store with a packet, apart from its bytes.
//!
//! [`Anno`] is in the mbuf's second cache line and is used by the packet path. [`Cold`] has its own cache line, which
//! is not touched before the first write. Positions of headers are offsets into the buffer, so they stay valid when
//! bytes are removed or added at the front.

/// Annotations of the packet path: 32 of the 36 bytes of the mbuf's dynamic fields, two vector stores.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno {
    /// Place of the MAC header in the buffer; 0 = not set.
    pub mac: u16,
    /// Place of the network header in the buffer; 0 = not set.
    pub network: u16,
    /// Place of the transport header in the buffer; 0 = not set.
    pub transport: u16,
    flags: u16,
    /// Click's PAINT.
    pub paint: u8,
    /// Click's packet type: how the link layer addressed the packet.
    pub packet_type: PacketType,
    /// Identifier of a traced packet; 0 = not traced.
    pub trace: u16,
    /// Number of links between routers of this process that the packet has crossed.
    pub hops: u16,
    /// Payload bytes of a super-frame after its first segment; 0 if the packet is not a super-frame. See
    /// [`super_frame`](crate::super_frame).
    pub tail: u16,
    dst: [u8; 16],
}

const _: () = assert!(std::mem::size_of::<Anno>() == 32 && std::mem::align_of::<Anno>() <= 4);

/// Link-layer destination of a packet, numbered as Linux's `PACKET_*`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// Frame to this router's own address.
    Host = 0,
    /// Link-layer broadcast.
    Broadcast = 1,
    /// Link-layer multicast.
    Multicast = 2,
    /// Frame to another station, received because the port is promiscuous.
    OtherHost = 3,
    /// Sent by this machine.
    Outgoing = 4,
}

impl PacketType {
    /// The type of a frame by its destination address, for ports that do not report the type.
    #[inline]
    pub fn of_frame(frame: &[u8]) -> PacketType {
        match frame {
            [first, ..] if first & 1 == 0 => PacketType::Host,
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => PacketType::Broadcast,
            [_, ..] => PacketType::Multicast,
            [] => PacketType::Host,
        }
    }
}

const COLD: u16 = 1;
const FIX_IP_SRC: u16 = 2;
const VIA6: u16 = 4;
const FORWARDED: u16 = 8;

impl Anno {
    /// No annotation set.
    pub const EMPTY: Anno = Anno {
        mac: 0,
        network: 0,
        transport: 0,
        flags: 0,
        paint: 0,
        packet_type: PacketType::Host,
        trace: 0,
        hops: 0,
        tail: 0,
        dst: [0; 16],
    };

    /// Annotations of a frame whose MAC header lies at `mac` in the buffer; all others are unset.
    #[inline]
    pub const fn of_frame_at(mac: u16) -> Anno {
        Anno { mac, ..Anno::EMPTY }
    }

    /// The IPv4 destination annotation: where the packet is sent next.
    #[inline]
    pub fn dst4(&self) -> [u8; 4] {
        self.dst.as_chunks().0[0] // one load, where bytes by themselves become three
    }

    /// Sets the IPv4 destination annotation.
    #[inline]
    pub fn set_dst4(&mut self, address: [u8; 4]) {
        [self.dst[0], self.dst[1], self.dst[2], self.dst[3]] = address;
    }

    /// The IPv6 destination annotation.
    #[inline]
    pub fn dst6(&self) -> [u8; 16] {
        self.dst
    }

    /// Sets the IPv6 destination annotation.
    #[inline]
    pub fn set_dst6(&mut self, address: [u8; 16]) {
        self.dst = address;
    }

    /// The next hop of an IPv4 packet, if it is an IPv6 address (RFC 8950); stored in the destination annotation.
    #[inline]
    pub fn via6(&self) -> Option<u128> {
        match self.flags & VIA6 {
            0 => None,
            _ => Some(u128::from_be_bytes(self.dst)), // a number, which need not be copied byte by byte
        }
    }

    /// Sets an IPv6 address as the next hop of an IPv4 packet.
    #[inline]
    pub fn set_via6(&mut self, address: [u8; 16]) {
        self.dst = address;
        self.flags |= VIA6;
    }

    /// Click's FIX_IP_SRC annotation: the source address is still to be filled in.
    #[inline]
    pub fn fix_ip_src(&self) -> bool {
        self.flags & FIX_IP_SRC != 0
    }

    /// Sets or clears FIX_IP_SRC.
    #[inline]
    pub fn set_fix_ip_src(&mut self, on: bool) {
        self.flags = self.flags & !FIX_IP_SRC | if on { FIX_IP_SRC } else { 0 };
    }

    /// True if the kernel must forward the packet, because its output interface is no port.
    #[inline]
    pub fn kernel_forwards(&self) -> bool {
        self.flags & FORWARDED != 0
    }

    /// Marks that the kernel must forward the packet.
    #[inline]
    pub fn set_kernel_forwards(&mut self) {
        self.flags |= FORWARDED;
    }

    #[inline]
    pub(crate) fn has_cold(&self) -> bool {
        self.flags & COLD != 0
    }

    #[inline]
    pub(crate) fn set_cold(&mut self) {
        self.flags |= COLD;
    }

    /// Adjusts the header positions to data that moved by `by` bytes.
    pub(crate) fn shift(&mut self, by: isize) {
        for place in [&mut self.mac, &mut self.network, &mut self.transport] {
            if *place != 0 {
                *place = usize::from(*place).checked_add_signed(by).unwrap_or(0) as u16;
            }
        }
    }
}

/// Annotations on a cache line of their own.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cold {
    /// Click's 48 bytes of user annotations; named annotations have methods.
    pub user: [u8; 48],
    /// Arrival time in nanoseconds since the Unix epoch; 0 = not set. A difference of times may be negative, and is
    /// then stored in two's complement.
    pub timestamp: u64,
    /// Position in a stream: Click's sequence number or extra length.
    pub extra: u64,
}

const _: () = assert!(std::mem::size_of::<Cold>() == 64);

impl Cold {
    /// No annotation set.
    pub const EMPTY: Cold = Cold {
        user: [0; 48],
        timestamp: 0,
        extra: 0,
    };

    fn word(&self, at: usize) -> u32 {
        let b = &self.user[at..at + 4];
        u32::from_ne_bytes([b[0], b[1], b[2], b[3]])
    }

    fn set_word(&mut self, at: usize, value: u32) {
        self.user[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// Click's AGGREGATE: the number of the packet's flow or group.
    pub fn aggregate(&self) -> u32 {
        self.word(AGGREGATE)
    }

    /// Sets AGGREGATE.
    pub fn set_aggregate(&mut self, aggregate: u32) {
        self.set_word(AGGREGATE, aggregate);
    }

    /// Click's EXTRA_PACKETS: number of packets that this one represents, not counting itself.
    pub fn extra_packets(&self) -> u32 {
        self.word(EXTRA_PACKETS)
    }

    /// Sets EXTRA_PACKETS.
    pub fn set_extra_packets(&mut self, packets: u32) {
        self.set_word(EXTRA_PACKETS, packets);
    }

    /// Click's EXTRA_LENGTH: number of bytes that the packet had on the wire beyond the captured ones.
    pub fn extra_length(&self) -> u32 {
        self.word(EXTRA_LENGTH)
    }

    /// Sets EXTRA_LENGTH.
    pub fn set_extra_length(&mut self, bytes: u32) {
        self.set_word(EXTRA_LENGTH, bytes);
    }

    /// Click's FIRST_TIMESTAMP, as [`timestamp`](Self::timestamp).
    pub fn first_timestamp(&self) -> u64 {
        let [low, high] = [self.word(FIRST_TIMESTAMP), self.word(FIRST_TIMESTAMP + 4)];
        u64::from(high) << 32 | u64::from(low)
    }

    /// Sets FIRST_TIMESTAMP.
    pub fn set_first_timestamp(&mut self, timestamp: u64) {
        self.set_word(FIRST_TIMESTAMP, timestamp as u32);
        self.set_word(FIRST_TIMESTAMP + 4, (timestamp >> 32) as u32);
    }

    /// Deadline for leaving the router, in nanoseconds of the router's clock; 0 = none.
    #[inline]
    pub fn deadline(&self) -> u64 {
        let [low, high] = [self.word(DEADLINE), self.word(DEADLINE + 4)];
        u64::from(high) << 32 | u64::from(low)
    }

    /// Sets the deadline.
    #[inline]
    pub fn set_deadline(&mut self, deadline: u64) {
        self.set_word(DEADLINE, deadline as u32);
        self.set_word(DEADLINE + 4, (deadline >> 32) as u32);
    }

    /// Advance of the flow's virtual time at each hop, in nanoseconds; 0 = none. It shares its bytes with
    /// FIRST_TIMESTAMP.
    #[inline]
    pub fn hop_delay(&self) -> u32 {
        self.word(FIRST_TIMESTAMP)
    }

    /// Path MTU that this packet exceeded, in bytes; 0 = not set. It shares its bytes with FIRST_TIMESTAMP.
    pub fn path_mtu(&self) -> u32 {
        self.word(FIRST_TIMESTAMP)
    }

    /// Sets the path MTU.
    pub fn set_path_mtu(&mut self, mtu: u32) {
        self.set_word(FIRST_TIMESTAMP, mtu);
    }

    /// Sets the advance per hop.
    #[inline]
    pub fn set_hop_delay(&mut self, delay: u32) {
        self.set_word(FIRST_TIMESTAMP, delay);
    }

    /// Click's FWD_RATE and REV_RATE: packets or bytes a second from and to the packet's network. They share their
    /// bytes with AGGREGATE and EXTRA_PACKETS.
    pub fn rates(&self) -> [u32; 2] {
        [self.word(RATES), self.word(RATES + 4)]
    }

    /// Sets FWD_RATE and REV_RATE.
    pub fn set_rates(&mut self, [forward, reverse]: [u32; 2]) {
        self.set_word(RATES, forward);
        self.set_word(RATES + 4, reverse);
    }
}

// Offsets of the named annotations in the user bytes.
const AGGREGATE: usize = 20;
const EXTRA_PACKETS: usize = 24;
const EXTRA_LENGTH: usize = 28;
const FIRST_TIMESTAMP: usize = 32;
const RATES: usize = AGGREGATE;
const DEADLINE: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_user_annotations_do_not_overlap() {
        let mut cold = Cold::EMPTY;
        cold.set_aggregate(1);
        cold.set_extra_packets(u32::MAX);
        cold.set_extra_length(3);
        cold.set_first_timestamp(u64::MAX - 4);
        assert_eq!(cold.aggregate(), 1);
        assert_eq!(cold.extra_packets(), u32::MAX);
        assert_eq!(cold.extra_length(), 3);
        cold.set_deadline(u64::MAX - 5);
        assert_eq!(cold.first_timestamp(), u64::MAX - 4);
        assert_eq!(cold.deadline(), u64::MAX - 5);
        assert_eq!(cold.user[..16], [0; 16]);
    }
}
