mod mesh;
#[expect(clippy::module_inception, reason = "the class is called Steer")]
mod steer;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[Class::of::<steer::Steer>()];
