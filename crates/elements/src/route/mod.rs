pub(crate) mod direct_ip_lookup;
pub(crate) mod family;
pub(crate) mod linear_ip_lookup;
pub(crate) mod lookup;
pub(crate) mod lookup_ip6_route;
pub(crate) mod radix_ip_lookup;
mod range_ip_lookup;
pub(crate) mod static_ip_lookup;
mod syntax;
mod table;

use engine::element::Class;
use lookup::Lookup;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<Lookup<direct_ip_lookup::Direct, 4>>(),
    Class::of::<Lookup<linear_ip_lookup::Linear, 4>>(),
    Class::of::<Lookup<lookup_ip6_route::Ip6Route, 16>>(),
    Class::of::<Lookup<radix_ip_lookup::Radix, 4>>(),
    Class::of::<Lookup<range_ip_lookup::Range, 4>>(),
    Class::of::<Lookup<static_ip_lookup::Static, 4>>(),
];
