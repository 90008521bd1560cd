mod classifier;
mod pattern;
mod program;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[Class::of::<classifier::Classifier>()];
