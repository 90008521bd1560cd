mod counter;
mod discard;
mod idle;
mod null;
mod paint;
mod tee;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<counter::Counter>(),
    Class::of::<discard::Discard>(),
    Class::of::<idle::Idle>(),
    Class::of::<null::Null>(),
    Class::of::<paint::Paint>(),
    Class::of::<tee::Tee>(),
];
