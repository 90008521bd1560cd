mod arp_querier;
mod arp_responder;
mod station;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<arp_querier::ArpQuerier>(),
    Class::of::<arp_responder::ArpResponder>(),
];
