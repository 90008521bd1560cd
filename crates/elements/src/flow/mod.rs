//! Flows that are set up, identified by a tag or by their five-tuple, with a next hop and a guarantee.

mod dps_decap;
mod dps_encap;
mod dps_frame_encap;
mod flow_request;
mod flow_table;
mod key;
mod records;

use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<dps_decap::DpsDecap>(),
    Class::of::<dps_encap::DpsEncap>(),
    Class::of::<dps_frame_encap::DpsFrameEncap>(),
    Class::of::<flow_table::FlowTable>(),
];
