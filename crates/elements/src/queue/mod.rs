#[expect(clippy::module_inception, reason = "the class is called Queue")]
mod queue;
mod unqueue;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[Class::of::<queue::Queue>(), Class::of::<unqueue::Unqueue>()];
