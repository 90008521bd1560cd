mod arp_querier;
mod arp_responder;
mod arp_table;
mod own_address;
mod table;

pub use arp_querier::face;
use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<arp_querier::ArpQuerier>(),
    Class::of::<arp_responder::ArpResponder>(),
    Class::of::<arp_table::ArpTable>(),
];
