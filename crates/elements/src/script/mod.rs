mod driver_manager;
mod dry;
mod expand;
mod functions;
mod handlers;
mod host;
mod instructions;
mod machine;
#[cfg(test)]
mod machine_tests;
mod message;
mod number;
mod program;
mod random_seed;
mod runner;
// The class Script, in the folder of scripts.
#[allow(clippy::module_inception)]
mod script;
mod signal;
mod sprintf;
#[cfg(test)]
mod tests;

pub use dry::dry_run;
use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<driver_manager::DriverManager>(),
    Class::of::<message::Message>(),
    Class::of::<random_seed::RandomSeed>(),
    Class::of::<script::Script>(),
];
