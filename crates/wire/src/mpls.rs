//! MPLS label stacks (RFC 3032), and the extension by which ICMP errors quote them (RFC 4950).

use crate::bytes::{be32, put, put16, put32};
use crate::{BadHeader, checksum};

/// Length in bytes of a label stack entry.
pub const LEN: usize = 4;
/// Largest label.
pub const LABEL_MAX: u32 = 0xf_ffff;
/// IPv4 explicit null: stands for "no label" above an IPv4 packet.
pub const EXPLICIT_NULL4: u32 = 0;
/// IPv6 explicit null: stands for "no label" above an IPv6 packet.
pub const EXPLICIT_NULL6: u32 = 2;
/// Implicit null, used only in label distribution: requests that the penultimate router pop the label. It never
/// appears in a packet.
pub const IMPLICIT_NULL: u32 = 3;
/// The first label that is free to use.
pub const FIRST: u32 = 16;
/// Maximum depth at which the bottom of a stack is searched.
pub const DEPTH_MAX: usize = 32;

/// An entry of a stack: label, traffic class, bottom of stack and time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class (formerly EXP), 3 bits.
    pub exp: u8,
    /// Bottom-of-stack bit: true if the entry is the last one.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl Entry {
    /// Encodes the entry as a 32-bit number.
    #[inline]
    pub const fn word(self) -> u32 {
        (self.label & LABEL_MAX) << 12
            | (self.exp as u32 & 7) << 9
            | (self.bottom as u32) << 8
            | self.ttl as u32
    }

    /// Decodes an entry from its 32-bit word.
    #[inline]
    pub const fn of(word: u32) -> Entry {
        Entry {
            label: word >> 12,
            exp: (word >> 9) as u8 & 7,
            bottom: word & 0x100 != 0,
            ttl: word as u8,
        }
    }

    /// Word of an entry after a swap: another label, and a time to live that is one less. The time to live of `word`
    /// must not be 0.
    #[inline]
    pub const fn swapped(word: u32, label: u32) -> u32 {
        label << 12 | (word & 0xfff).wrapping_sub(1)
    }

    /// The entry at offset `at`; `None` if the bytes end before.
    #[inline]
    pub fn read(bytes: &[u8], at: usize) -> Option<Entry> {
        let bytes = bytes.get(at..)?.first_chunk::<LEN>()?;
        Some(Entry::of(be32(bytes, 0)))
    }

    /// Writes the entry at offset `at`; returns true if there was room.
    #[inline]
    pub fn write(self, bytes: &mut [u8], at: usize) -> bool {
        let room = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<LEN>);
        match room {
            Some(room) => {
                put32(room, 0, self.word());
                true
            }
            None => false,
        }
    }
}

/// Labels to push on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels {
    /// The labels, innermost first, each in network order.
    labels: [[u8; 3]; Labels::MAX],
    len: u8,
}

impl Labels {
    /// Maximum number of labels.
    pub const MAX: usize = 8;
    /// An empty label stack.
    pub const NONE: Labels = Labels {
        labels: [[0; 3]; Labels::MAX],
        len: 0,
    };

    /// A stack of these labels; `None` if there are more than [`Labels::MAX`].
    pub fn new(outermost_first: impl IntoIterator<Item = u32>) -> Option<Labels> {
        let mut labels = Labels::NONE;
        for label in outermost_first {
            let len = labels.len();
            let [_, bytes @ ..] = label.to_be_bytes();
            *labels.labels.get_mut(len)? = bytes;
            labels.len += 1;
        }
        let len = labels.len();
        labels.labels.get_mut(..len)?.reverse();
        Some(labels)
    }

    /// Reads a stack from a packet; `None` if it has too many labels or no bottom.
    pub fn of_stack(stack: &[u8]) -> Option<Labels> {
        let whole = stack.get(..stack_len(stack).ok()?)?;
        let entries = whole.as_chunks().0.iter();
        Labels::new(entries.map(|entry| Entry::of(u32::from_be_bytes(*entry)).label))
    }

    /// Number of labels.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True if the stack has no labels.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The labels, outermost first.
    #[inline]
    pub fn outermost_first(&self) -> impl Iterator<Item = u32> {
        let labels = self.labels.get(..self.len()).unwrap_or(&[]);
        let each = labels.iter().rev();
        each.map(|[a, b, c]| u32::from_be_bytes([0, *a, *b, *c]))
    }
}

