//! IPv6 headers (RFC 8200, 3). Extension headers are walked by [`crate::ext`].

use core::net::Ipv6Addr;

use crate::bytes::{be16, be32, put16, put32};
use crate::{BadHeader, checksum};

/// Length of the header in bytes.
pub const LEN: usize = 40;
/// Smallest MTU that a link may have (RFC 8200, 5).
pub const MIN_MTU: usize = 1280;

/// Results of [`check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Checked {
    /// Length of the packet, header included; later bytes are link-layer padding.
    pub total_len: usize,
}

/// Checks a header: length, version, payload length; `bytes` are those that the link layer delivered.
///
/// The header has no checksum. [`crate::addr::is_martian_source6`] and similar functions check addresses. Jumbograms
/// (RFC 2675) are not distinguished from empty packets.
#[inline]
pub fn check(bytes: &[u8]) -> Result<Ipv6Checked, BadHeader> {
    let Some(fixed) = bytes.first_chunk::<LEN>() else {
        return Err(BadHeader::TooShort);
    };
    match check_head(fixed, bytes.len()) {
        Some(total_len) => Ok(Ipv6Checked { total_len }),
        None if fixed[0] >> 4 != 6 => Err(BadHeader::BadVersion),
        None => Err(BadHeader::Truncated),
    }
}

/// Length of a packet; `None` if [`check`] finds an error. The link layer delivered `len` bytes, from the header on.
#[inline(always)]
pub fn check_head(header: &[u8; LEN], len: usize) -> Option<usize> {
    let total_len = LEN + usize::from(be16(header, 4));
    (header[0] >> 4 == 6 && total_len <= len).then_some(total_len)
}

/// View of an IPv6 header and the bytes after it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<B>(B);

fields! { Ipv6:
    /// Number of the header that follows; see [`crate::proto`].
    next_header, set_next_header: u8 at 6;
    /// Hop limit.
    hop_limit, set_hop_limit: u8 at 7;
    /// Source address.
    src, set_src: Ipv6Addr at 8;
    /// Destination address; with an unfinished routing header, the next address on the route.
    dst, set_dst: Ipv6Addr at 24;
}

impl<B: AsRef<[u8]>> Ipv6<B> {
    /// Checks the same as [`check`].
    #[inline]
    pub fn new_checked(bytes: B) -> Result<Self, BadHeader> {
        check(bytes.as_ref()).map(|_| Ipv6(bytes))
    }

    /// The version: 6.
    #[inline]
    pub fn version(&self) -> u8 {
        self.0.as_ref()[0] >> 4
    }

    /// The traffic class byte: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (be16(self.0.as_ref(), 0) >> 4) as u8
    }

    /// Differentiated services code point, 0 to 63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification, 0 to 3 (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32(self.0.as_ref(), 0) & 0xf_ffff
    }

    /// Length of the payload, extension headers included.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(be16(self.0.as_ref(), 4))
    }

    /// Length of the packet, header included.
    #[inline]
    pub fn total_len(&self) -> usize {
        LEN + self.payload_len()
    }

    /// The whole packet without link-layer padding.
    #[inline]
    pub fn packet(&self) -> &[u8] {
        &self.0.as_ref()[..self.total_len()]
    }

    /// Bytes after the header, without link-layer padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.packet()[LEN..]
    }

    /// Sum of the pseudo-header for upper layer `next` with `len` bytes of header and data.
    #[inline]
    pub fn pseudo(&self, next: u8, len: usize) -> u64 {
        checksum::sum(&self.0.as_ref()[8..LEN]) + u64::from(next) + len as u64
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Ipv6<B> {
    /// Sets version 6, the traffic class and the flow label (20 bits).
    #[inline]
    pub fn set_first_word(&mut self, traffic_class: u8, flow_label: u32) {
        let word = 6 << 28 | u32::from(traffic_class) << 20 | (flow_label & 0xf_ffff);
        put32(self.0.as_mut(), 0, word);
    }

    /// Sets DSCP and ECN.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let label = self.flow_label();
        self.set_first_word(class, label);
    }

    /// Sets the length of the payload.
    #[inline]
    pub fn set_payload_len(&mut self, len: u16) {
        put16(self.0.as_mut(), 4, len);
    }

    /// Bytes after the header, mutable, without link-layer padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let to = self.total_len();
        &mut self.0.as_mut()[LEN..to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;

    /// A packet from 2001:db8::1 to 2001:db8::2, class 0xb8, label 0x12345, hop limit 64, no next header, two bytes.
    const BYTES: [u8; 44] = [
        0x6b, 0x81, 0x23, 0x45, 0, 2, 59, 64, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 1, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0xaa, 0xbb, 0xee, 0xee,
    ];

    #[test]
    fn deconstructs() {
        let ip = Ipv6::new_checked(&BYTES).unwrap();
        assert_eq!((ip.version(), ip.traffic_class()), (6, 0xb8));
        assert_eq!((ip.dscp(), ip.ecn(), ip.flow_label()), (46, 0, 0x12345));
        assert_eq!((ip.payload_len(), ip.total_len()), (2, 42));
        assert_eq!((ip.next_header(), ip.hop_limit()), (59, 64));
        assert_eq!(ip.src(), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(ip.dst(), "2001:db8::2".parse::<Ipv6Addr>().unwrap());
        assert_eq!(ip.payload(), [0xaa, 0xbb]);
        assert_eq!(
            ip.pseudo(17, 9),
            checksum::pseudo6(ip.src(), ip.dst(), 17, 9)
        );
    }

    #[test]
    fn constructs() {
        let mut bytes = [0xee; 44];
        let mut ip = Ipv6::new_unchecked(&mut bytes);
        ip.set_first_word(0, 0x12345);
        ip.set_traffic_class(0xb8);
        ip.set_payload_len(2);
        ip.set_next_header(59);
        ip.set_hop_limit(64);
        ip.set_src("2001:db8::1".parse().unwrap());
        ip.set_dst("2001:db8::2".parse().unwrap());
        ip.payload_mut().copy_from_slice(&[0xaa, 0xbb]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn each_fault_has_its_reason() {
        for len in 0..40 {
            assert_eq!(check(&BYTES[..len]), Err(BadHeader::TooShort));
        }
        assert_eq!(check(&BYTES[..41]), Err(BadHeader::Truncated));
        assert_eq!(check(&BYTES[..42]), Ok(Ipv6Checked { total_len: 42 }));
        for version in 0..16u8 {
            let mut b = BYTES;
            b[0] = version << 4;
            assert_eq!(check(&b).is_ok(), version == 6);
            assert_eq!(
                check(&b).err(),
                (version != 6).then_some(BadHeader::BadVersion)
            );
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&BYTES, |bytes| {
            if let Ok(ip) = Ipv6::new_checked(bytes) {
                let _ = (
                    ip.src(),
                    ip.dst(),
                    ip.payload(),
                    ip.pseudo(6, 0),
                    ip.flow_label(),
                );
                Ipv6::new_unchecked(bytes.to_vec()).payload_mut();
            }
        });
    }
}
