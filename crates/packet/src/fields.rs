//! Header positions, flow hash, bucket and VLAN tag of a packet.

use super::BUCKETS_MAX;
use super::Packet;
use super::sys::{BUCKET, FLOW_HASH, RX_RSS_HASH, VLAN_TCI};

impl Packet {
    /// The bytes from the network header annotation on; the whole packet if it is not set.
    #[inline]
    pub fn network(&self) -> &[u8] {
        self.data().get(self.network_offset()..).unwrap_or(&[])
    }

    /// Mutable form of [`network`](Self::network).
    #[inline]
    pub fn network_mut(&mut self) -> &mut [u8] {
        let offset = self.network_offset();
        self.data_mut().get_mut(offset..).unwrap_or(&mut [])
    }

    /// The first `N` bytes of [`network`](Self::network), if the annotation is set and all are there. In a packet
    /// without headroom, an unset annotation looks like one that marks the start of the data; `network` has the same
    /// limit.
    #[inline]
    pub fn network_head<const N: usize>(&self) -> Option<&[u8; N]> {
        let at = self.network_place();
        self.data().get(at..at + N)?.first_chunk()
    }

    /// Mutable form of [`network_head`](Self::network_head).
    #[inline]
    pub fn network_head_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let at = self.network_place();
        self.data_mut().get_mut(at..at + N)?.first_chunk_mut()
    }

    /// Like [`network_offset`](Self::network_offset), but beyond the end of any data if the annotation is not set or
    /// the header was stripped. The value fits in 32 bits, so adding a length cannot overflow.
    #[inline]
    fn network_place(&self) -> usize {
        u32::from(self.anno().network).wrapping_sub(self.headroom() as u32) as usize
    }

    /// Distance of the network header from the start of the data; 0 if it is not set or was stripped.
    #[inline]
    pub fn network_offset(&self) -> usize {
        usize::from(self.anno().network).saturating_sub(self.headroom())
    }

    /// Sets the network header annotation, as a distance from the start of the data.
    #[inline]
    pub fn set_network_offset(&mut self, offset: usize) {
        self.anno_mut().network = (self.headroom() + offset) as u16;
    }

    /// The bytes from the transport header annotation on; empty if it is not set.
    #[inline]
    pub fn transport(&self) -> &[u8] {
        match usize::from(self.anno().transport).checked_sub(self.headroom()) {
            Some(offset) => self.data().get(offset..).unwrap_or(&[]),
            None => &[],
        }
    }

    /// Sets the transport header annotation, as a distance from the start of the data.
    #[inline]
    pub fn set_transport_offset(&mut self, offset: usize) {
        self.anno_mut().transport = (self.headroom() + offset) as u16;
    }

    /// Sets the MAC header annotation to the start of the data.
    #[inline]
    pub fn set_mac_here(&mut self) {
        self.set_mac_offset(0);
    }

    /// Sets the MAC header annotation, as a distance from the start of the data.
    #[inline]
    pub fn set_mac_offset(&mut self, offset: usize) {
        self.anno_mut().mac = (self.headroom() + offset) as u16;
    }

    /// Flow hash: the port's RSS hash, or a hash that an element has stored; 0 if there is none.
    #[inline]
    pub fn hash(&self) -> u32 {
        let m = self.mbuf();
        if m.ol_flags & (RX_RSS_HASH | FLOW_HASH) == 0 {
            return 0;
        }
        m.hash[0]
    }

    /// The flow hash that the port has set, if any.
    #[inline]
    pub fn rss_hash(&self) -> Option<u32> {
        let m = self.mbuf();
        (m.ol_flags & RX_RSS_HASH != 0).then_some(m.hash[0])
    }

    /// Stores a flow hash.
    #[inline]
    pub fn set_hash(&mut self, hash: u32) {
        let m = self.mbuf_mut();
        m.hash[0] = hash;
        m.ol_flags = m.ol_flags & !RX_RSS_HASH | FLOW_HASH;
    }

    /// The bucket into which an element has sorted the packet, below [`BUCKETS_MAX`]; 0 if no element has. If packets
    /// are received without annotations, the value is valid only downstream of an element that sorts them.
    #[inline]
    pub fn bucket(&self) -> u16 {
        let m = self.mbuf();
        if m.ol_flags & BUCKET == 0 {
            return 0;
        }
        (m.hash[1] as usize % BUCKETS_MAX) as u16
    }

    /// Sets the packet's bucket, modulo [`BUCKETS_MAX`]. It writes only to the header's first cache line.
    #[inline]
    pub fn set_bucket(&mut self, bucket: u16) {
        let m = self.mbuf_mut();
        m.hash[1] = u32::from(bucket);
        m.ol_flags |= BUCKET;
    }

    /// The VLAN tag control information annotation (Click's VLAN_TCI).
    #[inline]
    pub fn vlan_tci(&self) -> u16 {
        let m = self.mbuf();
        if m.ol_flags & VLAN_TCI == 0 {
            return 0;
        }
        m.vlan_tci
    }

    /// Sets the VLAN tag control information annotation.
    #[inline]
    pub fn set_vlan_tci(&mut self, tci: u16) {
        let m = self.mbuf_mut();
        m.vlan_tci = tci;
        m.ol_flags |= VLAN_TCI;
    }
}
