//! Four routers that are one: what fails is found by heartbeats, and packets go round it.

use cluster::map::Map;
use router_tests::{Cluster, dropped_as, host_packet};
use std::collections::BTreeSet;

/// A mesh whose nodes have external ports of 8 Mbit/s, and packets from node 0 to node 1.
struct Bed {
    cluster: Cluster,
    sent: u16,
    came: BTreeSet<u16>,
}

impl Bed {
    /// A mesh in which each packet chooses its way, once its links are up.
    fn new(arguments: &str) -> Bed {
        let arguments = format!(", DELTA 0{arguments}");
        let mut cluster = Cluster::new(Map::mesh(4, 8e6), &arguments, Some(""));
        cluster.until("whole", Cluster::is_whole);
        Bed {
            cluster,
            sent: 0,
            came: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        let arrived = self.cluster.step();
        let numbers = arrived[1].iter().map(|p| u16::from_be_bytes([p[4], p[5]]));
        self.came.extend(numbers);
    }

    /// Sends a packet each millisecond, more than the half of what goes straight, for a time. Gives each packet's
    /// number and when it was sent.
    fn load(&mut self, milliseconds: usize) -> Vec<(u16, f64)> {
        let mut all = Vec::new();
        for _ in 0..milliseconds {
            self.sent += 1;
            self.cluster.send(0, &host_packet(0, 1, self.sent));
            all.push((self.sent, self.cluster.time));
            self.step();
            self.step();
        }
        all
    }

    /// What of that has not come, when all that was on its way has.
    fn lost(&mut self, sent: &[(u16, f64)]) -> Vec<(u16, f64)> {
        (0..10).for_each(|_| self.step());
        let sent = sent.iter().copied();
        sent.filter(|(number, _)| !self.came.contains(number))
            .collect()
    }

    /// Whether a node carries what others send.
    fn carries(&mut self, node: usize) -> bool {
        let carried = self.cluster.router(node).handler("vlb.carried", "");
        carried.split(' ').any(|bytes| bytes != "0")
    }
}

#[test]
fn a_cluster_carries_all_once_its_links_are_up() {
    let mut bed = Bed::new("");
    let sent = bed.load(300);
    assert_eq!(bed.lost(&sent), []);
    assert!(bed.carries(2));
}

#[test]
fn packets_go_round_a_router_that_is_stopped_within_50_ms_and_use_it_again() {
    let mut bed = Bed::new("");
    bed.load(100);
    bed.cluster.kill(2);
    let begin = bed.cluster.time;
    let sent = bed.load(300);
    let lost = bed.lost(&sent);
    assert!(!lost.is_empty(), "it carried something");
    let last = lost.last().map_or(0.0, |(_, time)| time - begin);
    assert!(last < 50.0, "a packet was lost after {last} ms");
    bed.cluster.start(2);
    bed.cluster.until("whole again", Cluster::is_whole);
    let sent = bed.load(200);
    assert_eq!(bed.lost(&sent), []);
    assert!(bed.carries(2));
    for router in bed.cluster.routers() {
        router.books().check();
    }
}

#[test]
fn a_cable_that_is_cut_one_way_is_used_neither_way() {
    let mut bed = Bed::new("");
    bed.cluster.cut(0, 1, true);
    let found = bed.cluster.until("found", |cluster| {
        let mut all = cluster
            .routers()
            .map(|router| router.handler("vlb.links", ""));
        all.all(|links| links.contains("n0-n1 down"))
    });
    assert!(found < 50.0, "{found} ms");
    for (node, state) in [(0, "0 n1 down unheard"), (1, "0 n0 down silent")] {
        let links = bed.cluster.router(node).handler("hb.links", "");
        assert!(links.starts_with(state), "{links}");
    }
    let sent = bed.load(100);
    assert_eq!(bed.lost(&sent), [], "all go by n2 and n3");
    bed.cluster.cut(0, 1, false);
    bed.cluster.until("mended", Cluster::is_whole);
}

#[test]
fn who_has_no_key_gets_nothing_in_and_nothing_again() {
    let mut bed = Bed::new(", KEY 000102030405060708090a0b0c0d0e0f");
    bed.cluster.wire.clear();
    let sent = bed.load(50);
    assert_eq!(bed.lost(&sent), []);
    let mut frames = std::mem::take(&mut bed.cluster.wire);
    assert!(frames.len() > 20, "packets and heartbeats");
    for frame in &frames {
        bed.cluster.inject(1, 0, frame);
    }
    for frame in &mut frames {
        frame[3] ^= 1;
        bed.cluster.inject(1, 0, frame);
    }
    assert!(bed.cluster.settle()[1].is_empty());
    let drops = bed.cluster.router(1).books().drops();
    let of = |name: &str| dropped_as(&drops, name);
    assert_eq!(of(" replayed"), frames.len() as u64);
    assert_eq!(of(" forged") + of(" malformed"), frames.len() as u64);
    assert!(bed.cluster.is_whole());
}

#[test]
fn what_passes_inside_is_nothing_to_a_router_that_gets_it_from_outside() {
    for key in ["", ", KEY 000102030405060708090a0b0c0d0e0f"] {
        let mut bed = Bed::new(key);
        bed.cluster.wire.clear();
        let sent = bed.load(50);
        assert_eq!(bed.lost(&sent), []);
        let frames = std::mem::take(&mut bed.cluster.wire);
        assert!(frames.len() > 20, "packets and heartbeats");
        let before = bed.cluster.router(1).books().drops();
        for frame in &frames {
            bed.cluster.send_frame(1, frame);
        }
        let arrived = bed.cluster.settle();
        // To a port outside it is a packet with a hop less than it had inside.
        let packets = frames.iter().filter(|frame| frame[12..14] == [8, 0]);
        let wanted: Vec<u8> = packets.map(|frame| frame[14 + 8] - 1).collect();
        let hops: Vec<u8> = arrived[1].iter().map(|packet| packet[8]).collect();
        assert_eq!(hops, wanted);
        assert_eq!(
            hops.is_empty(),
            !key.is_empty(),
            "with a key no frame is one of IP"
        );
        let inside = |drops: &[(String, u64)]| {
            let all = drops
                .iter()
                .filter(|(name, _)| ["transit", "hb"].iter().any(|of| name.starts_with(of)));
            all.cloned().collect::<Vec<_>>()
        };
        let after = bed.cluster.router(1).books().drops();
        assert_eq!(inside(&after), inside(&before));
        assert!(bed.cluster.is_whole());
    }
}
