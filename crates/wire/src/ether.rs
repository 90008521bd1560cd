//! Ethernet II frames, and the search for a frame's network header.

use crate::EtherAddr;

/// Length of the header in bytes.
pub const LEN: usize = 14;
/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of an IEEE 802.1Q tag.
pub const VLAN: u16 = 0x8100;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Ethertype of MPLS unicast.
pub const MPLS: u16 = 0x8847;
/// Ethertype of MPLS with an upstream-assigned label (multicast).
pub const MPLS_MULTICAST: u16 = 0x8848;
/// Ethertype of an IEEE 802.1ad service tag.
pub const QINQ: u16 = 0x88a8;
/// Smallest value that is an Ethertype; lower values are IEEE 802.3 lengths.
pub const ETHERTYPE_MIN: u16 = 0x0600;

/// View of an Ethernet header and the bytes after it.
#[derive(Clone, Copy, Debug)]
pub struct Ether<B>(B);

fields! { Ether, LEN bytes:
    /// Destination address.
    dst, set_dst: EtherAddr at 0;
    /// Source address.
    src, set_src: EtherAddr at 6;
    /// Ethertype, or the IEEE 802.3 length if below [`ETHERTYPE_MIN`].
    ethertype, set_ethertype: u16 at 12;
}

impl<B: AsRef<[u8]>> Ether<B> {
    /// The buffer.
    #[inline]
    pub fn into_inner(self) -> B {
        self.0
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Ether<B> {
    /// Bytes after the header, mutable.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0.as_mut()[LEN..]
    }
}

/// A header as two little-endian numbers, of bytes 0 to 7 and of bytes 6 to 13, so that two loads read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words(pub u64, pub u64);

impl Words {
    /// Reads the header at the start of `frame`.
    #[inline(always)]
    pub fn of<const N: usize>(frame: &[u8; N]) -> Words {
        const { assert!(N >= LEN) };
        let (first, second) = (frame.first_chunk(), frame[6..].first_chunk());
        Words(
            first.map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            second.map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        )
    }

    /// The destination in the upper 48 bits, below them zeros: one comparison with another [`destination`] suffices.
    #[inline(always)]
    pub fn destination(self) -> u64 {
        self.0 << 16
    }

    /// The header's bytes.
    pub fn bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[6..].copy_from_slice(&self.1.to_le_bytes());
        bytes
    }
}

/// An address as a number that can be compared with [`Words::destination`].
#[inline]
pub const fn destination(address: EtherAddr) -> u64 {
    let [a, b, c, d, e, f] = address.0;
    u64::from_le_bytes([0, 0, a, b, c, d, e, f])
}

/// The 14 bytes of a header.
#[inline]
pub const fn header(dst: EtherAddr, src: EtherAddr, ethertype: u16) -> [u8; LEN] {
    let (d, s, t) = (dst.0, src.0, ethertype.to_be_bytes());
    [
        d[0], d[1], d[2], d[3], d[4], d[5], s[0], s[1], s[2], s[3], s[4], s[5], t[0], t[1],
    ]
}

/// Ethertype and offset of the network header, after at most two VLAN tags.
///
/// `None` if the frame ends before the Ethertype.
#[inline]
pub fn network(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = LEN;
    for _ in 0..3 {
        let ethertype = match frame.get(at - 2..at)? {
            &[a, b] => u16::from_be_bytes([a, b]),
            _ => return None,
        };
        if at > LEN + 4 || (ethertype != VLAN && ethertype != QINQ) {
            return Some((ethertype, at));
        }
        at += 4;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BadHeader;
    use crate::testing::hammer;

    const FRAME: [u8; 16] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x06, 0xaa, 0xbb,
    ];

    #[test]
    fn deconstructs() {
        let e = Ether::new_checked(&FRAME).unwrap();
        assert!(e.dst().is_broadcast());
        assert_eq!(e.src(), EtherAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(e.ethertype(), ARP);
        assert_eq!(e.payload(), [0xaa, 0xbb]);
    }

    #[test]
    fn constructs() {
        let mut bytes = [0; 16];
        let mut e = Ether::new_checked(&mut bytes).unwrap();
        e.set_dst(EtherAddr::BROADCAST);
        e.set_src(EtherAddr([2, 0, 0, 0, 0, 1]));
        e.set_ethertype(ARP);
        e.payload_mut().copy_from_slice(&[0xaa, 0xbb]);
        assert_eq!(bytes, FRAME);
        let h = header(EtherAddr::BROADCAST, EtherAddr([2, 0, 0, 0, 0, 1]), ARP);
        assert_eq!(h, FRAME[..14]);
    }

    #[test]
    fn a_frame_below_fourteen_bytes_is_too_short() {
        for len in 0..14 {
            assert_eq!(
                Ether::new_checked(&FRAME[..len]).err(),
                Some(BadHeader::TooShort)
            );
        }
    }

    #[test]
    fn the_network_header_is_found_behind_up_to_two_tags() {
        let mut f = [0u8; 26];
        f[12..14].copy_from_slice(&IPV4.to_be_bytes());
        assert_eq!(network(&f), Some((IPV4, 14)));
        f[12..14].copy_from_slice(&VLAN.to_be_bytes());
        f[16..18].copy_from_slice(&IPV6.to_be_bytes());
        assert_eq!(network(&f), Some((IPV6, 18)));
        f[12..14].copy_from_slice(&QINQ.to_be_bytes());
        f[16..18].copy_from_slice(&VLAN.to_be_bytes());
        f[20..22].copy_from_slice(&ARP.to_be_bytes());
        assert_eq!(network(&f), Some((ARP, 22)));
        assert_eq!(network(&f[..21]), None);
        f[20..22].copy_from_slice(&VLAN.to_be_bytes());
        assert_eq!(network(&f), Some((VLAN, 22)), "a third tag is payload");
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&FRAME, |bytes| {
            network(bytes);
            if let Ok(e) = Ether::new_checked(bytes) {
                let _ = (e.dst(), e.src(), e.ethertype(), e.payload());
            }
        });
    }
}
