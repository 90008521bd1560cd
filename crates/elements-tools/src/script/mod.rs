mod driver_manager;
mod message;
mod random_seed;
mod runner;
// The class Script, in the folder of scripts.
#[allow(clippy::module_inception)]
mod script;
#[cfg(test)]
mod tests;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<driver_manager::DriverManager>(),
    Class::of::<message::Message>(),
    Class::of::<random_seed::RandomSeed>(),
    Class::of::<script::Script>(),
];
