#[cfg(test)]
#[path = "../../../tables/examples/classbench/mod.rs"]
mod classbench;
pub(crate) mod classifier;
mod compiled;
mod expr;
mod filter_rules;
mod ip6_classifier;
mod ip6_filter;
mod ip6_headers;
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

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<classifier::Classifier>(),
    Class::of::<ip_classifier::Classifier<rules::V4>>(),
    Class::of::<ip_classifier::Classifier<rules::V6>>(),
    Class::of::<ip_filter::Filter<rules::V4>>(),
    Class::of::<ip_filter::Filter<rules::V6>>(),
];
