//! Gives `manual!()` the directory of the source paths: the compiler names sources from the root of the workspace, or
//! from the root of the file system if this crate lies outside of it.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let this = format!("{folder}/build.rs");
    let before = this.strip_suffix(file!());
    let before = before.expect("the compiler was given a path of this file");
    println!("cargo:rustc-env=SOURCES_BEGIN={before}");
    println!("cargo:rerun-if-changed=build.rs");
}
