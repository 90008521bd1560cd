//! Makes bindings to the system's DPDK: the declarations that `ports` uses, and a C function for
//! each inline one.

use std::env;
use std::path::PathBuf;
use std::process::exit;

/// Functions, types and constants that are bound; what they need comes with them.
const FUNCTIONS: &[&str] = &[
    "ashlar_errno",
    "rte_dev_(event_callback_register|probe|remove)",
    "rte_eal_alarm_set",
    "rte_eal_cleanup",
    "rte_eal_init",
    "rte_eth_dev_(close|configure|count_avail|get_mtu|get_port_by_name|info_get|start|stop)",
    "rte_eth_dev_(adjust_nb_rx_tx_desc|default_mac_addr_set|socket_id)",
    "rte_eth_(allmulticast_enable|promiscuous_(disable|enable))",
    "rte_eth_dev_rss_(hash_update|reta_query|reta_update)",
    "rte_eth_link_get_nowait",
    "rte_eth_macaddr_get",
    "rte_eth_(rx|tx)_queue_setup",
    "rte_eth_stats_get",
    "rte_eth_xstats_(get|get_names)",
    "rte_flow_(create|destroy|flush|validate)",
    "rte_lcore_id",
    "rte_mempool_(free|in_use_count|obj_iter)",
    "rte_pktmbuf_(alloc|free|pool_create)",
    "rte_strerror",
    "rte_thread_(register|unregister)",
    "rte_version",
];
const TYPES: &[&str] = &[
    "rte_mbuf",
    "rte_eth_rss_conf",
    "rte_eth_rss_reta_entry64",
    "rte_eth_xstat",
    "rte_eth_xstat_name",
    "rte_flow_(action|action_queue|action_type|attr|error|item|item_type)",
    "rte_flow_item_(eth|ipv4|ipv6|sctp|tcp|udp|vlan)",
];
const VARIABLES: &[&str] = &["ASHLAR_RSS", "RTE_DEV_EVENT_REMOVE", "rte_eth_fp_ops"];

fn main() {
    println!("cargo::rerun-if-changed=wrapper.h");
    println!("cargo::rerun-if-changed=build.rs");
    let found = pkg_config::Config::new()
        .cargo_metadata(false)
        .probe("libdpdk");
    let Ok(dpdk) = found else {
        println!(
            "cargo::error=DPDK's headers are missing: install them (Debian: apt install libdpdk-dev)"
        );
        exit(1);
    };
    // The libraries that are used, not all fifty of libdpdk: each one costs time at start.
    for library in [
        "rte_eal",
        "rte_ethdev",
        "rte_mbuf",
        "rte_mempool",
        "rte_ring",
    ] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    for path in &dpdk.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let inline = out.join("inline");
    let mut flags: Vec<String> = dpdk
        .include_paths
        .iter()
        .map(|path| format!("-I{}", path.display()))
        .collect();
    flags.extend(["-include", "rte_config.h", "-DALLOW_EXPERIMENTAL_API"].map(String::from));
    #[cfg(target_arch = "x86_64")]
    flags.push("-march=corei7".into());
    bind(&flags, &inline)
        .write_to_file(out.join("bindings.rs"))
        .expect("OUT_DIR can be written");
    let mut build = cc::Build::new();
    build
        .file(inline.with_extension("c"))
        .include(".")
        .warnings(false)
        .opt_level(3);
    for flag in &flags {
        build.flag(flag);
    }
    build.compile("dpdk_inline");
}

fn bind(flags: &[String], inline: &std::path::Path) -> bindgen::Bindings {
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(flags)
        .wrap_static_fns(true)
        .wrap_static_fns_path(inline)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
        // Packed structures inside packed ones, which Rust cannot express.
        .opaque_type("rte_.*_hdr")
        .opaque_type("rte_arp.*")
        .opaque_type("rte_l2tpv2.*")
        .opaque_type("rte_gtp.*");
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in TYPES {
        builder = builder.allowlist_type(name);
    }
    for name in VARIABLES {
        builder = builder.allowlist_var(name);
    }
    match builder.generate() {
        Ok(bindings) => bindings,
        Err(e) => {
            println!("cargo::error=cannot make bindings to DPDK: {e}");
            exit(1);
        }
    }
}
