//! Flows that are set up: told by a tag or by their five-tuple, with a next hop and a guarantee.

mod flow_table;
mod key;
mod records;
mod wish;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[Class::of::<flow_table::FlowTable>()];
