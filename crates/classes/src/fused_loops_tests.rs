//! A fused loop calls `step`, so it would silently skip code of a class in `process`.

use std::path::{Path, PathBuf};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// True if the element of a source handles batches in a way of its own; `None` if the source holds no element.
fn has_process(text: &str) -> Option<bool> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let (_, code) = code.split_once(" Element for ")?;
    Some(code.contains("fn process(") && !code.contains("fused::process(self"))
}

#[test]
fn no_class_of_a_fused_loop_handles_batches_in_a_way_of_its_own() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let sources = |name: &str| -> PathBuf { crates.join(name).join("src") };
    let mut seen = 0;
    for name in ["elements", "elements-cluster", "elements-linux"] {
        for line in read(&sources(name).join("fused_loops.rs")).lines() {
            let (folder, path) = match line.strip_prefix("use crate::") {
                Some(path) => (sources(name), path),
                None => match line.strip_prefix("use elements::") {
                    Some(path) => (sources("elements"), path),
                    None => continue,
                },
            };
            assert!(!path.contains(['{', '*']), "one class a line: {line}");
            let (file, _) = path.rsplit_once("::").expect("a class in a file");
            let file = file.replace("::", "/") + ".rs";
            match has_process(&read(&folder.join(&file))) {
                Some(has_process) => {
                    seen += 1;
                    assert!(
                        !has_process,
                        "{file}: a fused loop has a class with `process`"
                    );
                }
                // Shared code of classes of routes, or of an IP version.
                None => assert!(
                    ["route/", "vlb/", "linux/"]
                        .iter()
                        .any(|folder| file.starts_with(folder)),
                    "{file} holds no element"
                ),
            }
        }
    }
    assert!(seen >= 15, "only {seen} classes");
    let queue = read(&sources("elements").join("queue/queue.rs"));
    assert_eq!(has_process(&queue), Some(true), "the test finds `process`");
}
