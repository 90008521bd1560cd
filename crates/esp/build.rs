//! Generates bindings to intel-ipsec-mb where it is installed; without it only the portable ciphers are built.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(ipsec_mb)");
    let is_x86 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let under_miri = env::var_os("CARGO_CFG_MIRI").is_some();
    if !is_x86 || under_miri {
        return;
    }
    let bindings = bindgen::Builder::default()
        .header_contents("mb.h", "#include <intel-ipsec-mb.h>")
        // The header aligns GCM keys to 64 bytes only with this macro; the library is compiled with it.
        .clang_arg("-DLINUX")
        .allowlist_function(
            "alloc_mb_mgr|init_mb_mgr_auto|imb_get_mb_mgr_size|imb_set_pointers_mb_mgr",
        )
        .allowlist_type(
            "IMB_MGR|IMB_JOB|gcm_key_data|gcm_context_data|chacha20_poly1305_context_data",
        )
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
        .generate();
    let Ok(bindings) = bindings else {
        println!(
            "cargo::warning=intel-ipsec-mb is not installed (Debian: apt install libipsec-mb-dev): IPsec takes twice \
                the time without it"
        );
        return;
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings
        .write_to_file(out.join("mb.rs"))
        .expect("OUT_DIR can be written");
    println!("cargo::rustc-cfg=ipsec_mb");
    println!("cargo::rustc-link-lib=dylib=IPSec_MB");
}
