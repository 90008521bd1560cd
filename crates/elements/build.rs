//! Gives `manual!()` the directory of the source paths, for all crates of element classes: the compiler names sources
//! from the root of the workspace, or from the root of the file system if the crates lie outside of it.

use std::path::Path;

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let mut before = String::new();
    if !Path::new(file!()).is_absolute() {
        // The crates' folders lie in `crates` of the root.
        let root = Path::new(&folder).ancestors().nth(2);
        before = format!("{}/", root.expect("a folder in `crates`").display());
    }
    println!("cargo:rustc-env=SOURCES_BEGIN={before}");
    println!("cargo:rerun-if-changed=../elements/build.rs");
}
