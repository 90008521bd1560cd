//! MPLS label stack entries (RFC 3032, 2.1): label, traffic class, bottom of stack, TTL in four bytes.

use crate::BadHeader;
use crate::bytes::{be32, put32};

/// Length of an entry.
pub const LEN: usize = 4;
/// Highest label.
pub const MAX_LABEL: u32 = 0xf_ffff;
/// Label: pop, then IPv4.
pub const IPV4_NULL: u32 = 0;
/// Label: every router looks at the packet.
pub const ROUTER_ALERT: u32 = 1;
/// Label: pop, then IPv6.
pub const IPV6_NULL: u32 = 2;
/// Label: the last but one pops; never on a wire.
pub const IMPLICIT_NULL: u32 = 3;
/// How many entries [`payload_at`] looks through.
pub const MAX_DEPTH: usize = 16;

/// The top entry and what follows.
#[derive(Clone, Copy, Debug)]
pub struct Mpls<B>(B);

fields! { Mpls:
    /// Time to live.
    ttl, set_ttl: u8 at 3;
}

impl<B: AsRef<[u8]>> Mpls<B> {
    /// Proves that one entry is there.
    #[inline]
    pub fn new_checked(bytes: B) -> Result<Self, BadHeader> {
        match bytes.as_ref().len() {
            0..LEN => Err(BadHeader::TooShort),
            _ => Ok(Mpls(bytes)),
        }
    }

    /// Trusts that [`LEN`] bytes are there; getters panic otherwise.
    #[inline]
    pub fn new_unchecked(bytes: B) -> Self {
        Mpls(bytes)
    }

    /// The label, 20 bits.
    #[inline]
    pub fn label(&self) -> u32 {
        be32(self.0.as_ref(), 0) >> 12
    }

    /// Traffic class, 0 to 7 (RFC 5462).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        self.0.as_ref()[2] >> 1 & 7
    }

    /// Whether this is the last entry.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.0.as_ref()[2] & 1 != 0
    }

    /// What follows the top entry.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[LEN..]
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Mpls<B> {
    /// Sets the label, the rest stays.
    #[inline]
    pub fn set_label(&mut self, label: u32) {
        let rest = be32(self.0.as_ref(), 0) & 0xfff;
        put32(self.0.as_mut(), 0, label << 12 | rest);
    }
}

/// The four bytes of an entry.
#[inline]
pub const fn entry(label: u32, traffic_class: u8, bottom: bool, ttl: u8) -> [u8; LEN] {
    (label << 12 | (traffic_class as u32 & 7) << 9 | (bottom as u32) << 8 | ttl as u32)
        .to_be_bytes()
}

/// Offset of what the label stack carries; a stack deeper than [`MAX_DEPTH`] is `BadLength`.
#[inline]
pub fn payload_at(bytes: &[u8]) -> Result<usize, BadHeader> {
    for (depth, entry) in bytes.chunks(LEN).take(MAX_DEPTH).enumerate() {
        if Mpls::new_checked(entry)?.is_bottom() {
            return Ok((depth + 1) * LEN);
        }
    }
    match bytes.len() < MAX_DEPTH * LEN {
        true => Err(BadHeader::TooShort),
        false => Err(BadHeader::BadLength),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;

    const BYTES: [u8; 9] = [0x00, 0x06, 0x4a, 64, 0xff, 0xff, 0xf1, 63, 0x45];

    #[test]
    fn deconstructs() {
        let top = Mpls::new_checked(&BYTES).unwrap();
        assert_eq!((top.label(), top.traffic_class(), top.ttl()), (100, 5, 64));
        assert!(!top.is_bottom());
        let next = Mpls::new_checked(top.payload()).unwrap();
        assert_eq!(
            (next.label(), next.traffic_class(), next.ttl()),
            (MAX_LABEL, 0, 63)
        );
        assert!(next.is_bottom());
        assert_eq!(payload_at(&BYTES), Ok(8));
    }

    #[test]
    fn constructs() {
        assert_eq!(entry(100, 5, false, 64), BYTES[..4]);
        let mut bytes = entry(9, 0, true, 9);
        let mut m = Mpls::new_unchecked(&mut bytes);
        m.set_label(MAX_LABEL);
        m.set_ttl(63);
        assert_eq!(bytes, BYTES[4..8]);
    }

    #[test]
    fn stacks_without_a_bottom_are_refused() {
        for len in 0..8 {
            assert_eq!(payload_at(&BYTES[..len]), Err(BadHeader::TooShort));
        }
        let deep = [0; 100];
        assert_eq!(payload_at(&deep), Err(BadHeader::BadLength));
        assert_eq!(payload_at(&deep[..60]), Err(BadHeader::TooShort));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&BYTES, |bytes| {
            if let Ok(m) = Mpls::new_checked(bytes) {
                let _ = (m.label(), m.is_bottom(), m.payload());
            }
            assert!(
                payload_at(bytes).is_ok_and(|at| at <= bytes.len()) || payload_at(bytes).is_err()
            );
        });
    }
}
