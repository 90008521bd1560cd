//! TCP headers (RFC 9293) and the kinds of their options.

use crate::bytes::be16;
use crate::{BadHeader, checksum};

/// Length of a header without options.
pub const MIN_LEN: usize = 20;

/// Flag: no more data from the sender.
pub const FIN: u8 = 0x01;
/// Flag: synchronise sequence numbers.
pub const SYN: u8 = 0x02;
/// Flag: reset.
pub const RST: u8 = 0x04;
/// Flag: push.
pub const PSH: u8 = 0x08;
/// Flag: the acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Flag: the urgent pointer counts.
pub const URG: u8 = 0x20;
/// Flag: ECN echo.
pub const ECE: u8 = 0x40;
/// Flag: congestion window reduced.
pub const CWR: u8 = 0x80;

/// Option: maximum segment size.
pub const OPT_MSS: u8 = 2;
/// Option: window scale (RFC 7323).
pub const OPT_WINDOW_SCALE: u8 = 3;
/// Option: the sender takes [`OPT_SACK`] (RFC 2018).
pub const OPT_SACK_PERMITTED: u8 = 4;
/// Option: blocks received out of order (RFC 2018).
pub const OPT_SACK: u8 = 5;
/// Option: timestamps (RFC 7323).
pub const OPT_TIMESTAMPS: u8 = 8;

/// A TCP header and its data.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<B>(B);

fields! { Tcp:
    /// Source port.
    src_port, set_src_port: u16 at 0;
    /// Destination port.
    dst_port, set_dst_port: u16 at 2;
    /// Sequence number.
    seq, set_seq: u32 at 4;
    /// Acknowledgement number.
    ack, set_ack: u32 at 8;
    /// The eight flags: [`FIN`] to [`CWR`].
    flags, set_flags: u8 at 13;
    /// Window, unscaled.
    window, set_window: u16 at 14;
    /// The checksum field.
    checksum, set_checksum: u16 at 16;
    /// Urgent pointer.
    urgent, set_urgent: u16 at 18;
}

impl<B: AsRef<[u8]>> Tcp<B> {
    /// Proves that the header, options included, is there.
    #[inline]
    pub fn new_checked(bytes: B) -> Result<Self, BadHeader> {
        let b = bytes.as_ref();
        if b.len() < MIN_LEN {
            return Err(BadHeader::TooShort);
        }
        match usize::from(b[12] >> 4) * 4 {
            0..MIN_LEN => Err(BadHeader::BadHeaderLength),
            len if len > b.len() => Err(BadHeader::TooShort),
            _ => Ok(Tcp(bytes)),
        }
    }

