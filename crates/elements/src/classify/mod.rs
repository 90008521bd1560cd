#[cfg(test)]
#[path = "../../../tables/examples/classbench/mod.rs"]
mod classbench;
pub(crate) mod classifier;
mod compiled;
mod expr;
mod filter_rules;
mod ip_classifier;
mod ip_filter;
mod ip_lexer;
mod ip_names;
mod ip_pattern;
#[cfg(test)]
mod ip_pattern_tests;
mod ip_primitive;
mod pattern;
mod program;
mod rules;
#[cfg(test)]
#[path = "../../../tables/examples/sample/mod.rs"]
mod sample;
mod terms;
mod test;

pub(crate) use ip_primitive::port;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<classifier::Classifier>(),
    Class::of::<ip_classifier::IPClassifier>(),
    Class::of::<ip_filter::IPFilter>(),
];
