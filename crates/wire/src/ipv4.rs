//! IPv4 headers (RFC 791) and the checks that a router makes on them (RFC 1812, 5.2.2).

use core::net::Ipv4Addr;

use crate::bytes::{be16, put16};
use crate::{BadHeader, checksum};

pub mod options;

/// Length of a header without options.
pub const MIN_LEN: usize = 20;
/// Length of the longest header.
pub const MAX_LEN: usize = 60;
/// The "don't fragment" bit of [`Ipv4::fragment_word`].
pub const DF: u16 = 0x4000;
/// The "more fragments" bit of [`Ipv4::fragment_word`].
pub const MF: u16 = 0x2000;
/// The offset bits of [`Ipv4::fragment_word`], in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// Results of [`check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Checked {
    /// Length of the header, options included: 20 to 60.
    pub header_len: usize,
    /// Length of the datagram; later bytes are link-layer padding.
    pub total_len: usize,
}

/// Checks a header in the order of RFC 1812, 5.2.2; `bytes` are those that the link layer delivered.
///
/// The checksum comes third, since its computation needs the header's length. A datagram longer than `bytes` is
/// [`BadHeader::Truncated`]; the RFC demands a Parameter Problem with pointer 2 as answer.
#[inline(always)]
pub fn check(bytes: &[u8]) -> Result<Ipv4Checked, BadHeader> {
    check_header(bytes, true)
}

/// Like [`check`], without the checksum, which the device has verified.
#[inline(always)]
pub fn check_unsummed(bytes: &[u8]) -> Result<Ipv4Checked, BadHeader> {
    check_header(bytes, false)
}

/// Fast form of [`check`]: returns the datagram's length if the header has no options, as nearly all headers, and is
/// valid. The link layer has delivered `len` bytes from the header on. Without `sums` the checksum is not verified.
#[inline(always)]
pub fn check_plain(header: &[u8; MIN_LEN], len: usize, sums: bool) -> Option<usize> {
    let total_len = usize::from(be16(header, 2));
    let fits = header[0] == 0x45 && (MIN_LEN..=len).contains(&total_len);
    (fits && (!sums || checksum::verify20(header))).then_some(total_len)
}

#[inline(always)]
fn check_header(bytes: &[u8], sums: bool) -> Result<Ipv4Checked, BadHeader> {
    let Some(fixed) = bytes.first_chunk::<MIN_LEN>() else {
        return Err(BadHeader::TooShort);
    };
    let header_len = match fixed[0] {
        0x45 => MIN_LEN, // nearly always
        first if first >> 4 != 4 => return Err(BadHeader::BadVersion),
        first => usize::from(first & 0xf) * 4,
    };
    if header_len < MIN_LEN {
        return Err(BadHeader::BadHeaderLength);
    }
    let right = match header_len {
        MIN_LEN => !sums || checksum::verify20(fixed),
        _ => {
            let header = bytes.get(..header_len).ok_or(BadHeader::TooShort)?;
            !sums || checksum::verify(header)
        }
    };
    if !right {
        return Err(BadHeader::BadChecksum);
    }
    let total_len = usize::from(be16(fixed, 2));
    if total_len < header_len {
        return Err(BadHeader::BadLength);
    }
    if total_len > bytes.len() {
        return Err(BadHeader::Truncated);
    }
    Ok(Ipv4Checked {
        header_len,
        total_len,
    })
}

/// View of an IPv4 header and the bytes after it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<B>(B);

fields! { Ipv4:
    /// The type-of-service byte: DSCP and ECN.
    tos, set_tos: u8 at 1;
    /// Identification.
    ident, set_ident: u16 at 4;
    /// Flags and offset as they stand: see [`DF`], [`MF`], [`OFFSET_MASK`].
    fragment_word, set_fragment_word: u16 at 6;
    /// Time to live.
    ttl, set_ttl: u8 at 8;
    /// Number of the protocol above; see [`crate::proto`].
    protocol, set_protocol: u8 at 9;
    /// The checksum field.
    checksum, set_checksum: u16 at 10;
    /// Source address.
    src, set_src: Ipv4Addr at 12;
    /// Destination address.
    dst, set_dst: Ipv4Addr at 16;
}

impl<B: AsRef<[u8]>> Ipv4<B> {
    /// Checks the same as [`check_unsummed`]: everything except the checksum.
    #[inline]
    pub fn new_checked(bytes: B) -> Result<Self, BadHeader> {
        check_unsummed(bytes.as_ref()).map(|_| Ipv4(bytes))
    }

