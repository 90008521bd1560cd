//! The examples of the manual pages are configurations that `ashlar check` accepts.

#[test]
fn every_class_has_an_example_and_all_can_be_planned() {
    let wrong = testkit::manual_errors(crate::all(), &[]);
    assert!(wrong.is_empty(), "{wrong}");
}
