//! The GRE header (RFC 2784, with key and sequence number of RFC 2890).

/// Bytes of the header without optional fields, and of each optional field.
pub(super) const LEN: usize = 4;
/// Maximum length of the header.
pub(super) const LEN_MAX: usize = 4 * LEN;
/// Flag of the first 16 bits: a checksum follows, with two reserved bytes behind it.
pub(super) const CHECKSUM: u16 = 0x8000;
/// Flag: a key follows.
pub(super) const KEY: u16 = 0x2000;
/// Flag: a sequence number follows.
pub(super) const SEQUENCE: u16 = 0x1000;
/// Flags of RFC 1701 that a receiver without it must not take (RFC 2784, 2.3).
pub(super) const REFUSED: u16 = 0x4c00;
/// Version in the first 16 bits; only 0 is GRE.
pub(super) const VERSION: u16 = 7;

/// Offset of the key in a header with these flags, or of the sequence number if there is no key.
#[inline]
pub(super) fn key_at(flags: u16) -> usize {
    len(flags & CHECKSUM)
}

/// Length of a header with these flags.
#[inline]
pub(super) fn len(flags: u16) -> usize {
    LEN * (1 + (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize)
}
