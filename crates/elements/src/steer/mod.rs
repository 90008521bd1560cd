mod back_pressure;
pub(crate) mod bucket_by_address;
mod bucket_by_flow;
mod bucket_by_hash;
pub(crate) mod bucket_by_prefix;
mod bucket_rule;
mod flow_fields;
pub(crate) mod hash_key;
mod hashing;
mod one_source;
pub(crate) mod port_rules;
mod set_bucket;
#[expect(clippy::module_inception, reason = "the class is called Steer")]
mod steer;
mod waiting_packets;
mod worker_rings;

#[cfg(test)]
mod failed_move_tests;
#[cfg(test)]
mod move_tests;
#[cfg(test)]
mod paced_tests;
#[cfg(test)]
mod reloaded_move_tests;

use engine::element::Class;
pub(crate) use one_source::check;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<bucket_by_address::BucketByAddress>(),
    Class::of::<bucket_by_flow::BucketByFlow>(),
    Class::of::<bucket_by_hash::BucketByHash>(),
    Class::of::<bucket_by_prefix::BucketByPrefix>(),
    Class::of::<set_bucket::SetBucket>(),
    Class::of::<steer::Steer>(),
];
