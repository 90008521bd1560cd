/// Actions at the end of a source.
pub mod end_action;
mod infinite_source;
mod interval_timer;
mod random_source;
mod rated_source;
mod source_state;
mod template;
mod timed_sink;
mod timed_source;

pub(crate) use source_state::remaining_before;

use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<infinite_source::InfiniteSource>(),
    Class::of::<random_source::RandomSource>(),
    Class::of::<rated_source::RatedSource>(),
    Class::of::<timed_sink::TimedSink>(),
    Class::of::<timed_source::TimedSource>(),
];
