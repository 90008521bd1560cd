//! Ashlar with one class more.

mod check_gtsm;

/// The classes that are added.
const CLASSES: &[&[engine::prelude::Class]] =
    &[&[engine::prelude::Class::of::<check_gtsm::CheckGtsm>()]];

fn main() -> std::process::ExitCode {
    ashlar::main(CLASSES)
}
