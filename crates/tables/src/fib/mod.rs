//! Longest-prefix match for IPv4 and IPv6.
//!
//! Two halves: the [`Rib`] belongs to the one writer and knows every route; the [`Fib`] is what workers
//! look addresses up in, while the writer changes it under them. A route maps a prefix to the id of a
//! next-hop group (see [`crate::groups`]); id 0 is no route.
//!
//! ```
//! use tables::fib::{Prefix, Rib4};
//! let mut rib = Rib4::new();
//! let id = |n| std::num::NonZeroU16::new(n).unwrap();
//! rib.insert("10.0.0.0/8".parse::<wire::Prefix4>().unwrap(), id(1)).unwrap();
//! rib.insert(Prefix::new([10, 1, 2, 0], 23), id(2)).unwrap();
//! let fib = rib.fib().clone(); // for the workers
//! assert_eq!(fib.lookup(u32::from_be_bytes([10, 1, 3, 9])), 2);
//! assert_eq!(fib.lookup(u32::from_be_bytes([10, 1, 4, 9])), 1);
//! assert_eq!(fib.lookup(u32::from_be_bytes([11, 1, 4, 9])), 0);
//! ```

mod prefix;
mod rib;
mod trie;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use prefix::Prefix;
pub use rib::{Full, Limbo, Rib};
pub use trie::Fib;

/// Routes of IPv4, for the writer.
pub type Rib4 = Rib<4>;
/// Routes of IPv6, for the writer.
pub type Rib6 = Rib<16>;
/// Routes of IPv4, for the readers.
pub type Fib4 = Fib<4>;
/// Routes of IPv6, for the readers.
pub type Fib6 = Fib<16>;
