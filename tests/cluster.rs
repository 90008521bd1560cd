//! Four routers that act as one: heartbeats detect failures, and packets take other paths.

use cluster::map::Map;
use router_tests::{Cluster, dropped_as, host_packet};
use std::collections::BTreeSet;

const KEY: &str = ", KEY 000102030405060708090a0b0c0d0e0f";

/// A mesh whose nodes have external ports of 8 Mbit/s, and packets from one node to another.
struct Bed {
    cluster: Cluster,
    /// At the start, from node 0 to node 1.
    ends: (usize, usize),
    sent: u16,
    came: BTreeSet<u16>,
}

impl Bed {
    /// A mesh in which each packet chooses its path, once its links are up.
    fn new(arguments: &str) -> Bed {
        let arguments = format!(", DELTA 0{arguments}");
        let mut cluster = Cluster::new(Map::mesh(4, 8e6), &arguments, Some(""));
        cluster.until("whole", Cluster::is_whole);
        Bed {
            cluster,
            ends: (0, 1),
            sent: 0,
            came: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        let arrived = self.cluster.step();
        let numbers = arrived[self.ends.1]
            .iter()
            .map(|p| u16::from_be_bytes([p[4], p[5]]));
        self.came.extend(numbers);
    }

    /// Sends a packet each millisecond for a time, more than half of the direct quota. Returns each packet's number and
    /// time.
    fn load(&mut self, milliseconds: usize) -> Vec<(u16, f64)> {
        let mut all = Vec::new();
        for _ in 0..milliseconds {
            self.sent += 1;
            let (from, to) = self.ends;
            self.cluster.send(from, &host_packet(from, to, self.sent));
            all.push((self.sent, self.cluster.time));
            self.step();
            self.step();
        }
        all
    }

    /// Sent packets that have not arrived, after all packets under way have.
    fn lost(&mut self, sent: &[(u16, f64)]) -> Vec<(u16, f64)> {
        (0..10).for_each(|_| self.step());
        let sent = sent.iter().copied();
        sent.filter(|(number, _)| !self.came.contains(number))
            .collect()
    }

    /// Frames of packets from node 0 that crossed its link to node 1 within a time, or were lost there.
    fn record(&mut self, milliseconds: usize) -> Vec<Vec<u8>> {
        self.cluster.wire.clear();
        self.load(milliseconds);
        let mut frames = std::mem::take(&mut self.cluster.wire);
        frames.retain(|frame| frame[12..14] == [0x88, 0xb5]);
        assert!(frames.len() >= 2, "packets go straight");
        frames
    }

    /// Injects frames into a node as if they came by its own link. Returns what the node drops, by name. No frame may
    /// reach a host.
    fn play(&mut self, node: usize, own: usize, frames: &[Vec<u8>], name: &str) -> u64 {
        let count = |bed: &mut Bed| dropped_as(&bed.cluster.router(node).books().drops(), name);
        let before = count(self);
        for frame in frames {
            self.cluster.inject(node, own, frame);
        }
        let arrived = self.cluster.settle();
        assert!(
            arrived.iter().all(Vec::is_empty),
            "what was played is delivered"
        );
        count(self) - before
    }

    /// True if a node carries packets of other senders.
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
fn cable_cut_in_one_direction_is_unused_in_both() {
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
fn frames_without_the_key_and_replayed_frames_are_refused() {
    let mut bed = Bed::new(KEY);
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
fn internal_frames_from_outside_are_refused() {
    for key in ["", KEY] {
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
        // A packet to an external port has one hop less than inside.
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

#[test]
fn frames_that_are_sent_back_are_forged_and_the_link_goes_on() {
    let mut bed = Bed::new(KEY);
    let frames = bed.record(30);
    assert_eq!(
        bed.play(0, 0, &frames, "transit forged"),
        frames.len() as u64
    );
    (bed.ends, bed.came) = ((1, 0), BTreeSet::new());
    let sent = bed.load(50);
    assert_eq!(bed.lost(&sent), []);
}

#[test]
fn frames_that_are_played_on_another_link_are_forged() {
    let mut bed = Bed::new(KEY);
    let frames = bed.record(30);
    assert_eq!(
        bed.play(2, 0, &frames, "transit forged"),
        frames.len() as u64
    );
}

#[test]
fn frames_that_have_not_come_yet_are_taken_as_they_were_sent_and_not_with_any_other_byte() {
    let mut bed = Bed::new(KEY);
    bed.cluster.cut(0, 1, true);
    let frames = bed.record(4);
    bed.cluster.cut(0, 1, false);
    let bytes = frames[0].len();
    for at in [56, 84, 85, 100, bytes - 1] {
        let mut changed = frames.clone();
        changed.iter_mut().for_each(|frame| frame[at] ^= 0x40);
        assert_eq!(
            bed.play(1, 0, &changed, "transit forged"),
            frames.len() as u64,
            "byte {at}"
        );
    }
    let mut other = frames.clone();
    other.iter_mut().for_each(|frame| _ = frame.pop());
    assert_eq!(
        bed.play(1, 0, &other, "transit forged"),
        frames.len() as u64,
        "shorter"
    );
    other = frames.clone();
    other.iter_mut().for_each(|frame| frame.push(0));
    assert_eq!(
        bed.play(1, 0, &other, "transit forged"),
        frames.len() as u64,
        "longer"
    );
    frames
        .iter()
        .for_each(|frame| bed.cluster.inject(1, 0, frame));
    assert_eq!(bed.cluster.settle()[1].len(), frames.len());
    assert_eq!(
        bed.play(1, 0, &frames, "transit replayed"),
        frames.len() as u64
    );
}

#[test]
fn frames_that_came_before_a_restart_of_either_end_are_forged_after_it() {
    for node in [1, 0] {
        let mut bed = Bed::new(KEY);
        let frames = bed.record(30);
        bed.cluster.kill(node);
        bed.cluster.until("found", |cluster| !cluster.is_whole());
        bed.cluster.start(node);
        bed.play(1, 0, &frames, "transit no_key"); // before the new life is known, too
        bed.cluster.until("whole again", Cluster::is_whole);
        assert_eq!(
            bed.play(1, 0, &frames, "transit forged"),
            frames.len() as u64
        );
        let sent = bed.load(50);
        assert_eq!(bed.lost(&sent), []);
    }
}

#[test]
fn restarted_node_with_another_clock_accepts_no_replayed_frame() {
    let mut bed = Bed::new(KEY);
    bed.load(200);
    bed.cluster.kill(1);
    bed.cluster.until("found", |cluster| !cluster.is_whole());
    bed.cluster.start(1);
    bed.cluster.until("whole again", Cluster::is_whole);
    (bed.ends, bed.came) = ((1, 0), BTreeSet::new());
    let sent = bed.load(50);
    assert_eq!(bed.lost(&sent), []);
}

#[test]
fn a_cluster_changes_its_key_without_losing_a_packet() {
    let (old, new) = ("0".repeat(32), "1".repeat(32));
    let mut bed = Bed::new(&format!(", KEY {old}"));
    let recorded = bed.record(30);
    let steps = [format!("{old} {new}"), format!("{new} {old}"), new];
    let mut sent = Vec::new();
    for step in steps {
        for node in 0..4 {
            bed.cluster.reload(node, &format!(", DELTA 0, KEY {step}"));
            sent.extend(bed.load(20));
            assert!(bed.cluster.is_whole());
        }
    }
    assert_eq!(bed.lost(&sent), []);
    assert_eq!(
        bed.play(1, 0, &recorded, "transit forged"),
        recorded.len() as u64
    );
}
