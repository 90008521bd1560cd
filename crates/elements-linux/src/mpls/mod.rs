//! Classes of MPLS: labels on and off, and where packets with labels go.

pub(crate) mod header;
pub(crate) mod mpls_encap;
pub(crate) mod mpls_ether_encap;
mod mpls_ether_type;
pub(crate) mod mpls_lookup;
mod mpls_next_hop;
mod mpls_payload;
pub(crate) mod switch;
pub(crate) mod syntax;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<mpls_encap::MplsEncap>(),
    Class::of::<mpls_ether_encap::MplsEtherEncap>(),
    Class::of::<mpls_ether_type::MplsEtherType>(),
    Class::of::<mpls_lookup::MplsLookup>(),
    Class::of::<mpls_next_hop::MplsNextHop>(),
    Class::of::<mpls_payload::MplsPayload>(),
];
