mod expand;
mod functions;
mod handlers;
mod host;
mod instructions;
mod machine;
#[cfg(test)]
mod machine_tests;
mod number;
mod program;
mod signal;
mod sprintf;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[];
