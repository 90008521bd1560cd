mod bandwidth_rated_splitter;
mod bandwidth_rated_unqueue;
mod bandwidth_shaper;
mod block_thread;
mod burster;
mod delay_shaper;
mod delay_unqueue;
mod link_unqueue;
mod rate;
mod rated_splitter;
mod rated_unqueue;
mod shaper;
mod timed_unqueue;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<bandwidth_rated_splitter::BandwidthRatedSplitter>(),
    Class::of::<bandwidth_rated_unqueue::BandwidthRatedUnqueue>(),
    Class::of::<bandwidth_shaper::BandwidthShaper>(),
    Class::of::<block_thread::BlockThread>(),
    Class::of::<burster::Burster>(),
    Class::of::<delay_shaper::DelayShaper>(),
    Class::of::<delay_unqueue::DelayUnqueue>(),
    Class::of::<link_unqueue::LinkUnqueue>(),
    Class::of::<rated_splitter::RatedSplitter>(),
    Class::of::<rated_unqueue::RatedUnqueue>(),
    Class::of::<shaper::Shaper>(),
    Class::of::<timed_unqueue::TimedUnqueue>(),
];
