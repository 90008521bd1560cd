//! IEEE 802.1Q tags: the four bytes after the tag's Ethertype, and tagging in place.

use crate::bytes::{be16, put16};
use crate::ether;
use core::fmt;
use core::str::FromStr;

/// Length of a tag.
pub const LEN: usize = 4;
/// Highest VLAN identifier that may be used; 0 says "priority only", 4095 is reserved.
pub const MAX_ID: u16 = 4094;

/// A VLAN as tags name it: an identifier, and the tag's Ethertype. Written `100` (802.1Q) or `s100` (802.1ad).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// The tag's own Ethertype.
    pub ethertype: u16,
    /// The identifier.
    pub id: u16,
}

impl Tag {
    /// The tag that starts at `at`, whatever its identifier is.
    #[inline]
    pub fn at(frame: &[u8], at: usize) -> Option<Tag> {
        let head = frame.get(at..at + LEN)?;
        let ethertype = be16(head, 0);
        matches!(ethertype, ether::VLAN | ether::QINQ).then(|| Tag {
            ethertype,
            id: be16(head, 2) & 0xfff,
        })
    }

    /// True if the tag is a service tag (802.1ad).
    #[inline]
    pub const fn is_service(self) -> bool {
        self.ethertype == ether::QINQ
    }
}

impl From<u16> for Tag {
    /// Tag protocol identifier of 802.1Q.
    fn from(id: u16) -> Tag {
        Tag {
            ethertype: ether::VLAN,
            id,
        }
    }
}

/// A text that names no VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoVlan;

impl FromStr for Tag {
    type Err = NoVlan;

    fn from_str(text: &str) -> Result<Tag, NoVlan> {
        let (ethertype, number) = match text.strip_prefix('s') {
            Some(number) => (ether::QINQ, number),
            None => (ether::VLAN, text),
        };
        let digits = number.bytes().all(|b| b.is_ascii_digit());
        let id = number.parse().ok();
        let id = id
            .filter(|id| digits && (1..=MAX_ID).contains(id))
            .ok_or(NoVlan)?;
        Ok(Tag { ethertype, id })
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = if self.is_service() { "s" } else { "" };
        write!(f, "{service}{}", self.id)
    }
}

/// Tag control information and the next Ethertype, as they follow the tag's own Ethertype.
#[derive(Clone, Copy, Debug)]
pub struct Vlan<B>(B);

fields! { Vlan, LEN bytes:
    /// Priority, drop eligibility and identifier as they stand.
    tci, set_tci: u16 at 0;
    /// Ethertype of the bytes after the tag.
    ethertype, set_ethertype: u16 at 2;
}

impl<B: AsRef<[u8]>> Vlan<B> {
    /// VLAN identifier, 12 bits.
    #[inline]
    pub fn id(&self) -> u16 {
        self.tci() & 0xfff
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.tci() >> 13) as u8
    }
}

/// Tag control information from its parts.
#[inline]
pub const fn tci(priority: u8, drop_eligible: bool, id: u16) -> u16 {
    (priority as u16 & 7) << 13 | (drop_eligible as u16) << 12 | (id & 0xfff)
}

/// Tags a frame that starts at byte 4 of `frame`, whose first four bytes are free; returns true if it fitted.
#[inline]
pub fn push(frame: &mut [u8], ethertype: u16, tci: u16) -> bool {
    let Some(head) = frame.first_chunk_mut::<16>() else {
        return false;
    };
    head.copy_within(4..16, 0);
    put16(head, 12, ethertype);
    put16(head, 14, tci);
    true
}

/// Removes the outer tag of `frame` and gives its TCI; the frame then starts at byte 4.
///
/// The caller has seen that the Ethertype is a tag's. `None` if the frame is too short to hold one.
#[inline]
pub fn pop(frame: &mut [u8]) -> Option<u16> {
    let head = frame.first_chunk_mut::<18>()?;
    let tci = be16(head, 14);
    head.copy_within(0..12, 4);
    Some(tci)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BadHeader;
    use crate::ether::{self, Ether};
    use crate::testing::hammer;
    use std::string::ToString;

    const BYTES: [u8; 5] = [0xb0, 0x64, 0x08, 0x00, 0xaa];

    #[test]
    fn a_vlan_is_written_as_it_is_read() {
        for (text, ethertype, id) in [("1", ether::VLAN, 1), ("s4094", ether::QINQ, 4094)] {
            let tag: Tag = text.parse().unwrap();
            assert_eq!((tag.ethertype, tag.id), (ethertype, id));
            assert_eq!(tag.to_string(), text);
        }
        for text in ["", "s", "0", "4095", "s0", "ss1", "+1", "1 ", "S1", "99999"] {
            assert_eq!(text.parse::<Tag>(), Err(NoVlan), "{text}");
        }
    }

    #[test]
    fn deconstructs() {
        let v = Vlan::new_checked(&BYTES).unwrap();
        assert_eq!((v.tci(), v.id(), v.priority()), (0xb064, 100, 5));
        assert_eq!((v.ethertype(), v.payload()), (ether::IPV4, &[0xaa][..]));
    }

    #[test]
    fn constructs() {
        let mut bytes = [0xaa; 5];
        let mut v = Vlan::new_unchecked(&mut bytes);
        v.set_tci(tci(5, true, 100));
        v.set_ethertype(ether::IPV4);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn a_tag_pushed_is_the_tag_popped() {
        let mut frame = [0u8; 20];
        for (i, b) in frame.iter_mut().enumerate() {
            *b = i as u8;
        }
        let before = frame;
        assert!(push(&mut frame, ether::VLAN, 0x2064));
        assert_eq!(Ether::new_checked(&frame).unwrap().ethertype(), ether::VLAN);
        assert_eq!(frame[..12], before[4..16]);
        assert_eq!(frame[16..], before[16..]);
        assert_eq!(pop(&mut frame), Some(0x2064));
        assert_eq!(frame[4..], before[4..]);
    }

    #[test]
    fn short_frames_are_refused() {
        for len in 0..4 {
            assert_eq!(
                Vlan::new_checked(&BYTES[..len]).err(),
                Some(BadHeader::TooShort)
            );
        }
        assert!(!push(&mut [0; 15], ether::VLAN, 0));
        assert_eq!(pop(&mut [0; 17]), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&BYTES, |bytes| {
            if let Ok(v) = Vlan::new_checked(bytes) {
                let _ = (v.id(), v.ethertype(), v.payload());
            }
            let mut copy = bytes.to_vec();
            push(&mut copy, 0, 0);
            pop(&mut copy);
        });
    }
}
