mod bandwidth_rated_splitter;
mod bandwidth_rated_unqueue;
mod rate;
mod rated_splitter;
mod rated_unqueue;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<bandwidth_rated_splitter::BandwidthRatedSplitter>(),
    Class::of::<bandwidth_rated_unqueue::BandwidthRatedUnqueue>(),
    Class::of::<rated_splitter::RatedSplitter>(),
    Class::of::<rated_unqueue::RatedUnqueue>(),
];
