//! Ashlar with one class and one kind of port more.

mod check_gtsm;
mod udp_port;

/// The classes that are added.
const CLASSES: &[&[engine::prelude::Class]] =
    &[&[engine::prelude::Class::of::<check_gtsm::CheckGtsm>()]];

/// The kinds of ports that are added.
const SCHEMES: &[&dyn ports::scheme::Scheme] = &[&udp_port::Udp];

fn main() -> std::process::ExitCode {
    ashlar::main(CLASSES, SCHEMES)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_manual_page_has_an_example_that_checks() {
        let wrong = testkit::manual_errors(crate::CLASSES, classes::all());
        assert!(wrong.is_empty(), "{wrong}");
    }
}