    /// The version: 4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.0.as_ref()[0] >> 4
    }

    /// Length of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[0] & 0xf) * 4
    }

    /// Differentiated services code point, 0 to 63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Explicit congestion notification, 0 to 3 (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// Length of the datagram, header included.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(be16(self.0.as_ref(), 2))
    }

    /// True if "don't fragment" is set.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragment_word() & DF != 0
    }

    /// True if "more fragments" is set.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.fragment_word() & MF != 0
    }

    /// Position of the payload in the whole datagram, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment_word() & OFFSET_MASK) * 8
    }

    /// True if the packet is a fragment of a datagram, including the first.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment_word() & (MF | OFFSET_MASK) != 0
    }

    /// True if the header's checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.header())
    }

    /// The header, options included.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.0.as_ref()[..self.header_len()]
    }

    /// The options, in order; see [`options`].
    #[inline]
    pub fn options(&self) -> options::Options<'_> {
        options::Options::new(self.header())
    }

    /// Bytes after the header, without link-layer padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_len()..self.total_len()]
    }

    /// The packet's final destination: the destination address, or the last address of an unfinished source route.
    #[inline]
    pub fn final_dst(&self) -> Ipv4Addr {
        match self.header_len() {
            MIN_LEN => self.dst(), // nearly always
            _ => options::final_dst(self.header()).unwrap_or(self.dst()),
        }
    }

    /// Sum of the pseudo-header for a transport header and data of `len` bytes. It uses the final destination, so a
    /// checksum is valid all along a source route.
    #[inline]
    pub fn pseudo(&self, len: usize) -> u64 {
        checksum::pseudo4(self.src(), self.final_dst(), self.protocol(), len)
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Ipv4<B> {
    /// Sets version 4 and the header length, a multiple of 4 from 20 to 60.
    #[inline]
    pub fn set_header_len(&mut self, len: usize) {
        self.0.as_mut()[0] = 0x40 | ((len / 4) as u8 & 0xf);
    }

    /// Sets the length of the datagram.
    #[inline]
    pub fn set_total_len(&mut self, len: u16) {
        put16(self.0.as_mut(), 2, len);
    }

    /// Recomputes the checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::checksum(self.header());
        self.set_checksum(check);
    }

    /// Writes a 16-bit word of the header, at an even offset, and updates the checksum.
    #[inline]
    pub fn patch16(&mut self, at: usize, new: u16) {
        let old = be16(self.0.as_ref(), at);
        put16(self.0.as_mut(), at, new);
        self.set_checksum(checksum::update16(self.checksum(), old, new));
    }

    /// Decrements the time to live, which must not be zero, and updates the checksum.
    #[inline]
    pub fn dec_ttl(&mut self) {
        debug_assert!(self.ttl() > 0, "a time to live of zero cannot be lowered");
        self.set_ttl(self.ttl().wrapping_sub(1));
        // RFC 1624, equation 3, for a word that was reduced by 0x0100; bytes are in memory order.
        const LESS: u16 = u16::from_be(0x0100);
        let check = self.checksum().to_be();
        let carry = u16::from(check >= !LESS);
        self.set_checksum(u16::from_be(check.wrapping_add(LESS + carry)));
    }

    /// Reverts a [`dec_ttl`](Self::dec_ttl).
    #[inline]
    pub fn inc_ttl(&mut self) {
        self.set_ttl(self.ttl().wrapping_add(1));
        let sum = u32::from(!self.checksum()) + 0x0100;
        self.set_checksum(!((sum & 0xffff) + (sum >> 16)) as u16);
    }

    /// Sets the time to live and updates the checksum.
    #[inline]
    pub fn patch_ttl(&mut self, ttl: u8) {
        self.patch16(8, u16::from_be_bytes([ttl, self.protocol()]));
    }

    /// Sets DSCP and ECN and updates the checksum.
    #[inline]
    pub fn patch_tos(&mut self, tos: u8) {
        self.patch16(0, u16::from_be_bytes([self.0.as_ref()[0], tos]));
    }

    /// Sets the length of the datagram and updates the checksum.
    #[inline]
    pub fn patch_total_len(&mut self, len: u16) {
        self.patch16(2, len);
    }

    /// Sets the source address and updates the header's checksum. The caller must update the transport checksum.
    #[inline]
    pub fn patch_src(&mut self, addr: Ipv4Addr) {
        let check = checksum::update32(self.checksum(), self.src().to_bits(), addr.to_bits());
        self.set_checksum(check);
        self.set_src(addr);
    }

    /// Sets the destination address and updates the header's checksum. The caller must update the transport checksum.
    #[inline]
    pub fn patch_dst(&mut self, addr: Ipv4Addr) {
        let check = checksum::update32(self.checksum(), self.dst().to_bits(), addr.to_bits());
        self.set_checksum(check);
        self.set_dst(addr);
    }

    /// The header including options, mutable.
    #[inline]
    pub fn header_mut(&mut self) -> &mut [u8] {
        let len = self.header_len();
        &mut self.0.as_mut()[..len]
    }

    /// Bytes after the header, mutable, without link-layer padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (from, to) = (self.header_len(), self.total_len());
        &mut self.0.as_mut()[from..to]
    }
}

#[cfg(test)]
mod tests;