/// Length of the label stack at the start of `bytes`, which is the offset of the packet below it.
#[inline]
pub fn stack_len(bytes: &[u8]) -> Result<usize, BadHeader> {
    let mut at = 0;
    loop {
        let entry = Entry::read(bytes, at).ok_or(BadHeader::TooShort)?;
        at += LEN;
        if entry.bottom {
            return Ok(at);
        }
        if at == DEPTH_MAX * LEN {
            return Err(BadHeader::BadLength);
        }
    }
}

/// Maximum number of entries that an ICMP error quotes.
pub const QUOTED_MAX: usize = 16;
/// Length of the longest extension in bytes.
pub const EXTENSION_MAX: usize = 8 + QUOTED_MAX * LEN;
/// Minimum number of bytes of the packet that an ICMP error with an extension quotes; zeros follow a shorter one (RFC
/// 4884).
pub const QUOTED_MIN: usize = 128;

/// The ICMP extension structure that quotes a label stack, and its length.
pub fn extension(stack: &[u8]) -> ([u8; EXTENSION_MAX], usize) {
    let mut bytes = [0; EXTENSION_MAX];
    let quoted = stack.len().min(QUOTED_MAX * LEN) / LEN * LEN;
    put(&mut bytes, 0, [0x20]); // version 2
    put16(&mut bytes, 4, 4 + quoted as u16);
    put(&mut bytes, 6, [1, 1]); // MPLS label stack class, incoming stack
    bytes[8..8 + quoted].copy_from_slice(&stack[..quoted]);
    let sum = checksum::checksum(&bytes[..8 + quoted]);
    put16(&mut bytes, 2, sum);
    (bytes, 8 + quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;

    /// Label 1000, class 5, TTL 64; label 16, class 0, bottom, TTL 255.
    const STACK: [u8; 9] = [0x00, 0x3e, 0x8a, 0x40, 0x00, 0x01, 0x01, 0xff, 0x45];

    #[test]
    fn entries_are_read_and_written() {
        let top = Entry {
            label: 1000,
            exp: 5,
            bottom: false,
            ttl: 64,
        };
        let bottom = Entry {
            label: 16,
            exp: 0,
            bottom: true,
            ttl: 255,
        };
        assert_eq!(Entry::read(&STACK, 0), Some(top));
        assert_eq!(Entry::read(&STACK, 4), Some(bottom));
        assert_eq!(Entry::read(&STACK, 6), None);
        let mut bytes = [0; 8];
        assert!(top.write(&mut bytes, 0) && bottom.write(&mut bytes, 4));
        assert!(!top.write(&mut bytes, 5));
        assert_eq!(bytes, STACK[..8]);
        for entry in [top, bottom] {
            for ttl in 1..=255 {
                for label in [0, 16, 1000, LABEL_MAX] {
                    let word = Entry { ttl, ..entry }.word();
                    let swapped = Entry {
                        label,
                        ttl: ttl - 1,
                        ..entry
                    };
                    assert_eq!(Entry::of(Entry::swapped(word, label)), swapped);
                }
            }
        }
        assert_eq!(stack_len(&STACK), Ok(8));
        assert_eq!(stack_len(&STACK[..7]), Err(BadHeader::TooShort));
        assert_eq!(stack_len(&[0; 200]), Err(BadHeader::BadLength));
    }

    #[test]
    fn labels_are_read_from_a_stack_that_ends() {
        let two = Labels::of_stack(&STACK).expect("it ends");
        assert!(two.outermost_first().eq([1000, 16]));
        assert_eq!(Labels::of_stack(&STACK[..4]), None);
        assert_eq!(Labels::new(0..9), None);
        let most = Labels::new(1..9).expect("room");
        assert!(most.outermost_first().eq(1..9) && most.len() == 8 && !most.is_empty());
        assert_eq!(Labels::new([]), Some(Labels::NONE));
    }

    #[test]
    fn the_extension_is_that_of_rfc_4950() {
        let (bytes, len) = extension(&STACK[..8]);
        assert_eq!(bytes[..2], [0x20, 0]);
        assert_eq!(bytes[4..16], [&[0, 12, 1, 1], &STACK[..8]].concat());
        assert!(checksum::verify(&bytes[..len]));
        assert_eq!(extension(&[1; 400]).1, EXTENSION_MAX);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        hammer(&STACK, |bytes| {
            let _ = Labels::of_stack(bytes);
            if let Ok(len) = stack_len(bytes) {
                assert!(len <= bytes.len());
                let (extension, len) = extension(&bytes[..len]);
                assert!(checksum::verify(&extension[..len]));
            }
        });
    }
}
