mod infinite_source;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[Class::of::<infinite_source::InfiniteSource>()];
