/// Actions at the end of a source.
pub mod end;
mod every;
mod infinite_source;
mod random_source;
mod rated_source;
mod supply;
mod template;
mod timed_sink;
mod timed_source;

pub(crate) use supply::left;

use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<infinite_source::InfiniteSource>(),
    Class::of::<random_source::RandomSource>(),
    Class::of::<rated_source::RatedSource>(),
    Class::of::<timed_sink::TimedSink>(),
    Class::of::<timed_source::TimedSource>(),
];
