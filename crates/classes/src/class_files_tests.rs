//! A file of the crates of classes is an element class. What classes need and is no class belongs to a crate below.

use std::path::{Path, PathBuf};

/// Number of files that contain no class. It may only fall: move helpers of classes to a crate below.
const HELPERS: usize = 111;

/// Sources under a folder, without tests and lists of modules and fused loops.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the sources are there");
    let mut all = Vec::new();
    for path in entries.map(|entry| entry.expect("the sources are there").path()) {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("names are text");
        let is_other =
            ["lib.rs", "mod.rs", "fused_loops.rs", "testing.rs", "tests"].contains(&name);
        if is_other || name.ends_with("tests.rs") {
            continue;
        }
        if path.is_dir() {
            all.extend(sources(&path));
        } else {
            all.push(path);
        }
    }
    all
}

#[test]
fn files_that_are_no_class_become_fewer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let has_class = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("sources are text");
        text.contains("manual!(") || text.contains(" Element for ")
    };
    let crates = std::fs::read_dir(&folder).expect("the crates are there");
    let crates = crates.map(|entry| entry.expect("the crates are there").path());
    let of_classes = crates.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("elements"))
    });
    let mut helpers: Vec<PathBuf> = of_classes
        .flat_map(|path| sources(&path.join("src")))
        .collect();
    helpers.retain(|path| !has_class(path));
    helpers.sort();
    let names = helpers
        .iter()
        .filter_map(|path| path.strip_prefix(&folder).ok());
    let list: Vec<String> = names.map(|name| name.display().to_string()).collect();
    assert!(
        list.len() <= HELPERS,
        "{} files are no class, and {HELPERS} were; a new one belongs to a crate below:\n{}",
        list.len(),
        list.join("\n")
    );
    assert_eq!(list.len(), HELPERS, "HELPERS can be lower now");
}
