mod adaptive_red;
mod bandwidth_meter;
mod bandwidth_rated_splitter;
mod bandwidth_rated_unqueue;
mod bandwidth_shaper;
mod block_thread;
mod burster;
mod co_del;
mod delay;
mod delay_shaper;
mod delay_unqueue;
mod gap_rate;
mod host_policer;
mod hosts;
mod ip6_host_policer;
mod link_unqueue;
mod meter;
mod queues;
mod rate;
mod rated_splitter;
mod rated_unqueue;
mod red;
mod shaper;
mod timed_unqueue;

use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<adaptive_red::AdaptiveRed>(),
    Class::of::<bandwidth_meter::BandwidthMeter>(),
    Class::of::<bandwidth_rated_splitter::BandwidthRatedSplitter>(),
    Class::of::<bandwidth_rated_unqueue::BandwidthRatedUnqueue>(),
    Class::of::<bandwidth_shaper::BandwidthShaper>(),
    Class::of::<block_thread::BlockThread>(),
    Class::of::<burster::Burster>(),
    Class::of::<co_del::CoDel>(),
    Class::of::<delay_shaper::DelayShaper>(),
    Class::of::<delay_unqueue::DelayUnqueue>(),
    Class::of::<host_policer::HostPolicer<host_policer::Four>>(),
    Class::of::<host_policer::HostPolicer<ip6_host_policer::Six>>(),
    Class::of::<link_unqueue::LinkUnqueue>(),
    Class::of::<meter::Meter>(),
    Class::of::<rated_splitter::RatedSplitter>(),
    Class::of::<rated_unqueue::RatedUnqueue>(),
    Class::of::<red::Red>(),
    Class::of::<shaper::Shaper>(),
    Class::of::<timed_unqueue::TimedUnqueue>(),
];
