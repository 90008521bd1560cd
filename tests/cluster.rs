//! Four routers that are one: what fails is found by heartbeats, and packets go round it.

use router_tests::Mesh;
use std::collections::BTreeSet;

/// Sends a packet each millisecond, more than the half of what goes straight, for a time. Gives each packet's
/// number and when it was sent.
fn load(mesh: &mut Mesh, milliseconds: usize) -> Vec<(u32, f64)> {
    let mut all = Vec::new();
    for _ in 0..milliseconds {
        mesh.send(0, 1);
        all.push((mesh.sent, mesh.time));
        mesh.step();
        mesh.step();
    }
    all
}

fn lost(mesh: &Mesh, sent: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let came: BTreeSet<u32> = mesh.came[1].iter().copied().collect();
    let sent = sent.iter().copied();
    sent.filter(|(number, _)| !came.contains(number)).collect()
}

/// A mesh in which each packet chooses its way.
fn spreading() -> Mesh {
    let mut mesh = Mesh::new(4, ", DELTA 0", "");
    mesh.until("whole", Mesh::is_whole);
    mesh
}

#[test]
fn a_cluster_carries_all_once_its_links_are_up() {
    let mut mesh = spreading();
    let sent = load(&mut mesh, 300);
    load(&mut mesh, 5);
    assert_eq!(lost(&mesh, &sent), []);
    let carried = mesh.router(2).handler("vlb.carried", "");
    assert!(carried.split(' ').any(|bytes| bytes != "0"), "{carried}");
}

#[test]
fn packets_go_round_a_router_that_is_stopped_within_50_ms_and_use_it_again() {
    let mut mesh = spreading();
    load(&mut mesh, 100);
    mesh.kill(2);
    let begin = mesh.time;
    let sent = load(&mut mesh, 300);
    load(&mut mesh, 5);
    let lost_now = lost(&mesh, &sent);
    assert!(!lost_now.is_empty(), "it carried something");
    let last = lost_now.last().map_or(0.0, |(_, time)| time - begin);
    assert!(last < 50.0, "a packet was lost after {last} ms");
    mesh.start(2);
    mesh.until("whole again", Mesh::is_whole);
    let sent = load(&mut mesh, 200);
    load(&mut mesh, 5);
    assert_eq!(lost(&mesh, &sent), []);
    let carried = mesh.router(2).handler("vlb.carried", "");
    assert!(carried.split(' ').any(|bytes| bytes != "0"), "{carried}");
    for node in 0..4 {
        mesh.router(node).books().check();
    }
}

#[test]
fn a_cable_that_is_cut_one_way_is_used_neither_way() {
    let mut mesh = spreading();
    mesh.cut(0, 1, true);
    let found = mesh.until("found", |mesh| {
        let all = [0, 1, 2, 3].map(|node| mesh.router(node).handler("vlb.links", ""));
        all.iter().all(|links| links.contains("n0-n1 down"))
    });
    assert!(found < 50.0, "{found} ms");
    assert!(
        mesh.router(0)
            .handler("hb.links", "")
            .starts_with("0 n1 down unheard")
    );
    assert!(
        mesh.router(1)
            .handler("hb.links", "")
            .starts_with("0 n0 down silent")
    );
    let sent = load(&mut mesh, 100);
    load(&mut mesh, 5);
    assert_eq!(lost(&mesh, &sent), [], "all go by n2 and n3");
    mesh.cut(0, 1, false);
    mesh.until("mended", Mesh::is_whole);
}

#[test]
fn who_has_no_key_gets_nothing_in_and_nothing_again() {
    let key = ", DELTA 0, KEY 000102030405060708090a0b0c0d0e0f";
    let mut mesh = Mesh::new(4, key, "");
    mesh.until("whole", Mesh::is_whole);
    mesh.wire.clear();
    let sent = load(&mut mesh, 50);
    // All that is on its way arrives.
    (0..10).for_each(|_| mesh.step());
    assert_eq!(lost(&mesh, &sent), []);
    let came = mesh.came[1].len();
    let mut frames = std::mem::take(&mut mesh.wire);
    assert!(frames.len() > 20, "packets and heartbeats");
    // Devices are numbered by name; that of the cable to the first router follows the external port.
    mesh.router(1).receive(1, frames.iter().map(Vec::as_slice));
    for frame in &mut frames {
        frame[3] ^= 1;
    }
    mesh.router(1).receive(1, frames.iter().map(Vec::as_slice));
    mesh.router(1).settle();
    assert_eq!(mesh.router(1).sent(0).len(), 0);
    assert_eq!(mesh.came[1].len(), came);
    let books = mesh.router(1).books();
    let drops = books.drops();
    let of = |name: &str| {
        drops
            .iter()
            .filter(|(path, _)| path.ends_with(name))
            .map(|d| d.1)
            .sum::<u64>()
    };
    assert_eq!(of(" replayed"), frames.len() as u64);
    assert_eq!(of(" forged") + of(" malformed"), frames.len() as u64);
    assert!(mesh.is_whole());
}
