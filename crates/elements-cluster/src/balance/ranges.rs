//! Ranges of addresses with their owners.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Disjoint address ranges with their owners, in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Ranges<A>(Box<[(A, A, u16)]>);

impl<A> Default for Ranges<A> {
    fn default() -> Self {
        Ranges(Box::default())
    }
}

impl<A: Copy + Ord> Ranges<A> {
    /// Builds the ranges.
    ///
    /// # Errors
    ///
    /// Two ranges overlap; the error contains their indices.
    pub(super) fn new(ranges: &[(A, A, u16)]) -> Result<Ranges<A>, (usize, usize)> {
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        order.sort_by_key(|&at| ranges[at].0);
        for pair in order.windows(2) {
            if ranges[pair[1]].0 <= ranges[pair[0]].1 {
                return Err((pair[0].min(pair[1]), pair[0].max(pair[1])));
            }
        }
        Ok(Ranges(order.into_iter().map(|at| ranges[at]).collect()))
    }

    /// Owner of an address; `None` outside all ranges.
    #[inline]
    pub(super) fn owner(&self, address: A) -> Option<u16> {
        // A few ranges are searched faster linearly than by bisection.
        let range = match self.0.len() {
            0..=8 => self.0.iter().find(|(_, last, _)| *last >= address),
            _ => self
                .0
                .get(self.0.partition_point(|(_, last, _)| *last < address)),
        };
        range
            .filter(|(first, ..)| *first <= address)
            .map(|(.., owner)| *owner)
    }
}

/// Ranges of IPv4 addresses, optimised for destinations outside all ranges.
#[derive(Clone, Debug)]
pub(super) struct Ranges4 {
    ranges: Ranges<u32>,
    /// Bitmap of blocks of 2^16 addresses; a bit is set if the block overlaps a range. The index of a block is the
    /// first two bytes of its addresses, read in little-endian order: then x86 swaps no bytes.
    blocks: [u64; BLOCKS / 64],
}

const BLOCKS: usize = 1 << 16;

impl Default for Ranges4 {
    fn default() -> Ranges4 {
        Ranges4 {
            ranges: Ranges::default(),
            blocks: [0; BLOCKS / 64],
        }
    }
}

impl Ranges4 {
    /// Builds the ranges, like [`Ranges::new`].
    pub(super) fn new(ranges: &[(u32, u32, u16)]) -> Result<Ranges4, (usize, usize)> {
        let mut blocks = [0; BLOCKS / 64];
        for (first, last, _) in ranges {
            for block in first >> 16..=last >> 16 {
                let place = u16::from_le_bytes((block as u16).to_be_bytes());
                blocks[usize::from(place / 64)] |= 1 << (place % 64);
            }
        }
        Ok(Ranges4 {
            ranges: Ranges::new(ranges)?,
            blocks,
        })
    }

    /// False if no range overlaps the block of addresses that begin with the bytes `block`.
    #[inline(always)]
    pub(super) fn is_near(&self, block: [u8; 2]) -> bool {
        let place = u16::from_le_bytes(block);
        self.blocks[usize::from(place / 64)] >> (place % 64) & 1 != 0
    }

    /// Owner of an address. For addresses in blocks without ranges, the time is independent of the number of ranges.
    #[inline]
    pub(super) fn owner(&self, address: u32) -> Option<u16> {
        match self.is_near(((address >> 16) as u16).to_be_bytes()) {
            true => self.near(address),
            false => None,
        }
    }

    #[inline(never)]
    fn near(&self, address: u32) -> Option<u16> {
        self.ranges.owner(address)
    }
}

/// First and last address of an IPv4 network.
pub(super) fn network4(address: Ipv4Addr, length: u8) -> (u32, u32) {
    let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
    let first = u32::from(address) & !host;
    (first, first | host)
}

/// First and last address of an IPv6 network.
pub(super) fn network6(address: Ipv6Addr, length: u8) -> (u128, u128) {
    let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
    let first = u128::from(address) & !host;
    (first, first | host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_those_of_a_naive_search() {
        for count in [0, 1, 3, 8, 9, 40] {
            let ranges: Vec<(u32, u32, u16)> = (0..count)
                .map(|n| (10 * n + 3, 10 * n + 3 + n % 7, n as u16))
                .collect();
            let turned: Vec<_> = ranges.iter().rev().copied().collect();
            let table = Ranges::new(&turned).expect("they are disjoint");
            let fast = Ranges4::new(&turned).expect("they are disjoint");
            for address in 0..500 {
                let naive = ranges
                    .iter()
                    .find(|(a, b, _)| (a..=b).contains(&&address))
                    .map(|r| r.2);
                assert_eq!(table.owner(address), naive, "{count} {address}");
                assert_eq!(fast.owner(address), naive, "{count} {address}");
            }
        }
        assert_eq!(
            Ranges::new(&[(5, 9, 0), (1, 2, 1), (9, 11, 2)]).err(),
            Some((0, 2))
        );
    }

    #[test]
    fn wide_ranges_are_found_in_all_their_blocks() {
        let (ten, last) = ((0x0a00_0000, 0x0aff_ffff, 7), (0xffff_ff00, u32::MAX, 8));
        let table = Ranges4::new(&[last, ten]).expect("they are disjoint");
        for (address, owner) in [
            (0x09ff_ffff, None),
            (0x0a00_0000, Some(7)),
            (0x0a7f_1234, Some(7)),
            (0x0aff_ffff, Some(7)),
            (0x0b00_0000, None),
            (0xffff_0000, None),
            (u32::MAX, Some(8)),
        ] {
            assert_eq!(table.owner(address), owner, "{address:x}");
        }
        assert_eq!(Ranges4::default().owner(0), None);
    }

    #[test]
    fn networks_have_a_first_and_a_last_address() {
        let of = |text: &str, length| network4(text.parse().expect("an address"), length);
        assert_eq!(of("10.1.2.3", 24), (0x0a01_0200, 0x0a01_02ff));
        assert_eq!(of("10.1.2.3", 32), (0x0a01_0203, 0x0a01_0203));
        assert_eq!(of("10.1.2.3", 0), (0, u32::MAX));
        assert_eq!(network6(Ipv6Addr::LOCALHOST, 127), (0, 1));
    }
}
