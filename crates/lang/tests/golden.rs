//! Tests of diagnostics: each `golden/NAME.click` gives exactly `golden/NAME.txt`. `ASHLAR_BLESS=1 cargo test -p lang
//! golden::` rewrites the texts; read them.

use lang::{SourceMap, parse, render_all};
use std::path::Path;

fn said_about(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a golden file is readable");
    let name = path.file_name().expect("it has a name").to_string_lossy();
    let mut map = SourceMap::new();
    let file = map.add(name, text);
    let (_, diagnostics) = parse(&mut map, file, &[]);
    render_all(&diagnostics, &map)
}

#[test]
fn every_mistake_is_told_as_its_golden_text_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("ASHLAR_BLESS").is_some();
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_none_or(|e| e != "click") {
            continue;
        }
        count += 1;
        let said = said_about(&path);
        let golden = path.with_extension("txt");
        if bless {
            std::fs::write(&golden, &said).expect("golden texts can be written");
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        if said.is_empty() || said != expected {
            wrong.push(format!(
                "{}:\n{said}\nexpected:\n{expected}",
                path.display()
            ));
        }
    }
    assert!(count >= 45, "only {count} golden files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
