mod address_info;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[Class::of::<address_info::AddressInfo>()];
