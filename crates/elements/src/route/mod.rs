pub mod attached;
pub mod batch_lookup;
pub(crate) mod direct_ip_lookup;
mod ip_route_text;
pub(crate) mod linear_ip_lookup;
pub mod lookup;
pub(crate) mod lookup_ip6_route;
pub(crate) mod radix_ip_lookup;
mod range_ip_lookup;
pub(crate) mod static_ip_lookup;
mod trie_ip_lookup;

use crate::prelude::*;
pub use lookup::Reach;
use lookup::{Config, Kind, Lookup};
use tables::fib::{Dir24, Fib};

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<Lookup<direct_ip_lookup::Direct, 4>>(),
    Class::of::<Lookup<linear_ip_lookup::Linear, 4>>(),
    Class::of::<Lookup<lookup_ip6_route::Ip6Route, 16>>(),
    Class::of::<Lookup<radix_ip_lookup::Radix, 4>>(),
    Class::of::<Lookup<range_ip_lookup::Range, 4>>(),
    Class::of::<Lookup<static_ip_lookup::Static, 4>>(),
    Class::of::<Lookup<trie_ip_lookup::Four, 4>>(),
];

/// Names of the IPv6 classes.
const TABLES6: [&str; 1] = [<lookup_ip6_route::Ip6Route as Kind<16>>::CLASS];

/// Names of the IPv4 classes, whose clones share a `lookup::Config<4>`.
pub const TABLES4: [&str; 6] = [
    name::<direct_ip_lookup::Direct>(),
    name::<linear_ip_lookup::Linear>(),
    name::<radix_ip_lookup::Radix>(),
    name::<range_ip_lookup::Range>(),
    name::<static_ip_lookup::Static>(),
    name::<trie_ip_lookup::Four>(),
];

/// The table of an element of one of the classes [`TABLES4`].
pub fn table4(init: &Init, name: &str) -> Option<Arc<dyn Reach>> {
    match init.shared_by::<Config<4, Fib<4>>>(name) {
        Some(table) => Some(table),
        None => Some(init.shared_by::<Config<4, Dir24<4>>>(name)?),
    }
}

const fn name<K: Kind<4>>() -> &'static str {
    K::CLASS
}
