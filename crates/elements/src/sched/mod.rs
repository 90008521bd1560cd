mod drr_sched;
mod prio_sched;
mod round_robin_sched;
mod simple_prio_sched;
mod stride_sched;

use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<drr_sched::DrrSched>(),
    Class::of::<prio_sched::PrioSched>(),
    Class::of::<round_robin_sched::RoundRobinSched>(),
    Class::of::<simple_prio_sched::SimplePrioSched>(),
    Class::of::<stride_sched::StrideSched>(),
];
