mod check_length;
mod check_paint;
mod counter;
mod discard;
mod idle;
mod null;
mod paint;
mod paint_switch;
mod paint_tee;
mod print;
mod tee;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<check_length::CheckLength>(),
    Class::of::<check_paint::CheckPaint>(),
    Class::of::<counter::Counter>(),
    Class::of::<discard::Discard>(),
    Class::of::<idle::Idle>(),
    Class::of::<null::Null>(),
    Class::of::<paint::Paint>(),
    Class::of::<paint_switch::PaintSwitch>(),
    Class::of::<paint_tee::PaintTee>(),
    Class::of::<print::Print>(),
    Class::of::<tee::Tee>(),
];
