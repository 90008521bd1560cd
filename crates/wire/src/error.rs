//! Reason why a header was refused.

use core::fmt;

/// The first fault found in a header. [`BadHeader::name`] serves as the name of the drop counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadHeader {
    /// Fewer bytes than the smallest header of this kind, or than the header's own length field says.
    TooShort,
    /// The version field names another protocol version.
    BadVersion,
    /// The header length field is below the minimum.
    BadHeaderLength,
    /// The checksum over the header (or message) is wrong.
    BadChecksum,
    /// A length field covers less than the header itself.
    BadLength,
    /// A length field claims more bytes than were received.
    Truncated,
    /// An option or extension header is malformed.
    BadOption,
    /// A field holds a value that this protocol does not allow.
    BadField,
}

impl BadHeader {
    /// All reasons, for tables of counters; `ALL[r.index()] == r`.
    pub const ALL: [BadHeader; 8] = [
        BadHeader::TooShort,
        BadHeader::BadVersion,
        BadHeader::BadHeaderLength,
        BadHeader::BadChecksum,
        BadHeader::BadLength,
        BadHeader::Truncated,
        BadHeader::BadOption,
        BadHeader::BadField,
    ];

    /// The reason in snake case, as the name of a drop counter.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            BadHeader::TooShort => "too_short",
            BadHeader::BadVersion => "bad_version",
            BadHeader::BadHeaderLength => "bad_header_length",
            BadHeader::BadChecksum => "bad_checksum",
            BadHeader::BadLength => "bad_length",
            BadHeader::Truncated => "truncated",
            BadHeader::BadOption => "bad_option",
            BadHeader::BadField => "bad_field",
        }
    }

    /// Position in [`BadHeader::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for BadHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_name_and_place() {
        for (i, reason) in BadHeader::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), i);
            assert!(
                BadHeader::ALL[..i]
                    .iter()
                    .all(|r| r.name() != reason.name())
            );
        }
    }
}
