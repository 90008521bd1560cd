//! Ashlar with one class more.

mod check_gtsm;

/// The classes that are added.
const CLASSES: &[&[engine::prelude::Class]] =
    &[&[engine::prelude::Class::of::<check_gtsm::CheckGtsm>()]];

fn main() -> std::process::ExitCode {
    ashlar::main(CLASSES)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_manual_page_has_an_example_that_checks() {
        let wrong = testkit::manual_errors(crate::CLASSES, elements::CLASSES);
        assert!(wrong.is_empty(), "{wrong}");
    }
}
