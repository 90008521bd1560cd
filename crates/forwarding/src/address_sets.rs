//! Sets of addresses that packets rarely have.

use std::net::Ipv4Addr;

/// Set of addresses that packets rarely have. A bitmap excludes most other addresses at once.
#[derive(Debug, Default)]
pub struct Listed {
    /// Sorted addresses.
    all: Vec<Ipv4Addr>,
    /// Bit map of the highest six bits of the addresses' [`hash`].
    bits: u64,
    /// Finer bit map, a word for each address, because most bits of `bits` are set for a large set.
    fine: Vec<u64>,
}

impl Listed {
    /// Adds addresses.
    pub fn extend(&mut self, more: impl IntoIterator<Item = Ipv4Addr>) {
        self.all.extend(more);
        self.all.sort_unstable();
        self.all.dedup();
        self.bits = 0;
        self.fine = vec![0; self.all.len()];
        for &address in &self.all {
            self.bits |= Listed::bit(address);
            let (word, bit) = self.fine_bit(address);
            self.fine[word] |= bit;
        }
    }

    /// True if the set has the address.
    #[inline]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        self.bits & Listed::bit(address) != 0 && self.contains_surely(address)
    }

    /// Bit map of all addresses, so that several sets can be excluded at once.
    #[inline]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    #[inline(never)]
    fn contains_surely(&self, address: Ipv4Addr) -> bool {
        let (word, bit) = self.fine_bit(address);
        self.fine.get(word).is_some_and(|word| word & bit != 0)
            && self.all.binary_search(&address).is_ok()
    }

    /// Bit of an address in [`bits`](Self::bits).
    #[inline]
    pub fn bit(address: Ipv4Addr) -> u64 {
        1 << (hash(address) >> 26)
    }

    /// Word and bit of an address in `fine`. The word is chosen by the hash bits below those of the bit.
    fn fine_bit(&self, address: Ipv4Addr) -> (usize, u64) {
        let word = u64::from(hash(address) << 6) * self.fine.len() as u64;
        ((word >> 32) as usize, Listed::bit(address))
    }
}

/// Hash of an address, whose highest bits are mixed best.
#[inline]
fn hash(address: Ipv4Addr) -> u32 {
    address.to_bits().wrapping_mul(0x9e37_79b1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_hold_their_addresses_and_no_others() {
        let mut random = testkit::Rng::seed(1);
        for count in [0, 1, 2, 3, 60, 1000] {
            let mut list = Listed::default();
            let all: Vec<Ipv4Addr> = (0..count)
                .map(|n| Ipv4Addr::from_bits(0x0a00_0001 + (n << 8)))
                .collect();
            let (first, rest) = all.split_at(all.len() / 2);
            list.extend(first.iter().copied());
            list.extend(rest.iter().chain(first).copied());
            assert!(all.iter().all(|&address| list.contains(address)));
            let mut others = (0..10_000).map(|_| Ipv4Addr::from_bits(random.u32()));
            assert!(others.all(|other| list.contains(other) == all.contains(&other)));
        }
    }
}
