mod from_device;
mod to_device;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<from_device::FromDevice>(),
    Class::of::<to_device::ToDevice>(),
];
