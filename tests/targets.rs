//! Every fuzz target on its seeds, on changed seeds and on seeded random bytes, so that stable
//! builds run them too.

use control::file;
use router_tests::targets::{ALL, Target};
use std::path::Path;
use testkit::Rng;

/// The seeds of a target, by name of the file.
fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let files = std::fs::read_dir(folder.join(target.name)).expect("every target has seeds");
    let mut paths: Vec<_> = files.map(|f| f.expect("a file").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seed", target.name);
    let read = |path| std::fs::read(path).expect("a seed can be read");
    paths.into_iter().map(read).collect()
}

/// Replaces, removes, repeats or inserts a few bytes.
fn change(seed: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.range(1..6) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + rng.range(1..9)).min(bytes.len());
        match rng.below(4) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            2 => bytes.insert(at, rng.u8()),
            _ if at < bytes.len() => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0xff, rng.clone().u8()]),
            _ => {}
        }
    }
    bytes
}

/// Runs a target on its seeds, `changed` changed ones and `random` random inputs.
fn run(name: &str, changed: usize, random: usize) {
    let target = ALL.iter().find(|t| t.name == name).expect("it is listed");
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| (target.run)(seed));
    let mut rng = Rng::seed(1);
    for _ in 0..changed {
        let seed = rng.pick(&seeds).clone();
        (target.run)(&change(&seed, &mut rng));
    }
    for _ in 0..random {
        let n = rng.below(300);
        (target.run)(&rng.bytes(n));
    }
}

#[test]
fn captures_of_any_bytes_are_read() {
    run("capture", 4_000, 1_000);
}

#[test]
fn balancer_files_are_refused_or_runnable() {
    run("balancer", 600, 100);
}

#[test]
fn message_of_another_balancer_is_refused_or_read_as_it_is_written() {
    run("peers", 600, 100);
}

#[test]
fn probe_port_accepts_any_bytes() {
    run("probes", 600, 100);
}

#[test]
fn internal_links_may_bring_any_bytes() {
    run("cluster", 20_000, 5_000);
}

#[test]
fn configurations_of_any_bytes_are_planned_or_refused() {
    run("config", 3_000, 1_000);
}

#[test]
fn handlers_take_or_refuse_any_value() {
    run("control", 100, 50);
}

#[test]
fn cluster_files_are_refused_or_runnable_on_all_servers() {
    run("description", 600, 100);
}

#[test]
fn flows_of_any_words_get_what_the_link_has_or_nothing() {
    run("flows", 1_500, 300);
}

#[test]
fn a_routing_daemon_may_send_any_bytes() {
    run("fpm", 8_000, 1_000);
}

#[test]
fn a_leader_may_send_any_bytes_as_routes() {
    run("stream", 8_000, 1_000);
}

#[test]
fn a_whole_router_takes_any_frames() {
    run("graph", 2_000, 500);
}

#[test]
fn multiplying_configurations_are_bounded() {
    run("expansion", 300, 100);
}

#[test]
fn kept_program_may_send_any_message() {
    run("keep", 4_000, 1_000);
}

#[test]
fn a_router_takes_any_frames_whatever_its_kernel_says() {
    run("linux", 2_000, 500);
}

#[test]
fn header_views_read_any_bytes() {
    run("headers", 4_000, 2_000);
}

#[test]
fn encrypted_packets_may_have_any_bytes() {
    run("ipsec", 300, 100);
}

#[test]
fn the_language_reads_any_bytes() {
    run("language", 2_000, 1_000);
}

#[test]
fn dps_states_of_any_bytes_are_checked() {
    run("dps", 800, 300);
}

#[test]
fn label_stacks_of_any_bytes_are_followed_or_dropped() {
    run("mpls", 800, 300);
}

#[test]
fn netlink_messages_of_any_bytes_are_read_or_refused() {
    run("netlink", 8_000, 1_000);
}

#[test]
fn a_cluster_with_a_key_delivers_what_was_sent_once_whatever_somebody_plays() {
    run("node", 40, 5);
}

#[test]
fn patterns_of_any_bytes_are_compiled_or_refused() {
    run("patterns", 1_500, 300);
}

#[test]
fn super_frames_and_unfinished_checksums_of_any_bytes_are_cut_or_refused() {
    run("offload", 8_000, 1_000);
}

#[test]
fn rewriters_take_any_packets_from_both_sides() {
    run("rewriters", 1_000, 200);
}

#[test]
fn files_of_routers_are_refused_or_what_they_share_takes_any_frames() {
    run("routers", 1_500, 200);
}

#[test]
fn scripts_of_any_bytes_end_or_wait() {
    run("script", 500, 200);
}

#[test]
fn clients_of_a_control_socket_may_send_any_bytes() {
    run("socket", 8_000, 1_000);
}

#[test]
fn summary_dumps_of_any_bytes_are_read_and_any_packet_is_written() {
    run("summary", 1_000, 300);
}

#[test]
fn descriptions_to_begin_with_are_right() {
    let target = ALL.iter().find(|t| t.name == "description");
    for seed in seeds(target.expect("it is listed")) {
        let parsed = file::parse_cluster("seed", &String::from_utf8_lossy(&seed));
        assert!(parsed.description.is_some(), "{}", parsed.text());
    }
}

#[test]
fn every_target_has_its_file_and_its_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).expect("the targets lie beside the workspace");
    let mut found: Vec<_> = files
        .filter_map(|f| f.expect("a file").file_name().into_string().ok())
        .collect();
    found.sort();
    let listed: Vec<_> = ALL.iter().map(|t| format!("{}.rs", t.name)).collect();
    assert_eq!(found, listed);
}

#[test]
fn messages_of_xfrm_change_a_table_or_are_refused() {
    run("xfrm", 4_000, 1_000);
}
