//! Rules about bytes of packets: the patterns of Classifier, IPClassifier and IPFilter, and their compilers.
//!
//! A pattern's text becomes an [`Expr`]. A list of expressions becomes a [`Compiled`] form, a program or trees, which
//! names for each packet the first rule that matches.

#[cfg(test)]
#[path = "../../tables/examples/classbench/mod.rs"]
mod classbench;
mod compiled;
mod expr;
mod family;
mod filter_rules;
mod ip6_headers;
mod ip_lexer;
mod ip_names;
mod ip_pattern;
#[cfg(test)]
mod ip_pattern_tests;
mod ip_primitive;
mod ip_rules;
pub mod pattern;
mod program;
#[cfg(test)]
#[path = "../../tables/examples/sample/mod.rs"]
mod sample;
mod terms;
mod test;

pub use compiled::{Compiled, HEADER, Headers};
pub use expr::{Base, Expr, RangeTest, View, Word};
pub use family::Family;
pub use filter_rules::{FilterRules, Lane, Line, duplicate_name};
pub use ip_pattern::parse as ip_pattern;
pub use ip_rules::{Ip, Rules, V4, V6, Version};
pub use ip6_headers::{Ip6, min_len};
pub use program::{Outcome, Program, Rule};
