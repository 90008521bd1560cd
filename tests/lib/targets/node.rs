//! Three nodes of a cluster with a key, and an attacker who records frames and sends anything on any link. Hosts get
//! only packets of hosts, each at most once, and no node fails.

use super::Choices;
use crate::cluster::{Cluster, host_packet};
use cluster::map::Map;
use std::collections::HashSet;

const NODES: usize = 3;
const STEPS: usize = 200;
const ARGUMENTS: &str = ", DELTA 0, KEY 000102030405060708090a0b0c0d0e0f";

/// Runs steps, each a byte for the event, and its parameters.
pub fn run(data: &[u8]) {
    let mut cluster = Cluster::new(Map::mesh(NODES, 8e6), ARGUMENTS, Some(""));
    cluster.until("whole", Cluster::is_whole);
    cluster.wire.clear();
    let (mut choices, mut number) = (Choices(data), 0u16);
    let (mut seen, mut recorded) = (HashSet::new(), Vec::new());
    for _ in 0..STEPS {
        if choices.is_empty() {
            break;
        }
        let what = choices.byte();
        let (node, own) = (
            usize::from(what >> 3) % NODES,
            usize::from(what >> 6) % (NODES - 1),
        );
        match what % 8 {
            0 | 1 => {
                number += 1;
                cluster.send(node, &host_packet(node, (node + 1 + own) % NODES, number));
            }
            2 => cluster.inject(node, own, choices.bytes(64)),
            3 if what == 0xfb => {
                cluster.kill(2);
                cluster.start(2);
            }
            // A recorded frame, unchanged, or changed in a place, shorter or longer.
            kind => {
                let at = usize::from(choices.byte());
                let frame = recorded.get(at % recorded.len().max(1)).cloned();
                let mut frame: Vec<u8> = frame.unwrap_or_default();
                let place = usize::from(choices.byte()) % frame.len().max(1);
                match kind {
                    4 => frame
                        .iter_mut()
                        .skip(place)
                        .take(1)
                        .for_each(|byte| *byte ^= what | 1),
                    5 => frame.truncate(place),
                    6 => frame.extend(choices.bytes(place % 16)),
                    _ => {}
                }
                cluster.inject(node, own, &frame);
            }
        }
        for (node, packets) in cluster.step().iter().enumerate() {
            for packet in packets {
                let id = u16::from_be_bytes([packet[4], packet[5]]);
                assert!((1..=number).contains(&id), "nobody has sent {id}");
                assert!(seen.insert(id), "{id} came twice, to node {node}");
                assert_eq!(usize::from(packet[18]), node, "{id} came to another node");
            }
        }
        recorded.append(&mut cluster.wire);
    }
}
