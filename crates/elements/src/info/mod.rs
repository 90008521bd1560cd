mod address_info;
mod alignment_info;
mod clicky_info;
mod port_info;
mod schedule_info;
mod static_thread_sched;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<address_info::AddressInfo>(),
    Class::of::<alignment_info::AlignmentInfo>(),
    Class::of::<clicky_info::ClickyInfo>(),
    Class::of::<port_info::PortInfo>(),
    Class::of::<schedule_info::ScheduleInfo>(),
    Class::of::<static_thread_sched::StaticThreadSched>(),
];
