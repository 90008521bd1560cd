//! The configuration of one server of a cluster.

use super::description::Description;

/// A name that Click takes as part of a name.
pub(crate) fn identifier(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(fit).collect()
}

/// The configuration of a server, by its number.
pub fn text(_of: &Description, _server: usize) -> String {
    String::new()
}
