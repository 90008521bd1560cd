//! Linux interfaces.

mod needs_root;

#[test]
fn errors_name_the_cause_and_the_remedy() {
    use engine::port::PortDirectory;
    let directory = ports::Directory::new();
    let error = directory.probe("no-such-if0").unwrap_err();
    assert!(
        error.contains("there is no interface no-such-if0"),
        "{error}"
    );
    assert!(error.contains("lo"), "{error}");
}
