use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[];
