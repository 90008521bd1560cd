pub mod classifier;
mod ip6_classifier;
mod ip6_filter;
mod ip_classifier;
mod ip_filter;

use engine::element::Class;
use rules::{V4, V6};

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<classifier::Classifier>(),
    Class::of::<ip_classifier::Classifier<V4>>(),
    Class::of::<ip_classifier::Classifier<V6>>(),
    Class::of::<ip_filter::Filter<V4>>(),
    Class::of::<ip_filter::Filter<V6>>(),
];