    /// Length of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[12] >> 4) * 4
    }

    /// The option bytes.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.0.as_ref()[MIN_LEN..self.header_len()]
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_len()..]
    }

    /// Offset of the MSS value in the header; `None` if there is none before the first malformed option.
    pub fn mss_at(&self) -> Option<usize> {
        let options = self.options();
        let mut at = 0;
        loop {
            let len = match *options.get(at)? {
                0 => return None,
                1 => 1,
                kind => {
                    let len = usize::from(*options.get(at + 1)?);
                    if len < 2 || at + len > options.len() {
                        return None;
                    }
                    if kind == OPT_MSS && len == 4 {
                        return Some(MIN_LEN + at + 2);
                    }
                    len
                }
            };
            at += len;
        }
    }

    /// The maximum segment size that the sender offers.
    pub fn mss(&self) -> Option<u16> {
        self.mss_at().map(|at| be16(self.0.as_ref(), at))
    }

    /// True if the checksum holds; the buffer must end with the data.
    #[inline]
    pub fn verify_checksum(&self, pseudo: u64) -> bool {
        checksum::is_valid(pseudo + checksum::sum(self.0.as_ref()))
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Tcp<B> {
    /// Sets the header length, a multiple of 4 from 20 to 60, and clears the reserved bits.
    #[inline]
    pub fn set_header_len(&mut self, len: usize) {
        self.0.as_mut()[12] = ((len / 4) as u8) << 4;
    }

    /// Computes the checksum; the buffer must end with the data.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: u64) {
        self.set_checksum(0);
        let check = checksum::finish(pseudo + checksum::sum(self.0.as_ref()));
        self.set_checksum(check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;
    use std::vec::Vec;

    const BYTES: [u8; 26] = [
        0x04, 0xd2, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x12, 0xff, 0xff, 0x2a, 0xa2, 0, 5, 2, 4,
        5, 0xb4, b'h', b'i',
    ];

    #[test]
    fn deconstructs() {
        let t = Tcp::new_checked(&BYTES).unwrap();
        assert_eq!((t.src_port(), t.dst_port()), (1234, 80));
        assert_eq!((t.seq(), t.ack(), t.header_len()), (1, 2, 24));
        assert_eq!((t.flags(), t.window(), t.urgent()), (SYN | ACK, 0xffff, 5));
        assert_eq!(t.mss(), Some(1460));
        assert_eq!(t.options(), [2, 4, 5, 0xb4]);
        assert_eq!(t.payload(), b"hi");
        assert!(t.verify_checksum(0));
    }

    #[test]
    fn constructs() {
        let mut bytes = BYTES;
        bytes[..20].fill(0xee);
        let mut t = Tcp::new_unchecked(&mut bytes);
        t.set_src_port(1234);
        t.set_dst_port(80);
        t.set_seq(1);
        t.set_ack(2);
        t.set_header_len(24);
        t.set_flags(SYN | ACK);
        t.set_window(0xffff);
        t.set_urgent(5);
        t.fill_checksum(0);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn every_data_offset_is_judged() {
        for words in 0..16u8 {
            let mut b = [0; 44];
            b[12] = words << 4;
            let expected = match words {
                0..5 => Some(BadHeader::BadHeaderLength),
                5..=11 => None,
                _ => Some(BadHeader::TooShort),
            };
            assert_eq!(Tcp::new_checked(&b).err(), expected);
        }
        assert_eq!(
            Tcp::new_checked(&BYTES[..19]).err(),
            Some(BadHeader::TooShort)
        );
        assert_eq!(
            Tcp::new_checked(&BYTES[..23]).err(),
            Some(BadHeader::TooShort)
        );
    }

    fn with_options(options: &[u8]) -> Vec<u8> {
        let mut b = BYTES[..20].to_vec();
        b.extend(options);
        Tcp::new_unchecked(&mut b).set_header_len(20 + options.len());
        Tcp::new_unchecked(&mut b).fill_checksum(99);
        b
    }

    #[test]
    fn mss_is_found_behind_other_options_and_not_behind_malformed_ones() {
        for (options, mss) in [
            (&[1, 1, 2, 4, 5, 0xb4, 0, 0][..], Some(1460)),
            (&[3, 3, 7, 2, 4, 5, 0xb4, 0], Some(1460)),
            (&[1, 2, 4, 5, 0xb4, 0, 0, 0], Some(1460)),
            (&[0, 2, 4, 5], None),
            (&[3, 0, 2, 4], None),
            (&[3, 1, 2, 4], None),
            (&[1, 1, 2, 4], None),
            (&[1, 1, 1, 2], None),
            (&[2, 3, 5, 0], None),
            (&[8, 200, 0, 0], None),
        ] {
            assert_eq!(
                Tcp::new_checked(with_options(options)).unwrap().mss(),
                mss,
                "{options:?}"
            );
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&with_options(&[3, 3, 7, 1, 2, 4, 5, 0xb4]), |bytes| {
            if let Ok(t) = Tcp::new_checked(bytes) {
                let _ = (t.mss(), t.options(), t.payload(), t.verify_checksum(0));
            }
        });
    }
}
