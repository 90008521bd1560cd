mod align;
mod check_length;
mod check_paint;
mod clipboard;
pub mod counter;
mod discard;
mod idle;
mod mark_mac_header;
mod null;
mod pad;
pub mod paint;
mod paint_switch;
pub(crate) mod paint_tee;
mod pull_null;
mod push_null;
pub mod rate;
mod resize;
mod tee;
mod truncate;

use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<align::Align>(),
    Class::of::<check_length::CheckLength>(),
    Class::of::<check_paint::CheckPaint>(),
    Class::of::<clipboard::Clipboard>(),
    Class::of::<counter::Counter>(),
    Class::of::<discard::Discard>(),
    Class::of::<idle::Idle>(),
    Class::of::<mark_mac_header::MarkMacHeader>(),
    Class::of::<null::Null>(),
    Class::of::<pad::Pad>(),
    Class::of::<paint::Paint>(),
    Class::of::<paint_switch::PaintSwitch>(),
    Class::of::<paint_tee::PaintTee>(),
    Class::of::<pull_null::PullNull>(),
    Class::of::<push_null::PushNull>(),
    Class::of::<resize::Resize>(),
    Class::of::<tee::Tee>(),
    Class::of::<truncate::Truncate>(),
];
