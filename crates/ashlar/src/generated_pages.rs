//! Generated pages of the repository: tests compare them with their sources, `make docs` writes them.

/// Compares a file, whose path is relative to the repository, with the text that `right` generates from its present
/// text. With `ASHLAR_BLESS=1` it writes the file instead.
pub(crate) fn check_or_bless(file: &str, right: impl FnOnce(&str) -> String) {
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let right = right(&written);
    if std::env::var_os("ASHLAR_BLESS").is_some() {
        std::fs::write(&path, right).expect("the page can be written");
        return;
    }
    assert!(
        written == right,
        "{file} is not up to date: run `make docs`"
    );
}

#[test]
fn contributing_shows_the_element_to_copy() {
    let source = include_str!("../../../examples/check-gtsm/src/check_gtsm.rs");
    check_or_bless("CONTRIBUTING.md", |written| {
        let (before, rest) = written.split_once("```rust\n").expect("a block of Rust");
        let (_, after) = rest.split_once("```\n\n").expect("its end");
        format!("{before}```rust\n{source}```\n\n{after}")
    });
}

#[test]
fn docs_api_md_lists_all_requests() {
    const HEAD: &str = "| method and path | what it does |\n|---|---|\n";
    let routes = control::api::request::ROUTES.iter();
    let rows: String = routes
        .map(|route| format!("| `{} {}` | {} |\n", route.method, route.target, route.doc))
        .collect();
    check_or_bless("docs/api.md", |written| {
        let (before, rest) = written.split_once(HEAD).expect("a table");
        let (_, after) = rest.split_once("\n\n").expect("its end");
        format!("{before}{HEAD}{rows}\n{after}")
    });
}
