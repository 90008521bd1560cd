//! Longest-prefix match for IPv4 and IPv6.
//!
//! Two halves: the [`Rib`] belongs to the single writer and knows every route. The [`Fib`] is the structure in
//! which workers look up addresses while the writer changes it. A route maps a prefix to the id of a next-hop group
//! (see [`crate::groups`]); id 0 means no route.
//!
//! ```
//! use tables::fib::{Prefix, Rib4, Structure};
//! let mut rib = Rib4::new();
//! let id = |n| std::num::NonZeroU16::new(n).unwrap();
//! rib.insert("10.0.0.0/8".parse::<wire::Prefix4>().unwrap(), id(1)).unwrap();
//! rib.insert(Prefix::new([10, 1, 2, 0], 23), id(2)).unwrap();
//! let fib = rib.fib().clone(); // for the workers
//! assert_eq!(fib.lookup(u32::from_be_bytes([10, 1, 3, 9])), 2);
//! assert_eq!(fib.lookup(u32::from_be_bytes([10, 1, 4, 9])), 1);
//! assert_eq!(fib.lookup(u32::from_be_bytes([11, 1, 4, 9])), 0);
//! ```

mod default_route;
mod poptrie;
mod prefix;
mod rib;
mod routes;
mod sys;
mod trie;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use poptrie::{Poptrie, PoptrieWriter};
pub use prefix::{Address, Prefix};
pub use rib::{Full, Limbo, NoMemory, Rib, Writer};
pub use routes::{Route, Routes};
pub use trie::{Dir24, Stride4, Trie, TrieWriter};

/// A look-up structure for addresses of `N` bytes, as readers see it.
pub trait Structure<const N: usize>: Send + Sync + Sized {
    /// Name in the literature.
    const NAME: &'static str;
    /// Writer that makes the structure follow the routes.
    type Writer: Writer<N, Self> + Send;

    /// The group id of the longest prefix that contains `address`, or 0.
    fn lookup(&self, address: impl Address<N>) -> u16;

    /// Looks up `addresses` and writes their ids to `ids`, up to the shorter of both. This is faster than one by one.
    fn lookup_bulk(&self, addresses: &[impl Address<N>], ids: &mut [u16]) {
        for (address, id) in addresses.iter().zip(ids) {
            *id = self.lookup(*address);
        }
    }

    /// Like [`lookup`](Self::lookup), but returns a function that keeps the structure's pointers in registers.
    #[inline]
    fn lookup_fn<A: Address<N>>(&self) -> impl Fn(A) -> u16 {
        |address: A| self.lookup(address)
    }

    /// A function that prefetches the first memory a look-up of an address reads. It changes nothing.
    #[inline]
    fn fetch<A: Address<N>>(&self) -> impl Fn(A) {
        |_: A| ()
    }

    /// True if the structure is empty, except perhaps for a default route.
    fn is_bare(&self) -> bool;

    /// Memory of the structure in bytes, including nodes that wait for readers, without the routes themselves.
    fn memory_bytes(&self) -> usize;
}

/// The structure in which the router's elements look up.
pub type Fib<const N: usize> = Poptrie<N>;
/// Routes of IPv4, for the writer.
pub type Rib4 = Rib<4>;
/// Routes of IPv6, for the writer.
pub type Rib6 = Rib<16>;
/// Routes of IPv4, for the readers.
pub type Fib4 = Fib<4>;
/// Routes of IPv6, for the readers.
pub type Fib6 = Fib<16>;
