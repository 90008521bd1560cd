//! UDP headers (RFC 768).

use crate::bytes::{be16, put16};
use crate::{BadHeader, checksum};

/// Length of the header in bytes.
pub const LEN: usize = 8;

/// A UDP header and its data.
#[derive(Clone, Copy, Debug)]
pub struct Udp<B>(B);

fields! { Udp:
    /// Source port.
    src_port, set_src_port: u16 at 0;
    /// Destination port.
    dst_port, set_dst_port: u16 at 2;
    /// The checksum field; zero says that the sender computed none.
    checksum, set_checksum: u16 at 6;
}

impl<B: AsRef<[u8]>> Udp<B> {
    /// Proves that the header is there and that its length field lies between 8 and the buffer's length.
    #[inline]
    pub fn new_checked(bytes: B) -> Result<Self, BadHeader> {
        let b = bytes.as_ref();
        if b.len() < LEN {
            return Err(BadHeader::TooShort);
        }
        match usize::from(be16(b, 4)) {
            0..LEN => Err(BadHeader::BadLength),
            len if len > b.len() => Err(BadHeader::Truncated),
            _ => Ok(Udp(bytes)),
        }
    }

    /// Length of header and data.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(be16(self.0.as_ref(), 4))
    }

    /// True if the datagram has no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() <= LEN
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[LEN..self.len()]
    }

    /// True if the checksum holds, or, over IPv4, is absent. `pseudo` is the pseudo-header's sum.
    ///
    /// Over IPv6 an absent checksum is a fault (RFC 8200, 8.1): ask [`Udp::checksum`] first.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u64) -> bool {
        self.checksum() == 0
            || checksum::is_valid(pseudo + checksum::sum(&self.0.as_ref()[..self.len()]))
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Udp<B> {
    /// Sets the length of header and data.
    #[inline]
    pub fn set_len(&mut self, len: u16) {
        put16(self.0.as_mut(), 4, len);
    }

    /// Computes the checksum; never zero on the wire.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: u64) {
        self.set_checksum(0);
        let len = self.len();
        let sum = pseudo + checksum::sum(&self.0.as_ref()[..len]);
        self.set_checksum(checksum::finish_udp(sum));
    }

    /// The data, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        &mut self.0.as_mut()[LEN..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;
    use core::net::Ipv4Addr;

    const BYTES: [u8; 14] = [
        0x30, 0x39, 0, 53, 0, 12, 0xdc, 0x94, b'p', b'i', b'n', b'g', 0, 0,
    ];

    fn pseudo() -> u64 {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        checksum::pseudo4(a, b, 17, 12)
    }

    #[test]
    fn deconstructs() {
        let u = Udp::new_checked(&BYTES).unwrap();
        assert_eq!((u.src_port(), u.dst_port(), u.len()), (12345, 53, 12));
        assert_eq!(u.payload(), b"ping");
        assert!(!u.is_empty());
        assert!(u.verify_checksum(pseudo()));
        assert!(!u.verify_checksum(pseudo() + 1));
    }

    #[test]
    fn constructs() {
        let mut bytes = [0; 14];
        let mut u = Udp::new_unchecked(&mut bytes);
        u.set_src_port(12345);
        u.set_dst_port(53);
        u.set_len(12);
        u.payload_mut().copy_from_slice(b"ping");
        u.fill_checksum(pseudo());
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn lengths_outside_the_buffer_are_refused() {
        for len in 0..8 {
            assert_eq!(
                Udp::new_checked(&BYTES[..len]).err(),
                Some(BadHeader::TooShort)
            );
        }
        let mut b = BYTES;
        for len in 0..=20u8 {
            b[5] = len;
            let expected = match len {
                0..8 => Some(BadHeader::BadLength),
                8..=14 => None,
                _ => Some(BadHeader::Truncated),
            };
            assert_eq!(Udp::new_checked(&b).err(), expected);
        }
    }

    #[test]
    fn a_computed_zero_is_sent_as_all_ones_and_an_absent_checksum_is_accepted() {
        let mut b = BYTES;
        // Choose the source port so that the sum becomes 0xffff: then the plain checksum is zero.
        Udp::new_unchecked(&mut b).set_src_port(0);
        Udp::new_unchecked(&mut b).fill_checksum(pseudo());
        let port = Udp::new_unchecked(&b).checksum();
        let mut u = Udp::new_unchecked(&mut b);
        u.set_src_port(port);
        u.fill_checksum(pseudo());
        assert_eq!(u.checksum(), 0xffff);
        assert!(u.verify_checksum(pseudo()));
        u.set_src_port(1);
        assert!(!u.verify_checksum(pseudo()));
        u.set_checksum(0);
        assert!(u.verify_checksum(pseudo()));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&BYTES, |bytes| {
            if let Ok(u) = Udp::new_checked(bytes) {
                let _ = (u.src_port(), u.payload(), u.verify_checksum(0));
                Udp::new_unchecked(bytes.to_vec()).fill_checksum(7);
            }
        });
    }
}
