//! A list of routes, searched from the longest prefix on: the measure of rightness and, up to a dozen
//! routes, the smallest.
//!
//! Shape: routes sorted by falling length, then by address. Memory: 8 bytes per route for IPv4, 20 for IPv6.
//! Source: what every other structure stands in for (Click's LinearIPLookup).

use std::cmp::Reverse;
use std::num::NonZeroU16;

use super::routes::Route;
use super::whole::{Whole, WholeWriter};
use super::{Address, Prefix, Structure};

/// All routes for addresses of `N` bytes, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Linear<const N: usize>(Vec<Route<N>>);

impl<const N: usize> Structure<N> for Linear<N> {
    const NAME: &'static str = "linear";
    type Writer = WholeWriter<Self>;

    fn lookup(&self, address: impl Address<N>) -> u16 {
        let address = address.octets();
        let found = self.0.iter().find(|(prefix, _)| prefix.contains(address));
        found.map_or(0, |(_, id)| id.get())
    }

    fn is_bare(&self) -> bool {
        self.0.iter().all(|(prefix, _)| prefix.length() == 0)
    }

    fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Route<N>>()
    }
}

impl<const N: usize> Whole<N> for Linear<N> {
    fn change(&mut self, prefix: &Prefix<N>, id: Option<NonZeroU16>) {
        let key = |p: &Prefix<N>| (Reverse(p.length()), p.address());
        let at = self.0.binary_search_by_key(&key(prefix), |(p, _)| key(p));
        match (at, id) {
            (Ok(at), Some(id)) => self.0[at].1 = id,
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(at), Some(id)) => self.0.insert(at, (*prefix, id)),
            (Err(_), None) => {}
        }
    }
}
